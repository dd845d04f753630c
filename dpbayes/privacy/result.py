"""What an audit found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes.privacy.composition import power_bound

__all__ = ["Audit"]

#: Relative slack when a privacy loss is held against a claim.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Audit:
    """Privacy loss of a mechanism, between two bounds.

    Parameters
    ----------
    epsilon : float
        Loss that was found: the supremum of the log ratio is at least this.
    upper : float
        Loss that was ruled out: the supremum is at most this (inf where nothing is known).
    pair : tuple
        Neighbours at which the loss was found.
    output : object
        Output at which it was found, or a phrase for a limit.
    claim : float or None
        Alpha that was claimed.
    reason : str
        How the bounds were found.
    """

    epsilon: float
    upper: float
    pair: tuple[Any, Any] | None
    output: Any
    claim: float | None
    reason: str

    @property
    def exact(self) -> bool:
        """Whether both bounds agree."""
        if np.isinf(self.epsilon):
            return True
        return bool(self.upper - self.epsilon <= TOLERANCE * max(1.0, self.epsilon))

    @property
    def holds(self) -> bool | None:
        """Whether the claim is true; None where there is none or the bounds leave it open."""
        if self.claim is None:
            return None
        slack = TOLERANCE * max(1.0, self.claim)
        if self.epsilon > self.claim + slack:
            return False
        return True if self.upper <= self.claim + slack else None

    def power(self, level: float) -> float:
        """Largest power of a test of this level about one record (see `power_bound`)."""
        return power_bound(level, self.upper) if self.upper > 0 else level

    def __str__(self) -> str:
        found = f"privacy loss {self.epsilon:.6g}"
        if not self.exact:
            found = f"privacy loss between {self.epsilon:.6g} and {self.upper:.6g}"
        lines = [f"{found} ({self.reason})"]
        if self.pair is not None:
            lines.append(f"at data {_short(self.pair[0])} and {_short(self.pair[1])}")
            lines[-1] += f", output {_short(self.output)}"
        if self.claim is not None:
            verdict = {True: "holds", False: "is wrong", None: "is not decided"}[self.holds]
            lines.append(f"the claim of {self.claim:.6g} {verdict}")
        return "\n".join(lines)


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
