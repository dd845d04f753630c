"""PyMC model of several tables of other records that were drawn from one distribution."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from dpbayes.distributions.multinomial import NoisyMultinomial
from dpbayes.distributions.poisson import NoisyPoisson
from dpbayes.errors import UnsupportedError
from dpbayes.mechanism import Mechanism
from dpbayes.models.histogram import rate_range
from dpbayes.priors import Dirichlet
from dpbayes.releases import HistogramRelease
from dpbayes.schema import CELL, PROBABILITY, RELEASED

__all__ = ["EXPECTED_TOTAL", "build"]

EXPECTED_TOTAL = "expected_total"  # of the sample with the number that follows the name


def build(release: HistogramRelease, prior: Dirichlet) -> pm.Model:
    r"""Model of a release and its further samples, true counts and noise summed out.

    .. math:: p \sim \mathrm{Dirichlet}(a), \quad
              N_r \mid p \sim \mathrm{Multinomial}(n_r, p) \text{ or }
              N_{rj} \mid p \sim \mathrm{Poisson}(\Lambda_r p_j)

    independently for the samples r; an unknown total has :math:`\Lambda_r \sim
    \mathrm{Gamma}(\sum a, \beta_r)` with a rate of its own, log-uniform where the prior leaves
    it open, so that one sample alone has the law of `dpbayes.models.histogram`.

    Parameters
    ----------
    release : HistogramRelease
        First sample, with the others in `samples`.
    prior : Dirichlet
        Prior on P.

    Returns
    -------
    pymc.Model
        With `probability` over the flattened cells, `expected_total_r` where the total of
        sample r is unknown, and the observed `released_r`.

    Raises
    ------
    UnsupportedError
        If the prior has a learned concentration or an improper rate.
    """
    if isinstance(prior.concentration, str) or prior.rate == 0:
        raise UnsupportedError(
            "samples that share P need a concentration given as a number and a proper rate, "
            f"got {prior!r}"
        )
    with pm.Model(coords={CELL: np.arange(release.size)}) as model:
        probability = pm.Dirichlet(PROBABILITY, prior.shapes(release.size), dims=CELL)
        for index, sample in enumerate((release, *release.samples)):
            _likelihood(index, sample, prior, probability)
    return model


def _likelihood(
    index: int, sample: HistogramRelease, prior: Dirichlet, probability: TensorVariable
) -> None:
    name, values = f"{RELEASED}_{index}", sample.values.values.reshape(-1)
    mechanism = Mechanism(sample.observations().noise, sample.mechanism.steps)
    shared = {"mechanism": mechanism, "observed": values, "dims": CELL}
    if sample.total is not None:
        NoisyMultinomial(name, n=sample.total, p=probability, **shared)
        return
    rate = prior.rate
    if rate is None:
        low, high = rate_range(sample, prior)
        rate = pt.exp(pm.Uniform(f"log_rate_{index}", np.log(low), np.log(high)))
    mass = float(prior.shapes(sample.size).sum())
    total = pm.Gamma(f"{EXPECTED_TOTAL}_{index}", mass, rate)
    NoisyPoisson(name, mu=total * probability, **shared)
