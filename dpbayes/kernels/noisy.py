r"""Log-likelihood of one noisy statistic, whatever its law and whatever the noise.

`logp` takes the adaptive sum of `dpbayes.kernels.summation`, and closed forms for normal statistics
with Laplace or Gaussian noise. (Poisson counts with the four families of noise that
`dpbayes.kernels.poisson` knows are faster there.) It returns the value and its derivatives in the
two parameters of the law (see `dpbayes.kernels.base_laws`) and in the noise scale.

The error of the logarithm is below 1e-10 of its size, or 1e-10 where that is below one: the
sums are taken until a bound of the rest is below 1e-16, and each stretch of quadrature is right to
1e-12 of the sum by an estimate from the fall of its Legendre coefficients.
"""

import math

import numpy as np
from numba import njit, types

from dpbayes.kernels import base_laws, normal
from dpbayes.kernels.families import (
    BINOMIAL,
    GAUSSIAN,
    LAPLACE,
    LATTICE_TOLERANCE,
    NEGATIVE_BINOMIAL,
    NO_NOISE,
    NORMAL,
)
from dpbayes.kernels.native import NativeKernel
from dpbayes.kernels.noise_terms import is_lattice, noise_term
from dpbayes.kernels.poisson import floor_to_lattice
from dpbayes.kernels.summation import conditional_moments

__all__ = ["EVERYTHING", "NATIVE", "logp", "logp_array"]

_valid, _fixed_count = base_laws.valid, base_laws.fixed_count
_location_score = base_laws.location_score
_laplace_point, _laplace_below = normal.laplace_point, normal.laplace_below
_gaussian_point, _gaussian_interval = normal.gaussian_point, normal.gaussian_interval

EVERYTHING = (True, True)
"""Derivatives in the second parameter and in the noise scale are both wanted."""

_SHARP = 1e-3  # noise scale over sigma below which closed forms lose their derivatives
_NONE = (-np.inf, 0.0, 0.0, 0.0)


@njit(cache=True, nogil=True)
def _without_spread(law, noise, table, count):
    """Handle a law that has one possible value, at the edge of its parameters' range."""
    base, a, b = law
    family, lower, upper, scale, bound, step = noise
    value, d_scale = noise_term(family, lower - count, upper - count, scale, bound, step, table)
    if value == -np.inf:
        return _NONE
    near = count - 1.0 if count > 0.0 else 1.0
    other, _ = noise_term(family, lower - near, upper - near, scale, bound, step, table)
    change = math.expm1(min(other - value, 700.0))
    if base == BINOMIAL:
        change *= a if count == 0.0 and b == 0.0 else -a
        return value, 0.0, change, d_scale
    return value, change, 0.0, d_scale


@njit(cache=True, nogil=True)
def _normal(law, noise):
    """Try the closed forms for a normal statistic; the flag tells whether there was one."""
    _, mu, sigma = law
    family, lower, upper, scale, _, _ = noise
    if family == GAUSSIAN:
        if lower == upper:
            return True, _gaussian_point(lower, mu, sigma, scale)
        return True, _gaussian_interval(lower, upper, mu, sigma, scale)
    if family == NO_NOISE:
        if lower < upper:
            value, d_mu, d_sigma, _ = _gaussian_interval(lower, upper, mu, sigma, 0.0)
            return True, (value, d_mu, d_sigma, 0.0)
        value, d_mu, d_sigma, _ = _gaussian_point(lower, mu, sigma, 0.0)
        return True, (value, d_mu, d_sigma, 0.0)
    if family == LAPLACE and scale > _SHARP * sigma:
        if lower == upper:
            return True, _laplace_point(lower, mu, sigma, scale)
        if lower == -np.inf:
            return True, _laplace_below(upper, mu, sigma, scale)
        if upper == np.inf:
            value, d_mu, d_sigma, d_scale = _laplace_below(-lower, -mu, sigma, scale)
            return True, (value, -d_mu, d_sigma, d_scale)
    return False, _NONE


@njit(cache=True, nogil=True)
def logp(law, noise, table, want):
    """Log-likelihood and its derivatives in the law's two parameters and the noise scale.

    Parameters
    ----------
    law : tuple
        (base, a, b): code and parameters of the statistic's law.
    noise : tuple
        (family, lower, upper, scale, bound, step): the noise law and the canonical bounds of
        statistic + noise, equal for a point. `scale` is b of the Laplace laws and sigma of the
        Gaussian ones, `bound` that of the truncated laws, `step` a lattice law's.
    table : ndarray
        Table of a tabulated law, `dpbayes.kernels.tabulated.EMPTY` otherwise.
    want : tuple of bool
        Whether the derivatives in the second parameter of a negative binomial or normal law and
        in the noise scale are wanted; they may be 0 otherwise.
    """
    base, a, b = law
    family, lower, upper, scale, bound, step = noise
    if not (_valid(base, a, b) and scale > 0.0 and scale < np.inf and lower <= upper):
        return _NONE
    if lower == upper and math.isinf(lower):
        return _NONE
    if lower == -np.inf and upper == np.inf:
        return 0.0, 0.0, 0.0, 0.0
    if is_lattice(family) and base != NORMAL:
        if lower == upper:
            nearest = floor_to_lattice(lower + 0.5 * step, step)
            if not abs(lower - nearest) <= LATTICE_TOLERANCE * step:
                return _NONE
            lower = upper = nearest
        else:
            lower, upper = floor_to_lattice(lower, step), floor_to_lattice(upper, step)
            if not lower < upper:
                return _NONE
    noise = (family, lower, upper, scale, bound, step)
    if base == NORMAL:
        known, values = _normal(law, noise)
        if known:
            return values
    count = _fixed_count(base, a, b)
    if count >= 0.0:
        return _without_spread(law, noise, table, count)
    value, excess, second, d_scale = conditional_moments(law, noise, table, want)
    first = _location_score(base, excess, a, b)
    if base == BINOMIAL:
        return value, 0.0, first, d_scale
    return value, first, (second if base in (NEGATIVE_BINOMIAL, NORMAL) else 0.0), d_scale


def _entry(base, family, lower, upper, a, b, scale, bound, step, table, want_b, want_scale):
    """Call `logp` with plain numbers."""
    noise = (family, lower, upper, scale, bound, step)
    return logp((base, a, b), noise, table, (want_b, want_scale))


_TABLE = types.Array(types.float64, 2, "C", readonly=True)
NATIVE = NativeKernel(
    _entry,
    types.UniTuple(types.float64, 4)(
        types.int64, types.int64, *[types.float64] * 7, _TABLE, types.boolean, types.boolean
    ),
)
"""`logp` as a function of (base, family, lower, upper, a, b, scale, bound, step, table, want b,
want scale) for code that is compiled with each model."""


@njit(cache=True, nogil=True)
def _each(base, family, lower, upper, a, b, scale, bound, step, table, out):
    for i in range(lower.size):
        law = (base, a[i], b[i])
        noise = (family, lower[i], upper[i], scale[i], bound[i], step)
        out[0, i], out[1, i], out[2, i], out[3, i] = logp(law, noise, table, EVERYTHING)


def logp_array(base, family, lower, upper, a, b, scale, bound=0.0, step=1.0, table=None):
    """Log-likelihood and derivatives for broadcast arrays of values and parameters.

    Parameters
    ----------
    base, family : int
        Codes of the statistic's law and of the noise (`dpbayes.kernels.families`).
    lower, upper : array_like
        Ends of the interval in which the noisy statistic was seen; equal ends are a point.
    a, b : array_like
        Parameters of the statistic's law (see `dpbayes.kernels.base_laws`).
    scale, bound : array_like
        Noise scale, and bound of a truncated law, in units of the statistic.
    step : float
        Lattice step of a discrete law.
    table : ndarray, optional
        Table of a tabulated law.

    Returns
    -------
    tuple of numpy.ndarray
        The log-likelihood and its derivatives in a, b and scale (0 for the trials of a binomial).
    """
    from dpbayes.kernels.tabulated import EMPTY

    floats = (np.asarray(x, dtype=np.float64) for x in (lower, upper, a, b, scale, bound))
    arrays = np.broadcast_arrays(*floats)
    out = np.empty((4, arrays[0].size))
    flat = (np.ascontiguousarray(x).ravel() for x in arrays)
    low, high, a, b, scale, bound = flat
    table = EMPTY if table is None else table
    _each(base, family, low, high, a, b, scale, bound, float(step), table, out)
    return tuple(row.reshape(arrays[0].shape)[()] for row in out)
