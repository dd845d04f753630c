"""Exact draws of the true counts given released values and the rates of the cells.

With a public total the counts are independent tilted counts conditioned on their sum. All cells
but the most uncertain one are drawn independently, that one takes the rest, and the table is kept
with probability proportional to the mass of the rest: rejection with acceptance of at least about
one over the root of the number of cells, and no approximation.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.multinomial import masses_of_cell, solve_tilt

_ATTEMPTS = 10_000_000


@njit(cache=True, nogil=True)
def independent(cells, table, log_rate, largest, rng):
    """Draw counts of Poisson cells given their rates.

    Parameters
    ----------
    cells, table
        Noise and bounds of each cell, as for `value_and_gradient`.
    log_rate : ndarray, shape (S, J)
        Log mean of each count, one row per draw.
    largest : float
        No count is above this.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of int, shape (S, J)
        Counts; minus one where no count is possible.
    """
    out = np.empty(log_rate.shape, dtype=np.int64)
    scratch = np.empty(1024)
    for s in range(log_rate.shape[0]):
        for j in range(log_rate.shape[1]):
            first, size, _, scratch = masses_of_cell(
                cells, table, j, log_rate[s, j], largest, scratch
            )
            if size == 0:
                out[s, j] = -1
                continue
            target = rng.random() * scratch[:size].sum()
            i = 0
            while i < size - 1 and target >= scratch[i]:
                target -= scratch[i]
                i += 1
            out[s, j] = int(first) + i
    return out


@njit(cache=True, nogil=True)
def with_total(cells, table, log_p, n, rng):
    """Draw counts that sum to a public total, given the probabilities of the cells.

    Parameters
    ----------
    cells, table
        Noise and bounds of each cell, as for `value_and_gradient`.
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
    count = log_p.shape[1]
    out = np.full(log_p.shape, -1, dtype=np.int64)
    first = np.empty(count, dtype=np.int64)
    start = np.zeros(count + 1, dtype=np.int64)
    scratch, masses = np.empty(1024), np.empty(1024 * count)
    for s in range(log_p.shape[0]):
        tau, cumulants = solve_tilt(cells, table, log_p[s], float(n))
        if math.isnan(tau):
            continue
        for j in range(count):
            at, size, _, scratch = masses_of_cell(
                cells, table, j, log_p[s, j] + tau, float(n), scratch
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
