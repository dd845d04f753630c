"""Overdispersed counts that were released through a noise mechanism."""

from __future__ import annotations

import pytensor.tensor as pt
from pytensor.tensor.random.basic import gamma, poisson

from dpbayes.distributions.noisy import NoisyDistribution, NoisyRV
from dpbayes.kernels.families import NEGATIVE_BINOMIAL

__all__ = ["NoisyNegativeBinomial"]


class NoisyNegativeBinomialRV(NoisyRV):
    """Negative binomial count, plus noise, through the steps of the mechanism."""

    name = "noisy_negative_binomial"
    base = NEGATIVE_BINOMIAL
    extended_signature = "[rng],[size],(),(),(),()->[rng],()"
    _print_name = ("NoisyNegativeBinomial", "\\operatorname{NoisyNegativeBinomial}")

    @staticmethod
    def draw_statistic(mu, alpha, *, size, rng):
        """Draw counts as a gamma mixture of Poisson counts."""
        rng, rate = gamma(alpha, scale=1.0, size=size, rng=rng, return_next_rng=True)
        return poisson(rate * (mu / alpha), size=size, rng=rng, return_next_rng=True)

    @staticmethod
    def conditions(mu, alpha):
        """Say what the parameters must be."""
        return [pt.ge(mu, 0), pt.gt(alpha, 0)], "mu >= 0, alpha > 0"

    @staticmethod
    def middle(mu, alpha):
        """Return the mean."""
        return pt.broadcast_arrays(mu, alpha)[0]


class NoisyNegativeBinomial(NoisyDistribution):
    r"""An overdispersed count that was released through a noise mechanism.

    .. math::

        N \sim \mathrm{NegativeBinomial}(\mu, \alpha), \qquad y = \mathrm{post}(N + \varepsilon)

    with the parameters of ``pm.NegativeBinomial``: a Poisson count whose rate is Gamma with mean
    mu and shape alpha. The count and the noise are summed out (see `NoisyPoisson`).

    ==========  =====================================================================
    Support     what the mechanism can publish
    Mean        :math:`\mu` before post-processing
    Variance    :math:`\mu + \mu^2 / \alpha` + variance of the noise, before
                post-processing
    ==========  =====================================================================

    Parameters
    ----------
    mu : tensor_like
        Mean of the true count (mu >= 0).
    alpha : tensor_like
        Dispersion (alpha > 0): the count's variance exceeds its mean by mu² / alpha.
    mechanism : Mechanism or NoiseLaw
        Noise and post-processing.
    scale : tensor_like, optional
        Noise scale in place of that of `mechanism`.
    observed : array_like, optional
        Released values, NaN where one was suppressed (see `NoisyPoisson`).

    Raises
    ------
    ImpossibleReleaseError
        If a released value cannot come from the mechanism; names the cell.
    ParameterError
        If a parameter does not broadcast to the released values.
    UnsupportedError
        If the noise lives on a lattice that holds no whole numbers, or a scale is given for a
        law that has none.

    Notes
    -----
    The likelihood is an adaptive sum over the counts (relative error of the log below 1e-10), whose
    length does not grow with the counts. The gradient in mu, alpha and the scale comes out of the
    same sum.

    Examples
    --------
    >>> import pymc as pm
    >>> from dpbayes import Laplace
    >>> with pm.Model():
    ...     mu, alpha = pm.Gamma("mu", 2, 0.1), pm.Gamma("alpha", 2, 0.5)
    ...     y = NoisyNegativeBinomial(
    ...         "y", mu=mu, alpha=alpha, mechanism=Laplace(scale=4), observed=[3.2, 40.9, 11.5]
    ...     )
    """

    rv_type = NoisyNegativeBinomialRV
    rv_op = NoisyNegativeBinomialRV.rv_op
    _names = ("mu", "alpha")

    @classmethod
    def dist(cls, *, mu, alpha, mechanism, scale=None, **kwargs):
        """Build a variable outside a model."""
        return cls._dist([mu, alpha], mechanism=mechanism, scale=scale, **kwargs)
