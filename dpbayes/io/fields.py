"""Checking tables of a release file field by field, with errors that carry the field's path."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpbayes.errors import ReleaseFileError, nearest_name

__all__ = [
    "Check",
    "Field",
    "boolean",
    "list_of",
    "number",
    "one_of",
    "pair_of",
    "read_fields",
    "shown",
    "table",
    "text",
    "whole",
]

#: Takes a raw value and its path; returns what the program uses or raises ReleaseFileError.
Check = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Field:
    """One key of a table: how its value is checked, whether it must be there, an example."""

    check: Check
    required: bool = False
    example: str = ""


def read_fields(
    raw: Mapping[str, Any],
    fields: Mapping[str, Field],
    path: str,
    elsewhere: str = "",
    hints: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Check all keys of a table against their fields.

    Parameters
    ----------
    raw : mapping
        Table as parsed.
    fields : mapping of str to Field
        Known keys.
    path : str
        Path of the table ("" for the root), for messages.
    elsewhere : str
        Said after the message about an unknown key.
    hints : mapping of str to str, optional
        What to do about keys that are unknown here and known in another table.

    Returns
    -------
    dict
        Checked values of the keys that are present.

    Raises
    ------
    ReleaseFileError
        On an unknown key, a missing one or a value of the wrong kind.
    """
    for key in raw:
        if key not in fields:
            hint = f": {hints[key]}" if hints and key in hints else nearest_name(key, fields)
            hint = hint or f"; known: {', '.join(fields)}"
            raise ReleaseFileError(f"unknown key{elsewhere}{hint}", join(path, key))
    for key, field in fields.items():
        if field.required and key not in raw:
            example = f": write {field.example}" if field.example else ""
            raise ReleaseFileError(f"must be given{example}", join(path, key))
    return {key: fields[key].check(value, join(path, key)) for key, value in raw.items()}


def join(path: str, key: str) -> str:
    """Path of a key of a table; keys that TOML would quote are quoted."""
    plain = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    name = key if plain else repr(key)
    return f"{path}.{name}" if path else name


def shown(value: Any) -> str:
    """Write a value as it stands in the file, shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, str):
        return f'"{value if len(value) <= 60 else value[:57] + "..."}"'
    if isinstance(value, list):
        return f"[{', '.join(shown(v) for v in value[:4])}{', ...' if len(value) > 4 else ''}]"
    if isinstance(value, datetime.date | datetime.time):
        return f"the date or time {value}"
    number = str(value)
    return number if len(number) <= 40 else f"{number[:37]}..."


def _must_be(what: str, value: Any, path: str) -> ReleaseFileError:
    return ReleaseFileError(f"must be {what}, got {shown(value)}", path)


def text(value: Any, path: str) -> str:
    """Text that is not empty."""
    if not isinstance(value, str):
        raise _must_be("text", value, path)
    if not value.strip():
        raise ReleaseFileError("must not be empty", path)
    return value


def number(value: Any, path: str) -> float:
    """Finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _must_be("a number", value, path)
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number beyond the floating-point range
        finite = False
    if not finite:
        raise _must_be("a finite number", value, path)
    return value


def whole(value: Any, path: str) -> int:
    """Whole number, 0 or more."""
    checked = number(value, path)
    if checked < 0 or checked != int(checked):
        raise _must_be("a whole number, 0 or more", value, path)
    return int(checked)


def boolean(value: Any, path: str) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise _must_be("true or false", value, path)
    return value


def table(value: Any, path: str) -> dict[str, Any]:
    """Table, checked further by the caller."""
    if not isinstance(value, dict):
        raise _must_be("a table", value, path)
    return value


def one_of(*names: str, note: str = "") -> Check:
    """One of several words; a note follows the message that lists them."""

    def check(value: Any, path: str) -> str:
        if not isinstance(value, str) or value not in names:
            options = ", ".join(f'"{n}"' for n in names)
            hint = nearest_name(value, names) if isinstance(value, str) else ""
            raise ReleaseFileError(
                f"must be one of {options}, got {shown(value)}{hint}{note}", path
            )
        return value

    return check


def list_of(check: Check, what: str) -> Check:
    """List whose entries all pass a check, at least one."""

    def check_list(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise _must_be(f"a list of {what}", value, path)
        if not value:
            raise ReleaseFileError(f"must name at least one of {what}, got []", path)
        return [check(entry, f"{path}[{i}]") for i, entry in enumerate(value)]

    return check_list


def pair_of(check: Check, what: str) -> Check:
    """List of exactly two entries."""

    def check_pair(value: Any, path: str) -> tuple[Any, Any]:
        if not isinstance(value, list) or len(value) != 2:
            raise _must_be(f"a pair of {what}", value, path)
        first, second = (check(entry, f"{path}[{i}]") for i, entry in enumerate(value))
        return first, second

    return check_pair
