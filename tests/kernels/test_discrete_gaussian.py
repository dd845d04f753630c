"""The discrete Gaussian against 40-digit sums."""

import mpmath as mp
import numpy as np
import pytest

from dpbayes.kernels import discrete_gaussian as dg

SIGMAS = [0.05, 0.3, 0.5, 1.0, 2.5, 9.9, 10.1, 20.0, 1e3, 1e6]


def reference_normalizer(sigma):
    with mp.workdps(40):
        sigma = mp.mpf(sigma)
        if sigma < 1:
            return 1 + 2 * sum(mp.exp(-(mp.mpf(k) ** 2) / (2 * sigma**2)) for k in range(1, 20))
        poisson = sum(mp.exp(-2 * (mp.pi * sigma * k) ** 2) for k in range(1, 6))
        return sigma * mp.sqrt(2 * mp.pi) * (1 + 2 * poisson)


def reference_log_tail(k, sigma):
    """log P(K >= k): the sum where it is short, Euler-Maclaurin from k where sigma is large."""
    with mp.workdps(40):
        s, x = mp.mpf(sigma), mp.mpf(k)
        f = mp.exp(-x * x / (2 * s * s))
        if sigma < 100:
            total, m = mp.mpf(0), x
            while (term := mp.exp(-m * m / (2 * s * s))) > f * mp.mpf(10) ** -25:
                total += term
                m += 1
        else:
            z = x / s
            total = s * mp.sqrt(mp.pi / 2) * mp.erfc(z / mp.sqrt(2)) + f / 2 + z * f / (12 * s)
            total -= (z**3 - 3 * z) * f / (720 * s**3)
            total += (z**5 - 10 * z**3 + 15 * z) * f / (30240 * s**5)
        return float(mp.log(total / reference_normalizer(sigma)))


@pytest.mark.parametrize("sigma", SIGMAS)
def test_mass_and_variance(sigma):
    k = np.array([0.0, 1.0, -7.0, 500.0])
    with mp.workdps(40):
        reference = reference_normalizer(sigma)
        expected = [
            float(-(mp.mpf(x) ** 2) / (2 * mp.mpf(sigma) ** 2) - mp.log(reference)) for x in k
        ]
        square = mp.mpf(sigma) ** 2
        reach = range(1, int(15 * min(sigma, 50)) + 10)
        moment = 2 * sum(mp.mpf(m) ** 2 * mp.exp(-(mp.mpf(m) ** 2) / (2 * square)) for m in reach)
        variance = float(moment / reference_normalizer(sigma)) if sigma < 50 else sigma**2
    np.testing.assert_allclose(dg.logpmf(k, sigma), expected, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(dg.variance(sigma), variance, rtol=1e-12)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_tails_keep_their_relative_accuracy(sigma):
    k = np.unique(np.array([1, 2, 10, int(3 * sigma) + 1, int(30 * sigma) + 1]))
    expected = [reference_log_tail(int(x), sigma) for x in k]
    np.testing.assert_allclose(dg.logsf(k - 1.0, sigma), expected, rtol=3e-13)
    np.testing.assert_allclose(dg.logcdf(-k, sigma), expected, rtol=3e-13)


@pytest.mark.parametrize("sigma", [0.4, 3.0, 40.0, 1e4])
@pytest.mark.parametrize("ends", [(-0.5, 0.5), (2.5, 9.5), (-80.5, 3.5), (10.0, 200.0)])
def test_intervals_are_sums_of_masses(sigma, ends):
    members = np.arange(np.floor(ends[0]) + 1, np.floor(ends[1]) + 1)
    expected = np.logaddexp.reduce(dg.logpmf(members, sigma))
    np.testing.assert_allclose(dg.log_interval(*ends, sigma), expected, rtol=1e-9, atol=1e-9)


def test_tails_complement_each_other():
    k = np.arange(-40.0, 41.0)
    total = np.logaddexp(dg.logcdf(k, 4.0), dg.logsf(k, 4.0))
    np.testing.assert_allclose(total, 0.0, atol=1e-14)
    assert dg.log_interval(-np.inf, np.inf, 4.0) == 0.0


def test_values_off_the_lattice():
    assert dg.logpmf(0.5, 2.0) == -np.inf
    assert dg.logpmf(3.0 + 1e-9, 2.0) == dg.logpmf(3.0, 2.0)
    assert dg.log_interval(4.2, 4.8, 2.0) == -np.inf
    assert dg.logcdf(4.8, 2.0) == dg.logcdf(4.0, 2.0)


def test_arguments_broadcast():
    assert dg.logpmf(np.arange(3.0)[:, None], np.array([1.0, 2.0])).shape == (3, 2)
    assert np.ndim(dg.variance(2.0)) == 0
