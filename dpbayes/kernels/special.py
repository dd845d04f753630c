"""Scalar special functions for the kernels, written so that tails keep their relative accuracy.

References
----------
.. [1] Loader, C. (2000). Fast and accurate computation of binomial probabilities (``stirlerr``
   and ``bd0``).
.. [2] NIST Digital Library of Mathematical Functions, 7.9.3 (continued fraction of erfc).
"""

import math

import numpy as np
from numba import njit

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
SQRT_HALF = math.sqrt(0.5)
INV_SQRT_PI = 1.0 / math.sqrt(math.pi)
SQRT_TWO_OVER_PI = math.sqrt(2.0 / math.pi)


@njit(cache=True, nogil=True)
def log1mexp(x):
    """log(1 - exp(x)) for x <= 0."""
    if x >= 0.0:
        return -np.inf
    if x > -0.6931471805599453:
        return math.log(-math.expm1(x))
    return math.log1p(-math.exp(x))


@njit(cache=True, nogil=True)
def logaddexp(x, y):
    """log(exp(x) + exp(y))."""
    if x < y:
        x, y = y, x
    if y == -np.inf:
        return x
    return x + math.log1p(math.exp(y - x))


@njit(cache=True, nogil=True)
def logsubexp(x, y):
    """log(exp(x) - exp(y)) for x >= y."""
    if y == -np.inf:
        return x
    return x + log1mexp(y - x)


@njit(cache=True, nogil=True)
def erfcx(x):
    """Scaled complementary error function exp(x^2) erfc(x)."""
    if x < 5.0:
        # exp(x^2) from an exact split of x^2, so that its rounding is not amplified
        head = np.floor(x * 16.0) / 16.0
        tail = (x - head) * (x + head)
        return math.exp(head * head) * math.exp(tail) * math.erfc(x)
    if x > 1e8:
        return INV_SQRT_PI / x
    fraction = x
    for i in range(24, 0, -1):
        fraction = x + 0.5 * i / fraction
    return INV_SQRT_PI / fraction


@njit(cache=True, nogil=True)
def log_ndtr(z):
    """Logarithm of the standard normal distribution function."""
    if z < -1.0:
        return math.log(0.5 * erfcx(-z * SQRT_HALF)) - 0.5 * z * z
    return math.log1p(-0.5 * math.erfc(z * SQRT_HALF))


@njit(cache=True, nogil=True)
def log_ndtr_interval(lower, upper):
    """log(Phi(upper) - Phi(lower)) for lower < upper, without cancellation in either tail."""
    if lower > 0.0:
        lower, upper = -upper, -lower
    if upper <= 0.0:
        # one tail: factor exp(-upper^2/2) out of both ends
        ratio = 0.0
        if lower > -np.inf:
            gap = 0.5 * (lower - upper) * (lower + upper)
            if gap < 0.125 and upper - lower < 0.5:
                return _log_narrow_interval(lower, upper)
            ratio = math.exp(-gap) * erfcx(-lower * SQRT_HALF)
        return math.log(0.5 * (erfcx(-upper * SQRT_HALF) - ratio)) - 0.5 * upper * upper
    if upper - lower < 0.5:
        return _log_narrow_interval(lower, upper)
    return math.log(0.5 * (math.erf(upper * SQRT_HALF) - math.erf(lower * SQRT_HALF)))


@njit(cache=True, nogil=True)
def _log_narrow_interval(lower, upper):
    """Taylor series of the normal mass of a narrow interval about its middle."""
    middle = 0.5 * (lower + upper)
    half = 0.5 * (upper - lower)
    previous, current = 1.0, middle  # Hermite polynomials He_0, He_1
    power = 1.0  # half^(2k) / (2k + 1)!
    total = 1.0
    square = half * half
    for k in range(1, 12):
        previous, current = current, middle * current - (2 * k - 1) * previous  # He_2k
        power *= square / ((2 * k) * (2 * k + 1))
        term = power * current
        total += term
        previous, current = current, middle * current - 2 * k * previous  # He_2k+1
        if abs(term) < 1e-18 * total and k > 2:
            break
    return math.log(2.0 * half * total) - LOG_SQRT_2PI - 0.5 * middle * middle


@njit(cache=True, nogil=True)
def stirlerr(x):
    """Error of Stirling's formula, log Gamma(x+1) - [(x+1/2) log x - x + log sqrt(2 pi)]."""
    if x < 16.0:
        return math.lgamma(x + 1.0) - (x + 0.5) * math.log(x) + x - LOG_SQRT_2PI
    r = 1.0 / (x * x)
    series = 1.0 / 1188.0 - r * (691.0 / 360360.0 - r / 156.0)
    series = 1.0 / 1680.0 - r * series
    series = 1.0 / 1260.0 - r * (series)
    return (1.0 / 12.0 - r * (1.0 / 360.0 - r * series)) / x


@njit(cache=True, nogil=True)
def bd0(x, mu):
    """Deviance part x log(x/mu) + mu - x for x, mu > 0, accurate for x near mu."""
    if abs(x - mu) < 0.1 * (x + mu):
        v = (x - mu) / (x + mu)
        total = (x - mu) * v
        term = 2.0 * x * v
        square = v * v
        for j in range(1, 1000):
            term *= square
            updated = total + term / (2 * j + 1)
            if updated == total:
                return updated
            total = updated
    return x * math.log(x / mu) + mu - x


@njit(cache=True, nogil=True)
def log1pmx(v):
    """log(1 + v) - v, without cancellation for small v."""
    if abs(v) > 0.2:
        return math.log1p(v) - v
    u = v / (2.0 + v)
    square = u * u
    tail = 0.0
    for j in range(15, 1, -2):
        tail = square * (1.0 / j + tail)
    return u * (2.0 * tail - v)


@njit(cache=True, nogil=True)
def log_poisson(m, mu):
    """Log of mu^m exp(-mu) / Gamma(m+1) for real m >= 0 (minus infinity for m < 0)."""
    if m < 0.0:
        return -np.inf
    if mu == 0.0:
        return 0.0 if m == 0.0 else -np.inf
    if m < 1e-3 * mu and m < 16.0:
        return m * math.log(mu) - mu - math.lgamma(m + 1.0)
    if m == 0.0:
        return -mu
    return -stirlerr(m) - bd0(m, mu) - 0.5 * math.log(m) - LOG_SQRT_2PI
