"""Poisson counts that were released through a noise mechanism."""

from __future__ import annotations

from pytensor.tensor.random.basic import poisson

from dpbayes.distributions.noisy import NoisyDistribution, NoisyRV
from dpbayes.kernels.families import POISSON

__all__ = ["NoisyPoisson"]


class NoisyPoissonRV(NoisyRV):
    """Poisson count, plus noise, through the steps of the mechanism."""

    name = "noisy_poisson"
    base = POISSON
    extended_signature = "[rng],[size],(),(),()->[rng],()"
    _print_name = ("NoisyPoisson", "\\operatorname{NoisyPoisson}")

    @staticmethod
    def draw_statistic(mu, *, size, rng):
        """Draw counts."""
        return poisson(mu, size=size, rng=rng, return_next_rng=True)

    @staticmethod
    def conditions(mu):
        """Say what mu must be."""
        return [mu >= 0], "mu >= 0"

    @staticmethod
    def middle(mu):
        """Return the mean."""
        return mu


class NoisyPoisson(NoisyDistribution):
    r"""A Poisson count that was released through a noise mechanism.

    .. math::

        N \sim \mathrm{Poisson}(\mu), \qquad y = \mathrm{post}(N + \varepsilon)

    The count and the noise are summed out, and rounding, clamping and suppression are part of
    the likelihood: a clamped value says "at the clamp or beyond", a suppressed one "below the
    threshold". Cost and accuracy do not depend on the size of the count.

    ==========  =====================================================================
    Support     what the mechanism can publish
    Mean        :math:`\mu` before post-processing
    Variance    :math:`\mu` + variance of the noise, before post-processing
    ==========  =====================================================================

    Parameters
    ----------
    mu : tensor_like
        Mean of the true count (mu >= 0).
    mechanism : Mechanism or NoiseLaw
        Noise and post-processing. Any noise law; a `CustomNoise` is tabulated when the model is
        built, and its `cdf` and `rvs` are not needed.
    scale : tensor_like, optional
        Noise scale in place of that of `mechanism` (b of the Laplace laws, sd or sigma of the
        Gaussian laws): a random variable where the scale was not published.
    observed : array_like, optional
        Released values, NaN where one was suppressed (the mechanism then has a `Suppress` step).
        Values in a ``pm.Data`` container have suppressed cells as minus infinity: see
        `encode_released`.

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
    The gradient uses :math:`\partial g(y) / \partial \mu = g(y - 1) - g(y)`, which holds for any
    noise. Second derivatives are differences of the gradient. In posterior predictive draws
    suppressed cells are minus infinity, and ``pm.logcdf`` counts them as below every value.

    References
    ----------
    Wasserman & Zhou (2010), Lemma 2.6, for noisy counts.

    Examples
    --------
    >>> import pymc as pm
    >>> from dpbayes import Clamp, DiscreteLaplace, Mechanism
    >>> published = Mechanism(DiscreteLaplace(scale=10), steps=[Clamp(lower=0)])
    >>> with pm.Model():
    ...     mu = pm.Gamma("mu", 2, 0.1, shape=3)
    ...     y = NoisyPoisson("y", mu=mu, mechanism=published, observed=[0, 31, 12])
    """

    rv_type = NoisyPoissonRV
    rv_op = NoisyPoissonRV.rv_op
    _names = ("mu",)

    @classmethod
    def dist(cls, *, mu, mechanism, scale=None, **kwargs):
        """Build a variable outside a model."""
        return cls._dist([mu], mechanism=mechanism, scale=scale, **kwargs)
