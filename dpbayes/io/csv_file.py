"""Columns of a CSV file as text, with the line that each row stands on."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dpbayes.errors import ReleaseFileError

__all__ = ["read_columns"]


def read_columns(
    path: Path,
    field: str,
    choose: Callable[[list[str]], list[int]],
    keep_blank: bool = False,
) -> tuple[list[list[str]], list[int]]:
    """Read some columns.

    Blank lines, and rows whose entries are all empty, are no rows.

    Parameters
    ----------
    path : Path
        CSV file in UTF-8, separated by commas, with a line of names.
    field : str
        Path of the key that names the file, for messages.
    choose : callable
        Takes the names of the columns and returns the positions of those that are wanted.
    keep_blank : bool
        In a file of one column, a blank line between others is an empty entry.

    Returns
    -------
    list of list of str, list of int
        Entries of each column that was chosen, and the line of each row.

    Raises
    ------
    ReleaseFileError
        If the file is no such table; the message names the line.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            names = next((row for row in reader if any(map(str.strip, row))), None)
            if names is None:
                raise ReleaseFileError(f"{path.name!r} is empty", field)
            if any("\0" in name for name in names):  # UTF-16 without a byte order mark
                raise _encoding(path, field, "it seems to be UTF-16")
            wanted = choose([name.strip() for name in names])
            lines, rows = [], []
            for line, row in _rows(reader, path, field, len(names), keep_blank):
                lines.append(line)
                rows.append([row[position] for position in wanted])
    except UnicodeDecodeError as error:
        raise _encoding(path, field, _seems(path, error)) from None
    except csv.Error as error:
        why = str(error)
        if "unexpected end of data" in why:
            why = "a quotation mark is opened and never closed"
        where = f"line {reader.line_num} of {path.name!r}"
        raise ReleaseFileError(f"{where} is not CSV: {why}", field) from None
    except OSError as error:
        raise ReleaseFileError(f"cannot read {str(path)!r}: {error.strerror}", field) from None
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in wanted], lines


def _rows(
    reader: Any, path: Path, field: str, width: int, keep_blank: bool
) -> Iterator[tuple[int, list[str]]]:
    """Rows with their lines; the line of a row with line breaks inside is its last one."""
    waiting: list[int] = []
    for row in reader:
        if not waiting and len(row) == width and row[0].strip():
            yield reader.line_num, row  # nearly every row: said first, for speed
            continue
        # An entry that is quoted and empty is an entry: only such rows of one column say "".
        if not row or (row != [""] and not any(entry.strip() for entry in row)):
            waiting.append(reader.line_num)
            continue
        if keep_blank and width == 1:
            yield from ((line, [""]) for line in waiting)  # those at the end are dropped
        waiting.clear()
        if len(row) != width:
            fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
            raise ReleaseFileError(
                f"line {reader.line_num} of {path.name!r} has {fields}, but the first line names "
                f"{width} column{'s' * (width > 1)}: {_mend(len(row), width)}",
                field,
            )
        yield reader.line_num, row


def _mend(found: int, width: int) -> str:
    if found < width:
        return "write a comma for every column, also before an empty cell"
    return (
        "write numbers without thousands separators and with a decimal point, and put text that "
        "holds a comma in quotation marks"
    )


def _seems(path: Path, error: UnicodeDecodeError) -> str:
    """Guess the encoding of a file that is not UTF-8."""
    start = path.read_bytes()[:2]
    if start in (b"\xff\xfe", b"\xfe\xff"):
        return "it seems to be UTF-16"
    byte = error.object[error.start]
    return f"it holds the byte {byte:#04x}, as files in Latin-1 or Windows-1252 do"


def _encoding(path: Path, field: str, seems: str) -> ReleaseFileError:
    return ReleaseFileError(
        f"{path.name!r} is not UTF-8 text ({seems}): save it as CSV UTF-8", field
    )
