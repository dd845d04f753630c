"""By how much one person can move a statistic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dpbayes.errors import ParameterError
from dpbayes.privacy.neighbours import Neighbours, whole

__all__ = [
    "count_sensitivity",
    "histogram_sensitivity",
    "ks_sensitivity",
    "mean_sensitivity",
    "sensitivity",
    "sum_sensitivity",
]


def count_sensitivity(neighbours: Neighbours | str = Neighbours.REPLACE_ONE) -> float:
    """Sensitivity of one count: 1, whether a record is replaced or added.

    Parameters
    ----------
    neighbours : Neighbours
        Convention of neighbouring data sets.
    """
    Neighbours(neighbours)
    return 1.0


def histogram_sensitivity(
    neighbours: Neighbours | str = Neighbours.REPLACE_ONE, *, contributions: int = 1, norm: int = 1
) -> float:
    r"""Sensitivity of a vector of disjoint counts, in the L1 or L2 norm.

    A replaced record leaves one cell and enters another: 2 in the L1 norm, √2 in the L2
    norm. An added record changes one cell: 1. A person with up to `contributions` records,
    each of which may fall into the same cell, moves that many times as much.

    Parameters
    ----------
    neighbours : Neighbours
        Convention of neighbouring data sets.
    contributions : int
        Largest number of records of one person.
    norm : {1, 2}
        Norm: 1 for Laplace noise, 2 for Gaussian noise.

    References
    ----------
    Wasserman & Zhou (2010), section 4: noise of scale 2/α for a perturbed histogram.
    """
    if norm not in (1, 2):
        raise ParameterError(f"norm must be 1 or 2, got {norm!r}")
    cells = 2.0 if Neighbours(neighbours) is Neighbours.REPLACE_ONE else 1.0
    return whole("contributions", contributions, 1) * cells ** (1.0 / norm)


def sum_sensitivity(
    bounds: tuple[float, float], neighbours: Neighbours | str = Neighbours.REPLACE_ONE
) -> float:
    """Sensitivity of a sum of bounded values.

    It is hi - lo if a record is replaced, and the larger of |lo| and |hi| if one is added.

    Parameters
    ----------
    bounds : pair of float
        Bounds (lo, hi) to which each value is clipped.
    neighbours : Neighbours
        Convention of neighbouring data sets.
    """
    low, high = _bounds(bounds)
    if Neighbours(neighbours) is Neighbours.REPLACE_ONE:
        return high - low
    return max(abs(low), abs(high))


def mean_sensitivity(
    bounds: tuple[float, float],
    records: int,
    neighbours: Neighbours | str = Neighbours.REPLACE_ONE,
) -> float:
    """Sensitivity of the mean of n bounded values.

    It is (hi - lo)/n if a record is replaced, and (hi - lo)/(n + 1) if one joins n others.

    Parameters
    ----------
    bounds : pair of float
        Bounds (lo, hi) to which each value is clipped.
    records : int
        Number of records n (replace-one), or of the smaller of the two data sets.
    neighbours : Neighbours
        Convention of neighbouring data sets.
    """
    low, high = _bounds(bounds)
    n = whole("records", records, 1)
    larger = n if Neighbours(neighbours) is Neighbours.REPLACE_ONE else n + 1
    return (high - low) / larger


def ks_sensitivity(records: int, neighbours: Neighbours | str = Neighbours.REPLACE_ONE) -> float:
    r"""Sensitivity of the Kolmogorov-Smirnov distance of the empirical CDF to any fixed one.

    Replacing one of n records moves the empirical CDF by at most 1/n; adding one to n
    records by at most 1/(n + 1).

    Parameters
    ----------
    records : int
        Number of records n (replace-one), or of the smaller of the two data sets.
    neighbours : Neighbours
        Convention of neighbouring data sets.

    References
    ----------
    Wasserman & Zhou (2010), section 5 (exponential mechanism with KS loss).
    """
    n = whole("records", records, 1)
    return 1.0 / n if Neighbours(neighbours) is Neighbours.REPLACE_ONE else 1.0 / (n + 1)


def sensitivity(
    statistic: Callable[[Any], Any], pairs: Iterable[tuple[Any, Any]], *, norm: int = 1
) -> float:
    """Largest change of a statistic over given pairs of neighbours, by enumeration.

    Parameters
    ----------
    statistic : callable
        Function of a data set; a number or an array.
    pairs : iterable of pairs
        Neighbouring data sets, such as ``Neighbours.REPLACE_ONE.tables(cells=3, records=5)``.
    norm : {1, 2}
        Norm of the change.

    Raises
    ------
    ParameterError
        If the statistic is not finite somewhere.
    """
    if norm not in (1, 2):
        raise ParameterError(f"norm must be 1 or 2, got {norm!r}")
    largest = 0.0
    for one, other in pairs:
        change = np.atleast_1d(np.asarray(statistic(one), float) - np.asarray(statistic(other)))
        if not np.all(np.isfinite(change)):
            raise ParameterError(f"statistic must be finite, got a change of {change} at {one!r}")
        largest = max(largest, float(np.linalg.norm(change.reshape(-1), norm)))
    return largest


def _bounds(bounds: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        raise ParameterError(f"bounds must be a pair (lo, hi) of numbers, got {bounds!r}") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ParameterError(f"bounds must be finite with lo < hi, got ({low:g}, {high:g})")
    return low, high
