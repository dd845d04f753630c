"""Gaussian noise, continuous and on the integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.kernels import discrete_gaussian
from dpbayes.kernels.families import DISCRETE_GAUSSIAN, GAUSSIAN
from dpbayes.noise.base import NoiseLaw, Parameter, check_level, elementwise, positive, solve_scale

__all__ = ["DiscreteGaussian", "Gaussian"]


class _Calibrated(NoiseLaw):
    """Ways in that both Gaussian laws share; `_spread` names their scale field."""

    _spread: str

    @classmethod
    def from_rho(cls, *, rho: Parameter, sensitivity: Parameter) -> Self:
        """Law of a rho-zCDP release: sigma = sensitivity / √(2 rho).

        Parameters
        ----------
        rho : float
            Zero-concentrated privacy loss of this one release.
        sensitivity : float
            L2 sensitivity of the released vector.

        References
        ----------
        Bun & Steinke (2016), Proposition 1.6; Canonne, Kamath & Steinke (2020), Theorem 4.
        """
        sigma = positive("sensitivity", sensitivity) / np.sqrt(2.0 * positive("rho", rho))
        return cls(**{cls._spread: sigma})

    @classmethod
    def from_epsilon_delta(cls, *, epsilon: float, delta: float, sensitivity: float) -> Self:
        """Law with the least sigma that is (epsilon, delta)-private.

        Parameters
        ----------
        epsilon, delta : float
            Privacy loss of this one release and the probability of exceeding it.
        sensitivity : float
            L2 sensitivity of the released vector (a whole number on the integers).

        Notes
        -----
        Solves the exact condition, not the classical bound √(2 log(1.25/δ)) Δ/ε, which is
        larger and holds for ε < 1 only.

        References
        ----------
        Balle & Wang (2018), Theorem 8; Canonne, Kamath & Steinke (2020), Theorem 7.
        """
        eps, size = float(positive("epsilon", epsilon)), float(positive("sensitivity", sensitivity))
        if not 0 < delta < 1:
            raise ParameterError(f"delta must be between 0 and 1, got {delta}")

        def excess(sigma: float) -> float:
            law = cls(**{cls._spread: sigma})
            return np.log(delta) - np.log(law.delta(epsilon=eps, sensitivity=size) + 1e-320)

        return cls(**{cls._spread: solve_scale(excess, size / eps)})

    def rho(self, *, sensitivity: float) -> Parameter:
        """Zero-concentrated privacy loss rho = sensitivity² / (2 sigma²)."""
        return positive("sensitivity", sensitivity) ** 2 / (2.0 * self.scale**2)

    def delta(self, *, epsilon: float, sensitivity: float) -> float:
        """Least delta for which a release with this law is (epsilon, delta)-private.

        δ = P(X > εσ²/Δ - Δ/2) - e^ε P(X > εσ²/Δ + Δ/2).
        """
        eps, size = float(epsilon), float(positive("sensitivity", sensitivity))
        centre = eps * self.scale**2 / size
        first = self.logsf(centre - size / 2)
        second = eps + self.logsf(centre + size / 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = -np.expm1(np.minimum(second - first, 0.0))
        return float(np.max(np.where(np.isneginf(first), 0.0, np.exp(first) * gap)))

    @classmethod
    def from_sd(cls, *, sd: Parameter) -> Self:
        """Law with this standard deviation of the noise."""
        raise UnsupportedError(f"{cls.__name__} has no way in by its sd")

    @classmethod
    def from_variance(cls, *, variance: Parameter) -> Self:
        """Law with this variance of the noise."""
        return cls.from_sd(sd=np.sqrt(positive("variance", variance)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Gaussian(_Calibrated):
    r"""Continuous Gaussian noise with density exp(-x²/(2 sd²)) / (sd √(2π)).

    ========  =========
    support   real line
    mean      0
    variance  sd²
    ========  =========

    Parameters
    ----------
    sd : float or array
        Standard deviation (sd > 0), in the units of the released statistic.

    Raises
    ------
    ParameterError
        If `sd` is not positive and finite.
    """

    sd: Parameter
    family = GAUSSIAN
    _spread = "sd"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sd", positive("sd", self.sd))

    @property
    def scale(self) -> Parameter:
        """Standard deviation."""
        return self.sd

    @classmethod
    def from_sd(cls, *, sd: Parameter) -> Self:
        """Law with this standard deviation."""
        return cls(sd=sd)

    @classmethod
    def from_half_width(cls, *, half_width: Parameter, level: float = 0.95) -> Self:
        r"""Law with P(\|noise\| <= half_width) = level."""
        check_level(level)
        return cls(sd=positive("half_width", half_width) / special.ndtri(0.5 + 0.5 * level))

    def logpdf(self, x: ArrayLike) -> np.ndarray:
        """Log density at `x`."""
        z = np.asarray(x, float) / self.sd
        return -0.5 * z * z - np.log(self.sd * np.sqrt(2.0 * np.pi))

    def log_interval(self, lower: ArrayLike, upper: ArrayLike) -> np.ndarray:
        """Log P(lower < noise <= upper), without cancellation in either tail."""
        low, high, sd = np.broadcast_arrays(lower, upper, np.asarray(self.sd))
        return _log_interval_normal(low / sd, high / sd)

    def ppf(self, q: ArrayLike) -> np.ndarray:
        """Quantile of the noise."""
        return special.ndtri(np.asarray(q, float)) * self.sd

    def rvs(self, size: Any = None, rng: Any = None) -> np.ndarray:
        """Draw noise; `size` defaults to the shape of the parameters."""
        return np.random.default_rng(rng).normal(0.0, self.sd, self._size(size))


@dataclass(frozen=True, eq=False, kw_only=True)
class DiscreteGaussian(_Calibrated):
    r"""Discrete Gaussian noise: mass ∝ exp(-k²/(2 sigma²)) on the integers.

    ========  =====================================
    support   integers
    mean      0
    variance  `sd`², a little below sigma² when sigma is small
    ========  =====================================

    Parameters
    ----------
    sigma : float or array
        Parameter sigma (sigma > 0), in the units of the released count.

    Raises
    ------
    ParameterError
        If `sigma` is not positive and finite.

    References
    ----------
    Canonne, Kamath & Steinke (2020), The discrete Gaussian for differential privacy,
    Definition 1.
    """

    sigma: Parameter
    step = 1.0
    family = DISCRETE_GAUSSIAN
    is_lattice = True
    _spread = "sigma"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))

    @property
    def scale(self) -> Parameter:
        """Parameter sigma."""
        return self.sigma

    @property
    def sd(self) -> Parameter:
        """Standard deviation of the noise."""
        root = np.sqrt(discrete_gaussian.variance(self.sigma))
        return float(root) if np.ndim(root) == 0 else root

    @classmethod
    def from_sd(cls, *, sd: Parameter) -> Self:
        """Law with this standard deviation."""

        def one(target: float) -> float:
            return solve_scale(lambda s: float(cls(sigma=s).sd) - target, target)

        return cls(sigma=elementwise(one, positive("sd", sd)))

    @classmethod
    def from_half_width(cls, *, half_width: Parameter, level: float = 0.95) -> Self:
        r"""Law with P(\|noise\| <= half_width) = level."""
        check_level(level)

        def one(target: float) -> float:
            reach = np.floor(target + 1e-6) + 0.5
            return solve_scale(
                lambda s: level - float(np.exp(cls(sigma=s).log_interval(-reach, reach))), target
            )

        return cls(sigma=elementwise(one, positive("half_width", half_width)))

    def logpdf(self, x: ArrayLike) -> np.ndarray:
        """Log mass at `x`: -inf off the integers."""
        value = np.asarray(x, float)
        near = np.rint(value)
        on = np.abs(value - near) <= 1e-6
        return np.where(on, discrete_gaussian.logpmf(near, self.sigma), -np.inf)

    def log_interval(self, lower: ArrayLike, upper: ArrayLike) -> np.ndarray:
        """Log P(lower < noise <= upper), without cancellation in either tail."""
        low = np.floor(np.asarray(lower, float) + 1e-6)
        high = np.floor(np.asarray(upper, float) + 1e-6)
        return discrete_gaussian.log_interval(low, high, self.sigma)

    def ppf(self, q: ArrayLike) -> np.ndarray:
        """Quantile of the noise, a whole number (by bisection)."""
        p, sigma = np.broadcast_arrays(np.asarray(q, float), np.asarray(self.sigma, float))
        with np.errstate(divide="ignore"):
            log_p, log_rest = np.log(p) - 1e-13, np.log1p(-p)
        low, high = np.floor(-40 * sigma - 2), np.ceil(40 * sigma + 2)
        while np.any(high - low > 1):
            middle = np.floor((low + high) / 2)
            left = discrete_gaussian.logcdf(middle, sigma) >= log_p
            right = discrete_gaussian.logsf(middle, sigma) <= log_rest + 1e-13
            reached = np.where(p < 0.5, left, right)
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return np.where(p <= 0, -np.inf, np.where(p >= 1, np.inf, high))

    def rvs(self, size: Any = None, rng: Any = None) -> np.ndarray:
        """Draw noise by rejection from a discrete Laplace law.

        References
        ----------
        Canonne, Kamath & Steinke (2020), Algorithm 3.
        """
        gen, shape = np.random.default_rng(rng), self._size(size)
        sigma = np.broadcast_to(np.asarray(self.sigma, float), shape).reshape(-1)
        t = np.floor(sigma) + 1.0
        out = np.zeros(sigma.size)
        todo = np.arange(sigma.size)
        while todo.size:
            ti, si = t[todo], sigma[todo]
            p = -np.expm1(-1.0 / ti)
            proposal = (gen.geometric(p) - gen.geometric(p)).astype(float)
            log_accept = -((np.abs(proposal) - si**2 / ti) ** 2) / (2.0 * si**2)
            accept = np.log(gen.random(ti.shape)) < log_accept
            out[todo[accept]] = proposal[accept]
            todo = todo[~accept]
        return out.reshape(shape)


def _log_interval_normal(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Log P(low < z <= high) of the standard normal law."""
    flip = high > -low  # low + high > 0, also where both are infinite
    left = np.where(flip, -high, low)
    right = np.where(flip, -low, high)
    width = right - left
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_right = special.log_ndtr(right)
        difference = log_right + np.log1p(
            -np.exp(np.minimum(special.log_ndtr(left) - log_right, 0))
        )
        # A narrow interval is its width times the density in the middle (next term: w²/24).
        middle = left + 0.5 * width
        narrow = (
            -0.5 * middle**2
            - 0.5 * np.log(2 * np.pi)
            + np.log(width)
            + np.log1p((middle**2 - 1.0) * width**2 / 24.0)
        )
        use_narrow = width * (1.0 + np.abs(middle)) < 1e-3
    return np.where(left < right, np.where(use_narrow, narrow, difference), -np.inf)
