"""Smooth distributions as PyMC variables: draws, densities and derivatives of the operators."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

from dpbayes.distributions.smooth import SmoothCoordinates, smooth_weights
from dpbayes.kernels import smooth as kernel
from dpbayes.models.smooth import TAU_RATE, TAU_SHAPE, fit_scale
from dpbayes.models.whitening import whiten
from tests.models.test_smooth import _model


@pytest.fixture(scope="module")
def frame():
    model = _model(cells=8, n=5000)
    return whiten(model, fit_scale(model)).frame


def test_draws_have_the_stated_prior(frame):
    x = pm.draw(SmoothCoordinates.dist(frame), 1500, random_seed=1)
    assert not np.array_equal(x[0], x[1])
    weights, tau = kernel.weights_of(np.ascontiguousarray(x), frame)
    assert stats.kstest(tau, stats.gamma(TAU_SHAPE, scale=1 / TAU_RATE).cdf).pvalue > 1e-3
    direct, _ = _model(cells=8).law.draw(1500, np.random.default_rng(2))
    for got, want in (
        (weights[:, 0], direct[:, 0]),
        (np.log(weights[:, 3] / weights[:, 4]), np.log(direct[:, 3] / direct[:, 4])),
        (weights[:, 8], direct[:, 8]),
    ):
        assert stats.ks_2samp(got, want).pvalue > 1e-3


def test_operators_are_the_kernels(frame):
    value = pt.vector("x")
    log_prior = pm.logp(SmoothCoordinates.dist(frame), value)
    weights, tau = smooth_weights(value, frame)
    d = np.arange(9.0)
    scalar = 0.5 * log_prior + (d * weights).sum() + 3.0 * tau
    outputs = [log_prior, weights, tau, pytensor.grad(scalar, value), pytensor.grad(tau, value)]
    for mode in (None, "FAST_COMPILE"):  # numba, and Python through `perform`
        function = pytensor.function([value], outputs, mode=mode)
        for x in np.random.default_rng(3).normal(size=(3, 9)):
            got = function(x)
            expected = kernel.prior_and_weights(x, frame)
            for one, other in zip(got[:3], expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)
            np.testing.assert_allclose(
                got[3], kernel.prior_and_weights_pullback(x, frame, 0.5, d, 3.0), rtol=1e-10
            )
            assert got[4][0] == pytest.approx(expected[2] * frame[1][1], rel=1e-10)
            np.testing.assert_allclose(got[4][1:], 0.0, atol=1e-12)
