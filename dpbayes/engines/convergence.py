"""Whether a sampler's draws may be trusted.

nutpie checks nothing about its draws: `convergence` does, and every fit carries its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import arviz as az
import numpy as np
import xarray as xr

from dpbayes.schema import CHAIN, DRAW, POSTERIOR, SAMPLE_STATS

__all__ = ["Convergence", "convergence"]

MAX_RHAT = 1.01
MIN_ESS_PER_CHAIN = 100
_MORE = "draw more, after a longer warm-up (draws= and tune=, --draws and --tune)"


@dataclass(frozen=True)
class Convergence:
    """Whether a sampler's draws may be trusted.

    Parameters
    ----------
    max_rhat : float
        Largest rank-normalised split R-hat, at `worst_rhat`.
    min_ess_bulk, min_ess_tail : float
        Smallest effective sample sizes, at `worst_bulk` and `worst_tail`.
    divergences : int
        Divergent transitions after warm-up.
    worst_rhat, worst_bulk, worst_tail : str
        Variable and cell.
    problems : tuple of str
        One sentence per problem, empty where there is none.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Rank-normalization, folding, and
    localization: an improved R-hat, section 4.
    """

    max_rhat: float
    min_ess_bulk: float
    min_ess_tail: float
    divergences: int
    worst_rhat: str
    worst_bulk: str
    worst_tail: str
    problems: tuple[str, ...]

    @property
    def converged(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    @property
    def min_ess(self) -> float:
        """Smaller of the two effective sample sizes."""
        return min(self.min_ess_bulk, self.min_ess_tail)


def convergence(tree: xr.DataTree, *, var_names: Sequence[str] | None = None) -> Convergence:
    """Judge the draws of a sampler.

    Parameters
    ----------
    tree : DataTree
        With groups posterior and, for divergences, sample_stats.
    var_names : sequence of str, optional
        Variables to judge; all by default.

    Returns
    -------
    Convergence
        R-hat must be below 1.01, the bulk and tail effective sample sizes at least 100 per
        chain, and no transition divergent.
    """
    posterior = tree[POSTERIOR].to_dataset()
    if var_names is not None:
        posterior = posterior[list(var_names)]
    chains = posterior.sizes[CHAIN]
    max_rhat, worst_rhat = _extreme(posterior, az.rhat, largest=True)
    bulk, worst_bulk = _extreme(posterior, lambda x: az.ess(x, method="bulk"), largest=False)
    tail, worst_tail = _extreme(posterior, lambda x: az.ess(x, method="tail"), largest=False)
    divergences = 0
    if SAMPLE_STATS in tree.children and "diverging" in tree[SAMPLE_STATS]:
        divergences = int(tree[SAMPLE_STATS]["diverging"].sum())
    needed = MIN_ESS_PER_CHAIN * chains
    problems = []
    if chains < 2:
        problems.append(
            "one chain cannot show whether chains agree: sample at least two (chains=, --chains)"
        )
    elif not max_rhat < MAX_RHAT:
        problems.append(
            f"chains disagree: R-hat of {worst_rhat} is {max_rhat:.3f}, it should be below "
            f"{MAX_RHAT}; {_MORE}"
        )
    for kind, value, worst in (("bulk", bulk, worst_bulk), ("tail", tail, worst_tail)):
        if not value >= needed:
            problems.append(
                f"too few effective draws: the {kind} ESS of {worst} is {value:.0f}, it should be "
                f"at least {needed}; {_MORE}"
            )
    if divergences:
        problems.append(
            f"{divergences} divergent transition{'s' * (divergences > 1)}: the sampler may have "
            "missed part of the posterior; take smaller steps (target_accept=0.99, "
            "--target-accept 0.99)"
        )
    return Convergence(
        max_rhat, bulk, tail, divergences, worst_rhat, worst_bulk, worst_tail, tuple(problems)
    )


def _extreme(posterior: xr.Dataset, statistic: Any, *, largest: bool) -> tuple[float, str]:
    """Worst value of a statistic over all variables and cells, and where it is.

    Entries that do not vary (a probability that is one by construction) are left out.
    """
    worst, name = (-np.inf, "") if largest else (np.inf, "")
    for variable, array in posterior.items():
        moving = (array.max((CHAIN, DRAW)) > array.min((CHAIN, DRAW))).values
        if not moving.any():
            continue
        # Constant entries are 0/0 to the statistics: they are replaced, then left out.
        # Seven values, so that the folded draws (distances from the median) vary as well.
        pattern = xr.DataArray(np.arange(array.sizes[DRAW]) % 7.0, dims=DRAW)
        filler = xr.zeros_like(array, dtype=float) + pattern
        values = statistic(array.where(moving, filler).to_dataset(name="x"))["x"]
        flat = np.where(moving.ravel(), values.values.ravel(), -np.inf if largest else np.inf)
        flat = np.where(np.isnan(flat), np.inf if largest else -np.inf, flat)
        at = int(np.argmax(flat) if largest else np.argmin(flat))
        if flat[at] > worst if largest else flat[at] < worst:
            where = np.unravel_index(at, values.shape)
            labels = [
                str(values[d].values[i]) if d in values.coords else str(i)
                for d, i in zip(values.dims, where, strict=True)
            ]
            worst, name = (
                float(flat[at]),
                f"{variable}[{', '.join(labels)}]" if labels else str(variable),
            )
    return worst, name
