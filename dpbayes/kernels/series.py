"""Metropolis chain of counts by cell whose noisy linear statistics were released."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["move_counts"]


@njit(cache=True, nogil=True)
def move_counts(
    counts, weights, which, functions, target, scale, laplace, tune, thin, random_seed, kept
):
    """Move records between two cells at a time; keep the counts after every `thin` moves.

    The density is Π exp(weights[which[v], N_v]) times Π of the noise's density at
    target - functions · N.

    Parameters
    ----------
    counts : ndarray of int
        Start, overwritten.
    weights : ndarray, shape (laws, records + 1)
        Log prior weights of counts.
    which : ndarray of int
        Law of each cell.
    functions : ndarray, shape (coefficients, cells)
        Statistics of one record in each cell.
    target : ndarray
        Released statistics.
    scale : float
        Laplace scale or Gaussian sd of the noise.
    laplace : bool
        Whether the noise is Laplace.
    tune, thin : int
        Moves before the first kept counts and between them.
    random_seed : int
        Seed.
    kept : ndarray of int, shape (draws, cells)
        Filled.

    Returns
    -------
    float
        Share of the moves that were accepted.
    """
    np.random.seed(random_seed)  # noqa: NPY002
    size, number = counts.size, target.size
    gap = target - functions @ counts.astype(np.float64)
    fresh = np.empty(number)
    longest = math.log(max(counts.sum() / 4.0, 2.0))
    moves, accepted = tune + kept.shape[0] * thin, 0
    for move in range(moves):
        v = np.random.randint(size)  # noqa: NPY002
        w = np.random.randint(size)  # noqa: NPY002
        if np.random.random() < 0.5:  # noqa: NPY002
            w = (v + 1) % size
        # Sizes of all orders of magnitude, drawn in the same way in both directions.
        s = int(math.exp(longest * np.random.random()))  # noqa: NPY002
        if np.random.random() < 0.5:  # noqa: NPY002
            v, w = w, v
        if v != w and s <= counts[v]:
            a, b = weights[which[v]], weights[which[w]]
            change = a[counts[v] - s] - a[counts[v]] + b[counts[w] + s] - b[counts[w]]
            for j in range(number):
                fresh[j] = gap[j] + s * (functions[j, v] - functions[j, w])
                if laplace:
                    change += (abs(gap[j]) - abs(fresh[j])) / scale
                else:
                    change += 0.5 * (gap[j] ** 2 - fresh[j] ** 2) / scale**2
            if math.log(np.random.random()) < change:  # noqa: NPY002
                counts[v] -= s
                counts[w] += s
                gap[:] = fresh
                accepted += 1
        if move % 100_000 == 0:  # rounding errors must not add up
            gap[:] = target - functions @ counts.astype(np.float64)
        if move >= tune and (move - tune) % thin == thin - 1:
            kept[(move - tune) // thin] = counts
    return accepted / moves
