"""Posterior of the distribution behind perturbed records, by NUTS on the compressed likelihood.

No PyMC: the log posterior is one compiled function of a few dozen whitened coordinates,
which nutpie samples directly; its cost does not depend on the number of records. (The same
model as a PyMC model, for extending it, is `dpbayes.models.records.build`.)

Forms of the prior that the release does not tell apart are mixed in proportion to their
evidence (Bayesian model averaging): each is sampled on its own.

References
----------
Hoeting, J. A., Madigan, D., Raftery, A. E. & Volinsky, C. T. (1999), Bayesian model
averaging: a tutorial, Statistical Science 14, equations 1 and 2.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dpbayes.engines.convergence import Convergence, convergence
from dpbayes.engines.record_form import FormDraws, Settings, draw_form
from dpbayes.errors import ConvergenceWarning
from dpbayes.models.record_plan import (
    Candidate,
    RecordPlan,
    plan_forms,
    prior_draws,
    split_elements,
    table_draws,
)
from dpbayes.priors import Smooth
from dpbayes.releases import RecordRelease
from dpbayes.schema import (
    ATOM_COUNT,
    ATOM_PROBABILITY,
    CHAIN,
    COUNT,
    DRAW,
    POSTERIOR,
    PROBABILITY,
    SCALE,
    TOTAL,
)

__all__ = ["RecordDraws", "fit_records"]

_PRIOR_DRAWS = 1000
#: (every how manieth draw is kept, least target acceptance rate): chains are run again,
#: longer and with smaller steps, where the diagnostics do not pass.
_ROUNDS = ((1, 0.9), (4, 0.99))
_LEAST_WEIGHT = 0.02  # evidence below which a form of the prior is left out
# Of the warm-up draws, for each of several forms: whitened coordinates need few.
_WARM_UP = 0.3
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
        Forms of the prior that were taken.
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
        Prior on P. Where its form is open, forms with at least 2 % of the evidence (equally
        likely beforehand) are mixed: each has its share of the draws of every chain.
    draws, tune, chains : int
        Kept draws and warm-up draws per chain (where forms are mixed, each has three tenths of
        the latter), and number of chains.
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
    plans = plan_forms(release, prior)
    weights = np.array([c.weight for c in plans[0].candidates])
    kept = weights >= _LEAST_WEIGHT
    plans, weights = plans[: kept.sum()], weights[kept] / weights[kept].sum()
    atoms = np.unique(np.concatenate([plan.atoms for plan in plans]))
    seed_mix, seed_prior, *seeds = random_seed.spawn(2 + len(_ROUNDS))
    rng = np.random.default_rng(seed_mix)
    settings = _settings(
        Settings(draws, tune, chains, target_accept, progressbar), _shares(weights, draws, rng)
    )
    for (thin, least), seed in zip(_ROUNDS, seeds, strict=True):
        target = max(target_accept, least)
        each = [replace(one, thin=thin, target_accept=target) for one in settings]
        runs = _draw(plans, each, seed)
        posterior = _mix([_named(run, atoms, rng) for run in runs], rng)
        stats = _stats(runs)
        verdict = _judge(posterior, int(stats["diverging"].sum()))
        if verdict.converged:
            break
    if not verdict.converged:
        warnings.warn("; ".join(verdict.problems), ConvergenceWarning, stacklevel=2)
    return RecordDraws(
        posterior={**posterior, TOTAL: np.full((chains, draws), release.size)},
        prior=_prior(plans, atoms, np.random.default_rng(seed_prior)),
        edges=plans[0].edges,
        atoms=plans[0].lower if plans[0].integers else atoms if atoms.size else None,
        attrs={"notes": json.dumps([_note(plans[0].candidates, len(plans))])},
        sample_stats=stats,
        convergence=verdict,
    )


def _shares(weights: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of each form, proportional to the weights in expectation, by systematic sampling."""
    ends = np.floor(np.cumsum(weights) * draws + rng.random()).astype(int)
    ends[-1] = draws
    return np.diff(np.minimum(ends, draws), prepend=0)


def _settings(settings: Settings, shares: np.ndarray) -> list[Settings]:
    """Give each form its share of the draws, and a shorter warm-up if there are several."""
    tune = settings.tune if len(shares) == 1 else int(np.ceil(_WARM_UP * settings.tune))
    return [replace(settings, draws=int(share), tune=tune) for share in shares]


def _draw(
    plans: Sequence[RecordPlan], settings: Sequence[Settings], seed: np.random.SeedSequence
) -> list[FormDraws]:
    """Sample the forms that have a share of the draws."""
    return [
        draw_form(plan, each, child)
        for plan, each, child in zip(plans, settings, seed.spawn(len(plans)), strict=True)
        if each.draws > 0
    ]


def _named(run: FormDraws, atoms: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Name a form's draws, with true counts and with all atoms."""
    elements = run.elements
    named = {**split_elements(run.plan, elements), **table_draws(run.plan, elements, rng)}
    return {**_spread(run.plan, named, atoms), SCALE: run.scale}


def _spread(
    plan: RecordPlan, named: dict[str, np.ndarray], atoms: np.ndarray
) -> dict[str, np.ndarray]:
    """Give every form the same atoms: those that it lacks have no mass."""
    if plan.integers or not atoms.size:
        return named
    out = dict(named)
    for name, of in ((ATOM_PROBABILITY, PROBABILITY), (ATOM_COUNT, COUNT)):
        if of in named:
            out[name] = np.zeros((*named[of].shape[:-1], atoms.size), named[of].dtype)
            if plan.atoms.size:
                out[name][..., np.searchsorted(atoms, plan.atoms)] = named[name]
    return out


def _mix(
    parts: Sequence[Mapping[str, np.ndarray]], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Put draws of several forms into one order, at random, the same for all quantities."""
    whole = {name: np.concatenate([p[name] for p in parts], axis=1) for name in parts[0]}
    if len(parts) == 1:
        return whole
    sizes = [part[PROBABILITY].shape[1] for part in parts]
    chains = parts[0][PROBABILITY].shape[0]
    labels = np.repeat(np.arange(len(parts)), sizes)
    # Draws of one form stay in their order.
    order = [np.argsort(np.argsort(rng.permutation(labels), kind="stable")) for _ in range(chains)]
    return {
        name: np.stack([chain[at] for chain, at in zip(array, order, strict=True)])
        for name, array in whole.items()
    }


def _prior(
    plans: Sequence[RecordPlan], atoms: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw P from its prior, under which the forms are equally likely."""
    sizes = _shares(np.full(len(plans), 1.0 / len(plans)), _PRIOR_DRAWS, rng)
    parts = [
        {n: a[None] for n, a in _spread(plan, prior_draws(plan, size, rng), atoms).items()}
        for plan, size in zip(plans, sizes, strict=True)
    ]
    return _mix(parts, rng)


def _judge(posterior: Mapping[str, np.ndarray], divergences: int) -> Convergence:
    """Judge the draws of P and τ; those of each form are in order, spread evenly."""
    variables: dict[str, Any] = {
        name: ((CHAIN, DRAW, f"{name}_dim"), posterior[name])
        for name in (PROBABILITY, ATOM_PROBABILITY)
        if name in posterior
    }
    variables[SCALE] = ((CHAIN, DRAW), posterior[SCALE])
    tree = xr.DataTree.from_dict({POSTERIOR: xr.Dataset(variables)})
    return convergence(tree, divergences=divergences)


def _stats(runs: Sequence[FormDraws]) -> xr.Dataset:
    """Join statistics of the sampler, one form after the other; `form` tells which."""
    parts = [
        run.stats.drop_vars(DRAW, errors="ignore").assign(
            form=((CHAIN, DRAW), np.full([run.stats.sizes[d] for d in (CHAIN, DRAW)], i))
        )
        for i, run in enumerate(runs)
    ]
    return xr.concat(parts, DRAW) if len(parts) > 1 else runs[0].stats


def _name(form: Candidate) -> str:
    """Describe a form of the prior."""
    return f"random walk of order {form.order} with {_ATOMS[form.atoms]}"


def _note(candidates: Sequence[Candidate], kept: int) -> str:
    """Say which forms of the prior were taken, and how clearly."""
    best, compared = candidates[0], len(candidates)
    if compared == 1:
        return f"Prior on P: {_name(best)}."
    if kept == 1:
        return (
            f"Prior on P: {_name(best)}; {best.weight:.0%} of the evidence among "
            f"{compared} forms, every other below {_LEAST_WEIGHT:.0%}."
        )
    forms = ", ".join(f"{form.weight:.0%} {_name(form)}" for form in candidates[:kept])
    rest = sum(form.weight for form in candidates[kept:])
    left = f" (the other {compared - kept}, {rest:.0%} in all, are left out)" * (kept < compared)
    return (
        "The release does not settle the form of the prior on P, so the draws are mixed in "
        f"proportion to the evidence: {forms}{left}."
    )
