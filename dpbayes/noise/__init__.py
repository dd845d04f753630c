"""Noise laws: the known law of what was added to a statistic before it was published."""

from dpbayes.noise.base import NoiseLaw
from dpbayes.noise.gaussian import DiscreteGaussian, Gaussian
from dpbayes.noise.laplace import (
    DiscreteLaplace,
    Laplace,
    TruncatedDiscreteLaplace,
    TruncatedLaplace,
)
from dpbayes.noise.other import CustomNoise, NoNoise

__all__ = [
    "CustomNoise",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "NoNoise",
    "NoiseLaw",
    "TruncatedDiscreteLaplace",
    "TruncatedLaplace",
]
