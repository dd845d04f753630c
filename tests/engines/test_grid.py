"""Adaptive grids against integrals that are known, and the honesty of their error."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from dpbayes.engines import exact
from dpbayes.engines.grid import adaptive_grid
from dpbayes.errors import UnsupportedError
from dpbayes.mechanism import Clamp, Mechanism
from dpbayes.noise import DiscreteLaplace, Gaussian, Laplace
from dpbayes.priors import Dirichlet
from dpbayes.releases import HistogramRelease

#: Log evidence over a box, with its place: name -> (function, box).
PROBLEMS = {
    "flat": (lambda x: 0.0, [(-3.0, 5.0)]),
    "wide normal": (lambda x: stats.norm.logpdf(x[0], 1.0, 1.0), [(-6.0, 9.0)]),
    "narrow normal": (lambda x: stats.norm.logpdf(x[0], 2.2, 0.02), [(-6.0, 9.0)]),
    "normal at the end of the box": (lambda x: stats.norm.logpdf(x[0], 9.0, 0.5), [(-6.0, 9.0)]),
    "two humps": (
        lambda x: np.logaddexp(stats.norm.logpdf(x[0], -4, 0.4), stats.norm.logpdf(x[0], 6, 0.7)),
        [(-8.0, 9.0)],
    ),
    "skewed": (lambda x: stats.skewnorm.logpdf(x[0], 6.0, 0.0, 1.0), [(-5.0, 6.0)]),
    "rising": (lambda x: 2.0 * x[0], [(-2.0, 4.0)]),
    "two dims": (
        lambda x: stats.multivariate_normal.logpdf(x, [1.0, 4.0], [[0.3, 0.2], [0.2, 0.5]]),
        [(-4.0, 5.0), (-1.0, 9.0)],
    ),
    "two dims, narrow": (
        lambda x: stats.multivariate_normal.logpdf(x, [1.0, 4.0], [[0.01, 0], [0, 0.04]]),
        [(-4.0, 5.0), (-1.0, 9.0)],
    ),
}


def reference(log_evidence, box):
    """Moments of exp(log evidence) over the box by a fine midpoint rule."""
    size = 200_001 if len(box) == 1 else 1501
    axes = [low + (high - low) * (np.arange(size) + 0.5) / size for low, high in box]
    if len(box) == 1:
        logs = log_evidence(axes)
        logs = np.broadcast_to(logs, axes[0].shape)
        w = np.exp(logs - logs.max())
        return logs.max() + np.log(w.mean()), [w @ axes[0] / w.sum()]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    logs = log_evidence(grid)
    w = np.exp(logs - logs.max())
    means = [(w * grid[..., d]).sum() / w.sum() for d in range(2)]
    return logs.max() + np.log(w.mean()), means


@pytest.mark.parametrize(("log_evidence", "box"), PROBLEMS.values(), ids=PROBLEMS)
def test_integrals_means_and_the_stated_error(log_evidence, box):
    grid = adaptive_grid(lambda x: float(log_evidence(x)), box)
    value, means = reference(log_evidence, box)
    gap = abs(grid.log_integral - value)
    assert gap <= grid.error + 2e-5, (gap, grid.error)
    tolerance, finest = (1e-4, 257) if len(box) == 1 else (2e-3, 65**2)
    assert grid.error <= tolerance or grid.weights.size == finest
    assert grid.error <= 2e-3
    assert grid.weights.sum() == pytest.approx(1.0)
    assert np.all(grid.weights >= 0)
    # A trapezoid at an end of the box moves means by a few hundredths of an sd at most.
    sd = np.sqrt(grid.weights @ (grid.points - grid.weights @ grid.points) ** 2)
    assert np.all(np.abs(grid.weights @ grid.points - means) <= 0.03 * sd + 1e-9)
    for d, (low, high) in enumerate(box):
        assert grid.points[:, d].min() >= low - 1e-9
        assert grid.points[:, d].max() <= high + 1e-9


def test_problems_are_of_every_kind():
    assert {len(box) for _, box in PROBLEMS.values()} == {1, 2}


def test_no_evidence_anywhere():
    grid = adaptive_grid(lambda _: -np.inf, [(0.0, 1.0)])
    assert grid.log_integral == -np.inf


def test_part_of_the_box_may_be_impossible():
    grid = adaptive_grid(lambda x: 0.0 if x[0] > 0.5 else -np.inf, [(0.0, 1.0)])
    assert grid.log_integral == pytest.approx(np.log(0.5), abs=0.02)


# -- hyperparameters that are learned ----------------------------------------------------


def leaf(values, law, a, log_t, counts):
    """Sums over counts of weight times likelihood, and their first moments, by cell."""
    logs = special.gammaln(a + counts) - special.gammaln(a) - special.gammaln(counts + 1)
    f = np.exp(logs + log_t * counts) * law(values[:, None] - counts)
    return f.sum(axis=1), f @ counts


def test_a_learned_concentration_and_an_unknown_rate():
    # Both hyperparameters by a fine rule of its own; log-uniform laws.
    values = np.array([33.0, -2.0, 1.0, 14.0])
    release = HistogramRelease(values, mechanism=Laplace(scale=3.0))
    prior = Dirichlet(concentration="learned")
    drawn = exact.draw_posterior(release, prior, 20_000, np.random.default_rng(3))
    centres = np.maximum(values, 0.0)
    low, high = prior.total_range(np.rint(centres), np.sqrt(2.0) * 3.0)
    counts = np.arange(350.0)
    density = lambda x: stats.laplace.pdf(x, scale=3.0)  # noqa: E731
    log_a = np.linspace(np.log(0.01), np.log(100.0), 41)
    log_n = np.linspace(np.log(low), np.log(high), 61)
    table = np.empty((log_a.size, log_n.size, 5))
    for i, la in enumerate(log_a):
        for k, ln in enumerate(log_n):
            a = np.exp(la)
            rate = 4 * a / np.exp(ln)
            mass, first = leaf(values, density, a, -np.log1p(rate), counts)
            evidence = np.prod(mass) * (rate / (1 + rate)) ** (4 * a)
            table[i, k] = evidence * np.array([1.0, *(first / mass)])
    sums = integrate.trapezoid(integrate.trapezoid(table, log_n, axis=1), log_a, axis=0)
    box = (log_a[-1] - log_a[0]) * (log_n[-1] - log_n[0])
    assert drawn.log_evidence == pytest.approx(np.log(sums[0] / box), abs=5e-3)
    error = drawn.count.std(axis=0) / np.sqrt(20_000)
    gap = drawn.count.mean(axis=0) - sums[1:] / sums[0]
    assert np.all(np.abs(gap) < 4 * error + 0.005)
    assert np.all((drawn.concentration >= 0.0099) & (drawn.concentration <= 101))


# -- improper rates ----------------------------------------------------------------------


def test_an_improper_rate_where_every_count_is_bounded():
    release = HistogramRelease([20, 5], mechanism=Gaussian(sd=3.0))
    drawn = exact.draw_posterior(release, Dirichlet(rate=0), 20_000, np.random.default_rng(8))
    m = np.arange(200.0)
    f = stats.norm.pdf(np.array([[20.0], [5.0]]) - m, scale=3)
    mean = f @ m / f.sum(axis=1)
    assert np.all(np.abs(drawn.count.mean(axis=0) - mean) < 4 * 3 / np.sqrt(20_000))
    assert np.all(drawn.rate == 0)
    assert set(exact.draw_prior(release, Dirichlet(rate=0), 9, np.random.default_rng(1))) == {
        "probability"
    }


def test_an_improper_rate_where_a_count_is_unbounded_is_refused():
    # A value clamped from above says only that the count is large.
    law = Mechanism(DiscreteLaplace(scale=2), [Clamp(upper=10)])
    release = HistogramRelease([10, 4], mechanism=law)
    with pytest.raises(UnsupportedError, match=r"undecided .* give a larger prior rate"):
        exact.draw_posterior(release, Dirichlet(rate=0), 10, np.random.default_rng(1))
    below = HistogramRelease([9, 4], mechanism=law)  # nothing is at the clamp
    drawn = exact.draw_posterior(below, Dirichlet(rate=0), 500, np.random.default_rng(1))
    assert drawn.count.max() < 80
    held = HistogramRelease([10, 4], mechanism=law, total=60)  # the total bounds it
    drawn = exact.draw_posterior(held, Dirichlet(rate=0), 500, np.random.default_rng(1))
    assert np.all(drawn.total == 60)
