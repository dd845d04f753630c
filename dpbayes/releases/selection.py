"""One outcome chosen by the exponential mechanism, and losses that it may have used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from dpbayes.errors import ReleaseError
from dpbayes.mechanism import Mechanism
from dpbayes.noise import NoNoise
from dpbayes.releases.base import check_attrs, check_total, digest
from dpbayes.releases.cells import CellTable, check_number, labelled_cells

__all__ = ["QuantileLoss", "SelectionRelease", "WinnerLoss"]


@dataclass(frozen=True)
class WinnerLoss:
    """Loss of naming cell z as the most frequent one: how many records lie elsewhere.

    ξ(x, z) = n - N_z. Its sensitivity is 1 when one record is replaced.
    """

    def __call__(self, counts: np.ndarray) -> np.ndarray:
        """Losses of all cells, on the last axis."""
        return counts.sum(axis=-1, keepdims=True) - counts


@dataclass(frozen=True)
class QuantileLoss:
    """Loss of naming the upper end of cell z as the q-quantile: records on the wrong side.

    ξ(x, z) = |N_1 + ... + N_z - q n|. Its sensitivity is 1 when one record is replaced.

    Parameters
    ----------
    q : float
        Level in (0, 1).
    """

    q: float

    def __post_init__(self) -> None:
        if not 0 < self.q < 1:
            raise ReleaseError(f"q must be between 0 and 1, got {self.q}")

    def __call__(self, counts: np.ndarray) -> np.ndarray:
        """Losses of all cells, on the last axis."""
        below = np.cumsum(counts, axis=-1)
        return np.abs(below - self.q * below[..., -1:])


@dataclass(frozen=True, eq=False)
class SelectionRelease(CellTable):
    r"""One outcome z, chosen with probability ∝ exp(-α ξ(x, z) / (2Δ)).

    Parameters
    ----------
    value : object
        Chosen outcome.
    outcomes : sequence
        All possible outcomes.
    loss : callable
        ``loss(counts)`` takes true counts with cells on the last axis and returns the losses
        ξ with outcomes on the last axis, such as `WinnerLoss()` or `QuantileLoss(0.5)`.
    alpha : float
        Privacy loss α.
    sensitivity : float
        Δ, the largest change of the loss of any outcome between neighbours.
    total : int
        Public number of records n.
    cells : int or sequence, optional
        Number or labels of the cells of the true table; by default one per outcome.
    edges : array_like, optional
        Numeric edges of the cells.
    attrs : mapping, optional
        Facts for reports: title, unit, source, neighbours, epsilon, sensitivity.

    Raises
    ------
    ReleaseError
        If the value is no outcome, or losses are not finite or of the wrong number.

    References
    ----------
    McSherry & Talwar (2007), Mechanism design via differential privacy, definition 2;
    Wasserman & Zhou (2010), Theorem 2.5.
    """

    value: Any
    _: KW_ONLY
    outcomes: Sequence[Any]
    loss: Callable[[np.ndarray], np.ndarray]
    alpha: float
    sensitivity: float
    total: int
    cells: Any = None
    edges: Any = None
    attrs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        outcomes = list(self.outcomes)
        if self.value not in outcomes:
            raise ReleaseError(f"value must be one of the outcomes, got {self.value!r}")
        if not callable(self.loss):
            raise ReleaseError(f"loss must be a function of the counts, got {self.loss!r}")
        total = check_total(self.total)
        if not total:
            raise ReleaseError(f"total must be the public number of records, got {self.total!r}")
        size, coords = _cells(self.cells, self.edges, outcomes)
        table, edges = labelled_cells(np.full(size, np.nan), self.edges, coords)
        settle = {
            "outcomes": tuple(outcomes),
            "alpha": check_number("alpha", self.alpha, 0.0, np.inf),
            "sensitivity": check_number("sensitivity", self.sensitivity, 0.0, np.inf),
            "total": total, "cells": table, "edges": edges, "attrs": check_attrs(self.attrs),
        }  # fmt: skip
        for name, value in settle.items():
            object.__setattr__(self, name, value)
        even = np.full(size, total // size)
        even[0] += total - even.sum()
        self.losses(even[None])  # refuse losses of the wrong shape now

    @property
    def values(self) -> xr.DataArray:  # type: ignore[override]
        """One entry per cell of the true table; nothing is published about any of them."""
        return self.cells

    @property
    def mechanism(self) -> Mechanism:
        """No noise is added to counts: the randomness is in the choice."""
        return Mechanism(NoNoise())

    @property
    def chosen(self) -> int:
        """Index of the chosen outcome."""
        return self.outcomes.index(self.value)

    def losses(self, counts: np.ndarray) -> np.ndarray:
        """Losses of all outcomes for tables of counts (cells on the last axis)."""
        found = np.asarray(self.loss(np.asarray(counts)), dtype=float)
        if found.shape != (*np.shape(counts)[:-1], len(self.outcomes)):
            raise ReleaseError(
                f"loss must return {len(self.outcomes)} losses per table, got shape {found.shape} "
                f"for tables of shape {np.shape(counts)}"
            )
        if not np.all(np.isfinite(found)):
            raise ReleaseError("loss must be finite, got NaN or infinite losses")
        return found

    def log_probabilities(self, counts: np.ndarray) -> np.ndarray:
        """Log probability of each outcome for tables of counts (cells on the last axis)."""
        logits = -self.losses(counts) * (self.alpha / (2.0 * self.sensitivity))
        return logits - special.logsumexp(logits, axis=-1, keepdims=True)

    def naive_counts(self) -> np.ndarray:
        """Nothing can be read off for any cell."""
        return np.full(self.size, np.nan)

    def digest(self) -> int:
        """Whole number that depends on all of the release."""
        name = getattr(self.loss, "__qualname__", repr(self.loss))
        units = self.losses(self.total * np.eye(self.size, dtype=int)).tolist()
        facts = (self.chosen, name, units, self.alpha, self.sensitivity, self.total)
        return digest("selection", np.empty(0), self.mechanism, *facts, *self.cell_facts())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SelectionRelease):
            return NotImplemented
        mine, theirs = (
            (r.value, r.outcomes, r.loss, r.alpha, r.sensitivity, r.total, r.attrs)
            for r in (self, other)
        )
        return mine == theirs and self.cell_facts() == other.cell_facts()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"<SelectionRelease ({self.value!r} of {len(self.outcomes)} outcomes, "
            f"{self.total} records in {self.size} cells), alpha {self.alpha:g}>"
        )


def _cells(cells: Any, edges: Any, outcomes: list[Any]) -> tuple[int, dict[str, Any] | None]:
    """Return the number of cells of the true table and their labels."""
    if edges is not None:
        return len(np.asarray(edges)) - 1, None
    if isinstance(cells, int) and not isinstance(cells, bool):
        return cells, None
    return (len(outcomes), {"outcome": outcomes}) if cells is None else (
        len(cells), {"cell": list(cells)}
    )  # fmt: skip
