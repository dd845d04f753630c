"""PyMC distributions of released data."""

from dpbayes.distributions.binomial import NoisyBinomial
from dpbayes.distributions.mixture import NoisyMixture
from dpbayes.distributions.multinomial import NoisyMultinomial
from dpbayes.distributions.negative_binomial import NoisyNegativeBinomial
from dpbayes.distributions.normal import NoisyNormal
from dpbayes.distributions.observed import encode_released
from dpbayes.distributions.poisson import NoisyPoisson

__all__ = [
    "NoisyBinomial",
    "NoisyMixture",
    "NoisyMultinomial",
    "NoisyNegativeBinomial",
    "NoisyNormal",
    "NoisyPoisson",
    "encode_released",
]
