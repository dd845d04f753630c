"""How the cells and margins of a release nest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpbayes.engines.likelihood import JointLikelihood, Likelihood
from dpbayes.errors import UnsupportedError
from dpbayes.releases import HistogramRelease, Margin
from dpbayes.releases.margins import is_nested

__all__ = ["AnyLikelihood", "Level", "Structure", "structure"]

AnyLikelihood = Likelihood | JointLikelihood


class Level(NamedTuple):
    """One level of groups.

    Parameters
    ----------
    likelihood : Likelihood or None
        Likelihood of the released totals of its groups.
    label : callable
        Name of a group.
    members : ndarray of int
        What the groups consist of, group by group: cells in the finest level, groups of the
        level below in the others.
    sizes : ndarray of int
        Number of members of each group.
    """

    likelihood: AnyLikelihood | None
    label: Callable[[int], str]
    members: np.ndarray
    sizes: np.ndarray

    @property
    def owner(self) -> np.ndarray:
        """Group of each of `members`."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def add_up(self, values: np.ndarray) -> np.ndarray:
        """Sum over the members of each group."""
        return np.bincount(self.owner, values[self.members], self.sizes.size)


@dataclass(frozen=True)
class Structure:
    """The nesting of a release: levels from the finest to the root, and the likelihoods.

    Parameters
    ----------
    levels : list of Level
        The last holds the root alone. Groups are numbered through, level by level.
    leaf_group : ndarray of int
        Group of the finest level of each cell.
    cells : Likelihood
        Likelihood of the released cells.
    """

    levels: list[Level]
    leaf_group: np.ndarray
    cells: AnyLikelihood

    @property
    def flat(self) -> bool:
        """Whether nothing but the cells was released."""
        return len(self.levels) == 1 and self.levels[0].likelihood is None

    def caps(self, total: int | None) -> np.ndarray | None:
        """Largest possible count of each cell, where sums are known exactly."""
        cap = np.array([np.inf if total is None else float(total)])
        for level in reversed(self.levels):
            if level.likelihood is not None:
                centre, variance = level.likelihood.gaussian()
                cap = np.where(variance == 0.0, np.minimum(cap, centre), cap)
            below = np.empty(level.members.size)
            below[level.members] = cap[level.owner]
            cap = below
        return cap if np.all(np.isfinite(cap)) else None

    def gaussian_release(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what was released about sums, as Gaussian observations.

        Returns
        -------
        parent : ndarray of int
            Number of each group's parent, -1 for the root.
        released, variance : ndarray
            Released total of each group and the variance of its noise; NaN for nothing, or
            for a value that only bounds the total on one side.
        """
        parents, released, variances, start = [], [], [], 0
        for depth, level in enumerate(self.levels):
            size = level.sizes.size
            if level.likelihood is None:
                centre, variance = np.full(size, np.nan), np.zeros(size)
            else:
                centre, variance = level.likelihood.gaussian()
            if depth:
                parent = np.empty(level.members.size, dtype=np.int64)
                parent[level.members] = start + level.owner
                parents.append(parent)
            released.append(centre)
            variances.append(variance)
            start += size
        parents.append(np.array([-1]))
        return np.concatenate(parents), np.concatenate(released), np.concatenate(variances)


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
    partitions: list[tuple[AnyLikelihood | None, Callable[[int], str], np.ndarray]]
    partitions = [(_joint(by_name[m.by]), m.label, m.groups) for m in margins]
    if not margins or margins[-1].size > 1:
        everything = np.zeros(release.size, dtype=np.int64)
        partitions.append((None, lambda _: "total of all cells", everything))
    levels = []
    below = np.arange(release.size)  # member of the level so far that holds each cell
    for likelihood, label, group in partitions:
        held = np.empty(below.max() + 1, dtype=np.int64)
        held[below] = group
        members = np.argsort(held, kind="stable")
        levels.append(Level(likelihood, label, members, np.bincount(held)))
        below = group
    return Structure(levels, partitions[0][2], _joint(sources))


def _joint(sources: Sequence[HistogramRelease | Margin]) -> AnyLikelihood:
    """Likelihood of all that was released about the same counts."""
    parts = [Likelihood(source.observations()) for source in sources]
    return parts[0] if len(parts) == 1 else JointLikelihood(parts)
