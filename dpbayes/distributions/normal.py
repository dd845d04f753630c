"""Normal statistics that were released through a noise mechanism."""

from __future__ import annotations

import pytensor.tensor as pt
from pytensor.tensor.random.basic import normal

from dpbayes.distributions.noisy import NoisyDistribution, NoisyRV
from dpbayes.kernels.families import NORMAL

__all__ = ["NoisyNormal"]


class NoisyNormalRV(NoisyRV):
    """Normal statistic, plus noise, through the steps of the mechanism."""

    name = "noisy_normal"
    base = NORMAL
    extended_signature = "[rng],[size],(),(),(),()->[rng],()"
    _print_name = ("NoisyNormal", "\\operatorname{NoisyNormal}")

    @staticmethod
    def draw_statistic(mu, sigma, *, size, rng):
        """Draw statistics."""
        return normal(mu, sigma, size=size, rng=rng, return_next_rng=True)

    @staticmethod
    def conditions(mu, sigma):
        """Say what the parameters must be."""
        return [pt.gt(sigma, 0)], "sigma > 0"

    @staticmethod
    def middle(mu, sigma):
        """Return the mean."""
        return pt.broadcast_arrays(mu, sigma)[0]


class NoisyNormal(NoisyDistribution):
    r"""A normal statistic (a mean, a sum) that was released through a noise mechanism.

    .. math::

        x \sim N(\mu, \sigma^2), \qquad y = \mathrm{post}(x + \varepsilon)

    The statistic and the noise are integrated out: in closed form for Laplace and Gaussian noise,
    by adaptive quadrature for the other laws.

    ==========  =====================================================================
    Support     what the mechanism can publish
    Mean        :math:`\mu` before post-processing
    Variance    :math:`\sigma^2` + variance of the noise, before post-processing
    ==========  =====================================================================

    Parameters
    ----------
    mu : tensor_like
        Mean of the true statistic.
    sigma : tensor_like
        Standard deviation of the true statistic (sigma > 0), for a mean of n records the
        sampling error.
    mechanism : Mechanism or NoiseLaw
        Noise and post-processing; the noise must be continuous (or `NoNoise`).
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
        If the noise lives on a lattice, which only counts can take, or a scale is given for a
        law that has none.

    References
    ----------
    Wasserman & Zhou (2010), Lemma 2.6 (3): noise on a bounded statistic such as a mean.

    Examples
    --------
    >>> import pymc as pm
    >>> from dpbayes import Laplace
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 40, 20)
    ...     y = NoisyNormal(
    ...         "y", mu=mu, sigma=1.5, mechanism=Laplace(scale=2), observed=[38.1, 41.7]
    ...     )
    """

    rv_type = NoisyNormalRV
    rv_op = NoisyNormalRV.rv_op
    _names = ("mu", "sigma")
    _whole = False

    @classmethod
    def dist(cls, *, mu, sigma, mechanism, scale=None, **kwargs):
        """Build a variable outside a model."""
        return cls._dist([mu, sigma], mechanism=mechanism, scale=scale, **kwargs)
