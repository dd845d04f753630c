"""Special functions against mpmath, far beyond where the textbook forms work."""

import mpmath as mp
import numpy as np
import pytest

from dpbayes.kernels import gamma_ratios, special


def relative_error(value, reference):
    return abs(float((mp.mpf(float(value)) - reference) / reference))


@pytest.mark.parametrize("x", [-5.0, -0.3, 0.0, 1.7, 4.999, 5.001, 30.0, 1e4, 1e9])
def test_erfcx(x):
    with mp.workdps(40):
        m = mp.mpf(x)
        exact = (
            mp.exp(m * m) * mp.erfc(m) if x < 1e3 else (1 - 1 / (2 * m * m)) / m / mp.sqrt(mp.pi)
        )
        assert relative_error(special.erfcx(x), exact) < 1e-15 * max(4.0, abs(x) if x < 5 else 4.0)


@pytest.mark.parametrize("z", [-1e5, -40.0, -3.0, -1.01, -0.5, 2.0, 8.0, 30.0])
def test_log_ndtr(z):
    with mp.workdps(60 + 400 * (z > 10)):
        exact = mp.log(mp.erfc(-mp.mpf(z) / mp.sqrt(2)) / 2) if z < 10 else -mp.ncdf(-z)
        assert relative_error(special.log_ndtr(z), exact) < 1e-13


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(-1.0, 2.0), (0.1, 0.4), (-0.2, 0.1), (3.0, 3.1), (9.0, 9.001), (-30.0, -20.0), (5.0, 5e5)],
)
def test_log_ndtr_interval(lower, upper):
    with mp.workdps(400):
        root = mp.sqrt(2)
        exact = mp.log((mp.erfc(mp.mpf(lower) / root) - mp.erfc(mp.mpf(upper) / root)) / 2)
        assert relative_error(special.log_ndtr_interval(lower, upper), exact) < 1e-13


@pytest.mark.parametrize(
    ("m", "mu"),
    [(0, 1e-3), (7, 1e-3), (3, 1e7), (12, 11.5), (1000, 1003.0), (10**7, 1.0001e7), (900, 1e4)],
)
def test_log_poisson(m, mu):
    with mp.workdps(40):
        exact = m * mp.log(mp.mpf(mu)) - mp.mpf(mu) - mp.loggamma(m + 1)
        assert relative_error(special.log_poisson(float(m), mu), exact) < 2e-15


@pytest.mark.parametrize("v", [-0.5, -0.19, -1e-6, 1e-9, 0.03, 0.21, 4.0])
def test_log1pmx(v):
    with mp.workdps(40):
        assert relative_error(special.log1pmx(v), mp.log1p(mp.mpf(v)) - mp.mpf(v)) < 2e-15


def series(k, x, left):
    """Sum and first moment of the terms that define S (left) or T."""
    term = total = mp.mpf(1)
    moment, i = mp.mpf(0), 1
    while True:
        term *= mp.mpf(k - i + 1) / mp.mpf(x) if left else mp.mpf(x) / (k + 1 + i)
        total, moment = total + term, moment + i * term
        if i * term < total * mp.mpf(10) ** -25:
            return total, moment
        i += 1


@pytest.mark.parametrize("k", [1, 40, 99, 101, 5000, 100_000])
@pytest.mark.parametrize("sds", [0.0, 0.3, 2.0, 8.0, 100.0])
def test_poisson_tail_ratios(k, sds):
    above, below = k + sds * np.sqrt(k), k + 1 - sds * np.sqrt(k)
    with mp.workdps(35):
        total, moment = series(k, above, left=True)
        s, s_moment, s_previous = gamma_ratios.left_ratio(float(k), above)
        assert relative_error(s, total) < 2e-14
        assert relative_error(s_moment, moment) < 2e-14
        assert relative_error(k / above * s_previous, total - 1) < 3e-14
        if below > 0:
            total, moment = series(k, below, left=False)
            t, t_moment = gamma_ratios.right_ratio(float(k), below)
            assert relative_error(t, total) < 2e-14
            assert relative_error(t_moment, moment) < 2e-14


def test_poisson_tails_at_their_ends():
    assert gamma_ratios.log_poisson_tails(-1.0, 3.0) == (-np.inf, 0.0)
    assert gamma_ratios.log_poisson_tails(np.inf, 3.0) == (0.0, -np.inf)
    below, above = gamma_ratios.log_poisson_tails(2.0, 3.0)
    np.testing.assert_allclose(np.exp(below), np.exp(-3.0) * 8.5, rtol=1e-14)
    np.testing.assert_allclose(np.exp(below) + np.exp(above), 1.0, rtol=1e-15)
