"""Exact draws of the true counts given released values and the rates of the cells.

With a public total the counts are independent tilted counts conditioned on their sum. All cells
but the most uncertain one are drawn independently, that one takes the rest, and the table is kept
with probability proportional to the mass of the rest: rejection with acceptance of at least about
one over the root of the number of cells, and no approximation.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.multinomial import solve_tilt, tilted_mass

_ATTEMPTS = 10_000_000


@njit(cache=True, nogil=True)
def _mass(family, lower, upper, scale, step, theta, n, scratch):
    """`tilted_mass` with scratch space that grows as needed; the scratch space comes last."""
    first, size, _ = tilted_mass(family, lower, upper, scale, step, theta, n, scratch)
    while size < 0:
        scratch = np.empty(4 * scratch.size)
        first, size, _ = tilted_mass(family, lower, upper, scale, step, theta, n, scratch)
    return first, size, scratch


@njit(cache=True, nogil=True)
def independent(family, lower, upper, scale, step, log_rate, largest, rng):
    """Draw counts of Poisson cells given their rates.

    Parameters
    ----------
    family, lower, upper, scale, step
        Noise and canonical bounds of each cell, as for `value_and_gradient`.
    log_rate : ndarray, shape (S, J)
        Log mean of each count, one row per draw.
    largest : float
        No count is above this.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of int, shape (S, J)
        Counts.
    """
    out = np.empty(log_rate.shape, dtype=np.int64)
    scratch = np.empty(1024)
    for s in range(log_rate.shape[0]):
        for j in range(log_rate.shape[1]):
            first, size, scratch = _mass(
                family, lower[j], upper[j], scale[j], step, log_rate[s, j], largest, scratch
            )
            target = rng.random() * scratch[:size].sum()
            i = 0
            while i < size - 1 and target >= scratch[i]:
                target -= scratch[i]
                i += 1
            out[s, j] = int(first) + i
    return out


@njit(cache=True, nogil=True)
def with_total(family, lower, upper, scale, step, log_p, n, rng):
    """Draw counts that sum to a public total, given the probabilities of the cells.

    Parameters
    ----------
    family, lower, upper, scale, step
        Noise and canonical bounds of each cell, as for `value_and_gradient`.
    log_p : ndarray, shape (S, J)
        Log probabilities, one row per draw.
    n : int
        Public total.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of int, shape (S, J)
        Counts; a row of minus ones where no table has that total.
    """
    cells = log_p.shape[1]
    out = np.full(log_p.shape, -1, dtype=np.int64)
    first = np.empty(cells, dtype=np.int64)
    start = np.zeros(cells + 1, dtype=np.int64)
    scratch, masses = np.empty(1024), np.empty(1024 * cells)
    for s in range(log_p.shape[0]):
        tau, cumulants = solve_tilt(family, lower, upper, scale, step, log_p[s], float(n))
        if math.isnan(tau):
            continue
        for j in range(cells):
            at, size, scratch = _mass(
                family, lower[j], upper[j], scale[j], step, log_p[s, j] + tau, float(n), scratch
            )
            if start[j] + size > masses.size:
                grown = np.empty(2 * (masses.size + size))
                grown[: start[j]] = masses[: start[j]]
                masses = grown
            first[j] = int(at)
            start[j + 1] = start[j] + size
            masses[start[j] : start[j + 1]] = scratch[:size]
        pivot = np.argmax(cumulants[:, 2])
        _reject(first, start, masses, pivot, n, rng, out[s])
    return out


@njit(cache=True, nogil=True)
def _reject(first, start, masses, pivot, n, rng, out):
    """One table by rejection on the pivot cell."""
    cells = first.size
    cumulative = np.empty(start[cells])
    for j in range(cells):
        total = 0.0
        for i in range(start[j], start[j + 1]):
            total += masses[i]
            cumulative[i] = total
    largest = masses[start[pivot] : start[pivot + 1]].max()
    for _ in range(_ATTEMPTS):
        rest = n
        for j in range(cells):
            if j != pivot:
                part = cumulative[start[j] : start[j + 1]]
                target = rng.random() * part[-1]
                out[j] = first[j] + min(np.searchsorted(part, target, side="right"), part.size - 1)
                rest -= out[j]
        at = rest - first[pivot]
        if at < 0 or at >= start[pivot + 1] - start[pivot]:
            continue
        if rng.random() * largest < masses[start[pivot] + at]:
            out[pivot] = rest
            return
    out[:] = -1
