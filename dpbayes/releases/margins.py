"""Totals over groups of cells that were released with noise of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dpbayes.errors import ReleaseError, nearest_name
from dpbayes.mechanism import Mechanism, as_mechanism
from dpbayes.releases.labelling import number_array
from dpbayes.releases.observations import Observations, fit_parameters, observe

__all__ = ["Margin", "build_margin", "codes", "group_sums", "is_nested", "partition"]


@dataclass(frozen=True, eq=False)
class Margin:
    """Noisy totals of groups of cells.

    Parameters
    ----------
    by : tuple of str
        Dims or grouping coordinates that are kept; empty for the grand total.
    values : DataArray
        Released totals, one per group; NaN where suppressed.
    mechanism : Mechanism
        How the totals were published.
    groups : ndarray of int
        Group of each cell of the flattened table.
    published : ndarray of bool
        Whether anything was said about each group (a suppressed total says it is small).
    """

    by: tuple[str, ...]
    values: xr.DataArray
    mechanism: Mechanism
    groups: np.ndarray
    published: np.ndarray

    @property
    def name(self) -> str:
        """Name of the margin, as it appears in messages and variables."""
        return " by ".join(["total", ", ".join(self.by)]) if self.by else "grand total"

    @property
    def size(self) -> int:
        """Number of groups."""
        return self.values.size

    def label(self, index: int) -> str:
        """Name of a group at a flat index, for messages."""
        if not self.by:
            return "grand total"
        where = np.unravel_index(index, self.values.shape)
        parts = [
            f"{dim}={self.values[dim].values[i]}" for dim, i in zip(self.by, where, strict=True)
        ]
        return f"total of {', '.join(parts)}"

    def observations(self) -> Observations:
        """Return the groups as bounds of total + noise, flattened in C order."""
        return observe(self.values.values, self.mechanism, self.label, self.published)

    def sums(self, counts: np.ndarray) -> np.ndarray:
        """Totals of counts whose last axis runs over the flattened cells."""
        return group_sums(self.groups, self.size, counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Margin):
            return NotImplemented
        return (
            self.by == other.by
            and self.values.identical(other.values)
            and self.mechanism == other.mechanism
            and np.array_equal(self.published, other.published)
        )

    __hash__ = None  # type: ignore[assignment]


def build_margin(table: xr.DataArray, values: Any, by: Any, mechanism: Any) -> Margin:
    """Match released totals with the cells of a table.

    Raises
    ------
    ReleaseError
        If `by` names nothing in the table, does not partition its cells, or the totals have
        another shape than the groups.
    """
    names = (by,) if isinstance(by, str) else tuple(by)
    groups, labels = partition(table, names)
    array, published = _values(values, names, labels)
    template = xr.DataArray(
        array, dims=names, coords=dict(zip(names, labels, strict=True)), name="released"
    )
    law = as_mechanism(mechanism)
    law = Mechanism(fit_parameters(law.noise, template), law.steps)
    margin = Margin(names, template, law, groups, published)
    margin.observations()
    return margin


def partition(table: xr.DataArray, names: tuple[str, ...]) -> tuple[np.ndarray, list[list[Any]]]:
    """Group of each flattened cell under dims or grouping coordinates, and their labels.

    Raises
    ------
    ReleaseError
        If a name is unknown, or a combination of labels has no cell.
    """
    groups = np.zeros(table.size, dtype=np.int64)
    labels = []
    for name in names:
        code, label = codes(table, name)
        groups = groups * len(label) + code
        labels.append(label)
    sizes = [len(label) for label in labels]
    present = np.bincount(groups, minlength=int(np.prod(sizes)))
    if np.any(present == 0):
        empty = np.unravel_index(int(np.flatnonzero(present == 0)[0]), sizes)
        where = ", ".join(f"{n}={lab[i]}" for n, lab, i in zip(names, labels, empty, strict=True))
        raise ReleaseError(f"by={names}: no cell belongs to the group {where}")
    return groups, labels


def group_sums(groups: np.ndarray, size: int, counts: np.ndarray) -> np.ndarray:
    """Sum counts over groups of cells; the last axis runs over the flattened cells."""
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(size))
    return np.add.reduceat(counts[..., order], starts, axis=-1)


def codes(table: xr.DataArray, name: str) -> tuple[np.ndarray, list[Any]]:
    """Group of each flattened cell under one dim or grouping coordinate, and the labels."""
    if name in table.dims:
        index = table.get_axis_num(name)
        labels = list(table[name].values)
        per_label = np.arange(len(labels))
    elif name in table.coords and table[name].ndim == 1:
        column = table[name]
        index = table.get_axis_num(column.dims[0])
        entries = column.values.tolist()
        for position, entry in enumerate(entries):
            if entry is None or entry != entry:
                raise ReleaseError(
                    f"by={name!r} must put every cell into one group, but "
                    f"{column.dims[0]}={table[column.dims[0]].values[position]} has none"
                )
        labels = list(dict.fromkeys(entries))
        where = {label: i for i, label in enumerate(labels)}
        per_label = np.array([where[entry] for entry in entries])
    else:
        known = [*map(str, table.dims), *map(str, table.coords)]
        raise ReleaseError(
            f"by={name!r} is neither a dim nor a grouping coordinate of the release"
            f"{nearest_name(name, known)}; it has {', '.join(dict.fromkeys(known))}"
        )
    shape = [1] * table.ndim
    shape[index] = -1
    spread = np.broadcast_to(per_label.reshape(shape), table.shape)
    return spread.reshape(-1).astype(np.int64), labels


def _values(
    values: Any, names: tuple[str, ...], labels: list[list[Any]]
) -> tuple[np.ndarray, np.ndarray]:
    """Released totals in the order of the groups, and which groups were published at all."""
    published = np.ones((), dtype=bool)
    sizes = tuple(len(label) for label in labels)
    if isinstance(values, dict):
        if len(names) != 1:
            raise ReleaseError("a mapping of totals needs by= one name")
        extra = [label for label in values if label not in labels[0]]
        if extra:
            raise ReleaseError(
                f"totals by {names[0]!r}: {extra[0]!r} is no group of the release"
                f"{nearest_name(extra[0], labels[0])}"
            )
        published = np.array([label in values for label in labels[0]])
        values = [values.get(label) for label in labels[0]]
    elif isinstance(values, xr.DataArray):
        if set(values.dims) != set(names):
            raise ReleaseError(f"totals have dims {values.dims}, by= names {names}")
        try:
            indexers = {n: lab for n, lab in zip(names, labels, strict=True) if n in values.coords}
            values = values.transpose(*names).sel(indexers).values
        except KeyError as error:
            raise ReleaseError(f"totals lack a group of the release: {error}") from None
    array = number_array(values, "totals")
    if array.shape != sizes:
        shape = ", ".join(f"{n}: {s}" for n, s in zip(names, sizes, strict=True))
        raise ReleaseError(
            f"totals must have one entry per group ({shape}), got shape {array.shape}"
        )
    return array, np.broadcast_to(published, array.shape).reshape(-1)


def is_nested(fine: np.ndarray, coarse: np.ndarray) -> bool:
    """Whether every group of the fine partition lies within one group of the coarse one."""
    pairs = np.unique(np.stack([fine, coarse], axis=1), axis=0)
    return bool(np.unique(pairs[:, 0]).size == pairs.shape[0])
