r"""Exact, independent posterior draws for released counts under conjugate priors.

With λ_j ~ Gamma(a_j, β) and counts N_j ~ Poisson(λ_j), each cell has the leaf weights
w_j(m) = Γ(a_j+m) / (Γ(a_j) m!) t^m, t = 1/(1+β), times the likelihood Q(y_j | m) of its
released value. An unknown total leaves the cells independent. A public total n conditions
on Σ N_j = n, which makes the counts Dirichlet-multinomial for every t: t is then a free
tilt, chosen such that the expected total is n, and the counts are drawn down a tree of
sums. No Markov chain is involved: draws are independent, and the evidence is a by-product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpbayes.engines.leaves import GammaWeights, leaf_tables
from dpbayes.engines.likelihood import Likelihood
from dpbayes.engines.tree import CountTree, Structure, structure
from dpbayes.errors import ImpossibleReleaseError
from dpbayes.kernels.leaves import outward_draws
from dpbayes.priors import Dirichlet
from dpbayes.releases import HistogramRelease

__all__ = ["ExactDraws", "draw_posterior", "draw_prior", "log_evidence"]

#: Grid points of an unknown rate: a first pass over its range, a second where it matters.
_COARSE, _FINE = 33, 49
#: Grid points whose log evidence is this far below the largest are left out.
_NO_EVIDENCE = 25.0

Progress = Callable[[int], None]


@dataclass(frozen=True)
class ExactDraws:
    """Draws of an exact engine, one row per draw.

    Parameters
    ----------
    probability : ndarray, shape (draws, cells)
    count : ndarray of int, shape (draws, cells)
    total : ndarray of int, shape (draws,)
    rate : ndarray, shape (draws,), or None
        Rate of the Gamma laws; None with a public total.
    log_evidence : float
        log p(released values | prior); a density where the noise is continuous.
    """

    probability: np.ndarray
    count: np.ndarray
    total: np.ndarray
    rate: np.ndarray | None
    log_evidence: float


def draw_posterior(
    release: HistogramRelease,
    prior: Dirichlet,
    draws: int,
    rng: np.random.Generator,
    progress: Progress = lambda _: None,
) -> ExactDraws:
    """Draw P and the true counts given a released histogram.

    Parameters
    ----------
    release : HistogramRelease
        Released counts, with public or unknown total.
    prior : Dirichlet
        Prior of the Gamma rates.
    draws : int
        Number of independent draws.
    rng : Generator
        Source of randomness.
    progress : callable
        Called with units of work done; there are `release.size` of them.

    Raises
    ------
    ImpossibleReleaseError
        If no table of counts could have led to the release.
    """
    nest = structure(release)
    shapes = prior.shapes(release.size)
    weights = GammaWeights(shapes)
    if release.total is not None:
        tree = _public_tree(release.total, nest, shapes, weights)
        evidence = _public_evidence(tree, shapes)
        if not np.isfinite(evidence):
            raise _impossible(release)
        counts, rate = tree.draw(draws, rng, progress), None
    else:
        grid, log_posterior, evidence = _rates(release, prior, nest, shapes, weights)
        chosen = rng.choice(grid.size, size=draws, p=np.exp(log_posterior))
        counts = np.empty((draws, release.size), dtype=np.int64)
        for rows, share in _by_value(chosen, progress):
            rate_here = grid[chosen[rows[0]]]
            counts[rows] = _given_rate(nest, weights, rate_here, rows.size, rng, share)
        rate = grid[chosen]
    return ExactDraws(
        probability=_dirichlet(shapes + counts, rng),
        count=counts,
        total=counts.sum(axis=1),
        rate=rate,
        log_evidence=evidence,
    )


def log_evidence(release: HistogramRelease, prior: Dirichlet, method: str = "auto") -> float:
    """Log evidence log p(released values | prior), without drawing.

    Parameters
    ----------
    release : HistogramRelease
        Released counts.
    prior : Dirichlet
        Prior of the Gamma rates.
    method : {"auto", "fft", "direct"}
        How to convolve.
    """
    nest = structure(release)
    shapes = prior.shapes(release.size)
    weights = GammaWeights(shapes)
    if release.total is None:
        return _rates(release, prior, nest, shapes, weights, method)[2]
    return _public_evidence(_public_tree(release.total, nest, shapes, weights, method), shapes)


def draw_prior(
    release: HistogramRelease, prior: Dirichlet, draws: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw probability, count and total from the prior, one row per draw."""
    shapes = prior.shapes(release.size)
    if release.total is not None:
        probability = _dirichlet(np.broadcast_to(shapes, (draws, shapes.size)), rng)
        count = rng.multinomial(release.total, probability)
        return {"probability": probability, "count": count, "total": count.sum(axis=1)}
    if prior.rate is not None:
        rate = np.full(draws, prior.rate)
    else:
        low, high = _range(release, prior)
        rate = np.exp(rng.uniform(np.log(low), np.log(high), draws))
    # The sum of the rates is independent of their shares.
    probability = _dirichlet(np.broadcast_to(shapes, (draws, shapes.size)), rng)
    count = rng.poisson(probability * (rng.standard_gamma(shapes.sum(), draws) / rate)[:, None])
    return {"probability": probability, "count": count, "total": count.sum(axis=1)}


# -- public total ----------------------------------------------------------------------


def _public_tree(
    total: int, nest: Structure, shapes: np.ndarray, weights: GammaWeights, method: str = "auto"
) -> CountTree:
    """Tree of counts given their sum; the prior's own rate would be about A / n."""
    tilt = float(-np.log1p(shapes.sum() / max(total, 1)))
    return CountTree(nest, weights, tilt, total, method)


def _public_evidence(tree: CountTree, shapes: np.ndarray) -> float:
    """Divide the root's mass at the total by the prior's."""
    a, total = shapes.sum(), tree.total
    norm = special.gammaln(a + total) - special.gammaln(a) - special.gammaln(total + 1.0)
    return tree.log_root - float(norm)


# -- unknown total ---------------------------------------------------------------------


def _range(release: HistogramRelease, prior: Dirichlet) -> tuple[float, float]:
    observations = release.observations()
    return prior.rate_range(Likelihood(observations).centres(), observations.noise.sd)


def _rates(
    release: HistogramRelease,
    prior: Dirichlet,
    nest: Structure,
    shapes: np.ndarray,
    weights: GammaWeights,
    method: str = "auto",
) -> tuple[np.ndarray, np.ndarray, float]:
    """Grid of rates, their log posterior weights and the log evidence."""

    def evidence(rate: float) -> float:
        tilt = -float(np.log1p(rate))
        log_norm = shapes.sum() * (np.log(rate) - np.log1p(rate))  # (1 - t)^A
        if nest.flat:
            return float(leaf_tables(weights, nest.cells, tilt, None).log_mass.sum() + log_norm)
        return CountTree(nest, weights, tilt, None, method).log_root + float(log_norm)

    if prior.rate is not None:
        value = evidence(prior.rate)
        if not np.isfinite(value):
            raise _impossible(release)
        return np.array([prior.rate]), np.zeros(1), value
    low, high = np.log(_range(release, prior))
    grid = np.linspace(low, high, _COARSE)
    logs = np.array([evidence(np.exp(x)) for x in grid])
    if not np.isfinite(logs.max()):
        raise _impossible(release)
    while True:
        keep = np.flatnonzero(logs > logs.max() - _NO_EVIDENCE)
        left, right = max(keep[0] - 1, 0), min(keep[-1] + 1, grid.size - 1)
        if right - left >= 0.6 * (grid.size - 1) and grid.size >= _FINE:
            break
        grid = np.linspace(grid[left], grid[right], _FINE)
        logs = np.array([evidence(np.exp(x)) for x in grid])
    # Trapezoid over log rate, under a uniform law on [low, high].
    cell = np.full(grid.size, grid[1] - grid[0])
    cell[[0, -1]] *= 0.5
    log_posterior = logs + np.log(cell)
    total = float(special.logsumexp(log_posterior) - np.log(high - low))
    return np.exp(grid), log_posterior - special.logsumexp(log_posterior), total


def _given_rate(
    nest: Structure,
    weights: GammaWeights,
    rate: float,
    draws: int,
    rng: np.random.Generator,
    progress: Progress,
) -> np.ndarray:
    """Draw counts of an unknown total given the rate; cells are independent without margins."""
    tilt = -float(np.log1p(rate))
    if not nest.flat:
        return CountTree(nest, weights, tilt, None).draw(draws, rng, progress)
    tables = leaf_tables(weights, nest.cells, tilt, None)
    counts = np.empty((nest.cells.size, draws), dtype=np.int64)
    for j, table in enumerate(tables.tables):
        uniforms = rng.random(draws)
        outward_draws(table, tables.first[j], int(tables.mean[j]), uniforms, counts[j])
    progress(nest.cells.size)
    return np.ascontiguousarray(counts.T)


def _by_value(chosen: np.ndarray, progress: Progress) -> Iterator[tuple[np.ndarray, Progress]]:
    """Rows that share a value, with a progress function scaled to their part of the work."""
    values = np.unique(chosen)
    owed = 0.0

    def share(done: int) -> None:
        nonlocal owed
        owed += done / values.size
        progress(int(owed))
        owed -= int(owed)

    for value in values:
        yield np.flatnonzero(chosen == value), share


def _dirichlet(shapes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one Dirichlet vector per row of shapes."""
    small = shapes < 0.1
    gammas = rng.standard_gamma(np.where(small, shapes + 1.0, shapes))
    if small.any():  # G(a) = G(a + 1) U^(1/a) underflows, but for its logarithm
        shrink = np.where(small, rng.standard_exponential(shapes.shape) / shapes, 0.0)
        logs = np.log(gammas) - shrink
        gammas = np.exp(logs - logs.max(axis=1, keepdims=True))
    return gammas / gammas.sum(axis=1, keepdims=True)


def _impossible(release: HistogramRelease) -> ImpossibleReleaseError:
    if release.total is None:
        return ImpossibleReleaseError("no table of counts could have led to these values")
    return ImpossibleReleaseError(
        f"no table of counts that sums to the public total {release.total} could have led to "
        "these values: check total and the mechanism"
    )
