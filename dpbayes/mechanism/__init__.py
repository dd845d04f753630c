"""Data release mechanisms: additive noise followed by post-processing steps.

A mechanism is the conditional law Q(z | x) of a release given the statistic. Each step
after the noise is a monotone function, so that every published value says "statistic +
noise lies in this interval": a point where nothing but rescaling happened, an interval
after rounding, clamping or suppression.

References
----------
Wasserman & Zhou (2010), section 2; Lemma 2.6 (1) for post-processing.
"""

from dpbayes.mechanism.core import Mechanism, as_mechanism, bounds_log_likelihood
from dpbayes.mechanism.preimage import Preimage
from dpbayes.mechanism.steps import Clamp, Rescale, Round, Step, Suppress

__all__ = [
    "Clamp",
    "Mechanism",
    "Preimage",
    "Rescale",
    "Round",
    "Step",
    "Suppress",
    "as_mechanism",
    "bounds_log_likelihood",
]
