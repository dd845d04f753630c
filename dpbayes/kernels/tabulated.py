r"""Any continuous noise density as a table that compiled code can read.

The logarithm of the density is interpolated by polynomials of degree 7 on panels, which are halved
until the interpolant is right to `TOLERANCE` at points between its nodes (to what the function's
own rounding allows, where that is more); a kink or an end of the support is enclosed in a panel of
relative width 1e-12. Panels grow outwards until the density has fallen by a factor of e^600, or
reach 1e15 standard deviations; further out the logarithm goes on as a straight line.
Probabilities integrate the interpolated density.

A table has one row per panel, from left to right, with the columns

======  ==================================================================
0, 1    ends of the panel (infinite in the first and last row of an unbounded law)
2-9     coefficients of powers of t, with t from -1 to 1 across the panel
10      log of the panel's mass
11, 12  log P(noise <= left end), log P(noise > right end)
13, 14  largest log density up to the right end, and from the left end on
======  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from dpbayes.errors import ParameterError
from dpbayes.kernels.special import log1mexp, logaddexp, logsubexp

__all__ = ["EMPTY", "TOLERANCE", "table_interval", "table_logpdf", "table_quantile", "tabulate"]

TOLERANCE = 1e-11  # of the log density, relative where it exceeds 1
_DEGREE = 7
_COLUMNS = _DEGREE + 8
_FALL = 4.0  # of the log density across one panel
_DEEP = 600.0  # below the peak: nothing further out is visible, and doubles underflow
_FAR = 1e15  # standard deviations
_NARROW = 1e-12  # relative width at which a panel is no longer halved
_MASS_TOLERANCE = 1e-6
_LOOSEST = 1e-6  # tolerance at which a function is too rough to be tabulated
_ROUNDING = 1e-15  # of an argument: what a function near a singular point can resolve
_BUDGET = 1000  # panels in one stretch; a kink takes forty
_DIRECT_PANELS = 8

_NODES = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))[::-1].copy()
_TO_POWERS = np.linalg.inv(np.vander(_NODES, increasing=True))
_CHECKS = np.array([-0.999, -0.9, -0.61, -0.23, 0.03, 0.37, 0.71, 0.93, 0.9995])
_AT_CHECKS = np.vander(_CHECKS, _DEGREE + 1, increasing=True) @ _TO_POWERS
_GAUSS, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(10)

#: Table of the laws that need none.
EMPTY = np.zeros((0, _COLUMNS))
EMPTY.flags.writeable = False  # compiled code sees a table as a constant

# -- reading -----------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _panel_of(x, table):
    """Row whose panel holds x, -1 or the number of rows beyond the ends."""
    rows = table.shape[0]
    if not x >= table[0, 0]:
        return -1
    if x > table[rows - 1, 1]:
        return rows
    low, high = 0, rows - 1
    while low < high:
        middle = (low + high) // 2
        if x <= table[middle, 1]:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def _log_density(x, row):
    """Log density inside the panel of a row of the table."""
    left, right = row[0], row[1]
    if left == -np.inf:
        return row[2] + row[3] * (x - right)
    if right == np.inf:
        return row[2] + row[3] * (x - left)
    t = (2.0 * x - left - right) / (right - left)
    value = row[9]
    for i in range(8, 1, -1):
        value = row[i] + t * value
    return value


@njit(cache=True, nogil=True)
def table_logpdf(x, table):
    """Log density at x, minus infinity beyond the support."""
    at = _panel_of(x, table)
    if at < 0 or at == table.shape[0]:
        return -np.inf
    return _log_density(x, table[at])


@njit(cache=True, nogil=True)
def _log_part(start, end, row):
    """Log mass of (start, end], which lies inside the panel of a row."""
    if not start < end:
        return -np.inf
    if row[0] == -np.inf or row[1] == np.inf:
        near = end if row[3] > 0.0 else start
        value = _log_density(near, row) - math.log(abs(row[3]))
        return value + log1mexp(-abs(row[3]) * (end - start))
    top = max(_log_density(start, row), _log_density(end, row))
    if top == -np.inf:
        return -np.inf
    total, half = 0.0, 0.5 * (end - start)
    for i in range(_GAUSS.size):
        x = start + half * (1.0 + _GAUSS[i])
        total += _GAUSS_WEIGHTS[i] * math.exp(_log_density(x, row) - top)
    return top + math.log(total * half)


@njit(cache=True, nogil=True)
def _log_below(x, table):
    """Log P(noise <= x)."""
    at = _panel_of(x, table)
    if at < 0:
        return -np.inf
    if at == table.shape[0]:
        return 0.0
    return min(logaddexp(table[at, 11], _log_part(table[at, 0], x, table[at])), 0.0)


@njit(cache=True, nogil=True)
def _log_above(x, table):
    """Log P(noise > x)."""
    at = _panel_of(x, table)
    if at < 0:
        return 0.0
    if at == table.shape[0]:
        return -np.inf
    return min(logaddexp(table[at, 12], _log_part(x, table[at, 1], table[at])), 0.0)


@njit(cache=True, nogil=True)
def table_interval(lower, upper, table):
    """Log P(lower < noise <= upper), without cancellation in either tail."""
    rows = table.shape[0]
    lower, upper = max(lower, table[0, 0]), min(upper, table[rows - 1, 1])
    if not lower < upper:
        return -np.inf
    first, last = _panel_of(lower, table), _panel_of(upper, table)
    if last - first <= _DIRECT_PANELS:
        value = -np.inf
        for at in range(first, last + 1):
            start, end = max(lower, table[at, 0]), min(upper, table[at, 1])
            whole = start == table[at, 0] and end == table[at, 1]
            part = table[at, 10] if whole else _log_part(start, end, table[at])
            value = logaddexp(value, part)
        return min(value, 0.0)
    above, below = _log_above(upper, table), _log_below(lower, table)
    if above > -0.7:
        return logsubexp(_log_below(upper, table), below)
    if below > -0.7:
        return logsubexp(_log_above(lower, table), above)
    return log1mexp(logaddexp(below, above))


@njit(cache=True, nogil=True)
def table_top(x, direction, table):
    """Largest log density at or above x (direction 1), or at or below x (direction -1)."""
    at = _panel_of(x, table)
    if direction > 0.0:
        if at == table.shape[0]:
            return -np.inf
        return table[max(at, 0), 14]
    if at < 0:
        return -np.inf
    return table[min(at, table.shape[0] - 1), 13]


@njit(cache=True, nogil=True)
def table_next_edge(x, direction, table):
    """First end of a panel strictly beyond x in this direction (infinite where there is none)."""
    rows = table.shape[0]
    at = _panel_of(x, table)
    if direction > 0.0:
        if at < 0:
            return table[0, 0]
        if at == rows:
            return np.inf
        if x < table[at, 1]:
            return table[at, 1]
        return table[at + 1, 1] if at + 1 < rows else np.inf
    if at == rows:
        return table[rows - 1, 1]
    return table[at, 0] if at >= 0 and x > table[at, 0] else -np.inf


@njit(cache=True, nogil=True)
def table_mode(table):
    """Point near the largest density."""
    rows = table.shape[0]
    at = 0
    while at < rows - 1 and table[at, 13] < table[rows - 1, 13]:
        at += 1
    left, right = table[at, 0], table[at, 1]
    if left == -np.inf:
        return right
    return left if right == np.inf else 0.5 * (left + right)


@njit(cache=True, nogil=True)
def table_quantile(u, table):
    """Noise below which the probability is u, 0 < u < 1."""
    if not (u > 0.0 and u < 1.0):
        return np.nan
    rising = u <= 0.5
    target = math.log(u) if rising else math.log1p(-u)
    low, high = 0, table.shape[0] - 1
    while low < high:  # the row in which the level is reached
        middle = (low + high) // 2
        if rising:
            reached = logaddexp(table[middle, 11], table[middle, 10]) >= target
        else:
            reached = table[middle, 12] <= target
        if reached:
            high = middle
        else:
            low = middle + 1
    row = table[low]
    left, right = row[0], row[1]
    if left == -np.inf or right == np.inf:  # probability e^-800
        return right if left == -np.inf else left
    for _ in range(60):
        middle = 0.5 * (left + right)
        if rising:
            reached = logaddexp(row[11], _log_part(row[0], middle, row)) >= target
        else:
            reached = logaddexp(row[12], _log_part(middle, row[1], row)) <= target
        if reached:
            right = middle
        else:
            left = middle
    return 0.5 * (left + right)


# -- writing -----------------------------------------------------------------------------------


def tabulate(logpdf: Callable[[Any], Any], sd: float) -> np.ndarray:
    """Tabulate a log density.

    Parameters
    ----------
    logpdf : callable
        Vectorised log density; minus infinity where the density is zero.
    sd : float
        Standard deviation, in the units of the argument: where to start.

    Returns
    -------
    numpy.ndarray
        Table for the functions of this module.

    Raises
    ------
    ParameterError
        If the density is NaN somewhere, or does not integrate to one.
    """

    def evaluate(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            value = np.asarray(logpdf(x), dtype=float)
        if value.shape != x.shape:
            raise ParameterError(
                f"logpdf must return one value per argument, got shape {value.shape} "
                f"for arguments of shape {x.shape}"
            )
        if np.isnan(value).any():
            raise ParameterError(f"logpdf must not be NaN, got NaN at {x[np.isnan(value)][0]:g}")
        if np.isposinf(value).any():
            raise ParameterError(
                f"logpdf must be finite or minus infinity, got infinity at "
                f"{x[np.isposinf(value)][0]:g}"
            )
        return value

    grid = sd * np.linspace(-8.0, 8.0, 4097)
    peak = float(evaluate(grid).max())
    if peak == -np.inf:
        raise ParameterError("logpdf is minus infinity within 8 standard deviations of zero")
    rows: list[np.ndarray] = []
    for direction in (-1.0, 1.0):
        found = _one_side(evaluate, sd, direction, peak)
        rows = found[::-1] + rows if direction < 0.0 else rows + found
    table = np.array(rows)
    _accumulate(table)
    mass = np.exp(logaddexp(table[-1, 11], table[-1, 10]))
    if not abs(mass - 1.0) <= _MASS_TOLERANCE:
        raise ParameterError(f"exp(logpdf) must integrate to 1, got {mass:.8g}")
    table.flags.writeable = False
    return table


def _one_side(
    evaluate: Callable[[np.ndarray], np.ndarray], sd: float, direction: float, peak: float
) -> list[np.ndarray]:
    """Rows from zero outwards."""
    rows: list[np.ndarray] = []
    start, width = 0.0, 0.25 * sd
    while start < _FAR * sd:
        rows.extend(_stretch(evaluate, direction, start, start + width, peak))
        start += width
        outermost = rows[-1]
        end = _log_density(direction * start, outermost)
        if end == -np.inf or end < peak - _DEEP:
            break
        width = 0.25 * sd if start < 2.0 * sd else 0.125 * start
    while len(rows) > 1 and rows[-1][2] == -np.inf:
        rows.pop()
    if rows[-1][2] > -np.inf and (end > -np.inf):
        tail = _straight_tail(rows[-1], direction)
        if tail is not None:
            rows.append(tail)
    return rows


def _stretch(
    evaluate: Callable[[np.ndarray], np.ndarray],
    direction: float,
    near: float,
    far: float,
    peak: float,
) -> list[np.ndarray]:
    """Rows between two distances from zero, as right as the function's own rounding allows."""
    tolerance = TOLERANCE
    while tolerance <= _LOOSEST:
        rows = _resolve(evaluate, direction, near, far, peak, tolerance)
        if rows:
            return rows
        tolerance *= 10.0
    raise ParameterError(
        f"logpdf must be smooth but for a few points, got a rough function between "
        f"{direction * near:g} and {direction * far:g}"
    )


def _resolve(
    evaluate: Callable[[np.ndarray], np.ndarray],
    direction: float,
    near: float,
    far: float,
    peak: float,
    tolerance: float,
) -> list[np.ndarray]:
    """Panels halved until the interpolant holds; none at all where that takes too many."""
    out: list[np.ndarray] = []
    stack = [(near, far)]
    while stack and len(out) < _BUDGET:
        a, b = stack.pop()
        left, right = (a, b) if direction > 0.0 else (-b, -a)
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        values = evaluate(middle + half * _NODES)
        checks = evaluate(middle + half * _CHECKS)
        allowed = max(tolerance, _ROUNDING * b / (b - a))
        powers = _fit(values, checks, b - a <= _NARROW * max(b, far - near), peak, allowed)
        if powers is not None:
            out.append(_row(left, right, powers))
        else:
            cut = 0.5 * (a + b)
            stack += [(cut, b), (a, cut)]
    return [] if stack else out


def _fit(
    values: np.ndarray, checks: np.ndarray, narrow: bool, peak: float, tolerance: float
) -> np.ndarray | None:
    """Coefficients of the interpolant, if it is good enough."""
    both = np.concatenate([values, checks])
    if not np.isfinite(both).all():
        if narrow or np.all(both == -np.inf):
            return np.r_[-np.inf, np.zeros(_DEGREE)]
        return None
    if narrow or both.max() < peak - _DEEP:
        return _TO_POWERS @ values
    error = np.abs(_AT_CHECKS @ values - checks) / np.maximum(np.abs(checks), 1.0)
    good = np.ptp(both) <= _FALL and error.max() <= tolerance
    return _TO_POWERS @ values if good else None


def _row(left: float, right: float, powers: np.ndarray) -> np.ndarray:
    row = np.zeros(_COLUMNS)
    row[0], row[1], row[2 : 3 + _DEGREE] = left, right, powers
    return row


def _straight_tail(row: np.ndarray, direction: float) -> np.ndarray | None:
    """Row that goes on from the outermost panel as a straight line, if it falls."""
    half = 0.5 * (row[1] - row[0])
    slope = float(np.arange(1, _DEGREE + 1) @ (row[3:10] * direction ** np.arange(_DEGREE))) / half
    if not slope * direction < 0.0:
        return None
    edge = row[1] if direction > 0.0 else row[0]
    tail = np.zeros(_COLUMNS)
    tail[:4] = edge, edge, _log_density(edge, row), slope
    tail[1 if direction > 0.0 else 0] = direction * np.inf
    return tail


def _accumulate(table: np.ndarray) -> None:
    """Fill the columns of masses and of largest densities."""
    for row in table:
        row[10] = _log_part(row[0], row[1], row)
    tops = np.array([_top(row) for row in table])
    table[:, 13] = np.maximum.accumulate(tops)
    table[:, 14] = np.maximum.accumulate(tops[::-1])[::-1]
    below = above = -np.inf
    for i in range(len(table)):
        table[i, 11], table[-1 - i, 12] = below, above
        below = logaddexp(below, table[i, 10])
        above = logaddexp(above, table[-1 - i, 10])


def _top(row: np.ndarray) -> float:
    """Bound of the log density in a panel: its largest value, and a little more."""
    if not np.isfinite(row[:2]).all() or row[2] == -np.inf:
        return float(row[2])
    t = np.linspace(-1.0, 1.0, 17)
    return float(np.polynomial.polynomial.polyval(t, row[2:10]).max()) + 0.1
