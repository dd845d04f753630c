"""Where statistic + noise must have been for one released value, in compiled code.

The scalar counterpart of `dpbayes.mechanism`: the steps of a mechanism are encoded as the rows of
an array, in the order in which they were applied, and undone from the last to the first.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.families import LATTICE_TOLERANCE

RESCALE, ROUND, CLAMP, SUPPRESS = 0.0, 1.0, 2.0, 3.0
NEAREST, FLOOR, CEIL = 0.0, 1.0, 2.0

_NOWHERE = (np.inf, -np.inf, False, False, 0.0)


@njit(cache=True, nogil=True)
def _to_lattice(lower, upper, lower_closed, upper_closed, step):
    """First and last member, in units of the step, of an interval on a lattice."""
    low, high = lower / step, upper / step
    if lower_closed:
        first = np.ceil(low - LATTICE_TOLERANCE)
    else:
        first = np.floor(low + LATTICE_TOLERANCE) + 1.0
    if upper_closed:
        last = np.floor(high + LATTICE_TOLERANCE)
    else:
        last = np.ceil(high - LATTICE_TOLERANCE) - 1.0
    return first, last


@njit(cache=True, nogil=True)
def _undo_round(lower, upper, lower_closed, upper_closed, step, mode):
    first, last = _to_lattice(lower, upper, lower_closed, upper_closed, step)
    if not first <= last:
        return _NOWHERE
    below = 0.5 if mode == NEAREST else (0.0 if mode == FLOOR else 1.0)
    if mode == NEAREST:
        lower_closed, upper_closed = np.mod(first, 2.0) == 0.0, np.mod(last, 2.0) == 0.0
    else:
        lower_closed = mode == FLOOR
        upper_closed = not lower_closed
    lower_closed = lower_closed and not math.isinf(first)
    upper_closed = upper_closed and not math.isinf(last)
    return (first - below) * step, (last + 1.0 - below) * step, lower_closed, upper_closed, 0.0


@njit(cache=True, nogil=True)
def _undo_clamp(lower, upper, lower_closed, upper_closed, jacobian, low, high):
    if upper < low or lower > high:
        return _NOWHERE
    if (upper == low and not upper_closed) or (lower == high and not lower_closed):
        return _NOWHERE
    if lower < low or (lower == low and lower_closed):
        lower, lower_closed, jacobian = -np.inf, False, 0.0
    if upper > high or (upper == high and upper_closed):
        upper, upper_closed, jacobian = np.inf, False, 0.0
    return lower, upper, lower_closed, upper_closed, jacobian


@njit(cache=True, nogil=True)
def bounds(value, steps, lattice):
    """Canonical bounds of statistic + noise for one released value.

    Minus infinity (or NaN) stands for a suppressed value. `lattice` is the step of the lattice on
    which statistic + noise lives, 0 where it is continuous.

    Returns lower, upper and the log Jacobian of a point; equal ends are a point, on a lattice the
    other ends sit half a step off it, and ``lower > upper`` marks an impossible value.
    """
    suppressed = math.isnan(value) or value == -np.inf
    lower = upper = value
    lower_closed = upper_closed = True
    jacobian = 0.0
    for i in range(steps.shape[0] - 1, -1, -1):
        code, a, b = steps[i, 0], steps[i, 1], steps[i, 2]
        if suppressed and code != SUPPRESS:
            continue
        if code == RESCALE:
            if lower == upper:
                jacobian -= math.log(abs(a))
            lower, upper = lower / a, upper / a
            if a < 0.0:
                lower, upper = upper, lower
                lower_closed, upper_closed = upper_closed, lower_closed
        elif code == ROUND:
            lower, upper, lower_closed, upper_closed, jacobian = _undo_round(
                lower, upper, lower_closed, upper_closed, a, b
            )
        elif code == CLAMP:
            lower, upper, lower_closed, upper_closed, jacobian = _undo_clamp(
                lower, upper, lower_closed, upper_closed, jacobian, a, b
            )
        elif suppressed:
            suppressed = False
            lower, upper, lower_closed, upper_closed = -np.inf, a, False, b == 1.0
        elif lower < a or (lower == a and b == 1.0):
            lower, lower_closed = a, b != 1.0
        if lower > upper or (lower == upper and not (lower_closed and upper_closed)):
            return np.inf, -np.inf, 0.0
    if suppressed or (math.isinf(value) and steps.shape[0] == 0):
        return np.inf, -np.inf, 0.0
    if lattice == 0.0:
        return lower, upper, jacobian
    first, last = _to_lattice(lower, upper, lower_closed, upper_closed, lattice)
    if first > last:
        return np.inf, -np.inf, 0.0
    if first == last:
        return first * lattice, first * lattice, 0.0
    return (first - 0.5) * lattice, (last + 0.5) * lattice, 0.0


@njit(cache=True, nogil=True)
def bounds_below(value, steps, lattice):
    """Canonical bounds of statistic + noise for "published at most `value`, or suppressed".

    As `bounds`; a suppressed value is minus infinity and so counts as below every other. Rescaling
    by a negative factor turns the order around, and is meant for mechanisms that suppress nothing.
    """
    lower, upper = -np.inf, value
    lower_closed = upper_closed = True
    for i in range(steps.shape[0] - 1, -1, -1):
        code, a, b = steps[i, 0], steps[i, 1], steps[i, 2]
        if code == SUPPRESS:
            if upper < a or (upper == a and not upper_closed):
                upper, upper_closed = a, b == 1.0
            continue
        if lower > upper or upper == -np.inf:
            lower, upper = -np.inf, -np.inf
        elif code == RESCALE:
            lower, upper = lower / a, upper / a
            if a < 0.0:
                lower, upper = upper, lower
                lower_closed, upper_closed = upper_closed, lower_closed
        elif code == ROUND:
            lower, upper, lower_closed, upper_closed, _ = _undo_round(
                lower, upper, lower_closed, upper_closed, a, b
            )
        else:
            lower, upper, lower_closed, upper_closed, _ = _undo_clamp(
                lower, upper, lower_closed, upper_closed, 0.0, a, b
            )
    if not lower < upper:
        return np.inf, -np.inf, 0.0
    if lattice == 0.0:
        return lower, upper, 0.0
    first, last = _to_lattice(lower, upper, lower_closed, upper_closed, lattice)
    if first > last:
        return np.inf, -np.inf, 0.0
    return (first - 0.5) * lattice, (last + 0.5) * lattice, 0.0
