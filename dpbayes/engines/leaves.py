"""Tables of the posterior of single cells: prior weight times likelihood over a window.

A leaf's unnormalised log posterior at the count m is log w_j(m) + τ m + log Q(y_j | m),
where w_j are the weights of its prior and τ is a tilt (section "engines/exact").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpbayes.errors import UnsupportedError
from dpbayes.kernels import leaves as kernel
from dpbayes.mechanism import Preimage, bounds_log_likelihood
from dpbayes.noise import NoiseLaw
from dpbayes.releases import Observations

__all__ = ["GammaWeights", "LeafTables", "Likelihood", "leaf_tables"]

#: Entries this far below the largest, in log, are left out of a table.
NEGLIGIBLE = 43.0
#: Longest window; beyond it the release does not bound the count.
MAX_WINDOW = 50_000_000


class Likelihood:
    """log Q(y_j | m) for pairs of cells and counts, compiled where the law has a kernel.

    Parameters
    ----------
    observations : Observations
        Released cells.
    """

    def __init__(self, observations: Observations) -> None:
        self.size = observations.size
        self._bounds: Preimage = observations.bounds
        self._noise: NoiseLaw = observations.noise
        noise = observations.noise
        self._compiled = None
        if noise.family is not None:
            scale = np.broadcast_to(np.asarray(noise.scale, float), (self.size,)).copy()
            bounds = observations.bounds
            # Numba wants writable contiguous arrays of one type.
            lower, upper, jacobian = (
                np.array(a, dtype=float) for a in (bounds.lower, bounds.upper, bounds.log_jacobian)
            )
            peak = kernel.log_peaks(noise.family, scale, float(noise.step))
            self._compiled = (
                noise.family, lower, upper, jacobian, peak, scale, float(noise.step)
            )  # fmt: skip

    def __call__(self, cells: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Log likelihood of the pairs."""
        if self._compiled is not None:
            return kernel.log_likelihood(*self._compiled, cells, counts)
        b = self._bounds
        part = Preimage(
            b.lower[cells],
            b.upper[cells],
            b.lower_closed[cells],
            b.upper_closed[cells],
            b.log_jacobian[cells],
        )
        noise = self._noise.at(cells)
        # Lattices whose step is not one over a whole number leave holes between counts.
        return bounds_log_likelihood(noise, part, counts)

    def centres(self) -> np.ndarray:
        """Count at which each cell's likelihood is about largest."""
        low, high = self._bounds.lower, self._bounds.upper
        with np.errstate(invalid="ignore"):
            middle = np.where(
                np.isinf(low), high, np.where(np.isinf(high), low, 0.5 * (low + high))
            )
        middle = np.where(np.isinf(middle), 0.0, middle)
        return np.maximum(np.rint(middle), 0.0)


class GammaWeights:
    """Log prior weights log Γ(a+m) / (Γ(a) m!) of a Gamma(a, ·) mixture of Poisson counts.

    Parameters
    ----------
    shapes : ndarray
        Shape a_j of each cell.
    """

    def __init__(self, shapes: np.ndarray) -> None:
        self.shapes = shapes
        self._common = float(shapes[0]) if np.all(shapes == shapes[0]) else None

    def __call__(self, cells: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Log weights of pairs of cells and counts."""
        if self._common == 1.0:
            return np.zeros(counts.shape)
        a = self.shapes[cells] if self._common is None else self._common
        return special.gammaln(a + counts) - special.gammaln(a) - special.gammaln(counts + 1.0)


@dataclass(frozen=True)
class LeafTables:
    """Unnormalised posteriors of single counts over windows of their own.

    Parameters
    ----------
    first : ndarray of int
        Count of the first entry of each table.
    tables : list of ndarray
        Entries, scaled so that the largest is 1.
    log_scale : ndarray
        Log of the factor taken out of each table.
    mean, variance : ndarray
        Moments of each normalised table.
    """

    first: np.ndarray
    tables: list[np.ndarray]
    log_scale: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    @property
    def log_mass(self) -> np.ndarray:
        """Log of each table's sum."""
        return self.log_scale + np.log([t.sum() for t in self.tables])


def leaf_tables(
    log_weight: Callable[[np.ndarray, np.ndarray], np.ndarray],
    likelihood: Likelihood,
    tilt: float,
    cap: int | None,
) -> LeafTables:
    """Tabulate every leaf over the window where it is not negligible.

    Parameters
    ----------
    log_weight : callable
        Log prior weight of (cells, counts).
    likelihood : Likelihood
        Log likelihood of the same pairs.
    tilt : float
        Tilt τ, added as τ m.
    cap : int or None
        Largest possible count.
    """

    def log_f(cells: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return log_weight(cells, counts) + tilt * counts + likelihood(cells, counts)

    first, last = _windows(log_f, likelihood.centres(), cap)
    lengths = last - first + 1
    if lengths.max() > MAX_WINDOW:
        raise UnsupportedError(
            f"the release and the prior leave a count undecided among {lengths.max():.3g} values: "
            "give a larger prior rate or a public total"
        )
    cells = np.repeat(np.arange(first.size), lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    counts = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - first, lengths)
    logs = log_f(cells, counts.astype(float))
    top = np.maximum.reduceat(logs, offsets[:-1])
    with np.errstate(invalid="ignore"):
        values = np.exp(logs - np.repeat(top, lengths))
    sums = np.add.reduceat(values, offsets[:-1])
    mean = np.add.reduceat(values * counts, offsets[:-1]) / sums
    deviation = counts - np.repeat(mean, lengths)
    variance = np.add.reduceat(values * deviation**2, offsets[:-1]) / sums
    tables = np.split(values, offsets[1:-1])
    return LeafTables(first, tables, top, mean, variance)


def _windows(
    log_f: Callable[[np.ndarray, np.ndarray], np.ndarray], centres: np.ndarray, cap: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """First and last count of the window of each leaf.

    The log table is scanned on grids that widen geometrically from the likelihood's centre
    and from zero (where a prior may have a spike). For a log-concave table plus a spike at
    zero the scan brackets every entry within NEGLIGIBLE of the largest; a bisection then
    finds the ends.
    """
    size = centres.size
    cells = np.arange(size)
    limit = np.inf if cap is None else float(cap)
    centre = np.minimum(centres, limit)
    reach = 2.0 ** np.arange(0.0, 60.0)
    top = np.full(size, -np.inf)
    points: list[np.ndarray] = []
    values: list[np.ndarray] = []

    def visit(counts: np.ndarray) -> np.ndarray:
        value = log_f(cells, counts)
        points.append(counts)
        values.append(value)
        np.maximum(top, value, out=top)
        return value

    visit(centre)
    visit(np.zeros(size))
    for jump in reach:  # to the right of the centre until all is negligible
        right = np.minimum(centre + jump, limit)
        value = visit(right)
        if np.all((value < top - NEGLIGIBLE) | (right >= limit)) or jump > 2.0 * MAX_WINDOW:
            break
    for jump in reach:  # to the left of the centre, as far as zero
        left = np.maximum(centre - jump, 0.0)
        visit(left)
        if np.all(left == 0.0):
            break
    for jump in reach:  # away from zero, as far as the centre
        ahead = np.minimum(jump, centre)
        visit(ahead)
        if np.all(ahead == centre):
            break
    return _ends(log_f, np.stack(points), np.stack(values), top, limit)


def _ends(
    log_f: Callable[[np.ndarray, np.ndarray], np.ndarray],
    points: np.ndarray,
    values: np.ndarray,
    top: np.ndarray,
    limit: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Bisect for the ends of the windows, starting from the visited points."""
    order = np.argsort(points, axis=0, kind="stable")
    points = np.take_along_axis(points, order, axis=0)
    keep = np.take_along_axis(values, order, axis=0) >= top - NEGLIGIBLE
    lowest = np.argmax(keep, axis=0)
    highest = points.shape[0] - 1 - np.argmax(keep[::-1], axis=0)
    cells = np.arange(top.size)

    def bisect(inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
        while np.any(np.abs(outside - inside) > 1.0):
            middle = np.rint(0.5 * (inside + outside))
            good = log_f(cells, middle) >= top - NEGLIGIBLE
            inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
        return inside

    low_in = points[lowest, cells]
    low_out = np.where(lowest > 0, points[np.maximum(lowest - 1, 0), cells], low_in)
    high_in = points[highest, cells]
    final = points.shape[0] - 1
    high_out = np.where(highest < final, points[np.minimum(highest + 1, final), cells], high_in)
    first = np.maximum(bisect(low_in, np.minimum(low_out, low_in)), 0.0)
    last = np.minimum(bisect(high_in, np.maximum(high_out, high_in)), limit)
    return first.astype(np.int64), last.astype(np.int64)
