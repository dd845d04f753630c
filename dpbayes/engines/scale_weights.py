"""Chains of the weights of a learned mixture: whitening, warm-up, draws."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy import linalg, optimize

from dpbayes.engines.alone import THREADS
from dpbayes.kernels.scale_nuts import advance
from dpbayes.kernels.scale_weights import Model, all_weights_at, log_posterior

__all__ = ["WeightChains", "find_mode"]

#: First guess of the step size, in whitened coordinates.
_STEP = 0.4


def find_mode(model: Model, start: np.ndarray) -> np.ndarray:
    """Coordinates of the largest log posterior.

    Parameters
    ----------
    model : Model
        Posterior.
    start : ndarray
        Coordinates to start from.
    """

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = log_posterior(x, model)
        return -value, -gradient

    return optimize.minimize(negative, start, jac=True, method="L-BFGS-B").x


class WeightChains:
    """Chains of the weights' coordinates after a warm-up.

    The coordinates are whitened twice: by the curvature at the mode, then by the covariance
    of what all chains visited in the first half of the warm-up. The posterior has directions
    in which it is far from normal (weights that may be anything as long as they are small),
    whose scale at the mode says little about their scale.

    Parameters
    ----------
    model : Model
        Posterior.
    chains, tune : int
        Number of chains, warm-up draws of each.
    target_accept : float
        Acceptance rate to which step sizes are adapted.
    seed : SeedSequence
        Source of randomness.
    """

    def __init__(
        self,
        model: Model,
        chains: int,
        tune: int,
        target_accept: float,
        seed: np.random.SeedSequence,
    ) -> None:
        self.model, self._target = model, target_accept
        dimension = model.evidence.shape[1] - 1
        self._rngs = [np.random.default_rng(s) for s in seed.spawn(chains)]
        self._steps = [_STEP] * chains
        self._mode = find_mode(model, np.zeros(dimension))
        self._factor = _inverse_root(_curvature(model, self._mode))
        self.positions = [rng.standard_normal(dimension) for rng in self._rngs]
        #: Divergent transitions after warm-up.
        self.lost = 0
        half = tune // 2
        visited = np.concatenate(self._each(lambda c: self._move(c, half, adapt=True)[half // 3 :]))
        self._whiten_again(visited)
        self._each(lambda c: self._move(c, tune - half, adapt=True))

    def _each(self, work: Callable[[int], np.ndarray]) -> list[np.ndarray]:
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(work, range(len(self._rngs))))

    def _move(self, chain: int, draws: int, *, adapt: bool = False) -> np.ndarray:
        """Advance one chain; its positions."""
        out = np.empty((draws, self._mode.size))
        self._steps[chain], _, lost = advance(
            self._rngs[chain], self.positions[chain], self._steps[chain],
            self._target if adapt else 0.0, self._mode, self._factor, self.model, out,
        )  # fmt: skip
        if draws:
            self.positions[chain] = out[-1].copy()
        self.lost += 0 if adapt else lost
        return out

    def _whiten_again(self, visited: np.ndarray) -> None:
        """Take the covariance of these positions, shrunk towards what it was, as the unit."""
        size, dimension = visited.shape
        share = dimension / (size / 3.0 + dimension)  # draws of a chain are not independent
        deviations = visited - visited.mean(axis=0)
        covariance = (1.0 - share) * deviations.T @ deviations / size + share * np.eye(dimension)
        root = linalg.cholesky(covariance, lower=True)
        centre = visited.mean(axis=0)
        self.positions = [
            linalg.solve_triangular(root, u - centre, lower=True) for u in self.positions
        ]
        self._mode = self._mode + self._factor @ centre
        self._factor = np.ascontiguousarray(self._factor @ root)
        self._steps = [_STEP] * len(self._steps)

    def draw(self, chain: int, draws: int) -> np.ndarray:
        """Coordinates x of the next draws of a chain.

        Parameters
        ----------
        chain : int
            Number of the chain.
        draws : int
            Number of draws.

        Returns
        -------
        ndarray, shape (draws, dimension)
        """
        return self._mode + self._move(chain, draws) @ self._factor.T

    def weights(self, draws: int) -> np.ndarray:
        """Weights of the next draws of all chains.

        Parameters
        ----------
        draws : int
            Number of draws of each chain.

        Returns
        -------
        ndarray, shape (chains, draws, components + 1)
        """
        prior = self.model.prior
        return np.array(self._each(lambda c: all_weights_at(self.draw(c, draws), prior)))


def _curvature(model: Model, at: np.ndarray) -> np.ndarray:
    """Minus the second derivatives of the log posterior."""
    step = 1e-4
    rows = [
        (log_posterior(at - step * e, model)[1] - log_posterior(at + step * e, model)[1])
        / (2.0 * step)
        for e in np.eye(at.size)
    ]
    return 0.5 * (np.array(rows) + np.array(rows).T)


def _inverse_root(curvature: np.ndarray) -> np.ndarray:
    """Factor of the inverse of a curvature."""
    values, vectors = np.linalg.eigh(curvature)
    # The prior is standard normal: flatter directions are an artefact of the mode.
    return np.ascontiguousarray(vectors / np.sqrt(np.maximum(values, 0.5)))
