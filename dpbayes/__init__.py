"""dpbayes: posterior distributions from differentially private releases.

``release -> fit -> Posterior``: say what was published and by which mechanism, and get the
posterior of the original distribution, of the true counts and of any functional of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpbayes.version import __version__

# Where each public name lives; it is imported on first use, so that a bare
# ``import dpbayes`` loads neither PyMC nor Matplotlib.
_HOME = {
    "Clamp": "dpbayes.mechanism",
    "CustomNoise": "dpbayes.noise",
    "Dirichlet": "dpbayes.priors",
    "DiscreteGaussian": "dpbayes.noise",
    "DiscreteLaplace": "dpbayes.noise",
    "Gaussian": "dpbayes.noise",
    "HistogramRelease": "dpbayes.releases",
    "Laplace": "dpbayes.noise",
    "Mechanism": "dpbayes.mechanism",
    "NoNoise": "dpbayes.noise",
    "NoisyBinomial": "dpbayes.distributions",
    "NoisyMixture": "dpbayes.distributions",
    "NoisyMultinomial": "dpbayes.distributions",
    "NoisyNegativeBinomial": "dpbayes.distributions",
    "NoisyNormal": "dpbayes.distributions",
    "NoisyPoisson": "dpbayes.distributions",
    "Posterior": "dpbayes.posterior",
    "RecordRelease": "dpbayes.releases",
    "Rescale": "dpbayes.mechanism",
    "ResponseRelease": "dpbayes.releases",
    "Round": "dpbayes.mechanism",
    "ScaleMixture": "dpbayes.priors",
    "SelectionRelease": "dpbayes.releases",
    "SeriesRelease": "dpbayes.releases",
    "Smooth": "dpbayes.priors",
    "Suppress": "dpbayes.mechanism",
    "SyntheticRelease": "dpbayes.releases",
    "TruncatedDiscreteLaplace": "dpbayes.noise",
    "TruncatedLaplace": "dpbayes.noise",
    "fit": "dpbayes.inference",
    "fit_many": "dpbayes.many",
    "lift": "dpbayes.rates",
    "load": "dpbayes.posterior",
    "rate": "dpbayes.rates",
}
_MODULES = (
    "compare",
    "distributions",
    "errors",
    "io",
    "mechanism",
    "noise",
    "posterior",
    "priors",
    "privacy",
    "releases",
    "simulate",
)

__all__ = [
    "Clamp",
    "CustomNoise",
    "Dirichlet",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "HistogramRelease",
    "Laplace",
    "Mechanism",
    "NoNoise",
    "NoisyBinomial",
    "NoisyMixture",
    "NoisyMultinomial",
    "NoisyNegativeBinomial",
    "NoisyNormal",
    "NoisyPoisson",
    "Posterior",
    "RecordRelease",
    "Rescale",
    "ResponseRelease",
    "Round",
    "ScaleMixture",
    "SelectionRelease",
    "SeriesRelease",
    "Smooth",
    "Suppress",
    "SyntheticRelease",
    "TruncatedDiscreteLaplace",
    "TruncatedLaplace",
    "__version__",
    "compare",
    "distributions",
    "errors",
    "fit",
    "fit_many",
    "io",
    "lift",
    "load",
    "mechanism",
    "noise",
    "posterior",
    "priors",
    "privacy",
    "rate",
    "releases",
    "simulate",
]

if TYPE_CHECKING:
    from dpbayes import (
        compare,
        distributions,
        errors,
        io,
        mechanism,
        noise,
        posterior,
        priors,
        privacy,
        releases,
        simulate,
    )
    from dpbayes.distributions import (
        NoisyBinomial,
        NoisyMixture,
        NoisyMultinomial,
        NoisyNegativeBinomial,
        NoisyNormal,
        NoisyPoisson,
    )
    from dpbayes.inference import fit
    from dpbayes.many import fit_many
    from dpbayes.mechanism import Clamp, Mechanism, Rescale, Round, Suppress
    from dpbayes.noise import (
        CustomNoise,
        DiscreteGaussian,
        DiscreteLaplace,
        Gaussian,
        Laplace,
        NoNoise,
        TruncatedDiscreteLaplace,
        TruncatedLaplace,
    )
    from dpbayes.posterior import Posterior, load
    from dpbayes.priors import Dirichlet, ScaleMixture, Smooth
    from dpbayes.rates import lift, rate
    from dpbayes.releases import (
        HistogramRelease,
        RecordRelease,
        ResponseRelease,
        SelectionRelease,
        SeriesRelease,
        SyntheticRelease,
    )


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"dpbayes.{name}")
    else:
        raise AttributeError(f"module 'dpbayes' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
