"""Noisy numerators and denominators of rates: clicks and impressions, buyers and visitors."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import xarray as xr

from dpbayes.errors import ReleaseError
from dpbayes.releases.base import digest
from dpbayes.releases.histogram import HistogramRelease

__all__ = ["RateRelease"]


@dataclass(frozen=True, eq=False)
class RateRelease:
    """Two released counts per rate: the true numerator is part of the true denominator.

    Parameters
    ----------
    numerator, denominator : number, array_like, DataArray, Series or HistogramRelease
        Released counts, NaN where suppressed; the same cells in the same order. Numbers and
        arrays take `mechanism`; a `HistogramRelease` brings its own.
    mechanism : Mechanism or NoiseLaw, optional
        How numbers and arrays were published; each was given noise of its own.

    Raises
    ------
    ReleaseError
        If the two do not have the same cells, or state more than cells (margins, totals).
    ImpossibleReleaseError
        If a value cannot come from its mechanism; names the cell.
    """

    _: KW_ONLY
    numerator: Any
    denominator: Any
    mechanism: Any = None

    def __post_init__(self) -> None:
        parts = {k: self._part(k, getattr(self, k)) for k in ("numerator", "denominator")}
        cells = [part.values.copy(data=np.zeros(part.values.shape)) for part in parts.values()]
        if not cells[0].identical(cells[1]):
            shapes = [f"{dict(c.sizes)}" for c in cells]
            raise ReleaseError(
                "numerator and denominator must have the same cells in the same order, got "
                f"{shapes[0]} and {shapes[1]}{'' if shapes[0] != shapes[1] else ' (other labels)'}"
            )
        scalar = all(np.ndim(getattr(self, name)) == 0 for name in parts)
        object.__setattr__(self, "_scalar", scalar and not self._is_release())
        object.__setattr__(self, "mechanism", None)
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def _is_release(self) -> bool:
        """Whether a part came with cells of its own."""
        return any(isinstance(x, HistogramRelease) for x in (self.numerator, self.denominator))

    def _part(self, name: str, given: Any) -> HistogramRelease:
        """One of the two as a release."""
        if not isinstance(given, HistogramRelease):
            if self.mechanism is None:
                raise ReleaseError(
                    f"{name} needs a mechanism: give mechanism=, or a HistogramRelease, "
                    f"got {given!r}"
                )
            given = HistogramRelease(
                [given] if np.ndim(given) == 0 else given, mechanism=self.mechanism
            )
        if given.margins or given.repeats or given.samples or given.total is not None:
            raise ReleaseError(
                f"{name} must be a plain table of counts: leave out margins, repeats, samples and "
                "the public total (public counts have the mechanism NoNoise())"
            )
        return given

    @classmethod
    def of(cls, numerator: Any, denominator: Any, single: bool) -> Self:
        """Return the release of these parts; `single` makes a rate without a dim."""
        release = cls(numerator=numerator, denominator=denominator)
        object.__setattr__(release, "_scalar", single)
        return release

    @property
    def values(self) -> xr.DataArray:
        """Released numerators, whose labels are those of the rates."""
        return self.numerator.values

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes; none for a single rate given as two numbers."""
        return () if self._scalar else self.numerator.dims  # type: ignore[attr-defined]

    @property
    def size(self) -> int:
        """Number of rates."""
        return self.numerator.size

    @property
    def attrs(self) -> Any:
        """Facts that the numerator's release states."""
        return self.numerator.attrs

    def short_label(self, index: int) -> str:
        """Labels of a rate, joined; empty for a single one."""
        return self.numerator.short_label(index) if self.dims else ""

    def digest(self) -> int:
        """Whole number that depends on all of the release."""
        parts = (self.numerator, self.denominator)
        return digest("rate", np.empty(0), self.numerator.mechanism, *(p.digest() for p in parts))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RateRelease):
            return NotImplemented
        same = self.numerator == other.numerator and self.denominator == other.denominator
        return same and self.dims == other.dims

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        what = "1 rate" if self.size == 1 else f"{self.size} rates"
        return (
            f"<RateRelease ({what}), numerator {self.numerator.mechanism.noise!r}, "
            f"denominator {self.denominator.mechanism.noise!r}>"
        )
