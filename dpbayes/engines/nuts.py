"""Sampling of PyMC models through nutpie, and a verdict on the draws.

nutpie checks nothing about its draws: `convergence` does, and every fit carries its result.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from dpbayes.distributions.count_mechanism import CountMechanism, noise_parameters
from dpbayes.engines.convergence import Convergence, convergence
from dpbayes.errors import ConvergenceWarning, ImpossibleReleaseError
from dpbayes.kernels import count_draws
from dpbayes.kernels.multinomial import prepare
from dpbayes.models import histogram, pooled
from dpbayes.priors import Dirichlet
from dpbayes.releases import HistogramRelease
from dpbayes.schema import (
    CHAIN,
    COUNT,
    DRAW,
    POSTERIOR,
    PROBABILITY,
    RATE,
    SAMPLE_COUNT,
    SAMPLE_STATS,
    TOTAL,
)

__all__ = ["HistogramDraws", "draw_counts", "fit_histogram", "fit_pooled", "sample"]


@dataclass(frozen=True)
class HistogramDraws:
    """Draws of a fitted histogram, chain and draw axes first.

    Parameters
    ----------
    posterior : mapping of str to ndarray
        `probability`, `count`, `total`, and `rate` where it was unknown.
    sample_stats : Dataset
        Statistics of the sampler.
    convergence : Convergence
        Verdict on the draws.
    """

    posterior: Mapping[str, np.ndarray]
    sample_stats: xr.Dataset
    convergence: Convergence


def sample(
    model: pm.Model,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    random_seed: Any = None,
    target_accept: float = 0.9,
    progressbar: bool = True,
    var_names: Sequence[str] | None = None,
) -> xr.DataTree:
    """Sample a model by nutpie's NUTS.

    Parameters
    ----------
    model : pymc.Model
        Model without discrete free variables.
    draws, tune, chains : int
        Kept draws and warm-up draws per chain, and number of chains.
    random_seed : int or SeedSequence, optional
        Source of randomness; the same seed gives the same draws.
    target_accept : float
        Target acceptance rate.
    progressbar : bool
        Whether to show progress.
    var_names : sequence of str, optional
        Variables to keep.

    Returns
    -------
    xarray.DataTree
        With groups posterior, sample_stats, observed_data.
    """
    return pm.sample(
        draws=draws,
        tune=tune,
        chains=chains,
        random_seed=_integer_seed(random_seed),
        nuts_sampler="nutpie",
        nuts={"target_accept": target_accept},
        progressbar=progressbar,
        quiet=not progressbar,
        var_names=var_names,
        model=model,
    )


def _integer_seed(random_seed: Any) -> int:
    """Seed as the one integer that nutpie takes."""
    if isinstance(random_seed, np.random.SeedSequence):
        return int(random_seed.generate_state(1)[0])
    if random_seed is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return int(random_seed)


def fit_histogram(
    release: HistogramRelease,
    prior: Dirichlet,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    random_seed: Any = None,
    target_accept: float = 0.9,
    progressbar: bool = True,
) -> HistogramDraws:
    """Fit a released histogram by NUTS on the likelihood with counts summed out.

    Given each draw of P the true counts are then drawn exactly from their conditional law.

    Parameters
    ----------
    release : HistogramRelease
        What was published.
    prior : Dirichlet
        Prior on P.
    draws, tune, chains, random_seed, target_accept, progressbar
        As in `sample`.

    Returns
    -------
    HistogramDraws
        Draws and the verdict on them.

    Warns
    -----
    ConvergenceWarning
        If the draws cannot be trusted yet.
    """
    model = histogram.build(release, prior)
    seeds = _sequence(random_seed).spawn(2)
    tree = sample(
        model,
        draws=draws,
        tune=tune,
        chains=chains,
        random_seed=seeds[0],
        target_accept=target_accept,
        progressbar=progressbar,
    )
    found = tree[POSTERIOR].to_dataset()
    verdict = convergence(tree)
    if not verdict.converged:
        warnings.warn("; ".join(verdict.problems), ConvergenceWarning, stacklevel=2)
    probability = found[PROBABILITY].transpose(CHAIN, DRAW, *release.dims).values
    rates = probability
    if release.total is None:
        rates = found[histogram.INTENSITY].transpose(CHAIN, DRAW, *release.dims).values
    count = draw_counts(release, rates, np.random.default_rng(seeds[1]))
    posterior = {
        PROBABILITY: probability,
        COUNT: count,
        TOTAL: count.reshape(*count.shape[:2], -1).sum(axis=-1),
    }
    if RATE in found:
        posterior[RATE] = found[RATE].values
    return HistogramDraws(posterior, tree[SAMPLE_STATS].to_dataset(), verdict)


def fit_pooled(
    release: HistogramRelease,
    prior: Dirichlet,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    random_seed: Any = None,
    target_accept: float = 0.9,
    progressbar: bool = True,
) -> HistogramDraws:
    """Fit samples of one process: P by NUTS, then the true counts of each sample exactly.

    Parameters
    ----------
    release : HistogramRelease
        First sample, with the others in `samples`.
    prior : Dirichlet
        Prior on P.
    draws, tune, chains, random_seed, target_accept, progressbar
        As in `sample`.

    Returns
    -------
    HistogramDraws
        Draws, with `sample_count` for the further samples, and the verdict on them.

    Warns
    -----
    ConvergenceWarning
        If the draws cannot be trusted yet.
    """
    model = pooled.build(release, prior)
    samples = (release, *release.samples)
    seed, *seeds = _sequence(random_seed).spawn(1 + len(samples))
    tree = sample(
        model, draws=draws, tune=tune, chains=chains, random_seed=seed,
        target_accept=target_accept, progressbar=progressbar,
    )  # fmt: skip
    found = tree[POSTERIOR].to_dataset()
    verdict = convergence(tree)
    if not verdict.converged:
        warnings.warn("; ".join(verdict.problems), ConvergenceWarning, stacklevel=2)
    flat = found[PROBABILITY].transpose(CHAIN, DRAW, ...).values
    counts = []
    for index, (one, child) in enumerate(zip(samples, seeds, strict=True)):
        rates = flat
        if one.total is None:
            rates = flat * found[f"{pooled.EXPECTED_TOTAL}_{index}"].values[..., None]
        counts.append(draw_counts(one, rates, np.random.default_rng(child)))
    posterior = {
        PROBABILITY: flat.reshape(*flat.shape[:2], *release.values.shape),
        COUNT: counts[0].reshape(*flat.shape[:2], *release.values.shape),
        TOTAL: counts[0].sum(axis=-1),
        SAMPLE_COUNT: np.stack(counts[1:], axis=2),
    }
    return HistogramDraws(posterior, tree[SAMPLE_STATS].to_dataset(), verdict)


def _sequence(random_seed: Any) -> np.random.SeedSequence:
    if isinstance(random_seed, np.random.SeedSequence):
        return random_seed
    return np.random.SeedSequence(random_seed)


def draw_counts(
    release: HistogramRelease, rates: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw the true counts given the released values and P.

    Parameters
    ----------
    release : HistogramRelease
        What was published.
    rates : ndarray, shape (chain, draw, *dims)
        Probabilities of the cells with a public total, expected counts otherwise.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of int, shape (chain, draw, *dims)
        Counts, exactly from their law given P and the release.

    Raises
    ------
    ImpossibleReleaseError
        If no table with the public total could have led to the release.
    """
    seen = release.observations()
    static = CountMechanism.of(release.mechanism)
    scale, bound = (
        np.broadcast_to(np.asarray(x, float), (release.size,)).copy()
        for x in noise_parameters(seen.noise)
    )
    lower, upper = (np.array(x, dtype=float) for x in (seen.bounds.lower, seen.bounds.upper))
    with np.errstate(divide="ignore"):
        log_rate = np.ascontiguousarray(np.log(rates.reshape(-1, release.size)))
    cells = prepare(static.family, lower, upper, scale, bound, static.step or 1.0)
    if release.total is None:
        counts = count_draws.independent(cells, static.table, log_rate, np.inf, rng)
    else:
        counts = count_draws.with_total(cells, static.table, log_rate, release.total, rng)
    if np.any(counts < 0):
        raise ImpossibleReleaseError(
            f"no table of counts that sums to the public total {release.total} could have led to "
            "these values: check total and the mechanism"
        )
    return counts.reshape(rates.shape)
