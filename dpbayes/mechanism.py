"""Data release mechanisms: additive noise followed by post-processing steps.

A mechanism is the conditional law Q(z | x) of a release given the statistic. Each step
after the noise is a monotone function, so that every published value says "statistic +
noise lies in this interval": a point where nothing but rescaling happened, an interval
after rounding, clamping or suppression.

References
----------
Wasserman & Zhou (2010), section 2; Lemma 2.6 (1) for post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dpbayes.errors import ImpossibleReleaseError, ParameterError, UnsupportedError
from dpbayes.noise import NoiseLaw

__all__ = [
    "Clamp",
    "Mechanism",
    "Preimage",
    "Rescale",
    "Round",
    "Step",
    "Suppress",
    "as_mechanism",
]

#: A value this close to a lattice point, in units of the lattice's step, is on it.
LATTICE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Preimage:
    """Where statistic + noise must have been, one interval per released value.

    Parameters
    ----------
    lower, upper : ndarray
        Ends, possibly infinite; equal for a point. ``lower > upper`` marks an impossible
        value, NaN a suppressed one that no step has explained yet.
    lower_closed, upper_closed : ndarray of bool
        Whether the ends belong to the interval.
    log_jacobian : ndarray
        Added to the log density of a point (0 for intervals).
    """

    lower: np.ndarray
    upper: np.ndarray
    lower_closed: np.ndarray
    upper_closed: np.ndarray
    log_jacobian: np.ndarray

    @classmethod
    def points(cls, values: ArrayLike) -> Preimage:
        """Preimage under no step at all."""
        array = np.array(values, dtype=float)
        closed = np.ones(array.shape, dtype=bool)
        return cls(array, array.copy(), closed, closed.copy(), np.zeros(array.shape))

    @property
    def empty(self) -> np.ndarray:
        """Mask of impossible values."""
        closed = self.lower_closed & self.upper_closed
        return (self.lower > self.upper) | ((self.lower == self.upper) & ~closed)

    @property
    def unexplained(self) -> np.ndarray:
        """Mask of suppressed values that no step explains."""
        return np.isnan(self.lower)

    def where(self, mask: np.ndarray, other: Preimage) -> Preimage:
        """Take `other` where the mask holds."""
        return Preimage(*(np.where(mask, getattr(other, f), getattr(self, f)) for f in _FIELDS))

    def without(self, mask: np.ndarray) -> Preimage:
        """Mark values as impossible."""
        return replace(
            self,
            lower=np.where(mask, np.inf, self.lower),
            upper=np.where(mask, -np.inf, self.upper),
        )

    def bounds(self, step: float = 0.0) -> Preimage:
        """Canonical half-open form, the one that kernels take.

        Parameters
        ----------
        step : float
            Distance of the lattice on which statistic + noise lives, 0 if continuous.

        Returns
        -------
        Preimage
            ``lower == upper`` is a point: a density, or a mass on the lattice. Otherwise
            the likelihood is P(lower < statistic + noise <= upper), and on a lattice the
            finite ends sit half a step off it, so that open and closed ends no longer
            matter. Impossible values have ``lower > upper``.
        """
        if step == 0.0:
            return self
        low, high = self.lower / step, self.upper / step
        tol = LATTICE_TOLERANCE
        with np.errstate(invalid="ignore"):
            first = np.where(self.lower_closed, np.ceil(low - tol), np.floor(low + tol) + 1.0)
            last = np.where(self.upper_closed, np.floor(high + tol), np.ceil(high - tol) - 1.0)
        single, none = first == last, (first > last) | self.empty
        lower = np.where(single, first, first - 0.5) * step
        upper = np.where(single, last, last + 0.5) * step
        return Preimage(
            np.where(none, np.inf, lower),
            np.where(none, -np.inf, upper),
            single,
            np.ones_like(single),
            np.zeros_like(self.log_jacobian),
        )


_FIELDS = ("lower", "upper", "lower_closed", "upper_closed", "log_jacobian")


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


@dataclass(frozen=True)
class Mechanism:
    """Additive noise of a known law, then post-processing steps in order.

    Parameters
    ----------
    noise : NoiseLaw
        Law of the noise that was added to the statistic.
    steps : sequence of Step
        `Rescale`, `Round`, `Clamp`, `Suppress`, in the order in which they were applied.

    Raises
    ------
    ParameterError
        If `noise` is a bare number, a step is not a step, or there are two `Suppress`.

    Examples
    --------
    >>> from dpbayes.noise import DiscreteLaplace
    >>> Mechanism(DiscreteLaplace(scale=10), steps=[Clamp(lower=0)])
    Mechanism(noise=DiscreteLaplace(scale=10.0, step=1.0), steps=(Clamp(lower=0.0, upper=None),))
    """

    noise: NoiseLaw
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.noise, NoiseLaw):
            raise ParameterError(
                f"noise must be a noise law such as Laplace(scale=...), got {self.noise!r}"
            )
        steps = self.steps
        if isinstance(steps, Step) or not isinstance(steps, Iterable):
            raise ParameterError(f"steps must be a list of steps, got {steps!r}")
        steps = tuple(steps)
        for i, step in enumerate(steps):
            if isinstance(step, type) or not isinstance(step, Step):
                raise ParameterError(
                    f"steps[{i}] must be Rescale, Round, Clamp or Suppress, got {step!r}"
                )
        if sum(isinstance(step, Suppress) for step in steps) > 1:
            raise ParameterError("steps must hold at most one Suppress: combine the thresholds")
        object.__setattr__(self, "steps", steps)

    @property
    def suppresses(self) -> bool:
        """Whether values may be withheld."""
        return any(isinstance(step, Suppress) for step in self.steps)

    def forward(self, noisy: ArrayLike) -> np.ndarray:
        """Apply the steps to statistic + noise."""
        value = np.asarray(noisy, float)
        for step in self.steps:
            value = step.forward(value)
        return value

    def sample(self, statistic: ArrayLike, rng: Any = None) -> np.ndarray:
        """Draw a release of this statistic.

        Parameters
        ----------
        statistic : array_like
            True values; independent noise is drawn for each.
        rng : Generator, int or None
            Source of randomness.
        """
        truth = np.asarray(statistic, float)
        shape = np.broadcast_shapes(truth.shape, self.noise.shape)
        return self.forward(truth + self.noise.rvs(shape, np.random.default_rng(rng)))

    def interval(self, released: ArrayLike, label: Callable[[int], str] | None = None) -> Preimage:
        """Where statistic + noise must have been for each released value.

        Parameters
        ----------
        released : array_like
            Published values; NaN where a value was suppressed.
        label : callable, optional
            Names the value at a flat index in error messages.

        Raises
        ------
        ImpossibleReleaseError
            If a value cannot come from this mechanism; names the value and the step.
        """
        original = np.asarray(released, dtype=float)
        name = label or (lambda i: f"value at index {i}")
        current = Preimage.points(original)
        self._refuse(np.isinf(original), original, name, "is infinite; releases are finite numbers")
        for step in reversed(self.steps):
            current = step.preimage(current)
            self._refuse(
                current.empty,
                original,
                name,
                f"cannot have been published: values were {step.describe()}",
            )
        self._refuse(
            current.unexplained,
            original,
            name,
            "is missing, but the mechanism withholds nothing: add a Suppress(below=...) step, "
            "or give the value",
        )
        return current

    @staticmethod
    def _refuse(
        mask: np.ndarray, values: np.ndarray, name: Callable[[int], str], reason: str
    ) -> None:
        if not mask.any():
            return
        first = int(np.flatnonzero(mask)[0])
        others = int(mask.sum()) - 1
        more = f" (and {others} more such value{'s' if others > 1 else ''})" if others else ""
        value = values.reshape(-1)[first]
        shown = "" if np.isnan(value) else f": {value:.15g}"
        raise ImpossibleReleaseError(f"{name(first)}{shown} {reason}{more}")

    def integer_step(self) -> float:
        """Lattice of an integer statistic plus the noise: 0 if the noise is continuous."""
        noise = self.noise
        if not noise.is_lattice:
            return 0.0
        if noise.step >= 1.0 and abs(noise.step - round(noise.step)) <= 1e-9 * noise.step:
            return 1.0
        if abs(1.0 / noise.step - round(1.0 / noise.step)) <= 1e-9 / noise.step:
            return noise.step
        raise UnsupportedError(
            f"noise on a lattice of step {noise.step:g} shares no lattice with integer counts; "
            "the step or one over it must be a whole number"
        )

    def integer_bounds(
        self, released: ArrayLike, label: Callable[[int], str] | None = None
    ) -> Preimage:
        """Canonical bounds of count + noise for released counts.

        Raises
        ------
        ImpossibleReleaseError
            If a value cannot come from integer counts; names the value and the lattice.
        """
        step = self.integer_step()
        bounds = self.interval(released, label).bounds(step)
        self._refuse(
            bounds.empty,
            np.asarray(released, float),
            label or (lambda i: f"value at index {i}"),
            f"cannot come from a whole count plus noise on multiples of {step:g}; state the "
            "rounding or rescaling that was applied as a step, or use continuous noise",
        )
        return bounds

    def log_likelihood(self, released: ArrayLike, statistic: ArrayLike) -> np.ndarray:
        """Log Q(released | statistic), elementwise over the broadcast shapes.

        Parameters
        ----------
        released : array_like
            Published values (NaN where suppressed).
        statistic : array_like
            Candidate true values; whole numbers where the noise lives on a lattice.

        Returns
        -------
        ndarray
            Log density where the released value is a point of a continuous law, log
            probability otherwise.
        """
        found = self.integer_bounds(released) if self.noise.is_lattice else self.interval(released)
        return bounds_log_likelihood(self.noise, found, statistic)

    def describe(self) -> list[str]:
        """Say in words what happened to the statistic, one phrase per step."""
        return [f"noise {self.noise!r} was added", *(step.describe() for step in self.steps)]


def bounds_log_likelihood(noise: NoiseLaw, bounds: Preimage, statistic: ArrayLike) -> np.ndarray:
    """Log likelihood of canonical bounds given the true statistic.

    Parameters
    ----------
    noise : NoiseLaw
        Law whose parameters broadcast with the bounds.
    bounds : Preimage
        Canonical bounds, as from `Preimage.bounds`.
    statistic : array_like
        Candidate true values, broadcast with the bounds.
    """
    truth = np.asarray(statistic, float)
    point = bounds.lower == bounds.upper
    result = np.full(np.broadcast_shapes(point.shape, truth.shape, noise.shape), -np.inf)
    if point.any():
        density = noise.logpdf(np.where(point, bounds.lower, 0.0) - truth) + bounds.log_jacobian
        result = np.where(point, density, result)
    if not point.all():
        result = np.where(
            point, result, noise.log_interval(bounds.lower - truth, bounds.upper - truth)
        )
    return result


def as_mechanism(value: Any) -> Mechanism:
    """Accept a noise law alone wherever a mechanism is wanted."""
    if isinstance(value, Mechanism):
        return value
    if isinstance(value, NoiseLaw):
        return Mechanism(value)
    raise ParameterError(
        f"mechanism must be a Mechanism or a noise law such as Laplace(scale=...), got {value!r}: "
        "a bare number could be a scale, a rate, a standard deviation or an epsilon"
    )
