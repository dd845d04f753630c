"""PyMC model of a released histogram under a Dirichlet prior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from dpbayes.distributions.multinomial import NoisyMultinomial
from dpbayes.distributions.poisson import NoisyPoisson
from dpbayes.errors import UnsupportedError
from dpbayes.mechanism import Mechanism
from dpbayes.priors import Dirichlet
from dpbayes.releases import HistogramRelease
from dpbayes.schema import CELL, PROBABILITY, RATE, RELEASED

__all__ = ["INTENSITY", "build", "rate_range"]

INTENSITY = "intensity"  # λ_j, expected count of each cell where the total is unknown
_FLAT = "probability_flat"


def build(release: HistogramRelease, prior: Dirichlet | None = None) -> pm.Model:
    r"""Model of a released histogram, with the true counts and the noise summed out.

    With a public total n, p ~ Dirichlet(a) and the table is multinomial. With an unknown total
    :math:`\lambda_j \sim \mathrm{Gamma}(a_j, \beta)`, the counts are Poisson and
    :math:`p = \lambda / \sum \lambda`; a rate :math:`\beta` that the prior leaves open is
    log-uniform over `rate_range`.

    Parameters
    ----------
    release : HistogramRelease
        What was published; suppressed cells are observations "below the threshold".
    prior : Dirichlet, optional
        Prior on P; ``Dirichlet()`` by default.

    Returns
    -------
    pymc.Model
        With `probability` (dims of the release) and the observed `released`; `intensity` and
        `rate` where the total is unknown.

    Raises
    ------
    UnsupportedError
        If the release has noisy margins or its noise has no compiled kernel.
    """
    prior = Dirichlet() if prior is None else prior
    if not isinstance(prior, Dirichlet):
        raise UnsupportedError(f"prior must be a Dirichlet for this model, got {prior!r}")
    if isinstance(prior.concentration, str) or prior.rate == 0:
        raise UnsupportedError(
            f'a learned concentration or an improper rate needs engine="exact", got {prior!r}'
        )
    if release.margins:
        raise UnsupportedError('noisy margins need engine="exact": NUTS fits cells only')
    dims = release.dims
    coords = {d: release.values[d].values for d in dims if d in release.values.coords}
    with pm.Model(coords=coords) as model:
        for dim in set(dims) - set(coords):
            model.add_coord(dim, np.arange(release.values.sizes[dim]))
        if release.total is None:
            _unknown_total(release, prior, dims)
        else:
            _public_total(release, prior, dims)
    return model


def _unknown_total(release: HistogramRelease, prior: Dirichlet, dims: tuple[Any, ...]) -> None:
    """Independent Poisson cells."""
    if prior.rate is None:
        low, high = rate_range(release, prior)
        log_rate = pm.Uniform("log_rate", np.log(low), np.log(high))
        rate = pm.Deterministic(RATE, pt.exp(log_rate))
    else:
        rate = prior.rate
    shapes = prior.shapes(release.size).reshape(release.values.shape)
    intensity = pm.Gamma(INTENSITY, shapes, rate, dims=dims)
    pm.Deterministic(PROBABILITY, intensity / intensity.sum(), dims=dims)
    values = release.values.values
    NoisyPoisson(RELEASED, mu=intensity, mechanism=release.mechanism, observed=values, dims=dims)


def _public_total(release: HistogramRelease, prior: Dirichlet, dims: tuple[Any, ...]) -> None:
    """Multinomial cells, flattened where the table has several axes."""
    shapes = prior.shapes(release.size)
    if len(dims) == 1:
        flat = pm.Dirichlet(PROBABILITY, shapes, dims=dims)
        flat_dims = dims
    else:
        flat = pm.Dirichlet(_FLAT, shapes)
        pm.Deterministic(PROBABILITY, flat.reshape(release.values.shape), dims=dims)
        pm.modelcontext(None).add_coord(CELL, np.arange(release.size))
        flat_dims = (CELL,)
    mechanism = Mechanism(release.observations().noise, release.mechanism.steps)
    NoisyMultinomial(
        RELEASED,
        n=release.total,
        p=flat,
        mechanism=mechanism,
        observed=release.values.values.reshape(-1),
        dims=flat_dims,
    )


def rate_range(release: HistogramRelease, prior: Dirichlet) -> tuple[float, float]:
    """Range of the log-uniform law of an unknown rate, from the bounds of count + noise.

    Parameters
    ----------
    release : HistogramRelease
        What was published.
    prior : Dirichlet
        Prior whose `rate_range` is taken.
    """
    seen = release.observations()
    low, high = seen.bounds.lower, seen.bounds.upper
    with np.errstate(invalid="ignore"):  # both ends may be infinite
        inner = 0.5 * (low + high)
    middle = np.where(np.isinf(low), high, np.where(np.isinf(high), low, inner))
    centres = np.maximum(np.rint(np.where(np.isinf(middle), 0.0, middle)), 0.0)
    return prior.rate_range(centres, seen.noise.sd)
