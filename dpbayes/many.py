"""``fit_many``: thousands of small independent releases from one data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dpbayes.errors import DPBayesError, ParameterError, ReleaseError
from dpbayes.inference import fit
from dpbayes.mechanism import Mechanism, as_mechanism
from dpbayes.noise import NoNoise
from dpbayes.posterior import Posterior
from dpbayes.priors import Dirichlet, ScaleMixture
from dpbayes.releases import HistogramRelease
from dpbayes.releases.base import check_total
from dpbayes.releases.frames import as_frame, labels, numbers
from dpbayes.schema import CHAIN, COUNT, DRAW, PROBABILITY, TOTAL

__all__ = ["ManyPosteriors", "fit_many"]

GROUP = "group"


@dataclass(frozen=True)
class ManyPosteriors:
    """Posteriors of many releases, under one set of labels.

    Parameters
    ----------
    joint : Posterior
        Posterior of the table of all groups and cells.
    failures : dict of str to str
        Groups that could not be fitted, and why.
    """

    joint: Posterior
    failures: Mapping[Any, str]

    @property
    def count(self) -> xr.DataArray:
        """True counts, over chain, draw, group and the cells."""
        return self.joint.count

    @property
    def total(self) -> xr.DataArray:
        """True number of records of each group, over chain, draw and group."""
        cells = [d for d in self.count.dims if d not in (CHAIN, DRAW, GROUP)]
        return self.count.sum(cells).rename(TOTAL)

    @property
    def probability(self) -> xr.DataArray:
        """P of each cell within its group, over chain, draw, group and the cells."""
        joint = self.joint.probability
        cells = [d for d in joint.dims if d not in (CHAIN, DRAW, GROUP)]
        mass = joint.sum(cells)
        return (joint / mass.where(mass > 0)).rename(PROBABILITY)

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """One row per group, cell and quantity: mean, sd and credible interval.

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed credible intervals.
        """
        if not 0 < ci_prob < 1:
            raise ParameterError(f"ci_prob must be between 0 and 1, got {ci_prob}")
        tail = 0.5 * (1.0 - ci_prob)
        frames = []
        for name, draws in ((COUNT, self.count), (PROBABILITY, self.probability)):
            over = (CHAIN, DRAW)
            bounds = draws.quantile([tail, 1.0 - tail], over)
            table = xr.Dataset({
                "mean": draws.mean(over),
                "sd": draws.std(over),
                "lower": bounds.isel(quantile=0, drop=True),
                "upper": bounds.isel(quantile=1, drop=True),
            }).to_dataframe()  # fmt: skip
            frames.append(table[["mean", "sd", "lower", "upper"]].assign(quantity=name))
        return pd.concat(frames).set_index("quantity", append=True)


def fit_many(
    frame: Any,
    *,
    by: Sequence[str] | str,
    value: str,
    dims: Sequence[str] | str,
    mechanism: Any,
    total: str | None = None,
    prior: Dirichlet | ScaleMixture | None = None,
    draws: int = 1000,
    chains: int = 4,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> ManyPosteriors:
    """Fit the histogram of every group of a data frame in one call.

    All groups are one table to the engine, so that the work is done in bulk. A bad group is
    left out and reported by name in `ManyPosteriors.failures`.

    Parameters
    ----------
    frame : pandas, polars, pyarrow, ... data frame
        One row per group and cell; anything that narwhals reads.
    by : str or list of str
        Columns that name the group (campaign, page, ...).
    value : str
        Column of released counts; empty where suppressed.
    dims : str or list of str
        Columns that label the cells within a group. A cell without a row is suppressed
        where the mechanism suppresses, and makes its group a failure otherwise.
    mechanism : Mechanism or NoiseLaw
        How every count was published.
    total : str, optional
        Column of the public number of records of the group (the same in all its rows).
    prior : Dirichlet or ScaleMixture, optional
        Prior of the rates of all cells. By default `ScaleMixture`, whose law of rates is
        learned from all groups together, or ``Dirichlet(concentration=1)`` in each group
        where totals are public.
    draws, chains, random_seed, progressbar
        As in `fit`.

    Returns
    -------
    ManyPosteriors
        Labelled draws of all groups, and the failures.

    Raises
    ------
    ReleaseError
        If columns are missing or no group can be fitted.
    """
    law = as_mechanism(mechanism)
    if law.noise.shape:
        raise ReleaseError("fit_many needs one noise law for all groups; got a scale per cell")
    table, totals, failures = _tables(as_frame(frame), by, value, dims, total, law)
    if not table.sizes[GROUP]:
        name, reason = next(iter(failures.items()))
        raise ReleaseError(f"no group can be fitted; {name}: {reason}")
    release = HistogramRelease(table, mechanism=law)
    chosen = prior or (ScaleMixture() if totals is None else Dirichlet())
    if totals is not None:
        release = release.with_margin(totals, by=GROUP, mechanism=NoNoise())
        if isinstance(chosen, Dirichlet) and chosen.rate is None:
            # Totals are known, so that no rate matters; a likely one keeps tables short.
            chosen = Dirichlet(
                concentration=chosen.concentration,
                rate=table.size / max(float(np.sum(totals)), 1.0),
            )
    joint = fit(
        release, chosen, draws=draws, chains=chains, random_seed=random_seed,
        progressbar=progressbar,
    )  # fmt: skip
    return ManyPosteriors(joint, failures)


def _tables(
    frame: Any,
    by: Sequence[str] | str,
    value: str,
    dims: Sequence[str] | str,
    total: str | None,
    law: Mechanism,
) -> tuple[xr.DataArray, np.ndarray | None, dict[Any, str]]:
    """Spread the frame over groups and cells, leaving bad groups out."""
    if len(frame) == 0:
        raise ReleaseError("the data frame has no rows")
    by_names = [by] if isinstance(by, str) else list(by)
    dim_names = [dims] if isinstance(dims, str) else list(dims)
    counts = numbers(frame, value, "value")
    keys = _rows(frame, by_names, "by")
    cells = list(zip(*(labels(frame, n, "dims") for n in dim_names), strict=True))
    groups = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    domain = [list(dict.fromkeys(c[k] for c in cells)) for k in range(len(dim_names))]
    where = [{label: i for i, label in enumerate(d)} for d in domain]
    shape = (len(groups), *map(len, domain))
    grid, seen = np.full(shape, np.nan), np.zeros(shape, dtype=int)
    index = (
        np.array([groups[k] for k in keys]),
        *(np.array([w[c[k]] for c in cells]) for k, w in enumerate(where)),
    )
    np.add.at(seen, index, 1)
    grid[index] = counts
    failures: dict[Any, str] = {}
    public = None if total is None else numbers(frame, total, "total")
    totals = np.full(len(groups), np.nan)
    if public is not None:
        totals[index[0]] = public
    bad = _suspects(grid, seen, law)
    if public is not None:
        bad |= _odd_totals(index[0], public, totals)
    for key, g in groups.items():
        if not bad[g]:
            continue
        try:
            _check_group(grid[g], seen[g], law, domain)
            if public is not None:
                _check_total(public[index[0] == g])
        except DPBayesError as error:
            failures[key] = str(error)
    good = [g for key, g in groups.items() if key not in failures]
    names = [key for key in groups if key not in failures]
    flat = [n if len(by_names) == 1 else ", ".join(map(str, n)) for n in names]
    array = xr.DataArray(
        grid[good],
        dims=(GROUP, *dim_names),
        coords={GROUP: flat, **dict(zip(dim_names, domain, strict=True))},
        name="released",
    )
    return array, None if public is None else totals[good], failures


def _rows(frame: Any, names: list[str], field: str) -> list[Any]:
    columns = [labels(frame, name, field) for name in names]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _suspects(grid: np.ndarray, seen: np.ndarray, law: Mechanism) -> np.ndarray:
    """Find the groups that have to be looked at one by one."""
    odd = (seen != 1).reshape(seen.shape[0], -1).any(axis=1)
    try:
        law.integer_bounds(grid[~odd].reshape(-1), str)
    except DPBayesError:  # some group is bad: look at each
        odd[:] = True
    return odd


def _odd_totals(group: np.ndarray, public: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Find the groups whose public total is no count, or not the same in all rows."""
    odd = ~(np.isfinite(totals) & (totals >= 0) & (totals == np.rint(totals)))
    odd[group[public != totals[group]]] = True
    return odd


def _check_group(
    grid: np.ndarray, seen: np.ndarray, law: Mechanism, domain: list[list[Any]]
) -> None:
    """Refuse duplicate rows, missing cells and impossible values of one group."""

    def label(i: int) -> str:
        where = np.unravel_index(i, grid.shape)
        return "cell " + ", ".join(str(d[j]) for d, j in zip(domain, where, strict=True))

    if np.any(seen > 1):
        raise ReleaseError(f"{label(int(np.argmax(seen.reshape(-1) > 1)))} has several rows")
    if np.any(seen == 0) and not law.suppresses:
        raise ReleaseError(
            f"{label(int(np.argmax(seen.reshape(-1) == 0)))} has no row, and the mechanism "
            "withholds nothing"
        )
    law.integer_bounds(grid.reshape(-1), label)


def _check_total(values: np.ndarray) -> None:
    if np.any(values != values[0]):
        raise ReleaseError(f"total must be the same in all rows, got {values[0]:g} and others")
    check_total(values[0])
