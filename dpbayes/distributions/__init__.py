"""PyMC distributions of released data."""

from dpbayes.distributions.mixture import NoisyMixture
from dpbayes.distributions.multinomial import NoisyMultinomial
from dpbayes.distributions.observed import encode_released
from dpbayes.distributions.poisson import NoisyPoisson

__all__ = ["NoisyMixture", "NoisyMultinomial", "NoisyPoisson", "encode_released"]
