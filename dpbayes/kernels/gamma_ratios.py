r"""Poisson tails in units of one mass, as sums of positive terms.

For :math:`K + 1 > 0` and :math:`x > 0`, with :math:`Q` and :math:`P` the regularised incomplete
gamma functions,

.. math::
   S(K, x) = \frac{P(N \le K)}{P(N = K)} = \frac{Q(K+1, x)}{\mathrm{pois}(K; x)}
           = \sum_{i=0}^{K} \frac{K!}{(K-i)!} x^{-i}
           = \int_0^\infty (1 + t/x)^K e^{-t} \, dt, \\
   T(K, x) = \frac{P(N > K)}{P(N = K+1)} = \frac{P(K+1, x)}{\mathrm{pois}(K+1; x)}
           = \sum_{i=0}^{\infty} \frac{(K+1)!}{(K+1+i)!} x^i
           = \int_0^{a} (1 - t/a)^{a-1} e^{x t / a} \, dt, \quad a = K + 1.

The sums are used while they are short, Gauss-Legendre quadrature of the smooth, decreasing
integrands beyond. Both need no tables and have no cancellation, unlike library incomplete gamma
functions, whose lower tail loses accuracy for large arguments.

References
----------
.. [1] NIST Digital Library of Mathematical Functions, sections 8.2, 8.7 and 8.8.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.special import log1mexp, log1pmx, log_poisson

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_NODES = 0.5 * (_NODES + 1.0)
_WEIGHTS = 0.5 * _WEIGHTS
_SHORT = 100.0  # below this K the sums have at most about a hundred terms
_GEOMETRIC = 0.6  # ratio of terms below which the sums are short for every K
_REACH = 41.0  # exp(-41): nothing further out is visible in a double


@njit(cache=True, nogil=True)
def left_ratio(k, x):
    """S(K, x), sum_i i c_i over its terms c_i, and S(K-1, x), for K <= x (K real if >= 100)."""
    if k <= 0.0:
        return (1.0 if k == 0.0 else 0.0), 0.0, 0.0
    if k > _SHORT and k > _GEOMETRIC * x:
        return _left_quadrature(k, x)
    term = previous = moment = 1.0
    i = 1.0
    while i < k:
        term *= (k - i) / x
        previous += term
        moment += (i + 1.0) * term
        if (i + 1.0) * term < 1e-18 * previous:
            break
        i += 1.0
    ratio = k / x
    return 1.0 + ratio * previous, ratio * moment, previous


@njit(cache=True, nogil=True)
def _left_quadrature(k, x):
    slope = (x - k) / x
    end = _start_of_tail(slope, k / (x * x))
    for _ in range(4):  # Newton for t - K log1p(t/x) = reach; convex, so it stays on the far side
        value = end - k * math.log1p(end / x) - _REACH
        end -= value / (1.0 - k / (x + end))
    total = moment = previous = 0.0
    for i in range(_NODES.size):
        t = end * _NODES[i]
        mass = _WEIGHTS[i] * math.exp(k * log1pmx(t / x) - slope * t)
        total += mass
        moment += mass * (t / (x + t))
        previous += mass * (x / (x + t))
    return end * total, end * k * moment, end * previous


@njit(cache=True, nogil=True)
def right_ratio(k, x):
    """T(K, x) and sum_i i c_i over its terms c_i, for x <= K + 1 (K real if >= 100)."""
    a = k + 1.0
    if k > _SHORT and x > _GEOMETRIC * a:
        return _right_quadrature(a, x)
    term = total = 1.0
    moment, i = 0.0, 1.0
    while True:
        term *= x / (a + i)
        total += term
        moment += i * term
        if i * term < 1e-18 * total:
            return total, moment
        i += 1.0


@njit(cache=True, nogil=True)
def _right_quadrature(a, x):
    slope = (a - 1.0 - x) / a
    end = min(_start_of_tail(max(slope, 0.0), 1.0 / a), 0.95 * a)
    total = moment = 0.0
    for i in range(_NODES.size):
        t = end * _NODES[i]
        mass = _WEIGHTS[i] * math.exp((a - 1.0) * log1pmx(-t / a) - slope * t)
        total += mass
        moment += mass * t
    return end * total, end * moment * x / a


@njit(cache=True, nogil=True)
def _start_of_tail(slope, curvature):
    """Where slope t + curvature t^2 / 2 reaches the negligible."""
    return 2.0 * _REACH / (slope + math.sqrt(slope * slope + 2.0 * curvature * _REACH))


@njit(cache=True, nogil=True)
def log_poisson_tails(k, x):
    """Log P(N <= K) and log P(N > K) for N ~ Poisson(x), each accurate in its own tail."""
    if k < 0.0:
        return -np.inf, 0.0
    if x == 0.0 or k == np.inf:
        return 0.0, -np.inf
    if k < x:
        ratio, _, _ = left_ratio(k, x)
        below = log_poisson(k, x) + math.log(ratio)
        return below, log1mexp(below)
    ratio, _ = right_ratio(k, x)
    above = log_poisson(k + 1.0, x) + math.log(ratio)
    return log1mexp(above), above
