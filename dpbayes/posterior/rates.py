"""Posteriors of rates and of their comparison: the same methods, other quantities."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import xarray as xr

from dpbayes.errors import DomainError, UnsupportedError
from dpbayes.posterior.naive import naive_counts
from dpbayes.posterior.posterior import Posterior
from dpbayes.posterior.tables import Quantity
from dpbayes.releases.rate import RateRelease
from dpbayes.schema import (
    CHAIN,
    CONTROL,
    DENOMINATOR,
    DIFFERENCE,
    DRAW,
    LIFT,
    NUMERATOR,
    POSTERIOR,
    PRIOR,
    RATE,
    TREATMENT,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LiftPosterior", "RatePosterior"]


class _NamedQuantities(Posterior):
    """A posterior of named quantities in place of a distribution over cells."""

    _names: tuple[str, ...] = ()

    def _quantities(self) -> Iterator[Quantity]:
        """Walk through the quantities that tables and verdicts show."""
        raise NotImplementedError

    def _no_cells(self) -> NoReturn:
        raise DomainError(
            f"a {type(self).__name__} has no distribution over cells: its quantities are "
            f"{', '.join(f'.{name}' for name in self._names)}"
        )

    @property
    def P(self) -> Any:
        """Not defined: there are no cells."""
        self._no_cells()

    @property
    def table(self) -> Any:
        """Not defined: there are no cells."""
        self._no_cells()

    @property
    def prior_P(self) -> Any:
        """Not defined: there are no cells."""
        self._no_cells()

    def to_frame(self) -> pd.DataFrame:
        """All draws, one row each and one column for each quantity."""
        import pandas as pd

        first = self._variable(self._names[0])
        sizes = [range(first.sizes[d]) for d in (CHAIN, DRAW)]
        index = pd.MultiIndex.from_product(sizes, names=[CHAIN, DRAW])
        return pd.DataFrame({q.name: q.values for q in self._quantities()}, index=index)

    def report(self, path: Any, ci_prob: float = 0.9, command: str | None = None) -> None:
        """Not written for quantities without a table of cells."""
        raise UnsupportedError(
            f"a {type(self).__name__} has no report page: use .summary(), .verdict() and "
            ".plot_functional(...)"
        )


class RatePosterior(_NamedQuantities):
    """Posterior draws of rates and of their true numerators and denominators.

    Objects of this class come from `dpbayes.rate`.

    Parameters
    ----------
    data : xarray.DataTree
        Groups posterior, prior, observed_data and constant_data.
    release : RateRelease
        What was published.
    """

    release: RateRelease
    _names = (RATE, NUMERATOR, DENOMINATOR)

    @property
    def rate(self) -> xr.DataArray:
        """Rates of the process, over chain, draw and the dims of the release."""
        return self._variable(RATE)

    @property
    def numerator(self) -> xr.DataArray:
        """True numerators."""
        return self._variable(NUMERATOR)

    @property
    def denominator(self) -> xr.DataArray:
        """True denominators."""
        return self._variable(DENOMINATOR)

    @property
    def total(self) -> xr.DataArray:
        """True denominators, the numbers of records behind the rates."""
        return self.denominator

    def _quantities(self) -> Iterator[Quantity]:
        over, under = (
            naive_counts(part).reshape(-1)
            for part in (self.release.numerator, self.release.denominator)
        )
        rate, part, total = (_flat(self, POSTERIOR, name) for name in self._names)
        prior = _flat(self, PRIOR, RATE)
        with np.errstate(invalid="ignore", divide="ignore"):
            naive, realised = over / under, part / total
        for j, name in enumerate(_named(self.release)):
            shared = prior[:, j], realised[:, j], float(naive[j])
            yield Quantity(f"{RATE}{name}", "P", rate[:, j], *shared)
            yield Quantity(f"{NUMERATOR}{name}", "table", part[:, j], None, None, float(over[j]))
            yield Quantity(
                f"{DENOMINATOR}{name}", "table", total[:, j], None, None, float(under[j])
            )

    def __repr__(self) -> str:
        sizes = self.rate.sizes
        return f"<RatePosterior of {self.release!r}: {sizes[CHAIN]} x {sizes[DRAW]} draws>"


class LiftPosterior(_NamedQuantities):
    """Posterior draws of the difference and the relative lift of two rates.

    Objects of this class come from `dpbayes.lift`.

    Parameters
    ----------
    data : xarray.DataTree
        Groups posterior, prior, observed_data and constant_data.
    release : tuple of RateRelease
        What was published about treatment and control.
    naive : mapping of str to ndarray
        Difference and lift as a naive reader of the releases would take them.
    labels : tuple of str
        Name of each comparison in tables, empty for a single one.
    realised : mapping of str to ndarray
        Difference and lift of the true counts, draw by draw.
    """

    _names = (LIFT, DIFFERENCE, TREATMENT, CONTROL)

    def __init__(
        self,
        data: xr.DataTree,
        release: tuple[RateRelease, RateRelease],
        *,
        naive: dict[str, np.ndarray],
        realised: dict[str, np.ndarray],
        labels: tuple[str, ...],
    ) -> None:
        super().__init__(data, release)
        self._naive, self._realised, self._labels = naive, realised, labels

    @property
    def difference(self) -> xr.DataArray:
        """Rate of the treatment less that of the control."""
        return self._variable(DIFFERENCE)

    @property
    def lift(self) -> xr.DataArray:
        """Relative lift: rate of the treatment over that of the control, less one."""
        return self._variable(LIFT)

    @property
    def total(self) -> xr.DataArray:
        """Rates of the treatment, by their number the draws are counted."""
        return self._variable(TREATMENT)

    def chance(self, above: float = 0.0) -> xr.DataArray:
        """Posterior probability that the relative lift exceeds a value.

        Parameters
        ----------
        above : float
            Value: 0 asks whether the treatment is better at all, 0.1 by ten per cent.
        """
        return (self.lift > above).mean((CHAIN, DRAW))

    def _quantities(self) -> Iterator[Quantity]:
        for name in (LIFT, DIFFERENCE):
            values, prior = _flat(self, POSTERIOR, name), _flat(self, PRIOR, name)
            for j, label in enumerate(self._labels):
                shared = prior[:, j], self._realised[name][:, j], float(self._naive[name][j])
                yield Quantity(f"{name}{label}", "P", values[:, j], *shared)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Not stored: save the two posteriors of rates, and compare them again."""
        raise UnsupportedError(
            "a LiftPosterior is not stored: save the two posteriors of rates and call lift again"
        )

    def __repr__(self) -> str:
        sizes = self.lift.sizes
        return f"<LiftPosterior of {len(self._labels)} lifts: {sizes[CHAIN]} x {sizes[DRAW]} draws>"


def _flat(posterior: Posterior, group: str, name: str) -> np.ndarray:
    """Draws in rows, labelled quantities in columns."""
    array = posterior.data[group].dataset[name].values
    return array.reshape(array.shape[0] * array.shape[1], -1)


def _named(release: RateRelease) -> list[str]:
    """Return the endings of the names of quantities."""
    labels = [release.short_label(i) for i in range(release.size)]
    return [f"[{label}]" if label else "" for label in labels]
