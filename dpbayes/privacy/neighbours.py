"""Which data sets must look alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from enum import StrEnum

import numpy as np

from dpbayes.errors import ParameterError

__all__ = ["Neighbours", "whole"]


class Neighbours(StrEnum):
    """Convention of neighbouring data sets.

    ========================  ==================================================
    ``REPLACE_ONE``           one record is exchanged for another, n is public
    ``ADD_REMOVE``            one record is added or removed
    ========================  ==================================================

    An alpha under one convention is no alpha under the other: replacing is removing and
    adding, so that ADD_REMOVE at alpha gives REPLACE_ONE at 2 alpha at most.

    References
    ----------
    Wasserman & Zhou (2010), section 2 (Hamming distance 1: `REPLACE_ONE`).
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"

    def tables(self, cells: int, records: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Walk through all ordered pairs of neighbouring tables of counts.

        Parameters
        ----------
        cells : int
            Number of cells.
        records : int
            Number of records of the first table of each pair.

        Yields
        ------
        pair of ndarray of int
            Counts of two neighbouring data sets.
        """
        size, n = whole("cells", cells, 1), whole("records", records, 0)
        for table in compositions(n, size):
            yield from self._around(table)

    def _around(self, table: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        steps = np.eye(table.size, dtype=int)
        if self is Neighbours.ADD_REMOVE:
            for step in steps:
                yield table, table + step
                yield table + step, table
            return
        for i, j in itertools.permutations(range(table.size), 2):
            if table[i] > 0:
                yield table, table - steps[i] + steps[j]

    def differences(self, cells: int) -> Iterator[np.ndarray]:
        """Walk through all differences between the counts of neighbouring data sets.

        Parameters
        ----------
        cells : int
            Number of cells.
        """
        steps = np.eye(whole("cells", cells, 1), dtype=int)
        if self is Neighbours.ADD_REMOVE:
            for step in steps:
                yield step
                yield -step
            return
        for i, j in itertools.permutations(range(cells), 2):
            yield steps[j] - steps[i]


def compositions(total: int, cells: int) -> Iterator[np.ndarray]:
    """Walk through all tables of counts with this total."""
    for bars in itertools.combinations(range(total + cells - 1), cells - 1):
        ends = np.array([-1, *bars, total + cells - 1])
        yield np.diff(ends) - 1


def whole(name: str, value: object, least: int) -> int:
    """Check a whole number."""
    wrong = isinstance(value, bool) or not isinstance(value, int | np.integer)
    if wrong or value < least:  # type: ignore[operator]
        raise ParameterError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)  # type: ignore[call-overload]
