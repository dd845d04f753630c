"""Noise of any known density, and no noise at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.noise.base import NoiseLaw, Parameter, positive

__all__ = ["CustomNoise", "NoNoise"]


def _cannot_sample(size: Any = None, rng: Any = None) -> np.ndarray:
    """Stand in for a sampler that was not given."""
    raise UnsupportedError("CustomNoise cannot be sampled: give it rvs=, a function (size, rng)")


@dataclass(frozen=True, eq=False, kw_only=True)
class CustomNoise(NoiseLaw):
    """Continuous noise of any known density.

    Parameters
    ----------
    logpdf : callable
        Vectorised log density of the noise.
    cdf : callable, optional
        Vectorised distribution function: needed for rounding, clamping and suppression.
    rvs : callable, optional
        ``rvs(size, rng)``: needed for simulation and posterior predictive checks.
    sd : float
        Standard deviation of the noise, in the units of the released statistic.

    References
    ----------
    Wasserman & Zhou (2010), Example 2.1.
    """

    # field() keeps dataclass from taking the base class's methods as defaults.
    logpdf: Callable[[Any], Any] = field()  # type: ignore[assignment]
    cdf: Callable[[Any], Any] | None = None
    rvs: Callable[..., Any] = _cannot_sample
    sd: Parameter = field()

    def __post_init__(self) -> None:
        for name in ("logpdf", "cdf", "rvs"):
            value = getattr(self, name)
            if not callable(value) and not (value is None and name == "cdf"):
                raise ParameterError(f"{name} must be callable, got {value!r}")
        object.__setattr__(self, "sd", positive("sd", self.sd))

    def log_interval(self, lower: ArrayLike, upper: ArrayLike) -> np.ndarray:
        """Log P(lower < noise <= upper) = log(cdf(upper) - cdf(lower))."""
        if self.cdf is None:
            raise UnsupportedError(
                "CustomNoise needs cdf= when values are rounded, clamped or suppressed"
            )
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(np.asarray(self.cdf(upper)) - self.cdf(lower), 0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class NoNoise(NoiseLaw):
    """No noise: the statistic itself was published (perhaps rounded, clamped or suppressed)."""

    is_lattice = True
    step = 1.0

    @property
    def sd(self) -> float:
        """Standard deviation, 0."""
        return 0.0

    def logpdf(self, x: ArrayLike) -> np.ndarray:
        """Log mass: 0 at 0, -inf elsewhere."""
        return np.where(np.asarray(x, float) == 0, 0.0, -np.inf)

    def log_interval(self, lower: ArrayLike, upper: ArrayLike) -> np.ndarray:
        """Log P(lower < 0 <= upper)."""
        inside = (np.asarray(lower, float) < 0) & (np.asarray(upper, float) >= 0)
        return np.where(inside, 0.0, -np.inf)

    def ppf(self, q: ArrayLike) -> np.ndarray:
        """Quantile: 0."""
        return np.zeros(np.shape(q))

    def rvs(self, size: Any = None, rng: Any = None) -> np.ndarray:
        """Return zeros."""
        return np.zeros(self._size(size))
