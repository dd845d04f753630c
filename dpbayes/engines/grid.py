"""Integrals over a few hyperparameters by a grid that adapts to where the evidence is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

__all__ = ["Grid", "adaptive_grid"]

#: Points whose log evidence is this far below the largest do not matter.
_NO_EVIDENCE = 25.0
#: Largest accepted change of the log integral when every second point is left out, and the
#: finest grid, by the number of hyperparameters.
_TOLERANCE = {1: 1e-4, 2: 2e-3}
_START, _FINEST = 17, {1: 257, 2: 65}


@dataclass(frozen=True)
class Grid:
    """A discrete posterior of hyperparameters.

    Parameters
    ----------
    points : ndarray, shape (points, dimensions)
        Hyperparameters.
    weights : ndarray
        Posterior probability of each point.
    log_integral : float
        Log of the average of exp(log evidence) over the box.
    error : float
        Change of `log_integral` when every second point is left out: a bound on the error
        of the resolution, which falls much faster than that for a smooth evidence.
    """

    points: np.ndarray
    weights: np.ndarray
    log_integral: float
    error: float


def adaptive_grid(
    log_evidence: Callable[[np.ndarray], float], box: Sequence[tuple[float, float]]
) -> Grid:
    """Integrate an evidence over a box by the trapezoidal rule.

    The grid first shrinks to the part of the box where the evidence is, then is refined
    until leaving out every second point no longer changes the integral.

    Parameters
    ----------
    log_evidence : callable
        Log evidence at a point; -inf where the release is impossible.
    box : sequence of pairs
        Range of each hyperparameter, under a uniform law.
    """
    known: dict[tuple[float, ...], float] = {}

    def value(point: tuple[float, ...]) -> float:
        key = tuple(np.round(point, 12))
        if key not in known:
            known[key] = log_evidence(np.array(point))
        return known[key]

    sides = np.array(box, dtype=float)
    size = _START
    while True:
        axes = [np.linspace(low, high, size) for low, high in sides]
        points = np.array(list(itertools.product(*axes)))
        values = np.array([value(tuple(p)) for p in points]).reshape([size] * len(axes))
        if not np.isfinite(values.max()):
            return Grid(points, np.full(len(points), np.nan), -np.inf, 0.0)
        smaller = _where_it_matters(values, axes)
        if np.any(np.diff(smaller, axis=1) < 0.6 * np.diff(sides, axis=1)):
            sides = smaller
            continue
        full = _log_trapezoid(values, axes)
        error = abs(full - _log_trapezoid(*_every_second(values, axes)))
        if error <= _TOLERANCE[len(axes)] or 2 * size - 1 > _FINEST[len(axes)]:
            break
        size = 2 * size - 1
    log_volume = float(np.sum(np.log(np.diff(np.array(box, dtype=float), axis=1))))
    logs = (values + _log_cells(axes)).reshape(-1)
    weights = np.exp(logs - special.logsumexp(logs))
    return Grid(points, weights / weights.sum(), full - log_volume, error)


def _where_it_matters(values: np.ndarray, axes: list[np.ndarray]) -> np.ndarray:
    """Smallest box of grid points, one further on each side, that holds the evidence."""
    keep = values > values.max() - _NO_EVIDENCE
    sides = []
    for dim, axis in enumerate(axes):
        others = tuple(d for d in range(values.ndim) if d != dim)
        seen = np.flatnonzero(keep.any(axis=others))
        sides.append((axis[max(seen[0] - 1, 0)], axis[min(seen[-1] + 1, axis.size - 1)]))
    return np.array(sides)


def _log_cells(axes: list[np.ndarray]) -> np.ndarray:
    """Log of the trapezoidal weight of every grid point."""
    total = np.zeros([axis.size for axis in axes])
    for dim, axis in enumerate(axes):
        cell = np.full(axis.size, axis[1] - axis[0])
        cell[[0, -1]] *= 0.5
        shape = [1] * len(axes)
        shape[dim] = -1
        total = total + np.log(cell).reshape(shape)
    return total


def _log_trapezoid(values: np.ndarray, axes: list[np.ndarray]) -> float:
    return float(special.logsumexp(values + _log_cells(axes)))


def _every_second(
    values: np.ndarray, axes: list[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray]]:
    every = tuple(slice(None, None, 2) for _ in axes)
    return values[every], [axis[::2] for axis in axes]
