"""Any statistic of stated sensitivity, released with noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from dpbayes.errors import ReleaseError
from dpbayes.mechanism import as_mechanism
from dpbayes.releases.base import check_attrs, digest

__all__ = ["StatisticRelease"]


@dataclass(frozen=True, eq=False)
class StatisticRelease:
    """Numbers f(x) + noise, for a statistic f about which nothing more is said.

    It has no `fit` of its own: what its true value says about P depends on f. Its mechanism
    gives the likelihood of the true value.

    Parameters
    ----------
    values : array_like
        Released numbers.
    mechanism : Mechanism or NoiseLaw
        How each of them was perturbed.
    attrs : mapping, optional
        Facts for reports: title, unit, source, neighbours, epsilon, sensitivity.
    """

    values: Any
    _: KW_ONLY
    mechanism: Any
    attrs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=float)
        if not np.all(np.isfinite(values)):
            raise ReleaseError("values must be finite numbers")
        values.flags.writeable = False
        mechanism = as_mechanism(self.mechanism)
        mechanism.interval(values)  # refuse impossible values now
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "attrs", check_attrs(self.attrs))

    def log_likelihood(self, statistic: Any) -> np.ndarray:
        """Log likelihood of a candidate true value, summed over its entries.

        Parameters
        ----------
        statistic : array_like
            True value, of the shape of the release.
        """
        return np.sum(self.mechanism.log_likelihood(self.values, statistic))

    def digest(self) -> int:
        """Whole number that depends on all of the release."""
        return digest("statistic", self.values, self.mechanism, self.values.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StatisticRelease):
            return NotImplemented
        return (
            np.array_equal(self.values, other.values)
            and self.mechanism == other.mechanism
            and self.attrs == other.attrs
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<StatisticRelease of shape {self.values.shape}, {self.mechanism!r}>"
