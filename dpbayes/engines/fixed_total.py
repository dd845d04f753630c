"""Counts of a table whose total is public, given the weights of the mixture: no tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbayes.engines.scale_cells import MixtureCells
from dpbayes.engines.tables import Forest, Tables
from dpbayes.errors import ImpossibleReleaseError
from dpbayes.kernels import fixed_total as kernel
from dpbayes.kernels.mixture import mixture_masses

__all__ = ["FixedTotal", "Tied"]

#: Tables tried for a draw before it is given up; a few dozen are needed.
_ATTEMPTS = 2_000_000
#: One in so many cells takes a share of the rest; entries drawn at a time.
_PER_LAST, _BATCH = 128, 1 << 20
#: Entries of a table of the components' masses that is kept.
_ENTRIES = 1 << 22


@dataclass(frozen=True)
class Tied:
    """Posterior tables of cells under one set of weights, tilted to the total.

    Parameters
    ----------
    values : ndarray
        Tables of all cells, normalised.
    start, stop : ndarray of int
        Part of `values` that each cell uses.
    means : ndarray
        Expected counts under the tilt.
    log_mass : float
        Log of the probability of the total under the tilt.
    log_evidence : float
        Log of the probability of what was released and of the total, up to a constant that
        does not depend on the weights; -inf where they are impossible.
    """

    values: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    means: np.ndarray
    log_mass: float
    log_evidence: float


class FixedTotal:
    """Counts that sum to a public total.

    Parameters
    ----------
    cells : MixtureCells
        Cells, tilted such that their expected sum is near the total.
    means, shape : ndarray, float
        Means and shape of the components.
    total : int
        Public total.
    """

    def __init__(self, cells: MixtureCells, means: np.ndarray, shape: float, total: int) -> None:
        self._cells, self._means, self._shape, self._total = cells, means, shape, total
        self._windows, self._ends, self._places = _merged(cells.first, np.diff(cells.offsets))
        self._components = None
        if self._ends[-1] * (means.size + 1) <= _ENTRIES:
            self._components = np.empty((means.size + 1, self._ends[-1]))
            for weights, row in zip(np.eye(means.size + 1), self._components, strict=True):
                mixture_masses(self._windows, self._ends, weights, means, shape, row)
        inside = np.ones(cells.tables.size, dtype=bool)
        inside[cells.offsets[:-1]] = inside[cells.offsets[1:] - 1] = False
        self._holes = bool(np.any(inside & (cells.tables == 0.0)))

    def weigh(self, weights: np.ndarray) -> Tied:
        """Tables and evidence under weights of the spike and the components."""
        c = self._cells
        mass = np.empty(self._ends[-1])
        if self._components is not None:
            np.dot(weights, self._components, out=mass)
        else:
            mixture_masses(self._windows, self._ends, weights, self._means, self._shape, mass)
        size = c.first.size
        values, log_norm = np.empty(c.tables.size), np.empty(size)
        start, stop = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        means, cumulants, moments = np.empty(size), np.empty(7), np.empty(2)
        n = float(self._total)
        kernel.weigh(
            c.tables, c.offsets, c.first, mass, self._places, values, start, stop, log_norm,
            moments,
        )  # fmt: skip
        shift = -np.inf
        if np.all(np.isfinite(log_norm)):
            shift = kernel.tilt_to(
                values, c.offsets, c.first, start, stop, n, moments, means, cumulants
            )
        if shift == -np.inf:
            return Tied(values, start, stop, means, -np.inf, -np.inf)
        at_total = kernel.log_mass_at(
            values, c.offsets, c.first, start, stop, means, cumulants, n, self._holes
        )
        evidence = float(log_norm.sum()) + shift + at_total
        return Tied(values, start, stop, means, at_total, evidence)

    def draw(self, tied: Tied, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw tables of counts that sum to the total.

        Parameters
        ----------
        tied : Tied
            Tables under the weights.
        draws : int
            Number of independent draws.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of int, shape (draws, cells)
        """
        c, size = self._cells, self._cells.first.size
        cumulative, peaks = np.empty(tied.values.size), np.empty(size)
        kernel.accumulate(tied.values, tied.start, tied.stop, cumulative, peaks)
        # The flattest laws are likeliest to have room for the rest.
        order = np.argsort(peaks, kind="stable")
        few = max(size // _PER_LAST, 1)
        last, others = np.sort(order[:few]), np.sort(order[few:])
        forest = Forest(self._laws(tied, last), np.array([few]))
        top = forest.top
        # One in so many tables has the total, and the largest entry of `top` is 1.
        chance = np.exp(tied.log_mass) * top.values.sum()
        out, made, tried = np.empty((draws, size), dtype=np.int64), 0, 0
        while made < draws:
            if tried > _ATTEMPTS * draws:
                raise ImpossibleReleaseError(
                    f"no table of counts that sums to the public total {self._total} was found: "
                    "check total and the mechanism"
                )
            batch = int(np.clip(1.2 * (draws - made) / chance + 8.0, 8, _BATCH // size + 8))
            counts = np.empty((others.size, batch), dtype=np.int64)
            rest = np.full(batch, self._total, dtype=np.int64)
            kernel.draw_alone(
                rng, others, cumulative, c.offsets, c.first, tied.start, tied.stop, counts, rest
            )  # fmt: skip
            at = rest - top.first[0]
            inside = (at >= 0) & (at < top.values.size)
            mass = np.where(inside, top.values[np.where(inside, at, 0)], 0.0)
            good = np.flatnonzero(rng.random(batch) < mass)[: draws - made]
            if good.size:
                rows = slice(made, made + good.size)
                out[rows, others] = counts[:, good].T
                out[rows, last] = forest.split(rest[None, good], rng).T
            made, tried = made + good.size, tried + batch
        return out

    def _laws(self, tied: Tied, cells: np.ndarray) -> Tables:
        """Tables of some cells as laws of sums."""
        parts = [tied.values[tied.start[j] : tied.stop[j]] for j in cells]
        first = (self._cells.first + tied.start - self._cells.offsets[:-1])[cells]
        means, peaks = tied.means[cells], np.array([part.max() for part in parts])
        variances = [
            part @ (start + np.arange(part.size) - mean) ** 2
            for part, start, mean in zip(parts, first, means, strict=True)
        ]
        offsets = np.concatenate([[0], np.cumsum([part.size for part in parts])])
        scaled = np.concatenate(parts) / np.repeat(peaks, np.diff(offsets))
        return Tables(
            first, np.log(peaks), np.zeros(cells.size), scaled, offsets, means,
            np.array(variances),
        )  # fmt: skip


def _merged(first: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Union of windows of counts, as disjoint windows.

    Returns
    -------
    start, offsets : ndarray of int
        First count of each disjoint window; where each starts when they are put one after the
        other, and the end of the last.
    places : ndarray of int
        Where each of the given windows starts then.
    """
    order = np.argsort(first, kind="stable")
    reach = np.maximum.accumulate((first + sizes)[order])
    new = np.concatenate([[True], first[order][1:] > reach[:-1]])
    start = first[order][new]
    stop = reach[np.concatenate([new[1:], [True]])]
    offsets = np.concatenate([[0], np.cumsum(stop - start)])
    owner = np.empty(first.size, dtype=np.int64)
    owner[order] = np.cumsum(new) - 1
    return start, offsets, offsets[owner] + first - start[owner]
