"""Numbers written as text, and what to do about text that is no number."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["is_number", "parse_numbers", "remedy"]

#: What may stand in a numeric column where a value was suppressed.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None")

_THOUSANDS = re.compile(r"[-+]?\d{1,3}([,'’ \u00a0\u202f]\d{3})+(\.\d*)?")
_MANY_POINTS = re.compile(r"[-+]?\d{1,3}(\.\d{3})+(,\d*)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_CURRENCY = re.compile(r"[$€£¥]\s*[-+]?[\d.,]+|[-+]?[\d.,]+\s*[$€£¥]")
_DASH = re.compile(r"[-–—−]+")


def parse_numbers(entries: np.ndarray) -> np.ndarray:
    """Return texts as floats, missing ones as NaN.

    Raises
    ------
    TypeError, ValueError
        If an entry is no number.
    """
    blank = np.isin(np.char.strip(entries.astype(str)), MISSING) | pd.isna(entries)
    # float() also reads "1_000", which no table of numbers means.
    if any("_" in entry for entry in entries[~blank] if isinstance(entry, str)):
        raise ValueError
    return np.where(blank, "nan", entries).astype(float)


def is_number(entry: Any) -> bool:
    """Whether an entry is a number, or missing."""
    try:
        parse_numbers(np.array([entry], dtype=object))
    except (TypeError, ValueError):
        return False
    return True


def remedy(entry: Any) -> str:
    """Say how to write an entry that is no number."""
    text = str(entry).strip()
    suppressed = "leave the cell of a suppressed value empty"
    if text.endswith("%"):
        return "remove the % sign; values are counts or amounts, not shares"
    if _THOUSANDS.fullmatch(text):
        return f"remove the thousands separators: {re.sub(r'[^-+.0-9]', '', text)}"
    if _MANY_POINTS.fullmatch(text) and (text.count(".") > 1 or "," in text):
        plain = text.replace(".", "").replace(",", ".")
        return f"remove the thousands separators and write a decimal point: {plain}"
    if _DECIMAL_COMMA.fullmatch(text):
        return f"write a decimal point: {text.replace(',', '.')}"
    if _CURRENCY.fullmatch(text):
        return "remove the currency sign"
    if _DASH.fullmatch(text):
        return f"write 0 if it means zero; {suppressed}"
    return f"{suppressed}, and write numbers without signs for units or thousands"
