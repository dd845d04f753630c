"""Released tables with a public total against exact convolution."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import fftconvolve
from scipy.special import gammaln, logsumexp
from scipy.stats import multinomial as multinomial_law
from scipy.stats import norm

from dpbayes.distributions.count_mechanism import CountMechanism, noise_parameters
from dpbayes.kernels import count_draws, multinomial
from dpbayes.kernels.tabulated import EMPTY
from dpbayes.mechanism import Clamp, Mechanism, Round, Suppress
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

BUMPS = (0.7, -6.0), (0.3, 14.0)  # noise with a gap: neither log-concave nor symmetric


def two_bumps(x):
    return np.logaddexp(*(np.log(w) + norm.logpdf(x, centre) for w, centre in BUMPS))


def two_bumps_cdf(x):
    return sum(w * norm.cdf(x, centre) for w, centre in BUMPS)


def two_bumps_rvs(size, rng):
    return np.where(rng.random(size) < 0.7, -6.0, 14.0) + rng.normal(size=size)


PLAIN = [
    Laplace(scale=0.3),
    Laplace(scale=5.0),
    DiscreteLaplace(scale=0.5),
    DiscreteLaplace(scale=20.0),
    Gaussian(sd=0.1),
    Gaussian(sd=8.0),
    DiscreteGaussian(sigma=1.2),
    TruncatedLaplace(scale=6.0, bound=11.0),
    TruncatedDiscreteLaplace(scale=3.0, bound=7.0, step=0.5),
    CustomNoise(logpdf=two_bumps, cdf=two_bumps_cdf, rvs=two_bumps_rvs, sd=9.22),
]


def processed(law):
    """The law with post-processing that leaves intervals."""
    steps = [Clamp(lower=0), Suppress(below=5)]
    return Mechanism(law, steps if law.is_lattice else [Round(), *steps])


def leaves(mechanism, released, p, n):
    """log Q(y_j | m) (n p_j)^m / m! for m = 0..n, one row per cell."""
    m = np.arange(n + 1)
    prior = m * np.log(n * np.asarray(p))[:, None] - gammaln(m + 1)
    return mechanism.log_likelihood(np.asarray(released, float)[:, None], m) + prior


def convolve(rows):
    """Log of the convolution of rows of logs, cut to the length of one row."""
    total = rows[0]
    for row in rows[1:]:
        top, other = total.max(), row.max()
        with np.errstate(divide="ignore"):
            product = np.convolve(np.exp(total - top), np.exp(row - other))[: row.size]
            total = np.log(np.maximum(product, 0.0)) + top + other
    return total


def exact(mechanism, released, p, n):
    return convolve(leaves(mechanism, released, p, n))[n] + gammaln(n + 1) - n * np.log(n)


def kernel_arguments(mechanism, released, scale=None):
    bounds = mechanism.integer_bounds(np.asarray(released, float))
    static = CountMechanism.of(mechanism)
    own, bound = noise_parameters(mechanism.noise)
    spread = [np.full(len(released), float(x)) for x in (own if scale is None else scale, bound)]
    lower, upper = bounds.lower.copy(), bounds.upper.copy()
    cells = multinomial.prepare(static.family, lower, upper, *spread, static.step or 1.0)
    return cells, static.table, bounds.log_jacobian


def evaluate(mechanism, released, log_p, n, scale=None):
    gradient, by_scale = np.empty((2, len(released)))
    value = multinomial.value_and_gradient(
        *kernel_arguments(mechanism, released, scale), log_p, float(n), scale is not None,
        gradient, by_scale,
    )  # fmt: skip
    return value, by_scale if scale is not None else gradient


@pytest.mark.parametrize("law", PLAIN, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("wrap", [Mechanism, processed])
@pytest.mark.parametrize(("cells", "n"), [(3, 30), (10, 400), (30, 1500)])
def test_value_and_gradient(law, wrap, cells, n):
    mechanism = wrap(law)
    rng = np.random.default_rng([cells, n])
    counts = rng.multinomial(n, rng.dirichlet(np.ones(cells)))
    released = mechanism.sample(counts, rng)
    errors = []
    for _ in range(4):
        p = rng.dirichlet(counts + 1.0)
        value, gradient = evaluate(mechanism, released, np.log(p), n)
        errors.append(value - exact(mechanism, released, p, n))
        j, h = int(rng.integers(cells)), 1e-4
        difference = 0.0
        for shift, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
            moved = np.log(p) + shift * h * (np.arange(cells) == j)
            difference += weight * evaluate(mechanism, released, moved, n)[0] / (12 * h)
        assert gradient[j] == pytest.approx(difference, rel=1e-6, abs=1e-6)
    assert np.abs(errors).max() < 1e-3


def exact_tilted(mechanism, released, p, n):
    """`exact` by Fourier transforms under a tilt found by bisection: for large n."""
    m = np.arange(n + 1.0)
    rows = leaves(mechanism, released, p, n)
    low, high = -40.0, 40.0
    for _ in range(60):
        tilt = 0.5 * (low + high)
        laws = [np.exp(r + tilt * m - logsumexp(r + tilt * m)) for r in rows]
        low, high = (tilt, high) if sum(w @ m for w in laws) < n else (low, tilt)
    total = laws[0]
    for law in laws[1:]:
        total = np.maximum(fftconvolve(total, law)[: n + 1], 0.0)
    value = sum(logsumexp(r + tilt * m) for r in rows) - n * tilt + np.log(total[n])
    return value + gammaln(n + 1) - n * np.log(n)


@pytest.mark.parametrize("scale", [0.05, 0.3, 2.0, 20.0, 300.0, 1e4])
@pytest.mark.parametrize("cells", [2, 3, 5, 10, 50])
def test_error_over_a_grid(cells, scale):
    worst = 0.0
    for n in (5, 60, 1000, 6000):
        for law, evenness in ((Laplace(scale=scale), 0.3), (DiscreteLaplace(scale=scale), 5.0)):
            rng = np.random.default_rng([cells, n, int(100 * scale)])
            counts = rng.multinomial(n, rng.dirichlet(np.full(cells, evenness)))
            released = Mechanism(law).sample(counts, rng)
            p = rng.dirichlet(counts + 1.0)
            value, _ = evaluate(Mechanism(law), released, np.log(p), n)
            worst = max(worst, abs(value - exact_tilted(Mechanism(law), released, p, n)))
    assert worst < 1e-3


@pytest.mark.parametrize("wrap", [Mechanism, processed])
@pytest.mark.parametrize(
    "law", [Laplace(scale=4.0), DiscreteGaussian(sigma=3.0), TruncatedLaplace(scale=6.0, bound=11)]
)
def test_derivative_in_the_scale(law, wrap):
    mechanism, n = wrap(law), 60
    counts = np.array([2, 8, 20, 30])
    released, log_p = mechanism.sample(counts, 5), np.log(counts / n)
    _, slope = evaluate(mechanism, released, log_p, n, scale=law.scale)
    difference = 0.0
    for shift, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
        value, _ = evaluate(mechanism, released, log_p, n, scale=law.scale + 1e-3 * shift)
        difference += weight * value / 12e-3
    assert slope.sum() == pytest.approx(difference, rel=1e-7, abs=1e-8)


@given(seed=st.integers(0, 10_000), cells=st.integers(2, 6), scale=st.floats(0.1, 30.0))
def test_order_of_the_cells_does_not_matter(seed, cells, scale):
    rng = np.random.default_rng(seed)
    mechanism = Mechanism(Laplace(scale=scale))
    counts = rng.multinomial(40, rng.dirichlet(np.ones(cells)))
    released, p = mechanism.sample(counts, rng), rng.dirichlet(counts + 1.0)
    value, gradient = evaluate(mechanism, released, np.log(p), 40)
    order = rng.permutation(cells)
    again, permuted = evaluate(mechanism, released[order], np.log(p[order]), 40)
    assert again == pytest.approx(value, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(permuted, gradient[order], rtol=1e-6, atol=1e-6)


def test_no_noise_is_the_multinomial_law():
    counts, p = np.array([3.0, 0.0, 9.0]), np.array([0.3, 0.1, 0.6])
    value, gradient = evaluate(Mechanism(NoNoise()), counts, np.log(p), 12)
    assert value == pytest.approx(multinomial_law.logpmf(counts, 12, p), abs=1e-12)
    np.testing.assert_allclose(gradient, counts, atol=1e-12)
    assert evaluate(Mechanism(NoNoise()), counts, np.log(p), 13)[0] == -np.inf


def test_small_variance_is_exact():
    mechanism = Mechanism(DiscreteLaplace(scale=0.2))
    released, p = np.array([4.0, 9.0, 0.0, 12.0, 6.0]), np.array([0.1, 0.3, 0.05, 0.4, 0.15])
    for n in (30, 31, 33):
        value, gradient = evaluate(mechanism, released, np.log(p), n)
        assert value == pytest.approx(exact(mechanism, released, p, n), abs=1e-11)
        assert gradient.sum() == pytest.approx(n, abs=1e-9)  # E[N_j | y, sum N = n] sums to n


def test_an_empty_cell_of_probability_zero():
    mechanism = Mechanism(DiscreteLaplace(scale=1.0))
    released, p = np.array([1.0, 20.0, 11.0]), np.array([0.0, 0.6, 0.4])
    with np.errstate(divide="ignore"):
        value, _ = evaluate(mechanism, released, np.log(p), 30)
    rest = evaluate(mechanism, released[1:], np.log(p[1:]), 30)[0]
    assert value == pytest.approx(rest + float(mechanism.noise.logpdf(1.0)), abs=1e-10)


def test_unreachable_total():
    # Bounds that no count of the total can meet: the noise would have to be beyond its range.
    cells = 0, np.array([np.inf, 3.0]), np.array([-np.inf, 3.0]), np.ones(2), np.zeros(2), 1.0
    gradient, by_scale = np.empty((2, 2))
    value = multinomial.value_and_gradient(
        cells, EMPTY, np.zeros(2), np.log([0.5, 0.5]), 7.0, False, gradient, by_scale
    )
    assert value == -np.inf
    assert np.all(gradient == 0.0)
    assert np.all(by_scale == 0.0)


@pytest.mark.parametrize("wrap", [Mechanism, processed])
def test_draws_with_a_total(wrap):
    mechanism, n, draws = wrap(DiscreteLaplace(scale=3.0)), 25, 40_000
    released = [np.nan, 9.0, 14.0] if wrap is processed else [4.0, 9.0, 14.0]
    p = np.array([0.2, 0.3, 0.5])
    cells, table, _ = kernel_arguments(mechanism, released)
    log_p = np.tile(np.log(p), (draws, 1))
    counts = count_draws.with_total(cells, table, log_p, n, np.random.default_rng(1))
    assert np.all(counts.sum(axis=1) == n)
    rows = leaves(mechanism, released, p, n)
    for j in range(3):
        others = convolve([rows[i] for i in range(3) if i != j])
        law = rows[j] + others[::-1]
        law = np.exp(law - logsumexp(law))
        mean = law @ np.arange(n + 1)
        sd = np.sqrt(law @ (np.arange(n + 1) - mean) ** 2)
        assert counts[:, j].mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(draws))
        assert counts[:, j].std() == pytest.approx(sd, rel=0.03)


def test_independent_draws():
    mechanism, draws = processed(DiscreteLaplace(scale=3.0)), 40_000
    released, rates = [np.nan, 9.0, 31.0], np.array([2.0, 14.0, 20.0])
    cells, table, _ = kernel_arguments(mechanism, released)
    counts = count_draws.independent(
        cells, table, np.tile(np.log(rates), (draws, 1)), np.inf, np.random.default_rng(2)
    )
    m = np.arange(200)
    for j in range(3):
        law = mechanism.log_likelihood(released[j], m) + m * np.log(rates[j]) - gammaln(m + 1)
        law = np.exp(law - logsumexp(law))
        mean = law @ m
        sd = np.sqrt(law @ (m - mean) ** 2)
        assert counts[:, j].mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(draws))
        assert counts[:, j].std() == pytest.approx(sd, rel=0.03)
