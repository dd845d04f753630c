"""Tables of sums of counts: tilting, convolution, splitting.

A table stands for an unnormalised law of a sum s, f(s) = exp(log_scale - tilt s) v[s - first],
with the largest v equal to 1. The tilt moves the bulk of v to where f matters, because FFT
is accurate only relative to the largest entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import fft

from dpbayes.kernels.leaves import split_draws

__all__ = ["Bundle", "Table", "convolve"]

#: Entries below this share of the largest are cut off the ends of a table.
_CUT = 1e-19
#: Below this number of products a direct convolution is faster than FFT.
_DIRECT = 30_000


@dataclass(frozen=True)
class Table:
    """Unnormalised law of a sum of counts (see the module's docstring).

    Parameters
    ----------
    first : int
        Sum of the first entry.
    values : ndarray
        Entries; the largest is 1, or all are 0 where no sum is possible.
    log_scale, tilt : float
        The law is exp(log_scale - tilt s) values[s - first].
    known_moments : pair of float, optional
        Mean and variance of the tilted law, where they are known beforehand.
    """

    first: int
    values: np.ndarray
    log_scale: float
    tilt: float
    known_moments: tuple[float, float] | None = None

    @property
    def sums(self) -> np.ndarray:
        """Sums of the entries."""
        return self.first + np.arange(self.values.size)

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of the tilted law."""
        if self.known_moments is not None:
            return self.known_moments
        total = self.values.sum()
        if not total > 0:
            return float(self.first), 0.0
        mean = float(self.values @ self.sums / total)
        return mean, float(self.values @ (self.sums - mean) ** 2 / total)

    @property
    def possible(self) -> bool:
        """Whether any sum has mass."""
        return bool(self.values.max() > 0)

    def plus(self, log_factor: np.ndarray, tilt: float) -> Table:
        """Multiply the entries by exp(log_factor), which the new tilt may have to undo."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.values) + log_factor
        top = float(logs.max())
        if top == -np.inf:
            return Table(self.first, np.zeros(1), -np.inf, tilt)
        values = np.exp(logs - top)
        keep = np.flatnonzero(values > _CUT)
        start, stop = int(keep[0]), int(keep[-1]) + 1
        return Table(self.first + start, values[start:stop], self.log_scale + top, tilt)

    def tilted(self, tilt: float) -> Table:
        """Return the same law under another tilt."""
        if tilt == self.tilt:
            return self
        return self.plus((tilt - self.tilt) * self.sums, tilt)

    def times(self, log_likelihood: np.ndarray) -> Table:
        """Multiply the law by a likelihood of the sum, given at `sums`."""
        return self.plus(log_likelihood, self.tilt)

    def log_at(self, total: int) -> float:
        """Log of the unnormalised law at one sum."""
        index = total - self.first
        if not 0 <= index < self.values.size or not self.values[index] > 0:
            return -np.inf
        return self.log_scale - self.tilt * total + float(np.log(self.values[index]))

    def merge(self, other: Table, method: str) -> Table:
        """Law of the sum of two independent sums under the same tilt."""
        product = convolve(self.values, other.values, method)
        peak = float(product.max())
        first = self.first + other.first
        if not peak > 0:
            return Table(first, np.zeros(1), -np.inf, self.tilt)
        keep = np.flatnonzero(product > _CUT * peak)
        start, stop = int(keep[0]), int(keep[-1]) + 1
        scale = self.log_scale + other.log_scale + float(np.log(peak))
        (mean, variance), (more, spread) = self.moments, other.moments
        moments = (mean + more, variance + spread)
        return Table(first + start, product[start:stop] / peak, scale, self.tilt, moments)


class Bundle:
    """Children of one node, merged in pairs; splits the node's sum among them.

    Parameters
    ----------
    tables : sequence of Table
        Tables of the children, all under the same tilt.
    method : {"auto", "fft", "direct"}
        How to convolve.
    """

    def __init__(self, tables: Sequence[Table], method: str = "auto") -> None:
        self.children = len(tables)
        self._nodes = list(tables)
        self._pairs: list[tuple[int, int]] = [(-1, -1)] * len(tables)
        level = list(range(len(tables)))
        while len(level) > 1:
            merged = []
            for left, right in zip(level[0::2], level[1::2], strict=False):
                self._nodes.append(self._nodes[left].merge(self._nodes[right], method))
                self._pairs.append((left, right))
                merged.append(len(self._nodes) - 1)
            level = merged + level[2 * len(merged) :]
        self._root = level[0]

    @property
    def child_tilt(self) -> float:
        """Tilt of the children's tables."""
        return self._nodes[0].tilt

    @property
    def top(self) -> Table:
        """Law of the sum of all children."""
        return self._nodes[self._root]

    def split(
        self,
        totals: np.ndarray,
        rng: np.random.Generator,
        progress: Callable[[int], None] = lambda _: None,
    ) -> np.ndarray:
        """Draw the children's sums given their total.

        Parameters
        ----------
        totals : ndarray of int
            Total of each draw.
        rng : Generator
            Source of randomness.
        progress : callable
            Called with the number of children done since the last call.

        Returns
        -------
        ndarray of int, shape (children, draws)
            Sums; each column adds up to its total. A total without mass gives -1 throughout.
        """
        out = np.empty((self.children, totals.size), dtype=np.int64)
        stack = [(self._root, np.ascontiguousarray(totals, dtype=np.int64))]
        while stack:
            index, sums = stack.pop()
            left, right = self._pairs[index]
            if left < 0:
                out[index] = sums
                progress(1)
                continue
            a, b = self._nodes[left], self._nodes[right]
            (mean_a, var_a), (mean_b, var_b) = a.moments, b.moments
            slope = var_a / (var_a + var_b) if var_a + var_b > 0 else 0.5
            parts = np.empty_like(sums)
            failed = split_draws(
                a.values, a.first, b.values, b.first, slope,
                mean_a - slope * (mean_a + mean_b), sums, rng.random(sums.size), parts,
            )  # fmt: skip
            if failed >= 0:
                out[:] = -1
                return out
            stack.append((right, sums - parts))
            stack.append((left, parts))
        return out


def convolve(a: np.ndarray, b: np.ndarray, method: str = "auto") -> np.ndarray:
    """Convolve two tables of non-negative entries.

    Parameters
    ----------
    a, b : ndarray
        Tables.
    method : {"auto", "fft", "direct"}
        FFT errs by about 1e-16 of the largest entry; what it makes negative is set to 0.
    """
    if method == "direct" or (method == "auto" and a.size * b.size <= _DIRECT):
        return np.convolve(a, b)
    size = a.size + b.size - 1
    length = fft.next_fast_len(size, real=True)
    product = fft.rfft(a, length) * fft.rfft(b, length)
    return np.maximum(fft.irfft(product, length)[:size], 0.0)
