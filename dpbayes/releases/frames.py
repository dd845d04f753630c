"""Reading columns of data frames of any kind, through narwhals, with errors that name rows."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import xarray as xr

from dpbayes.errors import ReleaseError, nearest_name
from dpbayes.schema import CELL

__all__ = ["as_frame", "edges_from_columns", "from_pandas", "labels", "numbers"]

_ROWS = "for one row per cell use HistogramRelease.from_frame(frame, value=..., dims=...)"


def as_frame(frame: Any) -> nw.DataFrame:
    """Wrap a data frame that narwhals reads; a lazy one is collected."""
    try:
        wrapped = nw.from_native(frame)
    except TypeError:
        raise ReleaseError(
            f"expected a data frame (pandas, polars, pyarrow, ...), got {type(frame).__name__}"
        ) from None
    return wrapped.collect() if isinstance(wrapped, nw.LazyFrame) else wrapped


def _column(frame: nw.DataFrame, name: str, field: str) -> nw.Series:
    if name not in frame.columns:
        raise ReleaseError(
            f"{field}: no column {name!r}{nearest_name(name, frame.columns)}; "
            f"columns: {', '.join(map(str, frame.columns))}"
        )
    return frame[name]


def labels(frame: nw.DataFrame, name: str, field: str) -> list[Any]:
    """Return a column of labels, refusing missing ones."""
    column = _column(frame, name, field).to_list()
    for row, label in enumerate(column):
        if label is None or label != label:
            raise ReleaseError(f"{field}: column {name!r} has no label in row {row + 1}")
    return column


def numbers(frame: nw.DataFrame, name: str, field: str) -> np.ndarray:
    """Return a column of numbers; missing entries become NaN, text is an error."""
    column = _column(frame, name, field)
    if column.dtype.is_numeric():
        return column.cast(nw.Float64).to_numpy().astype(float)
    out = np.empty(len(column))
    for row, entry in enumerate(column.to_list()):
        missing = entry is None or entry == "" or entry != entry
        try:
            out[row] = np.nan if missing else float(entry)
        except (TypeError, ValueError):
            raise ReleaseError(
                f"{field}: column {name!r} must hold numbers, got {entry!r} in row {row + 1}"
            ) from None
    return out


def edges_from_columns(frame: nw.DataFrame, columns: Any, field: str = "edges") -> np.ndarray:
    """Return bin edges from two columns, the lower and the upper end of each bin, in order."""
    if isinstance(columns, str) or len(columns) != 2:
        raise ReleaseError(
            f"{field} must name two columns (lower and upper end of each bin), got {columns!r}"
        )
    lower, upper = (numbers(frame, name, field) for name in columns)
    gaps = np.flatnonzero(lower[1:] != upper[:-1])
    if gaps.size:
        row = int(gaps[0])
        raise ReleaseError(
            f"{field}: bins must adjoin in the order of the rows, but row {row + 1} ends at "
            f"{upper[row]:g} and row {row + 2} starts at {lower[row + 1]:g}"
        )
    return np.append(lower[:1], upper)


def from_pandas(values: Any, coords: Any = None, edges: Any = None) -> Any:
    """Return the cells of a series or table with their labels; anything else as it is.

    Raises
    ------
    ReleaseError
        If a data frame does not name its axes, or the index contradicts `coords`.
    """
    if isinstance(values, xr.DataArray):
        return values
    if nw.dependencies.is_pandas_series(values):
        names, labelled = [values.index.name], [values.index]
    elif nw.dependencies.is_pandas_dataframe(values):
        names, labelled = [values.index.name, values.columns.name], [values.index, values.columns]
        if coords is None and None in names:
            raise ReleaseError(
                f"values is a data frame: {_ROWS}; for a table of counts name both axes, "
                'frame.rename_axis(index="...", columns="...")'
            )
    elif nw.dependencies.is_into_dataframe(values):
        raise ReleaseError(f"values is a data frame: {_ROWS}")
    else:
        return values
    array = values.astype(object).where(values.notna(), None).to_numpy()
    plain = all(list(axis) == list(range(len(axis))) for axis in labelled)
    if edges is not None or (plain and names == [None]):
        return array
    if any(axis.nlevels > 1 for axis in labelled):
        raise ReleaseError(
            "values has an index of several levels: use HistogramRelease.from_frame("
            "series.reset_index(), value=..., dims=...)"
        )
    if coords is not None:
        _check_agreement(coords, labelled, plain)
        return array
    dims = [CELL if name is None else str(name) for name in names]
    for dim, axis in zip(dims, labelled, strict=True):
        if axis.hasnans or not axis.is_unique:
            wrong = "a missing label" if axis.hasnans else f"{axis[axis.duplicated()][0]!r} twice"
            raise ReleaseError(f"labels of {dim!r} must be distinct, got {wrong}")
    return xr.DataArray(array, dims=dims, coords=dict(zip(dims, map(list, labelled), strict=True)))


def _check_agreement(coords: Any, labelled: Any, plain: bool) -> None:
    """Refuse coords in another order than the index: counts would change their cells."""
    groups = [isinstance(v, tuple) and len(v) == 2 and np.ndim(v[1]) == 1 for v in coords.values()]
    given = [list(v) for v, group in zip(coords.values(), groups, strict=True) if not group]
    if not plain and given != [list(axis) for axis in labelled]:
        raise ReleaseError(
            "coords must repeat the index of values in its order, or be left out: "
            f"got {given[0][:3] if given else given} for {list(labelled[0])[:3]}"
        )
