"""Priors on the distribution P, as plain descriptions that engines interpret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes.errors import ParameterError
from dpbayes.noise.base import positive

#: Range of a learned concentration.
LEARNED = (0.01, 100.0)
#: Median of the spike's weight, in e-folds of the smallest components; sd of its log.
_SPIKE = (0.35, 3.0)
#: Sd of the log of the learned sd of the walk over an e-fold, whose median is 1.
_WALK = 0.4

__all__ = ["LEARNED", "Dirichlet", "ScaleMixture", "Smooth"]


@dataclass(frozen=True, kw_only=True)
class Dirichlet:
    r"""Independent Gamma rates, λ_j ~ Gamma(concentration_j, rate), hence P ~ Dirichlet.

    With a public total the rate does not matter. With an unknown total the expected number
    of records is Σ concentration / rate.

    Parameters
    ----------
    concentration : float, array or "learned"
        Shape a_j (> 0) of each cell; a scalar holds for all cells. "learned": one shape for
        all cells, log-uniform between 0.01 and 100, weighed by its evidence.
    rate : float, optional
        Rate of the Gamma laws, in one over a count. None: the expected total is
        log-uniform over a range that covers everything the release allows (`total_range`).
        0: the improper prior ∝ λ^(a-1), which needs a release that bounds every count.

    Raises
    ------
    ParameterError
        If a parameter is not positive and finite.
    """

    concentration: Any = 1.0
    rate: float | None = None

    def __post_init__(self) -> None:
        value = self.concentration
        if isinstance(value, str):
            if value != "learned":
                raise ParameterError(
                    f"concentration must be a number, an array or 'learned', got {value!r}"
                )
        else:
            value = positive("concentration", value)
            # A tuple keeps the prior hashable and comparable.
            if np.ndim(value):
                value = tuple(np.asarray(value, float).reshape(-1).tolist())
        object.__setattr__(self, "concentration", value)
        if self.rate is not None and self.rate != 0:
            object.__setattr__(self, "rate", float(positive("rate", self.rate)))

    def shapes(self, size: int) -> np.ndarray:
        """Concentration of each of `size` cells, flattened.

        Raises
        ------
        ParameterError
            If the prior has another number of cells, or the concentration is learned.
        """
        if isinstance(self.concentration, str):
            raise ParameterError("a learned concentration has no fixed shapes")
        array = np.asarray(self.concentration, dtype=float)
        if array.ndim == 0:
            return np.full(size, float(array))
        if array.size != size:
            raise ParameterError(
                f"concentration must be a number or have one entry per cell ({size}), "
                f"got {array.size}"
            )
        return array

    def check_size(self, size: int) -> None:
        """Refuse a prior that was written for another number of cells."""
        if not isinstance(self.concentration, str):
            self.shapes(size)

    def total_range(self, values: np.ndarray, noise_sd: Any) -> tuple[float, float]:
        """Range of the log-uniform law of an unknown expected total Σ concentration / rate.

        It runs from half a record to four times the largest total that the released values
        make plausible.

        Parameters
        ----------
        values : ndarray
            Released counts in the units of counts (NaN where suppressed).
        noise_sd : float or ndarray
            Standard deviation of the noise in each cell.
        """
        spread = np.broadcast_to(np.asarray(noise_sd, float), values.shape)
        seen = np.where(np.isnan(values), 0.0, np.maximum(values, 0.0))
        return 0.5, 4.0 * (float(seen.sum()) + 4.0 * float(np.sqrt(np.sum(spread**2))) + 10.0)

    def rate_range(self, values: np.ndarray, noise_sd: Any) -> tuple[float, float]:
        """Range of an unknown rate that belongs to `total_range`."""
        low, high = self.total_range(values, noise_sd)
        mass = float(self.shapes(values.size).sum())
        return mass / high, mass / low


@dataclass(frozen=True, kw_only=True)
class ScaleMixture:
    r"""Rates of cells from a learned mixture of Gamma scales with a spike at zero.

    λ_j ~ ω_0 δ_0 + Σ_k ω_k Gamma(shape, mean μ_k), with means log-spaced over `means`. The
    logs of the weights ω_1, ω_2, ... are a random walk in log μ whose sd over an e-fold is
    learned, log-normal around 1 with sd 0.4 of its log; the spike's log weight is normal
    around that of the smallest components (of a third of an e-fold) with sd 3. Tables with
    many empty cells, heavy tails, several sizes or one size are all within its reach, because
    the law of the rates is estimated from the table. How cells far below the noise divide into
    zeros and small counts cannot be estimated: there the wide law of the spike speaks.

    With a public total n, the prior is that of rates and counts given that the counts sum to n.

    Parameters
    ----------
    means : pair of float, optional
        Smallest and largest mean of the components (> 0). By default from 0.2 times the
        noise scale to 1.5 times the largest plausible count.
    shape : float
        Shape of each component (> 0): its relative standard deviation is 1/√shape. A narrow
        law of rates (cells of one size) is known as well as components are narrow.

    Raises
    ------
    ParameterError
        If a parameter is out of range.
    """

    means: tuple[float, float] | None = None
    shape: float = 20.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", float(positive("shape", self.shape)))
        if self.means is not None:
            try:
                low, high = (float(positive("means", end)) for end in self.means)
            except (TypeError, ValueError) as error:
                raise ParameterError(
                    f"means must be a pair of positive numbers, got {self.means!r}"
                ) from error
            if low >= high:
                raise ParameterError(f"means must be (low, high), got ({low:g}, {high:g})")
            object.__setattr__(self, "means", (low, high))

    def component_means(self, centres: np.ndarray, noise_sd: Any) -> np.ndarray:
        """Means of the components, spaced so closely that two of them can share a narrow law.

        Parameters
        ----------
        centres : ndarray
            Counts at which the cells' likelihoods are largest.
        noise_sd : float or ndarray
            Standard deviation of the noise in each cell.
        """
        if self.means is not None:
            low, high = self.means
        else:
            spread = np.broadcast_to(np.asarray(noise_sd, float), centres.shape)
            scale = float(np.median(spread)) / np.sqrt(2.0)
            low = max(0.2 * scale, 0.05)
            high = max(1.5 * float(np.max(centres + spread)), 4.0 * low)
        spacing = 0.55 / np.sqrt(self.shape)
        number = int(np.clip(np.ceil(np.log(high / low) / spacing) + 1, 8, 80))
        return np.geomspace(low, high, number)

    def walk(self, means: np.ndarray) -> tuple[float, float, float, float]:
        """Law of the log weights.

        Parameters
        ----------
        means : ndarray
            Means of the components, log-spaced.

        Returns
        -------
        tuple of float
            Mean and sd of the spike's log weight less that of the first component; median
            sd of a step of the walk; sd of the log of that sd.
        """
        spacing = float(np.log(means[1] / means[0]))
        return float(np.log(_SPIKE[0] / spacing)), _SPIKE[1], float(np.sqrt(spacing)), _WALK


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
