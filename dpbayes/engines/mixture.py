"""Posterior of released counts under a learned mixture of scales (`ScaleMixture`).

Labels and counts are summed out, which leaves the few weights of the mixture to a gradient
sampler, whatever the number of cells; counts are then drawn exactly given the weights. No
PyMC: the log posterior is one compiled function that nutpie samples directly.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from dpbayes.engines.alone import THREADS, transposed
from dpbayes.engines.density import sample_density
from dpbayes.engines.leaves import GammaWeights, Windows, leaf_tables
from dpbayes.engines.likelihood import Likelihood
from dpbayes.engines.tree import AnyLikelihood, CountTree, Structure, structure
from dpbayes.kernels import mixture as kernel
from dpbayes.priors import ScaleMixture
from dpbayes.releases import HistogramRelease

__all__ = ["MixtureDraws", "draw_posterior", "draw_prior"]

#: Mean and sd of the normal prior of the log scale of the random walk of log weights. A
#: wide law lets the scale run away on tables of one size: weights that are nought anyway
#: wander over many orders of magnitude, and the sampler takes ten times as many steps.
SCALE_PRIOR = (-0.5, 0.3)
#: Distinct draws of the weights per chain where the counts need a tree each.
_TREES_PER_CHAIN = 100
_TARGET_ACCEPT = 0.8
#: Draws of the weights per chain: thinned where fewer are wanted, and each used for several
#: draws of the counts where there are more, which hardly depend on the weights.
_WEIGHTS_PER_CHAIN = 400

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
    """

    probability: np.ndarray
    count: np.ndarray
    total: np.ndarray
    spike: np.ndarray
    weights: np.ndarray
    means: np.ndarray


@dataclass(frozen=True)
class _Cells:
    """What the released cells say about each component."""

    tables: np.ndarray
    offsets: np.ndarray
    first: np.ndarray
    evidence: np.ndarray
    mean: np.ndarray
    square: np.ndarray


def draw_posterior(
    release: HistogramRelease,
    prior: ScaleMixture,
    draws: int,
    chains: int,
    tune: int,
    seeds: np.random.SeedSequence,
    progress: Progress = lambda _: None,
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
    """
    nest = structure(release)
    means = prior.component_means(nest.cells.centres(), release.observations().noise.sd)
    cells = _tabulate(nest.cells, means, prior.shape, release.total)
    seed_weights, seed_counts = seeds.spawn(2)
    free = nest.flat and release.total is None
    kept = min(draws, _WEIGHTS_PER_CHAIN if free else _TREES_PER_CHAIN)
    weights = _sample_weights(cells, nest, release, kept, chains, tune, seed_weights)
    weights = weights[:, np.arange(draws) * kept // draws]
    if free:
        counts, rates = _independent(cells, weights, means, prior.shape, seed_counts, progress)
    else:
        counts, rates = _by_trees(
            nest, release, weights, means, prior.shape, kept, seed_counts, progress
        )
    total_rate = rates.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        probability = rates / total_rate  # NaN where every rate is zero: P is undefined
    return MixtureDraws(
        probability, counts, counts.sum(axis=-1), weights[..., 0], weights[..., 1:], means
    )


def draw_prior(
    release: HistogramRelease, prior: ScaleMixture, draws: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw probability, count and total from the prior, one row per draw."""
    observations = release.observations()
    centres = Likelihood(observations).centres()
    means = prior.component_means(centres, observations.noise.sd)
    steps = rng.standard_normal((draws, means.size - 1))
    sigma = np.exp(SCALE_PRIOR[0] + SCALE_PRIOR[1] * rng.standard_normal((draws, 1)))
    walk = np.concatenate([np.zeros((draws, 1)), np.cumsum(sigma * steps, axis=1)], axis=1)
    weights = np.exp(walk - walk.max(axis=1, keepdims=True))
    cumulative = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    empty = rng.random((draws, release.size)) < rng.beta(0.5, 0.5, (draws, 1))
    uniforms = rng.random((draws, release.size))
    label = np.stack([np.searchsorted(c, u) for c, u in zip(cumulative, uniforms, strict=True)])
    mean = means[np.minimum(label, means.size - 1)]
    rate = np.where(empty, 0.0, rng.standard_gamma(prior.shape, mean.shape) * mean / prior.shape)
    total_rate = rate.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        probability = rate / total_rate
    if release.total is None:
        count = rng.poisson(rate)
    else:
        flat = np.full(release.size, 1.0 / release.size)
        safe = np.where(np.isnan(probability), flat, probability)
        count = rng.multinomial(release.total, safe)
    return {"probability": probability, "count": count, "total": count.sum(axis=1)}


def _tabulate(
    likelihood: AnyLikelihood, means: np.ndarray, shape: float, total: int | None
) -> _Cells:
    """Likelihood tables of the cells, and evidence and moments under each component."""
    # Far beyond the largest component no count has mass, even in an unbounded window.
    cap = int(np.ceil(12.0 * means[-1] + 50.0))
    found = leaf_tables(
        GammaWeights(np.ones(likelihood.size)),  # all counts alike
        likelihood,
        0.0,
        cap if total is None else min(cap, total),
    )
    everything = np.arange(likelihood.size)
    at_zero = np.exp(likelihood(everything, np.zeros(likelihood.size)) - found.log_scale)
    tables, offsets, first = found.values, found.offsets, found.first
    size = (likelihood.size, means.size + 1)
    evidence, mean, square = np.empty(size), np.empty(size), np.empty(size)
    chunks = np.array_split(everything, min(THREADS * 4, likelihood.size))

    def work(part: np.ndarray) -> None:
        rows = slice(part[0], part[-1] + 1)
        kernel.component_moments(
            tables, offsets[part[0] : part[-1] + 2], first[rows], at_zero[rows], means, shape,
            evidence[rows], mean[rows], square[rows],
        )  # fmt: skip

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, chunks))
    return _Cells(tables, offsets, first, evidence, mean, square)


def _sample_weights(
    cells: _Cells,
    nest: Structure,
    release: HistogramRelease,
    draws: int,
    chains: int,
    tune: int,
    seed: np.random.SeedSequence,
) -> np.ndarray:
    """Sample the weights of the spike and the components by NUTS.

    Returns
    -------
    ndarray, shape (chains, draws, components + 1)
    """
    arguments = _log_posterior_arguments(cells, nest, release)
    dimension = cells.evidence.shape[1]

    mode, factor = _whiten(arguments, dimension)
    factor = np.ascontiguousarray(factor)

    def whitened(u: np.ndarray) -> tuple[float, np.ndarray]:
        return kernel.whitened_log_posterior(u, mode, factor, arguments)

    thin = max(1, int(np.ceil(_WEIGHTS_PER_CHAIN / draws)))
    u, _ = sample_density(
        whitened,
        dimension,
        draws=draws, thin=thin, tune=tune, chains=chains, seed=seed,
        target_accept=_TARGET_ACCEPT, progressbar=False,
    )  # fmt: skip
    x = mode + u @ factor.T
    walk = np.cumsum(np.exp(x[..., 1:2]) * x[..., 2:], axis=-1)
    walk = np.concatenate([np.zeros((*walk.shape[:2], 1)), walk], axis=-1)
    weights = np.exp(walk - walk.max(axis=-1, keepdims=True))
    spike = 1.0 / (1.0 + np.exp(-x[..., :1]))
    weights *= (1.0 - spike) / weights.sum(axis=-1, keepdims=True)
    return np.concatenate([spike, weights], axis=-1)


def _whiten(arguments: tuple, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Mode of the log posterior, and a factor of its inverse curvature there."""

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = kernel.log_posterior(x, *arguments)
        return -value, -gradient

    start = np.concatenate([[-1.0, SCALE_PRIOR[0]], np.zeros(dimension - 2)])
    mode = optimize.minimize(negative, start, jac=True, method="BFGS").x
    step = 1e-4
    curvature = np.array([
        (negative(mode + step * e)[1] - negative(mode - step * e)[1]) / (2 * step)
        for e in np.eye(dimension)
    ])  # fmt: skip
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    # The prior is standard normal: flatter directions are an artefact of the mode.
    return mode, vectors / np.sqrt(np.maximum(values, 0.5))


def _log_posterior_arguments(cells: _Cells, nest: Structure, release: HistogramRelease) -> tuple:
    """Arguments of the compiled log posterior; equal cells share a row where they may."""
    scale = cells.evidence.max(axis=1, keepdims=True)
    evidence = cells.evidence / scale
    if nest.flat and release.total is None:
        evidence, copies = np.unique(evidence, axis=0, return_counts=True)
        nothing = np.empty((0, 0))
        return (
            evidence, copies.astype(float), nothing, nothing, np.empty(0, dtype=np.int64),
            np.empty(0, dtype=np.int64), np.empty(0), np.empty(0), np.nan, SCALE_PRIOR,
        )  # fmt: skip
    parent, released, noise = nest.gaussian_release()
    return (
        evidence, np.ones(evidence.shape[0]), cells.mean, cells.square, nest.leaf_group,
        parent, released, noise, np.nan if release.total is None else float(release.total),
        SCALE_PRIOR,
    )  # fmt: skip


def _independent(
    cells: _Cells,
    weights: np.ndarray,
    means: np.ndarray,
    shape: float,
    seed: np.random.SeedSequence,
    progress: Progress,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw cells that are independent given the weights."""
    flat = np.ascontiguousarray(weights.reshape(-1, weights.shape[-1]))
    size = cells.first.size
    counts = np.empty((size, flat.shape[0]), dtype=np.int64)
    rates = np.empty((size, flat.shape[0]))
    parts = np.array_split(np.arange(size), max(1, min(size, size // 16)))

    def work(part: np.ndarray, child: np.random.SeedSequence) -> None:
        rows = slice(part[0], part[-1] + 1)
        kernel.draw_cells(
            np.random.default_rng(child), flat, cells.evidence[rows], cells.tables,
            cells.offsets[part[0] : part[-1] + 2], cells.first[rows], means, shape,
            counts[rows], rates[rows],
        )  # fmt: skip
        progress(part.size)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, parts, seed.spawn(len(parts))))
    axes = (*weights.shape[:2], size)
    return transposed(counts).reshape(axes), transposed(rates).reshape(axes)


class _MixtureWeights:
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


def _by_trees(
    nest: Structure,
    release: HistogramRelease,
    weights: np.ndarray,
    means: np.ndarray,
    shape: float,
    kept: int,
    seed: np.random.SeedSequence,
    progress: Progress,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw cells tied by sums: one tree for each distinct draw of the weights."""
    chains, draws, _ = weights.shape
    size = release.size
    counts = np.empty((chains, draws, size), dtype=np.int64)
    rates = np.empty((chains, draws, size))
    block = np.arange(draws) * kept // draws
    length = int(min(2.0 * nest.cells.centres().max() + 1000.0, 5e6))
    rng = np.random.default_rng(seed)
    windows, tilt, owed = Windows(size), 0.0, 0.0
    for chain in range(chains):
        for index in range(kept):
            rows = np.flatnonzero(block == index)
            w = np.ascontiguousarray(weights[chain, rows[0]])
            prior = _MixtureWeights(w, means, shape, length)
            tree = CountTree(nest, prior, tilt, release.total, windows=windows)
            # With a public total any tilt serves: the last tree's is near this one's.
            tilt = tree.leaf_tilt if release.total is not None else 0.0
            drawn = tree.draw(rows.size, rng)
            counts[chain, rows] = drawn
            rate = np.empty(drawn.shape)
            kernel.rates_given_counts(rng, drawn, w, means, shape, rate)
            rates[chain, rows] = rate
            owed += size / (chains * kept)
            progress(int(owed))
            owed -= int(owed)
    return counts, rates
