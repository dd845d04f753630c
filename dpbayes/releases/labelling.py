"""From released counts, edges and labels to a labelled table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from dpbayes.errors import ReleaseError
from dpbayes.releases.frames import labels
from dpbayes.schema import BIN, CELL, CHAIN, COUNT, DRAW, LOWER, PROBABILITY, RELEASED, TOTAL, UPPER

__all__ = [
    "check_edges",
    "check_names",
    "check_size",
    "count_array",
    "groupings",
    "label_table",
    "number_array",
    "pivot",
]

#: Counts are whole numbers held as floats; whole numbers beyond this are not all told apart.
LARGEST = 2.0**53
_NO_NUMBERS = (str, bytes, bool, np.bool_, complex, np.complexfloating)


def check_names(table: xr.DataArray) -> None:
    """Refuse names that a posterior's groups could not hold."""
    taken = {CHAIN, DRAW, PROBABILITY, COUNT, TOTAL, RELEASED}
    for name in map(str, (*table.dims, *table.coords)):
        if "/" in name or not name or name in taken:
            raise ReleaseError(f"a dim or coordinate cannot be called {name!r}: give another name")


def count_array(values: Any) -> np.ndarray:
    """Return released counts as floats, None as NaN."""
    array = number_array(values.values if isinstance(values, xr.DataArray) else values, "values")
    if array.ndim == 0 or array.size == 0:
        raise ReleaseError(f"values must hold at least one cell, got shape {array.shape}")
    return array


def check_size(array: np.ndarray, label: Callable[[int], str]) -> None:
    """Refuse counts beyond what floating-point numbers hold exactly."""
    flat = array.reshape(-1)
    # Infinite values are refused with the mechanism.
    beyond = np.flatnonzero(np.isfinite(flat) & (np.abs(flat) > LARGEST))
    if beyond.size:
        first = int(beyond[0])
        raise ReleaseError(
            f"{label(first)}: {flat[first]:.17g} is beyond 2**53 (about 9.0e15), the largest count "
            "that is exact in floating point: check the value and its units"
        )


def number_array(raw: Any, name: str) -> np.ndarray:
    """Return numbers as floats, None as NaN; text, booleans and complex numbers are an error."""
    numeric = isinstance(raw, np.ndarray) and raw.dtype.kind in "iuf"
    given = () if numeric else np.asarray(raw, dtype=object).ravel()
    # NumPy would read "3", True and 1+2j as numbers.
    wrong: list[Any] = [v for v in given if isinstance(v, _NO_NUMBERS)]
    if not wrong:
        try:
            return np.asarray(raw, dtype=float)
        except (TypeError, ValueError):
            wrong = [raw]
    raise ReleaseError(f"{name} must be numbers (None or NaN where suppressed), got {wrong[0]!r}")


def check_edges(edges: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Refuse edges that are not finite, increasing, and one more than there are values."""
    try:
        array = np.asarray(edges, dtype=float)
    except (TypeError, ValueError):
        raise ReleaseError(f"edges must be numbers, got {edges!r}") from None
    if len(shape) != 1:
        raise ReleaseError(
            f"edges belong to a one-dimensional histogram, values have shape {shape}"
        )
    if array.shape != (shape[0] + 1,):
        raise ReleaseError(
            f"edges must have one more entry than values ({shape[0] + 1}), got {array.size}"
        )
    bad = np.flatnonzero(~(np.diff(array) > 0))
    if not np.all(np.isfinite(array)):
        raise ReleaseError(
            f"edges must be finite, got {array[~np.isfinite(array)][0]} "
            "(close an open end at a value that no record passes)"
        )
    if bad.size:
        i = int(bad[0])
        raise ReleaseError(
            f"edges must increase, got {array[i]:g} then {array[i + 1]:g} at positions {i}, {i + 1}"
        )
    array = array.copy()
    array.flags.writeable = False
    return array


def label_table(
    values: Any, array: np.ndarray, edges: np.ndarray | None, coords: Mapping[str, Any] | None
) -> xr.DataArray:
    """Attach dims and labels to the released counts."""
    if edges is not None:
        names = [f"[{a:g}, {b:g})" for a, b in itertools.pairwise(edges)]
        names[-1] = names[-1][:-1] + "]"
        ends = {BIN: names, LOWER: (BIN, edges[:-1]), UPPER: (BIN, edges[1:])}
        return xr.DataArray(array, dims=(BIN,), coords=ends, name="released")
    if isinstance(values, xr.DataArray) and coords is None:
        return values.copy(data=array).rename("released")
    if coords is None:
        if array.ndim != 1:
            raise ReleaseError(f"values of shape {array.shape} need coords that name their axes")
        return xr.DataArray(
            array, dims=(CELL,), coords={CELL: np.arange(array.size)}, name="released"
        )
    if not isinstance(coords, Mapping):
        raise ReleaseError(f"coords must map names of dims to their labels, got {coords!r}")
    for name, entries in coords.items():
        if isinstance(entries, str | bytes) or not hasattr(entries, "__len__"):
            raise ReleaseError(f"coords[{name!r}] must be a list of labels, got {entries!r}")
    groups = {k: v for k, v in coords.items() if _is_grouping(v)}
    dims = [k for k in coords if k not in groups]
    expected = tuple(len(coords[d]) for d in dims)
    if expected != array.shape:
        shape = ", ".join(f"{d}: {n}" for d, n in zip(dims, expected, strict=True))
        raise ReleaseError(f"coords describe a table of shape ({shape}), values have {array.shape}")
    for dim in dims:
        seen = list(coords[dim])
        for label in seen:
            if label is None or label != label:
                raise ReleaseError(f"labels of {dim!r} must not be missing, got {label!r}")
        if len(set(seen)) != len(seen):
            twice = next(x for x in seen if seen.count(x) > 1)
            raise ReleaseError(f"labels of {dim!r} must be distinct, got {twice!r} twice")
    for name, (dim, groups_of) in groups.items():
        if dim not in dims or len(groups_of) != len(coords[dim]):
            raise ReleaseError(
                f"coords[{name!r}] must group the labels of one dim, got {len(groups_of)} "
                f"entries for {dim!r}"
            )
    named = {d: list(coords[d]) for d in dims} | {k: (v[0], list(v[1])) for k, v in groups.items()}
    return xr.DataArray(array, dims=dims, coords=named, name="released")


def _is_grouping(entries: Any) -> bool:
    """Whether an entry of coords is (dim, group of each of its labels)."""
    pair = isinstance(entries, tuple) and len(entries) == 2 and isinstance(entries[0], str)
    return pair and not isinstance(entries[1], str) and hasattr(entries[1], "__len__")


def groupings(
    table: Any,
    names: list[str],
    columns: list[list[Any]],
    domain: dict[str, list[Any]],
    groups: Sequence[str],
) -> dict[str, tuple[str, list[Any]]]:
    """Return grouping coordinates of the one dim of a table, from further columns."""
    if groups and len(names) != 1:
        raise ReleaseError(f"groups= need a table of one dim, got dims {names}")
    out = {}
    for name in groups:
        entries = labels(table, name, "groups")
        where: dict[Any, Any] = {}
        for row, (label, entry) in enumerate(zip(columns[0], entries, strict=True)):
            if where.setdefault(label, entry) != entry:
                raise ReleaseError(
                    f"row {row + 1}: {names[0]}={label!r} is in {name}={entry!r} here and in "
                    f"{where[label]!r} above"
                )
        out[name] = (names[0], [where.get(label) for label in domain[names[0]]])
    return out


def pivot(counts: np.ndarray, columns: list[list[Any]], domain: dict[str, list[Any]]) -> np.ndarray:
    """Spread rows over the table; a cell without a row is NaN."""
    grid = np.full([len(v) for v in domain.values()], np.nan)
    seen: dict[tuple[int, ...], int] = {}
    where = [{label: i for i, label in enumerate(v)} for v in domain.values()]
    names = list(domain)
    for row, cell in enumerate(zip(*columns, strict=True)):
        for name, positions, entry in zip(names, where, cell, strict=True):
            if entry not in positions:
                raise ReleaseError(
                    f"row {row + 1}: {entry!r} is not in the declared domain of {name!r}"
                )
        index = tuple(positions[entry] for positions, entry in zip(where, cell, strict=True))
        if index in seen:
            text = ", ".join(f"{n}={e}" for n, e in zip(names, cell, strict=True))
            raise ReleaseError(
                f"rows {seen[index] + 1} and {row + 1} both describe the cell {text}: "
                "add them up only if they were noised together"
            )
        seen[index] = row
        grid[index] = counts[row]
    return grid
