"""Numbers for people: rounded to what the interval supports, thousands apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["decimals", "number", "percent", "span"]

MISSING = "–"


def decimals(spreads: Sequence[float] | np.ndarray | float, most: int = 6) -> int:
    """Decimals that show two digits of a typical spread (the median of the positive ones)."""
    array = np.atleast_1d(np.asarray(spreads, dtype=float))
    array = array[np.isfinite(array) & (array > 0)]
    if array.size == 0:
        return 0
    return int(np.clip(1 - np.floor(np.log10(np.median(array))), 0, most))


def number(value: float, digits: int) -> str:
    """Write a number with a fixed number of decimals and a true minus sign."""
    if not np.isfinite(value):
        return MISSING
    text = f"{value:,.{digits}f}"
    if text.startswith("-") and not text.strip("-0.,"):
        text = text[1:]  # no minus zero
    return text.replace("-", "\N{MINUS SIGN}")


def percent(value: float, digits: int) -> str:
    """Write a share as a percentage."""
    text = number(100.0 * value, digits)
    return text if text == MISSING else f"{text}%"


def span(lower: float, upper: float, digits: int, share: bool = False) -> str:
    """Write an interval in words."""
    write = percent if share else number
    if not (np.isfinite(lower) and np.isfinite(upper)):
        return MISSING
    return f"{write(lower, digits)} to {write(upper, digits)}"
