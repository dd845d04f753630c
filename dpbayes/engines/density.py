"""NUTS on a compiled log density in whitened coordinates, through nutpie, without PyMC."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from dpbayes.schema import CHAIN, DRAW, POSTERIOR, SAMPLE_STATS

__all__ = ["sample_density"]

_START = 0.3  # standard deviation of the starts around the mode
_NAME = "x"


def sample_density(
    density: Callable[[np.ndarray], tuple[float, np.ndarray]],
    size: int,
    *,
    draws: int,
    thin: int,
    tune: int,
    chains: int,
    seed: np.random.SeedSequence,
    target_accept: float,
    progressbar: bool,
) -> tuple[np.ndarray, xr.Dataset]:
    """Sample a density that is nearly standard normal.

    Parameters
    ----------
    density : callable
        Log density, up to a constant, and its gradient; a compiled function.
    size : int
        Number of coordinates.
    draws, thin, tune, chains : int
        Kept draws per chain, of which every one is the `thin`-th of the sampler's; warm-up
        draws; number of chains.
    seed : SeedSequence
        Source of randomness.
    target_accept : float
        Target acceptance rate.
    progressbar : bool
        Whether to show progress.

    Returns
    -------
    x : ndarray, shape (chains, draws, size)
        Draws.
    stats : Dataset
        Statistics of the sampler, of all its draws.

    Notes
    -----
    The chains run one after the other: nutpie calls the density through Python, and two
    chains that wait for each other's interpreter lock at each step take twice as long in
    all as one chain after the other.
    """
    # Importing nutpie loads ArviZ.
    from nutpie import sample
    from nutpie.compiled_pyfunc import from_pyfunc

    model = from_pyfunc(
        size,
        lambda: density,
        lambda *_: lambda x: {_NAME: x},
        [np.dtype(np.float64)],
        [(size,)],
        [_NAME],
        make_initial_point_fn=lambda s: _START * np.random.default_rng(s).standard_normal(size),
    )
    trace = sample(
        model, draws=draws * thin, tune=tune, chains=chains, cores=1,
        seed=int(seed.generate_state(1)[0]), progress_bar=progressbar, save_warmup=False,
        target_accept=target_accept,
    )  # fmt: skip
    x = trace[POSTERIOR][_NAME].transpose(CHAIN, DRAW, ...).values
    return x[:, ::thin], trace[SAMPLE_STATS].to_dataset()
