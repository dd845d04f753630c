"""Known densities on [0, 1]^r from which data are simulated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import special

from dpbayes.errors import ParameterError
from dpbayes.noise.base import positive

__all__ = ["BetaMixture"]


@dataclass(frozen=True)
class BetaMixture:
    r"""Mixture of Beta laws on [0, 1], and its product law on [0, 1]^r.

    f(x) = Σ_i w_i Beta(x; a_i, b_i); in several dimensions the coordinates are independent.

    Parameters
    ----------
    first, second : tuple of float
        Parameters a_i and b_i (> 1/2, so that the density is square-integrable).
    weights : tuple of float, optional
        Weights w_i; equal by default.

    Examples
    --------
    >>> BetaMixture((10,), (10,)).masses(2)
    array([0.5, 0.5])
    """

    first: tuple[float, ...] = (10.0,)
    second: tuple[float, ...] = (10.0,)
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        a, b = (np.atleast_1d(positive(n, getattr(self, n))) for n in ("first", "second"))
        w = np.ones(a.size) if self.weights is None else np.atleast_1d(self.weights)
        if not (a.shape == b.shape == w.shape) or (np.minimum(a, b) <= 0.5).any():
            raise ParameterError(
                "first, second and weights must be of one length, first and second above 1/2"
            )
        if np.any(np.asarray(w) <= 0):
            raise ParameterError(f"weights must be positive, got {self.weights}")
        for name, value in (("first", a), ("second", b), ("weights", w / np.sum(w))):
            object.__setattr__(self, name, tuple(float(v) for v in value))

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """Distribution function of one coordinate."""
        at = np.asarray(x, float)[..., None]
        return special.betainc(self.first, self.second, at) @ np.asarray(self.weights)

    def masses(self, bins: int, dimension: int = 1) -> np.ndarray:
        """Masses of bins^r equal cells, one axis per coordinate."""
        one = np.diff(self.cdf(np.linspace(0.0, 1.0, bins + 1)))
        return reduce(np.multiply.outer, [one] * dimension)

    def square_integral(self, dimension: int = 1) -> float:
        r"""Return ∫ f², in closed form by Beta functions."""
        a, b = np.asarray(self.first), np.asarray(self.second)
        w = np.asarray(self.weights)
        own = special.betaln(a, b)
        log = special.betaln(np.add.outer(a, a) - 1.0, np.add.outer(b, b) - 1.0)
        one = float(w @ np.exp(log - np.add.outer(own, own)) @ w)
        return one**dimension

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Draw records of one coordinate."""
        which = rng.choice(len(self.first), size=size, p=self.weights)
        return rng.beta(np.asarray(self.first)[which], np.asarray(self.second)[which])
