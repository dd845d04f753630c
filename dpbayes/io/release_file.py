"""Release files: what was published and how, in TOML beside the data.

A release file is versioned and fully checked: each error names the path of the field that is
wrong, such as ``mechanism.steps[1].clamp.lower``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dpbayes.errors import DPBayesError, ReleaseFileError, nearest_name
from dpbayes.io.data_file import DataFile
from dpbayes.io.fields import (
    Field,
    join,
    list_of,
    number,
    one_of,
    pair_of,
    read_fields,
    shown,
    table,
    text,
    whole,
)
from dpbayes.io.margin_tables import add_margin, check_margins, group_columns
from dpbayes.io.mechanism_table import SUPPRESS, MechanismTable, check_mechanism
from dpbayes.mechanism import Mechanism, Suppress
from dpbayes.releases import HistogramRelease, RecordRelease

__all__ = ["VERSION", "read_release"]

#: Version of the format of release files.
VERSION = 1


def _label(value: Any, path: str) -> str | int:
    """Label of a cell in a declared domain."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ReleaseFileError(f"must be text or a whole number, got {shown(value)}", path)
    return value


def _domain(value: Any, path: str) -> dict[str, list[Any]]:
    """Labels of every dim whose domain is declared."""
    found = {}
    for dim, raw in table(value, path).items():
        labels = list_of(_label, "labels")(raw, join(path, dim))
        for i, label in enumerate(labels):
            if label in labels[:i]:
                raise ReleaseFileError(f"is given twice: {shown(label)}", f"{join(path, dim)}[{i}]")
        found[dim] = labels
    return found


def _positive(value: Any, path: str) -> float:
    if number(value, path) <= 0:
        raise ReleaseFileError(f"must be positive, got {shown(value)}", path)
    return value


_FACTS = {
    "title": Field(text),
    "unit": Field(text),
    "source": Field(text),
    "epsilon": Field(_positive),
    "sensitivity": Field(_positive),
}
_AXIS_FACTS = {"axis_unit": Field(text)}
_COMMON = {
    "kind": Field(text, required=True, example='kind = "histogram" or kind = "records"'),
    "file": Field(text, required=True, example='the name of the data file, file = "data.csv"'),
}
_HISTOGRAM = {
    "value": Field(
        text, required=True, example='the name of the column of counts, such as value = "visits"'
    ),
    "dims": Field(list_of(text, "columns")),
    "edges": Field(pair_of(text, "columns (lower and upper end of each bin)")),
    "coords": Field(_domain),
    "groups": Field(list_of(text, "columns")),
    "total": Field(whole),
}
_RECORDS = {
    "column": Field(
        text, required=True, example='the name of the column of values, such as column = "spend"'
    ),
    "bounds": Field(
        pair_of(number, "numbers, lower and upper"),
        required=True,
        example="the bounds of the true values, such as bounds = [0, 250]",
    ),
    "support": Field(one_of("continuous", "integers")),
}
#: Keys of the other kind.
_HINTS = {
    "records": {"value": "a records file names its column of values by `column`"},
    "histogram": {
        "column": "a histogram file names its column of counts by `value`",
        "bounds": "a histogram file names the columns of bin ends by `edges`",
    },
}
KINDS: dict[str, dict[str, Field]] = {"histogram": _HISTOGRAM | _AXIS_FACTS, "records": _RECORDS}


def read_release(path: str | os.PathLike[str]) -> HistogramRelease | RecordRelease:
    """Read a release file and the data file that it names.

    Parameters
    ----------
    path : str or PathLike
        TOML file.

    Returns
    -------
    HistogramRelease or RecordRelease
        The facts of the file (title, unit, axis_unit, source, neighbours, epsilon,
        sensitivity) are in its `attrs`.

    Raises
    ------
    ReleaseFileError
        If anything is wrong with the file or the data; the attribute `field` holds the path
        of the field, and the message the remedy.
    """
    file = Path(path)
    root = _parse(file)
    known = {
        "version": Field(_version, required=True, example=f"version = {VERSION} at the top"),
        "release": Field(
            table,
            required=True,
            example='a table [release] with kind = "histogram" or "records", file, and its columns',
        ),
        "mechanism": Field(
            table,
            required=True,
            example='a table [mechanism] with noise = "discrete-laplace" (or another law) and how '
            "large it is, such as epsilon = 0.1 and sensitivity = 1",
        ),
        "margins": Field(lambda value, _: value),
    }
    # The version first: in another one, everything else may be different.
    read_fields(
        {k: v for k, v in root.items() if k == "version"}, {"version": known["version"]}, ""
    )
    read_fields(root, known, "")
    fields = _release_table(root["release"])
    mechanism = check_mechanism(root["mechanism"])
    attrs = _attributes(fields, mechanism)
    margins = check_margins(root["margins"], mechanism) if "margins" in root else []
    if margins and fields["kind"] != "histogram":
        raise ReleaseFileError('are totals of cells: they need kind = "histogram"', "margins")
    data = DataFile.beside(file, fields["file"])
    release = _BUILDERS[fields["kind"]](fields, mechanism, data, attrs)
    for margin in margins:
        assert isinstance(release, HistogramRelease)
        release = add_margin(release, margin, file)
    return release


def _parse(file: Path) -> dict[str, Any]:
    """Parse TOML; errors name the file and the line."""
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        folder = file.parent
        others = [p.name for p in folder.glob("*.toml")] if folder.is_dir() else []
        raise ReleaseFileError(
            f"no such release file: {str(file)!r}{nearest_name(file.name, others)}"
        ) from None
    except UnicodeDecodeError as error:
        raise ReleaseFileError(
            f"{str(file)!r} must be UTF-8 text, got a byte {error.object[error.start]:#04x} "
            f"at position {error.start}{_not_toml(file)}"
        ) from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise ReleaseFileError(f"{str(file)!r} is not TOML: {error}{_not_toml(file)}") from None
    except OSError as error:
        raise ReleaseFileError(f"cannot read {str(file)!r}: {error.strerror}") from None


def _not_toml(file: Path) -> str:
    if file.suffix.lower() == ".toml":
        return ""
    return "; give the TOML file that describes the release, not the data file"


def _version(value: Any, path: str) -> int:
    if isinstance(value, bool) or value != VERSION:
        raise ReleaseFileError(
            f"must be {VERSION}, the one version that this dpbayes reads, got {shown(value)}", path
        )
    return VERSION


def _release_table(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Check the table ``[release]`` against the fields of its kind."""
    path = "release"
    kinds = {"kind": replace(_COMMON["kind"], check=one_of(*KINDS))}
    kind = read_fields({k: v for k, v in raw.items() if k == "kind"}, kinds, path)["kind"]
    fields = read_fields(
        raw, _COMMON | KINDS[kind] | _FACTS, path, f' for kind = "{kind}"', _HINTS[kind]
    )
    if kind == "histogram" and ("dims" in fields) == ("edges" in fields):
        both = "both" if "dims" in fields else "neither"
        raise ReleaseFileError(
            f"must give `dims` (columns of labels) or `edges` (two columns of numbers), got {both}",
            path,
        )
    _check_domain(fields, path)
    return fields


def _check_domain(fields: Mapping[str, Any], path: str) -> None:
    for dim in fields.get("coords", ()):
        dims = fields.get("dims", [])
        if dim not in dims:
            raise ReleaseFileError(
                f"is the domain of a dim that `dims` does not name{nearest_name(dim, dims)}",
                join(f"{path}.coords", dim),
            )
    dims = fields.get("dims", [])
    for i, dim in enumerate(dims):
        if dim in dims[:i]:
            raise ReleaseFileError(f"is named twice: {dim!r}", f"{path}.dims[{i}]")
        if dim == fields["value"]:
            raise ReleaseFileError(f"is the column of values: {dim!r}", f"{path}.dims[{i}]")


def _attributes(fields: Mapping[str, Any], mechanism: MechanismTable) -> dict[str, Any]:
    """Facts that reports repeat."""
    for name in ("epsilon", "sensitivity"):
        if name in fields and name in mechanism.facts:
            raise ReleaseFileError(
                f"is given in {mechanism.path}.{name} too: keep that one", f"release.{name}"
            )
    return {k: v for k, v in fields.items() if k in _FACTS | _AXIS_FACTS} | mechanism.facts


def _histogram(
    fields: Mapping[str, Any], mechanism: MechanismTable, data: DataFile, attrs: dict[str, Any]
) -> HistogramRelease:
    """Build a histogram from a table with one row per cell."""
    dims, edges = fields.get("dims"), fields.get("edges")
    coords = fields.get("coords", {})
    numeric = {fields["value"]: "release.value"}
    numeric |= {name: f"release.edges[{i}]" for i, name in enumerate(edges or ())}
    numeric |= {name: f"{mechanism.path}.{key}_column" for key, name in mechanism.columns.items()}
    labels = {name: f"release.dims[{i}]" for i, name in enumerate(dims or ())}
    labels |= group_columns(fields)
    text_only = [d for d, domain in coords.items() if all(isinstance(v, str) for v in domain)]
    frame = data.read(numeric, labels, text_only)
    _check_labels(frame, labels, data)
    mechanism.check_missing(frame, fields["value"], "release.value", data)
    for name in edges or ():
        _check_complete(frame, name, numeric[name], data)

    def build(law: Mechanism) -> HistogramRelease:
        return HistogramRelease.from_frame(
            frame,
            value=fields["value"],
            dims=dims,
            groups=fields.get("groups", ()),
            edges=edges,
            mechanism=law,
            coords=coords or None,
            total=fields.get("total"),
            attrs=attrs,
        )

    arrays = {
        key: _per_cell(frame, name, dims, numeric[name], data)
        for key, name in mechanism.columns.items()
    }
    return _located(lambda: build(mechanism.build(arrays)), "value", fields)


def _records(
    fields: Mapping[str, Any], mechanism: MechanismTable, data: DataFile, attrs: dict[str, Any]
) -> RecordRelease:
    """Build a release of perturbed records from one column."""
    for key in mechanism.columns:
        raise ReleaseFileError(
            "a noise scale per record is not supported: split the records by scale",
            f"{mechanism.path}.{key}_column",
        )
    low, high = fields["bounds"]
    if low >= high:
        raise ReleaseFileError(f"must be [lower, upper], got [{low:g}, {high:g}]", "release.bounds")
    withholds = any(isinstance(step, Suppress) for step in mechanism.steps)
    frame = data.read({fields["column"]: "release.column"}, {}, keep_blank=withholds)
    mechanism.check_missing(frame, fields["column"], "release.column", data)
    return _located(
        lambda: RecordRelease.from_frame(
            frame,
            column=fields["column"],
            mechanism=mechanism.build({}),
            bounds=fields["bounds"],
            support=fields.get("support", "continuous"),
            attrs=attrs,
        ),
        "column",
        fields,
    )


_BUILDERS: dict[str, Callable[..., HistogramRelease | RecordRelease]] = {
    "histogram": _histogram,
    "records": _records,
}


def _check_labels(frame: pd.DataFrame, labels: Mapping[str, str], data: DataFile) -> None:
    """Refuse cells without a label."""
    for name, field in labels.items():
        blank = frame[name].isna() | (frame[name].astype(str).str.strip() == "")
        if blank.any():
            row = int(np.flatnonzero(blank)[0])
            raise ReleaseFileError(f"column {name!r} has no label in {data.row(row)}", field)


def _check_complete(frame: pd.DataFrame, name: str, field: str, data: DataFile) -> None:
    """Refuse a column of numbers with gaps."""
    gaps = np.flatnonzero(~np.isfinite(frame[name].to_numpy(dtype=float)))
    if gaps.size:
        row = int(gaps[0])
        raise ReleaseFileError(
            f"column {name!r} must hold a finite number, got {_entry(frame[name].iloc[row])} in "
            f"{data.row(row)}: close an open end at a value that no record passes",
            field,
        )


def _entry(value: float) -> str:
    return "an empty cell" if np.isnan(value) else f"{value:g}"


def _per_cell(
    frame: pd.DataFrame, name: str, dims: list[str] | None, field: str, data: DataFile
) -> Any:
    """Values of a noise parameter, labelled like the cells."""
    values = frame[name].to_numpy(dtype=float)
    bad = np.flatnonzero(~((values > 0) & np.isfinite(values)))
    if bad.size:
        row = int(bad[0])
        raise ReleaseFileError(
            f"column {name!r} must hold positive numbers, got {_entry(values[row])} in "
            f"{data.row(row)}",
            field,
        )
    if dims is None:
        return values
    if frame.duplicated(dims).any():
        return values  # the release names the cell that two rows describe
    if len(dims) == 1:
        return xr.DataArray(values, dims=dims, coords={dims[0]: list(frame[dims[0]])})
    spread = frame.set_index(dims)[name].to_xarray()
    if spread.isnull().any():
        raise ReleaseFileError(
            f"column {name!r} must hold a number for every cell, but some cells of the table "
            "have no row",
            field,
        )
    return spread


#: Field that an error of a release is about, by the first word of its message.
_FIRST_WORDS = {
    "row": "release.coords",
    "rows": "release.dims",
    "noise": "mechanism.noise",
    "a": "mechanism",
}


def _located[T](build: Callable[[], T], values: str, fields: Mapping[str, Any]) -> T:
    """Build a release; give its error the path of the field that it is about."""
    try:
        return build()
    except ReleaseFileError:
        raise
    except DPBayesError as error:
        # A cell of the declared domain, or of the product of the dims, that has no row.
        message = str(error).replace(
            "add a Suppress(below=...) step, or give the value",
            f"add its row or, where values below a threshold (say 50) were suppressed, state "
            f"{SUPPRESS} in [mechanism]",
        )
        name = message.split(" ")[0].rstrip(":")
        if name.split("[")[0] in fields:
            field, message = f"release.{name}", message.removeprefix(name).lstrip(": ")
        else:
            field = _FIRST_WORDS.get(name, f"release.{values}")
        raise ReleaseFileError(message, field) from error
