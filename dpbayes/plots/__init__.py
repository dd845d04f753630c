"""Pictures of a posterior: cells, distribution function, density, functionals, predictive check.

Every function draws on the Axes it is given, or on a new pyplot figure, and returns the Axes.
"""

from dpbayes.plots.cell_plot import cells
from dpbayes.plots.check_plot import predictive
from dpbayes.plots.compare_plot import convergence, cost
from dpbayes.plots.curves import cdf, density
from dpbayes.plots.functional_plot import functional, functional_label

__all__ = [
    "cdf",
    "cells",
    "convergence",
    "cost",
    "density",
    "functional",
    "functional_label",
    "predictive",
]
