"""Log posterior of the mixture's weights against its definition, and NUTS on it."""

import numpy as np
import pytest
from scipy import integrate, stats

from dpbayes.kernels.scale_nuts import advance
from dpbayes.kernels.scale_weights import Model, log_posterior, log_prior, weights_at

NOTHING = np.empty((0, 0))
NO_INDEX = np.empty(0, dtype=np.int64)
#: Mean and sd of the spike's log ratio, scale of the steps, sd of the log of their scale.
PRIOR = (0.4, 1.7, 0.6, 0.4)


def cells_of(seed, cells=7, components=5):
    rng = np.random.default_rng(seed)
    evidence = rng.uniform(0.05, 1.0, (cells, components + 1))
    mean = rng.uniform(0.0, 40.0, evidence.shape)
    return evidence, mean, mean**2 + rng.uniform(0.5, 60.0, evidence.shape)


#: Two regions and a world: groups 0 and 1 hold the cells, 2 is the root.
GROUPS = np.array([0, 0, 0, 1, 1, 1, 1])
PARENT = np.array([2, 2, -1])
COPIES = np.array([1.0, 3, 1, 2, 1, 1, 5])
SUMS = {
    "cells only": None,
    "public total": (np.zeros(7, int), np.array([-1]), np.array([np.nan]), np.zeros(1), 230.0),
    "noisy total": (np.zeros(7, int), np.array([-1]), np.array([220.0]), np.array([9.0]), np.nan),
    "noisy regions": (
        GROUPS, PARENT, np.array([90.0, 140.0, np.nan]), np.array([4.0, 8.0, 0]), np.nan,
    ),
    "one region without noise": (
        GROUPS, PARENT, np.array([90.0, np.nan, np.nan]), np.array([0.0, 0, 0]), np.nan,
    ),
    "regions, total and public total": (
        GROUPS, PARENT, np.array([90.0, 140.0, 225.0]), np.array([4.0, 8.0, 3.0]), 231.0,
    ),
}  # fmt: skip


def model_of(seed, sums):
    evidence, mean, square = cells_of(seed)
    if sums is None:
        nothing = (NOTHING, NOTHING, NO_INDEX, NO_INDEX, np.empty(0), np.empty(0), np.nan)
        return Model(evidence, COPIES, *nothing, PRIOR)
    return Model(evidence, COPIES, evidence * mean, evidence * square, *sums, PRIOR)


def weights_of(x):
    a, b, c, _ = PRIOR
    walk = np.concatenate([[a + b * x[0], 0.0], np.cumsum(c * x[1:])])
    return np.exp(walk) / np.exp(walk).sum()


def expected_log_prior(x):
    """Steps with a log-normal scale, which is integrated out by quadrature."""

    def density(z):
        return np.exp(stats.norm.logpdf(x[1:], scale=np.exp(PRIOR[3] * z)).sum()) * stats.norm.pdf(
            z
        )

    found = integrate.quad(density, -8, 8, epsabs=0, epsrel=1e-11, limit=500)[0]
    return np.log(found) + stats.norm.logpdf(x[0])


def expected_log_posterior(x, seed, sums):
    """Log posterior from its definition, sums as one multivariate normal law."""
    evidence, mean, square = cells_of(seed)
    w = weights_of(x)
    f = evidence @ w
    value = COPIES @ np.log(f) + expected_log_prior(x)
    if sums is None:
        return value
    leaf_group, parent, released, noise, total = sums
    r = w * evidence / f[:, None]
    m = (r * mean).sum(axis=1)
    v = (r * square).sum(axis=1) - m**2
    member = np.zeros((parent.size, 7))
    for j, g in enumerate(leaf_group):
        while g >= 0:
            member[g, j] = 1.0
            g = parent[g]
    seen = ~np.isnan(released)
    rows, y, extra = member[seen], released[seen], noise[seen]
    if not np.isnan(total):
        rows, y, extra = np.vstack([rows, member[-1]]), [*y, total], [*extra, 0.25]
    covariance = rows @ np.diag(COPIES * v) @ rows.T + np.diag(extra)
    return value + stats.multivariate_normal.logpdf(y, rows @ (COPIES * m), covariance)


def test_weights_follow_the_walk():
    x = np.random.default_rng(3).standard_normal(5)
    np.testing.assert_allclose(weights_at(x, PRIOR), weights_of(x), rtol=1e-14)


@pytest.mark.parametrize("size", [2, 6, 70])
def test_log_prior_and_its_gradient(size):
    rng = np.random.default_rng(size)
    offsets = []
    for scale in (0.3, 1.0, 2.0):
        x = scale * rng.standard_normal(size)
        value, gradient = log_prior(x, PRIOR[3])
        offsets.append(value - expected_log_prior(x))
        numeric = [
            (log_prior(x + 1e-5 * e, PRIOR[3])[0] - log_prior(x - 1e-5 * e, PRIOR[3])[0]) / 2e-5
            for e in np.eye(size)
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7)
    assert np.ptp(offsets) < 1e-7  # the same but for a constant


@pytest.mark.parametrize("sums", SUMS.values(), ids=SUMS)
@pytest.mark.parametrize("seed", [0, 1])
def test_log_posterior_and_its_gradient(sums, seed):
    model = model_of(seed, sums)
    rng = np.random.default_rng(seed + 10)
    offsets = []
    for _ in range(4):
        x = rng.normal(0.0, 0.8, 5)
        value, gradient = log_posterior(x, model)
        offsets.append(value - expected_log_posterior(x, seed, sums))
        step = 1e-5
        numeric = [
            (log_posterior(x + step * e, model)[0] - log_posterior(x - step * e, model)[0])
            / (2 * step)
            for e in np.eye(5)
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=3e-6, atol=3e-6)
    assert np.ptp(offsets) < 1e-8


def test_log_posterior_far_out_is_finite():
    model = model_of(0, None)
    for x in (np.full(5, 30.0), np.full(5, -30.0), np.array([300.0, 0, 0, 0, 0])):
        value, gradient = log_posterior(x, model)
        assert np.isfinite(value)
        assert np.all(np.isfinite(gradient))


def nuts(model, draws, seed, step=0.3):
    """Draws of a chain that adapts its steps first."""
    size = model.evidence.shape[1] - 1
    rng, mode, factor = np.random.default_rng(seed), np.zeros(size), np.eye(size)
    warm = np.empty((300, size))
    step, _, _ = advance(rng, np.zeros(size), step, 0.8, mode, factor, model, warm)
    out = np.empty((draws, size))
    kept, leaves, lost = advance(rng, warm[-1], step, 0.0, mode, factor, model, out)
    assert kept == step
    assert lost == 0
    assert leaves >= draws
    return out


def test_without_data_nuts_draws_the_prior():
    empty = model_of(0, None)._replace(evidence=np.empty((0, 6)), copies=np.empty(0))
    x = nuts(empty, 8000, 1)[::4]
    assert stats.kstest(x[:, 0], "norm").pvalue > 1e-3
    rng = np.random.default_rng(2)
    scale = np.exp(PRIOR[3] * rng.standard_normal((20_000, 1)))
    expected = scale * rng.standard_normal((20_000, 4))
    for k in range(4):
        assert stats.ks_2samp(x[:, 1 + k], expected[:, k]).pvalue > 1e-3
    # The common scale: radii, which independent steps would not have.
    radii = np.linalg.norm(x[:, 1:], axis=1), np.linalg.norm(expected, axis=1)
    assert stats.ks_2samp(*radii).pvalue > 1e-3


@pytest.mark.parametrize("sums", [None, SUMS["public total"]], ids=["cells only", "public total"])
def test_nuts_agrees_with_weighted_draws_of_the_prior(sums):
    model = model_of(1, sums)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((60_000, 5))
    x[:, 1:] *= np.exp(PRIOR[3] * rng.standard_normal((60_000, 1)))
    log_weight = np.array([log_posterior(row, model)[0] - log_prior(row, PRIOR[3])[0] for row in x])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1.0 / np.sum(weight**2) > 3000
    found = nuts(model, 6000, 4)
    for get in (lambda w: w[:, 0], lambda w: w[:, 1], lambda w: w[:, 5] * w[:, 2]):
        exact = get(np.array([weights_of(row) for row in x]))
        drawn = get(np.array([weights_of(row) for row in found]))
        mean = weight @ exact
        sd = np.sqrt(weight @ (exact - mean) ** 2)
        error = sd * np.sqrt(np.sum(weight**2) + 1 / 1200)  # draws of a chain are not independent
        assert abs(drawn.mean() - mean) < 4 * error
