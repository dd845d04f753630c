"""What every engine is told and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from dpbayes.engines.convergence import Convergence

__all__ = ["Drawn", "Settings"]


@dataclass(frozen=True)
class Settings:
    """How to draw.

    Parameters
    ----------
    draws, chains : int
        Draws per chain, and number of chains.
    tune : int or None
        Warm-up draws per chain; None for what the engine needs.
    target_accept : float
        Target acceptance rate of NUTS on a model.
    progressbar : bool
        Whether to show progress.
    """

    draws: int
    chains: int
    tune: int | None
    target_accept: float
    progressbar: bool


@dataclass(frozen=True)
class Drawn:
    """Draws of the posterior and of the prior, chain and draw axes first.

    Parameters
    ----------
    posterior, prior : mapping of str to ndarray
        Draws, named as in `dpbayes.schema`.
    attrs : mapping
        What else to remember of the run: numbers and strings.
    convergence : Convergence, optional
        Verdict on the draws; None for independent draws.
    sample_stats : Dataset, optional
        Statistics of the sampler.
    edges : ndarray, optional
        Edges of the cells of P where the release has none of its own.
    atoms : ndarray, optional
        Points with mass of their own.
    """

    posterior: Mapping[str, np.ndarray]
    prior: Mapping[str, np.ndarray]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    convergence: Convergence | None = None
    sample_stats: xr.Dataset | None = None
    edges: np.ndarray | None = None
    atoms: np.ndarray | None = None
