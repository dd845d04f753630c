"""Cells of a true table about which something other than noisy counts was published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from dpbayes.errors import ReleaseError, UnsupportedError
from dpbayes.releases.labelling import check_edges, check_names, count_array, label_table

__all__ = ["CellTable", "check_number", "labelled_cells", "whole_counts"]


class CellTable:
    """What releases of this kind share with a histogram: named cells, maybe with edges.

    A subclass has `values` (a labelled array with one entry per cell) and `edges`.
    """

    values: xr.DataArray
    edges: np.ndarray | None
    attrs: Mapping[str, Any] | None

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(str(d) for d in self.values.dims)

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(self.values.size)

    def label(self, index: int) -> str:
        """Name of the cell at a flat index, for messages and tables."""
        return f"cell {self.short_label(index)}"

    def short_label(self, index: int) -> str:
        """Labels of the cell at a flat index, joined."""
        where = np.unravel_index(index, self.values.shape)
        parts = [
            str(self.values[dim].values[i]) if dim in self.values.coords else str(i)
            for dim, i in zip(self.values.dims, where, strict=True)
        ]
        return ", ".join(parts)

    def naive_counts(self) -> np.ndarray:
        """Return the true counts as a naive reader of the release would take them, by cell."""
        raise NotImplementedError

    def replicate(self, probability: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw fresh records from P, and from them what would be published, by cell."""
        raise UnsupportedError(f"{type(self).__name__} publishes no value by cell to compare with")

    def cell_facts(self) -> tuple[Any, ...]:
        """Names of the cells, for digests."""
        named = [
            (str(name), coord.dims, coord.values.tolist())
            for name, coord in sorted(self.values.coords.items(), key=lambda item: str(item[0]))
        ]
        edges = None if self.edges is None else self.edges.tolist()
        return dict(self.values.sizes), named, edges


def labelled_cells(
    values: Any, edges: Any, coords: Mapping[str, Any] | None
) -> tuple[xr.DataArray, np.ndarray | None]:
    """Label an array with one entry per cell, as `HistogramRelease` does."""
    array = count_array(values)
    bins = None if edges is None else check_edges(edges, array.shape)
    if bins is not None and coords is not None:
        raise ReleaseError("give edges (a numeric axis) or coords (labels), not both")
    labelled = label_table(values, array, bins, coords)
    check_names(labelled)
    return labelled, bins


def whole_counts(values: xr.DataArray) -> None:
    """Refuse counts that are not whole numbers of at least 0."""
    array = values.values
    bad = ~np.isfinite(array) | (array < 0) | (array != np.floor(array))
    if bad.any():
        first = array[bad].flat[0]
        raise ReleaseError(f"values must be whole counts of rows, 0 or more, got {first:g}")


def check_number(name: str, value: Any, low: float, high: float, *, open_low: bool = True) -> float:
    """Check one finite number in (low, high], or in [low, high]."""
    wrong = isinstance(value, bool) or not isinstance(value, int | float | np.number)
    below = not wrong and (value <= low if open_low else value < low)
    if wrong or below or not np.isfinite(value) or value > high:
        left = "(" if open_low else "["
        limits = f"{left}{low:g}, {high:g}]" if np.isfinite(high) else f"above {low:g}"
        raise ReleaseError(
            f"{name} must be a number in {limits}, got {value!r}".replace("in above", "above")
        )
    return float(value)
