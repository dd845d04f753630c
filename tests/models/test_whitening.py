"""Whitened coordinates: what the posterior looks like in them."""

import numpy as np
import pytest
from scipy import special

from dpbayes.kernels import smooth as kernel
from dpbayes.models.smooth import find_mode, fit_scale
from dpbayes.models.whitening import whiten
from tests.models.test_smooth import _model


@pytest.fixture(scope="module", params=[0, 1])
def setting(request):
    model = _model(cells=20, n=50_000, atoms=request.param)
    fit = fit_scale(model)
    return model, fit, whiten(model, fit)


def test_rotation_keeps_the_prior(setting):
    """(θ/τ, η) has the covariance that the prior states."""
    model, _, white = setting
    both = np.vstack([white.loose, white.tight])
    expected = model.law.transform @ model.law.transform.T
    np.testing.assert_allclose(both.T @ both, expected, atol=1e-10)


def test_zero_is_the_mode_at_the_nodes(setting):
    model, fit, white = setting
    for node in white.nodes[[1, white.nodes.size // 2, -2]]:
        x = np.zeros(white.size)
        x[0] = (node - white.log_tau_mean) / white.log_tau_sd
        _, weights, tau = kernel.prior_and_weights(x, white.frame)
        mode = find_mode(model, tau, fit.mode.point)
        expected = model.law.weights(*model.law.at(tau, mode.point))
        assert 0.5 * np.abs(weights - expected).sum() < 0.01


def test_posterior_is_standard_near_the_mode(setting):
    """Second differences of the log posterior at the mode of τ are close to -1."""
    model, _, white = setting
    table, counts = model.seen
    middle = white.nodes[white.nodes.size // 2]
    x = np.zeros(white.size)
    x[0] = (middle - white.log_tau_mean) / white.log_tau_sd

    def height(y):
        return kernel.log_posterior(y, white.frame, table, counts)[0]

    steps = 0.05 * np.eye(white.size)[1:]
    bends = [(height(x + s) - 2 * height(x) + height(x - s)) / 0.05**2 for s in steps]
    np.testing.assert_allclose(bends, -1.0, atol=0.15)


def test_functionals_carry_the_information_of_the_directions(setting):
    model, fit, white = setting
    theta, eta = model.law.at(fit.mode.tau, fit.mode.point)
    cells = white.cells
    share, w = special.softmax(theta), model.law.weights(theta, eta)
    tight = model.law.scale(fit.mode.tau) * white.tight
    moves = tight - (tight[:, cells:] @ w[cells:])[:, None]
    moves[:, :cells] -= (tight[:, :cells] @ share)[:, None]
    slope = white.functionals @ (w * moves).T
    information = tight @ model.derivatives(theta, eta)[2] @ tight.T
    np.testing.assert_allclose(slope.T @ slope, information, rtol=1e-6, atol=1e-5)
    assert white.target.size >= 3
    # The release is met to within its noise at the mode.
    assert np.all(np.abs(white.target - white.functionals @ w) < 4.0)
