"""The naive reading of a release: what an analyst does without a model.

Kept only to be shown beside the posterior: dropping negatives and normalising biases every
sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbayes.releases import CellTable, HistogramRelease, RecordRelease, SeriesRelease

__all__ = ["naive_counts", "naive_weights"]


def naive_counts(release: HistogramRelease | CellTable) -> np.ndarray:
    """Released counts as they are, with any rescaling undone; NaN where suppressed."""
    if isinstance(release, CellTable):
        return release.naive_counts()
    bounds = release.observations().bounds
    low, high = bounds.lower, bounds.upper
    suppressed = np.isnan(release.values.values.reshape(-1))
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isinf(low), high, np.where(np.isinf(high), low, 0.5 * (low + high)))
    # A clamped value is an interval to infinity: the naive reader takes its finite end.
    end = np.where(np.isinf(low) & release.mechanism.noise.is_lattice, np.floor(high), middle)
    end = np.where(np.isinf(high) & release.mechanism.noise.is_lattice, np.ceil(low), end)
    return np.where(suppressed, np.nan, end).reshape(release.values.shape)


def naive_weights(release: Any, edges: np.ndarray | None, atoms: np.ndarray) -> np.ndarray:
    """Shares of bins, then atoms, by clipping negatives or out-of-range records.

    Parameters
    ----------
    release : HistogramRelease or RecordRelease
        What was published.
    edges : ndarray or None
        Bin edges of the posterior.
    atoms : ndarray
        Points with mass of their own in the posterior; the naive reader counts the records
        clipped to them.
    """
    if isinstance(release, HistogramRelease | CellTable):
        counts = np.maximum(np.nan_to_num(naive_counts(release)), 0.0)
        total = counts.sum()
        return counts / total if total > 0 else np.full(counts.shape, np.nan)
    if isinstance(release, SeriesRelease):
        assert edges is not None
        (low, high), size = release.bounds[0], edges.size - 1
        middle = (0.5 * (edges[1:] + edges[:-1]) - low) / (high - low)
        shares = np.maximum(release.density(middle), 0.0)
        return shares / shares.sum() if shares.sum() > 0 else np.full(size, 1.0 / size)
    assert isinstance(release, RecordRelease)
    low, high = release.bounds
    values = np.clip(release.values[~np.isnan(release.values)], low, high)
    if edges is None:
        nearest = np.abs(values[:, None] - atoms).argmin(axis=1)
        return np.bincount(nearest, minlength=atoms.size) / values.size
    at = [np.mean(values == point) for point in atoms]
    rest = values[~np.isin(values, atoms)]
    return np.append(np.histogram(rest, bins=edges)[0] / values.size, at)
