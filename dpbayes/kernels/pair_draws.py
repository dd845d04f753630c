"""Draws of one of two counts given their sum."""

import numpy as np
from numba import njit

__all__ = ["draw_parts"]

_TABLE = 20_000  # wider ranges are drawn by rejection, without a table for each sum


@njit(cache=True, nogil=True)
def draw_parts(part, rest, total, order, rng):
    """Draw the first of two counts given their sum.

    Parameters
    ----------
    part : ndarray, shape (K,)
        Weights of the first count, from its least value on.
    rest : ndarray, shape (R,)
        Weights of the second count, from its least value on: their logarithms are convex, or
        concave.
    total : ndarray of int, shape (S,)
        Sums above the least one; each must be possible.
    order : ndarray of int, shape (S,)
        Draws in an order that brings equal sums together.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of int, shape (S,)
        First counts above the least one.
    """
    out = np.empty(total.size, dtype=np.int64)
    cumulative, table = np.cumsum(part), np.empty(min(part.size, _TABLE))
    peak = np.argmax(rest)
    known = -1
    low = high = 0
    for at in order:
        s = total[at]
        low, high = max(0, s - rest.size + 1), min(part.size - 1, s)
        if high - low >= _TABLE:
            out[at] = _reject(cumulative, rest, s, low, high, peak, rng)
            continue
        if s != known:
            known = s
            mass = 0.0
            for i in range(low, high + 1):
                mass += part[i] * rest[s - i]
                table[i - low] = mass
        target = rng.random() * table[high - low]
        out[at] = min(low + np.searchsorted(table[: high - low + 1], target, side="right"), high)
    return out


@njit(cache=True, nogil=True)
def _reject(cumulative, rest, s, low, high, peak, rng):
    """Propose the first count by its own weight, keep it by that of the second."""
    below = cumulative[low - 1] if low > 0 else 0.0
    bound = max(rest[s - low], rest[s - high])
    if s - high <= peak <= s - low:
        bound = rest[peak]
    while True:
        target = below + rng.random() * (cumulative[high] - below)
        found = min(max(np.searchsorted(cumulative, target, side="right"), low), high)
        if rng.random() * bound < rest[s - found]:
            return found
