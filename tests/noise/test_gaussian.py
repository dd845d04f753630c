"""Gaussian laws far in their tails against mpmath, and their ways in."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from dpbayes.errors import ParameterError
from dpbayes.noise import DiscreteGaussian, Gaussian


def exact_normal(low, high):
    """Log P(low < z <= high) of the standard normal law, with 80 digits."""
    with mp.workdps(80):
        root = mp.sqrt(2)
        low, high = mp.mpf(low), mp.mpf(high)
        if low + high > 0:
            low, high = -high, -low
        return float(mp.log((mp.erfc(-high / root) - mp.erfc(-low / root)) / 2))


@pytest.mark.parametrize("sd", [0.01, 1.0, 1e5])
@pytest.mark.parametrize(
    "z",
    [(-60, -59), (-38, -37.9999), (-8, -7.99999), (-1, 3), (-1e-7, 2e-7), (0, 1e-3), (2, 2.0005),
     (5, 5.1), (9, 40), (30, 30.00001), (-10, 20)],
)  # fmt: skip
def test_gaussian_intervals_far_in_both_tails(sd, z):
    got = float(Gaussian(sd=sd).log_interval(z[0] * sd, z[1] * sd))
    # The width itself carries the rounding of its ends.
    slack = 1e-11 + 4e-16 * max(abs(z[0]), abs(z[1])) / (z[1] - z[0])
    assert got == pytest.approx(exact_normal(*z), rel=1e-12, abs=slack)


@pytest.mark.parametrize("sigma", [0.2, 1.0, 12.0, 400.0])
@pytest.mark.parametrize("z", [(-30, -28), (-9, -8), (-1, 2), (0, 0), (3, 3), (6, 9), (25, 40)])
def test_discrete_gaussian_intervals_far_in_both_tails(sigma, z):
    first, last = int(np.floor(z[0] * sigma)), int(np.ceil(z[1] * sigma))
    with mp.workdps(60):
        s = mp.mpf(sigma)
        reach = int(np.ceil(17 * sigma)) + 3
        norm = 1 + 2 * mp.fsum(mp.exp(-(mp.mpf(k) ** 2) / (2 * s * s)) for k in range(1, reach))
        # Past 17 sigma from the end that is nearest to zero the terms add nothing.
        near = 0 if first <= 0 <= last else min(abs(first), abs(last))
        inside = (k for k in range(first, last + 1) if abs(k) <= near + reach)
        exact = mp.log(mp.fsum(mp.exp(-(mp.mpf(k) ** 2) / (2 * s * s)) for k in inside) / norm)
    got = float(DiscreteGaussian(sigma=sigma).log_interval(first - 0.5, last + 0.5))
    assert got == pytest.approx(float(exact), rel=1e-11, abs=1e-11)


def test_tails_of_the_gaussian():
    law = Gaussian(sd=2.0)
    z = np.array([1.0, 8.0, 38.0])
    np.testing.assert_allclose(law.logsf(2 * z), stats.norm.logsf(z), rtol=1e-13)
    np.testing.assert_allclose(law.logcdf(-2 * z), stats.norm.logsf(z), rtol=1e-13)


# -- ways in ---------------------------------------------------------------------------


@given(st.floats(0.02, 1e4))
def test_from_sd_variance_and_rho(sd):
    assert Gaussian.from_sd(sd=sd).sd == sd
    assert Gaussian.from_variance(variance=sd**2).sd == pytest.approx(sd)
    rho = 1 / (2 * sd**2)
    assert Gaussian.from_rho(rho=rho, sensitivity=3).sd == pytest.approx(3 * sd)
    assert Gaussian.from_rho(rho=rho, sensitivity=3).rho(sensitivity=3) == pytest.approx(rho)
    assert DiscreteGaussian.from_rho(rho=rho, sensitivity=1).sigma == pytest.approx(sd)


@pytest.mark.parametrize("sd", [0.05, 0.3, 0.94, 5.0, 3000.0])
def test_the_sd_of_a_discrete_gaussian_is_not_sigma(sd):
    law = DiscreteGaussian.from_sd(sd=sd)
    k = np.arange(-np.ceil(12 * sd) - 3, np.ceil(12 * sd) + 4)
    mass = np.exp(-(k**2) / (2 * law.sigma**2))
    assert np.sqrt(np.sum(k**2 * mass) / mass.sum()) == pytest.approx(sd, rel=1e-9)
    if sd < 0.5:
        assert law.sigma > 1.005 * sd


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("half_width", [2.0, 9.0, 100.5])
def test_from_half_width(half_width, level):
    law = Gaussian.from_half_width(half_width=half_width, level=level)
    assert 2 * stats.norm.sf(half_width, scale=law.sd) == pytest.approx(1 - level)
    discrete = DiscreteGaussian.from_half_width(half_width=half_width, level=level)
    k = np.arange(-np.floor(half_width), np.floor(half_width) + 1)
    assert np.exp(discrete.logpdf(k)).sum() == pytest.approx(level, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_from_epsilon_delta_solves_the_exact_condition(epsilon, delta):
    # Balle & Wang (2018), Theorem 8, solved here on its own.
    def excess(log_sd):
        sd = np.exp(log_sd)
        a, b = 2 / (2 * sd), epsilon * sd / 2
        first, second = stats.norm.logcdf(a - b), epsilon + stats.norm.logcdf(-a - b)
        return first + np.log(-np.expm1(second - first)) - np.log(delta)

    exact = np.exp(optimize.brentq(excess, -3, 8, xtol=1e-13))
    law = Gaussian.from_epsilon_delta(epsilon=epsilon, delta=delta, sensitivity=2)
    assert law.sd == pytest.approx(exact, rel=1e-9)
    assert law.delta(epsilon=epsilon, sensitivity=2) == pytest.approx(delta, rel=1e-7)
    if epsilon < 1:
        assert law.sd < 2 * np.sqrt(2 * np.log(1.25 / delta)) / epsilon


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_delta_of_a_discrete_gaussian_by_summation(epsilon):
    law = DiscreteGaussian.from_epsilon_delta(epsilon=epsilon, delta=1e-5, sensitivity=1)
    k = np.arange(-400, 401)
    # The hockey-stick divergence between neighbours, by definition.
    p, shifted = np.exp(law.logpdf(k)), np.exp(law.logpdf(k - 1))
    divergence = np.sum(np.maximum(p - np.exp(epsilon) * shifted, 0.0))
    assert divergence == pytest.approx(1e-5, rel=1e-4)
    assert law.delta(epsilon=epsilon, sensitivity=1) == pytest.approx(divergence, rel=1e-4)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, float("nan")])
def test_delta_must_be_a_probability(delta):
    with pytest.raises(ParameterError, match="delta must be between 0 and 1, got"):
        Gaussian.from_epsilon_delta(epsilon=1, delta=delta, sensitivity=1)
