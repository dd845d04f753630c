"""A binary tree of counts: convolution upwards, exact conditional draws downwards.

References
----------
The factor graph of a sum: each node's table is the convolution of its children's; given a
node's total, the left part has probability ∝ left(m) right(s - m).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import fft

from dpbayes.engines.leaves import LeafTables
from dpbayes.errors import ImpossibleReleaseError
from dpbayes.kernels.leaves import split_draws

__all__ = ["CountTree"]

#: Entries of a table below this share of the largest are cut off its ends.
_CUT = 1e-19
#: Below this number of products a direct convolution is faster than FFT.
_DIRECT = 30_000


@dataclass
class _Node:
    """Table of the sum of some leaves; leaves are children -1."""

    first: int
    table: np.ndarray
    log_scale: float
    mean: float
    variance: float
    left: int = -1
    right: int = -1


class CountTree:
    """Sums of independent counts with tabulated laws.

    Parameters
    ----------
    leaves : LeafTables
        Tables of the leaves.
    method : {"auto", "fft", "direct"}
        How to convolve; both give the same tables to about 1e-13 of their largest entry.
    """

    def __init__(self, leaves: LeafTables, method: str = "auto") -> None:
        self._method = method
        self._size = len(leaves.tables)
        self.nodes = [
            _Node(int(leaves.first[j]), leaves.tables[j], float(leaves.log_scale[j]),
                  float(leaves.mean[j]), float(leaves.variance[j]))
            for j in range(self._size)
        ]  # fmt: skip
        level = list(range(self._size))
        while len(level) > 1:
            merged = [self._merge(a, b) for a, b in zip(level[0::2], level[1::2], strict=False)]
            level = merged + level[2 * len(merged) :]
        self.root = level[0]

    def _merge(self, left: int, right: int) -> int:
        a, b = self.nodes[left], self.nodes[right]
        table = convolve(a.table, b.table, self._method)
        peak = table.max()
        keep = np.flatnonzero(table > _CUT * peak)
        start, stop = keep[0], keep[-1] + 1
        self.nodes.append(
            _Node(
                a.first + b.first + int(start),
                table[start:stop] / peak,
                a.log_scale + b.log_scale + float(np.log(peak)),
                a.mean + b.mean,
                a.variance + b.variance,
                left,
                right,
            )
        )
        return len(self.nodes) - 1

    def log_mass(self, total: int) -> float:
        """Log of the unnormalised probability that the leaves sum to `total`."""
        root = self.nodes[self.root]
        index = total - root.first
        if not 0 <= index < root.table.size or not root.table[index] > 0:
            return -np.inf
        return root.log_scale + float(np.log(root.table[index]))

    def draw(
        self,
        totals: np.ndarray,
        rng: np.random.Generator,
        progress: Callable[[int], None] = lambda _: None,
    ) -> np.ndarray:
        """Draw all leaves given the root's total.

        Parameters
        ----------
        totals : ndarray of int
            Total of each draw.
        rng : Generator
            Source of randomness.
        progress : callable
            Called with the number of splits done since the last call.

        Returns
        -------
        ndarray of int, shape (leaves, draws)
            Counts; each column adds up to its total.
        """
        counts = np.empty((self._size, totals.size), dtype=np.int64)
        stack = [(self.root, np.ascontiguousarray(totals, dtype=np.int64))]
        while stack:
            index, sums = stack.pop()
            node = self.nodes[index]
            if node.left < 0:
                counts[index] = sums
                continue
            a, b = self.nodes[node.left], self.nodes[node.right]
            slope = a.variance / node.variance if node.variance > 0 else 0.5
            parts = np.empty_like(sums)
            failed = split_draws(
                a.table, a.first, b.table, b.first, slope,
                a.mean - slope * node.mean, sums, rng.random(sums.size), parts,
            )  # fmt: skip
            if failed >= 0:
                raise ImpossibleReleaseError(
                    f"a total of {sums[failed]} cannot be split among the cells below it"
                )
            stack.append((node.right, sums - parts))
            stack.append((node.left, parts))
            progress(1)
        return counts


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
