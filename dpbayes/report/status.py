"""What a report says first: whether its figures may be used, in plain words."""

from __future__ import annotations

from dataclasses import dataclass

from dpbayes.posterior.verdict import Verdict

__all__ = ["Status", "calculation", "check_finds"]


@dataclass(frozen=True)
class Status:
    """Verdict as a reader sees it first.

    Parameters
    ----------
    code : str
        ``ok``, ``caution`` or ``stop``.
    label : str
        The same in words.
    lines : tuple of str
        Why, in plain words.
    details : tuple of str
        Figures behind that.
    """

    code: str
    label: str
    lines: tuple[str, ...]
    details: tuple[str, ...] = ()


def calculation(verdict: Verdict) -> str:
    """Say in plain words whether the draws may be trusted, and what to do if not."""
    if verdict.converged:
        return "The calculation can be trusted."
    smaller = verdict.diagnostics.get("divergences", 0) > 0
    how = "with smaller steps (--target-accept 0.99)" if smaller else "with more draws (--draws)"
    return f"The calculation cannot be trusted yet: run it again {how}."


def check_finds(total_known: bool) -> str:
    """Say what the predictive check can find and what it cannot."""
    scale = "compare the scale with the publisher’s documentation."
    if total_known:
        return (
            "It finds wrong totals, bounds and shapes. It cannot find a noise scale that is stated "
            f"too small: {scale}"
        )
    return (
        "As the total is unknown, the true count of every cell is fitted to its own value. The "
        "check finds values that no count with the stated noise explains, such as counts far "
        "below zero, and a clamp or threshold that is missing in the description. It cannot find "
        "that counts are too large or too small altogether, nor a noise scale that is stated "
        f"wrongly: {scale}"
    )
