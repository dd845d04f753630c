"""Counts under a learned mixture of scales whose sums are known or were released.

The sampler of the weights takes the law of such sums for normal. A second stage of acceptance,
with their exact law, makes up for that: a move of the sampler is accepted with probability
min(1, r'/r), r the ratio of the exact to the normal evidence before and after it.

References
----------
Christen & Fox (2005), Markov chain Monte Carlo using an approximation, Journal of Computational
and Graphical Statistics 14:795-810, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dpbayes.engines.alone import THREADS
from dpbayes.engines.fixed_total import FixedTotal, Tied
from dpbayes.engines.leaves import Windows
from dpbayes.engines.scale_cells import MixtureCells, MixtureTask
from dpbayes.engines.scale_weights import WeightChains
from dpbayes.engines.tree import CountTree
from dpbayes.errors import ImpossibleReleaseError
from dpbayes.kernels import mixture as kernel
from dpbayes.kernels.scale_weights import log_posterior, log_prior, weights_at

__all__ = ["draw_by_trees", "draw_with_total"]

#: Draws of the weights per chain under a public total, for up to so many cells; above, fewer
#: in proportion, but not less than the last number.
_KEPT, _CELLS, _LEAST = 200, 1024, 25
#: Draws of the weights per chain where each needs a tree.
_TREES = 100
#: Transitions of the sampler from one of them to the next, for up to so many cells; 1 above.
_THIN, _FEW = 2, 512
#: Moves until the first weights under which the release is possible.
_TRIES = 1000


class _Corrected[Made]:
    """Chain of weights with the exact law of sums for its stationary law.

    Parameters
    ----------
    sampler : WeightChains
        Chains whose stationary law takes sums for normal.
    chain : int
        Number of the chain.
    rng : Generator
        Source of randomness.
    exact : callable
        Makes of weights what draws of counts need, and the exact log evidence.
    """

    def __init__(
        self,
        sampler: WeightChains,
        chain: int,
        rng: np.random.Generator,
        exact: Callable[[np.ndarray], tuple[Made, float]],
    ) -> None:
        self._sampler, self._chain, self._rng, self._exact = sampler, chain, rng, exact
        self._thin = _THIN if sampler.model.copies.sum() <= _FEW else 1
        for _ in range(_TRIES):
            self._now = self._at(sampler.draw(chain, 1)[-1])
            if np.isfinite(self._now[2]):
                return
        raise ImpossibleReleaseError(
            "no table of counts with the totals that are known could have led to the released "
            "values: check them and the mechanism"
        )

    def _at(self, x: np.ndarray) -> tuple[np.ndarray, Made, float]:
        """Weights, what draws of counts need, and log ratio of exact to normal evidence."""
        model = self._sampler.model
        weights = weights_at(x, model.prior)
        made, log_evidence = self._exact(weights)
        normal = log_posterior(x, model)[0] - log_prior(x, model.prior[3])[0]
        return weights, made, log_evidence - normal

    def move(self) -> tuple[np.ndarray, Made]:
        """Weights of the next draw, and what draws of counts need."""
        before = self._sampler.positions[self._chain].copy()
        proposed = self._at(self._sampler.draw(self._chain, self._thin)[-1])
        if np.log(self._rng.random()) < proposed[2] - self._now[2]:
            self._now = proposed
        else:
            self._sampler.positions[self._chain] = before
        return self._now[0], self._now[1]


class _Output:
    """Counts, rates and weights of all chains, filled block by block."""

    def __init__(self, task: MixtureTask, kept: int) -> None:
        size = (task.chains, task.draws, task.release.size)
        self.counts, self.rates = np.empty(size, dtype=np.int64), np.empty(size)
        self.weights = np.empty((task.chains, task.draws, task.means.size + 1))
        self._task, self._block, self._kept = task, task.blocks(kept), kept
        self._owed = 0.0

    def rows(self, index: int) -> np.ndarray:
        """Draws of the counts that use one draw of the weights."""
        return np.flatnonzero(self._block == index)

    def put(
        self, chain: int, index: int, weights: np.ndarray, counts: np.ndarray,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        """Store counts and the rates drawn given them."""
        task, rows = self._task, self.rows(index)
        rates = np.empty(counts.shape)
        kernel.rates_given_counts(rng, counts, weights, task.means, task.shape, rates)
        self.counts[chain, rows], self.rates[chain, rows] = counts, rates
        self.weights[chain, rows] = weights
        self._owed += task.release.size / (task.chains * self._kept)
        done = int(self._owed)
        self._owed -= done
        task.progress(done)

    def all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return counts, rates, weights."""
        return self.counts, self.rates, self.weights


def draw_with_total(
    task: MixtureTask, cells: MixtureCells, sampler: WeightChains, seed: np.random.SeedSequence
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw cells that sum to a public total.

    Parameters
    ----------
    task : MixtureTask
        What is wanted.
    cells : MixtureCells
        Cells, tilted to the total.
    sampler : WeightChains
        Chains of the weights.
    seed : SeedSequence
        Source of randomness.

    Returns
    -------
    counts, rates, weights : ndarray
        Chain and draw axes first.
    """
    assert task.release.total is not None
    ties = FixedTotal(cells, task.means, task.shape, task.release.total)
    kept = min(task.draws, max(_KEPT * _CELLS // max(task.release.size, _CELLS), _LEAST))
    output = _Output(task, kept)

    def exact(weights: np.ndarray) -> tuple[Tied, float]:
        tied = ties.weigh(weights)
        return tied, tied.log_evidence

    def run(chain: int, child: np.random.SeedSequence) -> None:
        rng = np.random.default_rng(child)
        walk = _Corrected(sampler, chain, rng, exact)
        for index in range(kept):
            weights, tied = walk.move()
            counts = ties.draw(tied, output.rows(index).size, rng)
            output.put(chain, index, weights, counts, rng)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(task.chains), seed.spawn(task.chains)))
    return output.all()


def draw_by_trees(
    task: MixtureTask, cells: MixtureCells, sampler: WeightChains, seed: np.random.SeedSequence
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw cells tied by sums: one tree for each draw of the weights.

    Parameters and returned arrays are those of `draw_with_total`.
    """
    kept = min(task.draws, _TREES)
    output = _Output(task, kept)
    length = int(min(2.0 * task.nest.cells.centres().max() + 1000.0, 5e6))
    windows, tilt = Windows(task.release.size), 0.0

    def exact(weights: np.ndarray) -> tuple[CountTree | None, float]:
        nonlocal tilt
        prior = _LogMass(weights, task.means, task.shape, length)
        try:
            tree = CountTree(task.nest, prior, tilt, task.release.total, windows=windows)
        except ImpossibleReleaseError:
            return None, -np.inf
        # With a public total any tilt serves: the last tree's is near this one's.
        tilt = tree.leaf_tilt if task.release.total is not None else 0.0
        return tree, tree.log_root

    for chain, child in enumerate(seed.spawn(task.chains)):
        rng = np.random.default_rng(child)
        walk = _Corrected(sampler, chain, rng, exact)
        for index in range(kept):
            weights, tree = walk.move()
            assert tree is not None  # the evidence of an impossible tree is never accepted
            output.put(chain, index, weights, tree.draw(output.rows(index).size, rng), rng)
    return output.all()


class _LogMass:
    """Log prior mass of counts under one draw of the weights, from a growing lookup table."""

    def __init__(self, weights: np.ndarray, means: np.ndarray, shape: float, size: int) -> None:
        self._parameters = np.ascontiguousarray(weights), means, shape
        self._log_mass = self._tabulate(size)

    def _tabulate(self, size: int) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(kernel.mixture_mass(0, size, *self._parameters))

    def __call__(self, cells: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Log prior mass of pairs of cells and counts (the same law for all cells)."""
        index = counts.astype(np.int64)
        largest = int(index.max()) + 1
        beyond = self._log_mass.size
        if largest > beyond:
            if largest > 20_000_000:  # beyond any plausible count: no mass
                safe = np.minimum(index, beyond - 1)
                return np.where(index < beyond, self._log_mass[safe], -np.inf)
            self._log_mass = self._tabulate(2 * largest)
        return self._log_mass[index]
