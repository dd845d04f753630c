"""Posterior predictive check: whether the fitted model releases values like those published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dpbayes.errors import ParameterError
from dpbayes.mechanism import Mechanism
from dpbayes.releases import CellTable, HistogramRelease, RecordRelease, SeriesRelease
from dpbayes.releases.compression import compress, probability_table

if TYPE_CHECKING:
    from dpbayes.posterior.posterior import Posterior

__all__ = [
    "PredictiveCheck",
    "check",
    "discrepancy_p_value",
    "pit",
    "position",
    "replicate_counts",
    "replicate_records",
]

RECORD_CELLS = 40
_MOST_VALUES = 1_000_000
_REACH = 4.0  # tails of released records that are drawn, in noise sds beyond the bounds


@dataclass(frozen=True)
class PredictiveCheck:
    """Released values beside replicates of them that the fitted model draws.

    Parameters
    ----------
    observed : ndarray, shape (K,)
        Released values (NaN where suppressed); for records, their counts over cells.
    replicated : ndarray, shape (S, K)
        The same for each replicate.
    below, above : ndarray, shape (K,)
        Ends of each released value's position among its replicates, between 0 and 1; they
        lie apart where replicates are equal to the value (clamped, suppressed, counts).
    pit : ndarray, shape (K,)
        A random point between them (see `pit`).
    p_value : float
        Probability that a replicate is as unlike the others as the release is.
    sum_below, sum_above : float
        Ends of the position of the sum of the released values among its replicates.
    lower, upper : ndarray or None
        For records, ends of the cells of record + noise.
    """

    observed: np.ndarray
    replicated: np.ndarray
    below: np.ndarray
    above: np.ndarray
    pit: np.ndarray
    p_value: float
    sum_below: float
    sum_above: float
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None

    @property
    def resolves(self) -> bool:
        """Whether there are enough replicates for `outside` to mark anything."""
        return self.replicated.shape[0] >= 40 * self.pit.size

    @property
    def outside(self) -> np.ndarray:
        """Mask of values that are implausible even as the most extreme of them all.

        A value is marked where all of its position lies in the outer 0.05 / K of both tails
        (Bonferroni). Fewer than 40 K replicates cannot show that, and mark nothing.
        """
        tail = 2.0 * np.minimum(self.above, 1.0 - self.below)
        return tail < 0.05 / self.pit.size


def check(posterior: Posterior, rng: Any = None, replicates: int | None = None) -> PredictiveCheck:
    """Draw releases from the posterior predictive law and compare the published one with them.

    For each of some posterior draws, a table (or set of records) of the same size is drawn
    from P and sent through the whole mechanism: noise, rounding, clamping, suppression.

    Parameters
    ----------
    posterior : Posterior
        What was fitted.
    rng : Generator, int or None
        Source of randomness.
    replicates : int
        Number of replicated releases, at most one per posterior draw; by default as many as
        there are draws, fewer where the table is large.

    Returns
    -------
    PredictiveCheck

    Notes
    -----
    The release was used twice, to fit P and to be compared with it, so that its PIT values
    crowd around one half and its p-value above it: a small p-value is a strong sign.
    It finds totals, bounds and shapes that do not fit; P itself is free, and a noise scale
    stated too small is mostly absorbed by it.

    References
    ----------
    Gelman, Meng & Stern (1996), Statistica Sinica 6:733-760.
    """
    rng = np.random.default_rng(rng)
    weights = posterior.P.weights.values
    weights = weights.reshape(-1, weights.shape[-1])
    if replicates is None:
        replicates = max(200, _MOST_VALUES // weights.shape[-1])
    rows = _thin(weights.shape[0], replicates)
    weights = weights[rows]
    lower = upper = None
    release = posterior.release
    if isinstance(release, HistogramRelease):
        total = posterior.total.values.reshape(-1)[rows]
        observed = release.values.values.reshape(-1)
        replicated = replicate_counts(
            weights, total, release.mechanism, release.values.shape, rng
        ).reshape(rows.size, -1)
        score = np.ones(observed.size)
    elif isinstance(release, CellTable):
        observed = release.values.values.reshape(-1)
        replicated = np.array([release.replicate(p, rng) for p in weights], dtype=float)
        score = np.arange(observed.size, dtype=float)  # the sum is known beforehand
    elif isinstance(release, SeriesRelease):
        observed = release.values
        replicated = np.array([release.replicate(p, rng) for p in weights])
        score = np.ones(observed.size)
    else:
        assert isinstance(release, RecordRelease)
        elements = _elements(posterior)
        observed, replicated, lower, upper = replicate_records(weights, elements, release, rng)
        score = _middles(lower, upper)
    below, above = position(observed, replicated)
    sums = np.nan_to_num(replicated) @ score
    sum_below, sum_above = position(np.nan_to_num(observed[None]) @ score, sums[:, None])
    return PredictiveCheck(
        observed,
        replicated,
        below,
        above,
        pit(observed, replicated, rng),
        discrepancy_p_value(observed, replicated, rng),
        float(sum_below[0]),
        float(sum_above[0]),
        lower,
        upper,
    )


def replicate_counts(
    probability: np.ndarray,
    total: np.ndarray,
    mechanism: Mechanism,
    shape: tuple[int, ...],
    rng: np.random.Generator,
) -> np.ndarray:
    """Release a fresh table from each P: multinomial counts, then the whole mechanism.

    Parameters
    ----------
    probability : ndarray, shape (S, K)
        Distributions over the cells, flattened.
    total : ndarray, shape (S,)
        Number of records of each table.
    mechanism : Mechanism
        How counts are published.
    shape : tuple of int
        Shape of the table.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray, shape (S, *shape)
        Released values, NaN where suppressed.
    """
    empty = total == 0  # P may be undefined there, and does not matter
    p = np.where(empty[:, None], 1.0 / probability.shape[1], probability)
    counts = rng.multinomial(total.astype(np.int64), p / p.sum(axis=1, keepdims=True))
    return mechanism.sample(counts.reshape(-1, *shape), rng)


def replicate_records(
    weights: np.ndarray,
    elements: tuple[np.ndarray, np.ndarray],
    release: RecordRelease,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Count released records over cells, and draw such counts from each P.

    Parameters
    ----------
    weights : ndarray, shape (S, M)
        Weights of the elements of P.
    elements : pair of ndarray, shape (M,)
        Their ends: uniform between them, a point where they are equal.
    release : RecordRelease
        What was published.
    rng : Generator
        Source of randomness.

    Returns
    -------
    observed : ndarray, shape (K,)
        Released records per cell.
    replicated : ndarray, shape (S, K)
        Multinomial counts with the exact probabilities of the cells: their cost does not
        depend on the number of records.
    lower, upper : ndarray, shape (K,)
        Ends of the cells of record + noise.
    """
    edges = _display_edges(release)
    cells = compress(
        release.values, release.mechanism, release.bounds, support=release.support, edges=edges
    )
    cells, table = probability_table(cells, release.mechanism, *elements)
    p = weights @ table.T
    replicated = rng.multinomial(release.size, p / p.sum(axis=1, keepdims=True))
    return cells.counts, replicated, cells.lower, cells.upper


def position(observed: np.ndarray, replicated: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the positions of values among their replicates.

    Parameters
    ----------
    observed : ndarray, shape (K,)
        Values; NaN (suppressed) counts as below all numbers.
    replicated : ndarray, shape (S, K)
        Replicates.

    Returns
    -------
    below, above : ndarray, shape (K,)
        #{r < y} / (S + 1) and (#{r <= y} + 1) / (S + 1).
    """
    if replicated.ndim != 2 or replicated.shape[1:] != observed.shape:
        raise ParameterError(
            f"replicated must have one column per value ({observed.size}), "
            f"got shape {replicated.shape}"
        )
    y, r = _ordered(observed), _ordered(replicated)
    size = r.shape[0] + 1.0
    return (r < y).sum(axis=0) / size, ((r <= y).sum(axis=0) + 1.0) / size


def pit(observed: np.ndarray, replicated: np.ndarray, rng: Any = None) -> np.ndarray:
    r"""Randomised probability integral transform of values among replicates of them.

    .. math:: u = (\#\{r < y\} + V (\#\{r = y\} + 1)) / (S + 1), \quad V \sim U(0, 1)

    It is uniform where y has the law of its S replicates, also where that law is discrete
    or has atoms (clamped and suppressed values).

    Parameters
    ----------
    observed : ndarray, shape (K,)
        Values; NaN (suppressed) counts as below all numbers.
    replicated : ndarray, shape (S, K)
        Replicates.
    rng : Generator, int or None
        Source of the V.

    Returns
    -------
    ndarray, shape (K,)
    """
    below, above = position(observed, replicated)
    return below + np.random.default_rng(rng).random(observed.shape) * (above - below)


def discrepancy_p_value(observed: np.ndarray, replicated: np.ndarray, rng: Any = None) -> float:
    """P-value of all values together: how often a replicate lies further out than the release.

    Every row, the release and each replicate, is ranked per cell among all rows (ties at
    random); its discrepancy is the sum of squared normal scores of its ranks. The p-value
    is the share of rows with a larger one: uniform where the release is one more replicate.

    Parameters
    ----------
    observed, replicated, rng
        As in `pit`.

    Returns
    -------
    float
    """
    rng = np.random.default_rng(rng)
    rows = _ordered(np.concatenate([observed[None].astype(float), replicated]))
    order = np.lexsort((rng.random(rows.shape), rows), axis=0)
    ranks = np.empty(rows.shape)
    np.put_along_axis(ranks, order, np.arange(rows.shape[0])[:, None] + 0.5, axis=0)
    scores = special.ndtri(ranks / rows.shape[0])
    distance = np.sum(scores**2, axis=1)
    return float(1.0 - pit(distance[:1], distance[1:, None], rng)[0])


def _ordered(values: np.ndarray) -> np.ndarray:
    """Values with suppressed ones below all others."""
    return np.where(np.isnan(values), -np.inf, values)


def _thin(size: int, most: int) -> np.ndarray:
    """Evenly spread indices, so that every chain is represented."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(int))


def _elements(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the bins of P, then its atoms: the order of `Estimand.weights`."""
    edges, atoms = posterior._edges, posterior._atoms
    bins = np.empty(0) if edges is None else edges
    return np.concatenate([bins[:-1], atoms]), np.concatenate([bins[1:], atoms])


def _display_edges(release: RecordRelease) -> np.ndarray:
    """Edges of about 40 equal cells of record + noise that hold the release and its bounds."""
    mechanism = release.mechanism
    step = mechanism.integer_step() if mechanism.noise.is_lattice else 0.0
    found = mechanism.interval(release.values).bounds(step)
    ends = np.concatenate([found.lower, found.upper])
    ends = ends[np.isfinite(ends)]
    reach = _REACH * float(mechanism.noise.sd)
    low, high = release.bounds[0] - reach, release.bounds[1] + reach
    if ends.size and max(low, ends.min()) < min(high, ends.max()):
        low, high = max(low, ends.min()), min(high, ends.max())
    if step == 0.0:
        return np.linspace(low, high, RECORD_CELLS + 1)
    width = step * max(1.0, np.ceil((high - low) / (RECORD_CELLS * step)))
    first = step * np.floor(low / step) - 0.5 * step
    return np.arange(first, high + width, width)


def _middles(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Middles of cells; an open end counts as its finite one."""
    low = np.where(np.isinf(lower), upper, lower)
    high = np.where(np.isinf(upper), lower, upper)
    return 0.5 * (low + high)
