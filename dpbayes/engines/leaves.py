"""Tables of the posterior of single cells: prior weight times likelihood over a window.

A leaf's unnormalised log posterior at the count m is log w_j(m) + τ m + log Q(y_j | m),
where w_j are the weights of its prior and τ is a tilt (section "engines/exact").
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from dpbayes.engines.likelihood import JointLikelihood, Likelihood
from dpbayes.errors import UnsupportedError
from dpbayes.kernels import leaf_tables as compiled
from dpbayes.kernels import leaves as kernel
from dpbayes.kernels.leaf_tables import MAX_WINDOW, NEGLIGIBLE

__all__ = ["GammaWeights", "LeafTables", "LogWeight", "Windows", "check_window", "leaf_tables"]

#: Entries evaluated at a time.
CHUNK = 2_000_000
_THREADS = 2


class GammaWeights:
    """Log prior weights log Γ(a+m) / (Γ(a) m!) of a Gamma(a, ·) mixture of Poisson counts.

    Parameters
    ----------
    shapes : ndarray
        Shape a_j of each cell.
    """

    def __init__(self, shapes: np.ndarray) -> None:
        self.shapes = shapes
        self._flat = bool(np.all(shapes == 1.0))

    def __call__(self, cells: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Log weights of pairs of cells and counts."""
        if self._flat:
            return np.zeros(counts.shape)
        return compiled.log_weights(self.shapes[cells], counts)


@dataclass(frozen=True)
class LeafTables:
    """Unnormalised posteriors of single counts over windows of their own.

    Parameters
    ----------
    first : ndarray of int
        Count of the first entry of each table.
    values : ndarray
        Entries of all tables, one after the other, scaled so that the largest of each is 1.
    offsets : ndarray of int
        Where each table starts in `values`, and the end of the last.
    log_scale : ndarray
        Log of the factor taken out of each table.
    log_sum : ndarray
        Log of each table's sum, before the factor is put back.
    mean, variance : ndarray
        Moments of each normalised table.
    """

    first: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    log_scale: np.ndarray
    log_sum: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    @property
    def tables(self) -> list[np.ndarray]:
        """Entries of each table."""
        return np.split(self.values, self.offsets[1:-1])

    @property
    def log_mass(self) -> np.ndarray:
        """Log of each leaf's unnormalised mass."""
        return self.log_scale + self.log_sum


LogWeight = Callable[[np.ndarray, np.ndarray], np.ndarray]


def leaf_tables(
    log_weight: LogWeight,
    likelihood: Likelihood | JointLikelihood,
    tilt: float | np.ndarray,
    cap: int | np.ndarray | None,
    cells: np.ndarray | None = None,
    windows: Windows | None = None,
    moments_only: bool = False,
) -> LeafTables:
    """Tabulate leaves over the windows where they are not negligible.

    Parameters
    ----------
    log_weight : callable
        Log prior weight of (cells, counts).
    likelihood : Likelihood
        Log likelihood of the same pairs.
    tilt : float or ndarray
        Tilt τ, added as τ m; one for all leaves, or one for each of `cells`.
    cap : int, ndarray or None
        Largest possible count: one for all leaves, or one for each leaf of `likelihood`.
    cells : ndarray of int, optional
        Leaves to tabulate; all by default.
    windows : Windows, optional
        Windows of earlier calls, used again where they still hold all the mass.
    moments_only : bool
        Whether the entries are not wanted; they may then be missing.

    Raises
    ------
    UnsupportedError
        If a window is too long: the prior and the release leave the count undecided.
    """
    chosen = np.arange(likelihood.size) if cells is None else cells
    tilts = np.broadcast_to(np.asarray(tilt, float), chosen.shape)
    centres = likelihood.centres()[chosen]
    limit = np.broadcast_to(np.inf if cap is None else cap, likelihood.size)[chosen]
    if isinstance(log_weight, GammaWeights) and likelihood.compiled is not None:
        return _compiled(
            log_weight, likelihood.compiled, chosen, tilts, centres, limit, moments_only
        )

    def log_f(rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        which = chosen[rows]
        return log_weight(which, counts) + tilts[rows] * counts + likelihood(which, counts)

    if windows is not None and windows.known(chosen):
        first, last = windows.of(chosen)
        tables = _fill(log_f, first, last - first + 1)
        if _holds_all(tables, last, limit):
            return tables
    first, last = _windows(log_f, centres, limit)
    check_window(float((last - first).max() + 1))
    if windows is not None:
        windows.remember(chosen, first, last)
    return _fill(log_f, first, last - first + 1)


def check_window(longest: float) -> None:
    """Refuse a window that is too long."""
    if longest > MAX_WINDOW:
        raise UnsupportedError(
            f"the release and the prior leave a count undecided among {longest:.3g} values: "
            "give a larger prior rate or a public total"
        )


def _compiled(
    weights: GammaWeights,
    cells: compiled.Cells,
    chosen: np.ndarray,
    tilts: np.ndarray,
    centres: np.ndarray,
    limit: np.ndarray,
    moments_only: bool,
) -> LeafTables:
    """Find and fill all tables in compiled code."""
    arrays = weights.shapes[chosen], np.ascontiguousarray(tilts)
    limit = np.ascontiguousarray(limit, dtype=float)
    first, last = np.empty(chosen.size, dtype=np.int64), np.empty(chosen.size, dtype=np.int64)

    def find(part: slice) -> None:
        compiled.find_windows(
            cells, chosen[part], *(a[part] for a in (*arrays, centres, limit, first, last))
        )

    parts = _parts(chosen.size)
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(find, parts))
        longest = int((last - first).max()) + 1
        check_window(longest)
        offsets = np.concatenate([[0], np.cumsum(last - first + 1)])
        starts = np.zeros_like(first) if moments_only else offsets[:-1]
        values, moments = np.empty(0 if moments_only else offsets[-1]), np.empty((4, chosen.size))

        def fill(part: slice) -> None:
            mine = (a[part] for a in (*arrays, first, last, starts))
            out = np.empty(longest) if moments_only else values
            compiled.fill_tables(cells, chosen[part], *mine, *(out, moments[:, part]))  # type: ignore[call-arg]

        list(pool.map(fill, parts))
    return LeafTables(first, values, offsets, *moments)


def _parts(size: int) -> list[slice]:
    """Consecutive parts of about equal work for the threads."""
    ends = np.linspace(0, size, min(4 * _THREADS, size) + 1).astype(int)
    return [slice(a, b) for a, b in itertools.pairwise(ends)]


class Windows:
    """Windows of leaves, kept from one tabulation to the next.

    Finding a window costs more than filling it, and neighbouring priors and tilts hardly
    move it.

    Parameters
    ----------
    size : int
        Number of leaves.
    """

    def __init__(self, size: int) -> None:
        self._first = np.full(size, -1, dtype=np.int64)
        self._last = np.full(size, -1, dtype=np.int64)

    def known(self, cells: np.ndarray) -> bool:
        """Whether all these leaves have a window."""
        return bool(np.all(self._first[cells] >= 0))

    def of(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return first and last count of the windows."""
        return self._first[cells], self._last[cells]

    def remember(self, cells: np.ndarray, first: np.ndarray, last: np.ndarray) -> None:
        """Widen the windows of these leaves to hold new ones."""
        seen = self._first[cells] >= 0
        self._first[cells] = np.where(seen, np.minimum(self._first[cells], first), first)
        self._last[cells] = np.where(seen, np.maximum(self._last[cells], last), last)


def _holds_all(tables: LeafTables, last: np.ndarray, limit: np.ndarray) -> bool:
    """Whether the ends of all tables are negligible, or as far as a count can go."""
    end = np.exp(10.0 - NEGLIGIBLE)
    low, high = tables.values[tables.offsets[:-1]], tables.values[tables.offsets[1:] - 1]
    return bool(
        np.all((low < end) | (tables.first == 0)) and np.all((high < end) | (last >= limit))
    )


def _fill(log_f: LogWeight, first: np.ndarray, lengths: np.ndarray) -> LeafTables:
    """Evaluate all tables, some leaves at a time to bound the memory."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values, moments = np.empty(offsets[-1]), np.empty((4, first.size))
    start = 0
    while start < first.size:
        stop = int(np.searchsorted(offsets, offsets[start] + CHUNK, side="right")) - 1
        stop = max(stop, start + 1)
        here = offsets[start : stop + 1] - offsets[start]
        rows = np.repeat(np.arange(start, stop), lengths[start:stop])
        counts = np.arange(here[-1]) - np.repeat(here[:-1] - first[start:stop], lengths[start:stop])
        part = values[offsets[start] : offsets[stop]]
        part[:] = log_f(rows, counts.astype(float))
        kernel.normalise_tables(part, here, first[start:stop], moments[:, start:stop])
        start = stop
    return LeafTables(first, values, offsets, *moments)


def _windows(
    log_f: LogWeight, centres: np.ndarray, limit: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """First and last count of the window of each leaf.

    The log table is scanned on grids that widen geometrically from the likelihood's centre
    and from zero (where a prior may have a spike). For a log-concave table plus a spike at
    zero the scan brackets every entry within NEGLIGIBLE of the largest; a bisection then
    finds the ends.
    """
    size = centres.size
    cells = np.arange(size)
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
        done = (value < top - NEGLIGIBLE) | np.isneginf(value) | (right >= limit)
        if np.all(done) or jump > 2.0 * MAX_WINDOW:
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
    limit: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Bisect for the ends of the windows, starting from the visited points."""
    order = np.argsort(points, axis=0, kind="stable")
    points = np.take_along_axis(points, order, axis=0)
    values = np.take_along_axis(values, order, axis=0)
    # Where no count is possible, the lowest point visited stands for an empty table.
    keep = (values >= top - NEGLIGIBLE) & ~np.isneginf(values)
    keep[0, np.isneginf(top)] = True
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
