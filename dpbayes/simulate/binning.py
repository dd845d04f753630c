"""From records in a box to counts by cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes.errors import ParameterError

__all__ = ["Binned", "bin_records", "check_records"]


@dataclass(frozen=True)
class Binned:
    """Counts by cell and what names the cells.

    Parameters
    ----------
    counts : ndarray
        Counts, one axis per coordinate.
    edges : ndarray or None
        Edges in one dimension.
    coords : dict or None
        Labels of the axes in several.
    """

    counts: np.ndarray
    edges: np.ndarray | None
    coords: dict[str, Any] | None

    @property
    def total(self) -> int:
        """Number of records."""
        return int(self.counts.sum())

    def named(self) -> dict[str, Any]:
        """Arguments of release classes."""
        return {"edges": self.edges, "coords": self.coords}


def check_records(records: Any, bounds: Any) -> tuple[np.ndarray, tuple[tuple[float, float], ...]]:
    """Return records as rows, and one pair of bounds per column; records outside are an error."""
    x = np.asarray(records, dtype=float)
    if x.ndim not in (1, 2) or x.size == 0 or not np.all(np.isfinite(x)):
        raise ParameterError("records must be finite numbers, one row per person, and not empty")
    x = x[:, None] if x.ndim == 1 else x
    given = np.asarray(bounds, dtype=float)
    pairs = np.broadcast_to(given, (x.shape[1], 2)) if given.ndim == 1 else given
    if pairs.shape != (x.shape[1], 2) or not np.all(pairs[:, 0] < pairs[:, 1]):
        raise ParameterError(
            f"bounds must be one pair (lo, hi), or one per column of records, got {bounds!r}"
        )
    outside = (x < pairs[:, 0]) | (x > pairs[:, 1])
    if outside.any():
        raise ParameterError(
            f"records must lie within bounds, got {x[outside][0]:g}: clip them first, knowingly"
        )
    return x, tuple((float(low), float(high)) for low, high in pairs)


def bin_records(records: Any, bins: Any, bounds: Any) -> Binned:
    """Count records by cell.

    Parameters
    ----------
    records : array_like
        One number or one row per person.
    bins : int or array_like
        Number of equal cells along each axis, or the edges (one dimension).
    bounds : pair or pairs
        Bounds of the records; not needed with edges.
    """
    if np.ndim(bins):
        edges = np.asarray(bins, dtype=float)
        bounds = (edges[0], edges[-1])
        x, _ = check_records(records, bounds)
        if x.shape[1] != 1:
            raise ParameterError("edges need one-dimensional records: give a number of bins")
        return Binned(np.histogram(x[:, 0], edges)[0], edges, None)
    if isinstance(bins, bool) or int(bins) != bins or bins < 2:
        raise ParameterError(f"bins must be at least 2 cells along each axis, got {bins!r}")
    x, pairs = check_records(records, bounds)
    axes = [np.linspace(low, high, int(bins) + 1) for low, high in pairs]
    counts = np.histogramdd(x, axes)[0]
    if len(axes) == 1:
        return Binned(counts, axes[0], None)
    coords = {f"x{i + 1}": 0.5 * (e[1:] + e[:-1]) for i, e in enumerate(axes)}
    return Binned(counts, None, coords)
