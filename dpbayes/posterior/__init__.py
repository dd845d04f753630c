"""Posteriors: draws, functionals, tables, verdict, storage."""

from dpbayes.posterior.build import assemble
from dpbayes.posterior.estimand import Estimand
from dpbayes.posterior.posterior import Posterior
from dpbayes.posterior.storage import load
from dpbayes.posterior.verdict import Verdict

__all__ = ["Estimand", "Posterior", "Verdict", "assemble", "load"]
