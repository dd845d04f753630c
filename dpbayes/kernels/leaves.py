"""Log likelihood of released values at candidate counts, and draws from tables of counts.

Arrays only. A "leaf" is one released cell; its table holds the unnormalised posterior of
its count over a window of non-negligible mass.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dpbayes.kernels.families import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, GAUSSIAN
from dpbayes.kernels.poisson import floor_to_lattice, noise_interval, noise_point

__all__ = [
    "log_likelihood",
    "log_peaks",
    "normalise_tables",
    "one_log_likelihood",
    "outward_draws",
    "split_draws",
]

_NOTHING = np.empty(0)
#: Share of the largest entry from which an entry of a convolution by FFT is trusted.
_TRUSTED = 1e-5


@njit(cache=True, nogil=True)
def log_peaks(family, scale, step):
    """Log density (or mass) of the noise at zero, for each cell."""
    out = np.empty(scale.size)
    for j in range(scale.size):
        if j > 0 and scale[j] == scale[j - 1]:
            out[j] = out[j - 1]
        else:
            out[j] = noise_point(family, 0.0, scale[j], step)
    return out


@njit(cache=True, nogil=True)
def one_log_likelihood(family, lower, upper, peak, scale, step, m):
    """Log Q(y | m) of one cell, but for the Jacobian."""
    if lower == upper:
        distance = abs(lower - m) / scale
        if family in (GAUSSIAN, DISCRETE_GAUSSIAN):
            return peak - 0.5 * distance * distance
        return peak - distance
    low, high = lower - m, upper - m
    if family in (DISCRETE_LAPLACE, DISCRETE_GAUSSIAN):
        low, high = floor_to_lattice(low, step), floor_to_lattice(high, step)
    return noise_interval(family, low, high, scale, step)


@njit(cache=True, nogil=True)
def log_likelihood(laws, cells, counts):
    """Log Q(y_j | m) for pairs of cells and counts.

    Parameters
    ----------
    laws : Cells
        Released cells.
    cells, counts : ndarray
        Index of the cell and candidate count of each pair.
    """
    out = np.empty(cells.size)
    for i in range(cells.size):
        j = cells[i]
        out[i] = laws.log_jacobian[j] + one_log_likelihood(
            laws.family, laws.lower[j], laws.upper[j], laws.peak[j], laws.scale[j], laws.step,
            counts[i],
        )  # fmt: skip
    return out


@njit(cache=True, nogil=True)
def normalise_tables(values, offsets, first, moments):
    """Exponentiate log tables in place, each scaled so that its largest entry is 1.

    Parameters
    ----------
    values : ndarray
        Log entries of all tables, one after the other; receives the entries.
    offsets : ndarray of int
        Where each table starts, and the end of the last.
    first : ndarray of int
        Count of each table's first entry.
    moments : ndarray, shape (4, tables)
        Receives the log of the factor taken out, the log of the sum, mean and variance.
    """
    for j in range(first.size):
        a, b = offsets[j], offsets[j + 1]
        top = -np.inf
        for i in range(a, b):
            top = max(top, values[i])
        if top == -np.inf:  # no count is possible: an empty table
            values[a:b] = 0.0
            moments[0, j], moments[1, j] = -np.inf, -np.inf
            moments[2, j], moments[3, j] = first[j], 0.0
            continue
        total, mean = 0.0, 0.0
        for i in range(a, b):
            values[i] = np.exp(values[i] - top)
            total += values[i]
            mean += values[i] * (i - a)
        mean /= total
        spread = 0.0
        for i in range(a, b):
            spread += values[i] * (i - a - mean) ** 2
        moments[0, j], moments[1, j] = top, np.log(total)
        moments[2, j], moments[3, j] = first[j] + mean, spread / total


@njit(cache=True, nogil=True)
def outward_draws(table, first, centre, uniforms, out):
    """Draw from one unnormalised table by inversion, walking outwards from its centre.

    The number of steps of a draw is about its distance from the centre, not the length of
    the table.
    """
    total = 0.0
    for value in table:
        total += value
    for d in range(uniforms.size):
        target = uniforms[d] * total
        right = min(max(centre - first, 0), table.size - 1)
        left = right - 1
        chosen = right
        acc = 0.0
        while left >= 0 or right < table.size:
            if right < table.size:
                acc += table[right]
                chosen = right
                if acc > target:
                    break
                right += 1
            if left >= 0:
                acc += table[left]
                chosen = left
                if acc > target:
                    break
                left -= 1
        while table[chosen] == 0.0:  # only rounding at the very end can land on no mass
            chosen += 1 if chosen < centre - first else -1
        out[d] = first + chosen


@njit(cache=True, nogil=True)
def split_draws(
    left, first_left, right, first_right, slope, intercept, totals, uniforms, out,
    merged=_NOTHING, first_merged=0, peak=1.0,
):  # fmt: skip
    """Draw the left part of each total: P(m | s) ∝ left(m) right(s - m).

    Parameters
    ----------
    left, right : ndarray
        Unnormalised tables of both children; `first_left` and `first_right` are the counts
        of their first entries.
    slope, intercept : float
        Conditional mean of the left part, about intercept + slope * total: where the walk
        starts. Any value gives the same law.
    totals : ndarray of int
        Total of each draw.
    uniforms : ndarray
        One uniform variate per draw.
    out : ndarray of int
        Receives the left parts.
    merged, first_merged, peak
        Convolution of the tables over its largest entry, the sum of its first entry, and
        that entry, where they are known: they save the sum over all splits of a total.

    Returns
    -------
    int
        Index of a draw whose total has no mass, -1 if there is none.
    """
    last_left = first_left + left.size - 1
    last_right = first_right + right.size - 1
    previous, mass = first_left + first_right - 1, 0.0
    for d in range(totals.size):
        s = totals[d]
        low = max(first_left, s - last_right)
        high = min(last_left, s - first_right)
        if low > high:
            return d
        if s != previous:
            mass = 0.0
            at = s - first_merged
            # Rounding of an FFT shows only far below the largest entry.
            if 0 <= at < merged.size and merged[at] > _TRUSTED:
                mass = merged[at] * peak
            else:
                for m in range(low, high + 1):
                    mass += left[m - first_left] * right[s - m - first_right]
            previous = s
        if not mass > 0.0:
            return d
        target = uniforms[d] * mass
        up = min(max(int(intercept + slope * s), low), high)
        down = up - 1
        chosen, best = up, 0.0
        acc = 0.0
        while down >= low or up <= high:
            if up <= high:
                p = left[up - first_left] * right[s - up - first_right]
                acc += p
                if p > 0.0:
                    chosen, best = up, p
                if acc > target:
                    break
                up += 1
            if down >= low:
                p = left[down - first_left] * right[s - down - first_right]
                acc += p
                if p > 0.0:
                    chosen, best = down, p
                if acc > target:
                    break
                down -= 1
        if best == 0.0:
            return d
        out[d] = chosen
    return -1
