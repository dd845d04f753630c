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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from dpbayes.engines.alone import THREADS, IndependentCells
from dpbayes.engines.grid import adaptive_grid
from dpbayes.engines.leaves import GammaWeights
from dpbayes.engines.likelihood import Likelihood
from dpbayes.engines.tree import CountTree, Structure, structure
from dpbayes.errors import ImpossibleReleaseError
from dpbayes.priors import LEARNED, Dirichlet
from dpbayes.releases import HistogramRelease

__all__ = ["ExactDraws", "draw_posterior", "draw_prior", "log_evidence"]

#: Probabilities drawn at a time from one stream of random numbers.
_ENTRIES = 1 << 20

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
    concentration : ndarray, shape (draws,), or None
        Shape of the Gamma laws where it was learned.
    log_evidence : float
        log p(released values | prior); a density where the noise is continuous.
    """

    probability: np.ndarray
    count: np.ndarray
    total: np.ndarray
    rate: np.ndarray | None
    concentration: np.ndarray | None
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
    found = _hyperparameters(release, prior, nest)
    chosen = rng.choice(len(found.points), size=draws, p=found.weights)
    if len(found.points) == 1:
        counts = found.points[0].draw(draws, rng, progress)
    else:
        counts = np.empty((draws, release.size), dtype=np.int64)
        for rows, share in _by_value(chosen, progress):
            point = replace(found.points[chosen[rows[0]]])  # a copy: its tree goes with it
            counts[rows] = point.draw(rows.size, rng, share)
    shapes = np.stack([point.shapes for point in found.points])
    rates = np.array([point.rate for point in found.points], dtype=float)
    learned = prior.concentration == "learned"
    return ExactDraws(
        probability=_dirichlet_given_counts(shapes, chosen, counts, rng),
        count=counts,
        total=counts.sum(axis=1),
        rate=None if release.total is not None else rates[chosen],
        concentration=shapes[chosen, 0] if learned else None,
        log_evidence=found.log_evidence,
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

    Returns
    -------
    float
        -inf where no table of counts could have led to the release.
    """
    try:
        return _hyperparameters(release, prior, structure(release), method).log_evidence
    except ImpossibleReleaseError:
        return -np.inf


def draw_prior(
    release: HistogramRelease, prior: Dirichlet, draws: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw probability, count and total from the prior, one row per draw.

    Under an improper rate only the probabilities are drawn.
    """
    size = release.size
    if prior.concentration == "learned":
        low, high = np.log(LEARNED)
        shapes = np.exp(rng.uniform(low, high, (draws, 1))) * np.ones(size)
    else:
        shapes = np.broadcast_to(prior.shapes(size), (draws, size))
    if release.total is not None:
        probability = dirichlet(shapes, rng)
        count = rng.multinomial(release.total, probability)
        return {"probability": probability, "count": count, "total": count.sum(axis=1)}
    if prior.rate == 0:
        return {"probability": dirichlet(shapes, rng)}
    if prior.rate is not None:
        rate = np.full(draws, prior.rate)
    else:
        low, high = np.log(expected_totals(release, prior))
        rate = shapes.sum(axis=1) / np.exp(rng.uniform(low, high, draws))
    intensity = rng.standard_gamma(shapes) / rate[:, None]
    count = rng.poisson(intensity)
    total = intensity.sum(axis=1, keepdims=True)
    probability = np.divide(
        intensity, total, out=np.full(intensity.shape, 1.0 / size), where=total > 0
    )
    return {"probability": probability, "count": count, "total": count.sum(axis=1)}


# -- hyperparameters -------------------------------------------------------------------


@dataclass(frozen=True)
class _Point:
    """One value of the hyperparameters: shapes of the Gamma laws, and rate or public total."""

    nest: Structure
    alone: IndependentCells | None
    shapes: np.ndarray
    rate: float
    total: int | None
    method: str

    @property
    def _tilt(self) -> float:
        if self.total is not None:  # any tilt gives the same posterior: the likely one
            return float(-np.log1p(self.shapes.sum() / max(self.total, 1)))
        return float(-np.log1p(self.rate))

    @cached_property
    def _tree(self) -> CountTree:
        weights = GammaWeights(self.shapes)
        return CountTree(self.nest, weights, self._tilt, self.total, self.method)

    def log_evidence(self) -> float:
        """Log evidence given the hyperparameters; -inf where the release is impossible."""
        mass = self.shapes.sum()
        if self.total is not None:
            n = self.total
            norm = special.gammaln(mass + n) - special.gammaln(mass) - special.gammaln(n + 1.0)
            return self._tree.log_root - float(norm)
        # (1 - t)^A; an improper prior has no normalisation, and evidence up to a constant.
        log_norm = mass * (np.log(self.rate) - np.log1p(self.rate)) if self.rate > 0 else 0.0
        if self.alone is not None:
            return self.alone.log_mass(self.shapes, self._tilt) + float(log_norm)
        return self._tree.log_root + float(log_norm)

    def draw(self, draws: int, rng: np.random.Generator, progress: Progress) -> np.ndarray:
        """Draw counts; with nothing known of sums every cell is on its own."""
        if self.alone is not None:
            return self.alone.draw(self.shapes, self._tilt, draws, rng, progress)
        return self._tree.draw(draws, rng, progress)


@dataclass(frozen=True)
class _Hyperparameters:
    """Discrete posterior of the hyperparameters, and the evidence summed over them."""

    points: list[_Point]
    weights: np.ndarray
    log_evidence: float


def _hyperparameters(
    release: HistogramRelease, prior: Dirichlet, nest: Structure, method: str = "auto"
) -> _Hyperparameters:
    """Weigh the hyperparameters by their evidence; those that are given have weight 1."""
    size, total = release.size, release.total
    learned = prior.concentration == "learned"
    open_rate = total is None and prior.rate is None

    given = np.ones(size) if learned else prior.shapes(size)
    alone = IndependentCells(nest.cells, given) if nest.flat and total is None else None

    def point(x: np.ndarray) -> _Point:
        shapes = np.full(size, np.exp(x[0])) if learned else given
        rate = float(shapes.sum() / np.exp(x[-1])) if open_rate else prior.rate or 0.0
        return _Point(nest, alone, shapes, rate, total, method)

    def evidence(x: np.ndarray) -> float:
        return point(x).log_evidence()

    box = [tuple(np.log(LEARNED))] * learned
    box += [tuple(np.log(expected_totals(release, prior)))] * open_rate
    if not box:
        only = point(np.empty(0))
        value = only.log_evidence()
        if not np.isfinite(value):
            raise _impossible(release)
        return _Hyperparameters([only], np.ones(1), value)
    grid = adaptive_grid(evidence, box)
    if not np.isfinite(grid.log_integral):
        raise _impossible(release)
    keep = grid.weights > 1e-12
    points = [point(x) for x in grid.points[keep]]
    weights = grid.weights[keep] / grid.weights[keep].sum()
    return _Hyperparameters(points, weights, grid.log_integral)


def expected_totals(release: HistogramRelease, prior: Dirichlet) -> tuple[float, float]:
    """Range of the log-uniform law of an expected total."""
    observations = release.observations()
    return prior.total_range(Likelihood(observations).centres(), observations.noise.sd)


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


def dirichlet(shapes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one Dirichlet vector per row of shapes."""
    small = shapes < 0.1
    if not small.any():
        gammas = rng.standard_gamma(shapes)
    else:
        # G(a) = G(a + 1) U^(1/a) underflows, but for its logarithm.
        gammas = rng.standard_gamma(np.where(small, shapes + 1.0, shapes))
        shrink = np.where(small, rng.standard_exponential(shapes.shape) / shapes, 0.0)
        logs = np.log(gammas) - shrink
        gammas = np.exp(logs - logs.max(axis=1, keepdims=True))
    gammas /= gammas.sum(axis=1, keepdims=True)
    return gammas


def _dirichlet_given_counts(
    shapes: np.ndarray, chosen: np.ndarray, counts: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw P given the counts, some rows at a time: the arrays may be as large as memory."""
    out = np.empty(counts.shape)
    step = max(_ENTRIES // counts.shape[1], 1)
    starts = range(0, counts.shape[0], step)

    def work(start: int, child: np.random.Generator) -> None:
        rows = slice(start, start + step)
        out[rows] = dirichlet(shapes[chosen[rows]] + counts[rows], child)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, starts, rng.spawn(len(starts))))
    return out


def _impossible(release: HistogramRelease) -> ImpossibleReleaseError:
    if release.total is None:
        return ImpossibleReleaseError("no table of counts could have led to these values")
    return ImpossibleReleaseError(
        f"no table of counts that sums to the public total {release.total} could have led to "
        "these values: check total and the mechanism"
    )
