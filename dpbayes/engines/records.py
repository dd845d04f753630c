"""Posterior of the distribution behind perturbed records, by NUTS on the compressed likelihood.

No PyMC: the log posterior is one compiled function of a few dozen whitened coordinates,
which nutpie samples directly; its cost does not depend on the number of records. (The same
model as a PyMC model, for extending it, is `dpbayes.models.records.build`.)
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dpbayes.engines.convergence import Convergence, convergence
from dpbayes.engines.density import sample_density
from dpbayes.errors import ConvergenceWarning
from dpbayes.kernels import smooth as kernel
from dpbayes.models.record_plan import (
    RecordPlan,
    plan_records,
    prior_draws,
    split_elements,
    table_draws,
)
from dpbayes.priors import Smooth
from dpbayes.releases import RecordRelease
from dpbayes.schema import (
    ATOM_PROBABILITY,
    CHAIN,
    DRAW,
    POSTERIOR,
    PROBABILITY,
    SAMPLE_STATS,
    SCALE,
    TOTAL,
)

__all__ = ["RecordDraws", "fit_records"]

_PRIOR_DRAWS = 1000
#: Chains are lengthened and thinned, with smaller steps, until the diagnostics pass: where
#: the noise is as wide as the range, the posterior is strongly curved.
_ROUNDS = ((1, 0.9), (4, 0.99))
_ATOMS = {
    "none": "no atoms",
    "lower": "an atom at the lower bound",
    "upper": "an atom at the upper bound",
    "both": "atoms at both bounds",
}


@dataclass(frozen=True)
class RecordDraws:
    """Draws of fitted records, chain and draw axes first.

    Parameters
    ----------
    posterior, prior : mapping of str to ndarray
        `probability`, `count`, `total` and, where there are atoms, their masses and counts.
    edges : ndarray or None
        Edges of the cells of P; None for whole numbers.
    atoms : ndarray or None
        Points with mass of their own.
    attrs : dict
        Form of the prior that was chosen.
    sample_stats : Dataset
        Statistics of the sampler.
    convergence : Convergence
        Verdict on the draws.
    """

    posterior: Mapping[str, np.ndarray]
    prior: Mapping[str, np.ndarray]
    edges: np.ndarray | None
    atoms: np.ndarray | None
    attrs: Mapping[str, Any]
    sample_stats: xr.Dataset
    convergence: Convergence


def fit_records(
    release: RecordRelease,
    prior: Smooth,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    random_seed: np.random.SeedSequence,
    target_accept: float = 0.95,
    progressbar: bool = True,
) -> RecordDraws:
    """Fit perturbed records.

    Parameters
    ----------
    release : RecordRelease
        What was published.
    prior : Smooth
        Prior on P; its form is chosen by evidence where it is open.
    draws, tune, chains : int
        Kept draws and warm-up draws per chain, and number of chains.
    random_seed : SeedSequence
        Source of randomness.
    target_accept : float
        Target acceptance rate of the first round; later ones raise it.
    progressbar : bool
        Whether to show progress.

    Returns
    -------
    RecordDraws
        Draws and the verdict on them.

    Warns
    -----
    ConvergenceWarning
        If the draws cannot be trusted yet.
    """
    plan = plan_records(release, prior)
    seed_table, seed_prior, *seeds = random_seed.spawn(2 + len(_ROUNDS))
    for (thin, least), seed in zip(_ROUNDS, seeds, strict=True):
        x, stats = _sample(
            plan, draws, thin, tune, chains, seed, max(target_accept, least), progressbar
        )
        elements, tau = _weights(plan, x)
        named = split_elements(plan, elements)
        verdict = _judge(named, tau, stats)
        if verdict.converged:
            break
    posterior = {
        **named,
        **table_draws(plan, elements, np.random.default_rng(seed_table)),
        TOTAL: np.full(elements.shape[:2], release.size),
        SCALE: tau,
    }
    before = prior_draws(plan, _PRIOR_DRAWS, np.random.default_rng(seed_prior))
    if not verdict.converged:
        warnings.warn("; ".join(verdict.problems), ConvergenceWarning, stacklevel=2)
    return RecordDraws(
        posterior=posterior,
        prior={name: array[None] for name, array in before.items()},
        edges=plan.edges,
        atoms=plan.atom_values,
        attrs={"notes": json.dumps([_form(plan)])},
        sample_stats=stats,
        convergence=verdict,
    )


def _form(plan: RecordPlan) -> str:
    """Say which form of the prior was taken, and how clearly."""
    best = plan.candidates[0]
    compared = len(plan.candidates)
    how = "" if compared == 1 else f"; {best.weight:.0%} of the evidence among {compared} forms"
    return f"Prior on P: random walk of order {best.order} with {_ATOMS[best.atoms]}{how}."


def _sample(
    plan: RecordPlan,
    draws: int,
    thin: int,
    tune: int,
    chains: int,
    seed: np.random.SeedSequence,
    target_accept: float,
    progressbar: bool,
) -> tuple[np.ndarray, xr.Dataset]:
    """Sample the whitened coordinates; return every thin-th draw, and statistics of all."""
    table, counts = plan.likelihood.seen
    frame = plan.whitening.frame
    return sample_density(
        lambda x: kernel.log_posterior(x, frame, table, counts),
        plan.whitening.size,
        draws=draws, thin=thin, tune=tune, chains=chains, seed=seed,
        target_accept=target_accept, progressbar=progressbar,
    )  # fmt: skip


def _weights(plan: RecordPlan, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of all basis elements, and τ, of every draw."""
    flat = np.ascontiguousarray(x.reshape(-1, x.shape[-1]))
    weights, tau = kernel.weights_of(flat, plan.whitening.frame)
    return weights.reshape(x.shape), tau.reshape(x.shape[:2])


def _judge(named: Mapping[str, np.ndarray], scale: np.ndarray, stats: xr.Dataset) -> Convergence:
    """Judge the draws of everything that is reported."""
    variables: dict[str, Any] = {
        name: ((CHAIN, DRAW, f"{name}_dim"), named[name])
        for name in (PROBABILITY, ATOM_PROBABILITY)
        if name in named
    }
    variables[SCALE] = ((CHAIN, DRAW), scale)
    tree = xr.DataTree.from_dict({POSTERIOR: xr.Dataset(variables), SAMPLE_STATS: stats})
    return convergence(tree)
