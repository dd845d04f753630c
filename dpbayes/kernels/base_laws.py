r"""Laws of the true value before noise: Poisson, binomial, negative binomial and normal.

Masses are continued to real arguments through the gamma function, so that sums over many counts
can be taken by quadrature. All are Loader's saddle-point forms, whose error is relative to the
logarithm itself.

========================  ======================  ========================
law                       first parameter         second parameter
========================  ======================  ========================
``POISSON``               mean mu                 unused
``BINOMIAL``              trials n                probability p
``NEGATIVE_BINOMIAL``     mean mu                 dispersion alpha
``NORMAL``                mean mu                 standard deviation sigma
========================  ======================  ========================

References
----------
.. [1] Loader, C. (2000). Fast and accurate computation of binomial probabilities.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.families import BINOMIAL, NEGATIVE_BINOMIAL, NORMAL, POISSON
from dpbayes.kernels.special import (
    LOG_SQRT_2PI,
    bd0,
    log1pmx,
    log_ndtr,
    log_poisson,
    stirlerr,
)


@njit(cache=True, nogil=True)
def valid(base, a, b):
    """Whether the parameters are inside their ranges (NaN is not)."""
    if base == POISSON:
        return a >= 0.0 and a < np.inf
    if base == BINOMIAL:
        return a >= 0.0 and a < np.inf and b >= 0.0 and b <= 1.0
    if base == NEGATIVE_BINOMIAL:
        return a >= 0.0 and a < np.inf and b > 0.0 and b < np.inf
    return abs(a) < np.inf and b > 0.0 and b < np.inf


@njit(cache=True, nogil=True)
def fixed_count(base, a, b):
    """Find the only possible count where the law has no spread, -1 where it has some."""
    if base == NORMAL:
        return -1.0
    if a == 0.0 or (base == BINOMIAL and b == 0.0):
        return 0.0
    return a if base == BINOMIAL and b == 1.0 else -1.0


@njit(cache=True, nogil=True)
def log_binomial(m, n, p):
    """Log mass of a binomial law at real m, 0 < p < 1 (minus infinity outside 0..n)."""
    if m < 0.0 or m > n:
        return -np.inf
    q = 1.0 - p
    if m == 0.0:
        return n * math.log1p(-p)
    if m == n:
        return n * math.log(p)
    rest = n - m
    value = stirlerr(n) - stirlerr(m) - stirlerr(rest) - bd0(m, n * p) - bd0(rest, n * q)
    return value + 0.5 * math.log(n / (m * rest)) - LOG_SQRT_2PI


@njit(cache=True, nogil=True)
def log_negative_binomial(m, mu, alpha):
    """Log mass of a negative binomial law at real m, mu > 0 (minus infinity for m < 0)."""
    if m < 0.0:
        return -np.inf
    if m == 0.0:
        return -alpha * math.log1p(mu / alpha)
    n, share = m + alpha, alpha / (mu + alpha)
    value = stirlerr(n) - stirlerr(m) - stirlerr(alpha)
    value -= bd0(alpha, n * share) + bd0(m, n * (mu / (mu + alpha)))
    return value + 0.5 * math.log(alpha / (n * m)) - LOG_SQRT_2PI


@njit(cache=True, nogil=True)
def log_mass(base, m, a, b):
    """Log mass (density of the normal law) at real m."""
    if base == POISSON:
        return log_poisson(m, a)
    if base == BINOMIAL:
        return log_binomial(m, a, b)
    if base == NEGATIVE_BINOMIAL:
        return log_negative_binomial(m, a, b)
    return -0.5 * ((m - a) / b) ** 2 - math.log(b) - LOG_SQRT_2PI


@njit(cache=True, nogil=True)
def rise(base, m, a, b):
    """Ratio of the masses at m + 1 and m, for counts."""
    if base == POISSON:
        return a / (m + 1.0)
    if base == BINOMIAL:
        return (a - m) / (m + 1.0) * (b / (1.0 - b))
    return (m + b) / (m + 1.0) * (a / (a + b))


@njit(cache=True, nogil=True)
def centre_and_spread(base, a, b):
    """Mean and standard deviation."""
    if base == POISSON:
        return a, math.sqrt(a)
    if base == BINOMIAL:
        return a * b, math.sqrt(a * b * (1.0 - b))
    if base == NEGATIVE_BINOMIAL:
        return a, math.sqrt(a * (1.0 + a / b))
    return a, b


@njit(cache=True, nogil=True)
def mode(base, a, b):
    """Most likely value."""
    if base == POISSON:
        return np.floor(a)
    if base == BINOMIAL:
        return min(np.floor((a + 1.0) * b), a)
    if base == NEGATIVE_BINOMIAL:
        return np.floor(a * (b - 1.0) / b) if b > 1.0 else 0.0
    return a


@njit(cache=True, nogil=True)
def ends(base, a):
    """Smallest and largest possible value."""
    if base == NORMAL:
        return -np.inf, np.inf
    return 0.0, (a if base == BINOMIAL else np.inf)


@njit(cache=True, nogil=True)
def log_beyond(base, m, direction, a, b):
    """Upper bound of log P(value > m) (direction 1) or log P(value < m) (direction -1)."""
    if base == NORMAL:
        return log_ndtr(-direction * (m - a) / b)
    following = m + direction
    low, high = ends(base, a)
    if following < low or following > high:
        return -np.inf
    if direction > 0.0:
        ratio = rise(base, following, a, b)
        if base == NEGATIVE_BINOMIAL:
            ratio = max(ratio, a / (a + b))
    elif following == 0.0:
        ratio = 0.0
    elif base == NEGATIVE_BINOMIAL and b < 1.0:
        return 0.0
    else:
        ratio = 1.0 / rise(base, following - 1.0, a, b)
    if ratio >= 1.0:
        return 0.0
    return min(log_mass(base, following, a, b) - math.log1p(-ratio), 0.0)


@njit(cache=True, nogil=True)
def digamma(x):
    """Differentiate log Gamma at x > 0."""
    value = 0.0
    while x < 10.0:
        value -= 1.0 / x
        x += 1.0
    return value + math.log(x) - 0.5 / x - _digamma_tail(x)


@njit(cache=True, nogil=True)
def _digamma_tail(x):
    """log(x) - 1/(2x) - digamma(x) for x >= 10 (DLMF 5.11.2)."""
    r = 1.0 / (x * x)
    tail = r * (1.0 / 240.0 - r * (1.0 / 132.0 - r * (691.0 / 32760.0 - r / 12.0)))
    return r * (1.0 / 12.0 - r * (1.0 / 120.0 - r * (1.0 / 252.0 - tail)))


@njit(cache=True, nogil=True)
def dispersion_score(m, mu, alpha):
    """Differentiate `log_negative_binomial` in alpha, without cancellation for large alpha."""
    # digamma(m + alpha) - digamma(alpha), shifted to where its expansion holds
    lost, x, y = 0.0, alpha, m + alpha
    while x < 10.0:
        lost += 1.0 / x - 1.0 / y
        x += 1.0
        y += 1.0
    change = (_digamma_tail(x) - _digamma_tail(y)) + 0.5 * (y - x) / (x * y)
    shift = x - alpha
    if shift == 0.0:
        return change + log1pmx((m - mu) / (alpha + mu))
    return lost + change + math.log(y / x) - math.log1p(mu / alpha) + (mu - m) / (alpha + mu)


@njit(cache=True, nogil=True)
def location_score(base, excess, a, b):
    """Differentiate the log mass in the mean (in p, for a binomial law), given value - mean."""
    if base == POISSON:
        return excess / a
    if base == BINOMIAL:
        return excess / (b * (1.0 - b))
    if base == NEGATIVE_BINOMIAL:
        return excess / (a * (1.0 + a / b))
    return excess / (b * b)


@njit(cache=True, nogil=True)
def second_score(base, m, a, b):
    """Differentiate the log mass in the second parameter of a two-parameter family, else 0."""
    if base == NEGATIVE_BINOMIAL:
        return dispersion_score(m, a, b)
    if base == NORMAL:
        z = (m - a) / b
        return (z * z - 1.0) / b
    return 0.0
