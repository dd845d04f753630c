"""Records perturbed one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from dpbayes.errors import ReleaseError, UnsupportedError
from dpbayes.mechanism import as_mechanism
from dpbayes.noise import NoNoise
from dpbayes.releases.base import check_attrs, digest
from dpbayes.releases.frames import as_frame, numbers

__all__ = ["RecordRelease"]


@dataclass(frozen=True, eq=False)
class RecordRelease:
    """Records z_i = post(x_i + noise_i), one per person, x_i drawn from P on [lo, hi].

    Parameters
    ----------
    values : array_like
        Released records, one-dimensional.
    mechanism : Mechanism or NoiseLaw
        How each record was perturbed.
    bounds : pair of float
        Bounds (lo, hi) of the true records, known beforehand: the range to which they were
        clipped before noise was added.
    support : {"continuous", "integers"}
        Whether the true records are real or whole numbers.
    attrs : mapping, optional
        Facts for reports: title, unit, source, neighbours, epsilon, sensitivity.

    Raises
    ------
    ReleaseError
        If bounds are reversed, records are missing, or the support does not fit the noise.
    ImpossibleReleaseError
        If a record cannot come from the mechanism (the message names the row).

    References
    ----------
    Wasserman & Zhou (2010), Example 2.1.

    Examples
    --------
    >>> import dpbayes as dpb
    >>> law = dpb.Laplace.from_epsilon(epsilon=1, sensitivity=250)
    >>> dpb.RecordRelease([31.0, -112.5], mechanism=law, bounds=(0, 250)).size
    2
    """

    values: Any
    _: KW_ONLY
    mechanism: Any
    bounds: Any
    support: str = "continuous"
    attrs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        mechanism = as_mechanism(self.mechanism)
        values = _record_array(self.values)
        if isinstance(mechanism.noise, NoNoise):
            raise ReleaseError("records without noise need no deconvolution: mechanism is NoNoise")
        if mechanism.noise.shape not in ((), values.shape):
            raise ReleaseError(
                f"parameters of the noise have shape {mechanism.noise.shape}, "
                f"the records {values.shape}"
            )
        if mechanism.noise.shape:
            raise UnsupportedError(
                "records with a noise scale of their own each are not supported: "
                "split them into one release per scale"
            )
        settle = {
            "values": values,
            "mechanism": mechanism,
            "bounds": _check_bounds(self.bounds, self.support),
            "attrs": check_attrs(self.attrs),
        }
        for name, value in settle.items():
            object.__setattr__(self, name, value)
        if mechanism.noise.is_lattice:
            if self.support != "integers":
                raise ReleaseError(
                    f"noise on the lattice of {type(mechanism.noise).__name__} needs "
                    'support="integers": continuous records would keep their fractional part'
                )
            mechanism.integer_bounds(values, self.label)
        else:
            mechanism.interval(values, self.label)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        column: str,
        mechanism: Any,
        bounds: Any,
        support: str = "continuous",
        attrs: Mapping[str, Any] | None = None,
    ) -> Self:
        """Release from one column of a data frame.

        Parameters
        ----------
        frame : pandas, polars, pyarrow, ... data frame
            Anything that narwhals reads.
        column : str
            Column of released records.
        mechanism, bounds, support, attrs
            As in the constructor.
        """
        values = numbers(as_frame(frame), column, "column")
        return cls(values, mechanism=mechanism, bounds=bounds, support=support, attrs=attrs)

    @property
    def size(self) -> int:
        """Number of records n."""
        return self.values.size

    @staticmethod
    def label(index: int) -> str:
        """Name of a record, for messages."""
        return f"record in row {index + 1}"

    def digest(self) -> int:
        """Whole number that depends on all of the release."""
        return digest("records", self.values, self.mechanism, self.bounds, self.support)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordRelease):
            return NotImplemented
        return (
            np.array_equal(self.values, other.values, equal_nan=True)
            and self.mechanism == other.mechanism
            and (self.bounds, self.support) == (other.bounds, other.support)
            and self.attrs == other.attrs
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        low, high = self.bounds
        return (
            f"<RecordRelease ({self.size} records in [{low:g}, {high:g}], {self.support}), "
            f"{self.mechanism!r}>"
        )


def _record_array(values: Any) -> np.ndarray:
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError):
        entries = np.asarray(values, dtype=object).reshape(-1)
        where = next((i for i, entry in enumerate(entries) if not _is_number(entry)), None)
        what = "" if where is None else f", got {entries[where]!r} in row {where + 1}"
        raise ReleaseError(f"values must be numbers, one per record{what}") from None
    if array.ndim != 1:
        raise ReleaseError(f"values must be one-dimensional, got shape {array.shape}")
    if array.size == 0:
        raise ReleaseError("values must hold at least one record, got none")
    array.flags.writeable = False
    return array


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _check_bounds(bounds: Any, support: str) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        raise ReleaseError(f"bounds must be a pair (lo, hi) of numbers, got {bounds!r}") from None
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ReleaseError(f"bounds must be finite, got ({low}, {high})")
    if low >= high:
        raise ReleaseError(f"bounds must be (lo, hi) with lo < hi, got ({low:g}, {high:g})")
    if support not in ("continuous", "integers"):
        raise ReleaseError(f"support must be 'continuous' or 'integers', got {support!r}")
    if support == "integers" and (low != round(low) or high != round(high)):
        raise ReleaseError(
            f"bounds of integer records must be whole numbers, got ({low:g}, {high:g})"
        )
    return low, high
