"""Tables ``[[margins]]`` of a release file: totals of groups, released on their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dpbayes.errors import DPBayesError, ReleaseFileError
from dpbayes.io.data_file import DataFile
from dpbayes.io.fields import Field, list_of, number, read_fields, shown, table, text
from dpbayes.io.mechanism_table import MechanismTable, check_mechanism
from dpbayes.mechanism import Mechanism
from dpbayes.releases import HistogramRelease

__all__ = ["MarginTable", "add_margin", "check_margins", "group_columns"]


def _by(value: Any, path: str) -> list[str]:
    """Names of dims or groups; none for the grand total."""
    names = [] if value == [] else list_of(text, "dims or groups")(value, path)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ReleaseFileError(f"is named twice: {name!r}", f"{path}[{i}]")
    return names


def _value(value: Any, path: str) -> str | float:
    """Name of a column, or the number itself."""
    return text(value, path) if isinstance(value, str) else number(value, path)


_FIELDS = {
    "by": Field(_by, required=True),
    "value": Field(_value, required=True),
    "file": Field(text),
    "mechanism": Field(table),
}


@dataclass(frozen=True)
class MarginTable:
    """One checked table, before its data file has been read.

    Parameters
    ----------
    by : tuple of str
        Dims or groups that are kept; none for the grand total.
    value : str or float
        Column of totals, or the grand total itself.
    file : str or None
        Data file.
    mechanism : MechanismTable
        How the totals were published.
    path : str
        Path of the table, for messages.
    """

    by: tuple[str, ...]
    value: str | float
    file: str | None
    mechanism: MechanismTable
    path: str


def check_margins(raw: Any, default: MechanismTable) -> list[MarginTable]:
    """Check the tables ``[[margins]]``.

    Parameters
    ----------
    raw : list of mapping
        Tables as parsed.
    default : MechanismTable
        Mechanism of the cells, which holds for totals that state none.

    Raises
    ------
    ReleaseFileError
        If a key is unknown, missing or wrong.
    """
    found = []
    for i, entry in enumerate(list_of(table, "tables [[margins]]")(raw, "margins")):
        path = f"margins[{i}]"
        fields = read_fields(entry, _FIELDS, path)
        mechanism = default
        if "mechanism" in fields:
            mechanism = check_mechanism(fields["mechanism"], f"{path}.mechanism")
        elif default.columns:
            column = next(iter(default.columns.values()))
            raise ReleaseFileError(
                f"must be given: the noise of the cells varies by cell (column {column!r}), "
                "which says nothing about totals",
                f"{path}.mechanism",
            )
        by, value, file = tuple(fields["by"]), fields["value"], fields.get("file")
        _check_source(by, value, file, path)
        found.append(MarginTable(by, value, file, mechanism, path))
    return found


def _check_source(by: tuple[str, ...], value: str | float, file: str | None, path: str) -> None:
    """Totals stand in a file; the grand total may be given as a number instead."""
    if isinstance(value, str):
        if file is None:
            raise ReleaseFileError(
                "must be given: `value` names one of its columns"
                + ("" if by else "; or give the grand total as a number in `value`"),
                f"{path}.file",
            )
        if value in by:
            raise ReleaseFileError(f"is the column of values: {value!r}", f"{path}.by")
    elif by:
        raise ReleaseFileError(
            f"must be the name of a column of `file`, got {shown(value)}; only the grand total "
            "(by = []) may be given as a number",
            f"{path}.value",
        )
    elif file is not None:
        raise ReleaseFileError(
            f"needs no file: `value` is the total {shown(value)}", f"{path}.file"
        )


def add_margin(release: HistogramRelease, margin: MarginTable, file: Path) -> HistogramRelease:
    """Return the release with the totals that a table describes.

    Parameters
    ----------
    release : HistogramRelease
        Cells, with the groups that the table names.
    margin : MarginTable
        Checked table.
    file : Path
        Release file; names of data files are relative to its folder.

    Raises
    ------
    ReleaseFileError
        If the totals and the groups do not fit; the error carries the path of the key.
    """
    labels = [_labels_of(release, name, i, margin) for i, name in enumerate(margin.by)]
    if isinstance(margin.value, str):
        assert margin.file is not None
        data = DataFile.beside(file, margin.file, f"{margin.path}.file")
        values, law = _from_file(margin, labels, data)
    else:
        if margin.mechanism.columns:
            key = next(iter(margin.mechanism.columns))
            raise ReleaseFileError(
                "names a column, but the grand total is given as a number",
                f"{margin.mechanism.path}.{key}_column",
            )
        values, law = np.array(margin.value), margin.mechanism.build({})
    return _guarded(lambda: release.with_margin(values, by=margin.by, mechanism=law), margin)


def _labels_of(release: HistogramRelease, name: str, i: int, margin: MarginTable) -> list[Any]:
    try:
        return release.group_labels(name)
    except DPBayesError as error:
        hint = "" if name in release.values.coords else "; state a column of groups in `groups`"
        message = str(error).removeprefix(f"by={name!r} ")
        raise ReleaseFileError(f"{message}{hint}", f"{margin.path}.by[{i}]") from error


def _from_file(
    margin: MarginTable, labels: list[list[Any]], data: DataFile
) -> tuple[Any, Mechanism]:
    """Totals and mechanism, arranged like the groups."""
    value, path, law = str(margin.value), margin.path, margin.mechanism
    numeric = {value: f"{path}.value"}
    numeric |= {name: f"{law.path}.{key}_column" for key, name in law.columns.items()}
    named = {name: f"{path}.by[{i}]" for i, name in enumerate(margin.by)}
    pairs = list(zip(margin.by, labels, strict=True))
    text_only = [name for name, known in pairs if all(isinstance(v, str) for v in known)]
    frame = data.read(numeric, named, text_only)
    index = _positions(frame, pairs, margin, data)
    shape = tuple(len(known) for known in labels)
    arrays = {}
    for key, name in law.columns.items():
        column = frame[name].to_numpy(dtype=float)
        bad = np.flatnonzero(~((column > 0) & np.isfinite(column)))
        if bad.size:
            row = int(bad[0])
            raise ReleaseFileError(
                f"column {name!r} must hold positive numbers, got {column[row]:g} in "
                f"{data.row(row)}",
                numeric[name],
            )
        # A group without a row was not released: no noise of it enters anywhere.
        spread = np.full(shape, column.max())
        spread[index] = column
        arrays[key] = xr.DataArray(spread, dims=margin.by, coords=dict(pairs))
    law.check_missing(frame, value, f"{path}.value", data)
    totals = frame[value].to_numpy(dtype=float)
    return _arranged(totals, index, pairs, margin), law.build(arrays)


def _positions(
    frame: pd.DataFrame, pairs: list[tuple[str, list[Any]]], margin: MarginTable, data: DataFile
) -> tuple[np.ndarray, ...]:
    """Position of every row among the groups."""
    if not margin.by:
        if len(frame) != 1:
            raise ReleaseFileError(
                f"must have one row, the grand total; {data.path.name!r} has {len(frame)}",
                f"{margin.path}.file",
            )
        return ()
    found = []
    for i, (name, known) in enumerate(pairs):
        where = {label: k for k, label in enumerate(known)}
        entries = frame[name].tolist()
        for row, entry in enumerate(entries):
            if entry not in where:
                raise ReleaseFileError(
                    f"{entry!r} in {data.row(row)} is none of the groups of the cells: "
                    f"{', '.join(map(str, known[:8]))}{', ...' if len(known) > 8 else ''}",
                    f"{margin.path}.by[{i}]",
                )
        found.append(np.array([where[entry] for entry in entries], dtype=int))
    seen: dict[tuple[int, ...], int] = {}
    for row, key in enumerate(zip(*(f.tolist() for f in found), strict=True)):
        if key in seen:
            raise ReleaseFileError(
                f"{data.row(seen[key])} and {data.row(row)} both hold the total of "
                + ", ".join(f"{n}={known[k]}" for (n, known), k in zip(pairs, key, strict=True)),
                f"{margin.path}.by",
            )
        seen[key] = row
    return tuple(found)


def _arranged(
    totals: np.ndarray,
    index: tuple[np.ndarray, ...],
    pairs: list[tuple[str, list[Any]]],
    margin: MarginTable,
) -> Any:
    """Totals in the form that `HistogramRelease.with_margin` takes."""
    if not pairs:
        return totals.reshape(())
    if len(pairs) == 1:  # a group without a row was not released
        labels = pairs[0][1]
        return {labels[k]: v for k, v in zip(index[0].tolist(), totals.tolist(), strict=True)}
    seen = np.zeros(tuple(len(known) for _, known in pairs), dtype=bool)
    seen[index] = True
    if not seen.all():
        gap = np.argwhere(~seen)[0]
        raise ReleaseFileError(
            "has no row for "
            + ", ".join(f"{n}={known[k]}" for (n, known), k in zip(pairs, gap, strict=True)),
            f"{margin.path}.file",
        )
    values = np.empty(seen.shape)
    values[index] = totals
    return values


def _guarded(build: Any, margin: MarginTable) -> HistogramRelease:
    try:
        return build()
    except ReleaseFileError:
        raise
    except DPBayesError as error:
        about = "by" if str(error).startswith(("by=", "the margin")) else "value"
        raise ReleaseFileError(str(error), f"{margin.path}.{about}") from error


def group_columns(fields: Mapping[str, Any]) -> dict[str, str]:
    """Columns of groups of the cells' file, with the paths of the keys that name them.

    Raises
    ------
    ReleaseFileError
        If a group is named twice or names a column that has another meaning.
    """
    groups, dims = fields.get("groups", []), fields.get("dims", [])
    if groups and len(dims) != 1:
        raise ReleaseFileError(
            "need `dims` to be one column, whose labels they group; got "
            + (", ".join(dims) if dims else "edges"),
            "release.groups",
        )
    for i, name in enumerate(groups):
        if name in groups[:i]:
            raise ReleaseFileError(f"is named twice: {name!r}", f"release.groups[{i}]")
        for key, known in (("dims", dims), ("value", [fields["value"]])):
            if name in known:
                raise ReleaseFileError(f"is in `{key}` too: {name!r}", f"release.groups[{i}]")
    return {name: f"release.groups[{i}]" for i, name in enumerate(groups)}
