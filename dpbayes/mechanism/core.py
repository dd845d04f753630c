"""Additive noise of a known law followed by steps of post-processing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbayes.errors import ImpossibleReleaseError, ParameterError, UnsupportedError
from dpbayes.mechanism.preimage import Preimage
from dpbayes.mechanism.steps import Step, Suppress
from dpbayes.noise import NoiseLaw

__all__ = ["Mechanism", "as_mechanism", "bounds_log_likelihood"]


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
