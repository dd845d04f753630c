"""Reading the data file of a release: CSV or Parquet, with errors that name rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbayes.errors import ReleaseFileError, nearest_name
from dpbayes.io.csv_file import read_columns
from dpbayes.io.number_text import is_number, parse_numbers, remedy

__all__ = ["DataFile"]


@dataclass(frozen=True)
class DataFile:
    """The file that holds the released values.

    Parameters
    ----------
    path : Path
        Where it is.
    field : str
        Path of the key that names it, for messages.
    lines : list of int
        Line of each row, once a CSV file has been read.
    """

    path: Path
    field: str = "release.file"
    lines: list[int] = dataclasses.field(default_factory=list, repr=False, compare=False)

    @classmethod
    def beside(cls, release_file: Path, name: str, field: str = "release.file") -> DataFile:
        """Find a data file whose name is relative to the folder of the release file.

        Raises
        ------
        ReleaseFileError
            If there is no such file or its kind is unknown.
        """
        path = release_file.parent / name
        try:
            exists = path.exists()
        except (OSError, ValueError):  # a name too long, or with a null character
            exists = False
        if not exists:
            folder = path.parent
            others = [p.name for p in folder.iterdir()] if folder.is_dir() else []
            raise ReleaseFileError(
                f"no such file: {str(path)!r}{nearest_name(path.name, others)}; "
                "names are relative to the folder of the release file",
                field,
            )
        if path.is_dir():
            raise ReleaseFileError(f"must be a file, got the folder {str(path)!r}", field)
        if path.suffix.lower() not in _READERS:
            raise ReleaseFileError(
                f"must be a CSV or Parquet file ({', '.join(_READERS)}), got {path.name!r}", field
            )
        return cls(path, field)

    def read(
        self,
        numeric: dict[str, str],
        labels: dict[str, str],
        text: Sequence[str] = (),
        keep_blank: bool = False,
    ) -> pd.DataFrame:
        """Read columns.

        Parameters
        ----------
        numeric : dict of str to str
            Columns of numbers, with the paths of the keys that name them; an empty cell
            becomes NaN.
        labels : dict of str to str
            Columns of labels, likewise. Whole numbers become integers.
        text : sequence of str
            Columns of labels that stay text although they look like numbers.
        keep_blank : bool
            In a CSV file of one column, a blank line between others is a missing value.

        Raises
        ------
        ReleaseFileError
            If the file cannot be read, has no rows, lacks a column, or holds text in a
            column of numbers (the message names the row).
        """
        wanted = {**numeric, **labels}
        frame = _READERS[self.path.suffix.lower()](self, wanted, keep_blank)
        if frame.empty:
            raise ReleaseFileError(f"{self.path.name!r} has no rows", self.field)
        for name, field in numeric.items():
            frame[name] = self._numbers(frame[name], field)
        for name in labels:
            if name not in text and name not in numeric:
                frame[name] = _whole_labels(frame[name])
        return frame

    def row(self, index: int) -> str:
        """Name a row so that a person finds it."""
        line = f" (line {self.lines[index]})" if self.lines else ""
        return f"row {index + 1}{line} of {self.path.name!r}"

    def check_columns(self, columns: Sequence[str], wanted: dict[str, str]) -> None:
        """Check that the columns are there, once each."""
        for name, field in wanted.items():
            if name not in columns:
                raise ReleaseFileError(
                    f"no column {name!r} in {self.path.name!r}"
                    f"{nearest_name(name, columns)}; columns: {', '.join(columns)}"
                    f"{_delimiter(columns)}",
                    field,
                )
            if list(columns).count(name) > 1:
                raise ReleaseFileError(
                    f"{self.path.name!r} has more than one column {name!r}", field
                )

    def _numbers(self, column: pd.Series, field: str) -> np.ndarray:
        """Return a column as floats; text is an error that names the row."""
        if pd.api.types.is_bool_dtype(column.dtype):
            raise ReleaseFileError(f"column {column.name!r} must hold numbers, got booleans", field)
        if pd.api.types.is_numeric_dtype(column.dtype):
            return column.to_numpy(dtype=float, na_value=np.nan)
        entries = column.to_numpy(dtype=object)
        try:
            return parse_numbers(entries)
        except (TypeError, ValueError):
            row = next(i for i, entry in enumerate(entries) if not is_number(entry))
        raise ReleaseFileError(
            f"column {column.name!r} must hold numbers, got {entries[row]!r} in "
            f"{self.row(row)}; {remedy(entries[row])}",
            field,
        )


def _whole_labels(column: pd.Series) -> pd.Series:
    """Return labels as integers where all are whole numbers in their usual form."""
    if column.dtype != object and not pd.api.types.is_string_dtype(column.dtype):
        return column
    entries: list[Any] = [None if pd.isna(entry) else entry for entry in column]
    usual = all(
        isinstance(e, str) and e.removeprefix("-").isdecimal() and str(int(e)) == e for e in entries
    )
    return pd.Series(
        [int(e) for e in entries] if usual else entries, dtype=None if usual else object
    )


def _delimiter(columns: Sequence[str]) -> str:
    """Say that the file may be separated by something else than commas."""
    odd = {";": "semicolons", "\t": "tabs", "|": "bars"}
    if len(columns) == 1:
        for mark, name in odd.items():
            if mark in columns[0]:
                return f" (the file seems to be separated by {name}; it must be by commas)"
    return ""


def _read_csv(source: DataFile, wanted: dict[str, str], keep_blank: bool) -> pd.DataFrame:
    """Read columns of a CSV file as text, a missing entry as an empty one."""

    def choose(columns: list[str]) -> list[int]:
        source.check_columns(columns, wanted)
        return [columns.index(name) for name in wanted]

    columns, lines = read_columns(source.path, source.field, choose, keep_blank)
    source.lines[:] = lines
    return pd.DataFrame(
        {
            name: np.array(entries, dtype=object)
            for name, entries in zip(wanted, columns, strict=True)
        }
    )


def _read_parquet(source: DataFile, wanted: dict[str, str], keep_blank: bool) -> pd.DataFrame:
    """Read columns of a Parquet file with pyarrow, else with polars."""
    path = source.path
    try:
        columns, read = _parquet_reader(path)
        source.check_columns(columns, wanted)
        return read(list(wanted))
    except ImportError:
        raise ReleaseFileError(
            f"reading {path.name!r} needs the package pyarrow or polars: "
            "install it (pip install pyarrow) or save the data as CSV",
            source.field,
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, ReleaseFileError):
            raise
        raise ReleaseFileError(
            f"cannot read {str(path)!r} as Parquet: {error}", source.field
        ) from None
    except Exception as error:
        if type(error).__module__.split(".")[0] != "polars":
            raise
        raise ReleaseFileError(
            f"cannot read {str(path)!r} as Parquet: {error}", source.field
        ) from None


def _parquet_reader(path: Path) -> tuple[list[str], Any]:
    """Names of the columns, and a function that reads some of them."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        import polars as pl

        # Without pyarrow polars cannot make pandas frames, but lists always work.
        return list(pl.read_parquet_schema(path)), lambda names: pd.DataFrame(
            pl.read_parquet(path, columns=names).to_dict(as_series=False)
        )
    return pq.read_schema(path).names, lambda names: pq.read_table(path, columns=names).to_pandas()


_READERS = {".csv": _read_csv, ".parquet": _read_parquet, ".pq": _read_parquet}
