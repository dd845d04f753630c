"""Posterior of released counts under a learned mixture of scales (`ScaleMixture`).

Labels and counts are summed out, which leaves the few weights of the mixture to a gradient
sampler, whatever the number of cells; counts are then drawn exactly given the weights. No PyMC,
no ArviZ: log posterior, sampler and draws are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from dpbayes.engines.alone import THREADS, transposed
from dpbayes.engines.nesting import structure
from dpbayes.engines.scale_cells import (
    MixtureCells,
    MixtureTask,
    component_means,
    log_posterior_model,
    tabulate,
    tilted,
)
from dpbayes.engines.scale_prior import draw_prior
from dpbayes.engines.scale_sums import draw_by_trees, draw_with_total
from dpbayes.engines.scale_weights import WeightChains
from dpbayes.kernels import mixture as kernel
from dpbayes.priors import ScaleMixture
from dpbayes.releases import HistogramRelease

__all__ = ["MixtureDraws", "draw_posterior", "draw_prior"]

#: Draws of the weights per chain where cells are independent given them: each is used for
#: several draws of the counts where more are wanted, which hardly depend on the weights.
_WEIGHTS = 500

Progress = Callable[[int], None]


@dataclass(frozen=True)
class MixtureDraws:
    """Draws with chain and draw axes first.

    Parameters
    ----------
    probability, count : ndarray, shape (chains, draws, cells)
    total : ndarray of int, shape (chains, draws)
    spike : ndarray, shape (chains, draws)
        Weight of the spike at zero.
    weights : ndarray, shape (chains, draws, components)
        Weights of the components.
    means : ndarray
        Their means.
    divergences : int
        Divergent transitions of the weights' sampler.
    """

    probability: np.ndarray
    count: np.ndarray
    total: np.ndarray
    spike: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    divergences: int


def draw_posterior(
    release: HistogramRelease,
    prior: ScaleMixture,
    draws: int,
    chains: int,
    tune: int,
    seeds: np.random.SeedSequence,
    progress: Progress = lambda _: None,
    target_accept: float = 0.95,
) -> MixtureDraws:
    """Draw P and the true counts given a released histogram.

    Parameters
    ----------
    release : HistogramRelease
        Released counts; public, noisy or unknown total; nested margins.
    prior : ScaleMixture
        Prior of the rates.
    draws, chains, tune : int
        Draws per chain, chains, warm-up draws per chain of the weights' sampler.
    seeds : SeedSequence
        Source of randomness.
    progress : callable
        Called with the number of cells done since the last call.
    target_accept : float
        Acceptance rate of the weights' sampler. Its steps must be short: log weights of
        components that no cell needs run against a wall.

    Raises
    ------
    ImpossibleReleaseError
        If no table of counts could have led to the release.
    """
    nest = structure(release)
    means = component_means(release, prior, nest)
    task = MixtureTask(release, nest, means, prior.shape, draws, chains, progress)
    seed_weights, seed_counts = seeds.spawn(2)
    known_total = nest.flat and release.total is not None
    if known_total:
        cells = tilted(nest, release, prior, means)
    else:
        cells = tabulate(nest.cells, means, prior.shape, release.total)
    model = log_posterior_model(cells, nest, release, prior, means)
    sampler = WeightChains(model, chains, tune, target_accept, seed_weights)
    draw = draw_with_total if known_total else _independent if nest.flat else draw_by_trees
    counts, rates, weights = draw(task, cells, sampler, seed_counts)
    total_rate = rates.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        probability = rates / total_rate  # NaN where every rate is zero: P is undefined
    return MixtureDraws(
        probability, counts, counts.sum(axis=-1), weights[..., 0], weights[..., 1:], means,
        sampler.lost,
    )  # fmt: skip


def _independent(
    task: MixtureTask, cells: MixtureCells, sampler: WeightChains, seed: np.random.SeedSequence
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw cells that are independent given the weights."""
    kept = min(task.draws, _WEIGHTS)
    weights = sampler.weights(kept)[:, task.blocks(kept)]
    flat = np.ascontiguousarray(weights.reshape(-1, weights.shape[-1]))
    size = cells.first.size
    counts = np.empty((size, flat.shape[0]), dtype=np.int64)
    rates = np.empty((size, flat.shape[0]))
    parts = np.array_split(np.arange(size), max(1, min(size, size // 16)))

    def work(part: np.ndarray, child: np.random.SeedSequence) -> None:
        rows = slice(part[0], part[-1] + 1)
        kernel.draw_cells(
            np.random.default_rng(child), flat, cells.evidence[rows], cells.tables,
            cells.offsets[part[0] : part[-1] + 2], cells.first[rows], task.means, task.shape,
            counts[rows], rates[rows],
        )  # fmt: skip
        task.progress(part.size)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, parts, seed.spawn(len(parts))))
    axes = (task.chains, task.draws, size)
    return transposed(counts).reshape(axes), transposed(rates).reshape(axes), weights
