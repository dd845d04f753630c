"""Differential privacy as arithmetic: neighbours, sensitivities, composition, audits.

For study, planning and checking other people's claims. Real releases should be made with a
vetted library such as OpenDP.

References
----------
Wasserman & Zhou (2010), Definition 2.3, Theorem 2.5 and Lemma 2.6.
"""

from dpbayes.privacy.audit import Audit, audit, audit_samples, law_gap
from dpbayes.privacy.composition import (
    compose,
    group_privacy,
    laplace_mechanism,
    post_process,
    power_bound,
    repeated_draws,
    split_budget,
)
from dpbayes.privacy.losses import (
    dirichlet_sampling_alpha,
    smoothing_alpha,
    smoothing_delta,
)
from dpbayes.privacy.neighbours import Neighbours
from dpbayes.privacy.sensitivity import (
    count_sensitivity,
    histogram_sensitivity,
    ks_sensitivity,
    mean_sensitivity,
    sensitivity,
    sum_sensitivity,
)

__all__ = [
    "Audit",
    "Neighbours",
    "audit",
    "audit_samples",
    "compose",
    "count_sensitivity",
    "dirichlet_sampling_alpha",
    "group_privacy",
    "histogram_sensitivity",
    "ks_sensitivity",
    "laplace_mechanism",
    "law_gap",
    "mean_sensitivity",
    "post_process",
    "power_bound",
    "repeated_draws",
    "sensitivity",
    "smoothing_alpha",
    "smoothing_delta",
    "split_budget",
    "sum_sensitivity",
]
