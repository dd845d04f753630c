"""A tree of counts: exact inference when totals of nested groups were released as well.

Cells are the leaves; each margin is a level of groups, the finest below; all cells together
are the root. Tables go up by convolution, each node's table is multiplied by the likelihood
of what was released about it, and draws come down by splitting each total among its
children. Every group has a tilt of its own, chosen so that its total has the bulk of its
mass where the posterior is: FFT loses what is far below the largest entry, so that without
it a margin many standard deviations from the sum of its cells would be rounding noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpbayes.engines.leaves import LogWeight, Windows, leaf_tables
from dpbayes.engines.likelihood import JointLikelihood, Likelihood
from dpbayes.engines.tables import Bundle, Table
from dpbayes.errors import ImpossibleReleaseError, UnsupportedError
from dpbayes.releases import HistogramRelease, Margin
from dpbayes.releases.margins import is_nested

__all__ = ["CountTree", "Structure", "structure"]

AnyLikelihood = Likelihood | JointLikelihood

#: A group's tilt is good enough when its mean is this many sds from its target.
_NEAR = 1.0
#: Draws made to check the targets of groups with margins.
_PILOT = 64
#: Rounds of pilot draws; far from the posterior each moves the targets some sds nearer.
_ROUNDS = 60


@dataclass
class _Group:
    """A group of cells; `children` are groups, or empty where `cells` are its leaves."""

    level: int
    index: int
    cells: np.ndarray
    children: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Structure:
    """The nesting of a release: groups from the finest to the root, and their likelihoods.

    Parameters
    ----------
    groups : list of group
        Children come before their parents; the last is the root.
    leaf_group : ndarray of int
        Position of the group right above each cell.
    cells : Likelihood
        Likelihood of the released cells.
    levels : list of (Likelihood or None, label)
        Likelihood of the totals of each level, and a function that names them.
    """

    groups: list[_Group]
    leaf_group: np.ndarray
    cells: AnyLikelihood
    levels: list[tuple[AnyLikelihood | None, Callable[[int], str]]]

    @property
    def flat(self) -> bool:
        """Whether nothing but the cells was released."""
        return len(self.groups) == 1 and self.levels[-1][0] is None

    def caps(self, total: int | None) -> np.ndarray | None:
        """Largest possible count of each cell, where sums are known exactly."""
        out = np.full(self.cells.size, np.inf if total is None else float(total))
        for group in self.groups:
            likelihood = self.levels[group.level][0]
            if likelihood is not None:
                centre, variance = likelihood.gaussian(group.index)
                if variance == 0.0:
                    out[group.cells] = np.minimum(out[group.cells], centre)
        return out if np.all(np.isfinite(out)) else None

    def gaussian_release(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what was released about sums, as Gaussian observations.

        Returns
        -------
        parent : ndarray of int
            Position of each group's parent, -1 for the root.
        released, variance : ndarray
            Released total of each group and the variance of its noise; NaN for nothing, or
            for a value that only bounds the total on one side.
        """
        parent = np.full(len(self.groups), -1, dtype=np.int64)
        released = np.full(len(self.groups), np.nan)
        variance = np.zeros(len(self.groups))
        for position, group in enumerate(self.groups):
            parent[group.children] = position
            likelihood = self.levels[group.level][0]
            if likelihood is not None:
                released[position], variance[position] = likelihood.gaussian(group.index)
        return parent, released, variance


def structure(release: HistogramRelease) -> Structure:
    """Arrange the margins of a release as nested levels.

    Raises
    ------
    UnsupportedError
        If the margins are not nested.
    """
    sources = (release, *release.repeats)
    by_name: dict[tuple[str, ...], list[Margin]] = {}
    for margin in (m for source in sources for m in source.margins):
        by_name.setdefault(margin.by, []).append(margin)
    margins = sorted((m[0] for m in by_name.values()), key=lambda m: (-m.size, m.by == ()))
    for fine, coarse in itertools.pairwise(margins):
        if not is_nested(fine.groups, coarse.groups):
            raise UnsupportedError(
                f"the margins by={fine.by} and by={coarse.by} are not nested: "
                "exact draws need every group of one within one group of the other"
            )
    levels: list[tuple[AnyLikelihood | None, Callable[[int], str]]] = [
        (_joint(by_name[m.by]), m.label) for m in margins
    ]
    partitions = [m.groups for m in margins]
    if not margins or margins[-1].size > 1:
        levels.append((None, lambda _: "total of all cells"))
        partitions.append(np.zeros(release.size, dtype=np.int64))
    groups: list[_Group] = []
    below: np.ndarray | None = None  # position of the group that holds each cell so far
    leaf_group = np.empty(release.size, dtype=np.int64)
    for level, partition in enumerate(partitions):
        order = np.argsort(partition, kind="stable")
        blocks = np.split(order, np.flatnonzero(np.diff(partition[order])) + 1)
        start = len(groups)
        position = np.empty(release.size, dtype=np.int64)
        for index, cells in enumerate(blocks):
            children = [] if below is None else list(dict.fromkeys(below[cells].tolist()))
            groups.append(_Group(level, index, cells, children))
            position[cells] = start + index
        if below is None:
            leaf_group = position
        below = position
    return Structure(groups, leaf_group, _joint(sources), levels)


def _joint(sources: Sequence[HistogramRelease | Margin]) -> AnyLikelihood:
    """Likelihood of all that was released about the same counts."""
    parts = [Likelihood(source.observations()) for source in sources]
    return parts[0] if len(parts) == 1 else JointLikelihood(parts)


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
        self._bundles: list[Bundle] = []
        self._tables: list[Table] = []
        if nest.flat and total is not None:
            targets = np.array([float(total)])
        else:
            tables = leaf_tables(log_weight, nest.cells, tilt, self._cap, None, self._windows)
            self._leaves = [tables.mean, tables.variance]
            targets = self._gaussian_targets()
        for _ in range(_ROUNDS):
            self._up(targets)
            if nest.flat or not self._adjust(targets):
                return
        raise UnsupportedError(
            "the released totals contradict each other too strongly to find where their posterior "
            "lies: check the mechanisms of the margins"
        )

    # -- upwards -----------------------------------------------------------------------

    def _up(self, targets: np.ndarray) -> None:
        """Build the tables of all groups, each tilted towards its target."""
        nest = self._nest
        bundles, tables = [], []
        leaves = self._leaf_tables(targets)
        for position, group in enumerate(nest.groups):
            if group.children:
                parts = [tables[child] for child in group.children]
                tilt = _common_tilt(parts, targets[position], self._tilt)
                parts = [table.tilted(tilt) for table in parts]
            else:
                parts = [leaves[j] for j in group.cells]
            bundle = Bundle(parts, self._method)
            top = bundle.top
            likelihood, label = nest.levels[group.level]
            if top.possible and likelihood is not None:
                index = np.full(top.values.size, group.index)
                top = top.times(likelihood(index, top.sums.astype(float)))
            if not top.possible:
                raise ImpossibleReleaseError(
                    f"{label(group.index)}: no counts of the cells below it agree with what was "
                    "released about it"
                )
            bundles.append(bundle)
            tables.append(top)
        self._bundles, self._tables = bundles, tables

    def _leaf_tables(self, targets: np.ndarray) -> list[Table]:
        """Tabulate the cells, each group under the tilt that brings it to its target.

        A group's mean increases with its tilt, so that a safeguarded Newton iteration, for
        all groups at once, finds the tilt.
        """
        nest = self._nest
        count = int(nest.leaf_group.max()) + 1
        tilt = np.full(count, self._tilt)
        low, high = np.full(count, -np.inf), np.full(count, np.inf)
        out: list[Table | None] = [None] * nest.cells.size
        todo = np.arange(count)
        for _ in range(200):
            cells = np.flatnonzero(np.isin(nest.leaf_group, todo))
            group = nest.leaf_group[cells]
            found = leaf_tables(
                self._weight, nest.cells, tilt[group], self._cap, cells, self._windows
            )
            for i, j in enumerate(cells):
                out[j] = Table(
                    int(found.first[i]),
                    found.tables[i],
                    float(found.log_scale[i]),
                    float(tilt[group[i]]),
                    (float(found.mean[i]), float(found.variance[i])),
                )
            gap = np.bincount(group, found.mean, count) - targets[:count]
            variance = np.bincount(group, found.variance, count)
            near = np.abs(gap) <= _NEAR * np.sqrt(variance) + 0.5
            todo = todo[~near[todo]]
            if not todo.size:
                break
            low[todo] = np.where(gap[todo] < 0, tilt[todo], low[todo])
            high[todo] = np.where(gap[todo] < 0, high[todo], tilt[todo])
            safe = np.maximum(variance[todo], 1e-12)
            step = tilt[todo] + np.clip(-gap[todo] / safe, -4.0, 4.0)
            with np.errstate(invalid="ignore"):
                middle = 0.5 * (low[todo] + high[todo])
            inside = (step > low[todo]) & (step < high[todo])
            tilt[todo] = np.where(inside, step, middle)
            # A mean at the end of its range has no tilt that reaches the target.
            todo = todo[(np.abs(tilt[todo]) < 1e3) & (high[todo] - low[todo] > 1e-13)]
            if not todo.size:
                break
        return out  # type: ignore[return-value]

    # -- where the bulk is -------------------------------------------------------------

    def _gaussian_targets(self) -> np.ndarray:
        """Guess the posterior mean of each group's total by Gaussian message passing."""
        nest = self._nest
        size = len(nest.groups)
        below = np.empty((size, 2))  # moments of the sum of the children
        above = np.empty((size, 2))  # the same after the group's own release
        for position, group in enumerate(nest.groups):
            if group.children:
                mean, variance = above[group.children].sum(axis=0)
            else:
                mean, variance = (moment[group.cells].sum() for moment in self._leaves)
            below[position] = mean, variance
            likelihood = nest.levels[group.level][0]
            if likelihood is not None:
                mean, variance = likelihood.gaussian_update(group.index, mean, variance)
            above[position] = mean, variance
        target = np.empty(size)
        target[-1] = above[-1, 0] if self.total is None else self.total
        for position in range(size - 1, -1, -1):
            children = nest.groups[position].children
            if children:
                share = above[children, 1] / max(above[children, 1].sum(), 1e-300)
                gap = target[position] - below[position, 0]
                target[children] = above[children, 0] + share * gap
        return np.maximum(target, 0.0)

    def _adjust(self, targets: np.ndarray) -> bool:
        """Move targets that pilot draws contradict; tell whether any moved."""
        rng = np.random.default_rng(0)
        drawn = self._groups_down(self._root_totals(_PILOT, rng), rng)
        moved = False
        for position, sums in enumerate(drawn):
            if sums is None or np.any(sums < 0):
                continue
            mean, sd = sums.mean(), sums.std()
            if abs(mean - targets[position]) > 1.5 * sd + 0.5:
                targets[position], moved = mean, True
        return moved

    @property
    def leaf_tilt(self) -> float:
        """Tilt of the first cell's group: a start for a tree with a similar prior."""
        return self._bundles[0].child_tilt

    # -- downwards ---------------------------------------------------------------------

    @property
    def log_root(self) -> float:
        """Log of the unnormalised root mass: at the public total, or over all totals."""
        root = self._tables[-1]
        if self.total is not None:
            return root.log_at(self.total)
        table = root.tilted(self._tilt)
        return table.log_scale + float(np.log(table.values.sum()))

    def _root_totals(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        if self.total is not None:
            return np.full(draws, self.total, dtype=np.int64)
        table = self._tables[-1].tilted(self._tilt)
        mass = table.values / table.values.sum()
        return table.first + rng.choice(mass.size, size=draws, p=mass)

    def _groups_down(
        self,
        totals: np.ndarray,
        rng: np.random.Generator,
        counts: np.ndarray | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[np.ndarray | None]:
        """Draw the totals of all groups, and of the cells where `counts` is given."""
        nest = self._nest
        sums: list[np.ndarray | None] = [None] * len(nest.groups)
        sums[-1] = totals
        for position in range(len(nest.groups) - 1, -1, -1):
            group, total = nest.groups[position], sums[position]
            assert total is not None
            if group.children:
                parts = self._bundles[position].split(total, rng)
                for child, part in zip(group.children, parts, strict=True):
                    sums[child] = part
            elif counts is not None:
                counts[group.cells] = self._bundles[position].split(total, rng, progress)
        return sums

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
        counts = np.empty((self._nest.cells.size, draws), dtype=np.int64)
        self._groups_down(self._root_totals(draws, rng), rng, counts, progress)
        if np.any(counts < 0):
            raise ImpossibleReleaseError(
                "the total cannot be split among its cells: no counts agree with the release"
            )
        return np.ascontiguousarray(counts.T)


def _common_tilt(tables: list[Table], target: float, start: float) -> float:
    """Tilt under which tables of sums have the target as their expected total."""
    tilt = float(np.mean([table.tilt for table in tables])) if tables else start
    low, high = -np.inf, np.inf
    for _ in range(100):
        moments = np.array([table.tilted(tilt).moments for table in tables])
        gap, variance = moments[:, 0].sum() - target, moments[:, 1].sum()
        if abs(gap) <= _NEAR * np.sqrt(variance) + 0.5:
            break
        low, high = (tilt, high) if gap < 0 else (low, tilt)
        step = tilt + float(np.clip(-gap / max(variance, 1e-12), -4.0, 4.0))
        tilt = step if low < step < high else 0.5 * (low + high)
        if abs(tilt) > 1e3 or high - low < 1e-13:
            break
    return tilt
