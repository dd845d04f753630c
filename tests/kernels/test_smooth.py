"""Whitened coordinates of smooth distributions: density, derivatives, inverse."""

import numpy as np
import pytest
from scipy import stats

from dpbayes.kernels import smooth as kernel
from dpbayes.models.smooth import ATOM_MEAN, ATOM_SD, TAU_RATE, TAU_SHAPE, fit_scale
from dpbayes.models.whitening import whiten
from tests.models.test_smooth import _model


@pytest.fixture(scope="module", params=[0, 1, 2])
def setting(request):
    """Likelihood, whitening and points, without and with atoms."""
    model = _model(cells=10, atoms=request.param, n=20_000, scale=0.1)
    white = whiten(model, fit_scale(model))
    assert white.target.size > 1
    points = np.random.default_rng(1).normal(size=(6, white.size))
    return model, white, points


def differences(function, x, step=1e-5):
    return np.array([
        (np.asarray(function(x + s)) - np.asarray(function(x - s))) / (2 * step)
        for s in step * np.eye(x.size)
    ])  # fmt: skip


def test_density_is_that_of_the_stated_prior(setting):
    """Of (log τ, u, a), with the Jacobian by differences."""
    model, white, points = setting
    inverse_root = np.linalg.pinv(model.law.root)

    def standard(x):
        _, weights, tau = kernel.prior_and_weights(x, white.frame)
        cells, atoms = weights[: white.cells], weights[white.cells :]
        eta = np.log(atoms / cells.sum())
        return np.r_[np.log(tau), inverse_root @ np.log(cells) / tau, (eta - ATOM_MEAN) / ATOM_SD]

    for x in points:
        at = standard(x)
        expected = stats.gamma(TAU_SHAPE, scale=1 / TAU_RATE).logpdf(np.exp(at[0])) + at[0]
        expected += stats.norm.logpdf(at[1:]).sum()
        expected += np.linalg.slogdet(differences(standard, x))[1]
        assert kernel.prior_and_weights(x, white.frame)[0] == pytest.approx(expected, abs=1e-5)


def test_log_posterior_is_prior_and_likelihood(setting):
    model, white, points = setting
    table, counts = model.seen
    for x in points:
        log_prior, weights, _ = kernel.prior_and_weights(x, white.frame)
        value, gradient = kernel.log_posterior(x, white.frame, table, counts)
        assert value == pytest.approx(log_prior + counts @ np.log(table @ weights), rel=1e-12)
        numeric = differences(lambda y: kernel.log_posterior(y, white.frame, table, counts)[0], x)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=2e-4)


def test_pullback_of_all_outputs(setting):
    _, white, points = setting
    d_weights = np.random.default_rng(2).normal(size=white.size)

    def scalar(x):
        log_prior, weights, tau = kernel.prior_and_weights(x, white.frame)
        return 0.3 * log_prior + d_weights @ weights - 2.0 * tau

    for x in points[:3]:
        found = kernel.prior_and_weights_pullback(x, white.frame, 0.3, d_weights, -2.0)
        np.testing.assert_allclose(found, differences(scalar, x), rtol=1e-5, atol=1e-5)


def test_coordinates_beyond_the_nodes_of_the_scale(setting):
    """Centres and spreads are constant there; the density stays exact."""
    model, white, points = setting
    table, counts = model.seen
    for edge in (white.nodes[0] - 0.3, white.nodes[-1] + 0.3):
        x = 0.3 * points[0]
        x[0] = (edge - white.log_tau_mean) / white.log_tau_sd
        _, gradient = kernel.log_posterior(x, white.frame, table, counts)
        numeric = differences(lambda y: kernel.log_posterior(y, white.frame, table, counts)[0], x)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-3)


def test_draws_of_the_prior_in_coordinates_and_back(setting):
    model, white, _ = setting
    rng = np.random.default_rng(3)
    split = white.loose.shape[0]
    for _ in range(20):
        log_tau, u = rng.normal(0.7, 0.6), rng.normal(size=white.size - 1)
        x = kernel.coordinates(log_tau, u[:split].copy(), u[split:].copy(), white.frame)
        _, weights, tau = kernel.prior_and_weights(x, white.frame)
        raw = white.level + u[:split] @ white.loose + u[split:] @ white.tight
        theta, eta = tau * raw[: white.cells], raw[white.cells :]
        assert tau == pytest.approx(np.exp(log_tau), rel=1e-12)
        np.testing.assert_allclose(weights, model.law.weights(theta, eta), rtol=1e-5)


def test_weights_of_many(setting):
    _, white, points = setting
    weights, tau = kernel.weights_of(points, white.frame)
    for x, w, t in zip(points, weights, tau, strict=True):
        _, one, scale = kernel.prior_and_weights(x, white.frame)
        np.testing.assert_array_equal(w, one)
        assert t == scale


def test_points_that_stand_for_nothing_have_no_density(setting):
    model, white, points = setting
    table, counts = model.seen
    x = points[0].copy()
    x[-1] = np.nan
    value, gradient = kernel.log_posterior(x, white.frame, table, counts)
    assert value == -np.inf
    assert np.all(gradient == 0.0)
