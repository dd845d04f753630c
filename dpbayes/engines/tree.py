"""A tree of counts: exact inference when totals of nested groups were released as well.

Cells are the leaves; each margin is a level of groups, the finest below; all cells together
are the root. Tables go up by convolution, each node's table is multiplied by the likelihood
of what was released about it, and draws come down by splitting each total among its
children. Every group has a tilt of its own, chosen so that its total has the bulk of its
mass where the posterior is: FFT loses what is far below the largest entry, so that without
it a margin many standard deviations from the sum of its cells would be rounding noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dpbayes.engines.alone import transposed
from dpbayes.engines.leaves import LeafTables, LogWeight, Windows, leaf_tables
from dpbayes.engines.nesting import AnyLikelihood, Level, Structure, structure
from dpbayes.engines.tables import Forest, Grove, Tables
from dpbayes.errors import ImpossibleReleaseError, UnsupportedError

__all__ = ["AnyLikelihood", "CountTree", "Structure", "structure"]

#: A group's tilt is good enough when its mean is this many sds from its target.
_NEAR = 1.0
#: A target this many sds from the mean of its posterior is moved (sds of the posterior or of
#: the tilted law, whichever is narrower): within that, an FFT keeps its digits.
_FAR = 1.0
#: Cells whose tables are built together: another round builds again only what moved.
_CELLS = 4096
#: Draws made to check the targets of groups with margins.
_PILOT = 64
#: Rounds of pilot draws; far from the posterior each moves the targets some sds nearer.
_ROUNDS = 60
#: Steps of the search for a tilt, and the steepest tilt.
_STEPS, _STEEPEST = 200, 1e12


class CountTree:
    """Posterior of nested counts under a prior of independent leaves.

    Parameters
    ----------
    nest : Structure
        Cells, groups and what was released about them.
    log_weight : callable
        Log prior weight of (cells, counts).
    tilt : float
        Tilt τ of the prior: the leaves' prior is exp(log_weight + τ m). With a public total
        any value gives the same posterior.
    total : int or None
        Public total.
    method : {"auto", "fft", "direct"}
        How to convolve.
    windows : Windows, optional
        Windows of the leaves, kept from trees with similar priors.

    Raises
    ------
    ImpossibleReleaseError
        If nothing could have led to the release; names the group where that shows.
    """

    def __init__(
        self,
        nest: Structure,
        log_weight: LogWeight,
        tilt: float,
        total: int | None,
        method: str = "auto",
        windows: Windows | None = None,
    ) -> None:
        self._windows = windows or Windows(nest.cells.size)
        self._nest, self._weight, self._tilt = nest, log_weight, tilt
        self.total, self._method = total, method
        self._cap = nest.caps(total)
        self._forests: list[Forest | Grove] = []
        self._blocks: dict[int, tuple[np.ndarray, Forest, Tables]] = {}
        if nest.flat and total is not None:
            targets = [np.array([float(total)])]
        else:
            finest = nest.levels[0]
            found = self._tabulate(np.full(finest.sizes.size, tilt), finest.members, True)
            targets = self._gaussian_targets(found)
        for _ in range(_ROUNDS):
            self._up(targets)
            if nest.flat or not self._adjust(targets):
                return
        raise UnsupportedError(
            "the released totals contradict each other too strongly to find where their posterior "
            "lies: check the mechanisms of the margins"
        )

    # -- upwards -----------------------------------------------------------------------

    def _up(self, targets: list[np.ndarray]) -> None:
        """Build the tables of all groups, each tilted towards its target."""
        forests: list[Forest | Grove] = []
        self._forests = forests  # those of another round are freed first
        tables: Tables | None = None
        for level, target in zip(self._nest.levels, targets, strict=True):
            if tables is None:
                grove, tables = self._grove(target)
                forests.append(grove)
            else:
                tables = tables.take(level.members)
                tables = tables.tilted(_common_tilts(tables, level, target))
                forest = Forest(tables, level.sizes, self._method)
                forests.append(forest)
                tables = self._released(level, np.arange(target.size), forest.top, target)
            if not tables.possible.all():
                raise ImpossibleReleaseError(
                    f"{level.label(int(np.argmin(tables.possible)))}: no counts of the cells below "
                    "it agree with what was released about it"
                )
        assert tables is not None  # there is at least one level
        self._root = tables.one(0)

    def _released(
        self, level: Level, groups: np.ndarray, tables: Tables, target: np.ndarray
    ) -> Tables:
        """Multiply the laws of groups by what was released about them."""
        if level.likelihood is None or not tables.possible.all():
            return tables
        centre, variance = level.likelihood.gaussian()
        tables = tables.within(np.where(variance == 0.0, centre, np.nan)[groups])
        said = level.likelihood(groups[tables.owners], tables.sums.astype(float))
        if level is self._nest.levels[-1] and self.total is None:
            slope = self._tilt - tables.tilt
        else:
            slope = _slopes(tables, said, target)
        # In one step: what is cut off must be negligible under the new tilt.
        return tables.times(said, slope)

    def _tabulate(
        self, tilt: np.ndarray, cells: np.ndarray, moments_only: bool = False
    ) -> LeafTables:
        """Tabulate cells under the tilts of their groups."""
        nest = self._nest
        return leaf_tables(
            self._weight, nest.cells, tilt[nest.leaf_group[cells]], self._cap, cells,
            self._windows, moments_only,
        )  # fmt: skip

    def _grove(self, target: np.ndarray) -> tuple[Grove, Tables]:
        """Merge the cells of each group, under the tilt that brings it to its target.

        Blocks of groups whose targets are those of the last round are kept.
        """
        level = self._nest.levels[0]

        def moments(tilt: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            cells = level.members[np.isin(level.owner, groups)]
            some = self._tabulate(tilt, cells, moments_only=True)
            owner = self._nest.leaf_group[cells]
            return tuple(
                np.bincount(owner, m, tilt.size)[groups] for m in (some.mean, some.variance)
            )

        tilt = _solve(moments, np.full(level.sizes.size, self._tilt), target)
        self.leaf_tilt = float(tilt[0])
        ends = np.cumsum(level.sizes)
        block = (ends - level.sizes) // _CELLS  # of about as many cells each
        for number in np.unique(block):
            groups = np.flatnonzero(block == number)
            known = self._blocks.get(number)
            if known is None or not np.array_equal(known[0], target[groups]):
                self._blocks.pop(number, None)
                first = ends[groups[0]] - level.sizes[groups[0]]
                tables = self._leaf_tables(tilt, level.members[first : ends[groups[-1]]])
                forest = Forest(tables, level.sizes[groups], self._method)
                tables = self._released(level, groups, forest.top, target[groups])
                self._blocks[number] = target[groups], forest, tables
        found = [self._blocks[number] for number in np.unique(block)]
        return Grove([b[1] for b in found]), Tables.joined([b[2] for b in found])

    def _leaf_tables(self, tilt: np.ndarray, cells: np.ndarray) -> Tables:
        """Tabulate cells under the tilts of their groups, as laws of sums."""
        found = self._tabulate(tilt, cells)
        return Tables(
            found.first, found.log_scale, tilt[self._nest.leaf_group[cells]], found.values,
            found.offsets, found.mean, found.variance,
        )  # fmt: skip

    # -- where the bulk is -------------------------------------------------------------

    def _gaussian_targets(self, leaves: LeafTables) -> list[np.ndarray]:
        """Guess the posterior mean of each group's total by Gaussian message passing.

        The moments are those of the cells in the order of the finest level's members.
        """
        levels = self._nest.levels
        moments = np.empty((2, leaves.first.size))
        moments[:, levels[0].members] = leaves.mean, leaves.variance
        below, above = [], []  # sums of the members; the same after the group's own release
        for level in levels:
            mean, variance = (level.add_up(m) for m in moments)
            below.append(mean)
            if level.likelihood is not None:
                mean, variance = level.likelihood.gaussian_update(mean, variance)
            moments = np.array([mean, variance])
            above.append(moments)
        targets = [above[-1][0] if self.total is None else np.array([float(self.total)])]
        for depth in range(len(levels) - 1, 0, -1):
            level, (mean, variance) = levels[depth], above[depth - 1]
            share = (
                variance[level.members] / np.maximum(level.add_up(variance), 1e-300)[level.owner]
            )
            guess = np.empty(mean.size)
            gap = (targets[0] - below[depth])[level.owner]
            guess[level.members] = mean[level.members] + share * gap
            targets.insert(0, guess)
        return [np.maximum(t, 0.0) for t in targets]

    def _adjust(self, targets: list[np.ndarray]) -> bool:
        """Move targets that pilot draws contradict; tell whether any moved."""
        rng = np.random.default_rng(0)
        moved = False
        for depth, sums in self._sums_down(self._root_totals(_PILOT, rng), rng):
            if np.any(sums < 0):
                break
            mean, tilted = sums.mean(axis=1), self._forests[depth].variance
            sd = np.minimum(sums.std(axis=1), np.sqrt(tilted))
            off = np.abs(mean - targets[depth]) > _FAR * sd + 0.5
            targets[depth] = np.where(off, mean, targets[depth])
            moved |= bool(off.any())
            if depth == 0:
                break
        return moved

    # -- downwards ---------------------------------------------------------------------

    @property
    def log_root(self) -> float:
        """Log of the unnormalised root mass: at the public total, or over all totals."""
        if self.total is not None:
            return self._root.log_at(self.total)
        table = self._root.tilted(self._tilt)
        return table.log_scale + float(np.log(table.values.sum()))

    def _root_totals(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        if self.total is not None:
            return np.full(draws, self.total, dtype=np.int64)
        table = self._root.tilted(self._tilt)
        mass = table.values / table.values.sum()
        return table.first + rng.choice(mass.size, size=draws, p=mass)

    def _sums_down(
        self,
        totals: np.ndarray,
        rng: np.random.Generator,
        progress: Callable[[int], None] = lambda _: None,
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Draw each level's sums from the root down, with its number; at last -1 and counts."""
        sums = totals[None]
        for depth in range(len(self._nest.levels) - 1, -1, -1):
            yield depth, sums
            level = self._nest.levels[depth]
            parts = self._forests[depth].split(sums, rng, *(() if depth else (progress,)))
            sums = np.empty_like(parts)
            sums[level.members] = parts
        yield -1, sums

    def draw(
        self,
        draws: int,
        rng: np.random.Generator,
        progress: Callable[[int], None] = lambda _: None,
    ) -> np.ndarray:
        """Draw the counts of all cells.

        Parameters
        ----------
        draws : int
            Number of independent draws.
        rng : Generator
            Source of randomness.
        progress : callable
            Called with the number of cells done since the last call.

        Returns
        -------
        ndarray of int, shape (draws, cells)
            Counts; group totals add up in every draw.
        """
        *_, (_, counts) = self._sums_down(self._root_totals(draws, rng), rng, progress)
        if np.any(counts < 0):
            raise ImpossibleReleaseError(
                "the total cannot be split among its cells: no counts agree with the release"
            )
        return transposed(counts)


def _common_tilts(tables: Tables, level: Level, target: np.ndarray) -> np.ndarray:
    """Tilt of each table under which each group has its target as its expected total."""
    start = np.bincount(level.owner, tables.tilt) / level.sizes

    def moments(tilt: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moved = tables.tilted(tilt[level.owner])
        size = level.sizes.size
        return tuple(
            np.bincount(level.owner, m, size)[groups] for m in (moved.mean, moved.variance)
        )

    return _solve(moments, start, target)[level.owner]


def _slopes(tables: Tables, said: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Change of tilt under which tables times likelihoods have their targets as means."""

    def moments(slope: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moved = tables.times(said, slope)
        return moved.mean[groups], moved.variance[groups]

    return _solve(moments, np.zeros(target.size), target)


def _solve(
    moments: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    start: np.ndarray,
    target: np.ndarray,
) -> np.ndarray:
    """Tilts that bring the means of groups near their targets.

    A group's mean increases with its tilt, so that a safeguarded Newton iteration, for all
    groups at once, finds the tilt. Steps may grow geometrically: a total that is far off
    under narrow noise takes a huge tilt.

    Parameters
    ----------
    moments : callable
        Means and variances of some groups under the tilts of all.
    start : ndarray
        Where to start.
    target : ndarray
        Means wanted.
    """
    tilt = start.copy()
    low, high = np.full(tilt.size, -np.inf), np.full(tilt.size, np.inf)
    todo, longest = np.arange(tilt.size), 4.0
    for _ in range(_STEPS):
        mean, variance = moments(tilt, todo)
        gap = mean - target[todo]
        far = np.abs(gap) > _NEAR * np.sqrt(variance) + 0.5
        todo, gap, variance = todo[far], gap[far], variance[far]
        low[todo] = np.where(gap < 0, tilt[todo], low[todo])
        high[todo] = np.where(gap < 0, high[todo], tilt[todo])
        step = np.clip(-gap / np.maximum(variance, 1e-300), -longest, longest)
        step += tilt[todo]
        with np.errstate(invalid="ignore"):
            middle = 0.5 * (low[todo] + high[todo])
        inside = (step > low[todo]) & (step < high[todo])
        new = np.where(inside, step, middle)
        # A mean at the end of its range has no tilt that reaches the target.
        lost = np.abs(new) > _STEEPEST
        tilt[todo[lost]] = start[todo[lost]]
        going = ~lost & (new != tilt[todo]) & (new > low[todo]) & (new < high[todo])
        todo = todo[going]
        if not todo.size:
            break
        tilt[todo] = new[going]
        longest *= 2.0
    return tilt
