"""Likelihood of released counts at candidate true counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpbayes.kernels import leaves as kernel
from dpbayes.kernels.leaf_tables import Cells
from dpbayes.mechanism import Preimage, bounds_log_likelihood
from dpbayes.noise import NoiseLaw
from dpbayes.releases import Observations

__all__ = ["JointLikelihood", "Likelihood"]


class Likelihood:
    """log Q(y_j | m) for pairs of cells and counts, compiled where the law has a kernel.

    Parameters
    ----------
    observations : Observations
        Released cells.
    """

    def __init__(self, observations: Observations) -> None:
        self.size = observations.size
        self._bounds: Preimage = observations.bounds
        self._noise: NoiseLaw = observations.noise
        noise = observations.noise
        #: The cells for compiled code; None where the noise law has no kernel.
        self.compiled: Cells | None = None
        if noise.family is not None:
            scale = np.broadcast_to(np.asarray(noise.scale, float), (self.size,)).copy()
            bounds = observations.bounds
            # Numba wants writable contiguous arrays of one type.
            lower, upper, jacobian = (
                np.array(a, dtype=float) for a in (bounds.lower, bounds.upper, bounds.log_jacobian)
            )
            peak = kernel.log_peaks(noise.family, scale, float(noise.step))
            self.compiled = Cells(
                noise.family, float(noise.step), lower, upper, jacobian, peak, scale
            )

    def __call__(self, cells: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Log likelihood of the pairs."""
        if self.compiled is not None:
            return kernel.log_likelihood(self.compiled, cells, counts)
        b = self._bounds
        part = Preimage(
            b.lower[cells],
            b.upper[cells],
            b.lower_closed[cells],
            b.upper_closed[cells],
            b.log_jacobian[cells],
        )
        noise = self._noise.at(cells)
        # Lattices whose step is not one over a whole number leave holes between counts.
        return bounds_log_likelihood(noise, part, counts)

    def alike(self, shapes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find cells with the same likelihood and the same prior shape.

        Returns
        -------
        representatives : ndarray of int
            One cell of each kind.
        kind : ndarray of int
            Kind of each cell, as a position in `representatives`.
        """
        everything = np.arange(self.size)
        if self.compiled is None:
            return everything, everything
        _, _, lower, upper, jacobian, _, scale = self.compiled
        columns = [lower, jacobian, scale, shapes]
        columns += [] if np.array_equal(lower, upper) else [upper]
        columns = [c for c in columns if not np.all(c == c[0])]
        if not columns:
            return everything[:1], np.zeros(self.size, dtype=np.int64)
        order = np.lexsort(columns)
        new = np.zeros(self.size, dtype=bool)
        for column in columns:
            ordered = column[order]
            new[1:] |= ordered[1:] != ordered[:-1]
        kind = np.empty(self.size, dtype=np.int64)
        kind[order] = np.cumsum(new)
        new[0] = True
        return order[new], kind

    def centres(self) -> np.ndarray:
        """Count at which each cell's likelihood is about largest."""
        low, high = self._bounds.lower, self._bounds.upper
        with np.errstate(invalid="ignore"):
            middle = np.where(
                np.isinf(low), high, np.where(np.isinf(high), low, 0.5 * (low + high))
            )
        middle = np.where(np.isinf(middle), 0.0, middle)
        return np.maximum(np.rint(middle), 0.0)

    def gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and variance of the likelihood of each count, taken as Gaussian.

        NaN and infinity where the released value bounds the count on one side only.
        """
        low, high = self._bounds.lower, self._bounds.upper
        with np.errstate(invalid="ignore"):
            variance = self._noise_sd() ** 2 + (high - low) ** 2 / 12.0
            two_sided = np.isfinite(high - low)
            centre = np.where(two_sided, 0.5 * (low + high), np.nan)
        return centre, np.where(two_sided, variance, np.inf)

    def gaussian_update(
        self, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Combine Gaussian guesses of the counts with what was released about them.

        Used only to find where the bulk of the mass is, so that a rough answer is enough.
        """
        centre, noise = self.gaussian()
        # One-sided: nothing to do unless the guess lies outside.
        low, high = self._bounds.lower, self._bounds.upper
        inside = np.isnan(centre) & (low <= mean) & (mean <= high)
        centre = np.where(np.isnan(centre), np.clip(mean, low, high), centre)
        noise = np.where(np.isinf(noise), self._noise_sd() ** 2, noise)
        spread = variance + noise
        gain = np.divide(variance, spread, out=np.zeros(self.size), where=spread > 0)
        gain[inside] = 0.0
        return mean + gain * (centre - mean), variance * (1.0 - gain)

    def _noise_sd(self) -> np.ndarray:
        return np.broadcast_to(np.asarray(self._noise.sd, float), (self.size,))


class JointLikelihood:
    """Likelihood of counts that were released several times, each time on its own.

    Parameters
    ----------
    parts : sequence of Likelihood
        One for each release.
    """

    def __init__(self, parts: Sequence[Likelihood]) -> None:
        self._parts = list(parts)
        self.size = self._parts[0].size
        self.compiled: Cells | None = None

    def alike(self, shapes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take every cell for one of its kind (see `Likelihood.alike`)."""
        return np.arange(self.size), np.arange(self.size)

    def __call__(self, cells: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Log likelihood of pairs of cells and counts, summed over the releases."""
        return np.sum([part(cells, counts) for part in self._parts], axis=0)

    def centres(self) -> np.ndarray:
        """Count at which the joint likelihood is about largest."""
        mean, _ = self.gaussian()
        alone = np.max([part.centres() for part in self._parts], axis=0)
        return np.where(np.isnan(mean), alone, np.maximum(np.rint(mean), 0.0))

    def gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and variance of the likelihood of each count, taken as Gaussian."""
        centres, variances = np.array([part.gaussian() for part in self._parts]).swapaxes(0, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = np.where(np.isnan(centres), 0.0, 1.0 / variances)
            exact = np.isinf(precision)
            weight = np.where(exact.any(axis=0), exact, precision)
            mean = np.nansum(weight * centres, axis=0) / weight.sum(axis=0)
            return mean, 1.0 / precision.sum(axis=0)

    def gaussian_update(
        self, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Combine Gaussian guesses of the counts with all that was released about them."""
        for part in self._parts:
            mean, variance = part.gaussian_update(mean, variance)
        return mean, variance
