"""What the distributions of one noisy statistic share, under every noise law."""

import warnings

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from dpbayes.distributions import (
    NoisyBinomial,
    NoisyNegativeBinomial,
    NoisyNormal,
    NoisyPoisson,
    encode_released,
)
from dpbayes.distributions.count_mechanism import CountMechanism, noise_parameters
from dpbayes.errors import ImpossibleReleaseError, ParameterError, UnsupportedError
from dpbayes.kernels import families, noisy
from dpbayes.mechanism import Clamp, Mechanism, Rescale, Round, Suppress
from dpbayes.noise import (
    CustomNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoNoise,
    TruncatedDiscreteLaplace,
    TruncatedLaplace,
)

CUSTOM = CustomNoise(logpdf=lambda x: -np.abs(x) / 3.0 - np.log(6.0), sd=4.25)
LAWS = [
    Laplace(scale=3.0),
    DiscreteLaplace(scale=3.0),
    Gaussian(sd=3.0),
    DiscreteGaussian(sigma=3.0),
    TruncatedLaplace(scale=3.0, bound=5.0),
    TruncatedDiscreteLaplace(scale=3.0, bound=5.0),
    NoNoise(),
    CUSTOM,
]
#: Class, parameters, code of the kernel, draws of the true statistic.
KINDS = {
    "poisson": (
        NoisyPoisson, {"mu": 9.0}, families.POISSON, lambda rng, n: rng.poisson(9.0, n),
    ),
    "binomial": (
        NoisyBinomial, {"n": 30, "p": 0.3}, families.BINOMIAL,
        lambda rng, n: rng.binomial(30, 0.3, n),
    ),
    "negative_binomial": (
        NoisyNegativeBinomial, {"mu": 9.0, "alpha": 2.0}, families.NEGATIVE_BINOMIAL,
        lambda rng, n: rng.negative_binomial(2.0, 2.0 / 11.0, n),
    ),
    "normal": (
        NoisyNormal, {"mu": 9.0, "sigma": 2.0}, families.NORMAL,
        lambda rng, n: rng.normal(9.0, 2.0, n),
    ),
}  # fmt: skip
WITHHELD = [Round(step=2.0), Clamp(lower=0), Suppress(below=6)]


def kernel(base, mechanism, released, a, b=0.0):
    """Kernel at the bounds that `dpbayes.mechanism` finds."""
    whole = base != families.NORMAL
    found = mechanism.integer_bounds(released) if whole else mechanism.interval(released)
    static = CountMechanism.of(mechanism, whole=whole)
    scale, bound = noise_parameters(mechanism.noise)
    step, table = static.step or 1.0, static.table
    value, *slopes = noisy.logp_array(
        base, static.family, found.lower, found.upper, a, b, scale, bound, step, table
    )
    return value + found.log_jacobian, slopes


def sampled(mechanism):
    """The same mechanism with a law that can be sampled by hand."""
    law = Laplace(scale=3.0) if mechanism.noise == CUSTOM else mechanism.noise
    return Mechanism(law, mechanism.steps)


def parameters(kind):
    """The two parameters of the kernel."""
    values = [float(x) for x in KINDS[kind][1].values()]
    return values if len(values) == 2 else [*values, 0.0]


def fits(kind, law):
    """Whether the law can be added to the statistic."""
    return kind != "normal" or not law.is_lattice or isinstance(law, NoNoise)


COMBINATIONS = [(kind, law) for kind in KINDS for law in LAWS if fits(kind, law)]
NAMES = [f"{kind}-{type(law).__name__}" for kind, law in COMBINATIONS]


# -- likelihood --------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "law"), COMBINATIONS, ids=NAMES)
def test_logp_is_that_of_the_mechanism(kind, law):
    distribution, given, base, truth = KINDS[kind]
    mechanism = Mechanism(law, WITHHELD)
    released = sampled(mechanism).sample(truth(np.random.default_rng(1), 12), 2)
    logp = pm.logp(
        distribution.dist(**given, mechanism=mechanism), encode_released(released, mechanism)
    )
    np.testing.assert_allclose(
        logp.eval(), kernel(base, mechanism, released, *parameters(kind))[0], rtol=1e-10
    )


@pytest.mark.parametrize(("kind", "law"), COMBINATIONS, ids=NAMES)
def test_draws_pass_through_the_mechanism(kind, law):
    distribution, given, _, truth = KINDS[kind]
    mechanism, size = Mechanism(law, WITHHELD), 20_000
    rv = distribution.dist(**given, mechanism=mechanism, shape=size)
    draws = pm.draw(rv, random_seed=1)
    by_hand = sampled(mechanism).sample(truth(np.random.default_rng(2), size), 3)
    assert np.isneginf(draws).mean() == pytest.approx(np.isnan(by_hand).mean(), abs=0.02)
    kept, by_hand = draws[np.isfinite(draws)], by_hand[np.isfinite(by_hand)]
    assert set(np.unique(kept)) <= set(np.arange(6.0, 140.0, 2.0))
    assert kept.mean() == pytest.approx(by_hand.mean(), abs=0.2)
    assert kept.std() == pytest.approx(by_hand.std(), rel=0.06)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_without_object_mode_and_second_derivatives(kind):
    distribution, given, base, _ = KINDS[kind]
    mechanism = Mechanism(Laplace(scale=3.0), [Round(), Suppress(below=4)])
    released = np.array([np.nan, 9.0, 14.0])
    free = [k for k in given if k != "n"]
    inputs = {k: pt.dscalar(k) for k in (*free, "scale")}
    fixed = {k: v for k, v in given.items() if k == "n"}
    rv = distribution.dist(**fixed, **inputs, mechanism=mechanism)
    total = pm.logp(rv, encode_released(released, mechanism)).sum()
    slopes = pt.grad(total, list(inputs.values()))
    curvature = [pt.grad(s, list(inputs.values())) for s in slopes]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the object-mode fallback is a UserWarning
        f = pytensor.function(
            list(inputs.values()),
            [total, *slopes, *(x for r in curvature for x in r)],
            mode="NUMBA",
        )
        at = np.array([*(given[k] for k in free), 3.0], dtype=float)
        value, *rest = (float(x) for x in f(*at))
    gradient, hessian = np.array(rest[: at.size]), np.reshape(rest[at.size :], (at.size, -1))
    assert value == pytest.approx(kernel(base, mechanism, released, *parameters(kind))[0].sum())
    for i in range(at.size):
        h = 1e-3 * at[i] * np.eye(at.size)[i]
        shifts = ((-2, 1), (-1, -8), (1, 8), (2, -1))
        moved = [np.array(f(*(at + s * h))[: 1 + at.size], dtype=float) for s, _ in shifts]
        difference = sum(w * m for (_, w), m in zip(shifts, moved, strict=True))
        difference /= 12 * 1e-3 * at[i]
        assert gradient[i] == pytest.approx(difference[0], rel=1e-7, abs=1e-9)
        np.testing.assert_allclose(hessian[:, i], difference[1:], rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-5, atol=1e-8)


def test_third_derivatives_are_refused():
    mu = pt.dscalar("mu")
    logp = pm.logp(NoisyPoisson.dist(mu=mu, mechanism=Laplace(scale=3.0)), 4.0)
    second = pt.grad(pt.grad(logp, mu), mu)
    with pytest.raises(pytensor.gradient.NullTypeGradError, match="third derivatives"):
        pt.grad(second, mu)


def test_the_released_value_is_data():
    y = pt.dscalar("y")
    logp = pm.logp(NoisyPoisson.dist(mu=3.0, mechanism=Laplace(scale=3.0)), y)
    with pytest.raises(pytensor.gradient.NullTypeGradError, match="released value is data"):
        pt.grad(logp, y)


@pytest.mark.parametrize("kind", ["poisson", "binomial", "negative_binomial"])
def test_logcdf_sums_the_masses(kind):
    distribution, given, base, _ = KINDS[kind]
    mechanism = Mechanism(DiscreteLaplace(scale=2.0), WITHHELD)
    rv = distribution.dist(**given, mechanism=mechanism)
    released = np.concatenate([[np.nan], np.arange(6.0, 20.0, 2.0)])
    masses = np.exp(kernel(base, mechanism, released, *parameters(kind))[0])
    encoded = encode_released(released, mechanism)
    logcdf = pm.logcdf(rv, pt.dvector("v"))
    (value,) = pytensor.graph.traversal.explicit_graph_inputs([logcdf])
    f = pytensor.function([value], logcdf)
    np.testing.assert_allclose(np.exp(f(encoded)), np.cumsum(masses), rtol=1e-9)
    # between two published values, below the least one, beyond all
    between = np.exp(f(np.array([9.9, 3.0, 1e6])))
    np.testing.assert_allclose(between, [masses[:3].sum(), masses[0], 1.0], rtol=1e-9)


def test_logcdf_of_a_normal_statistic():
    mechanism = Mechanism(Gaussian(sd=1.5), [Rescale(-2.0)])
    rv = NoisyNormal.dist(mu=9.0, sigma=2.0, mechanism=mechanism)
    assert pm.logcdf(rv, -17.0).eval() == pytest.approx(
        pm.logcdf(pm.Normal.dist(-18.0, 5.0), -17.0).eval()
    )


def test_logcdf_without_an_order_is_refused():
    mechanism = Mechanism(Laplace(scale=1.0), [Suppress(below=3), Rescale(-1.0)])
    with pytest.raises(NotImplementedError, match="negative factor"):
        pm.logcdf(NoisyPoisson.dist(mu=3.0, mechanism=mechanism), -4.0)


@pytest.mark.parametrize("factor", [0.01, -250.0])
def test_rescaling_is_a_change_of_variable(factor):
    plain, scaled = Mechanism(Laplace(scale=3.0)), Mechanism(Laplace(scale=3.0), [Rescale(factor)])
    y = np.array([-4.2, 3.0, 11.7])
    for kind in ("negative_binomial", "normal"):
        distribution, given, *_ = KINDS[kind]
        before = pm.logp(distribution.dist(**given, mechanism=plain), y).eval()
        after = pm.logp(distribution.dist(**given, mechanism=scaled), factor * y).eval()
        np.testing.assert_allclose(after, before - np.log(abs(factor)), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_support_point_can_be_published(kind):
    distribution, given, *_ = KINDS[kind]
    mechanism = Mechanism(Laplace(scale=3.0), [Round(), Clamp(lower=2)])
    with pm.Model() as model:
        distribution("y", **given, mechanism=mechanism, shape=(2, 3))
    point = model.initial_point()["y"]
    assert point.shape == (2, 3)
    assert np.all(np.isfinite(model.compile_logp()({"y": point})))


# -- models ------------------------------------------------------------------------------------


def test_citizenship_of_a_negative_binomial_model():
    mechanism = Mechanism(DiscreteLaplace(scale=4.0), [Clamp(lower=0), Suppress(below=3)])
    released = np.array([np.nan, 31.0, 12.0, 88.0, 4.0])
    with pm.Model(coords={"cell": list("abcde")}) as model:
        data = pm.Data("data", encode_released(released, mechanism), dims="cell")
        size = pm.Data("size", np.ones(5), dims="cell")
        mu, alpha = pm.Gamma("mu", 2.0, 0.05), pm.Gamma("alpha", 2.0, 0.5)
        NoisyNegativeBinomial(
            "y", mu=mu * size, alpha=alpha, mechanism=mechanism, observed=data, dims="cell"
        )
    model = cloudpickle.loads(cloudpickle.dumps(model))
    logp = model.compile_logp(vars=model["y"])
    point = {"mu_log__": np.log(30.0), "alpha_log__": np.log(2.0)}
    expected = kernel(families.NEGATIVE_BINOMIAL, mechanism, released, 30.0, 2.0)[0]
    assert logp(point) == pytest.approx(expected.sum(), rel=1e-10)
    # a longer table in the same model
    model.set_data("data", np.array([9.0, 31.0]), coords={"cell": ["a", "b"]})
    model.set_data("size", np.array([1.0, 2.0]))
    values, means = np.array([9.0, 31.0]), np.array([30.0, 60.0])
    expected = kernel(families.NEGATIVE_BINOMIAL, mechanism, values, means, 2.0)[0]
    assert logp(point) == pytest.approx(expected.sum(), rel=1e-10)
    with pm.do(model, {"mu": 5e3, "alpha": 1e6}):
        prior = pm.sample_prior_predictive(50, var_names=["y"], random_seed=1)
    drawn = prior.prior["y"] if "y" in prior.prior else prior.prior_predictive["y"]
    assert drawn.sizes["cell"] == 2
    np.testing.assert_allclose(drawn.mean(("chain", "draw")), [5e3, 1e4], rtol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["nutpie", "pymc"])
def test_sampling_predicting_and_comparing(sampler):
    az = pytest.importorskip("arviz")
    rng = np.random.default_rng(4)
    mechanism = Mechanism(Laplace(scale=6.0), [Round()])
    counts = rng.negative_binomial(3.0, 3.0 / 43.0, 60)
    with pm.Model():
        mu, alpha = pm.Gamma("mu", 2.0, 0.05), pm.Gamma("alpha", 2.0, 0.5)
        NoisyNegativeBinomial(
            "y", mu=mu, alpha=alpha, mechanism=mechanism, observed=mechanism.sample(counts, rng)
        )
        trace = pm.sample(
            draws=500, tune=500, chains=2, cores=2, random_seed=1, nuts_sampler=sampler,
            progressbar=False, quiet=True,
        )  # fmt: skip
        pm.sample_posterior_predictive(
            trace, extend_inferencedata=True, random_seed=2, progressbar=False
        )
        pm.compute_log_likelihood(trace, progressbar=False)
    summary = az.summary(trace, ci_prob=0.9, ci_kind="eti", round_to="none")
    assert summary["r_hat"].max() < 1.02
    assert abs(summary.loc["mu", "mean"] - counts.mean()) < 3 * counts.std() / np.sqrt(60)
    replicated = trace.posterior_predictive["y"]
    assert float(replicated.mean()) == pytest.approx(counts.mean(), rel=0.15)
    assert np.isfinite(az.loo(trace).elpd)


def test_observing_later():
    mechanism = Mechanism(Laplace(scale=2.0), [Round()])
    with pm.Model() as model:
        p = pm.Beta("p", 2.0, 2.0)
        NoisyBinomial("y", n=[20, 30], p=p, mechanism=mechanism)
    observed = pm.observe(model, {"y": np.array([7.0, 11.0])})
    logp = observed.compile_logp(vars=observed["y"])({"p_logodds__": 0.0})
    values, trials = np.array([7.0, 11.0]), np.array([20.0, 30.0])
    expected = kernel(families.BINOMIAL, mechanism, values, trials, 0.5)[0]
    assert logp == pytest.approx(expected.sum(), rel=1e-10)


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        ("poisson", {"mu": -1.0}, "mu >= 0"),
        ("binomial", {"p": 1.5}, "0 <= p <= 1"),
        ("negative_binomial", {"alpha": 0.0}, "alpha > 0"),
        ("normal", {"sigma": -2.0}, "sigma > 0"),
        ("normal", {"scale": -2.0}, "scale > 0"),
    ],
)
def test_parameters_out_of_range(kind, wrong, message):
    distribution, given, *_ = KINDS[kind]
    inside = {k: pt.as_tensor(v) for k, v in wrong.items()}
    rv = distribution.dist(**{**given, **inside}, mechanism=Laplace(scale=1.0))
    with pytest.raises(pm.logprob.utils.ParameterValueError, match=message):
        pm.logp(rv, 2.0).eval()
    with pm.Model() as model:
        shift = pm.Flat("shift")
        moved = {k: v + shift for k, v in wrong.items()}
        distribution("y", **{**given, **moved}, mechanism=Laplace(scale=1.0), observed=2.0)
    assert model.compile_logp()({"shift": 0.0}) == -np.inf


def test_impossible_data_is_refused_when_the_model_is_built():
    with pm.Model():
        with pytest.raises(ImpossibleReleaseError, match=r"y\[1\].*from 0 to 20"):
            NoisyBinomial("y", n=[20, 20], p=0.5, mechanism=NoNoise(), observed=[3, 21])
        with pytest.raises(ImpossibleReleaseError, match=r"y\[0\]: -8 .*of at least 0.*at most 5"):
            NoisyPoisson("y", mu=3.0, mechanism=LAWS[5], observed=[-8, 4])
        published = Mechanism(LAWS[0], WITHHELD)
        with pytest.raises(ImpossibleReleaseError, match=r"y\[1\].*below 6"):
            NoisyNormal("y", mu=3.0, sigma=1.0, mechanism=published, observed=[8, 4])
        with pytest.raises(ImpossibleReleaseError, match=r"y\[0\].*whole count"):
            NoisyNegativeBinomial("y", mu=3.0, alpha=1.0, mechanism=NoNoise(), observed=[2.5])


def test_mismatched_shapes_name_both():
    with pm.Model():
        with pytest.raises(ParameterError, match=r"mu .*shape \(3,\) against \(4,\)"):
            NoisyPoisson("y", mu=np.ones(3), mechanism=LAWS[0], observed=np.ones(4))
        with pytest.raises(ParameterError, match=r"the noise .*shape \(2,\) against \(4,\)"):
            NoisyPoisson("y", mu=1.0, mechanism=Laplace(scale=np.ones(2)), observed=np.ones(4))
        wide = {"mu": 1.0, "alpha": np.ones((2, 4))}
        with pytest.raises(ParameterError, match=r"alpha .*shape \(2, 4\) against \(4,\)"):
            NoisyNegativeBinomial("y", **wide, mechanism=LAWS[0], observed=np.ones(4))


def test_what_does_not_fit():
    for law in (DiscreteLaplace(scale=2.0), DiscreteGaussian(sigma=2.0), LAWS[5]):
        with pytest.raises(UnsupportedError, match="continuous where the statistic is"):
            NoisyNormal.dist(mu=0.0, sigma=1.0, mechanism=law)
    for n in (5.5, [3, -1]):
        with pytest.raises(ParameterError, match="n must be a whole number"):
            NoisyBinomial.dist(n=n, p=0.5, mechanism=LAWS[0])
    for law in (NoNoise(), CUSTOM):
        with pytest.raises(UnsupportedError, match="scale must be left out"):
            NoisyPoisson.dist(mu=1.0, mechanism=law, scale=2.0)
    with pytest.raises(UnsupportedError, match="sd of CustomNoise"):
        NoisyPoisson.dist(mu=1.0, mechanism=CustomNoise(logpdf=CUSTOM.logpdf, sd=np.ones(3)))
    with pytest.raises(ParameterError, match="integrate to 1"):
        NoisyPoisson.dist(mu=1.0, mechanism=CustomNoise(logpdf=lambda x: -np.abs(x), sd=1.4))
