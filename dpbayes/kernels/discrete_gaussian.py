r"""The discrete Gaussian law on the integers, accurate in both tails.

.. math:: P(K = k) = e^{-k^2 / (2 \sigma^2)} / Z(\sigma), \qquad
          Z(\sigma) = \sum_{k \in \mathbb{Z}} e^{-k^2 / (2 \sigma^2)}

========  ==========================================================
Support   all integers
Mean      0
Variance  below :math:`\sigma^2`, and equal to it as sigma grows
========  ==========================================================

Array arguments broadcast. Distribution functions take real arguments (they floor them); the mass
of a value that is no integer is zero.

References
----------
.. [1] Canonne, C., Kamath, G. and Steinke, T. (2020). The discrete Gaussian for differential
   privacy, section 3.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.families import LATTICE_TOLERANCE
from dpbayes.kernels.special import (
    LOG_SQRT_2PI,
    SQRT_HALF,
    erfcx,
    log1mexp,
    logaddexp,
    logsubexp,
)

_DIRECT_MEMBERS = 64
_NEGLIGIBLE = 40.0  # terms exp(-40) below the largest cannot change a double


@njit(cache=True, nogil=True)
def log_normalizer(sigma):
    """Log Z(sigma), by the sum itself or by its Poisson transform."""
    total = 1.0
    if sigma < 0.5:
        for k in range(1, 6):
            total += 2.0 * math.exp(-0.5 * (k / sigma) ** 2)
        return math.log(total)
    for k in range(1, 4):
        total += 2.0 * math.exp(-2.0 * (math.pi * sigma * k) ** 2)
    return math.log(total) + math.log(sigma) + LOG_SQRT_2PI


@njit(cache=True, nogil=True)
def variance_scalar(sigma):
    """Variance of the law; sigma^3 times the derivative of log Z."""
    total, moment = 1.0, 0.0
    if sigma < 1.0:
        for k in range(1, 11):
            mass = 2.0 * math.exp(-0.5 * (k / sigma) ** 2)
            total += mass
            moment += k * k * mass
        return moment / total
    for k in range(1, 4):
        mass = 2.0 * math.exp(-2.0 * (math.pi * sigma * k) ** 2)
        total += mass
        moment += k * k * mass
    return sigma**2 * (1.0 - 4.0 * (math.pi * sigma) ** 2 * moment / total)


@njit(cache=True, nogil=True)
def logpmf_scalar(k, sigma):
    """Log P(K = k)."""
    nearest = np.floor(k + 0.5)
    if not abs(k - nearest) <= LATTICE_TOLERANCE:
        return -np.inf
    return -0.5 * (nearest / sigma) ** 2 - log_normalizer(sigma)


@njit(cache=True, nogil=True)
def _relative_tail(k, sigma):
    """Sum over m = k, k + 1, ... (k >= 1/2) of exp(-(m^2 - k^2) / (2 sigma^2))."""
    rate = max(1.0 / sigma, k / (sigma * sigma))
    if rate > 0.1:
        total, j = 1.0, 1.0
        while True:
            exponent = 0.5 * j * (j + 2.0 * k) / (sigma * sigma)
            if exponent > _NEGLIGIBLE:
                return total
            total += math.exp(-exponent)
            j += 1.0
    # Euler-Maclaurin about the midpoint k - 1/2, with Hermite polynomials as derivatives
    z = (k - 0.5) / sigma
    square, inverse = z * z, 1.0 / sigma
    third = z * (square - 3.0)
    fifth = z * (square * square - 10.0 * square + 15.0)
    inverse2 = inverse * inverse
    correction = z / 24.0 - inverse2 * (7.0 * third / 5760.0 - inverse2 * 31.0 * fifth / 967680.0)
    integral = sigma * math.sqrt(0.5 * math.pi) * erfcx(z * SQRT_HALF)
    return math.exp((k - 0.25) * 0.5 * inverse2) * (integral - inverse * correction)


@njit(cache=True, nogil=True)
def log_at_least(k, sigma):
    """Log P(K >= k) for an integer k; real k is meaningful for sigma >= 8."""
    if k == np.inf:
        return -np.inf
    if k == -np.inf:
        return 0.0
    if k < 0.5:  # so that the complement 1 - k is not below one half, for real k too
        return log1mexp(log_at_least(1.0 - k, sigma))
    return math.log(_relative_tail(k, sigma)) - 0.5 * (k / sigma) ** 2 - log_normalizer(sigma)


@njit(cache=True, nogil=True)
def _relative_second_moment(k, sigma):
    """Sum over m = k, k + 1, ... (k >= 1/2) of m^2 exp(-(m^2 - k^2) / (2 sigma^2))."""
    rate = max(1.0 / sigma, k / (sigma * sigma))
    if rate > 0.1:
        total, j = k * k, 1.0
        while True:
            exponent = 0.5 * j * (j + 2.0 * k) / (sigma * sigma)
            if exponent > _NEGLIGIBLE:
                return total
            total += (k + j) ** 2 * math.exp(-exponent)
            j += 1.0
    # x^2 f = sigma^2 f + sigma^4 f'': Euler-Maclaurin for the sum of f''
    z = (k - 0.5) / sigma
    square, inverse2 = z * z, 1.0 / (sigma * sigma)
    third = z * (square - 3.0)
    fifth = z * (square * square - 10.0 * square + 15.0)
    curved = z - inverse2 * (third / 24.0 - inverse2 * 7.0 * fifth / 5760.0)
    edge = sigma**3 * curved * math.exp((k - 0.25) * 0.5 * inverse2)
    return sigma * sigma * _relative_tail(k, sigma) + edge


@njit(cache=True, nogil=True)
def _upper_half_slope(k, sigma):
    """`log_at_least_slope` for k >= 1/2."""
    tail = _relative_tail(k, sigma)
    value = math.log(tail) - 0.5 * (k / sigma) ** 2 - log_normalizer(sigma)
    square = _relative_second_moment(k, sigma) / tail
    return value, (square - variance_scalar(sigma)) / sigma**3


@njit(cache=True, nogil=True)
def log_at_least_slope(k, sigma):
    """Log P(K >= k) and its derivative in sigma; real k is meaningful for sigma >= 8."""
    if k < 0.5:  # so that the complement 1 - k is not below one half, for real k too
        other, slope = _upper_half_slope(1.0 - k, sigma)
        value = log1mexp(other)
        return value, -slope * math.exp(other - value)
    return _upper_half_slope(k, sigma)


@njit(cache=True, nogil=True)
def log_members(first, last, sigma):
    """Log P(first <= K <= last) for integers, either of which may be infinite."""
    if first > last:
        return -np.inf
    if last - first < _DIRECT_MEMBERS:
        nearest = max(first, min(0.0, last))
        total, k = 0.0, first
        while k <= last:
            total += math.exp(-0.5 * (k - nearest) * (k + nearest) / (sigma * sigma))
            k += 1.0
        return math.log(total) - 0.5 * (nearest / sigma) ** 2 - log_normalizer(sigma)
    if first >= 1.0:
        return logsubexp(log_at_least(first, sigma), log_at_least(last + 1.0, sigma))
    if last <= -1.0:
        return logsubexp(log_at_least(-last, sigma), log_at_least(1.0 - first, sigma))
    outside = logaddexp(log_at_least(1.0 - first, sigma), log_at_least(last + 1.0, sigma))
    return log1mexp(outside)


@njit(cache=True, nogil=True)
def quantile_scalar(u, sigma):
    """Draw from the law by a uniform u: the u-quantile below the middle, mirrored above it."""
    if not (u > 0.0 and u < 1.0 and sigma > 0.0):
        return np.nan
    if u > 0.5:
        return -quantile_scalar(1.0 - u, sigma)
    target = math.log(u)
    low, high = -np.ceil(40.0 * sigma) - 1.0, 0.0
    while high - low > 1.0:
        middle = np.floor(0.5 * (low + high))
        if log_at_least(-middle, sigma) >= target:
            high = middle
        else:
            low = middle
    return high


@njit(cache=True, nogil=True)
def floor_to_integer(x):
    """Largest integer not above x, counting values a hair below an integer as that integer."""
    return np.floor(x + LATTICE_TOLERANCE)


@njit(cache=True, nogil=True)
def _each_logpmf(k, sigma, out):
    for i in range(out.size):
        out[i] = logpmf_scalar(k[i], sigma[i])


@njit(cache=True, nogil=True)
def _each_interval(lower, upper, sigma, out):
    for i in range(out.size):
        first = floor_to_integer(lower[i]) + 1.0
        out[i] = log_members(first, floor_to_integer(upper[i]), sigma[i])


@njit(cache=True, nogil=True)
def _each_variance(sigma, out):
    for i in range(out.size):
        out[i] = variance_scalar(sigma[i])


def _apply(kernel, *arguments):
    """Broadcast the arguments, run a kernel over them, return an array of the common shape."""
    arrays = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in arguments))
    out = np.empty(arrays[0].shape)
    kernel(*(np.ascontiguousarray(a).ravel() for a in arrays), out.reshape(-1))
    return out[()]


def logpmf(k, sigma):
    """Logarithm of the mass at `k`.

    Parameters
    ----------
    k : array_like
        Values; any that is not an integer has mass zero.
    sigma : array_like
        Scale sigma (sigma > 0), in the units of the released statistic.

    Returns
    -------
    numpy.ndarray
        log P(K = k).
    """
    return _apply(_each_logpmf, k, sigma)


def log_interval(lower, upper, sigma):
    """Logarithm of the probability of a half-open interval, log P(lower < K <= upper).

    Parameters
    ----------
    lower, upper : array_like
        Ends of the interval; either may be infinite.
    sigma : array_like
        Scale sigma (sigma > 0), in the units of the released statistic.

    Returns
    -------
    numpy.ndarray
        Log probabilities, minus infinity where no integer lies inside.
    """
    return _apply(_each_interval, lower, upper, sigma)


def logcdf(k, sigma):
    """Logarithm of P(K <= k), accurate in the lower tail.

    Parameters
    ----------
    k : array_like
        Values, any real number.
    sigma : array_like
        Scale sigma (sigma > 0), in the units of the released statistic.

    Returns
    -------
    numpy.ndarray
        Log probabilities.
    """
    return log_interval(-np.inf, k, sigma)


def logsf(k, sigma):
    """Logarithm of P(K > k), accurate in the upper tail.

    Parameters
    ----------
    k : array_like
        Values, any real number.
    sigma : array_like
        Scale sigma (sigma > 0), in the units of the released statistic.

    Returns
    -------
    numpy.ndarray
        Log probabilities.
    """
    return log_interval(k, np.inf, sigma)


def variance(sigma):
    """Variance of the discrete Gaussian, which is below sigma squared for small sigma.

    Parameters
    ----------
    sigma : array_like
        Scale sigma (sigma > 0), in the units of the released statistic.

    Returns
    -------
    numpy.ndarray
        Variances.
    """
    return _apply(_each_variance, sigma)
