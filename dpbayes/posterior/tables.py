"""Tables of a posterior: one row per quantity, or one row per draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from dpbayes.errors import ParameterError
from dpbayes.posterior.estimand import Estimand
from dpbayes.posterior.naive import naive_counts
from dpbayes.releases import CellTable, HistogramRelease, SeriesRelease
from dpbayes.releases.margins import group_sums, partition
from dpbayes.schema import (
    ATOM_COUNT,
    ATOM_PROBABILITY,
    CHAIN,
    COUNT,
    DRAW,
    POSTERIOR,
    PRIOR,
    PROBABILITY,
    TOTAL,
)

if TYPE_CHECKING:
    from dpbayes.posterior.posterior import Posterior

__all__ = ["Quantity", "draws", "noise_share", "quantities", "summary"]

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Quantity:
    """One scalar quantity of a posterior, with what it is compared with.

    Parameters
    ----------
    name : str
        For example ``count[1997-01]`` or ``P.mean``.
    estimand : str
        "P" or "table".
    values : ndarray
        Posterior draws, flattened.
    prior : ndarray or None
        Prior draws, where the prior is proper.
    partner : ndarray or None
        For a functional of P: the same functional of the realised table, draw by draw.
    naive : float
        Naive estimate.
    """

    name: str
    estimand: str
    values: np.ndarray
    prior: np.ndarray | None
    partner: np.ndarray | None
    naive: float


def noise_share(values: np.ndarray, partner: np.ndarray | None) -> float:
    """Share of the posterior variance of a functional that is due to privacy noise.

    With N the true counts, the share is Var(E[f(P) | N] | y) / Var(f(P) | y); the rest is
    the sampling of records from P, which would remain if the true counts were published.
    It is estimated by the squared correlation of f(P) and f(N / n) over draws, which equals
    the share when E[f(P) | N] is linear in f(N / n): exactly so for probabilities and means
    under a Dirichlet prior and a public total. It is 1 for functionals of the true counts.
    """
    if partner is None:
        return 1.0
    good = np.isfinite(values) & np.isfinite(partner)
    if good.sum() < 2 or np.ptp(values[good]) == 0:
        return np.nan
    if np.ptp(partner[good]) == 0:
        return 0.0
    return float(np.corrcoef(values[good], partner[good])[0, 1] ** 2)


def quantities(posterior: Posterior) -> Iterator[Quantity]:
    """Walk through all scalar quantities that a summary shows."""
    if hasattr(posterior, "_quantities"):  # a posterior without cells knows its own
        yield from posterior._quantities()
        return
    yield from _counts(posterior)
    yield from _margins(posterior)
    yield from _probabilities(posterior)
    if posterior._support is not None:
        yield from _functionals(posterior)


def _flat(posterior: Posterior, group: str, name: str) -> np.ndarray | None:
    dataset = posterior.data[group].dataset
    if name not in dataset:
        return None
    array = dataset[name].values
    return array.reshape(array.shape[0] * array.shape[1], -1)


def cell_names(posterior: Posterior) -> list[str]:
    """Labels of cells, then of atoms, as they appear in the names of quantities."""
    cells = posterior.probability
    if isinstance(posterior.release, HistogramRelease | CellTable):
        names = [posterior.release.short_label(i) for i in range(posterior.release.size)]
    else:
        names = [str(v) for v in cells[cells.dims[-1]].values]
    if ATOM_PROBABILITY in posterior.data[POSTERIOR].dataset:
        names += [f"exactly {a:g}" for a in posterior._atoms]
    return names


def _stack(posterior: Posterior, group: str, *names: str) -> np.ndarray | None:
    parts = [a for a in (_flat(posterior, group, name) for name in names) if a is not None]
    return np.concatenate(parts, axis=1) if parts else None


def _counts(posterior: Posterior) -> Iterator[Quantity]:
    counts = _stack(posterior, POSTERIOR, COUNT, ATOM_COUNT)
    if counts is None:
        return
    prior = _stack(posterior, PRIOR, COUNT, ATOM_COUNT)
    n = posterior.release.size
    if isinstance(posterior.release, SeriesRelease):
        n = posterior.release.total
    if isinstance(posterior.release, HistogramRelease | CellTable):
        naive = naive_counts(posterior.release).reshape(-1)
        # Withheld values count as nothing, unless nothing else is there.
        naive_total = np.nan if np.isnan(naive).all() else float(np.nansum(naive))
    else:
        naive, naive_total = posterior.naive_weights * n, float(n)
    for j, label in enumerate(cell_names(posterior)):
        before = None if prior is None else prior[:, j]
        yield Quantity(f"count[{label}]", "table", counts[:, j], before, None, naive[j])
    total = _flat(posterior, POSTERIOR, TOTAL)
    before = _flat(posterior, PRIOR, TOTAL)
    if total is not None:
        first = None if before is None else before[:, 0]
        yield Quantity("total", "table", total[:, 0], first, None, naive_total)


def group_totals(posterior: Posterior, by: tuple[str, ...]) -> xr.DataArray:
    """Sum the true counts of each group (see `Posterior.margin`)."""
    groups, labels = partition(posterior.release.values, by)
    counts = posterior.count
    flat = counts.values.reshape(*counts.shape[:2], -1)
    sizes = [len(label) for label in labels]
    sums = group_sums(groups, int(np.prod(sizes)), flat)
    coords = {name: counts.coords[name] for name in (CHAIN, DRAW) if name in counts.coords}
    return xr.DataArray(
        sums.reshape(*counts.shape[:2], *sizes),
        dims=(CHAIN, DRAW, *by),
        coords=coords | dict(zip(by, labels, strict=True)),
        name=COUNT,
    )


def _margins(posterior: Posterior) -> Iterator[Quantity]:
    """Walk through the true totals of groups whose noisy totals were released."""
    for margin in getattr(posterior.release, "margins", ()):
        if not margin.by:
            continue
        sums = group_totals(posterior, margin.by).values
        sums = sums.reshape(sums.shape[0] * sums.shape[1], -1)
        released = margin.values.values.reshape(-1)
        for g in range(margin.size):
            label = margin.label(g).removeprefix("total of ")
            yield Quantity(f"count[{label}]", "table", sums[:, g], None, None, released[g])


def _probabilities(posterior: Posterior) -> Iterator[Quantity]:
    weights = posterior.P.weights.values
    weights = weights.reshape(-1, weights.shape[-1])
    prior = posterior.prior_P.weights.values
    prior = prior.reshape(-1, prior.shape[-1])
    shares = posterior._records_of_P.weights.values.reshape(weights.shape)
    naive = posterior.naive_weights.reshape(-1)
    for j, label in enumerate(cell_names(posterior)):
        yield Quantity(
            f"probability[{label}]", "P", weights[:, j], prior[:, j], shares[:, j], naive[j]
        )


def _functionals(posterior: Posterior) -> Iterator[Quantity]:
    """Mean, standard deviation and quantiles of both estimands."""
    support = posterior._support
    naive = Estimand("naive", _one_draw(posterior), support)
    makers: list[tuple[str, Any]] = [
        ("mean", lambda e: e.mean()),
        ("sd", lambda e: np.sqrt(e.variance())),
        *((f"quantile[{q:g}]", lambda e, q=q: e.quantile(q)) for q in QUANTILES),
    ]
    for name, make in makers:
        of_p, of_table = (make(e).values.ravel() for e in (posterior.P, posterior.table))
        prior = make(posterior.prior_P).values.ravel()
        guess = float(make(naive).values.ravel()[0])
        of_records = make(posterior._records_of_P).values.ravel()
        yield Quantity(f"P.{name}", "P", of_p, prior, of_records, guess)
        yield Quantity(f"table.{name}", "table", of_table, prior, None, guess)


def _one_draw(posterior: Posterior) -> Any:
    weights = posterior.P.weights.isel(chain=[0], draw=[0])
    return weights.copy(data=posterior.naive_weights.reshape(1, 1, -1))


def summary(posterior: Posterior, ci_prob: float = 0.9) -> pd.DataFrame:
    """Summarise every quantity (see `Posterior.summary`)."""
    if not 0 < ci_prob < 1:
        raise ParameterError(f"ci_prob must be between 0 and 1, got {ci_prob}")
    tail = 0.5 * (1.0 - ci_prob)
    rows = {}
    for q in quantities(posterior):
        good = q.values[np.isfinite(q.values)]
        lower, upper = np.quantile(good, [tail, 1 - tail]) if good.size else (np.nan, np.nan)
        rows[q.name] = {
            "estimand": q.estimand,
            "naive": q.naive,
            "mean": good.mean() if good.size else np.nan,
            "sd": good.std() if good.size else np.nan,
            "lower": lower,
            "upper": upper,
            "noise_share": noise_share(q.values, q.partner),
            "learned": learned(q),
        }
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame.attrs["ci_prob"] = ci_prob
    frame.index.name = "quantity"
    return frame


def learned(quantity: Quantity) -> float:
    """1 - posterior sd / prior sd: 0 where the data said nothing."""
    if quantity.prior is None:
        return np.nan
    before = np.nanstd(quantity.prior) if np.isfinite(quantity.prior).any() else 0.0
    after = np.nanstd(quantity.values) if np.isfinite(quantity.values).any() else np.nan
    return float(1.0 - after / before) if before > 0 else np.nan


def draws(posterior: Posterior) -> pd.DataFrame:
    """All draws, one row each (see `Posterior.to_frame`)."""
    names = cell_names(posterior)
    columns: dict[str, np.ndarray] = {}
    for label, arrays in (
        ("probability", (PROBABILITY, ATOM_PROBABILITY)),
        ("count", (COUNT, ATOM_COUNT)),
    ):
        stacked = _stack(posterior, POSTERIOR, *arrays)
        if stacked is not None:
            columns |= {f"{label}[{n}]": stacked[:, j] for j, n in enumerate(names)}
    total = posterior.total
    columns[TOTAL] = total.values.ravel()
    index = pd.MultiIndex.from_product(
        [total["chain"].values, total["draw"].values], names=["chain", "draw"]
    )
    return pd.DataFrame(columns, index=index)
