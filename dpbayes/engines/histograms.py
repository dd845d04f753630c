"""Engines of histograms behind one signature: release, prior, seeds and settings to draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dpbayes.engines import exact, exchange, mixture
from dpbayes.engines.drawn import Drawn, Settings
from dpbayes.engines.progress import progress_bar
from dpbayes.engines.scale_doubts import undecided
from dpbayes.priors import Dirichlet, ScaleMixture
from dpbayes.releases import HistogramRelease
from dpbayes.schema import CHAIN, CONCENTRATION, COUNT, DRAW, PROBABILITY, RATE, SPIKE, TOTAL

__all__ = ["draw_crossing", "draw_exactly", "draw_mixture", "draw_nuts"]

#: Prior draws kept for comparison, and the number of cells times draws they may take.
_PRIOR_DRAWS, _PRIOR_ENTRIES = 1000, 4_000_000
#: Warm-up. The weights of a mixture are whitened beforehand, tables start from exact draws.
_TUNE_NUTS, _TUNE_MIXTURE, _TUNE_CROSSING = 1000, 300, 200


def draw_exactly(
    release: HistogramRelease,
    prior: Dirichlet,
    sequence: np.random.SeedSequence,
    settings: Settings,
) -> Drawn:
    """Independent draws by belief propagation on the tree of counts."""
    shape = (settings.chains, settings.draws)
    rng, rng_prior = (np.random.default_rng(s) for s in sequence.spawn(2))
    with progress_bar("Drawing exactly", release.size, settings.progressbar) as advance:
        drawn = exact.draw_posterior(release, prior, shape[0] * shape[1], rng, advance)
    arrays = _named(drawn, RATE, CONCENTRATION)
    return Drawn(
        {name: array.reshape(*shape, *array.shape[1:]) for name, array in arrays.items()},
        _before(release, prior, rng_prior, exact.draw_prior),
        {"log_evidence": drawn.log_evidence},
    )


def draw_crossing(
    release: HistogramRelease,
    prior: Dirichlet,
    sequence: np.random.SeedSequence,
    settings: Settings,
) -> Drawn:
    """Chains of tables whose margins cross each other."""
    seeds, seed_prior = sequence.spawn(2)
    draws, chains = settings.draws, settings.chains
    with progress_bar("Drawing tables", draws * chains, settings.progressbar) as advance:
        drawn = exchange.draw_posterior(
            release, prior, draws, chains, settings.tune or _TUNE_CROSSING, seeds, advance
        )
    posterior = _named(drawn, RATE)
    before = _before(release, prior, np.random.default_rng(seed_prior), exact.draw_prior)
    return Drawn(posterior, before, convergence=_judge(posterior))


def draw_mixture(
    release: HistogramRelease,
    prior: ScaleMixture,
    sequence: np.random.SeedSequence,
    settings: Settings,
) -> Drawn:
    """Weights of the scales by NUTS, counts exactly given them."""
    seeds, seed_prior = sequence.spawn(2)
    draws, chains, tune = settings.draws, settings.chains, settings.tune or _TUNE_MIXTURE
    with progress_bar("Drawing counts", release.size, settings.progressbar) as advance:
        drawn = mixture.draw_posterior(
            release, prior, draws, chains, tune, seeds, advance, settings.target_accept
        )
    posterior = _named(drawn, SPIKE)
    before = _before(release, prior, np.random.default_rng(seed_prior), mixture.draw_prior)
    return Drawn(
        posterior, before, undecided(drawn, release, prior),
        convergence=_judge(posterior, drawn.divergences),
    )  # fmt: skip


def draw_nuts(
    release: HistogramRelease,
    prior: Dirichlet,
    sequence: np.random.SeedSequence,
    settings: Settings,
) -> Drawn:
    """NUTS on the PyMC model with counts summed out, of one sample or of several."""
    from dpbayes.engines import nuts

    seed, seed_prior = sequence.spawn(2)
    fit = nuts.fit_pooled if release.samples else nuts.fit_histogram
    drawn = fit(
        release, prior, draws=settings.draws, tune=settings.tune or _TUNE_NUTS,
        chains=settings.chains, random_seed=seed, target_accept=settings.target_accept,
        progressbar=settings.progressbar,
    )  # fmt: skip
    before = _before(release, prior, np.random.default_rng(seed_prior), exact.draw_prior)
    return Drawn(
        drawn.posterior, before, convergence=drawn.convergence, sample_stats=drawn.sample_stats
    )


def _named(drawn: Any, *optional: str) -> dict[str, np.ndarray]:
    """Draws under their public names, those that the prior leaves out left out."""
    names = (PROBABILITY, COUNT, TOTAL, *optional)
    return {name: array for name in names if (array := getattr(drawn, name)) is not None}


def _before(
    release: HistogramRelease,
    prior: Any,
    rng: np.random.Generator,
    draw: Callable[..., dict[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Prior draws as one chain, fewer for large tables."""
    count = int(np.clip(_PRIOR_ENTRIES // release.size, 20, _PRIOR_DRAWS))
    return {name: array[None] for name, array in draw(release, prior, count, rng).items()}


def _judge(posterior: Mapping[str, np.ndarray], divergences: int = 0) -> Any:
    """Verdict on the true counts and their total."""
    import xarray as xr

    from dpbayes.engines.convergence import convergence

    count, total = posterior[COUNT], posterior[TOTAL]
    cells = [f"axis_{i}" for i in range(count.ndim - 2)]
    variables = {COUNT: ((CHAIN, DRAW, *cells), count), TOTAL: ((CHAIN, DRAW), total)}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})
    return convergence(tree, var_names=[COUNT, TOTAL], divergences=divergences)
