r"""Law of one Poisson count given its released value, over the counts that matter.

.. math:: P(N = m \mid y) \propto Q(y \mid m) \frac{e^{\theta m}}{m!}, \qquad m = 0, ..., n

theta is the log rate, or a cell's log probability plus a tilt where a total is public. `noise`
is (family, lower, upper, scale, bound, step) as in `dpbayes.kernels.terms`.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.base_laws import log_mass
from dpbayes.kernels.families import DISCRETE_GAUSSIAN, GAUSSIAN, NO_NOISE, POISSON, TABULATED
from dpbayes.kernels.noise_terms import is_lattice
from dpbayes.kernels.poisson import floor_to_lattice
from dpbayes.kernels.terms import largest_term, log_rest, log_term, support

__all__ = ["fill_masses", "on_lattice"]

_TINY = 1e-18  # of the largest mass: counts below it are left out
_RECURRENT = 0.01  # least scale at which ratios of neighbouring masses stay in range


@njit(cache=True, nogil=True)
def on_lattice(family, lower, upper, step):
    """Move the ends of an interval to the lattice of the noise; points are left alone."""
    if lower == upper or not is_lattice(family):
        return lower, upper
    return floor_to_lattice(lower, step), floor_to_lattice(upper, step)


@njit(cache=True, nogil=True)
def _fill_side(law, noise, table, theta, mode, direction, end, out, filled):
    """Masses on one side of the mode, outwards; returns how many, -1 where there is no room."""
    family, lower, upper, scale, _, _ = noise
    top = log_term(law, noise, table, 0.0, mode)
    peak = log_mass(POISSON, mode, law[1], 0.0) + top if family == TABULATED else 0.0
    known = lower == upper and scale > _RECURRENT and family not in (TABULATED, NO_NOISE)
    gaussian = family in (GAUSSIAN, DISCRETE_GAUSSIAN)
    ratio, shrink = 0.0, 1.0
    if known and gaussian:  # Q(m + direction) / Q(m), and the factor by which it changes
        ratio = math.exp((2.0 * direction * (lower - mode) - 1.0) / (2.0 * scale * scale))
        shrink = math.exp(-1.0 / (scale * scale))
    towards, away = math.exp(min(1.0 / scale, 700.0)), math.exp(-1.0 / scale)
    rate, mass, log_ratio, m, at = law[1], 1.0, 0.0, mode, filled
    while direction * (end - m) > 0.0:
        following = m + direction
        if known:
            if not gaussian:
                gap, next_gap = (lower - m) * direction, (lower - following) * direction
                if next_gap >= 0.0:
                    ratio = towards
                elif gap <= 0.0:
                    ratio = away
                else:
                    ratio = math.exp((gap + next_gap) / scale)
            mass *= ratio * (rate / following if direction > 0.0 else m / rate)
            ratio *= shrink
        else:
            log_ratio += direction * (theta - math.log(max(m, following)))
            mass = math.exp(log_ratio + log_term(law, noise, table, 0.0, following) - top)
        m = following
        if mass < _TINY:
            if family != TABULATED:  # both factors are log-concave: nothing follows
                break
            rest = log_rest(law, noise, table, 0.0, m, direction)
            if rest < peak + math.log(_TINY):
                break
        if at == out.size:
            return -1
        out[at] = mass
        at += 1
    return at - filled


@njit(cache=True, nogil=True)
def fill_masses(noise, table, theta, n, out):
    """Unnormalised law of a count, outwards from its mode.

    Parameters
    ----------
    noise, table
        Noise and bounds of the released value (see the module's docstring).
    theta : float
        Log rate.
    n : float
        Largest count.
    out : ndarray
        Output, filled while there is room.

    Returns
    -------
    tuple
        First count, number of counts (-1 where there is no room, 0 where none is possible), log of
        the unit of mass.
    """
    law = (POISSON, math.exp(theta), 0.0)
    low, high = support(law, noise, table)
    high = min(high, n)
    if not low <= high or (theta == -np.inf and low > 0.0):
        return 0.0, 0, -np.inf
    if theta == -np.inf:
        out[0] = 1.0
        return 0.0, 1, log_term(law, noise, table, 0.0, 0.0)
    mode = largest_term(law, noise, table, low, high)
    out[0] = 1.0
    right = 1 + _fill_side(law, noise, table, theta, mode, 1.0, high, out, 1)
    top = log_term(law, noise, table, 0.0, mode)
    if right == 0:
        return mode, -1, top
    left = _fill_side(law, noise, table, theta, mode, -1.0, low, out, right)
    if left < 0:
        return mode, -1, top
    # rotate the left part, stored from the mode downwards, in front of the right part
    ordered = np.empty(right + left)
    for i in range(left):
        ordered[left - 1 - i] = out[right + i]
    ordered[left:] = out[:right]
    out[: right + left] = ordered
    return mode - left, right + left, top + theta * mode - math.lgamma(mode + 1.0)
