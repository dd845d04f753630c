"""NoisyPoisson: likelihood of the whole mechanism, draws through it, and what PyMC needs."""

import warnings

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from dpbayes.distributions import NoisyPoisson, encode_released
from dpbayes.errors import ImpossibleReleaseError, ParameterError, UnsupportedError
from dpbayes.kernels import poisson as kernel
from dpbayes.mechanism import Clamp, Mechanism, Round, Suppress
from dpbayes.noise import CustomNoise, DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace

WITHHELD = Mechanism(DiscreteLaplace(scale=5.0), [Clamp(lower=0), Suppress(below=4)])
PUBLISHED = np.array([np.nan, 31.0, 12.0, 88.0, 4.0])


def kernel_logp(mechanism, released, mu, scale):
    bounds = mechanism.integer_bounds(released)
    value = kernel.logp_array(
        mechanism.noise.family,
        bounds.lower,
        bounds.upper,
        mu,
        scale,
        mechanism.integer_step() or 1.0,
    )
    return value + bounds.log_jacobian


@pytest.mark.parametrize(
    ("mechanism", "released"),
    [
        (WITHHELD, PUBLISHED),
        (Mechanism(Laplace(scale=2.0)), np.array([-3.2, 0.0, 7.7, 1.0, 40.0])),
        (Mechanism(Gaussian(sd=2.0), [Round()]), np.array([-3.0, 0.0, 7.0, 1.0, 40.0])),
        (Mechanism(DiscreteGaussian(sigma=2.0)), np.array([-3.0, 0.0, 7.0, 1.0, 40.0])),
    ],
)
def test_logp_is_that_of_the_mechanism(mechanism, released):
    mu = np.array([1.0, 28.0, 15.0, 90.0, 3.0])
    rv = NoisyPoisson.dist(mu=mu, mechanism=mechanism)
    logp = pm.logp(rv, encode_released(released, mechanism)).eval()
    np.testing.assert_allclose(
        logp, kernel_logp(mechanism, released, mu, mechanism.noise.scale), rtol=1e-12
    )


def test_naive_likelihood_fails_on_clamped_zeros():
    # A clamped zero says "at zero or below": far likelier than noise of exactly -N.
    mechanism = Mechanism(DiscreteLaplace(scale=10.0), [Clamp(lower=0)])
    censored = pm.logp(NoisyPoisson.dist(mu=0.5, mechanism=mechanism), 0.0).eval()
    naive = pm.logp(NoisyPoisson.dist(mu=0.5, mechanism=mechanism.noise), 0.0).eval()
    assert np.exp(censored) == pytest.approx(0.50, abs=0.03)
    assert np.exp(naive) < 0.06


def test_compiled_gradient_and_no_object_mode():
    mu, scale = pt.dvector("mu"), pt.dvector("scale")
    rv = NoisyPoisson.dist(mu=mu, mechanism=WITHHELD, scale=scale)
    total = pm.logp(rv, encode_released(PUBLISHED, WITHHELD)).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the object-mode fallback is a UserWarning
        both = pytensor.function([mu, scale], [total, *pt.grad(total, [mu, scale])], mode="NUMBA")
        at = np.array([2.0, 30.0, 10.0, 90.0, 6.0]), np.array([5.0, 5.0, 4.0, 6.0, 5.0])
        value, d_mu, d_scale = both(*at)
    assert value == pytest.approx(kernel_logp(WITHHELD, PUBLISHED, *at).sum(), rel=1e-12)
    for index, gradient in enumerate((d_mu, d_scale)):
        for j in range(5):
            h = 1e-4 * np.eye(5)[j]
            up, down = (
                both(*(x + s * h if i == index else x for i, x in enumerate(at)))[0]
                for s in (1, -1)
            )
            assert gradient[j] == pytest.approx((up - down) / 2e-4, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(
    "law",
    [Laplace(scale=3.0), DiscreteLaplace(scale=3.0), Gaussian(sd=3.0), DiscreteGaussian(sigma=3.0)],
)
def test_draws_pass_through_the_mechanism(law):
    mechanism = Mechanism(law, [Round(step=2.0), Clamp(lower=0), Suppress(below=6)])
    draws = pm.draw(NoisyPoisson.dist(mu=9.0, mechanism=mechanism, shape=20_000), random_seed=1)
    by_hand = mechanism.sample(np.random.default_rng(2).poisson(9.0, 20_000), 3)
    assert np.isneginf(draws).mean() == pytest.approx(np.isnan(by_hand).mean(), abs=0.02)
    kept = draws[np.isfinite(draws)]
    assert set(np.unique(kept)) <= set(np.arange(6.0, 80.0, 2.0))
    assert kept.mean() == pytest.approx(np.nanmean(by_hand), abs=0.2)
    assert kept.std() == pytest.approx(np.nanstd(by_hand), rel=0.05)


@pytest.mark.parametrize("law", [Laplace(scale=50.0), DiscreteGaussian(sigma=50.0)])
def test_noise_is_independent_from_cell_to_cell(law):
    draws = pm.draw(NoisyPoisson.dist(mu=np.full(4, 2.0), mechanism=law), draws=400, random_seed=1)
    assert np.abs(np.corrcoef(draws.T)[np.triu_indices(4, 1)]).max() < 0.2
    assert draws.std() == pytest.approx(law.sd, rel=0.1)


def test_model_with_dims_data_and_posterior_predictive():
    with pm.Model(coords={"cell": list("abcde")}) as model:
        data = pm.Data("data", encode_released(PUBLISHED, WITHHELD), dims="cell")
        mu = pm.Gamma("mu", 2.0, 0.05, dims="cell")
        NoisyPoisson("y", mu=mu, mechanism=WITHHELD, observed=data, dims="cell")
    logp = model.compile_logp(vars=model["y"])
    before = logp(model.initial_point())
    model.set_data("data", np.array([9.0, 31.0, 12.0, 88.0, 4.0]))
    after = logp(model.initial_point())
    first = kernel_logp(WITHHELD, np.array([np.nan, 9.0]), 40.0, 5.0)
    assert after - before == pytest.approx(first[1] - first[0], rel=1e-9)
    copy = cloudpickle.loads(cloudpickle.dumps(model))
    with pm.do(copy, {"mu": np.full(5, 1e4)}):
        drawn = pm.sample_prior_predictive(50, var_names=["y"], random_seed=1)
    values = drawn.prior["y"] if "y" in drawn.prior else drawn.prior_predictive["y"]
    assert values.sizes["cell"] == 5
    assert float(values.mean()) == pytest.approx(1e4, rel=0.01)


def test_observing_a_variable_later():
    with pm.Model() as model:
        mu = pm.Gamma("mu", 2.0, 0.05)
        NoisyPoisson("y", mu=mu, mechanism=WITHHELD, shape=2)
    observed = pm.observe(model, {"y": encode_released([np.nan, 12.0], WITHHELD)})
    logp = observed.compile_logp(vars=observed["y"])({"mu_log__": np.log(7.0)})
    assert logp == pytest.approx(kernel_logp(WITHHELD, np.array([np.nan, 12.0]), 7.0, 5.0).sum())


@pytest.mark.parametrize(
    ("mechanism", "observed", "message"),
    [
        (DiscreteLaplace(scale=2.0), [1.0, 2.5], r"y\[1\]"),
        (DiscreteLaplace(scale=2.0), [1.0, np.nan], r"y\[1\].*Suppress"),
        (WITHHELD, [12.0, 3.0], r"y\[1\].*below 4"),
        (Mechanism(Laplace(scale=2.0), [Clamp(lower=0)]), [[0.0, -1.0]], r"y\[0, 1\]"),
    ],
)
def test_impossible_data_is_refused_when_the_model_is_built(mechanism, observed, message):
    with pm.Model(), pytest.raises(ImpossibleReleaseError, match=message):
        NoisyPoisson("y", mu=1.0, mechanism=mechanism, observed=observed)


def test_what_cannot_be_a_mechanism():
    with pytest.raises(ParameterError, match="bare number"):
        NoisyPoisson.dist(mu=1.0, mechanism=2.0)
    custom = CustomNoise(logpdf=lambda x: -np.abs(x), sd=1.0)
    with pytest.raises(UnsupportedError, match="CustomNoise"):
        NoisyPoisson.dist(mu=1.0, mechanism=custom, scale=1.0)
    with pytest.raises(UnsupportedError, match="step"):
        NoisyPoisson.dist(mu=1.0, mechanism=DiscreteLaplace(scale=4.0, step=2.0))


def test_parameters_out_of_range():
    rv = NoisyPoisson.dist(mu=pt.as_tensor(-1.0), mechanism=Laplace(scale=1.0))
    with pytest.raises(pm.logprob.utils.ParameterValueError, match="mu >= 0"):
        pm.logp(rv, 2.0).eval()
