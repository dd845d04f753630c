"""Released tables with a public total against exact convolution."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from dpbayes.kernels import count_draws, multinomial
from dpbayes.mechanism import Clamp, Mechanism, Round, Suppress
from dpbayes.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace

PLAIN = [
    Laplace(scale=0.3),
    Laplace(scale=5.0),
    DiscreteLaplace(scale=0.5),
    DiscreteLaplace(scale=20.0),
    Gaussian(sd=0.1),
    Gaussian(sd=8.0),
    DiscreteGaussian(sigma=1.2),
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


def kernel_arguments(mechanism, released):
    bounds = mechanism.integer_bounds(np.asarray(released, float))
    scale = np.full(len(released), float(mechanism.noise.scale))
    step = mechanism.integer_step() or 1.0
    return mechanism.noise.family, bounds.lower, bounds.upper, bounds.log_jacobian, scale, step


def evaluate(mechanism, released, log_p, n):
    gradient = np.empty(len(released))
    arguments = kernel_arguments(mechanism, released)
    return multinomial.value_and_gradient(*arguments, log_p, float(n), gradient), gradient


@pytest.mark.parametrize("law", PLAIN, ids=repr)
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
    assert np.abs(errors).max() < 0.02
    assert np.std(errors) < 0.004


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
    bounds = np.array([np.inf, 3.0]), np.array([-np.inf, 3.0])
    gradient = np.empty(2)
    value = multinomial.value_and_gradient(
        0, *bounds, np.zeros(2), np.ones(2), 1.0, np.log([0.5, 0.5]), 7.0, gradient
    )
    assert value == -np.inf
    assert np.all(gradient == 0.0)


@pytest.mark.parametrize("wrap", [Mechanism, processed])
def test_draws_with_a_total(wrap):
    mechanism, n, draws = wrap(DiscreteLaplace(scale=3.0)), 25, 40_000
    released = [np.nan, 9.0, 14.0] if wrap is processed else [4.0, 9.0, 14.0]
    p = np.array([0.2, 0.3, 0.5])
    family, lower, upper, _, scale, step = kernel_arguments(mechanism, released)
    log_p = np.tile(np.log(p), (draws, 1))
    rng = np.random.default_rng(1)
    counts = count_draws.with_total(family, lower, upper, scale, step, log_p, n, rng)
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
    family, lower, upper, _, scale, step = kernel_arguments(mechanism, released)
    counts = count_draws.independent(
        family, lower, upper, scale, step, np.tile(np.log(rates), (draws, 1)), 1e4,
        np.random.default_rng(2),
    )  # fmt: skip
    m = np.arange(200)
    for j in range(3):
        law = mechanism.log_likelihood(released[j], m) + m * np.log(rates[j]) - gammaln(m + 1)
        law = np.exp(law - logsumexp(law))
        mean = law @ m
        sd = np.sqrt(law @ (m - mean) ** 2)
        assert counts[:, j].mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(draws))
        assert counts[:, j].std() == pytest.approx(sd, rel=0.03)
