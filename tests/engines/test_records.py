"""The sampler of perturbed records: its density against the definition, its draws against truth."""

import numpy as np
import pytest

import dpbayes as dpb
from dpbayes.engines import records
from dpbayes.models.record_plan import plan_records
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
    drawn, stats = records._sample(plan, 400, 1, 400, 2, np.random.SeedSequence(1), 0.9, False)
    flat = drawn.reshape(-1, drawn.shape[-1])
    assert np.all(np.abs(flat.mean(axis=0)) < 0.6)
    assert np.all((flat.std(axis=0) > 0.6) & (flat.std(axis=0) < 1.6))
    assert int(stats["diverging"].sum()) == 0
    assert float(stats["n_steps"].mean()) < 20


def test_truth_is_covered_and_the_fit_repeats():
    truth, release = released(n=4000)
    first, again = (
        dpb.fit(release, Smooth(cells=20), draws=300, random_seed=3, progressbar=False)
        for _ in range(2)
    )
    assert np.array_equal(first.probability, again.probability)
    assert first.verdict().converged
    low, high = first.table.mean().quantile([0.005, 0.995]).values
    assert low <= truth.mean() <= high
    at = [0.1, 0.3, 0.5]
    low, high = first.table.cdf(at).quantile([0.005, 0.995], ("chain", "draw")).values
    share = np.array([(truth <= x).mean() for x in at])
    assert np.all((low <= share) & (share <= high))
    assert np.all(first.count.sum("bin") <= release.size)
    total = first.count.sum("bin")
    if "atom_count" in first.data["posterior"]:
        total = total + first.data["posterior"]["atom_count"].sum("atom")
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
