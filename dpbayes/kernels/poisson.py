r"""Log-likelihood of a noisy Poisson count and its gradient, for points and intervals.

With :math:`N \sim \mathrm{Poisson}(\mu)` and :math:`Y = N + \text{noise}`, `point` is the log
density of Y (log mass on a lattice) and `interval` is :math:`\log P(l < Y \le u)`; `logp` takes
equal ends as a point. For every noise law

.. math:: \partial g(y) / \partial \mu = g(y - 1) - g(y),

and the same holds for probabilities.

The scalar functions return ``(value, d value / d mu, d value / d scale)`` and are meant to be
called from compiled code; `logp_array` and `gradient_array` broadcast arrays. `scale` is the scale
b of the Laplace laws and sigma of the Gaussian laws; `step` is the lattice step of a discrete law
(1 / step a whole number) and is ignored by the continuous ones. The mean may be zero.
"""

import math

import numpy as np
from numba import njit, types

from dpbayes.kernels import poisson_gaussian, poisson_laplace
from dpbayes.kernels.discrete_gaussian import log_members, logpmf_scalar
from dpbayes.kernels.families import (
    DISCRETE_GAUSSIAN,
    DISCRETE_LAPLACE,
    GAUSSIAN,
    LAPLACE,
    LATTICE_TOLERANCE,
)
from dpbayes.kernels.native import NativeKernel
from dpbayes.kernels.special import LOG_SQRT_2PI, log1mexp, log_ndtr_interval

_laplace_point, _laplace_interval = poisson_laplace.point, poisson_laplace.interval
_gaussian_point, _gaussian_interval = poisson_gaussian.point, poisson_gaussian.interval
_log_peak, _split_weights = poisson_laplace.log_peak, poisson_laplace.split_weights


@njit(cache=True, nogil=True)
def is_lattice(family):
    """Whether the noise law lives on a lattice."""
    return family in (DISCRETE_LAPLACE, DISCRETE_GAUSSIAN)


@njit(cache=True, nogil=True)
def floor_to_lattice(y, step):
    """Largest lattice point not above y, up to the lattice tolerance."""
    if math.isinf(y):
        return y
    per_unit = np.round(1.0 / step)
    return np.floor(y * per_unit + LATTICE_TOLERANCE) / per_unit


@njit(cache=True, nogil=True)
def noise_point(family, x, scale, step):
    """Log density (or mass) of the noise alone."""
    if family == GAUSSIAN:
        return -0.5 * (x / scale) ** 2 - math.log(scale) - LOG_SQRT_2PI
    if family == DISCRETE_GAUSSIAN:
        return logpmf_scalar(x, scale)
    return _log_peak(scale, step if family == DISCRETE_LAPLACE else 0.0)[0] - abs(x) / scale


@njit(cache=True, nogil=True)
def noise_interval(family, lower, upper, scale, step):
    """Log P(lower < noise <= upper) of the noise alone; lattice ends for lattice laws."""
    if not lower < upper:
        return -np.inf
    if family == GAUSSIAN:
        return log_ndtr_interval(lower / scale, upper / scale)
    if family == DISCRETE_GAUSSIAN:
        return log_members(lower + 1.0, upper, scale)
    alpha, beta, _ = _split_weights(scale, step if family == DISCRETE_LAPLACE else 0.0)
    width = log1mexp(-(upper - lower) / scale)
    if lower >= 0.0:
        return math.log(alpha) - lower / scale + width
    if upper <= 0.0:
        return math.log(beta) + upper / scale + width
    inside = -beta * math.expm1(lower / scale) - alpha * math.expm1(-upper / scale)
    return math.log(inside)


@njit(cache=True, nogil=True)
def _slope_in_scale(family, lower, upper, scale, step):
    """Differentiate the noise alone in its scale, by a fourth-order difference."""
    h = 1e-3 * scale
    total = 0.0
    for shift, weight in ((-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)):
        if lower == upper:
            total += weight * noise_point(family, lower, scale + shift * h, step)
        else:
            total += weight * noise_interval(family, lower, upper, scale + shift * h, step)
    return total / (12.0 * h)


@njit(cache=True, nogil=True)
def _empty(family, lower, upper, scale, step):
    """Handle mu = 0: the count is 0 and the noise is released alone."""
    if lower == upper:
        value = noise_point(family, lower, scale, step)
        shifted = noise_point(family, lower - 1.0, scale, step)
    else:
        value = noise_interval(family, lower, upper, scale, step)
        shifted = noise_interval(family, lower - 1.0, upper - 1.0, scale, step)
    d_scale = _slope_in_scale(family, lower, upper, scale, step)
    return value, math.expm1(min(shifted - value, 700.0)), d_scale


@njit(cache=True, nogil=True)
def _valid(mu, scale):
    """Whether the parameters are inside their ranges (NaN is not)."""
    return mu >= 0.0 and mu < np.inf and scale > 0.0 and scale < np.inf


@njit(cache=True, nogil=True)
def point(family, y, mu, scale, step):
    """Log g(y) and its derivatives in mu and scale."""
    if not _valid(mu, scale) or math.isinf(y):
        return -np.inf, 0.0, 0.0
    if is_lattice(family):
        nearest = floor_to_lattice(y + 0.5 * step, step)
        if not abs(y - nearest) <= LATTICE_TOLERANCE * step:
            return -np.inf, 0.0, 0.0
        y = nearest
    if mu == 0.0:
        return _empty(family, y, y, scale, step)
    if family == LAPLACE:
        return _laplace_point(y, mu, scale, 0.0)
    if family == DISCRETE_LAPLACE:
        return _laplace_point(y, mu, scale, step)
    return _gaussian_point(family == DISCRETE_GAUSSIAN, y, mu, scale)


@njit(cache=True, nogil=True)
def interval(family, lower, upper, mu, scale, step):
    """Log P(lower < Y <= upper) and its derivatives in mu and scale; ends may be infinite."""
    if is_lattice(family):
        lower, upper = floor_to_lattice(lower, step), floor_to_lattice(upper, step)
    if not (_valid(mu, scale) and lower < upper):
        return -np.inf, 0.0, 0.0
    if lower == -np.inf and upper == np.inf:
        return 0.0, 0.0, 0.0
    if mu == 0.0:
        return _empty(family, lower, upper, scale, step)
    if family == LAPLACE:
        return _laplace_interval(lower, upper, mu, scale, 0.0)
    if family == DISCRETE_LAPLACE:
        return _laplace_interval(lower, upper, mu, scale, step)
    return _gaussian_interval(family == DISCRETE_GAUSSIAN, lower, upper, mu, scale)


@njit(cache=True, nogil=True)
def logp(family, lower, upper, mu, scale, step):
    """`point` where the ends are equal, `interval` otherwise."""
    if lower == upper:
        return point(family, lower, mu, scale, step)
    return interval(family, lower, upper, mu, scale, step)


NATIVE = NativeKernel(
    logp.py_func, types.UniTuple(types.float64, 3)(types.int64, *[types.float64] * 5)
)
"""`logp` for code that is compiled with each model."""


@njit(cache=True, nogil=True)
def _each(family, lower, upper, mu, scale, step, out):
    for i in range(lower.size):
        out[0, i], out[1, i], out[2, i] = logp(
            family[i], lower[i], upper[i], mu[i], scale[i], step[i]
        )


def gradient_array(family, lower, upper, mu, scale, step=1.0):
    """Log-likelihood and its derivatives for broadcast arrays.

    Parameters
    ----------
    family : array_like of int
        Noise family code from `dpbayes.kernels.families`.
    lower, upper : array_like
        Ends of the interval in which the noisy count was seen; equal ends are a point.
    mu : array_like
        Mean of the count (mu >= 0).
    scale : array_like
        Noise scale (scale > 0), in units of the count.
    step : array_like
        Lattice step of a discrete law.

    Returns
    -------
    tuple of numpy.ndarray
        The log-likelihood, its derivative in `mu` and its derivative in `scale`.
    """
    family = np.asarray(family, dtype=np.int64)
    floats = (np.asarray(a, dtype=np.float64) for a in (lower, upper, mu, scale, step))
    arrays = np.broadcast_arrays(family, *floats)
    out = np.empty((3, arrays[0].size))
    family, lower, upper, mu, scale, step = (np.ascontiguousarray(a).ravel() for a in arrays)
    _each(family, lower, upper, mu, scale, step, out)
    value, d_mu, d_scale = (row.reshape(arrays[0].shape)[()] for row in out)
    return value, d_mu, d_scale


def logp_array(family, lower, upper, mu, scale, step=1.0):
    """Log-likelihood for broadcast arrays; parameters as in `gradient_array`.

    Returns
    -------
    numpy.ndarray
        The log-likelihood.
    """
    return gradient_array(family, lower, upper, mu, scale, step)[0]
