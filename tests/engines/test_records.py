"""The sampler of perturbed records: its density against the definition, its draws against truth."""

import numpy as np
import pytest

import dpbayes as dpb
from dpbayes.engines import records
from dpbayes.engines.density import sample_density
from dpbayes.errors import ConvergenceWarning
from dpbayes.kernels import smooth as kernel
from dpbayes.models.record_plan import plan_forms, plan_records
from dpbayes.priors import Smooth


def released(n=3000, scale=0.1, seed=0, clip=1.0):
    rng = np.random.default_rng(seed)
    truth = np.minimum(rng.beta(2, 5, n) / 0.6, 1.0) if clip < 1 else rng.beta(2, 5, n)
    return truth, dpb.RecordRelease(
        truth + rng.laplace(0, scale, n), mechanism=dpb.Laplace(scale=scale), bounds=(0, 1)
    )


@pytest.mark.parametrize("atoms", ["none", "both"])
def test_posterior_is_near_standard_normal_in_its_coordinates(atoms):
    _, release = released()
    plan = plan_records(release, Smooth(order=1, atoms=atoms, cells=12))
    frame, (table, counts) = plan.whitening.frame, plan.likelihood.seen
    drawn, stats = sample_density(
        lambda x: kernel.log_posterior(x, frame, table, counts), plan.whitening.size,
        draws=400, thin=1, tune=400, chains=2, seed=np.random.SeedSequence(1), target_accept=0.9,
        progressbar=False,
    )  # fmt: skip
    flat = drawn.reshape(-1, drawn.shape[-1])
    assert np.all(np.abs(flat.mean(axis=0)) < 0.6)
    assert np.all((flat.std(axis=0) > 0.6) & (flat.std(axis=0) < 1.6))
    assert int(stats["diverging"].sum()) == 0
    assert float(stats["n_steps"].mean()) < 20


def test_truth_is_covered_and_the_fit_repeats():
    truth, release = released(n=4000)
    prior = Smooth(order=1, atoms="upper", cells=20)
    first, again = (
        dpb.fit(release, prior, draws=300, random_seed=3, progressbar=False) for _ in range(2)
    )
    assert np.array_equal(first.probability, again.probability)
    assert first.verdict().converged
    low, high = first.table.mean().quantile([0.005, 0.995]).values
    assert low <= truth.mean() <= high
    at = [0.1, 0.3, 0.5]
    low, high = first.table.cdf(at).quantile([0.005, 0.995], ("chain", "draw")).values
    share = np.array([(truth <= x).mean() for x in at])
    assert np.all((low <= share) & (share <= high))
    total = first.count.sum("bin") + first.data["posterior"]["atom_count"].sum("atom")
    assert np.all(total.values == release.size)


def test_whole_numbers():
    rng = np.random.default_rng(2)
    truth = rng.binomial(8, 0.3, 3000)
    law = dpb.DiscreteLaplace(scale=1.5)
    release = dpb.RecordRelease(
        truth + law.rvs(truth.size, rng), mechanism=law, bounds=(0, 8), support="integers"
    )
    posterior = dpb.fit(release, draws=300, random_seed=3, target_accept=0.99, progressbar=False)
    assert posterior.probability.dims == ("chain", "draw", "value")
    assert posterior.probability.sizes["value"] == 9
    low, high = posterior.probability.quantile([0.005, 0.995], ("chain", "draw")).values
    exact = np.bincount(truth, minlength=9) / truth.size
    assert np.all((low - 0.02 <= exact) & (exact <= high + 0.02))
    low, high = posterior.table.mean().quantile([0.005, 0.995]).values
    assert low <= truth.mean() <= high


def test_shares_of_the_draws():
    weights = np.array([0.62, 0.3, 0.08])
    rng = np.random.default_rng(0)
    shares = np.array([records._shares(weights, 10, rng) for _ in range(3000)])
    assert np.all(shares.sum(axis=1) == 10)
    assert np.all(np.abs(shares - 10 * weights) < 1.0)
    np.testing.assert_allclose(shares.mean(axis=0), 10 * weights, atol=0.05)
    assert records._shares(np.array([1.0]), 7, rng).tolist() == [7]


def test_mixed_draws_keep_their_order_and_belong_together():
    one, two = np.arange(8.0).reshape(2, 4), 100.0 + np.arange(12.0).reshape(2, 6)
    parts = [{"probability": x[..., None], "walk_scale": 2 * x} for x in (one, two)]
    mixed = records._mix(parts, np.random.default_rng(1))
    for chain in range(2):
        found = mixed["probability"][chain, :, 0]
        assert found[found < 100].tolist() == one[chain].tolist()
        assert found[found >= 100].tolist() == two[chain].tolist()
        assert np.any(np.diff(found < 100))
        np.testing.assert_array_equal(mixed["walk_scale"][chain], 2 * found)


def test_forms_that_the_release_does_not_tell_apart_are_mixed():
    _, release = released(n=1000, scale=0.5)
    fitted = dpb.fit(release, draws=400, tune=600, random_seed=4, progressbar=False)
    (note,) = (n for n in fitted.verdict().notes if "does not settle the form" in n)
    plans = plan_forms(release)
    kept = [p for p in plans if p.form.weight >= 0.02]
    assert len(kept) > 2
    for plan in kept:
        assert f"{plan.form.weight:.0%} random walk of order {plan.form.order}" in note
    weights = np.array([p.form.weight for p in kept])
    data = fitted.data["posterior"].to_dataset()
    mass, count = data["atom_probability"], data["atom_count"]
    total = fitted.probability.sum("bin") + mass.sum("atom")
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)
    assert np.all(count.where(mass == 0, 0) == 0)
    atoms = np.array([[bound in p.atoms for bound in (0.0, 1.0)] for p in kept])
    share = (mass > 0).mean(("chain", "draw")).values
    np.testing.assert_allclose(share, weights @ atoms / weights.sum(), atol=0.02)
    before = fitted.data["prior"]["atom_probability"]
    np.testing.assert_allclose((before > 0).mean(("chain", "draw")), atoms.mean(axis=0), atol=0.01)
    assert np.all((mass > 0).any("draw") & (mass == 0).any("draw"))  # in every chain


def test_chains_run_again_with_smaller_steps_where_they_do_not_pass(monkeypatch):
    _, release = released(n=300)
    targets = []
    original = records.draw_form

    def watched(plan, settings, seed):
        targets.append((settings.target_accept, settings.thin))
        return original(plan, settings, seed)

    monkeypatch.setattr(records, "draw_form", watched)
    prior = Smooth(order=1, atoms="none", cells=12)
    with pytest.warns(ConvergenceWarning, match="too few effective draws"):
        posterior = dpb.fit(release, prior, draws=20, tune=200, random_seed=1, progressbar=False)
    assert targets == [(0.95, 1), (0.99, 4)]
    assert posterior.probability.sizes["draw"] == 20
