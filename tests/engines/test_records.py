"""The sampler of perturbed records: its density against the definition, its draws against truth."""

import numpy as np
import pytest

import dpbayes as dpb
from dpbayes.engines import records
from dpbayes.kernels import smooth as kernel
from dpbayes.models import smooth
from dpbayes.models.record_plan import plan_records
from dpbayes.priors import Smooth


def released(n=3000, scale=0.1, seed=0, clip=1.0):
    rng = np.random.default_rng(seed)
    truth = np.minimum(rng.beta(2, 5, n) / 0.6, 1.0) if clip < 1 else rng.beta(2, 5, n)
    return truth, dpb.RecordRelease(
        truth + rng.laplace(0, scale, n), mechanism=dpb.Laplace(scale=scale), bounds=(0, 1)
    )


@pytest.fixture(scope="module", params=["none", "both"])
def setting(request):
    _, release = released()
    plan = plan_records(release, Smooth(order=1, atoms=request.param, cells=12))
    frame = records._frame(plan)
    table, counts = plan.likelihood.seen
    arguments = (
        frame, np.ascontiguousarray(plan.law.root), table, counts,
        (smooth.LOG_TAU_MEAN, smooth.LOG_TAU_SD), (smooth.ATOM_MEAN, smooth.ATOM_SD),
    )  # fmt: skip
    return plan, arguments


def points(plan, number=6, seed=1):
    size = 1 + plan.law.rank + plan.law.atoms
    return np.random.default_rng(seed).normal(size=(number, size))


def test_gradient_is_the_derivative(setting):
    plan, arguments = setting
    for x in points(plan):
        value, gradient = kernel.log_posterior(x, *arguments)
        numeric = [
            (
                kernel.log_posterior(x + e, *arguments)[0]
                - kernel.log_posterior(x - e, *arguments)[0]
            )
            / 2e-5
            for e in 1e-5 * np.eye(x.size)
        ]
        assert np.allclose(gradient, numeric, rtol=1e-5, atol=1e-4)
        assert np.isfinite(value)


def test_density_is_prior_times_likelihood_times_jacobian(setting):
    plan, arguments = setting

    def definition(x):
        log_tau, _, z, a = kernel.coordinates(x, arguments[0])
        eta = smooth.ATOM_MEAN + smooth.ATOM_SD * a
        value = plan.likelihood.value(plan.law.root @ z, eta)
        value += -0.5 * ((log_tau - smooth.LOG_TAU_MEAN) / smooth.LOG_TAU_SD) ** 2
        value += -z.size * log_tau - 0.5 * z @ z * np.exp(-2 * log_tau) - 0.5 * a @ a

        # The Jacobian of x -> (log τ, z, a), by differences.
        def image(y):
            t, _, z, a = kernel.coordinates(y, arguments[0])
            return np.r_[t, z, a]

        jacobian = [(image(x + e) - image(x - e)) / 2e-5 for e in 1e-5 * np.eye(x.size)]
        return value + np.linalg.slogdet(np.array(jacobian))[1]

    first, *others = points(plan)
    base = kernel.log_posterior(first, *arguments)[0] - definition(first)
    for x in others:
        assert kernel.log_posterior(x, *arguments)[0] - definition(x) == pytest.approx(
            base, abs=1e-4
        )


def test_posterior_is_near_standard_normal_in_its_coordinates(setting):
    plan, arguments = setting
    drawn, _ = records._sample(
        plan, arguments[0], 400, 1, 400, 2, np.random.SeedSequence(1), 0.9, False
    )
    flat = drawn.reshape(-1, drawn.shape[-1])
    assert np.all(np.abs(flat.mean(axis=0)) < 1.0)
    assert np.all((flat.std(axis=0) > 0.4) & (flat.std(axis=0) < 2.0))


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
