r"""Tables of counts from the prior of a learned mixture of scales, given their sum or not.

With n_k cells in component k, whose counts are negative binomial with shape s and mean μ_k, the
sum of each component is negative binomial with shape s n_k; given it, shares are Dirichlet.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["draw_tables", "log_sum_masses"]


@njit(cache=True, nogil=True)
def _tilt_for(members, means, shape, n):
    r"""Tilt θ under which the expected sum is n, and log mass of n by the saddlepoint.

    K(θ) = -Σ_k s n_k log(1 - (e^θ - 1) μ_k / s); x = e^θ is below 1 + s/μ of the largest
    component that has members, where the expected sum Σ s n_k x μ_k/s / (1 + (1-x) μ_k/s)
    is infinite.
    """
    high, some = np.inf, False
    for k in range(means.size):
        if members[k + 1] > 0:
            some = True
            high = min(high, 1.0 + shape / means[k])
    if n == 0.0:
        log_mass = 0.0
        for k in range(means.size):
            log_mass -= shape * members[k + 1] * math.log1p(means[k] / shape)
        return 0.0, log_mass
    if not some:
        return 1.0, -np.inf
    low = 0.0
    x = min(1.0, 0.5 * high)
    for _ in range(200):
        mean, variance, log_norm = 0.0, 0.0, 0.0
        for k in range(means.size):
            if members[k + 1] > 0:
                r = means[k] / shape
                left = 1.0 + (1.0 - x) * r
                odds = x * r / left
                mean += shape * members[k + 1] * odds
                variance += shape * members[k + 1] * odds * (1.0 + odds)
                log_norm -= shape * members[k + 1] * math.log(left)
        if mean > n:
            high = x
        else:
            low = x
        if abs(mean - n) <= 1e-6 * math.sqrt(variance) or high - low <= 1e-15 * high:
            break
        new = x * math.exp(min((n - mean) / variance, 1.0))
        x = new if low < new < high else 0.5 * (low + high)
    return x, log_norm - n * math.log(x) - 0.5 * math.log(2.0 * math.pi * variance)


@njit(cache=True, nogil=True)
def log_sum_masses(members, means, shape, n):
    """Log probability that all counts sum to n, for each row of numbers of members.

    Parameters
    ----------
    members : ndarray of int, shape (rows, components + 1)
        Number of cells of the spike and of each component.
    means, shape : ndarray, float
        Means and shape of the components.
    n : float
        Sum.
    """
    out = np.empty(members.shape[0])
    for i in range(out.size):
        out[i] = _tilt_for(members[i], means, shape, n)[1]
    return out


@njit(cache=True, nogil=True)
def _log_mass(m, size, odds):
    """Log mass of m under the negative binomial law of this shape and odds mean/shape."""
    return (
        math.lgamma(size + m)
        - math.lgamma(size)
        - math.lgamma(m + 1.0)
        - size * math.log1p(odds)
        + m * math.log(odds / (1.0 + odds))
    )


@njit(cache=True, nogil=True)
def _component_sums(rng, members, means, shape, n, sums):
    """Draw the sums of the counts of each component's cells, given that they sum to n.

    All but that of the widest law are drawn independently under the tilt, that one takes
    the rest, and all are kept with probability proportional to the mass of the rest.
    """
    sums[:] = 0
    if n == 0:
        return
    x = _tilt_for(members, means, shape, float(n))[0]
    odds, last, widest = np.zeros(means.size), -1, -1.0
    for k in range(means.size):
        r = means[k] / shape
        odds[k] = x * r / (1.0 + (1.0 - x) * r)
        variance = members[k + 1] * odds[k] * (1.0 + odds[k])
        if variance > widest:
            last, widest = k, variance
    size = shape * members[last + 1]
    mode = max(math.floor((size - 1.0) * odds[last]), 0.0)
    top = _log_mass(mode, size, odds[last])
    while True:
        rest = n
        for k in range(means.size):
            if k != last and members[k + 1] > 0:
                sums[k] = rng.poisson(rng.standard_gamma(shape * members[k + 1]) * odds[k])
                rest -= sums[k]
        if rest >= 0 and math.log(rng.random()) < _log_mass(float(rest), size, odds[last]) - top:
            sums[last] = rest
            return


@njit(cache=True, nogil=True)
def draw_tables(rng, members, means, shape, n, counts, rates):
    """Draw counts and rates; cells are in the order of their components.

    Parameters
    ----------
    rng : Generator
        Source of randomness.
    members : ndarray of int, shape (draws, components + 1)
        Number of cells of the spike and of each component.
    means, shape : ndarray, float
        Means and shape of the components.
    n : int
        Sum of all counts; -1 where it is not given.
    counts, rates : ndarray, shape (draws, cells)
        Receive the draws.
    """
    sums = np.zeros(means.size, dtype=np.int64)
    for d in range(members.shape[0]):
        if n >= 0:
            _component_sums(rng, members[d], means, shape, n, sums)
        j = members[d, 0]
        counts[d, :j], rates[d, :j] = 0, 0.0
        for k in range(means.size):
            size, start = members[d, k + 1], j
            left = 0.0
            for _ in range(size):
                rates[d, j] = rng.standard_gamma(shape)
                left += rates[d, j]
                j += 1
            rest = sums[k]
            for i in range(start, j):
                if n < 0:
                    counts[d, i] = rng.poisson(rates[d, i] * means[k] / shape)
                else:  # multinomial with these shares, one binomial at a time
                    share = min(rates[d, i] / left, 1.0) if i < j - 1 else 1.0
                    counts[d, i] = rng.binomial(rest, share)
                    left -= rates[d, i]
                    rest -= counts[d, i]
            for i in range(start, j):
                if n < 0:
                    rates[d, i] *= means[k] / shape
                else:
                    scale = 1.0 / (shape / means[k] + 1.0)
                    rates[d, i] = rng.standard_gamma(shape + counts[d, i]) * scale
