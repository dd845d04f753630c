"""Metropolis chain over samples weighed by their KS distance to given records."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["ks_chain", "ks_distance"]


@njit(cache=True, nogil=True)
def ks_distance(x, z):
    """Largest distance of the empirical distribution functions of two sorted samples."""
    i, j, worst = 0, 0, 0.0
    while i < x.size or j < z.size:
        at = x[i] if j >= z.size or (i < x.size and x[i] <= z[j]) else z[j]
        while i < x.size and x[i] <= at:
            i += 1
        while j < z.size and z[j] <= at:
            j += 1
        worst = max(worst, abs(i / x.size - j / z.size))
    return worst


@njit(cache=True, nogil=True)
def ks_chain(x, z, rate, sweeps, random_seed):
    """Run sweeps of single-site moves on exp(-rate · KS(x, z)); z is sorted and changed.

    Half of the proposals are uniform on [0, 1], half uniform near the old value (reflected).
    """
    np.random.seed(random_seed)  # noqa: NPY002
    k, accepted = z.size, 0
    distance = ks_distance(x, z)
    fresh, width = np.empty(k), min(1.0, 4.0 / k)
    for _ in range(sweeps * k):
        site = np.random.randint(k)  # noqa: NPY002
        if np.random.random() < 0.5:  # noqa: NPY002
            new = np.random.random()  # noqa: NPY002
        else:
            new = z[site] + (np.random.random() - 0.5) * width  # noqa: NPY002
            new = -new if new < 0.0 else (2.0 - new if new > 1.0 else new)
        # Sorted insertion: values between the old and the new place move by one.
        fresh[:] = z
        place = site
        while place > 0 and fresh[place - 1] > new:
            fresh[place] = fresh[place - 1]
            place -= 1
        while place < k - 1 and fresh[place + 1] < new:
            fresh[place] = fresh[place + 1]
            place += 1
        fresh[place] = new
        proposed = ks_distance(x, fresh)
        if np.log(np.random.random()) < rate * (distance - proposed):  # noqa: NPY002
            z[:] = fresh
            distance = proposed
            accepted += 1
    return accepted / (sweeps * k)
