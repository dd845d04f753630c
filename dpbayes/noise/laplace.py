"""Laplace noise: continuous, on a lattice, and truncated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbayes.errors import ParameterError
from dpbayes.kernels.families import DISCRETE_LAPLACE, LAPLACE
from dpbayes.noise.base import NoiseLaw, Parameter, check_level, elementwise, positive, solve_scale

__all__ = ["DiscreteLaplace", "Laplace", "TruncatedDiscreteLaplace", "TruncatedLaplace"]


class _ScaleLaw(NoiseLaw):
    """Ways in that all laws of the Laplace kind share."""

    @classmethod
    def from_epsilon(cls, *, epsilon: Parameter, sensitivity: Parameter, **other: Any) -> Self:
        """Law that the Laplace mechanism uses: scale = sensitivity / epsilon.

        Parameters
        ----------
        epsilon : float
            Privacy loss of this one release (not of a whole series of queries).
        sensitivity : float
            L1 sensitivity: the largest change of the released vector between neighbours.
        **other
            Further parameters of the law, such as `bound` or `step`.
        """
        eps = positive("epsilon", epsilon)
        return cls(scale=positive("sensitivity", sensitivity) / eps, **other)

    @classmethod
    def from_variance(cls, *, variance: Parameter, **other: Any) -> Self:
        """Law with this variance of the noise."""
        return cls.from_sd(sd=np.sqrt(positive("variance", variance)), **other)

    @classmethod
    def from_sd(cls, *, sd: Parameter, **other: Any) -> Self:
        """Law with this standard deviation of the noise."""

        def one(target: float) -> float:
            return solve_scale(lambda b: float(cls(scale=b, **other).sd) - target, target)

        return cls(scale=elementwise(one, positive("sd", sd)), **other)

    @classmethod
    def from_half_width(cls, *, half_width: Parameter, level: float = 0.95, **other: Any) -> Self:
        r"""Law with P(\|noise\| <= half_width) = level."""
        check_level(level)

        def one(target: float) -> float:
            def excess(b: float) -> float:
                law = cls(scale=b, **other)
                # Half a step off the lattice, so that both ends of ±target count.
                reach = target
                if law.is_lattice:
                    reach = (np.floor(target / law.step + 1e-6) + 0.5) * law.step
                return level - float(np.exp(law.log_interval(-reach, reach)))

            return solve_scale(excess, target)

        return cls(scale=elementwise(one, positive("half_width", half_width)), **other)

    def epsilon(self, *, sensitivity: float) -> Parameter:
        """Pure-DP epsilon = sensitivity / scale."""
        return positive("sensitivity", sensitivity) / self.scale


@dataclass(frozen=True, eq=False, kw_only=True)
class Laplace(_ScaleLaw):
    r"""Continuous Laplace noise with density exp(-|x|/b) / (2b).

    ========  ===========
    support   real line
    mean      0
    variance  2 b²
    ========  ===========

    Parameters
    ----------
    scale : float or array
        Noise scale b (b > 0), in the units of the released statistic.

    Raises
    ------
    ParameterError
        If `scale` is not positive and finite.

    References
    ----------
    Wasserman & Zhou (2010), Example 2.1 and Lemma 2.6 (3).

    Examples
    --------
    >>> Laplace.from_epsilon(epsilon=0.5, sensitivity=1)
    Laplace(scale=2.0)
    """

    scale: Parameter
    family = LAPLACE

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))

    @property
    def sd(self) -> Parameter:
        """Standard deviation √2 b."""
        return np.sqrt(2.0) * self.scale

    @classmethod
    def from_sd(cls, *, sd: Parameter, **other: Any) -> Self:
        """Law with this standard deviation: b = sd / √2."""
        return cls(scale=positive("sd", sd) / np.sqrt(2.0), **other)

    @classmethod
    def from_half_width(cls, *, half_width: Parameter, level: float = 0.95, **other: Any) -> Self:
        r"""Law with P(\|noise\| <= half_width) = level: b = half_width / -log(1 - level)."""
        check_level(level)
        return cls(scale=positive("half_width", half_width) / -np.log1p(-level), **other)

    def logpdf(self, x: ArrayLike) -> np.ndarray:
        """Log density at `x`."""
        return -np.abs(np.asarray(x, float)) / self.scale - np.log(2.0 * self.scale)

    def log_interval(self, lower: ArrayLike, upper: ArrayLike) -> np.ndarray:
        """Log P(lower < noise <= upper), without cancellation in either tail."""
        low, high, b = np.broadcast_arrays(lower, upper, np.asarray(self.scale))
        return _log_interval_laplace(low / b, high / b)

    def ppf(self, q: ArrayLike) -> np.ndarray:
        """Quantile of the noise."""
        p = np.asarray(q, float)
        with np.errstate(divide="ignore"):
            return np.where(p < 0.5, np.log(2 * p), -np.log(2 * (1 - p))) * self.scale

    def rvs(self, size: Any = None, rng: Any = None) -> np.ndarray:
        """Draw noise; `size` defaults to the shape of the parameters."""
        return np.random.default_rng(rng).laplace(0.0, self.scale, self._size(size))


@dataclass(frozen=True, eq=False, kw_only=True)
class DiscreteLaplace(_ScaleLaw):
    r"""Two-sided geometric noise: mass ∝ exp(-|k| h/b) on multiples k h of the step h.

    ========  ======================================
    support   multiples of `step`
    mean      0
    variance  2 q h² / (1 - q)², q = exp(-h/b)
    ========  ======================================

    Parameters
    ----------
    scale : float or array
        Noise scale b (b > 0), in the units of the released statistic.
    step : float
        Distance h of the lattice, in the same units.

    Raises
    ------
    ParameterError
        If `scale` or `step` is not positive and finite.

    References
    ----------
    Ghosh, Roughgarden & Sundararajan (2012), Universally utility-maximizing privacy
    mechanisms, section 2.
    """

    scale: Parameter
    step: float = 1.0
    family = DISCRETE_LAPLACE
    is_lattice = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))
        object.__setattr__(self, "step", _one_step(self.step))

    @property
    def _ratio(self) -> Parameter:
        return np.exp(-self.step / self.scale)

    @property
    def sd(self) -> Parameter:
        """Standard deviation h √(2q) / (1 - q)."""
        return self.step * np.sqrt(2.0 * self._ratio) / -np.expm1(-self.step / self.scale)

    @classmethod
    def from_sd(cls, *, sd: Parameter, **other: Any) -> Self:
        """Law with this standard deviation, by solving 2q h²/(1-q)² = sd² for q."""
        step = _one_step(other.get("step", 1.0))
        v = (positive("sd", sd) / step) ** 2
        # log q from the smaller root of v q² - 2(v+1) q + v = 0, without cancellation.
        log_q = -np.log1p((1.0 + np.sqrt(2.0 * v + 1.0)) / v)
        return cls(scale=-step / log_q, **other)

    def logpdf(self, x: ArrayLike) -> np.ndarray:
        """Log mass at `x`: -inf off the lattice."""
        value = np.asarray(x, float)
        on = np.abs(value - self.step * np.rint(value / self.step)) <= 1e-6 * self.step
        log_mass = np.log(np.tanh(0.5 * self.step / self.scale)) - np.abs(value) / self.scale
        return np.where(on, log_mass, -np.inf)

    def log_interval(self, lower: ArrayLike, upper: ArrayLike) -> np.ndarray:
        """Log P(lower < noise <= upper), without cancellation in either tail."""
        low, high, b = np.broadcast_arrays(lower, upper, np.asarray(self.scale))
        first = np.floor(low / self.step + 1e-6) + 1.0
        last = np.floor(high / self.step + 1e-6)
        return _log_interval_discrete(first, last, self.step / b)

    def ppf(self, q: ArrayLike) -> np.ndarray:
        """Quantile of the noise, a multiple of the step."""
        p = np.asarray(q, float)
        rate = self.step / np.asarray(self.scale, float)
        log1pq = np.log1p(np.exp(-rate))
        with np.errstate(divide="ignore"):
            # P(k <= -j) = q^j/(1+q) below zero, P(k > j) = q^(j+1)/(1+q) above.
            below = np.ceil((np.log(p) + log1pq) / rate - 1e-12)
            above = np.ceil(-(np.log1p(-p) + log1pq) / rate - 1.0 - 1e-12)
        return self.step * np.where(p <= np.exp(-rate - log1pq), below, np.maximum(above, 0.0))

    def rvs(self, size: Any = None, rng: Any = None) -> np.ndarray:
        """Draw noise as a difference of two geometric variables."""
        gen, shape = np.random.default_rng(rng), self._size(size)
        p = -np.expm1(-self.step / np.asarray(self.scale))
        return self.step * (gen.geometric(p, shape) - gen.geometric(p, shape)).astype(float)


class _Truncated(_ScaleLaw):
    r"""A Laplace law conditioned on \|noise\| <= bound (the normaliser is the same everywhere)."""

    bound: Parameter

    @property
    def _parent(self) -> Laplace | DiscreteLaplace:
        return Laplace(scale=self.scale)

    @property
    def _reach(self) -> np.ndarray:
        """Half-open ends ±reach that hold the whole support, clear of any lattice point."""
        return np.asarray(self.bound, float)

    @property
    def _log_mass(self) -> np.ndarray:
        return self._parent.log_interval(-self._reach, self._reach)

    def logpdf(self, x: ArrayLike) -> np.ndarray:
        """Log density (or mass) at `x`: -inf beyond the bound."""
        value = np.asarray(x, float)
        inside = np.abs(value) <= self.bound * (1 + 1e-9)
        return np.where(inside, self._parent.logpdf(value) - self._log_mass, -np.inf)

    def log_interval(self, lower: ArrayLike, upper: ArrayLike) -> np.ndarray:
        """Log P(lower < noise <= upper)."""
        reach = self._reach
        low, high = np.clip(lower, -reach, reach), np.clip(upper, -reach, reach)
        return np.minimum(self._parent.log_interval(low, high) - self._log_mass, 0.0)

    def ppf(self, q: ArrayLike) -> np.ndarray:
        """Quantile of the noise, by the parent's quantile of the rescaled level."""
        outside = np.exp(self._parent.logsf(self._reach))
        inner = outside + np.asarray(q, float) * np.exp(self._log_mass)
        edge = self._reach - 0.5 * self.step  # the last point of the support
        return np.clip(self._parent.ppf(inner), -edge, edge)

    def rvs(self, size: Any = None, rng: Any = None) -> np.ndarray:
        """Draw noise by inversion, at one cost however narrow the bound."""
        gen, shape = np.random.default_rng(rng), self._size(size)
        return self.ppf(gen.random(shape))

    def epsilon(self, *, sensitivity: float) -> Parameter:
        """Not defined: outputs near the bound are impossible for a neighbour."""
        return NoiseLaw.epsilon(self, sensitivity=sensitivity)


@dataclass(frozen=True, eq=False, kw_only=True)
class TruncatedLaplace(_Truncated):
    r"""Laplace noise truncated at ±bound: density ∝ exp(-|x|/b) for |x| <= bound.

    Parameters
    ----------
    scale : float or array
        Noise scale b of the law before truncation, in the units of the statistic.
    bound : float or array
        Largest possible noise, in the units of the statistic.

    Notes
    -----
    Truncation by the curator does not depend on the data. It is (ε, δ)-private, not ε-private.

    References
    ----------
    Geng, Ding, Guo & Kumar (2020), Tight analysis of privacy and utility tradeoff in
    approximate differential privacy, AISTATS, Definition 2.
    """

    scale: Parameter
    bound: Parameter

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))
        object.__setattr__(self, "bound", positive("bound", self.bound))

    @property
    def sd(self) -> Parameter:
        """Standard deviation: E[x²] = (2b² - (B² + 2bB + 2b²) e^(-B/b)) / (1 - e^(-B/b))."""
        b, r = self.scale, np.asarray(self.bound) / self.scale
        direct = 2.0 - (r * r + 2.0 * r + 2.0) * np.exp(-r)
        # The difference cancels for small r, where its series is r³/3 - r⁴/4 + r⁵/10 - r⁶/36.
        series = r**3 * (1 / 3 - r / 4 + r**2 / 10 - r**3 / 36)
        return b * np.sqrt(np.where(r < 1e-2, series, direct) / -np.expm1(-r))[()]


@dataclass(frozen=True, eq=False, kw_only=True)
class TruncatedDiscreteLaplace(_Truncated):
    r"""Two-sided geometric noise truncated at ±bound, on multiples of `step`.

    Parameters
    ----------
    scale : float or array
        Noise scale b of the law before truncation, in the units of the statistic.
    bound : float or array
        Largest possible noise, in the units of the statistic.
    step : float
        Distance of the lattice.
    """

    scale: Parameter
    bound: Parameter
    step: float = 1.0
    is_lattice = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))
        object.__setattr__(self, "bound", positive("bound", self.bound))
        object.__setattr__(self, "step", _one_step(self.step))

    @property
    def _parent(self) -> DiscreteLaplace:
        return DiscreteLaplace(scale=self.scale, step=self.step)

    @property
    def _reach(self) -> np.ndarray:
        return (np.floor(np.asarray(self.bound) / self.step + 1e-6) + 0.5) * self.step

    @property
    def sd(self) -> Parameter:
        """Standard deviation, by summing over the support."""

        def one(scale: float, bound: float) -> float:
            k = self.step * np.arange(1.0, np.floor(bound / self.step + 1e-6) + 1.0)
            mass = np.exp(-k / scale)
            return float(np.sqrt(2.0 * np.sum(k * k * mass) / (1.0 + 2.0 * np.sum(mass))))

        return np.vectorize(one, otypes=[float])(self.scale, self.bound)[()]


def _one_step(step: Any) -> float:
    if np.ndim(step) != 0:
        raise ParameterError(f"step must be one number for all cells, got shape {np.shape(step)}")
    return float(positive("step", step))


def _log_interval_laplace(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Log P(low < x <= high) of the standard Laplace law."""
    # The interval is mirrored so that its far end lies on the left, where the tail is exp.
    flip = high > -low  # low + high > 0, also where both are infinite
    left = np.where(flip, -high, low)
    right = np.where(flip, -low, high)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        one_sided = np.log(0.5) + right + np.log(-np.expm1(np.minimum(left - right, 0.0)))
        both = np.log(-0.5 * np.expm1(np.minimum(left, 0)) - 0.5 * np.expm1(-np.maximum(right, 0)))
    result = np.where(right <= 0, one_sided, both)
    return np.where(left < right, result, -np.inf)


def _log_interval_discrete(first: np.ndarray, last: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Log P(first <= k <= last) of the law with mass ∝ exp(-rate |k|)."""
    flip = last > -first  # first + last > 0, also where both are infinite
    low = np.where(flip, -last, first)
    high = np.where(flip, -first, last)
    norm = np.log1p(np.exp(-rate))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        width = np.minimum(low - high - 1.0, 0.0) * rate
        one_sided = high * rate + np.log(-np.expm1(width))
        upper = -np.expm1(-(np.maximum(high, 0.0) + 1.0) * rate)
        both = np.log(upper - np.exp(-rate) * np.expm1(np.minimum(low, 0.0) * rate))
    result = np.where(high < 0, one_sided, both) - norm
    return np.where(low <= high, result, -np.inf)
