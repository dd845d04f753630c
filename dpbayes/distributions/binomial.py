"""Binomial counts that were released through a noise mechanism."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.random.basic import binomial

from dpbayes.distributions.noisy import NoisyDistribution, NoisyRV
from dpbayes.errors import ParameterError
from dpbayes.kernels.families import BINOMIAL

__all__ = ["NoisyBinomial"]


class NoisyBinomialRV(NoisyRV):
    """Binomial count, plus noise, through the steps of the mechanism."""

    name = "noisy_binomial"
    base = BINOMIAL
    extended_signature = "[rng],[size],(),(),(),()->[rng],()"
    _print_name = ("NoisyBinomial", "\\operatorname{NoisyBinomial}")

    @staticmethod
    def draw_statistic(n, p, *, size, rng):
        """Draw counts."""
        return binomial(n.astype("int64"), p, size=size, rng=rng, return_next_rng=True)

    @staticmethod
    def conditions(n, p):
        """Say what the parameters must be."""
        whole = pt.eq(n, pt.floor(n))
        return [pt.ge(n, 0), whole, pt.ge(p, 0), pt.le(p, 1)], "n >= 0, n whole, 0 <= p <= 1"

    @staticmethod
    def middle(n, p):
        """Return the mean."""
        return n * p


class NoisyBinomial(NoisyDistribution):
    r"""A binomial count that was released through a noise mechanism.

    .. math::

        N \sim \mathrm{Binomial}(n, p), \qquad y = \mathrm{post}(N + \varepsilon)

    The number of trials n is public; where it was released with noise too, see `dpbayes.rate`. The
    count and the noise are summed out (see `NoisyPoisson`).

    ==========  =====================================================================
    Support     what the mechanism can publish
    Mean        :math:`n p` before post-processing
    Variance    :math:`n p (1 - p)` + variance of the noise, before post-processing
    ==========  =====================================================================

    Parameters
    ----------
    n : tensor_like
        Number of trials, a whole number (n >= 0).
    p : tensor_like
        Probability of success (0 <= p <= 1).
    mechanism : Mechanism or NoiseLaw
        Noise and post-processing.
    scale : tensor_like, optional
        Noise scale in place of that of `mechanism`.
    observed : array_like, optional
        Released values, NaN where one was suppressed (see `NoisyPoisson`). They may lie outside
        0..n: that is noise, not an error.

    Raises
    ------
    ImpossibleReleaseError
        If a released value cannot come from the mechanism; names the cell.
    ParameterError
        If n is not a whole number of at least 0, or a parameter does not broadcast to the
        released values.
    UnsupportedError
        If the noise lives on a lattice that holds no whole numbers, or a scale is given for a
        law that has none.

    Notes
    -----
    The likelihood is an adaptive sum over the counts (relative error of the log below 1e-10), whose
    length does not grow with n. The gradient in p and the scale comes out of the same sum.

    Examples
    --------
    >>> import pymc as pm
    >>> from dpbayes import DiscreteLaplace
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = NoisyBinomial("y", n=250, p=p, mechanism=DiscreteLaplace(scale=5), observed=31)
    """

    rv_type = NoisyBinomialRV
    rv_op = NoisyBinomialRV.rv_op
    _names = ("n", "p")

    @classmethod
    def _highest(cls, parameters):
        """Return the number of trials, where it is a constant."""
        n = parameters.get("n")
        if isinstance(n, Constant):
            return n.data
        return np.inf if isinstance(n, Variable) or n is None else np.asarray(n, dtype=float)

    @classmethod
    def dist(cls, *, n, p, mechanism, scale=None, **kwargs):
        """Build a variable outside a model."""
        known = n.data if isinstance(n, Constant) else n
        if not isinstance(known, Variable):
            array = np.asarray(known, dtype=float)
            wrong = ~((array >= 0) & (array == np.round(array)))
            if wrong.any():
                raise ParameterError(
                    f"n must be a whole number of at least 0, got {array[wrong].flat[0]:g}"
                )
        return cls._dist([n, p], mechanism=mechanism, scale=scale, **kwargs)
