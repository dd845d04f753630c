"""Numbers, intervals and lists in words."""

from __future__ import annotations

import numpy as np

__all__ = ["amount", "interval", "plural", "quoted", "spread"]


def amount(value: float, digits: int = 3) -> str:
    """Write a number with a few significant digits, whole numbers in full, thousands apart."""
    if not np.isfinite(value):
        return "infinity" if value > 0 else "-infinity"
    if value == 0 or abs(value) >= 10**digits:
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3g}"
    return f"{float(f'{value:.{digits}g}'):.12g}"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """Write a number of things."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def spread(values: np.ndarray | float) -> str:
    """Write one number, or the range of several."""
    low, high = float(np.min(values)), float(np.max(values))
    return amount(low) if low == high else f"{amount(low)} to {amount(high)}"


def interval(lower: float, upper: float, step: float) -> str:
    """Say where statistic + noise was, from canonical bounds (ends off the lattice)."""
    if step > 0:
        first, last = lower + 0.5 * step, upper - 0.5 * step
        if np.isinf(lower):
            return f"{amount(last, 6)} or less"
        if np.isinf(upper):
            return f"{amount(first, 6)} or more"
        return f"between {amount(first, 6)} and {amount(last, 6)}"
    if np.isinf(lower):
        return f"below {amount(upper, 6)}"
    if np.isinf(upper):
        return f"above {amount(lower, 6)}"
    return f"between {amount(lower, 6)} and {amount(upper, 6)}"


def quoted(value: float) -> str:
    """Write a released value exactly."""
    return f"{value:.15g}"
