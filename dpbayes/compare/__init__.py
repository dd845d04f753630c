"""How fast what is estimated from a release approaches the truth, mechanism by mechanism.

References
----------
Wasserman & Zhou (2010), sections 4 to 6.
"""

from dpbayes.compare.cost import privacy_cost
from dpbayes.compare.errors import expected_error, simulate_errors
from dpbayes.compare.planning import Plan, plan
from dpbayes.compare.rates import MECHANISMS, Tuning, rate, tuning
from dpbayes.compare.study import best_bins, compare, exponents
from dpbayes.compare.targets import BetaMixture

__all__ = [
    "MECHANISMS",
    "BetaMixture",
    "Plan",
    "Tuning",
    "best_bins",
    "compare",
    "expected_error",
    "exponents",
    "plan",
    "privacy_cost",
    "rate",
    "simulate_errors",
    "tuning",
]
