"""Steps of post-processing: monotone functions of the noisy statistic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dpbayes.errors import ParameterError
from dpbayes.mechanism.preimage import Preimage

__all__ = ["Clamp", "Rescale", "Round", "Step", "Suppress"]


@runtime_checkable
class Step(Protocol):
    """One step of post-processing, a monotone function of the noisy statistic."""

    def forward(self, value: ArrayLike) -> np.ndarray:
        """Publish a noisy value; NaN (suppressed) stays NaN."""
        ...

    def preimage(self, released: Preimage | ArrayLike) -> Preimage:
        """Return what the value must have been before this step."""
        ...

    def describe(self) -> str:
        """Say in a few words what the step does."""
        ...


def _as_preimage(released: Preimage | ArrayLike) -> Preimage:
    return released if isinstance(released, Preimage) else Preimage.points(released)


def _number(name: str, value: Any, *, finite: bool = True) -> float:
    """Check that a parameter of a step is one number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ParameterError(f"{name} must be a number, got {value!r}")
    if np.isnan(value) or (finite and np.isinf(value)):
        raise ParameterError(f"{name} must be finite, got {value}")
    return float(value)


@dataclass(frozen=True)
class Rescale:
    """Multiply by a constant, as in published percentages or weighted-up samples.

    Parameters
    ----------
    factor : float
        Factor s, not 0. Log densities of the rescaled value gain -log|s|.
    """

    factor: float

    def __post_init__(self) -> None:
        factor = _number("factor", self.factor)
        if factor == 0:
            raise ParameterError("factor must not be 0: nothing could be learned from zeros")
        object.__setattr__(self, "factor", factor)

    def forward(self, value: ArrayLike) -> np.ndarray:
        """Multiply."""
        return np.asarray(value, float) * self.factor

    def preimage(self, released: Preimage | ArrayLike) -> Preimage:
        """Divide; a negative factor swaps the ends."""
        p = _as_preimage(released)
        jacobian = p.log_jacobian - np.where(p.lower == p.upper, np.log(abs(self.factor)), 0.0)
        if self.factor > 0:
            return replace(
                p, lower=p.lower / self.factor, upper=p.upper / self.factor, log_jacobian=jacobian
            )
        return Preimage(
            p.upper / self.factor, p.lower / self.factor, p.upper_closed, p.lower_closed, jacobian
        )

    def describe(self) -> str:
        """Say what the step does."""
        return f"multiplied by {self.factor:g}"


@dataclass(frozen=True)
class Round:
    """Round to multiples of a step; ties of mode "nearest" go to the even multiple.

    Parameters
    ----------
    mode : {"nearest", "floor", "ceil"}
        Which multiple is taken.
    step : float
        Distance between published values (> 0).
    """

    mode: str = "nearest"
    step: float = 1.0

    def __post_init__(self) -> None:
        if self.mode not in ("nearest", "floor", "ceil"):
            raise ParameterError(f"mode must be 'nearest', 'floor' or 'ceil', got {self.mode!r}")
        step = _number("step", self.step)
        if step <= 0:
            raise ParameterError(f"step must be positive, got {step}")
        object.__setattr__(self, "step", step)

    def forward(self, value: ArrayLike) -> np.ndarray:
        """Round."""
        function = {"nearest": np.rint, "floor": np.floor, "ceil": np.ceil}[self.mode]
        return function(np.asarray(value, float) / self.step) * self.step

    def preimage(self, released: Preimage | ArrayLike) -> Preimage:
        """All values that round into the interval."""
        p = _as_preimage(released).bounds(self.step)
        # Bounds on a lattice sit half a step outside its first and last members.
        point = p.lower == p.upper
        first = np.rint(np.where(point, p.lower, p.lower + 0.5 * self.step) / self.step)
        last = np.rint(np.where(point, p.upper, p.upper - 0.5 * self.step) / self.step)
        below, above = {"nearest": (0.5, 0.5), "floor": (0.0, 1.0), "ceil": (1.0, 0.0)}[self.mode]
        with np.errstate(invalid="ignore"):
            if self.mode == "nearest":
                lower_closed, upper_closed = np.mod(first, 2) == 0, np.mod(last, 2) == 0
            else:
                lower_closed = np.full(first.shape, self.mode == "floor")
                upper_closed = ~lower_closed
            image = Preimage(
                (first - below) * self.step,
                (last + above) * self.step,
                lower_closed & np.isfinite(first),
                upper_closed & np.isfinite(last),
                np.zeros(first.shape),
            )
        return image.without(p.empty)

    def describe(self) -> str:
        """Say what the step does."""
        how = {"nearest": "rounded", "floor": "rounded down", "ceil": "rounded up"}[self.mode]
        return f"{how} to multiples of {self.step:g}"


@dataclass(frozen=True)
class Clamp:
    """Replace values below `lower` by `lower` and above `upper` by `upper`.

    Parameters
    ----------
    lower, upper : float, optional
        Ends; None for none. A published end is a censored value, not a measured one.
    """

    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        low = -np.inf if self.lower is None else _number("lower", self.lower, finite=False)
        high = np.inf if self.upper is None else _number("upper", self.upper, finite=False)
        if np.isinf(low) and np.isinf(high):
            raise ParameterError("Clamp needs lower= or upper=, got neither")
        if low >= high:
            raise ParameterError(f"lower must be below upper, got lower={low:g} and upper={high:g}")
        object.__setattr__(self, "lower", None if np.isinf(low) else low)
        object.__setattr__(self, "upper", None if np.isinf(high) else high)

    @property
    def _ends(self) -> tuple[float, float]:
        low = -np.inf if self.lower is None else self.lower
        return low, np.inf if self.upper is None else self.upper

    def forward(self, value: ArrayLike) -> np.ndarray:
        """Clamp."""
        return np.clip(np.asarray(value, float), *self._ends)

    def preimage(self, released: Preimage | ArrayLike) -> Preimage:
        """Extend an interval that holds an end to infinity on that side."""
        p = _as_preimage(released)
        low, high = self._ends
        outside = (p.upper < low) | (p.lower > high)
        outside |= (p.upper == low) & ~p.upper_closed | (p.lower == high) & ~p.lower_closed
        from_below = (p.lower < low) | ((p.lower == low) & p.lower_closed)
        to_above = (p.upper > high) | ((p.upper == high) & p.upper_closed)
        image = Preimage(
            np.where(from_below & ~p.unexplained, -np.inf, p.lower),
            np.where(to_above & ~p.unexplained, np.inf, p.upper),
            p.lower_closed & ~from_below,
            p.upper_closed & ~to_above,
            np.where(from_below | to_above, 0.0, p.log_jacobian),
        )
        return image.without(outside | p.empty)

    def describe(self) -> str:
        """Say what the step does."""
        parts = [] if self.lower is None else [f"raised to {self.lower:g} where below it"]
        parts += [] if self.upper is None else [f"lowered to {self.upper:g} where above it"]
        return " and ".join(parts)


@dataclass(frozen=True)
class Suppress:
    """Publish only values that reach a threshold; the others are missing (NaN).

    Parameters
    ----------
    below : float
        Values below this are not published.
    inclusive : bool
        Whether a value equal to the threshold is withheld too.
    """

    below: float
    inclusive: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "below", _number("below", self.below))

    def forward(self, value: ArrayLike) -> np.ndarray:
        """Withhold small values."""
        array = np.asarray(value, float)
        hidden = array <= self.below if self.inclusive else array < self.below
        return np.where(hidden, np.nan, array)

    def preimage(self, released: Preimage | ArrayLike) -> Preimage:
        """Place a missing value below the threshold, a published one at or above it."""
        p = _as_preimage(released)
        shape = p.lower.shape
        hidden = Preimage(
            np.full(shape, -np.inf),
            np.full(shape, self.below),
            np.zeros(shape, dtype=bool),
            np.full(shape, self.inclusive),
            np.zeros(shape),
        )
        cut = (p.lower < self.below) | ((p.lower == self.below) & self.inclusive)
        shown = replace(
            p,
            lower=np.where(cut, self.below, p.lower),
            lower_closed=np.where(cut, not self.inclusive, p.lower_closed),
        )
        # The threshold may cut a point away: that value could not have been published.
        return shown.without(p.empty | shown.empty).where(p.unexplained, hidden)

    def describe(self) -> str:
        """Say what the step does."""
        return f"withheld where {'at or ' if self.inclusive else ''}below {self.below:g}"
