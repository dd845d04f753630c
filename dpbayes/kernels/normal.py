r"""Normal statistic plus Laplace or Gaussian noise, in closed form.

With :math:`X \sim N(\mu, \sigma^2)`, :math:`z = (y - \mu) / \sigma`, :math:`c = \sigma / b` and

.. math:: A = E[e^{-(y - X)/b}; X \le y]
            = e^{-z^2/2} \tfrac12 \mathrm{erfcx}\bigl((c - z)/\sqrt2\bigr),
          \qquad B(z) = A(-z),

the density of X + Laplace noise is g = (A + B) / (2b) and P(X + noise <= y) = Phi(z) + (B - A)/2.
Derivatives follow from

.. math:: \frac{\partial g}{\partial \mu} = \frac{A - B}{2 b^2}, \qquad
          \frac{\partial g}{\partial \sigma} = \frac{\sigma (g - f)}{b^2}, \qquad
          \frac{\partial G}{\partial \sigma} = -\sigma \frac{\partial g}{\partial \mu},

f the density of X, and from how densities and probabilities scale with the unit of measurement.

References
----------
.. [1] NIST Digital Library of Mathematical Functions, section 7.2 (error functions).
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.special import (
    LOG_SQRT_2PI,
    SQRT_HALF,
    erfcx,
    log_ndtr,
    log_ndtr_interval,
    logaddexp,
)

__all__ = ["gaussian_interval", "gaussian_point", "laplace_below", "laplace_point"]


@njit(cache=True, nogil=True)
def _log_side(z, c):
    """Log A, from z and c."""
    if z < c:
        return -0.5 * z * z + math.log(0.5 * erfcx((c - z) * SQRT_HALF))
    return c * (0.5 * c - z) + log_ndtr(z - c)


@njit(cache=True, nogil=True)
def laplace_point(y, mu, sigma, b):
    """Log density of X + Laplace noise and its derivatives in mu, sigma and b."""
    z, c = (y - mu) / sigma, sigma / b
    log_a, log_b = _log_side(z, c), _log_side(-z, c)
    log_sum = logaddexp(log_a, log_b)
    d_mu = (math.exp(log_a - log_sum) - math.exp(log_b - log_sum)) / b
    value = log_sum - math.log(2.0 * b)
    log_f = -0.5 * z * z - math.log(sigma) - LOG_SQRT_2PI
    d_sigma = -sigma * math.expm1(min(log_f - value, 700.0)) / (b * b)
    return value, d_mu, d_sigma, ((y - mu) * d_mu - sigma * d_sigma - 1.0) / b


@njit(cache=True, nogil=True)
def laplace_below(y, mu, sigma, b):
    """Log P(X + Laplace noise <= y) and its derivatives in mu, sigma and b."""
    z, c = (y - mu) / sigma, sigma / b
    log_a, log_b, log_f = _log_side(z, c), _log_side(-z, c), log_ndtr(z)
    # A <= Phi(z), so that nothing cancels
    value = log_f + math.log1p(-0.5 * math.exp(min(log_a - log_f, 0.0)))
    value = min(logaddexp(value, log_b - math.log(2.0)), 0.0)
    density, slope, _, _ = laplace_point(y, mu, sigma, b)
    ratio = math.exp(density - value)
    d_sigma = -sigma * slope * ratio
    return value, -ratio, d_sigma, -(sigma * d_sigma + (y - mu) * ratio) / b


@njit(cache=True, nogil=True)
def gaussian_point(y, mu, sigma, sd):
    """Log density of X + Gaussian noise and its derivatives in mu, sigma and sd."""
    spread = math.hypot(sigma, sd)
    z = (y - mu) / spread
    d_spread = (z * z - 1.0) / spread
    value = -0.5 * z * z - math.log(spread) - LOG_SQRT_2PI
    return value, z / spread, d_spread * sigma / spread, d_spread * sd / spread


@njit(cache=True, nogil=True)
def gaussian_interval(lower, upper, mu, sigma, sd):
    """Log P(lower < X + Gaussian noise <= upper) and its derivatives in mu, sigma and sd."""
    spread = math.hypot(sigma, sd)
    low, high = (lower - mu) / spread, (upper - mu) / spread
    value = log_ndtr_interval(low, high)
    d_mu = d_spread = 0.0
    for z, sign in ((low, 1.0), (high, -1.0)):
        if abs(z) < np.inf:
            density = sign * math.exp(-0.5 * z * z - LOG_SQRT_2PI - value) / spread
            d_mu += density
            d_spread += z * density
    return value, d_mu, d_spread * sigma / spread, d_spread * sd / spread
