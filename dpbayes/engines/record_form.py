"""Draws of perturbed records under one form of the prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dpbayes.engines.density import sample_density
from dpbayes.kernels import smooth as kernel
from dpbayes.models.record_plan import RecordPlan

__all__ = ["FormDraws", "Settings", "draw_form"]


@dataclass(frozen=True)
class Settings:
    """How chains are run.

    Parameters
    ----------
    draws, tune, chains : int
        Kept draws and warm-up draws per chain, and number of chains.
    target_accept : float
        Target acceptance rate.
    progressbar : bool
        Whether to show progress.
    thin : int
        Every how manieth draw is kept.
    """

    draws: int
    tune: int
    chains: int
    target_accept: float
    progressbar: bool
    thin: int = 1


@dataclass(frozen=True)
class FormDraws:
    """Draws under one form of the prior.

    Parameters
    ----------
    plan : RecordPlan
        The form.
    elements : numpy.ndarray, shape (chains, draws, K + m)
        Weights of cells and atoms.
    scale : numpy.ndarray, shape (chains, draws)
        τ.
    stats : Dataset
        Statistics of the sampler.
    """

    plan: RecordPlan
    elements: np.ndarray
    scale: np.ndarray
    stats: xr.Dataset


def draw_form(plan: RecordPlan, settings: Settings, seed: np.random.SeedSequence) -> FormDraws:
    """Sample the posterior under one form of the prior.

    Parameters
    ----------
    plan : RecordPlan
        The form.
    settings : Settings
        How chains are run.
    seed : SeedSequence
        Source of randomness.

    Returns
    -------
    FormDraws
    """
    frame = plan.whitening.frame
    table, counts = plan.likelihood.seen
    x, stats = sample_density(
        lambda x: kernel.log_posterior(x, frame, table, counts),
        plan.whitening.size,
        draws=settings.draws, thin=settings.thin, tune=settings.tune, chains=settings.chains,
        seed=seed, target_accept=settings.target_accept, progressbar=settings.progressbar,
    )  # fmt: skip
    flat = np.ascontiguousarray(x.reshape(-1, x.shape[-1]))
    weights, tau = kernel.weights_of(flat, frame)
    return FormDraws(plan, weights.reshape(x.shape), tau.reshape(x.shape[:2]), stats)
