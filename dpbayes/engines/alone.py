"""Cells that are independent of each other: nothing is known of their sums."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dpbayes.engines.leaves import GammaWeights, check_window, leaf_tables
from dpbayes.engines.likelihood import JointLikelihood, Likelihood
from dpbayes.kernels import leaf_tables as compiled
from dpbayes.kernels.leaves import outward_draws

__all__ = ["THREADS", "IndependentCells", "transposed"]

THREADS = 2
#: Cells drawn from one stream of random numbers, so that draws do not depend on threads.
_CHUNK = 4096
#: Entries of a block of draws that is transposed at a time.
_BLOCK = 1 << 22


class IndependentCells:
    """Posterior of independent cells; cells of one kind share one table.

    Parameters
    ----------
    likelihood : Likelihood or JointLikelihood
        What was released about the cells.
    shapes : ndarray
        Shape of each cell's prior; where all cells share one that varies, any constant.
    """

    def __init__(self, likelihood: Likelihood | JointLikelihood, shapes: np.ndarray) -> None:
        self._likelihood = likelihood
        self._representatives, self._kind = likelihood.alike(shapes)
        self._copies = np.bincount(self._kind)
        self._centres = likelihood.centres()

    def log_mass(self, shapes: np.ndarray, tilt: float) -> float:
        """Log of the unnormalised mass of all cells."""
        cells, chosen = self._likelihood.compiled, self._representatives
        if cells is None:
            tables = leaf_tables(GammaWeights(shapes), self._likelihood, tilt, None, chosen)
            return float(self._copies @ tables.log_mass)
        out = np.empty(chosen.size)

        def work(part: np.ndarray) -> int:
            j = chosen[part]
            return compiled.log_masses(
                cells, j, shapes[j], tilt, self._centres[j], out[part[0] : part[-1] + 1]
            )

        parts = np.array_split(np.arange(chosen.size), min(8 * THREADS, chosen.size))
        with ThreadPoolExecutor(THREADS) as pool:
            check_window(max(pool.map(work, parts)))
        return float(self._copies @ out)

    def draw(
        self,
        shapes: np.ndarray,
        tilt: float,
        draws: int,
        rng: np.random.Generator,
        progress: Callable[[int], None] = lambda _: None,
    ) -> np.ndarray:
        """Draw counts, one row per draw.

        Parameters
        ----------
        shapes : ndarray
            Shape of each cell's prior.
        tilt : float
            Tilt of the prior.
        draws : int
            Number of independent draws.
        rng : Generator
            Source of randomness.
        progress : callable
            Called with the number of cells done since the last call.
        """
        counts = np.empty((self._kind.size, draws), dtype=np.int64)
        if self._likelihood.compiled is None:
            self._draw_generic(shapes, tilt, rng, counts)
            progress(self._kind.size)
        else:
            self._draw_compiled(shapes, tilt, rng, counts, progress)
        return transposed(counts)

    def _draw_generic(
        self, shapes: np.ndarray, tilt: float, rng: np.random.Generator, counts: np.ndarray
    ) -> None:
        found = leaf_tables(GammaWeights(shapes), self._likelihood, tilt, None)
        for j, table in enumerate(found.tables):
            uniforms = rng.random(counts.shape[1])
            outward_draws(table, found.first[j], int(found.mean[j]), uniforms, counts[j])

    def _draw_compiled(
        self,
        shapes: np.ndarray,
        tilt: float,
        rng: np.random.Generator,
        counts: np.ndarray,
        progress: Callable[[int], None],
    ) -> None:
        order = np.argsort(self._kind, kind="stable")
        parts = np.array_split(order, -(-order.size // _CHUNK))

        def work(members: np.ndarray, child: np.random.Generator) -> int:
            tables = self._representatives[self._kind[members]]
            guide = np.empty(int(np.clip(4 * counts.shape[1], 16, 1024)), dtype=np.int64)
            compiled.draw_alone(
                child, self._likelihood.compiled, tables, members, shapes, tilt, self._centres,
                guide, counts,
            )  # fmt: skip
            return members.size

        with ThreadPoolExecutor(THREADS) as pool:
            for done in pool.map(work, parts, rng.spawn(len(parts))):
                progress(done)


def transposed(counts: np.ndarray) -> np.ndarray:
    """Transpose in blocks that fit the cache."""
    out = np.empty(counts.shape[::-1], dtype=counts.dtype)
    step = max(_BLOCK // max(counts.shape[1], 1) // 64, 1)
    for start in range(0, counts.shape[0], step):
        out[:, start : start + step] = counts[start : start + step].T
    return out
