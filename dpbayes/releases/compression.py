"""Perturbed records as counts over cells, so that no later step depends on their number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpbayes.errors import ImpossibleReleaseError, UnsupportedError
from dpbayes.kernels.cells import cell_probabilities
from dpbayes.kernels.families import DISCRETE_LAPLACE, LAPLACE
from dpbayes.mechanism import Mechanism, Preimage

__all__ = ["CompressedRecords", "compress", "probability_table", "record_cells"]

CELLS_PER_SCALE = 20
FEWEST_CELLS = 128
MOST_CELLS = 4096
TAIL_SD = 6.0
CHUNK = 1 << 20
_EDGE_TOLERANCE = 1e-7  # of a cell
_SMALLEST = 1e-290  # probabilities below this count as impossible


@dataclass(frozen=True)
class CompressedRecords:
    """Counts of records by where true value + noise must have been.

    Parameters
    ----------
    lower, upper : numpy.ndarray, shape (J,)
        Ends of the cells, a partition of the line: lower < value + noise <= upper. The
        first and last ends are infinite. On a lattice finite ends lie between its points.
    counts : numpy.ndarray of int, shape (J,)
        Records in each cell.
    step : float
        Step of the lattice on which value + noise lives; 0 if continuous.
    """

    lower: np.ndarray
    upper: np.ndarray
    counts: np.ndarray
    step: float = 0.0

    @property
    def total(self) -> int:
        """Number of records."""
        return int(self.counts.sum())


def compress(
    values: ArrayLike,
    mechanism: Mechanism,
    bounds: tuple[float, float],
    *,
    support: str = "continuous",
    edges: ArrayLike | None = None,
) -> CompressedRecords:
    """Count released records by cell, in one pass.

    Parameters
    ----------
    values : array_like, shape (n,)
        Released records (NaN where one was suppressed).
    mechanism : Mechanism
        Noise and steps that each record went through.
    bounds : tuple of float
        Public bounds of the true values.
    support : {"continuous", "integers"}
        Whether the true values are whole numbers.
    edges : array_like, optional
        Finite edges wanted, in place of a grid that suits the likelihood; on a lattice,
        between its points.

    Returns
    -------
    CompressedRecords

    Raises
    ------
    ImpossibleReleaseError
        If a record cannot come from the mechanism.
    UnsupportedError
        If the noise has no kernel, has a scale per record, or lives on a lattice while the
        true values do not.

    Notes
    -----
    The cells do not depend on the records (see `record_cells`), so that a draw of the counts
    is a draw of the release and every cell keeps its exact probability.
    """
    records = np.asarray(values, dtype=float).reshape(-1)
    lower, upper = record_cells(mechanism, bounds, support=support, edges=edges)
    step = _lattice(mechanism, support)
    counts = np.zeros(lower.size, dtype=np.int64)
    for start in range(0, records.size, CHUNK):
        chunk = records[start : start + CHUNK]
        found = _preimage(mechanism, chunk, step, start)
        counts += np.bincount(_locate(found, lower, upper), minlength=lower.size)
    return CompressedRecords(lower, upper, counts, step)


def probability_table(
    records: CompressedRecords, mechanism: Mechanism, x_lower: ArrayLike, x_upper: ArrayLike
) -> tuple[CompressedRecords, np.ndarray]:
    """Probability of each cell of the records given each basis element of the true law.

    Parameters
    ----------
    records : CompressedRecords
        Cells and counts.
    mechanism : Mechanism
        Noise that each record went through.
    x_lower, x_upper : array_like, shape (M,)
        Ends of the basis elements; equal for a point.

    Returns
    -------
    records : CompressedRecords
        Without the empty cells that no basis element can reach.
    table : numpy.ndarray, shape (J, M)
        A[j, k] = P(record in cell j | true value uniform on element k).

    Raises
    ------
    ImpossibleReleaseError
        If a record lies where no basis element can have put it.
    """
    noise = mechanism.noise
    table = cell_probabilities(
        noise.family or 0, float(noise.scale), noise.step, records.lower, records.upper,
        x_lower, x_upper,
    )  # fmt: skip
    reached = table.max(axis=1) > _SMALLEST
    lost = ~reached & (records.counts > 0)
    if lost.any():
        at = int(np.argmax(lost))
        raise ImpossibleReleaseError(
            f"{int(records.counts[lost].sum())} records cannot come from the bounds and noise "
            f"stated, got {int(records.counts[at])} of value + noise in "
            f"({records.lower[at]:g}, {records.upper[at]:g}]; check the bounds and the scale"
        )
    kept = CompressedRecords(
        records.lower[reached], records.upper[reached], records.counts[reached], records.step
    )
    return kept, table[reached]


def record_cells(
    mechanism: Mechanism,
    bounds: tuple[float, float],
    *,
    support: str = "continuous",
    edges: ArrayLike | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Partition of the line into cells for value + noise.

    Parameters
    ----------
    mechanism : Mechanism
        Noise and steps that each record went through.
    bounds : tuple of float
        Public bounds of the true values.
    support : {"continuous", "integers"}
        Whether the true values are whole numbers.
    edges : array_like, optional
        Finite edges wanted, in place of a grid that suits the likelihood; on a lattice,
        between its points.

    Returns
    -------
    lower, upper : numpy.ndarray, shape (J,)
        Ends of the cells.

    Notes
    -----
    Between the bounds the cells are about scale/20 wide, and no wider than a 128th of the
    range under Laplace noise (never narrower than a 4096th). Under Laplace noise everything
    beyond a bound is one cell, which loses nothing: there the likelihood of each true value
    falls by the same factor. Under Gaussian noise cells go on for 6 sd before they are
    pooled. Ends are moved outwards to those of the rounding, clamping and suppression
    intervals, so a cell never mixes part of such an interval with something else.

    Pooling a cell of width h loses little. Within it the log likelihood ratio of two
    distributions of the true value varies by at most r = 2h/b (Laplace) or
    r = (hi - lo) h/sd² (Gaussian), so by Hoeffding's lemma it loses at most r²/8 nats of
    their divergence per record: 1/800 under Laplace noise, for two distributions that are
    up to (hi - lo)/b nats apart.
    """
    step = _lattice(mechanism, support)
    edges = _grid(mechanism, bounds, support, step) if edges is None else np.asarray(edges, float)
    # An edge belongs to the cell below it: on a lattice that cell's last point stands for it.
    last = edges - 0.5 * step
    found = mechanism.interval(mechanism.forward(last)).bounds(step)
    point = found.lower == found.upper
    cuts = (found.upper[point] + 0.5 * step, found.lower[~point], found.upper[~point])
    ends = np.unique(np.concatenate(cuts))
    ends = ends[np.isfinite(ends)]
    width = np.min(np.diff(edges)) if edges.size > 1 else 1.0
    ends = ends[np.diff(ends, prepend=-np.inf) > _EDGE_TOLERANCE * width]
    return np.r_[-np.inf, ends], np.r_[ends, np.inf]


def _lattice(mechanism: Mechanism, support: str) -> float:
    """Lattice of value + noise, after checking that the kernels know the noise."""
    noise = mechanism.noise
    if noise.family is None:
        raise UnsupportedError(
            f"records with {type(noise).__name__} noise have no likelihood here yet: "
            "Laplace, Gaussian, DiscreteLaplace and DiscreteGaussian have"
        )
    if noise.shape != ():
        raise UnsupportedError(
            f"records need one noise scale for all, got an array of shape {noise.shape}: "
            "split the release by scale"
        )
    if noise.is_lattice and support != "integers":
        raise UnsupportedError(
            f"{type(noise).__name__} noise lives on a lattice, got records with continuous "
            'support: state support="integers"'
        )
    return mechanism.integer_step()


def _grid(
    mechanism: Mechanism, bounds: tuple[float, float], support: str, step: float
) -> np.ndarray:
    """Finite edges of the cells before the steps of the mechanism are respected."""
    low, high = (float(b) for b in bounds)
    noise = mechanism.noise
    span, scale = high - low, float(noise.scale)
    laplace = noise.family in (LAPLACE, DISCRETE_LAPLACE)
    tail = 0.0 if laplace else TAIL_SD * float(noise.sd)
    if step > 0:
        width = step * max(1, int(scale / (CELLS_PER_SCALE * step)), int(span / MOST_CELLS / step))
        beyond = width * np.ceil(tail / width)
        return np.arange(low - beyond, high + beyond + 0.25 * step, width) + 0.5 * step
    cells = int(np.ceil(CELLS_PER_SCALE * span / scale))
    cells = min(max(cells, FEWEST_CELLS if laplace else 1), MOST_CELLS)
    if support == "integers" and cells > span:
        # Whole numbers fall on edges, where a Laplace density has its kink.
        cells = int(span) * int(np.ceil(cells / span))
    width = span / cells
    outer_width = min(width, scale / 4)
    outer = outer_width * np.arange(1, int(np.ceil(tail / outer_width)) + 1)
    return np.concatenate([low - outer[::-1], np.linspace(low, high, cells + 1), high + outer])


def _preimage(mechanism: Mechanism, records: np.ndarray, step: float, start: int) -> Preimage:
    """Canonical bounds of value + noise for a chunk of records."""

    def label(index: int) -> str:
        return f"record in row {start + index + 1}"

    if step > 0:
        return mechanism.integer_bounds(records, label)
    return mechanism.interval(records, label)


def _locate(found: Preimage, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Cell of each record, by a value inside its interval."""
    edges = lower[1:]
    low, high = found.lower, found.upper
    # No finite number is beyond the last edge by enough to matter: open ends become finite.
    inside = 0.5 * (np.maximum(low, edges[0] - 1.0) + np.minimum(high, edges[-1] + 1.0))
    value = np.where(low == high, low, inside)
    return np.searchsorted(edges, value, side="left")
