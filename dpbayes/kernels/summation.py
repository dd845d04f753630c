r"""Likelihood of a noisy statistic as an adaptive sum over the statistic.

.. math:: L = \sum_m f(m) \, Q(y \mid m), \qquad
          \partial_\theta \log L = E[\partial_\theta \log f(N) + \partial_\theta \log Q \mid y].

f is any law of `dpbayes.kernels.base_laws`, Q any of `dpbayes.kernels.noise_terms`. The sum
goes outwards from (near) its largest term. Short stretches are added term by term; long ones by
`dpbayes.kernels.lattice_rule`, whose stretches are halved until the Legendre coefficients of the
summand fall off, and which never cross a kink of the noise. It ends where a bound of all that is
left is below 1e-17 of the sum; the bound comes from the log-concavity of both factors, or from the
tail of f times the largest Q there. A continuous statistic is integrated in the same way.

Throughout, `law` is (base, a, b) as in `base_laws`, `noise` is (family, lower, upper, scale,
bound, step) with equal ends for a point, and ``sums`` is (sum of h, of h (m - origin), of h times
the score of b, of h times the scale's slope, log of the unit of h), h = f Q.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.base_laws import centre_and_spread, log_mass, second_score
from dpbayes.kernels.families import (
    BINOMIAL,
    DISCRETE_GAUSSIAN,
    GAUSSIAN,
    NEGATIVE_BINOMIAL,
    NO_NOISE,
    NORMAL,
    POISSON,
    TABULATED,
)
from dpbayes.kernels.lattice_rule import COEFFICIENTS, NODES, fill_weights
from dpbayes.kernels.noise_terms import log_peak
from dpbayes.kernels.terms import (
    fill_kinks,
    largest_term,
    log_rest,
    log_term,
    next_kink,
    scale_slope,
    support,
)

__all__ = ["conditional_moments"]

_SHORT_POINT, _SHORT_INTERVAL = 256.0, 48.0  # stretches up to here are added term by term
_TINY = -39.0  # log of the share of the sum that may be left out
_ACCURACY = 1e-12  # share of the sum that a stretch of quadrature may be wrong by
_LIMIT = 100_000
_RECURRENT = 0.05  # least scale at which ratios of neighbouring terms stay in range


@njit(cache=True, nogil=True)
def _rebase(sums, unit):
    """Express the sums in a larger unit."""
    total, moment, second, slope, old = sums
    factor = math.exp(max(old - unit, -745.0)) if old > -np.inf else 0.0
    return total * factor, moment * factor, second * factor, slope * factor, unit


@njit(cache=True, nogil=True)
def _add_terms(law, noise, table, peak, origin, start, direction, count, want, sums):
    """Add `count` terms from `start` on; stops early where they vanish. Returns the last one."""
    base, a, b = law
    family, lower, upper, scale, _, _ = noise
    log_f = log_mass(base, start, a, b)
    first = log_f + log_term(law, noise, table, peak, start)
    if first > sums[4] + 50.0:
        sums = _rebase(sums, first)
    total, moment, second, slope, unit = sums
    odds = b / (1.0 - b) if base == BINOMIAL else a / (a + b)
    term, m = math.exp(first - unit), start
    recurrent = lower == upper and scale > _RECURRENT and family != TABULATED
    change, shrink = 1.0, 1.0
    if family in (GAUSSIAN, DISCRETE_GAUSSIAN):
        change = math.exp((2.0 * direction * (lower - start) - 1.0) / (2.0 * scale * scale))
        shrink = math.exp(-1.0 / (scale * scale))
    elif recurrent and family != NO_NOISE:
        towards = direction * (lower - start) > 0.0
        change = math.exp((1.0 if towards else -1.0) / scale)
    scored = want[0] and base == NEGATIVE_BINOMIAL
    score = second_score(base, start, a, b) if scored else 0.0
    flat = 1.0 / (a + b)
    taken = 0.0
    while True:
        gap = m - origin
        total += term
        moment += term * gap
        if scored:
            second += term * score
        if want[1]:
            slope += term * scale_slope(noise, table, m)
        taken += 1.0
        if taken == count or (term < 1e-20 * total and recurrent):
            return m, (total, moment, second, slope, unit)
        if direction > 0.0:
            if base == POISSON:
                ratio = a / (m + 1.0)
            elif base == BINOMIAL:
                ratio = (a - m) / (m + 1.0) * odds
            else:
                ratio = (m + b) / (m + 1.0) * odds
            if scored:
                score += 1.0 / (m + b) - flat
        else:
            if base == POISSON:
                ratio = m / a
            elif base == BINOMIAL:
                ratio = m / ((a - m + 1.0) * odds)
            else:
                ratio = m / ((m - 1.0 + b) * odds)
            if scored:
                score -= 1.0 / (m - 1.0 + b) - flat
        m += direction
        if recurrent:
            term *= ratio * change
            change *= shrink
        else:
            log_f += math.log(ratio)
            term = math.exp(log_f + log_term(law, noise, table, peak, m) - unit)
        if term > 1e100:
            larger = unit + math.log(term)
            total, moment, second, slope, unit = _rebase(
                (total, moment, second, slope, unit), larger
            )
            term = 1.0


@njit(cache=True, nogil=True)
def _quadrature(law, noise, table, peak, origin, low, high, want, sums, weights):
    """Add the stretch from low to high; the sums, and the error of that relative to them."""
    base, a, b = law
    if base == NORMAL:
        count, middle, half = 0.0, 0.5 * (low + high), 0.5 * (high - low)
    else:
        count, middle, half = high - low + 1.0, 0.5 * (low + high), 0.5 * (high - low + 1.0)
    fill_weights(count, weights)
    logs = np.empty(NODES.size)
    top = -np.inf
    for i in range(NODES.size):
        m = middle + half * NODES[i]
        logs[i] = log_term(law, noise, table, peak, m) + log_mass(base, m, a, b)
        top = max(top, logs[i])
    if top > sums[4] + 50.0:
        sums = _rebase(sums, top)
    total, moment, second, slope, unit = sums
    factor = half if base == NORMAL else 1.0
    for i in range(NODES.size):
        m = middle + half * NODES[i]
        logs[i] = math.exp(logs[i] - unit)
        h = factor * weights[i] * logs[i]
        total += h
        moment += h * (m - origin)
        if want[0]:
            second += h * second_score(base, m, a, b)
        if want[1]:
            slope += h * scale_slope(noise, table, m)
    before = last = 0.0
    for row in range(4):
        coefficient = 0.0
        for i in range(NODES.size):
            coefficient += COEFFICIENTS[row, i] * logs[i]
        if row < 2:
            before += abs(coefficient)
        else:
            last += abs(coefficient)
    fall = min(last / before, 1.0) if before > 0.0 else 0.0
    ends = 50.0 / (count * count) if count > 0.0 else 0.0
    error = half * last * fall * (ends + fall**4)
    return (total, moment, second, slope, unit), (error / total if total > 0.0 else 0.0)


@njit(cache=True, nogil=True)
def _room(kinks, count, m, direction, scale):
    """Largest stretch from m on that resolves how an interval's Q bends near its kinks."""
    room = np.inf
    for i in range(count):
        distance = direction * (kinks[i] - m)
        room = min(room, 0.5 * distance if distance > 0.0 else -distance)
    return max(room, 2.0 * scale)


@njit(cache=True, nogil=True)
def _march(law, noise, table, peak, origin, start, end, direction, width, want, sums):
    """Add all terms from `start` towards `end`, the last possible statistic on that side."""
    base, _, b = law
    kinks, weights = np.empty(4), np.empty(NODES.size)
    count = fill_kinks(noise, kinks)
    whole, point = base != NORMAL, noise[1] == noise[2]
    short = _SHORT_POINT if point and noise[0] != TABULATED else _SHORT_INTERVAL
    unit = 1.0 if whole else 0.0
    m, first_width = start, width
    for _ in range(_LIMIT):
        if direction * (end - m) < 0.0 or (not whole and m == end):
            break
        kink = next_kink(noise, table, kinks, count, m, direction)
        stop = end
        if direction > 0.0:
            stop = min(end, np.floor(kink) if whole else kink)
        else:
            stop = max(end, np.floor(kink) + 1.0 if whole else kink)
        length = direction * (stop - m) + unit
        stretch = min(width, length)
        if not point:
            stretch = min(stretch, _room(kinks, count, m, direction, noise[3]))
        if base == NEGATIVE_BINOMIAL and b < 1.0 and direction < 0.0:
            stretch = min(stretch, np.floor(0.75 * m))  # the mass is singular near zero
        if whole and (stretch <= short or length <= short):
            taken = min(length, short)
            m, sums = _add_terms(law, noise, table, peak, origin, m, direction, taken, want, sums)
            width = max(width, 2.0 * short)
        else:
            stretch = np.floor(stretch) if whole else stretch
            last = m + direction * (stretch - unit)
            low, high = min(m, last), max(m, last)
            added, error = _quadrature(
                law, noise, table, peak, origin, low, high, want, sums, weights
            )
            if error > _ACCURACY and stretch > 1e-13 * (abs(m) + width):
                width = 0.5 * stretch
                continue
            sums, m = added, last
            width = 2.0 * stretch if error < 1e-4 * _ACCURACY else stretch
        if m == stop:  # what follows starts afresh beyond a kink
            width = first_width
        if sums[0] > 0.0:
            left_out = log_rest(law, noise, table, peak, m, direction)
            if left_out < sums[4] + math.log(sums[0]) + _TINY:
                break
        m += direction * unit
    return sums


@njit(cache=True, nogil=True)
def conditional_moments(law, noise, table, want):
    """Sum over the statistic.

    Parameters
    ----------
    law, noise, table
        As in the module's docstring; the law must have some spread.
    want : tuple of bool
        Whether the score of the second parameter, and the slope in the scale, are wanted.

    Returns
    -------
    tuple of float
        log L, E[N | y] - E[N], E[score of the second parameter | y], d log L / d scale.
    """
    base, a, b = law
    family, lower, upper, scale, bound, step = noise
    low, high = support(law, noise, table)
    if not low <= high:
        return -np.inf, 0.0, 0.0, 0.0
    peak, peak_slope = log_peak(family, scale, bound, step)
    if lower != upper:
        peak_slope = 0.0
    centre, spread = centre_and_spread(base, a, b)
    origin = largest_term(law, noise, table, low, high)
    width = spread
    if family != TABULATED and family != NO_NOISE and upper - lower < np.inf:
        around = scale + (upper - lower)
        width = 1.0 / math.sqrt(1.0 / (spread * spread) + 1.0 / (around * around))
    sums = (0.0, 0.0, 0.0, 0.0, -np.inf)
    width = 2.0 * width
    sums = _march(law, noise, table, peak, origin, origin, high, 1.0, width, want, sums)
    before = origin if base == NORMAL else origin - 1.0
    sums = _march(law, noise, table, peak, origin, before, low, -1.0, width, want, sums)
    total, moment, second, slope, unit = sums
    if not total > 0.0:
        return -np.inf, 0.0, 0.0, 0.0
    value = unit + math.log(total)
    return value, (origin - centre) + moment / total, second / total, peak_slope + slope / total
