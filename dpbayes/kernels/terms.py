"""Terms of the sum over a true statistic: size, support, largest one, bound of what is left.

`law` is (base, a, b) as in `dpbayes.kernels.base_laws`, `noise` is (family, lower, upper, scale,
bound, step) with the canonical bounds of statistic + noise, equal for a point; the ends of
intervals are lattice points for lattice laws. `table` is that of a tabulated law.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.base_laws import ends, log_beyond, log_mass, mode, rise
from dpbayes.kernels.families import (
    DISCRETE_GAUSSIAN,
    GAUSSIAN,
    NEGATIVE_BINOMIAL,
    NO_NOISE,
    NORMAL,
    TABULATED,
    TRUNCATED_DISCRETE_LAPLACE,
)
from dpbayes.kernels.noise_terms import (
    is_lattice,
    is_truncated,
    log_interval,
    log_shape,
    reach,
    shape_slope,
)
from dpbayes.kernels.tabulated import table_mode, table_next_edge, table_top

__all__ = [
    "fill_kinks",
    "largest_term",
    "log_rest",
    "log_term",
    "next_kink",
    "scale_slope",
    "support",
]


@njit(cache=True, nogil=True)
def log_term(law, noise, table, peak, m):
    """Log Q(y | m), less its constant part for points unless given as `peak`."""
    family, lower, upper, scale, bound, step = noise
    if lower == upper:
        return peak + log_shape(family, lower - m, scale, table)
    return log_interval(family, lower - m, upper - m, scale, bound, step, table)[0]


@njit(cache=True, nogil=True)
def scale_slope(noise, table, m):
    """Differentiate log Q(y | m) in the scale, less its constant part for points."""
    family, lower, upper, scale, bound, step = noise
    if lower == upper:
        return shape_slope(family, lower - m, scale)
    return log_interval(family, lower - m, upper - m, scale, bound, step, table)[1]


@njit(cache=True, nogil=True)
def support(law, noise, table):
    """Smallest and largest statistic that both the law and the noise allow."""
    base, a, _ = law
    family, lower, upper, _, bound, step = noise
    low, high = ends(base, a)
    size = reach(family, bound, step, table)
    before = after = size
    if family == TABULATED:
        before, after = table[table.shape[0] - 1, 1], -table[0, 0]
    inner = 0.0
    if lower != upper and is_lattice(family):
        inner = step  # the lowest member lies one step above the open end
    low, high = max(low, lower + inner - before), min(high, upper + after)
    if base != NORMAL:
        low, high = np.ceil(low), np.floor(high)
    return low, high


@njit(cache=True, nogil=True)
def fill_kinks(noise, out):
    """Statistics at which Q bends or turns, in increasing order; returns how many."""
    family, lower, upper, _, bound, step = noise
    point = lower == upper
    if family in (TABULATED, NO_NOISE) or (point and family in (GAUSSIAN, DISCRETE_GAUSSIAN)):
        return 0
    count = 1
    out[0] = lower
    if not point:
        out[1] = upper
        count = 2
        if is_truncated(family):
            edge, extra = bound, 0.0
            if family == TRUNCATED_DISCRETE_LAPLACE:
                edge, extra = np.floor(bound / step + 1e-6) * step, step
            out[2], out[3] = lower + edge + extra, upper - edge
            count = 4
    ordered = out[:count]
    ordered.sort()
    return count


@njit(cache=True, nogil=True)
def next_kink(noise, table, kinks, count, m, direction):
    """Next statistic beyond m in this direction at which Q is not smooth."""
    family, lower, upper, _, _, _ = noise
    if family == TABULATED:
        found = direction * np.inf
        for end in (lower, upper):
            if abs(end) < np.inf:  # a little beyond m: rounding must not find its own edge again
                ahead = m + direction * 1e-13 * (abs(m) + abs(end))
                edge = end - table_next_edge(end - ahead, -direction, table)
                found = min(found, edge) if direction > 0.0 else max(found, edge)
        return found
    if direction > 0.0:
        for i in range(count):
            if kinks[i] > m:
                return kinks[i]
        return np.inf
    for i in range(count - 1, -1, -1):
        if kinks[i] < m:
            return kinks[i]
    return -np.inf


@njit(cache=True, nogil=True)
def largest_term(law, noise, table, low, high):
    """Statistic near which f Q is largest (exactly, on counts, where both are log-concave)."""
    base, a, b = law
    family, lower, upper, _, _, _ = noise
    centre = min(max(mode(base, a, b), low), high)
    target = centre
    if lower == upper:
        target = lower - (table_mode(table) if family == TABULATED else 0.0)
    else:
        target = min(max(centre, lower), upper)
    target = min(max(target, low), high)
    if base == NORMAL:
        return _continuous_mode(law, noise, table, centre, target)
    target = np.floor(target)
    start, end = min(centre, target), max(centre, target)
    while start < end:
        middle = np.floor(0.5 * (start + end))
        here = log_term(law, noise, table, 0.0, middle)
        following = log_term(law, noise, table, 0.0, middle + 1.0)
        if following == -np.inf or here == -np.inf:
            rising = here == -np.inf and middle < target
        else:
            rising = following - here + math.log(rise(base, middle, a, b)) > 0.0
        if rising:
            start = middle + 1.0
        else:
            end = middle
    return start


@njit(cache=True, nogil=True)
def _continuous_mode(law, noise, table, centre, target):
    """Bisect for the largest f Q between the centre of a normal law and that of the noise."""
    _, a, b = law
    scale = noise[3]
    start, end = min(centre, target), max(centre, target)
    near = 0.05 * min(b, scale)
    while end - start > near + 1e-14 * (abs(start) + abs(end)):
        middle = 0.5 * (start + end)
        h = 0.1 * (end - start)
        low = log_term(law, noise, table, 0.0, middle - h)
        high = log_term(law, noise, table, 0.0, middle + h)
        if low == -np.inf or high == -np.inf:
            rising = low == -np.inf and middle < target
        else:
            rising = (high - low) / (2.0 * h) > (middle - a) / (b * b)
        if rising:
            start = middle
        else:
            end = middle
    return 0.5 * (start + end)


@njit(cache=True, nogil=True)
def log_rest(law, noise, table, peak, m, direction):
    """Upper bound of the log of all terms beyond m."""
    base, a, b = law
    family = noise[0]
    following = m if base == NORMAL else m + direction
    if (
        family == TABULATED
        or base == NORMAL
        or (base == NEGATIVE_BINOMIAL and b < 1.0 and direction < 0.0)
    ):
        return log_beyond(base, m, direction, a, b) + _log_largest_noise(
            noise, table, peak, following, direction
        )
    here = log_term(law, noise, table, peak, following)
    ratio = math.exp(log_term(law, noise, table, peak, following + direction) - here)
    if direction > 0.0:
        step_up = rise(base, following, a, b)
        ratio *= max(step_up, a / (a + b)) if base == NEGATIVE_BINOMIAL else step_up
    elif following <= 0.0:
        ratio = 0.0
    else:
        ratio /= rise(base, following - 1.0, a, b)
    if not ratio < 1.0:
        return np.inf
    return log_mass(base, following, a, b) + here - math.log1p(-ratio)


@njit(cache=True, nogil=True)
def _log_largest_noise(noise, table, peak, m, direction):
    """Upper bound of log Q from m on, in this direction."""
    family, lower, upper, scale, bound, step = noise
    if lower < upper:
        if direction > 0.0:
            return log_interval(family, -np.inf, upper - m, scale, bound, step, table)[0]
        return log_interval(family, lower - m, np.inf, scale, bound, step, table)[0]
    if family == TABULATED:
        return table_top(lower - m, -direction, table)
    if direction * (m - lower) < 0.0:
        return peak
    return peak + log_shape(family, lower - m, scale, table)
