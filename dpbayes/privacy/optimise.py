"""Maximum of a function on an interval, with a bound that is proved."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from dpbayes.errors import ParameterError

__all__ = ["certified_maximum"]

#: Intervals into which the range is cut at first.
_START = 256


def certified_maximum(
    function: Callable[[np.ndarray], np.ndarray],
    lower: float,
    upper: float,
    lipschitz: float,
    tolerance: float = 1e-4,
    evaluations: int = 200_000,
) -> tuple[float, float, float]:
    """Maximise a Lipschitz function of one variable by branch and bound.

    On an interval of width w with ends f(a), f(b) the function is at most
    (f(a) + f(b) + L w) / 2; the interval with the largest bound is halved until the largest
    bound and the largest value agree.

    Parameters
    ----------
    function : callable
        Vectorised function.
    lower, upper : float
        Ends of the range.
    lipschitz : float
        L, a bound of the slope.
    tolerance : float
        Gap between value and bound at which to stop.
    evaluations : int
        Largest number of evaluations; where it is reached the gap is wider.

    Returns
    -------
    value, bound, place : float
        Largest value found, proved upper bound of all values, and where the value is taken.

    References
    ----------
    Piyavskii (1972), An algorithm for finding the absolute extremum of a function; Shubert (1972).
    """
    if not (np.isfinite(lipschitz) and lipschitz >= 0):
        raise ParameterError(f"lipschitz must be a finite number of at least 0, got {lipschitz}")
    x = np.linspace(lower, upper, _START + 1)
    y = np.asarray(function(x), float)
    if np.isnan(y).any():
        raise ParameterError(f"the log ratio is not a number at output {x[np.isnan(y)][0]:g}")
    best = int(np.argmax(y))
    value, place = float(y[best]), float(x[best])
    ceiling = 0.5 * (y[:-1] + y[1:] + lipschitz * np.diff(x))
    heap = [
        (-c, a, b, fa, fb)
        for c, a, b, fa, fb in zip(ceiling, x[:-1], x[1:], y[:-1], y[1:], strict=True)
    ]
    heapq.heapify(heap)
    used = x.size
    while -heap[0][0] > value + tolerance and used < evaluations:
        # Halve the worst few together: one call of the function for all of them.
        worst = [heapq.heappop(heap) for _ in range(min(64, len(heap)))]
        middle = np.array([0.5 * (a + b) for _, a, b, _, _ in worst])
        values = np.asarray(function(middle), float)
        used += middle.size
        for (_, a, b, fa, fb), m, fm in zip(worst, middle, values, strict=True):
            if fm > value:
                value, place = float(fm), float(m)
            for low, high, f_low, f_high in ((a, m, fa, fm), (m, b, fm, fb)):
                bound = 0.5 * (f_low + f_high + lipschitz * (high - low))
                heapq.heappush(heap, (-bound, low, high, f_low, f_high))
    return value, max(float(-heap[0][0]), value), place
