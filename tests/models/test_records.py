"""Model of perturbed records: its prior, its coordinates, its posterior, the true counts."""

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.kernels import smooth as kernel
from dpbayes.mechanism import Clamp, Mechanism, Round
from dpbayes.models.records import (
    ELEMENT,
    build,
    default_cells,
    plan_records,
    prior_draws,
    table_draws,
)
from dpbayes.models.smooth import TAU_RATE, TAU_SHAPE
from dpbayes.noise import DiscreteLaplace, Gaussian, Laplace
from dpbayes.priors import Dirichlet, Smooth
from dpbayes.releases import RecordRelease


def _release(n=3000, noise=None, steps=(), seed=1, clip=None, **kwargs):
    rng = np.random.default_rng(seed)
    x = rng.beta(2, 5, n) if clip is None else np.minimum(rng.beta(2, 5, n), clip)
    mechanism = Mechanism(noise or Laplace(scale=0.1), steps)
    bounds = (0.0, 1.0 if clip is None else clip)
    return RecordRelease(mechanism.sample(x, rng), mechanism=mechanism, bounds=bounds, **kwargs)


def _mode_weights(plan):
    mode = plan.fit.mode
    return plan.law.weights(*plan.law.at(mode.tau, mode.point))


def _mean(plan):
    middle = np.r_[0.5 * (plan.lower + plan.upper), plan.atoms]
    return _mode_weights(plan) @ middle


@pytest.fixture(scope="module")
def clipped():
    """Small plan with an atom at the upper bound and straightened directions."""
    release = _release(n=20_000, clip=0.4)
    plan = plan_records(release, Smooth(order=1, atoms="upper", cells=8))
    return plan, build(release, plan=plan)


def test_density_is_that_of_the_compiled_sampler(clipped):
    """Log posterior of the model and of the kernel that the engine samples."""
    plan, model = clipped
    assert [v.name for v in model.continuous_value_vars] == ["coordinates"]
    function = model.logp_dlogp_function(ravel_inputs=True)
    function.set_extra_values({})
    table, counts = plan.likelihood.seen
    differences = []
    for x in np.random.default_rng(5).normal(size=(6, plan.whitening.size)):
        value, gradient = function(x)
        expected, slope = kernel.log_posterior(x, plan.whitening.frame, table, counts)
        np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-8 * np.abs(slope).max())
        differences.append(value - expected)
    np.testing.assert_allclose(differences, differences[0], rtol=1e-9)
    # The difference is the multinomial coefficient.
    n = plan.records.counts
    coefficient = special.gammaln(n.sum() + 1.0) - special.gammaln(n + 1.0).sum()
    assert differences[0] == pytest.approx(coefficient, rel=1e-8)


def test_prior_predictive_draws_from_the_stated_prior(clipped):
    plan, model = clipped
    with model:
        drawn = pm.sample_prior_predictive(
            draws=1500, random_seed=3, var_names=[ELEMENT, "walk_scale", "released"]
        )
    element = drawn.prior[ELEMENT].values.reshape(-1, 9)
    direct = prior_draws(plan, 1500, np.random.default_rng(4))
    cells, atoms = direct["probability"], direct["atom_probability"]
    for got, want in (
        (element[:, 0], cells[:, 0]),
        (element[:, 4], cells[:, 4]),
        (element[:, 8], atoms[:, 0]),
        (np.log(element[:, 3] / element[:, 4]), np.log(cells[:, 3] / cells[:, 4])),
    ):
        assert stats.ks_2samp(got, want).pvalue > 1e-3
    tau = drawn.prior["walk_scale"].values.ravel()
    assert stats.kstest(tau, stats.gamma(TAU_SHAPE, scale=1 / TAU_RATE).cdf).pvalue > 1e-3
    assert np.all(drawn.prior_predictive["released"].values.sum(axis=-1) == 20_000)


def test_posterior_recovers_the_truth_without_divergences():
    release = _release(n=10_000, noise=Laplace(scale=0.1))
    plan = plan_records(release)
    with build(release, plan=plan):
        data = pm.sample(
            draws=500, tune=600, chains=4, random_seed=1, nuts_sampler="nutpie",
            nuts={"target_accept": 0.9}, progressbar=False, quiet=True,
            var_names=["probability", ELEMENT], compute_convergence_checks=False,
        )  # fmt: skip
    draws = data.posterior["probability"].values
    truth = np.diff(stats.beta(2, 5).cdf(plan.edges))
    assert 0.5 * np.abs(draws.mean(axis=(0, 1)) - truth).sum() < 0.04
    low, high = np.quantile(draws, [0.025, 0.975], axis=(0, 1))
    assert np.mean((low <= truth) & (truth <= high)) > 0.85
    assert int(data.sample_stats["diverging"].sum()) == 0
    assert float(data.sample_stats["n_steps"].mean()) < 20
    halves = draws.reshape(8, 250, -1)
    between = 250 * halves.mean(axis=1).var(axis=0, ddof=1)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    rhat = np.sqrt(249 / 250 + between / within / 250)
    assert rhat.max() < 1.02
    counts = table_draws(plan, data.posterior[ELEMENT].values, np.random.default_rng(1))
    assert np.all(counts["count"].sum(axis=-1) == 10_000)
    # The table varies less than a fresh sample of the same size would.
    mean = counts["count"] @ (0.5 * (plan.lower + plan.upper)) / 10_000
    fresh = np.sqrt(draws.mean(axis=(0, 1)) @ plan.lower**2) / 100
    assert mean.std() < 0.14 / 100 + fresh


@pytest.mark.parametrize("n", [300, 400_000])
def test_true_counts_have_their_exact_law(n):
    """Mean and variance of the counts given P; few records are placed singly, many split."""
    plan = plan_records(_release(n=n, clip=0.4), Smooth(order=1, atoms="upper", cells=10))
    weights = _mode_weights(plan)
    drawn = table_draws(plan, np.tile(weights, (2, 2000, 1)), np.random.default_rng(2))
    counts = np.concatenate([drawn["count"], drawn["atom_count"]], axis=-1).reshape(4000, -1)
    assert np.all(counts.sum(axis=1) == n)
    share = plan.table * weights
    share /= share.sum(axis=1, keepdims=True)
    mean = plan.records.counts @ share
    variance = plan.records.counts @ (share * (1 - share))
    np.testing.assert_array_less(np.abs(counts.mean(axis=0) - mean), 5 * np.sqrt(variance / 4000))
    np.testing.assert_allclose(counts.var(axis=0), variance, rtol=0.15)
    chains = drawn["count"]
    assert not np.array_equal(chains[0], chains[1])


@pytest.mark.parametrize(
    ("steps", "noise"),
    [
        ((Clamp(lower=0.0, upper=1.0),), Gaussian(sd=0.3)),
        ((Round(step=0.5, mode="floor"),), Gaussian(sd=0.2)),
    ],
)
def test_naive_likelihood_of_post_processed_records_fails(steps, noise):
    release = _release(n=20_000, noise=noise, steps=steps)
    naive = RecordRelease(release.values, mechanism=noise, bounds=(0.0, 1.0))
    prior = Smooth(order=2, atoms="none", cells=40)
    right, wrong = (_mean(plan_records(r, prior)) for r in (release, naive))
    assert right == pytest.approx(2 / 7, abs=0.01)
    assert abs(wrong - 2 / 7) > 0.02


def test_clamping_laplace_records_to_the_bounds_loses_nothing():
    """Beyond a bound the likelihood of every true value falls by the same factor."""
    free = _release(noise=Laplace(scale=0.3))
    clamp = Mechanism(Laplace(scale=0.3), (Clamp(lower=0.0, upper=1.0),))
    clamped = RecordRelease(clamp.forward(free.values), mechanism=clamp, bounds=(0.0, 1.0))
    prior = Smooth(order=2, atoms="none", cells=40)
    first, second = (plan_records(r, prior) for r in (free, clamped))
    np.testing.assert_allclose(_mode_weights(first), _mode_weights(second), rtol=1e-9)
    assert first.fit.log_evidence == pytest.approx(second.fit.log_evidence, rel=1e-12)


def test_whole_numbers_under_lattice_noise():
    rng = np.random.default_rng(6)
    noise = DiscreteLaplace(scale=2.0)
    x = np.minimum(rng.poisson(4, 20_000), 9)
    release = RecordRelease(
        x + noise.rvs(20_000, rng), mechanism=noise, bounds=(0, 9), support="integers"
    )
    plan = plan_records(release)
    assert plan.edges is None
    np.testing.assert_array_equal(plan.atom_values, np.arange(10))
    assert plan.candidates[0].atoms in ("none", "upper")
    drawn = table_draws(plan, _mode_weights(plan)[None, None], np.random.default_rng(1))
    assert drawn["count"].shape == (1, 1, 10)
    assert list(drawn) == ["count"]
    truth = np.bincount(x, minlength=10)
    assert 0.5 * np.abs(drawn["count"][0, 0] - truth).sum() / 20_000 < 0.05


def test_number_of_cells():
    assert default_cells(_release(n=10, noise=Laplace(scale=0.1))) == 80
    assert default_cells(_release(n=10, noise=Laplace(scale=5.0))) == 60
    assert default_cells(_release(n=10, noise=Laplace(scale=1e-3))) == 160


def test_bad_input_is_named():
    with pytest.raises(UnsupportedError, match="records need a Smooth prior"):
        plan_records(_release(n=10), Dirichlet())
    wide = RecordRelease(
        [0.0, 5.0], mechanism=Gaussian(sd=10.0), bounds=(0, 5000), support="integers"
    )
    with pytest.raises(ParameterError, match="got 5001"):
        plan_records(wide)
    some = RecordRelease([0.0, 5.0], mechanism=Gaussian(sd=2.0), bounds=(0, 9), support="integers")
    with pytest.raises(ParameterError, match="cells must be left out"):
        plan_records(some, Smooth(cells=20))
