"""Draws from the prior of rates and counts that `ScaleMixture` stands for."""

from __future__ import annotations

import numpy as np

from dpbayes.engines.nesting import structure
from dpbayes.engines.scale_cells import component_means
from dpbayes.kernels import scale_prior as kernel
from dpbayes.kernels.scale_weights import all_weights_at
from dpbayes.priors import ScaleMixture
from dpbayes.releases import HistogramRelease

__all__ = ["draw_prior"]

#: Draws of weights and labels among which those that suit a public total are chosen.
_CANDIDATES = 16_000


def draw_prior(
    release: HistogramRelease, prior: ScaleMixture, draws: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw probability, count and total from the prior, one row per draw.

    With a public total n the prior is that of rates and counts given that the counts sum to
    n. Weights and numbers of cells of each component are drawn without that condition, and
    drawn again with the probabilities of the sum n as weights (saddlepoint); counts given
    them are exact.

    Parameters
    ----------
    release : HistogramRelease
        Gives the number of cells, the components' means and the public total; its values do
        not matter otherwise.
    prior : ScaleMixture
        Prior.
    draws : int
        Number of draws.
    rng : Generator
        Source of randomness.
    """
    means, size = component_means(release, prior, structure(release)), release.size
    if release.total is None:
        members = rng.multinomial(size, _weights(draws, prior, means, rng))
    else:
        weights = _weights(_CANDIDATES, prior, means, rng)
        members = rng.multinomial(size, weights)
        log_mass = kernel.log_sum_masses(members, means, prior.shape, float(release.total))
        chance = np.exp(log_mass - log_mass.max())
        members = members[rng.choice(_CANDIDATES, size=draws, p=chance / chance.sum())]
    count = np.empty((draws, size), dtype=np.int64)
    rate = np.empty((draws, size))
    total = -1 if release.total is None else release.total
    kernel.draw_tables(rng, members, means, prior.shape, total, count, rate)
    order = np.argsort(rng.random((draws, size)), axis=1)
    count = np.take_along_axis(count, order, axis=1)
    rate = np.take_along_axis(rate, order, axis=1)
    with np.errstate(invalid="ignore"):
        probability = rate / rate.sum(axis=1, keepdims=True)
    return {"probability": probability, "count": count, "total": count.sum(axis=1)}


def _weights(
    draws: int, prior: ScaleMixture, means: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Weights of the spike and the components, one row per draw."""
    walk = prior.walk(means)
    x = rng.standard_normal((draws, means.size))
    x[:, 1:] *= np.exp(walk[3] * rng.standard_normal((draws, 1)))
    return all_weights_at(x, walk)
