"""Priors on the distribution P, as plain descriptions that engines interpret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes.errors import ParameterError
from dpbayes.noise.base import positive

__all__ = ["Dirichlet", "Smooth"]


@dataclass(frozen=True, kw_only=True)
class Dirichlet:
    r"""Independent Gamma rates, λ_j ~ Gamma(concentration_j, rate), hence P ~ Dirichlet.

    With a public total the rate does not matter. With an unknown total the expected number
    of records is Σ concentration / rate.

    Parameters
    ----------
    concentration : float or array
        Shape a_j (> 0) of each cell; a scalar holds for all cells.
    rate : float, optional
        Rate of the Gamma laws (> 0), in one over a count. None: log-uniform over a range
        of expected totals that covers everything the release allows (`rate_range`).

    Raises
    ------
    ParameterError
        If a parameter is not positive and finite.
    """

    concentration: Any = 1.0
    rate: float | None = None

    def __post_init__(self) -> None:
        value = positive("concentration", self.concentration)
        # A tuple keeps the prior hashable and comparable.
        if np.ndim(value):
            value = tuple(np.asarray(value, float).reshape(-1).tolist())
        object.__setattr__(self, "concentration", value)
        if self.rate is not None:
            object.__setattr__(self, "rate", float(positive("rate", self.rate)))

    def shapes(self, size: int) -> np.ndarray:
        """Concentration of each of `size` cells, flattened.

        Raises
        ------
        ParameterError
            If the prior has another number of cells.
        """
        array = np.asarray(self.concentration, dtype=float)
        if array.ndim == 0:
            return np.full(size, float(array))
        if array.size != size:
            raise ParameterError(
                f"concentration must be a number or have one entry per cell ({size}), "
                f"got {array.size}"
            )
        return array

    def rate_range(self, values: np.ndarray, noise_sd: Any) -> tuple[float, float]:
        """Range of the log-uniform law of an unknown rate.

        The expected total Σ concentration / rate runs from half a record to four times the
        largest total that the released values make plausible.

        Parameters
        ----------
        values : ndarray
            Released counts in the units of counts (NaN where suppressed).
        noise_sd : float or ndarray
            Standard deviation of the noise in each cell.
        """
        spread = np.broadcast_to(np.asarray(noise_sd, float), values.shape)
        seen = np.where(np.isnan(values), 0.0, np.maximum(values, 0.0))
        largest = seen.sum() + 4.0 * np.sqrt(np.sum(spread**2)) + 10.0
        shapes = self.shapes(values.size).sum()
        return shapes / (4.0 * largest), shapes / 0.5


@dataclass(frozen=True, kw_only=True)
class Smooth:
    """Logistic random walk: log weights of adjoining cells differ by Gaussian increments.

    The scale of the increments is learned from the release.

    Parameters
    ----------
    order : {1, 2, "auto"}
        1: neighbouring cells are alike; 2: slopes are alike. "auto" weighs both by evidence.
    atoms : {"auto", "none", "lower", "upper", "both"}
        Whether the bounds carry mass of their own (clipping puts it there). "auto" decides by
        evidence.
    cells : int, optional
        Number of cells; by default from the noise scale, the bounds and the number of records.

    Raises
    ------
    ParameterError
        If a parameter is none of these.
    """

    order: int | str = "auto"
    atoms: str = "auto"
    cells: int | None = None

    def __post_init__(self) -> None:
        if self.order not in (1, 2, "auto"):
            raise ParameterError(f"order must be 1, 2 or 'auto', got {self.order!r}")
        if self.atoms not in ("auto", "none", "lower", "upper", "both"):
            raise ParameterError(
                f"atoms must be 'auto', 'none', 'lower', 'upper' or 'both', got {self.atoms!r}"
            )
        if self.cells is not None and (int(self.cells) != self.cells or self.cells < 4):
            raise ParameterError(f"cells must be a whole number of at least 4, got {self.cells}")
