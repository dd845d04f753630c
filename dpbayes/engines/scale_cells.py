"""What released cells say about each component of a learned mixture of scales."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from dpbayes.engines.alone import THREADS
from dpbayes.engines.leaves import GammaWeights, leaf_tables
from dpbayes.engines.nesting import AnyLikelihood, Structure
from dpbayes.engines.scale_weights import find_mode
from dpbayes.errors import ImpossibleReleaseError, UnsupportedError
from dpbayes.kernels import mixture as kernel
from dpbayes.kernels.scale_weights import Model, weights_at
from dpbayes.priors import ScaleMixture
from dpbayes.releases import HistogramRelease

__all__ = [
    "MixtureCells",
    "MixtureTask",
    "component_means",
    "log_posterior_model",
    "tabulate",
    "tilted",
]

#: Rounds of the search for the tilt that brings the expected sum to a public total.
_ROUNDS = 60


@dataclass(frozen=True)
class MixtureCells:
    """What the released cells say about each component.

    Parameters
    ----------
    tables : ndarray
        Likelihood of each cell's released value at the counts of its window, times
        exp(tilt m), scaled; one cell after the other.
    offsets, first : ndarray of int
        Where each cell's table starts, and the end of the last; count of its first entry.
    evidence, mean, square : ndarray, shape (cells, components + 1)
        Evidence, E[N | y, k] and E[N² | y, k] under the spike and each component.
    """

    tables: np.ndarray
    offsets: np.ndarray
    first: np.ndarray
    evidence: np.ndarray
    mean: np.ndarray
    square: np.ndarray


@dataclass(frozen=True)
class MixtureTask:
    """A release, its components, and what is wanted.

    Parameters
    ----------
    release, nest : HistogramRelease, Structure
        Release, and how its margins nest.
    means, shape : ndarray, float
        Means and shape of the components.
    draws, chains : int
        Draws per chain, chains.
    progress : callable
        Called with the number of cells done since the last call.
    """

    release: HistogramRelease
    nest: Structure
    means: np.ndarray
    shape: float
    draws: int
    chains: int
    progress: Callable[[int], None]

    def blocks(self, kept: int) -> np.ndarray:
        """Which of the kept draws of the weights each draw of the counts uses."""
        return np.arange(self.draws) * kept // self.draws


def component_means(release: HistogramRelease, prior: ScaleMixture, nest: Structure) -> np.ndarray:
    """Means of the components for a release.

    What a public total leaves beyond the sum of the cells' values may lie in cells whose
    released values bound them on one side only.
    """
    centres = nest.cells.centres()
    if release.total is not None:
        open_ended = np.isnan(nest.cells.gaussian()[0])
        rest = max(release.total - centres.sum(), 0.0)
        centres = centres + open_ended * rest / max(open_ended.sum(), 1)
    return prior.component_means(centres, release.observations().noise.sd)


def tabulate(
    likelihood: AnyLikelihood,
    means: np.ndarray,
    shape: float,
    total: int | None,
    tilt: float = 0.0,
) -> MixtureCells:
    """Tables of the cells' likelihoods, and evidence and moments under each component.

    Parameters
    ----------
    likelihood : Likelihood or JointLikelihood
        Of the released cells.
    means, shape : ndarray, float
        Means and shape of the components.
    total : int or None
        Public total, which no count exceeds.
    tilt : float
        Tilt τ: the likelihood of a count m is multiplied by exp(τ m).
    """
    # Far beyond the largest component no count has mass, even in an unbounded window.
    cap = int(np.ceil(12.0 * means[-1] + 50.0))
    found = leaf_tables(
        GammaWeights(np.ones(likelihood.size)),  # all counts alike
        likelihood,
        tilt,
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
    if not np.all(evidence.max(axis=1) > 0.0):
        raise ImpossibleReleaseError(
            f"cell {int(np.argmin(evidence.max(axis=1)))}: no count within the reach of the "
            "prior could have led to the released value"
        )
    return MixtureCells(tables, offsets, first, evidence, mean, square)


def log_posterior_model(
    cells: MixtureCells, nest: Structure, release: HistogramRelease, prior: ScaleMixture,
    means: np.ndarray,
) -> Model:  # fmt: skip
    """Arguments of the compiled log posterior of the weights; equal cells share a row."""
    scale = cells.evidence.max(axis=1, keepdims=True)
    evidence = np.ascontiguousarray(cells.evidence / scale)
    free = nest.flat and release.total is None
    if nest.flat:
        columns = evidence if free else np.hstack([evidence, cells.mean])
        _, rows, copies = np.unique(columns, axis=0, return_index=True, return_counts=True)
        evidence = evidence[rows]
    else:
        rows, copies = np.arange(evidence.shape[0]), np.ones(evidence.shape[0])
    nothing, no_index = np.empty((0, 0)), np.empty(0, dtype=np.int64)
    if free:
        return Model(
            evidence, copies.astype(float), nothing, nothing, no_index, no_index, np.empty(0),
            np.empty(0), np.nan, prior.walk(means),
        )  # fmt: skip
    parent, released, noise = nest.gaussian_release()
    return Model(
        evidence, copies.astype(float), evidence * cells.mean[rows],
        evidence * cells.square[rows], nest.leaf_group[rows], parent, released, noise,
        np.nan if release.total is None else float(release.total), prior.walk(means),
    )  # fmt: skip


def tilted(
    nest: Structure, release: HistogramRelease, prior: ScaleMixture, means: np.ndarray
) -> MixtureCells:
    """Tabulate cells under the tilt that brings their expected sum to a public total.

    The expectation is that under the weights of the largest posterior given the same total,
    so that the normal law that stands for the sum's is asked about its middle.
    """
    assert release.total is not None
    n = float(release.total)
    tilt, low, high, mode = 0.0, -np.inf, np.inf, np.zeros(means.size)
    for _ in range(_ROUNDS):
        try:
            cells = tabulate(nest.cells, means, prior.shape, release.total, tilt)
        except UnsupportedError as error:
            raise UnsupportedError(
                f"the public total {release.total} is too far from the sum of the released values "
                f"({nest.cells.centres().sum():g} with negative ones at 0): check it and the "
                "mechanism"
            ) from error
        model = log_posterior_model(cells, nest, release, prior, means)
        mode = find_mode(model, mode)
        weights = weights_at(mode, model.prior)
        share = model.copies / (model.evidence @ weights)
        one, two = model.first @ weights, model.second @ weights
        gap = n - float(share @ one)
        variance = float(share @ (two - one * one / (model.evidence @ weights)))
        if abs(gap) <= 0.25 * np.sqrt(max(variance, 0.0)) + 0.5:
            return cells
        low, high = (tilt, high) if gap > 0 else (low, tilt)
        step = tilt + gap / max(variance, 1e-12)
        tilt = step if low < step < high else 0.5 * (low + high)
        if not np.isfinite(tilt) or high - low < 1e-9 * abs(tilt):
            break
    raise ImpossibleReleaseError(
        f"no table of counts that sums to the public total {release.total} could have led to "
        "these values: check total and the mechanism"
    )
