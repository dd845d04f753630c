r"""Exact, independent posterior draws for released counts under conjugate priors.

With λ_j ~ Gamma(a_j, β) and counts N_j ~ Poisson(λ_j), each cell has the leaf weights
w_j(m) = Γ(a_j+m) / (Γ(a_j) m!) t^m, t = 1/(1+β), times the likelihood Q(y_j | m) of its
released value. An unknown total leaves the cells independent. A public total n conditions
on Σ N_j = n, which makes the counts Dirichlet-multinomial for every t: t is then a free
tilt, chosen such that the expected total is n, and the counts are drawn down a tree of
sums. No Markov chain is involved: draws are independent, and the evidence is a by-product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpbayes.engines.leaves import GammaWeights, LeafTables, Likelihood, leaf_tables
from dpbayes.engines.tree import CountTree
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
    likelihood = Likelihood(release.observations())
    shapes = prior.shapes(release.size)
    weights = GammaWeights(shapes)
    if release.total is not None:
        counts, evidence = _public_total(release, shapes, weights, likelihood, draws, rng, progress)
        rate = None
    else:
        grid, log_posterior, evidence = _rates(release, prior, shapes, weights, likelihood)
        counts, rate = _unknown_total(
            grid, log_posterior, weights, likelihood, draws, rng, progress
        )
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
    likelihood = Likelihood(release.observations())
    shapes = prior.shapes(release.size)
    weights = GammaWeights(shapes)
    if release.total is None:
        return _rates(release, prior, shapes, weights, likelihood)[2]
    tables, tilt = _tilted_to(release.total, shapes, weights, likelihood)
    tree = CountTree(tables, method)
    return _public_evidence(tree, release.total, tilt, shapes)


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
    intensity = rng.standard_gamma(shapes, (draws, shapes.size)) / rate[:, None]
    count = rng.poisson(intensity)
    total = intensity.sum(axis=1, keepdims=True)
    probability = np.divide(
        intensity, total, out=np.full(intensity.shape, 1.0 / shapes.size), where=total > 0
    )
    return {"probability": probability, "count": count, "total": count.sum(axis=1)}


# -- public total ----------------------------------------------------------------------


def _public_total(
    release: HistogramRelease,
    shapes: np.ndarray,
    weights: GammaWeights,
    likelihood: Likelihood,
    draws: int,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[np.ndarray, float]:
    total = int(release.total)  # type: ignore[arg-type]
    tables, tilt = _tilted_to(total, shapes, weights, likelihood)
    tree = CountTree(tables)
    evidence = _public_evidence(tree, total, tilt, shapes)
    if not np.isfinite(evidence):
        raise _impossible(release)
    progress(1)
    counts = tree.draw(np.full(draws, total), rng, progress)
    return np.ascontiguousarray(counts.T), evidence


def _public_evidence(tree: CountTree, total: int, tilt: float, shapes: np.ndarray) -> float:
    """Undo the tilt and the normalisation of the weights of a total."""
    a = shapes.sum()
    norm = special.gammaln(a + total) - special.gammaln(a) - special.gammaln(total + 1.0)
    return tree.log_mass(total) - total * tilt - float(norm)


def _tilted_to(
    total: int, shapes: np.ndarray, weights: GammaWeights, likelihood: Likelihood
) -> tuple[LeafTables, float]:
    """Tabulate the leaves under the tilt that makes the expected total equal `total`.

    The expected total increases with the tilt, so that a safeguarded Newton iteration
    finds it. It need only be near: any tilt gives the same posterior, and a good one keeps
    the total in the bulk of the root's table, where FFT is accurate.
    """
    tilt = float(-np.log1p(shapes.sum() / max(total, 1)))
    low, high = -np.inf, np.inf
    for _ in range(200):
        tables = leaf_tables(weights, likelihood, tilt, cap=total)
        gap, variance = tables.mean.sum() - total, tables.variance.sum()
        if abs(gap) <= 0.1 * np.sqrt(variance) + 1e-9 * total:
            break
        low, high = (tilt, high) if gap < 0 else (low, tilt)
        # The log odds of a mean near a bound move further than Newton's step says.
        step = np.clip(-gap / variance, -8.0, 8.0) if variance > 1e-12 else -8.0 * np.sign(gap)
        tilt += step
        if not low < tilt < high:
            tilt = 0.5 * (low + high)
        if abs(tilt) > 1e4:
            break
    return tables, tilt


# -- unknown total ---------------------------------------------------------------------


def _range(release: HistogramRelease, prior: Dirichlet) -> tuple[float, float]:
    centres = np.asarray(Likelihood(release.observations()).centres())
    return prior.rate_range(centres, release.observations().noise.sd)


def _rates(
    release: HistogramRelease,
    prior: Dirichlet,
    shapes: np.ndarray,
    weights: GammaWeights,
    likelihood: Likelihood,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Grid of rates, their log posterior weights and the log evidence."""

    def evidence(rate: float) -> float:
        tables = leaf_tables(weights, likelihood, -np.log1p(rate), cap=None)
        log_norm = np.log(rate) - np.log1p(rate)  # log(1 - t)
        return float(tables.log_mass.sum() + shapes.sum() * log_norm)

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
        enough = right - left >= 0.6 * (grid.size - 1)
        if enough and grid.size >= _FINE:
            break
        grid = np.linspace(grid[left], grid[right], _FINE)
        logs = np.array([evidence(np.exp(x)) for x in grid])
    # Trapezoid over log rate, under a uniform law on [low, high].
    cell = np.full(grid.size, grid[1] - grid[0])
    cell[[0, -1]] *= 0.5
    log_posterior = logs + np.log(cell)
    total = float(special.logsumexp(log_posterior) - np.log(high - low))
    return np.exp(grid), log_posterior - special.logsumexp(log_posterior), total


def _unknown_total(
    grid: np.ndarray,
    log_posterior: np.ndarray,
    weights: GammaWeights,
    likelihood: Likelihood,
    draws: int,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the rate, then every count on its own."""
    chosen = rng.choice(grid.size, size=draws, p=np.exp(log_posterior))
    counts = np.empty((draws, likelihood.size), dtype=np.int64)
    done = 0
    for index in np.unique(chosen):
        rows = np.flatnonzero(chosen == index)
        tables = leaf_tables(weights, likelihood, -np.log1p(grid[index]), cap=None)
        column = np.empty(rows.size, dtype=np.int64)
        uniforms = rng.random((likelihood.size, rows.size))
        for j, table in enumerate(tables.tables):
            outward_draws(table, tables.first[j], int(tables.mean[j]), uniforms[j], column)
            counts[rows, j] = column
        target = int(likelihood.size * (np.searchsorted(np.unique(chosen), index) + 1)
                     / np.unique(chosen).size)  # fmt: skip
        progress(target - done)
        done = target
    return counts, grid[chosen]


def _dirichlet(shapes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one Dirichlet vector per row of shapes."""
    gammas = rng.standard_gamma(shapes)
    total = gammas.sum(axis=1, keepdims=True)
    safe = np.where(total > 0, total, 1.0)
    return np.where(total > 0, gammas / safe, 1.0 / shapes.shape[1])


def _impossible(release: HistogramRelease) -> ImpossibleReleaseError:
    if release.total is None:
        return ImpossibleReleaseError("no table of counts could have led to these values")
    return ImpossibleReleaseError(
        f"no table of counts that sums to the public total {release.total} could have led to "
        "these values: check total and the mechanism"
    )
