"""Tables of single counts under a Gamma prior and a noise law that has a kernel: arrays only.

The log of a leaf's unnormalised posterior at the count m is log Γ(a+m)/(Γ(a) m!) + τ m +
log Q(y | m). Long tables are filled by recurrences from entries that are exact: beyond the
ends of what was released, ratios of neighbouring entries are known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from dpbayes.kernels.families import DISCRETE_GAUSSIAN, GAUSSIAN
from dpbayes.kernels.leaves import one_log_likelihood
from dpbayes.kernels.special import stirlerr

__all__ = [
    "MAX_WINDOW",
    "NEGLIGIBLE",
    "Cells",
    "draw_alone",
    "fill_tables",
    "find_windows",
    "log_masses",
    "log_weights",
]

#: Entries this far below the largest, in log, are left out of a table.
NEGLIGIBLE = 43.0
#: Longest window; beyond it the release does not bound the count.
MAX_WINDOW = 50_000_000
#: Entries from one exact entry to the next where a recurrence fills those between.
_BLOCK = 64
#: Noise scale from which neighbouring entries are close enough for the recurrence.
_WIDE = 8.0


class Cells(NamedTuple):
    """Released cells: family and lattice of the noise, bounds, and scales (one per cell)."""

    family: int
    step: float
    lower: np.ndarray
    upper: np.ndarray
    log_jacobian: np.ndarray
    peak: np.ndarray
    scale: np.ndarray


@njit(cache=True, nogil=True)
def _log_weight(shape, m):
    """Log of Γ(shape+m) / (Γ(shape) m!), without cancellation at large counts."""
    if shape == 1.0:
        return 0.0
    if m < 20.0 or m < 2.0 * shape:
        return math.lgamma(shape + m) - math.lgamma(shape) - math.lgamma(m + 1.0)
    excess = shape - 1.0
    return (
        excess * (math.log(m + excess) - 1.0)
        + (m + 0.5) * math.log1p(excess / m)
        + stirlerr(m + excess)
        - stirlerr(m)
        - math.lgamma(shape)
    )


@njit(cache=True, nogil=True)
def log_weights(shapes, counts):
    """Log prior weights of pairs of shapes and counts."""
    out = np.empty(counts.size)
    for i in range(counts.size):
        out[i] = _log_weight(shapes[i], counts[i])
    return out


@njit(cache=True, nogil=True)
def _log_f(cells, j, shape, tilt, m):
    likelihood = one_log_likelihood(
        cells.family, cells.lower[j], cells.upper[j], cells.peak[j], cells.scale[j], cells.step, m
    )
    return _log_weight(shape, m) + tilt * m + cells.log_jacobian[j] + likelihood


@njit(cache=True, nogil=True)
def _end(cells, j, shape, tilt, inside, outside, floor, tolerance):
    """Bisect for the last entry above the floor on the way from inside to outside."""
    while abs(outside - inside) > tolerance:
        middle = np.rint(0.5 * (inside + outside))
        if _log_f(cells, j, shape, tilt, middle) >= floor:
            inside = middle
        else:
            outside = middle
    return inside


@njit(cache=True, nogil=True)
def _window(cells, j, shape, tilt, centre, limit, points, values):
    """First and last count of the window of one leaf.

    The log table is scanned on grids that widen geometrically from the likelihood's centre
    and from zero (where a prior may have a spike). For a log-concave table plus a spike at
    zero the scan brackets every entry within NEGLIGIBLE of the largest.
    """
    centre = min(centre, limit)
    points[0], values[0] = centre, _log_f(cells, j, shape, tilt, centre)
    top, size = values[0], 1
    jump = 1.0
    while jump < 4.0 * MAX_WINDOW:
        m = min(centre + jump, limit)
        points[size], values[size] = m, _log_f(cells, j, shape, tilt, m)
        top = max(top, values[size])
        size += 1
        if m >= limit or values[size - 1] < top - NEGLIGIBLE or values[size - 1] == -np.inf:
            break
        jump *= 2.0
    jump = 1.0
    while points[size - 1] != 0.0:
        m = max(centre - jump, 0.0)
        points[size], values[size] = m, _log_f(cells, j, shape, tilt, m)
        top = max(top, values[size])
        size += 1
        jump *= 2.0
    jump = 1.0
    while shape != 1.0 and jump < centre:
        points[size], values[size] = jump, _log_f(cells, j, shape, tilt, jump)
        top = max(top, values[size])
        size += 1
        jump *= 2.0
    if top == -np.inf:  # no count is possible: the lowest stands for an empty table
        return 0.0, 0.0
    floor = top - NEGLIGIBLE
    low, high = np.inf, -np.inf
    for i in range(size):
        if values[i] >= floor:
            low, high = min(low, points[i]), max(high, points[i])
    below, above = -1.0, np.inf
    for i in range(size):
        if points[i] < low:
            below = max(below, points[i])
        if points[i] > high:
            above = min(above, points[i])
    tolerance = max(1.0, (high - low) / 64.0)
    first = low if low == 0.0 else _end(cells, j, shape, tilt, low, below, floor, tolerance)
    last = high if above == np.inf else _end(cells, j, shape, tilt, high, above, floor, tolerance)
    return first, last


@njit(cache=True, nogil=True)
def _ratios(cells, j, tilt, m, sign):
    """Ratio of the entries at m + 1 and m, prior weights apart, and the ratio of such ratios."""
    scale = cells.scale[j]
    if cells.family in (GAUSSIAN, DISCRETE_GAUSSIAN):
        variance = scale * scale
        return math.exp(tilt + (cells.lower[j] - m - 0.5) / variance), math.exp(-1.0 / variance)
    return math.exp(tilt + sign / scale), 1.0


@njit(cache=True, nogil=True)
def _recur(cells, j, shape, tilt, first, start, stop, sign, top, out):
    """Exponentiate entries start..stop-1, whose every _BLOCK-th holds its exact log."""
    for begin in range(start, stop, _BLOCK):
        m = float(first + begin)
        value = math.exp(out[begin] - top)
        ratio, change = _ratios(cells, j, tilt, m, sign)
        end = min(begin + _BLOCK, stop)
        if shape == 1.0:
            for i in range(begin, end):
                out[i] = value
                value *= ratio
                ratio *= change
        else:
            for i in range(begin, end):
                out[i] = value
                value *= ratio * ((shape + m) / (m + 1.0))
                ratio *= change
                m += 1.0


@njit(cache=True, nogil=True)
def _fill(cells, j, shape, tilt, first, out):
    """Fill one table, its largest entry 1; returns the log of the factor taken out."""
    size = out.size
    lower, upper = cells.lower[j], cells.upper[j]
    point = lower == upper
    left, right = 0, size  # entries in between are evaluated one by one
    regular = point or cells.family not in (GAUSSIAN, DISCRETE_GAUSSIAN)
    if regular and lower <= upper and cells.scale[j] >= _WIDE and abs(tilt) <= 1.0:
        left = int(min(max(math.floor(max(lower, -1.0)) - first + 1.0, 0.0), float(size)))
        end = upper if upper < 1e18 else 1e18
        right = int(min(max(math.ceil(end) - first, float(left)), float(size)))
    top = -np.inf
    for i in range(left, right):
        out[i] = _log_f(cells, j, shape, tilt, float(first + i))
        top = max(top, out[i])
    for start, stop in ((0, left), (right, size)):
        for i in range(start, stop, _BLOCK):
            out[i] = _log_f(cells, j, shape, tilt, float(first + i))
            top = max(top, out[i])
    if top == -np.inf:
        out[:] = 0.0
        return top
    _recur(cells, j, shape, tilt, first, 0, left, 1.0, top, out)
    for i in range(left, right):
        out[i] = math.exp(out[i] - top)
    _recur(cells, j, shape, tilt, first, right, size, -1.0, top, out)
    peak = out.max()
    if peak != 1.0:
        for i in range(size):
            out[i] /= peak
    return top + math.log(peak)


@njit(cache=True, nogil=True)
def find_windows(cells, chosen, shapes, tilts, centres, limits, first, last):
    """Windows of the chosen cells; all arrays but those of `cells` have one entry for each."""
    points, values = np.empty(256), np.empty(256)
    for i in range(chosen.size):
        low, high = _window(
            cells, chosen[i], shapes[i], tilts[i], centres[i], limits[i], points, values
        )
        first[i], last[i] = int(low), int(high)


@njit(cache=True, nogil=True)
def fill_tables(cells, chosen, shapes, tilts, first, last, starts, values, moments):
    """Fill the tables of the chosen cells, one after the other.

    Parameters
    ----------
    cells : Cells
        Released cells.
    chosen, shapes, tilts, first, last : ndarray
        Index of each cell, its prior's shape, its tilt, and its first and last count.
    starts : ndarray of int
        Where each table starts in `values`; all at 0 where only moments are wanted.
    values : ndarray
        Receives the entries, scaled so that the largest is 1.
    moments : ndarray, shape (4, tables)
        Receives the log of the factor taken out, the log of the sum, mean and variance.
    """
    for k in range(chosen.size):
        out = values[starts[k] : starts[k] + last[k] - first[k] + 1]
        moments[0, k] = _fill(cells, chosen[k], shapes[k], tilts[k], first[k], out)
        total, mean, spread = 0.0, 0.0, 0.0
        for i in range(out.size):
            total += out[i]
            mean += out[i] * i
        if not total > 0.0:
            moments[1, k], moments[2, k], moments[3, k] = -np.inf, first[k], 0.0
            continue
        mean /= total
        for i in range(out.size):
            spread += out[i] * (i - mean) ** 2
        moments[1, k] = math.log(total)
        moments[2, k], moments[3, k] = first[k] + mean, spread / total


@njit(cache=True, nogil=True)
def _alone(cells, j, shape, tilt, centre, points, values, scratch):
    """Table of one cell: count of its first entry, its size, log factor, and its storage."""
    low, high = _window(cells, j, shape, tilt, centre, np.inf, points, values)
    size = int(high - low) + 1
    if size > MAX_WINDOW:
        return 0, size, 0.0, scratch
    if size > scratch.size:
        scratch = np.empty(2 * size)
    return int(low), size, _fill(cells, j, shape, tilt, int(low), scratch[:size]), scratch


@njit(cache=True, nogil=True)
def log_masses(cells, chosen, shapes, tilt, centres, out):
    """Log of the sum of each chosen cell's table.

    Returns
    -------
    int
        Length of a window that is too long, 0 if there is none.
    """
    points, values, scratch = np.empty(256), np.empty(256), np.empty(4096)
    for k in range(chosen.size):
        _, size, scale, scratch = _alone(
            cells, chosen[k], shapes[k], tilt, centres[k], points, values, scratch
        )
        if size > MAX_WINDOW:
            return size
        out[k] = scale + math.log(scratch[:size].sum()) if scale > -np.inf else -np.inf
    return 0


@njit(cache=True, nogil=True)
def draw_alone(rng, cells, tables, members, shapes, tilt, centres, guide, out):
    """Draw the counts of cells that are independent of each other.

    Parameters
    ----------
    rng : Generator
        Source of randomness.
    cells : Cells
        Released cells.
    tables, members : ndarray of int
        For each cell in order: a cell that has the same posterior, and its row of `out`.
        Runs of equal `tables` share the work.
    shapes, centres : ndarray
        Prior's shape and centre of the likelihood of all cells.
    tilt : float
        Tilt of the prior.
    guide : ndarray of int
        Storage: where each of as many equal slices of the unit interval starts in a table.
    out : ndarray of int, shape (cells, draws)
        Receives the counts.
    """
    points, values, scratch = np.empty(256), np.empty(256), np.empty(4096)
    first, size, previous, total = 0, 0, -1, 0.0
    slices = guide.size
    for k in range(tables.size):
        j = tables[k]
        if j != previous:
            first, size, _, scratch = _alone(
                cells, j, shapes[j], tilt, centres[j], points, values, scratch
            )
            total = 0.0
            for i in range(size):
                total += scratch[i]
                scratch[i] = total
            i = 0
            for s in range(slices):
                while i < size - 1 and scratch[i] <= s * (total / slices):
                    i += 1
                guide[s] = i
            previous = j
        row = out[members[k]]
        for d in range(row.size):
            u = rng.random()
            target = u * total
            i = guide[int(u * slices)]
            while i > 0 and scratch[i - 1] > target:  # rounding of the slices
                i -= 1
            while i < size - 1 and scratch[i] <= target:
                i += 1
            row[d] = first + i
