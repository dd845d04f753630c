"""Reading columns of data frames of any kind, through narwhals, with errors that name rows."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

from dpbayes.errors import ReleaseError, nearest_name

__all__ = ["as_frame", "edges_from_columns", "labels", "numbers"]


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
