"""Released totals of crossing groups (rows and columns of one table): a Markov chain.

Crossing groups make no tree, so that the counts are drawn by Metropolis moves between
tables: single cells, exchanges within a group, and rectangles that keep the totals of both
crossing groups. Rates are summed out; the chain lives on whole counts and is exact in the
limit. Its draws are judged like those of any sampler.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from dpbayes.engines import exact
from dpbayes.errors import UnsupportedError
from dpbayes.kernels.exchange import sweep
from dpbayes.priors import Dirichlet
from dpbayes.releases import HistogramRelease, Margin
from dpbayes.releases.margins import is_nested
from dpbayes.releases.observations import Observations

__all__ = ["ExchangeDraws", "crossing", "draw_posterior"]

#: Proposals per cell between kept draws.
_SWEEPS = 20
_THREADS = 2

Progress = Callable[[int], None]


@dataclass(frozen=True)
class ExchangeDraws:
    """Draws with chain and draw axes first.

    Parameters
    ----------
    probability, count : ndarray, shape (chains, draws, cells)
    total : ndarray of int, shape (chains, draws)
    rate : ndarray, shape (chains, draws), or None
        Rate of the Gamma laws; None with a public total.
    """

    probability: np.ndarray
    count: np.ndarray
    total: np.ndarray
    rate: np.ndarray | None


def crossing(release: HistogramRelease) -> bool:
    """Whether some released margins are not nested in one another."""
    margins = sorted(release.margins, key=lambda m: -m.size)
    return any(not is_nested(a.groups, b.groups) for a, b in itertools.pairwise(margins))


def draw_posterior(
    release: HistogramRelease,
    prior: Dirichlet,
    draws: int,
    chains: int,
    tune: int,
    seeds: np.random.SeedSequence,
    progress: Progress = lambda _: None,
) -> ExchangeDraws:
    """Draw P and the true counts of a table with crossing margins.

    Parameters
    ----------
    release : HistogramRelease
        Released cells and margins; public or unknown total.
    prior : Dirichlet
        Prior of the Gamma rates; its concentration must be given.
    draws, chains, tune : int
        Kept draws and warm-up draws per chain, and number of chains.
    seeds : SeedSequence
        Source of randomness.
    progress : callable
        Called with the number of draws done since the last call.

    Raises
    ------
    UnsupportedError
        If the concentration is learned, the table was released several times, or a noise
        law has no compiled kernel.
    """
    if prior.concentration == "learned" or prior.rate == 0 or release.repeats:
        raise UnsupportedError(
            "crossing margins need a Dirichlet prior with a given concentration, a proper rate, "
            "and one release of the table"
        )
    problem = _Problem.of(release, prior)

    def one(seed: np.random.SeedSequence) -> tuple[np.ndarray, np.ndarray]:
        return problem.chain(draws, tune, np.random.default_rng(seed), progress)

    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(one, seeds.spawn(chains)))
    count = np.stack([c for c, _ in found])
    rng = np.random.default_rng(seeds.spawn(1)[0])
    gammas = exact.dirichlet((problem.shapes + count).reshape(-1, release.size), rng)
    return ExchangeDraws(
        probability=gammas.reshape(count.shape),
        count=count,
        total=count.sum(axis=-1),
        rate=None if release.total is not None else np.stack([r for _, r in found]),
    )


@dataclass(frozen=True)
class _Problem:
    """Arguments of the compiled moves."""

    release: HistogramRelease
    prior: Dirichlet
    shapes: np.ndarray
    cells: tuple
    margins: tuple
    groups: np.ndarray
    members: np.ndarray
    starts: np.ndarray
    corner: np.ndarray
    log_rates: tuple[float, float]

    @classmethod
    def of(cls, release: HistogramRelease, prior: Dirichlet) -> _Problem:
        size = release.size
        shapes = prior.shapes(size)
        family, step, lower, upper, scale = _compiled(release.observations(), "the cells")
        margins = sorted(release.margins, key=lambda m: -m.size)
        partitions = [m.groups for m in margins]
        if margins[-1].size > 1:  # the whole table, for exchanges between any two cells
            partitions.append(np.zeros(size, dtype=np.int64))
        groups = np.stack(partitions)
        order = np.argsort(groups, axis=1, kind="stable")
        widest = int(groups.max()) + 1
        starts = np.stack([np.searchsorted(np.sort(g), np.arange(widest + 1)) for g in groups])
        totals = exact.expected_totals(release, prior)
        mass = float(shapes.sum())
        return cls(
            release, prior, shapes, (family, step, lower, upper, scale, shapes),
            _margin_arrays(margins, len(partitions), widest), groups, order, starts,
            _corners(groups), (float(np.log(mass / totals[1])), float(np.log(mass / totals[0]))),
        )  # fmt: skip

    def chain(
        self, draws: int, tune: int, rng: np.random.Generator, progress: Progress
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run one chain from an independent start."""
        start, rate = self._start(rng)
        counts = start.astype(float)
        sums = np.zeros((self.groups.shape[0], int(self.groups.max()) + 1))
        for p, group in enumerate(self.groups):
            sums[p, : group.max() + 1] = np.bincount(group, counts)
        kept = np.empty((draws, counts.size), dtype=np.int64)
        rates = np.empty(draws)
        public = self.release.total is not None
        for index in range(-tune, draws):
            tilt = 0.0 if public else -float(np.log1p(rate))
            sweep(
                rng, counts, sums, _SWEEPS * counts.size, tilt, public, self.cells, self.margins,
                self.groups, self.members, self.starts, self.corner,
            )  # fmt: skip
            if not public:
                rate = self._draw_rate(rng, counts.sum(), rate)
            if index >= 0:
                kept[index], rates[index] = counts, rate
                progress(1)
        return kept, rates

    def _start(self, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """Draw a table from the posterior without the margins."""
        alone = replace_margins(self.release, ())
        drawn = exact.draw_posterior(alone, self.prior, 1, rng)
        rate = 1.0 if drawn.rate is None else float(drawn.rate[0])
        return drawn.count[0], rate

    def _draw_rate(self, rng: np.random.Generator, total: float, rate: float) -> float:
        """Update an open rate by a few Metropolis steps given the total of the table."""
        if self.prior.rate is not None:
            return self.prior.rate
        mass = float(self.shapes.sum())
        x = float(np.log(rate))
        for _ in range(5):
            y = x + rng.normal(0.0, 2.0 / np.sqrt(mass))
            if not self.log_rates[0] <= y <= self.log_rates[1]:
                continue
            gain = mass * (y - x) - (mass + total) * (
                float(np.log1p(np.exp(y))) - float(np.log1p(np.exp(x)))
            )
            if np.log(1.0 - rng.random()) < gain:
                x = y
        return float(np.exp(x))


def replace_margins(release: HistogramRelease, margins: tuple[Margin, ...]) -> HistogramRelease:
    """Return the release with other margins."""
    plain = HistogramRelease(
        release.values, mechanism=release.mechanism, total=release.total, attrs=release.attrs
    )
    object.__setattr__(plain, "margins", margins)
    return plain


def _compiled(observations: Observations, what: str) -> tuple:
    """Family, step, bounds and scales of released values as kernels take them."""
    noise = observations.noise
    if noise.family is None:
        raise UnsupportedError(
            f"the noise of {what} ({type(noise).__name__}) has no compiled kernel, which "
            "crossing margins need"
        )
    scale = np.broadcast_to(np.asarray(noise.scale, float), (observations.size,)).copy()
    lower, upper = (
        np.array(x, float) for x in (observations.bounds.lower, observations.bounds.upper)
    )
    return noise.family, float(noise.step), lower, upper, scale


def _margin_arrays(margins: list[Margin], partitions: int, widest: int) -> tuple:
    family = np.full(partitions, -1, dtype=np.int64)
    step = np.zeros(partitions)
    arrays = [np.zeros((partitions, widest)) for _ in range(3)]
    for p, margin in enumerate(margins):
        family[p], step[p], *rest = _compiled(margin.observations(), f"the {margin.name}")
        for array, values in zip(arrays, rest, strict=True):
            array[p, : margin.size] = values
    return (family, step, *arrays)


def _corners(groups: np.ndarray) -> np.ndarray:
    """Return the cell at each crossing of the first two partitions, -1 for none."""
    corner = np.full(groups[:2].max(axis=1) + 1, -1, dtype=np.int64)
    corner[groups[0], groups[1]] = np.arange(groups.shape[1])
    return corner
