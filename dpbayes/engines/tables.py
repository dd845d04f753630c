"""Tables of sums of counts: tilting, convolution, splitting.

A table stands for an unnormalised law of a sum s, f(s) = exp(log_scale - tilt s) v[s - first],
with the largest v equal to 1. The tilt moves the bulk of v to where f matters, because FFT
is accurate only relative to the largest entry. All tables of a level of a tree are kept and
worked on together: single tables are too small to be worth a call each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from scipy import fft

from dpbayes.kernels import sums as kernel

__all__ = ["Forest", "Grove", "Table", "Tables"]

#: Below this number of products a direct convolution is faster than FFT.
_DIRECT = 30_000
#: Entries transformed at a time.
_BATCH = 1 << 18
_THREADS = 2


@dataclass(frozen=True)
class Table:
    """Unnormalised law of one sum of counts (see the module's docstring).

    Parameters
    ----------
    first : int
        Sum of the first entry.
    values : ndarray
        Entries; the largest is 1, or all are 0 where no sum is possible.
    log_scale, tilt : float
        The law is exp(log_scale - tilt s) values[s - first].
    """

    first: int
    values: np.ndarray
    log_scale: float
    tilt: float

    @property
    def sums(self) -> np.ndarray:
        """Sums of the entries."""
        return self.first + np.arange(self.values.size)

    @property
    def possible(self) -> bool:
        """Whether any sum has mass."""
        return bool(self.values.max() > 0)

    def tilted(self, tilt: float) -> Table:
        """Return the same law under another tilt."""
        return Tables.of([self]).tilted(np.array([tilt])).one(0)

    def times(self, log_likelihood: np.ndarray) -> Table:
        """Multiply the law by a likelihood of the sum, given at `sums`."""
        return Tables.of([self]).times(log_likelihood).one(0)

    def log_at(self, total: int) -> float:
        """Log of the unnormalised law at one sum."""
        index = total - self.first
        if not 0 <= index < self.values.size or not self.values[index] > 0:
            return -np.inf
        return self.log_scale - self.tilt * total + float(np.log(self.values[index]))


@dataclass(frozen=True)
class Tables:
    """Laws of many sums, their entries one after the other.

    Parameters
    ----------
    first, log_scale, tilt : ndarray
        As in `Table`, one for each law.
    values : ndarray
        Entries of all laws.
    offsets : ndarray of int
        Where each law starts in `values`, and the end of the last.
    mean, variance : ndarray
        Moments of the tilted laws.
    """

    first: np.ndarray
    log_scale: np.ndarray
    tilt: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, tables: Sequence[Table]) -> Tables:
        """Gather single tables."""
        offsets = np.concatenate([[0], np.cumsum([t.values.size for t in tables])])
        first = np.array([t.first for t in tables], dtype=np.int64)
        scale, tilt = (np.array([getattr(t, n) for t in tables]) for n in ("log_scale", "tilt"))
        values = np.concatenate([t.values for t in tables])
        plain = cls(first, scale, tilt, values, offsets, scale, scale)
        return plain._reweighed(np.zeros(first.size), np.empty(0))

    @classmethod
    def joined(cls, parts: Sequence[Tables]) -> Tables:
        """Put several sets of laws one after the other."""
        if len(parts) == 1:
            return parts[0]
        names = ("first", "log_scale", "tilt", "values", "mean", "variance")
        together = {n: np.concatenate([getattr(p, n) for p in parts]) for n in names}
        sizes = np.concatenate([np.diff(p.offsets) for p in parts])
        return cls(offsets=np.concatenate([[0], np.cumsum(sizes)]), **together)

    def one(self, index: int) -> Table:
        """Return one law."""
        entries = self.values[self.offsets[index] : self.offsets[index + 1]]
        return Table(
            int(self.first[index]), entries, float(self.log_scale[index]), float(self.tilt[index])
        )

    def take(self, order: np.ndarray) -> Tables:
        """Put the laws into another order."""
        if np.array_equal(order, np.arange(self.first.size)):
            return self
        sizes = np.diff(self.offsets)[order]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        where = np.arange(offsets[-1]) + np.repeat(self.offsets[order] - offsets[:-1], sizes)
        rest = (self.mean[order], self.variance[order])
        scales = (self.log_scale[order], self.tilt[order])
        return Tables(self.first[order], *scales, self.values[where], offsets, *rest)

    @property
    def owners(self) -> np.ndarray:
        """Law to which each entry belongs."""
        return np.repeat(np.arange(self.first.size), np.diff(self.offsets))

    @property
    def sums(self) -> np.ndarray:
        """Sums of all entries."""
        start = self.first - self.offsets[:-1]
        return np.arange(self.values.size) + np.repeat(start, np.diff(self.offsets))

    def tilted(self, tilt: np.ndarray) -> Tables:
        """Return the same laws under other tilts."""
        slope = tilt - self.tilt
        return self if not slope.any() else self._reweighed(slope, np.empty(0))

    def times(self, log_likelihood: np.ndarray, slope: np.ndarray | None = None) -> Tables:
        """Multiply the laws by likelihoods of the sums, given for every entry.

        The tilts change by `slope` in the same step.
        """
        return self._reweighed(
            np.zeros(self.first.size) if slope is None else slope, log_likelihood
        )

    def within(self, known: np.ndarray) -> Tables:
        """Keep one entry of each law whose sum is known, all of the others (NaN)."""
        if np.isnan(known).all():
            return self
        sizes = np.diff(self.offsets)
        at = np.nan_to_num(known) - self.first
        inside = (at >= 0) & (at < sizes) & (at == np.rint(at))
        # A sum that is not in the table keeps any entry: its likelihood is zero there.
        at = np.where(inside, at, 0).astype(np.int64)
        start = np.where(np.isnan(known), 0, at)
        stop = np.where(np.isnan(known), sizes, at + 1)
        values, offsets = kernel.compact(self.values, self.offsets, start, stop)
        return replace(self, first=self.first + start, values=values, offsets=offsets)

    def _reweighed(self, slope: np.ndarray, log_factor: np.ndarray) -> Tables:
        size = self.first.size
        out, moments = np.empty(self.values.size), np.empty((3, size))
        start, stop = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        kernel.reweigh(
            self.values, self.offsets, self.first, slope, log_factor, out, start, stop, moments
        )
        values, offsets = kernel.compact(out, self.offsets, start, stop)
        scale, mean, variance = moments
        return Tables(
            self.first + start, self.log_scale + scale, self.tilt + slope, values, offsets, mean,
            variance,
        )  # fmt: skip

    @property
    def possible(self) -> np.ndarray:
        """Whether any sum of each law has mass."""
        return self.log_scale > -np.inf


@dataclass(frozen=True)
class _Round:
    """Parts that were merged in pairs, and the largest entry of each convolution."""

    parts: Tables
    left: np.ndarray
    right: np.ndarray
    peak: np.ndarray


class Forest:
    """Children of many nodes, merged in pairs; splits the nodes' sums among them.

    Parameters
    ----------
    tables : Tables
        Laws of the children, those of one node after the other and under one tilt.
    sizes : ndarray of int
        Number of children of each node.
    method : {"auto", "fft", "direct"}
        How to convolve. FFT errs by about 1e-16 of the largest entry; what it makes
        negative is set to 0.
    """

    def __init__(self, tables: Tables, sizes: np.ndarray, method: str = "auto") -> None:
        self._rounds: list[_Round] = []
        while sizes.max() > 1:
            half = (sizes + 1) // 2
            node = np.repeat(np.arange(sizes.size), half)
            place = np.arange(node.size) - np.repeat(np.cumsum(half) - half, half)
            left = (np.cumsum(sizes) - sizes)[node] + 2 * place
            right = np.where(2 * place + 1 < sizes[node], left + 1, -1)
            merged, peak = _merge(tables, left, right, method)
            self._rounds.append(_Round(tables, left, right, peak))
            tables, sizes = merged, half
        #: Laws of the sums of all children of each node.
        self.top = tables
        #: Variances of the nodes' sums.
        self.variance = tables.variance

    def split(
        self,
        totals: np.ndarray,
        rng: np.random.Generator,
        progress: Callable[[int], None] = lambda _: None,
    ) -> np.ndarray:
        """Draw the children's sums given the nodes' sums.

        Parameters
        ----------
        totals : ndarray of int, shape (nodes, draws)
            Sums of the nodes.
        rng : Generator
            Source of randomness.
        progress : callable
            Called with the number of children done since the last call.

        Returns
        -------
        ndarray of int, shape (children, draws)
            Sums; those of a node's children add up to its own. A sum without mass gives -1
            throughout.
        """
        merged, sums = self.top, np.ascontiguousarray(totals, dtype=np.int64)
        for level in reversed(self._rounds):
            p = level.parts
            out = np.empty((p.first.size, sums.shape[1]), dtype=np.int64)
            uniforms = rng.random(sums.shape)

            def work(nodes, sums=sums, merged=merged, level=level, p=p, out=out, u=uniforms):
                return kernel.split_nodes(
                    p.values, p.offsets, p.first, p.mean, p.variance, level.left, level.right,
                    merged.values, merged.offsets, merged.first, level.peak, nodes, sums, u, out,
                )  # fmt: skip

            blocks = np.array_split(np.arange(sums.shape[0]), min(4 * _THREADS, sums.shape[0]))
            with ThreadPoolExecutor(_THREADS) as pool:
                if max(pool.map(work, blocks)) >= 0:
                    return np.full((self.children, sums.shape[1]), -1)
            merged, sums = p, out
        progress(self.children)
        return sums

    @property
    def children(self) -> int:
        """Number of children of all nodes."""
        return self._rounds[0].parts.first.size if self._rounds else self.top.first.size


class Grove:
    """Forests side by side, the nodes of one after those of the other.

    Parameters
    ----------
    forests : list of Forest
        Any of them may be replaced without touching the others.
    """

    def __init__(self, forests: Sequence[Forest]) -> None:
        self._forests = forests
        #: Variances of the nodes' sums.
        self.variance = np.concatenate([forest.variance for forest in forests])

    def split(
        self,
        totals: np.ndarray,
        rng: np.random.Generator,
        progress: Callable[[int], None] = lambda _: None,
    ) -> np.ndarray:
        """Draw the children's sums given the nodes' sums (see `Forest.split`)."""
        ends = np.cumsum([forest.variance.size for forest in self._forests])
        return np.concatenate([
            forest.split(part, rng, progress)
            for forest, part in zip(self._forests, np.split(totals, ends[:-1]), strict=True)
        ])  # fmt: skip


def _merge(
    tables: Tables, left: np.ndarray, right: np.ndarray, method: str
) -> tuple[Tables, np.ndarray]:
    """Laws of the sums of pairs of laws, and the largest entries before they were scaled."""
    sizes, alone = np.diff(tables.offsets), right < 0
    long, short = sizes[left], np.where(alone, 1, sizes[right])
    offsets = np.concatenate([[0], np.cumsum(long + short - 1)])
    raw, peak = np.empty(offsets[-1]), np.empty(left.size)
    start, stop = np.empty(left.size, dtype=np.int64), np.empty(left.size, dtype=np.int64)
    few = (long * short <= _DIRECT) | (method == "direct")
    by_fft = ~alone & ((method == "fft") | ~few)
    kernel.convolve_direct(
        tables.values, tables.offsets, left, right, np.flatnonzero(~by_fft), raw, offsets,
        start, stop, peak,
    )  # fmt: skip
    lengths = np.where(by_fft, _fft_length(long + short - 1), 0)
    for length in np.unique(lengths[by_fft]):
        nodes = np.flatnonzero(lengths == length)
        for batch in np.array_split(nodes, -(-nodes.size * length // _BATCH)):
            if batch.size:
                rows = np.empty((2, batch.size, length))
                kernel.pack(tables.values, tables.offsets, left[batch], rows[0])
                kernel.pack(tables.values, tables.offsets, right[batch], rows[1])
                waves = fft.rfft(rows, axis=-1, overwrite_x=True)
                product = fft.irfft(waves[0] * waves[1], length, axis=-1, overwrite_x=True)
                kernel.unpack(product, batch, raw, offsets, start, stop, peak)
    values, compact = kernel.compact(raw, offsets, start, stop)
    first, scale, mean, variance = (
        x[left] + np.where(alone, 0, x[right])
        for x in (tables.first, tables.log_scale, tables.mean, tables.variance)
    )
    with np.errstate(divide="ignore"):
        scale = scale + np.log(peak)
    merged = Tables(first + start, scale, tables.tilt[left], values, compact, mean, variance)
    return merged, peak


def _fft_length(size: np.ndarray) -> np.ndarray:
    """Lengths of which there are few per octave, each quick to transform."""
    octave = 2 ** np.maximum(np.ceil(np.log2(size)).astype(np.int64) - 4, 0)
    steps = np.array([8, 9, 10, 12, 15, 16])
    return octave * steps[np.searchsorted(steps, -(-size // octave))]
