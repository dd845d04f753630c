"""Which true values the released cells hold: exact multinomial draws."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["allocate"]

# Below this many records per basis element, placing them one by one is faster than a
# chain of binomial draws.
_RECORDS_PER_ELEMENT = 4


@njit(cache=True, nogil=True)
def allocate(table, counts, weights, rng):
    """Draw the number of true values from each basis element.

    The records of cell j are multinomial over the elements k with probabilities
    A_jk w_k / (A w)_j; the draw is their sum over cells.

    Parameters
    ----------
    table : ndarray, shape (J, M)
        A[j, k] = P(cell j | element k).
    counts : ndarray of int, shape (J,)
        Records by cell.
    weights : ndarray, shape (S, M)
        Weights of the elements, one row per draw.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of int, shape (S, M)
        True counts, one row per draw; each row sums to the number of records.
    """
    elements = table.shape[1]
    out = np.zeros((weights.shape[0], elements), dtype=np.int64)
    cumulative = np.empty(elements)
    for s in range(weights.shape[0]):
        for j in range(counts.size):
            left = counts[j]
            if left == 0:
                continue
            total = 0.0
            for k in range(elements):
                total += table[j, k] * weights[s, k]
                cumulative[k] = total
            if left < _RECORDS_PER_ELEMENT * elements:
                _place_each(cumulative, left, out[s], rng)
            else:
                _place_groups(cumulative, left, out[s], rng)
    return out


@njit(cache=True, nogil=True)
def _place_each(cumulative, records, out, rng):
    """Place records one by one by inversion of the cumulative probabilities."""
    total = cumulative[-1]
    for _ in range(records):
        target = rng.random() * total
        low, high = 0, cumulative.size - 1
        while low < high:
            middle = (low + high) // 2
            if cumulative[middle] > target:
                high = middle
            else:
                low = middle + 1
        out[low] += 1


@njit(cache=True, nogil=True)
def _place_groups(cumulative, records, out, rng):
    """Split records by halving the range of elements, one binomial draw per split."""
    # Explicit stack of (first, last + 1, records); halving needs few levels.
    stack = np.empty((64, 3), dtype=np.int64)
    stack[0] = (0, cumulative.size, records)
    depth = 1
    while depth > 0:
        depth -= 1
        first, end, left = stack[depth]
        if end - first == 1:
            out[first] += left
            continue
        middle = (first + end) // 2
        base = cumulative[first - 1] if first > 0 else 0.0
        whole = cumulative[end - 1] - base
        share = (cumulative[middle - 1] - base) / whole if whole > 0.0 else 0.0
        below = rng.binomial(left, min(max(share, 0.0), 1.0))
        if below > 0:
            stack[depth] = (first, middle, below)
            depth += 1
        if left > below:
            stack[depth] = (middle, end, left - below)
            depth += 1
