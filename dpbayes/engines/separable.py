r"""Exact draws of counts whose posterior is a product over cells but for their total.

f(N) = Π_j w_j(N_j) · r(Σ N_j): the tables w_j are merged in pairs by convolution, and totals
are drawn at the root and split on the way down (see `dpbayes.engines.tree`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpbayes.engines.tables import Forest, Table, Tables
from dpbayes.errors import ImpossibleReleaseError, UnsupportedError

__all__ = ["SeparableCounts", "check_size"]

#: Entries of all tables together, about a gigabyte with what is made of them.
_MOST_ENTRIES = 30_000_000
_STEPS = 200


def check_size(cells: int, longest: int) -> None:
    """Refuse tables that would not fit into memory."""
    if cells * (longest + 1) > _MOST_ENTRIES:
        raise UnsupportedError(
            f"{cells} cells of up to {longest} records take tables of {cells * (longest + 1):,} "
            f"entries, more than {_MOST_ENTRIES:,}: merge cells"
        )


@dataclass(frozen=True)
class _Root:
    totals: np.ndarray
    probabilities: np.ndarray
    log_mass: float


class SeparableCounts:
    """Joint law of counts with weights by cell and a weight of their total.

    Parameters
    ----------
    log_weights : sequence of ndarray
        Log w_j(m) for m = 0, 1, ... of each cell; -inf where a count is impossible.
    total : int, optional
        Fixed total; then `root` does not matter.
    root : callable, optional
        Log r(s) of an array of totals.
    centre : float, optional
        Total near which the mass lies, where it is not fixed: FFT is accurate only relative
        to the largest entry.
    """

    def __init__(
        self,
        log_weights: Sequence[np.ndarray],
        *,
        total: int | None = None,
        root: Callable[[np.ndarray], np.ndarray] | None = None,
        centre: float | None = None,
    ) -> None:
        target = float(total) if total is not None else centre
        tilt = 0.0 if target is None else _tilt(log_weights, target)
        # Tilted before anything is left out as negligible.
        tables = Tables.of([_table(w, tilt) for w in log_weights])
        self._forest = Forest(tables, np.array([tables.first.size]))
        self._root = self._at_root(total, root)

    def _at_root(self, total: int | None, root: Callable[[np.ndarray], np.ndarray] | None) -> _Root:
        top = self._forest.top.one(0)
        if total is not None:
            return _Root(np.array([total]), np.ones(1), top.log_at(total))
        with np.errstate(divide="ignore"):
            logs = top.log_scale - top.tilt * top.sums + np.log(top.values)
        if root is not None:
            logs = logs + root(top.sums.astype(float))
        mass = float(special.logsumexp(logs))
        return _Root(top.sums, np.exp(logs - mass), mass)

    @property
    def log_mass(self) -> float:
        """Log of the sum of f over all counts."""
        return self._root.log_mass

    @property
    def mean_total(self) -> float:
        """Mean of the total."""
        return float(self._root.totals @ self._root.probabilities)

    def draw(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw counts, one row per draw.

        Parameters
        ----------
        draws : int
            Number of independent draws.
        rng : Generator
            Source of randomness.
        """
        if not np.isfinite(self.log_mass):
            raise ImpossibleReleaseError("no counts agree with what was released")
        p = self._root.probabilities
        totals = self._root.totals[rng.choice(p.size, size=draws, p=p / p.sum())]
        counts = self._forest.split(totals[None], rng)
        if np.any(counts < 0):
            raise ImpossibleReleaseError("no counts agree with what was released")
        return np.ascontiguousarray(counts.T)


def _table(log_weights: np.ndarray, tilt: float) -> Table:
    tilted = log_weights + tilt * np.arange(log_weights.size)
    top = float(np.max(tilted))
    if not np.isfinite(top):
        raise ImpossibleReleaseError("no count of some cell agrees with what was released")
    return Table(0, np.exp(tilted - top), top, tilt)


def _tilt(log_weights: Sequence[np.ndarray], target: float) -> float:
    """Tilt under which the expected total is near the target, by safeguarded Newton steps."""
    sizes = np.array([w.size for w in log_weights])
    starts = np.cumsum(sizes) - sizes
    logs = np.concatenate(log_weights)
    counts = np.arange(logs.size) - np.repeat(starts, sizes)
    tilt, low, high = 0.0, -np.inf, np.inf
    for _ in range(_STEPS):
        tilted = logs + tilt * counts
        mass = np.exp(tilted - np.repeat(np.maximum.reduceat(tilted, starts), sizes))
        whole = np.add.reduceat(mass, starts)
        mean = np.add.reduceat(mass * counts, starts) / whole
        variance = np.add.reduceat(mass * counts**2.0, starts) / whole - mean**2
        gap, spread = float(mean.sum()) - target, float(np.sum(np.maximum(variance, 0.0)))
        if abs(gap) <= 0.5 * np.sqrt(spread) + 0.25:
            break
        low, high = (tilt, high) if gap < 0 else (low, tilt)
        step = tilt + float(np.clip(-gap / max(spread, 1e-300), -3.0, 3.0))
        if not low < step < high:
            step = 0.5 * (low + high)
        if step == tilt or not np.isfinite(step):
            break
        tilt = step
    return tilt
