"""The posterior of a release: draws, functionals, tables, verdict, storage."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from dpbayes.errors import DomainError
from dpbayes.posterior import naive, storage, tables
from dpbayes.posterior.estimand import Estimand, Support
from dpbayes.posterior.verdict import Verdict, judge
from dpbayes.schema import (
    ATOM,
    ATOM_COUNT,
    ATOM_PROBABILITY,
    CHAIN,
    CONSTANT,
    COUNT,
    DRAW,
    EDGES,
    POSTERIOR,
    PRIOR,
    PROBABILITY,
    SAMPLE,
    SAMPLE_COUNT,
    TOTAL,
    VALUE,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Posterior"]


def _shares(counts: xr.DataArray) -> xr.DataArray:
    """Turn counts into shares; NaN in a draw without any record."""
    with np.errstate(invalid="ignore"):
        return counts.astype(float) / counts.sum("piece")


class Posterior:
    """Posterior draws of the distribution P, of the true counts and of the total.

    Objects of this class come from `dpbayes.fit` and `dpbayes.load`.

    Parameters
    ----------
    data : xarray.DataTree
        Groups posterior, prior, observed_data, constant_data and, where a sampler ran,
        sample_stats. Attributes of the root say how it was made.
    release : HistogramRelease or RecordRelease
        What was published.

    Examples
    --------
    >>> import dpbayes as dpb
    >>> law = dpb.DiscreteLaplace(scale=10)
    >>> release = dpb.HistogramRelease([12, -3, 40], mechanism=law, edges=[0, 10, 20, 30])
    >>> posterior = dpb.fit(release, random_seed=1)
    >>> posterior.P.mean().quantile([0.05, 0.95]).shape
    (2,)
    """

    def __init__(self, data: xr.DataTree, release: Any) -> None:
        self.data = data
        self.release = release

    # -- draws -------------------------------------------------------------------------

    def _variable(self, name: str, group: str = POSTERIOR) -> xr.DataArray:
        try:
            found = self.data[group][name]
        except KeyError:
            raise DomainError(f"this posterior has no variable {name!r}") from None
        # Labels of draws would let arithmetic drop draws that another posterior lacks.
        return found.drop_vars([CHAIN, DRAW], errors="ignore")

    @property
    def probability(self) -> xr.DataArray:
        """P of each cell, over chain, draw and the dims of the release."""
        return self._variable(PROBABILITY)

    @property
    def count(self) -> xr.DataArray:
        """True count of each cell, over chain, draw and the dims of the release."""
        return self._variable(COUNT)

    @property
    def total(self) -> xr.DataArray:
        """True number of records, over chain and draw."""
        return self._variable(TOTAL)

    def margin(self, by: str | tuple[str, ...]) -> xr.DataArray:
        """Return the true totals of groups of cells, over chain, draw and the groups.

        Parameters
        ----------
        by : str or tuple of str
            Dims or grouping coordinates of the release; ``()`` is the total.
        """
        names = (by,) if isinstance(by, str) else tuple(by)
        if not names:
            return self.total
        return tables.group_totals(self, names)

    @property
    def attrs(self) -> Mapping[str, Any]:
        """How the posterior was made: engine, seed, log evidence, versions."""
        return {str(name): value for name, value in self.data.attrs.items()}

    # -- estimands ---------------------------------------------------------------------

    @cached_property
    def _edges(self) -> np.ndarray | None:
        constant = self.data[CONSTANT].dataset
        return constant[EDGES].values if EDGES in constant else None

    @cached_property
    def _atoms(self) -> np.ndarray:
        dataset = self.data[POSTERIOR].dataset
        if VALUE in dataset.dims:
            return dataset[VALUE].values.astype(float)
        return dataset[ATOM].values.astype(float) if ATOM in dataset.dims else np.empty(0)

    @cached_property
    def _support(self) -> Support | None:
        if self._edges is None and not self._atoms.size:
            return None
        return Support(self._edges, self._atoms)

    def _weights(self, group: str, cells: str, atoms: str) -> xr.DataArray:
        """Weights of bins followed by atoms on one last dim."""
        dataset = self.data[group].dataset
        parts = [dataset[name] for name in (cells, atoms) if name in dataset]
        arrays = [p.transpose(CHAIN, DRAW, ...).values for p in parts]
        flat = np.concatenate([a.reshape(*a.shape[:2], -1) for a in arrays], axis=-1)
        return xr.DataArray(flat, dims=(CHAIN, DRAW, "piece"))

    @cached_property
    def P(self) -> Estimand:
        """Distribution from which the records came (the process)."""
        return Estimand("P", self._weights(POSTERIOR, PROBABILITY, ATOM_PROBABILITY), self._support)

    @cached_property
    def table(self) -> Estimand:
        """Distribution of the records in this data set (the realised table)."""
        counts = self._weights(POSTERIOR, COUNT, ATOM_COUNT)
        return Estimand("table", _shares(counts), self._support)

    @cached_property
    def _records_of_P(self) -> Estimand:
        """All records that P was learned from: this table and further samples of the process."""
        found = self.data[POSTERIOR].dataset
        if SAMPLE_COUNT not in found:
            return self.table
        counts = self._weights(POSTERIOR, COUNT, ATOM_COUNT)
        others = found[SAMPLE_COUNT].sum(SAMPLE).values.reshape(counts.shape)
        return Estimand("table", _shares(counts + others), self._support)

    @cached_property
    def prior_P(self) -> Estimand:
        """Distribution P under the prior, for comparison."""
        return Estimand("P", self._weights(PRIOR, PROBABILITY, ATOM_PROBABILITY), self._support)

    @property
    def naive_weights(self) -> np.ndarray:
        """Shares of bins, then atoms, as a naive reader of the release would take them."""
        return naive.naive_weights(self.release, self._edges, self._atoms)

    # -- tables ------------------------------------------------------------------------

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """One row per quantity: naive estimate, posterior mean, sd and credible interval.

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed credible intervals.

        Returns
        -------
        pandas.DataFrame
            Indexed by quantity, with columns ``estimand`` ("P" or "table"), ``naive``,
            ``mean``, ``sd``, ``lower``, ``upper``, ``noise_share`` (share of the posterior
            variance that is due to privacy noise; 1 for functionals of the true counts)
            and ``learned`` (1 - posterior sd / prior sd; NaN where the prior is improper).
        """
        return tables.summary(self, ci_prob)

    def to_frame(self) -> pd.DataFrame:
        """All draws of counts, probabilities and the total, one row per draw."""
        return tables.draws(self)

    def verdict(self) -> Verdict:
        """Say whether the draws can be trusted and what the data said little about."""
        return judge(self)

    # -- storage -----------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to NetCDF, to a temporary name first; `dpbayes.load` reads it back."""
        storage.save(self, path)

    # -- pictures (the modules above this one are loaded by name, on first use) ---------

    def report(
        self, path: str | os.PathLike[str], ci_prob: float = 0.9, command: str | None = None
    ) -> None:
        """Write a self-contained HTML report for readers without Python.

        Parameters
        ----------
        path : path
            HTML file to write; it appears under its name only when complete.
        ci_prob : float
            Probability of the credible intervals.
        command : str, optional
            Command that made the posterior, repeated in the report.
        """
        importlib.import_module("dpbayes.report").write(self, path, ci_prob, command)

    def plot_cells(self, **options: Any) -> Any:
        """Plot released values against posterior intervals (see `dpbayes.plots.cells`)."""
        return importlib.import_module("dpbayes.plots").cells(self, **options)

    def plot_cdf(self, **options: Any) -> Any:
        """Plot the band of the distribution function (see `dpbayes.plots.cdf`)."""
        return importlib.import_module("dpbayes.plots").cdf(self, **options)

    def plot_density(self, **options: Any) -> Any:
        """Plot the band of the density (see `dpbayes.plots.density`)."""
        return importlib.import_module("dpbayes.plots").density(self, **options)

    def plot_functional(self, draws: xr.DataArray, **options: Any) -> Any:
        """Plot the posterior of a functional (see `dpbayes.plots.functional`)."""
        plots = importlib.import_module("dpbayes.plots")
        if "label" not in options:
            options["label"] = plots.functional_label(self, draws)
        return plots.functional(draws, **options)

    def plot_predictive(self, rng: Any = None, **options: Any) -> Any:
        """Plot the predictive check of the release (see `dpbayes.plots.predictive`)."""
        return importlib.import_module("dpbayes.plots").predictive(self, rng, **options)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Posterior):
            return NotImplemented
        return self.release == other.release and self.data.identical(other.data)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        sizes = dict(self.total.sizes)
        return (
            f"<Posterior of {self.release!r}: {sizes[CHAIN]} x {sizes[DRAW]} draws, "
            f"engine {self.attrs.get('engine')}>"
        )
