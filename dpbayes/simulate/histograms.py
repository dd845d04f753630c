"""Private histograms and the synthetic rows drawn from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbayes.errors import ParameterError
from dpbayes.mechanism import Clamp, Mechanism
from dpbayes.noise import Laplace
from dpbayes.noise.base import positive
from dpbayes.privacy.losses import dirichlet_sampling_alpha, smoothing_alpha, smoothing_delta
from dpbayes.privacy.neighbours import Neighbours, whole
from dpbayes.privacy.sensitivity import histogram_sensitivity
from dpbayes.releases import (
    DirichletSampling,
    HistogramRelease,
    PerturbedSampling,
    Smoothing,
    SyntheticRelease,
)
from dpbayes.simulate.binning import bin_records

__all__ = [
    "dirichlet_posterior",
    "perturbed_histogram",
    "smoothed_histogram",
    "synthetic_rows",
    "uniform_rows",
]

#: Largest number of rows that are returned one by one.
_MOST_ROWS = 100_000_000


def perturbed_histogram(
    records: Any,
    *,
    bins: Any,
    alpha: float,
    bounds: Any = (0.0, 1.0),
    clamp: bool = False,
    rng: Any = None,
) -> HistogramRelease:
    r"""Release counts by cell with Laplace noise of scale 2/α each.

    Replacing one of the n records takes 1 from a cell and gives 1 to another: the L1
    sensitivity of the counts is 2, so that noise of scale 2/α (variance 8/α²) is α-DP
    (Lemma 2.6 (3)). Clamping afterwards costs nothing (Lemma 2.6 (1)).

    Parameters
    ----------
    records : array_like
        One number, or one row of r numbers, per person.
    bins : int or array_like
        Number of equal cells along each axis (m = bins^r), or the edges (r = 1).
    alpha : float
        Privacy loss α under `Neighbours.REPLACE_ONE`.
    bounds : pair or pairs
        Bounds (lo, hi) of the records.
    clamp : bool
        Whether negative counts are published as 0.
    rng : Generator, int or None
        Source of randomness.

    Returns
    -------
    HistogramRelease
        With public total n.

    References
    ----------
    Wasserman & Zhou (2010), section 4.
    """
    binned = bin_records(records, bins, bounds)
    sensitivity = histogram_sensitivity(Neighbours.REPLACE_ONE)
    noise = Laplace.from_epsilon(epsilon=alpha, sensitivity=sensitivity)
    mechanism = Mechanism(noise, (Clamp(lower=0),) if clamp else ())
    released = mechanism.sample(binned.counts, rng)
    return HistogramRelease(
        released, mechanism=mechanism, total=binned.total, attrs=_attrs(alpha, sensitivity),
        **binned.named(),
    )  # fmt: skip


def smoothed_histogram(
    records: Any,
    *,
    bins: Any,
    draws: int,
    alpha: float | None = None,
    delta: float | None = None,
    bounds: Any = (0.0, 1.0),
    rng: Any = None,
) -> SyntheticRelease:
    r"""Draw k rows from (1 - δ) × the histogram + δ × the uniform law.

    A replaced record moves the probability of a cell by (1 - δ)/n at most, from δ/m at
    least: the rows are α-DP if and only if k log(1 + (1 - δ) m / (n δ)) <= α.

    Parameters
    ----------
    records : array_like
        One number, or one row of r numbers, per person.
    bins : int or array_like
        Number of equal cells along each axis, or the edges (r = 1).
    draws : int
        Number of rows k.
    alpha : float, optional
        Privacy loss α. Without `delta` the least δ that gives it is taken.
    delta : float, optional
        Share δ of the uniform law.
    bounds : pair or pairs
        Bounds (lo, hi) of the records.
    rng : Generator, int or None
        Source of randomness.

    Raises
    ------
    ParameterError
        If neither is given, or `delta` is below the least δ for `alpha`.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 4.1.
    """
    binned = bin_records(records, bins, bounds)
    size = {"draws": draws, "records": binned.total, "cells": binned.counts.size}
    if alpha is None and delta is None:
        raise ParameterError("give alpha= (then the least delta is taken), delta=, or both")
    if delta is None:
        assert alpha is not None
        delta = smoothing_delta(alpha=alpha, **size)
    reached = smoothing_alpha(delta=delta, **size)
    if alpha is not None and reached > positive("alpha", alpha) * (1.0 + 1e-9):
        least = smoothing_delta(alpha=alpha, **size)
        raise ParameterError(
            f"delta must be at least {least:.6g} for alpha {alpha:g}, got {delta:g}, "
            f"which gives alpha {reached:.6g}"
        )
    sampling = Smoothing(delta=delta)
    rows = sampling.sample(binned.counts, draws, np.random.default_rng(rng))
    return SyntheticRelease(
        rows, sampling=sampling, total=binned.total, attrs=_attrs(reached), **binned.named()
    )


def dirichlet_posterior(
    records: Any,
    *,
    bins: Any,
    draws: int,
    alpha: float | None = None,
    concentration: Any = None,
    bounds: Any = (0.0, 1.0),
    rng: Any = None,
) -> SyntheticRelease:
    r"""Draw k rows from one draw q ~ Dirichlet(a + counts).

    Replacing a record changes the Dirichlet-multinomial probability of the rows by a factor
    of at most 1 + k / min a, which is reached: α = log(1 + k / min a).

    Parameters
    ----------
    records : array_like
        One number, or one row of r numbers, per person.
    bins : int or array_like
        Number of equal cells along each axis, or the edges (r = 1).
    draws : int
        Number of rows k.
    alpha : float, optional
        Privacy loss α: takes the same a = k / (e^α - 1) for all cells.
    concentration : float or array, optional
        Pseudo-counts a. Exactly one of `alpha` and `concentration` must be given.
    bounds : pair or pairs
        Bounds (lo, hi) of the records.
    rng : Generator, int or None
        Source of randomness.

    References
    ----------
    Machanavajjhala, Kifer, Abowd, Gehrke & Vilhuber (2008), Privacy: theory meets practice on
    the map, section 3.
    """
    whole("draws", draws, 1)
    if (alpha is None) == (concentration is None):
        raise ParameterError("give either alpha= or concentration=")
    if concentration is None:
        concentration = float(draws / np.expm1(positive("alpha", alpha)))
    binned = bin_records(records, bins, bounds)
    sampling = DirichletSampling(concentration=concentration)
    rows = sampling.sample(binned.counts, draws, np.random.default_rng(rng))
    reached = dirichlet_sampling_alpha(concentration=concentration, draws=draws)
    return SyntheticRelease(
        rows, sampling=sampling, total=binned.total, attrs=_attrs(reached), **binned.named()
    )


def synthetic_rows(release: HistogramRelease, draws: int, *, rng: Any = None) -> SyntheticRelease:
    """Draw rows from a released histogram, clamped at 0 and normalised.

    The rows do not look at the data again: they have the α of the histogram, whatever their
    number (Lemma 2.6 (2)).

    Parameters
    ----------
    release : HistogramRelease
        Released counts with a public total, without margins or suppressed cells.
    draws : int
        Number of rows k.
    rng : Generator, int or None
        Source of randomness.

    References
    ----------
    Wasserman & Zhou (2010), Lemma 2.6 (2).
    """
    values = release.values
    if release.total is None:
        raise ParameterError("release must have a public total: what its rows say depends on n")
    if np.isnan(values.values).any() or release.margins or release.repeats:
        raise ParameterError("release must be one table without suppressed cells or margins")
    q = np.maximum(values.values.reshape(-1), 0.0)
    q = q / q.sum() if q.sum() > 0 else np.full(q.size, 1.0 / q.size)
    rows = np.random.default_rng(rng).multinomial(whole("draws", draws, 1), q)
    rows = values.copy(data=rows.reshape(values.shape).astype(float))
    named: dict[str, Any] = {"edges": release.edges} if release.edges is not None else {}
    return SyntheticRelease(
        rows.values if named else rows,
        sampling=PerturbedSampling(mechanism=release.mechanism), total=release.total,
        attrs=release.attrs, **named,
    )  # fmt: skip


def uniform_rows(release: SyntheticRelease, rng: Any = None) -> np.ndarray:
    """Positions of synthetic rows, uniform within their cells.

    Parameters
    ----------
    release : SyntheticRelease
        Rows counted by bins with edges.
    rng : Generator, int or None
        Source of randomness.
    """
    if release.edges is None:
        raise ParameterError("release must have numeric edges")
    if release.rows > _MOST_ROWS:
        raise ParameterError(
            f"release has {release.rows} rows, more than {_MOST_ROWS}: use its counts by cell"
        )
    counts = release.values.values.astype(np.int64)
    low, width = np.repeat(release.edges[:-1], counts), np.repeat(np.diff(release.edges), counts)
    return low + width * np.random.default_rng(rng).random(low.size)


def _attrs(alpha: float, sensitivity: float | None = None) -> dict[str, Any]:
    attrs: dict[str, Any] = {"epsilon": float(alpha), "neighbours": Neighbours.REPLACE_ONE.value}
    return attrs if sensitivity is None else attrs | {"sensitivity": sensitivity}
