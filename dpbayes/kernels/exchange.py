"""Metropolis moves between tables of counts when totals of crossing groups were released.

Arrays only. A state is a table of counts; a move adds a whole number to some cells and
takes it from others, so that few terms of the posterior change.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from dpbayes.kernels.families import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE
from dpbayes.kernels.poisson import floor_to_lattice, noise_interval, noise_point

__all__ = ["sweep"]


@njit(cache=True, nogil=True)
def _log_noise(family, lower, upper, scale, step, m):
    """Log Q of one released value at the candidate m, up to its Jacobian."""
    if lower == upper:
        return noise_point(family, lower - m, scale, step)
    low, high = lower - m, upper - m
    if family in (DISCRETE_LAPLACE, DISCRETE_GAUSSIAN):
        low, high = floor_to_lattice(low, step), floor_to_lattice(high, step)
    return noise_interval(family, low, high, scale, step)


@njit(cache=True, nogil=True)
def _cell_term(cells, j, m, tilt):
    """Prior and likelihood of the count m in cell j."""
    family, step, lower, upper, scale, shapes = cells
    prior = math.lgamma(shapes[j] + m) - math.lgamma(m + 1.0) + tilt * m
    return prior + _log_noise(family, lower[j], upper[j], scale[j], step, m)


@njit(cache=True, nogil=True)
def _choose(rng, groups, members, starts, margin, cell):
    """Another cell of the same group of a margin, drawn uniformly."""
    g = groups[margin, cell]
    size = starts[margin, g + 1] - starts[margin, g]
    return members[margin, starts[margin, g] + int(rng.random() * size)]


@njit(cache=True, nogil=True)
def _propose(rng, public, groups, members, starts, corner, chosen, sign):
    """Fill in the cells of a move and their signs; return how many there are.

    Single cells change the total and are left out where it is public. Pairs lie in one
    group of a random partition (the last is the whole table). Corners of a rectangle keep
    both totals of two crossing partitions.
    """
    size = groups.shape[1]
    kind = rng.random()
    chosen[0] = int(rng.random() * size)
    sign[0] = 1.0
    if kind < 0.25 and not public:
        return 1
    margins = groups.shape[0]
    first = int(rng.random() * margins)
    chosen[1] = _choose(rng, groups, members, starts, first, chosen[0])
    sign[1] = -1.0
    if chosen[1] == chosen[0]:
        return 0
    if kind < 0.65 or corner.size == 0:
        return 2
    # The corners: same group of partition 0, then of partition 1, then the fourth cell.
    chosen[1] = _choose(rng, groups, members, starts, 0, chosen[0])
    chosen[2] = _choose(rng, groups, members, starts, 1, chosen[0])
    chosen[3] = corner[groups[0, chosen[2]], groups[1, chosen[1]]]
    sign[1], sign[2], sign[3] = -1.0, -1.0, 1.0
    if chosen[3] < 0:
        return 0
    for a in range(4):
        for b in range(a):
            if chosen[a] == chosen[b]:
                return 0
    # The choice must be as likely backwards: only the one cell of each crossing is used.
    for a in range(4):
        if corner[groups[0, chosen[a]], groups[1, chosen[a]]] != chosen[a]:
            return 0
    return 4


@njit(cache=True, nogil=True)
def sweep(rng, counts, sums, moves, tilt, public, cells, margins, groups, members, starts, corner):
    """Make a number of Metropolis moves in place.

    Parameters
    ----------
    rng : Generator
        Source of randomness.
    counts : ndarray of float, shape (cells,)
        The table; changed in place.
    sums : ndarray, shape (partitions, largest number of groups)
        Totals of all groups of all partitions; changed in place.
    moves : int
        Number of proposals.
    tilt : float
        Log of t, the geometric factor of the prior of an unknown total.
    public : bool
        Whether the total is known, so that moves must keep it.
    cells : tuple
        Family, step, lower and upper bounds and scale of the released cells, and shapes of
        their prior.
    margins : tuple
        Family, step, lower, upper, scale by partition; a family of -1 was not released.
    groups, members, starts, corner : ndarray
        Group of each cell by partition; cells by group; where groups start; the one cell at
        each crossing of the first two partitions (-1 for none), empty for no rectangles.

    Returns
    -------
    float
        Share of proposals that were accepted.
    """
    family, step, lower, upper, scale = margins
    chosen = np.empty(4, dtype=np.int64)
    sign = np.empty(4)
    accepted = 0
    for _ in range(moves):
        number = _propose(rng, public, groups, members, starts, corner, chosen, sign)
        if number == 0:
            continue
        reach = cells[4][chosen[0]] * 4.0 ** (2.0 * rng.random() - 1.5) + 0.5
        jump = 1.0 + math.floor(-reach * math.log(1.0 - rng.random()))
        if rng.random() < 0.5:
            jump = -jump
        gain = 0.0
        for a in range(number):
            j = chosen[a]
            m = counts[j] + sign[a] * jump
            if m < 0.0:
                gain = -np.inf
                break
            gain += _cell_term(cells, j, m, tilt) - _cell_term(cells, j, counts[j], tilt)
        if gain == -np.inf:
            continue
        for p in range(groups.shape[0]):
            if family[p] < 0:
                continue
            for a in range(number):
                g = groups[p, chosen[a]]
                shift, seen = 0.0, False
                for b in range(number):
                    if groups[p, chosen[b]] == g:
                        seen = seen or b < a
                        shift += sign[b] * jump
                if seen or shift == 0.0:
                    continue
                s = sums[p, g]
                new = _log_noise(
                    family[p], lower[p, g], upper[p, g], scale[p, g], step[p], s + shift
                )
                gain += new - _log_noise(
                    family[p], lower[p, g], upper[p, g], scale[p, g], step[p], s
                )
        if math.log(1.0 - rng.random()) < gain:
            accepted += 1
            for a in range(number):
                counts[chosen[a]] += sign[a] * jump
                for p in range(groups.shape[0]):
                    sums[p, groups[p, chosen[a]]] += sign[a] * jump
    return accepted / max(moves, 1)
