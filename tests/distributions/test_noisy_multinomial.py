"""NoisyMultinomial: a table with a public total as one observed variable."""

import warnings

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from dpbayes.distributions import NoisyMultinomial, encode_released
from dpbayes.distributions.count_mechanism import CountMechanism, noise_parameters
from dpbayes.errors import ImpossibleReleaseError, ParameterError, UnsupportedError
from dpbayes.kernels.multinomial import prepare, value_and_gradient
from dpbayes.mechanism import Clamp, Mechanism, Suppress
from dpbayes.noise import DiscreteLaplace, Laplace, NoNoise, TruncatedDiscreteLaplace

MECHANISM = Mechanism(DiscreteLaplace(scale=3.0), [Clamp(lower=0), Suppress(below=4)])
PUBLISHED = np.array([np.nan, 9.0, 14.0, 30.0])
P, N = np.array([0.05, 0.2, 0.3, 0.45]), 55


def kernel_value(p, mechanism=MECHANISM, released=PUBLISHED, n=N, want_scale=False):
    bounds = mechanism.integer_bounds(released)
    static = CountMechanism.of(mechanism)
    spread = [np.full(p.size, x) for x in noise_parameters(mechanism.noise)]
    cells = prepare(static.family, bounds.lower, bounds.upper, *spread, static.step or 1.0)
    gradient, by_scale = np.empty((2, p.size))
    value = value_and_gradient(
        cells, static.table, bounds.log_jacobian, np.log(p), float(n), want_scale, gradient,
        by_scale,
    )  # fmt: skip
    return value, by_scale if want_scale else gradient / p


def test_compiled_value_and_gradient_without_object_mode():
    p = pt.dvector("p")
    logp = pm.logp(
        NoisyMultinomial.dist(n=N, p=p, mechanism=MECHANISM), encode_released(PUBLISHED, MECHANISM)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the object-mode fallback is a UserWarning
        both = pytensor.function([p], [logp, pt.grad(logp, p)], mode="NUMBA")
        value, gradient = both(P)
    solved = [n for n in both.maker.fgraph.apply_nodes if "NoisyMultinomialLogp" in str(n.op)]
    assert len(solved) == 1  # value and gradient share one solution
    expected, slope = kernel_value(P)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10)
    interpreted = pytensor.function([p], [logp, pt.grad(logp, p)], mode="FAST_COMPILE")(P)
    np.testing.assert_allclose(interpreted[0], value, rtol=1e-12)
    np.testing.assert_allclose(interpreted[1], gradient, rtol=1e-10)


def test_draws_pass_through_the_mechanism():
    rv = NoisyMultinomial.dist(n=N, p=P, mechanism=MECHANISM)
    draws = pm.draw(rv, draws=4000, random_seed=1)
    counts = np.random.default_rng(2).multinomial(N, P, 4000)
    by_hand = MECHANISM.sample(counts, 3)
    assert np.isneginf(draws[:, 0]).mean() == pytest.approx(
        np.isnan(by_hand[:, 0]).mean(), abs=0.04
    )
    shown, by_hand = draws[:, 3][np.isfinite(draws[:, 3])], by_hand[:, 3]
    assert shown.mean() == pytest.approx(np.nanmean(by_hand), rel=0.02)
    assert shown.std() == pytest.approx(np.nanstd(by_hand), rel=0.06)


def test_batches_of_tables():
    rv = NoisyMultinomial.dist(n=N, p=np.stack([P, P[::-1]]), mechanism=MECHANISM)
    values = np.stack([encode_released(PUBLISHED, MECHANISM)] * 2)
    logp = pm.logp(rv, values).eval()
    np.testing.assert_allclose(logp, [kernel_value(P)[0], kernel_value(P[::-1].copy())[0]])


def test_scale_per_cell_and_pickling():
    law = Laplace(scale=np.array([1.0, 2.0, 3.0]))
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.ones(3))
        NoisyMultinomial("y", n=20, p=p, mechanism=law, observed=[3.3, 6.1, 12.0])
    value = model.compile_logp(vars=model["y"])(model.initial_point())
    copy = cloudpickle.loads(cloudpickle.dumps(model))
    assert copy.compile_logp(vars=copy["y"])(copy.initial_point()) == value
    y = np.array([3.3, 6.1, 12.0])
    expected = kernel_value(np.ones(3) / 3, Mechanism(law), y, n=20)
    assert value == pytest.approx(expected[0], rel=1e-9)


def test_random_scale():
    scale = pt.dscalar("scale")
    rv = NoisyMultinomial.dist(n=N, p=P, mechanism=MECHANISM, scale=scale)
    logp = pm.logp(rv, encode_released(PUBLISHED, MECHANISM))
    value, slope = pytensor.function([scale], [logp, pt.grad(logp, scale)], mode="NUMBA")(3.0)
    expected = kernel_value(P, want_scale=True)
    assert value == pytest.approx(expected[0], rel=1e-12)
    assert slope == pytest.approx(expected[1].sum(), rel=1e-10)


@pytest.mark.parametrize(
    "law", [NoNoise(), TruncatedDiscreteLaplace(scale=3.0, bound=6.0)], ids=["none", "truncated"]
)
def test_other_noise_laws(law):
    draws = pm.draw(NoisyMultinomial.dist(n=N, p=P, mechanism=law), draws=2000, random_seed=1)
    np.testing.assert_allclose(draws.mean(axis=0), N * P, atol=0.4)
    np.testing.assert_allclose(draws.std(axis=0), np.sqrt(N * P * (1 - P) + law.sd**2), rtol=0.08)
    logp = pm.logp(NoisyMultinomial.dist(n=N, p=P, mechanism=law), draws[0]).eval()
    assert logp == pytest.approx(kernel_value(P, Mechanism(law), draws[0])[0], rel=1e-10)


def test_second_derivatives_are_refused():
    p = pt.dvector("p")
    logp = pm.logp(
        NoisyMultinomial.dist(n=N, p=p, mechanism=MECHANISM), encode_released(PUBLISHED, MECHANISM)
    )
    slope = pt.grad(logp, p)[0]
    with pytest.raises(pytensor.gradient.NullTypeGradError, match="second derivatives"):
        pt.grad(slope, p)


def test_bad_input():
    with pm.Model(), pytest.raises(ImpossibleReleaseError, match=r"y\[1\]"):
        NoisyMultinomial("y", n=N, p=P, mechanism=MECHANISM, observed=[5.0, 3.0, 9.0, 8.0])
    with pytest.raises(ParameterError, match="whole number"):
        NoisyMultinomial.dist(n=5.5, p=P, mechanism=MECHANISM)
    with pm.Model(), pytest.raises(ParameterError, match=r"4 entries .* shape \(3,\)"):
        NoisyMultinomial("y", n=N, p=P, mechanism=MECHANISM, observed=[5.0, 13.0, 9.0])
    with pm.Model(), pytest.raises(ImpossibleReleaseError, match=r"y\[2\].*from 0 to 55"):
        NoisyMultinomial("y", n=N, p=P, mechanism=NoNoise(), observed=[5, 13, 90, 8])
    with pytest.raises(UnsupportedError, match="scale"):
        NoisyMultinomial.dist(n=N, p=P, mechanism=NoNoise(), scale=2.0)
    rv = NoisyMultinomial.dist(n=N, p=pt.as_tensor(P * 0.9), mechanism=MECHANISM)
    with pytest.raises(pm.logprob.utils.ParameterValueError, match="sum"):
        pm.logp(rv, encode_released(PUBLISHED, MECHANISM)).eval()
