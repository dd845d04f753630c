"""Likelihood of released counts at candidate true counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpbayes.kernels import leaves as kernel
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
        self._compiled = None
        if noise.family is not None:
            scale = np.broadcast_to(np.asarray(noise.scale, float), (self.size,)).copy()
            bounds = observations.bounds
            # Numba wants writable contiguous arrays of one type.
            lower, upper, jacobian = (
                np.array(a, dtype=float) for a in (bounds.lower, bounds.upper, bounds.log_jacobian)
            )
            peak = kernel.log_peaks(noise.family, scale, float(noise.step))
            self._compiled = (
                noise.family, lower, upper, jacobian, peak, scale, float(noise.step)
            )  # fmt: skip

    def __call__(self, cells: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Log likelihood of the pairs."""
        if self._compiled is not None:
            return kernel.log_likelihood(*self._compiled, cells, counts)
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

    def centres(self) -> np.ndarray:
        """Count at which each cell's likelihood is about largest."""
        low, high = self._bounds.lower, self._bounds.upper
        with np.errstate(invalid="ignore"):
            middle = np.where(
                np.isinf(low), high, np.where(np.isinf(high), low, 0.5 * (low + high))
            )
        middle = np.where(np.isinf(middle), 0.0, middle)
        return np.maximum(np.rint(middle), 0.0)

    def gaussian(self, index: int) -> tuple[float, float]:
        """Centre and variance of the likelihood of one count, taken as Gaussian.

        NaN and infinity where the released value bounds the count on one side only.
        """
        low, high = self._bounds.lower[index], self._bounds.upper[index]
        if not np.isfinite(high - low):
            return np.nan, np.inf
        sd = np.broadcast_to(np.asarray(self._noise.sd, float), (self.size,))[index]
        return 0.5 * (low + high), float(sd**2 + (high - low) ** 2 / 12.0)

    def gaussian_update(self, index: int, mean: float, variance: float) -> tuple[float, float]:
        """Combine a Gaussian guess of the count with what was released about it.

        Used only to find where the bulk of the mass is, so that a rough answer is enough.
        """
        centre, noise = self.gaussian(index)
        if np.isnan(centre):  # one-sided: nothing to do unless the guess lies outside
            low, high = self._bounds.lower[index], self._bounds.upper[index]
            if low <= mean <= high:
                return mean, variance
            centre = float(np.clip(mean, low, high))
            sd = np.broadcast_to(np.asarray(self._noise.sd, float), (self.size,))[index]
            noise = float(sd**2)
        if noise + variance == 0:
            return mean, 0.0
        gain = variance / (variance + noise)
        return mean + gain * (centre - mean), variance * (1.0 - gain)


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

    def __call__(self, cells: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Log likelihood of pairs of cells and counts, summed over the releases."""
        return np.sum([part(cells, counts) for part in self._parts], axis=0)

    def centres(self) -> np.ndarray:
        """Count at which the joint likelihood is about largest."""
        moments = np.array([[part.gaussian(j) for j in range(self.size)] for part in self._parts])
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = np.where(np.isnan(moments[..., 0]), 0.0, 1.0 / moments[..., 1])
            exact = np.isinf(precision)
            precision = np.where(exact.any(axis=0), exact, precision)
            mean = np.nansum(precision * moments[..., 0], axis=0) / precision.sum(axis=0)
        alone = np.max([part.centres() for part in self._parts], axis=0)
        return np.where(np.isnan(mean), alone, np.maximum(np.rint(mean), 0.0))

    def gaussian(self, index: int) -> tuple[float, float]:
        """Centre and variance of the likelihood of one count, taken as Gaussian."""
        found = [part.gaussian(index) for part in self._parts]
        found = [(c, v) for c, v in found if not np.isnan(c)]
        if not found:
            return np.nan, np.inf
        sharp = [c for c, v in found if v == 0]
        if sharp:
            return sharp[0], 0.0
        precision = sum(1.0 / v for _, v in found)
        return sum(c / v for c, v in found) / precision, 1.0 / precision

    def gaussian_update(self, index: int, mean: float, variance: float) -> tuple[float, float]:
        """Combine a Gaussian guess of the count with all that was released about it."""
        for part in self._parts:
            mean, variance = part.gaussian_update(index, mean, variance)
        return mean, variance
