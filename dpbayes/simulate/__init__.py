"""The curator's side: from data to release objects, for study and planning.

Every function states its alpha and derives it. Random numbers are those of NumPy and the
arithmetic is floating-point: real releases should be made with a vetted library such as
OpenDP.
"""

from dpbayes.simulate.histograms import (
    dirichlet_posterior,
    perturbed_histogram,
    smoothed_histogram,
    synthetic_rows,
    uniform_rows,
)
from dpbayes.simulate.records import laplace_mechanism, perturbed_records, randomized_response
from dpbayes.simulate.selection import exponential_mechanism, ks_exponential, loss_sensitivity
from dpbayes.simulate.series import orthogonal_series

__all__ = [
    "dirichlet_posterior",
    "exponential_mechanism",
    "ks_exponential",
    "laplace_mechanism",
    "loss_sensitivity",
    "orthogonal_series",
    "perturbed_histogram",
    "perturbed_records",
    "randomized_response",
    "smoothed_histogram",
    "synthetic_rows",
    "uniform_rows",
]
