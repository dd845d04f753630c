"""Where statistic + noise must have been, given what was published."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["LATTICE_TOLERANCE", "Preimage"]

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
