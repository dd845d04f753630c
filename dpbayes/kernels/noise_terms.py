r"""Log density, mass or interval probability of the noise alone, and its derivative in the scale.

Every law that the summation kernels take: the four families with closed kernels, Laplace laws
truncated at a bound, no noise, and tabulated densities. Arguments need not lie on the lattice of
a discrete law: the formulas are continued smoothly, which is what quadrature over counts takes.
The ends of intervals are lattice points for lattice laws.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.discrete_gaussian import (
    log_at_least_slope,
    log_members,
    log_normalizer,
    variance_scalar,
)
from dpbayes.kernels.families import (
    DISCRETE_GAUSSIAN,
    DISCRETE_LAPLACE,
    GAUSSIAN,
    NO_NOISE,
    TABULATED,
    TRUNCATED_DISCRETE_LAPLACE,
    TRUNCATED_LAPLACE,
)
from dpbayes.kernels.special import LOG_SQRT_2PI, log1mexp, log_ndtr_interval
from dpbayes.kernels.tabulated import table_interval, table_logpdf

_SLACK = 1e-9  # of the bound: released values are decimal numbers


@njit(cache=True, nogil=True)
def is_lattice(family):
    """Whether the noise law lives on a lattice (no noise leaves counts on theirs)."""
    return family in (DISCRETE_LAPLACE, DISCRETE_GAUSSIAN, TRUNCATED_DISCRETE_LAPLACE, NO_NOISE)


@njit(cache=True, nogil=True)
def is_truncated(family):
    """Whether the law is a Laplace law cut at a bound."""
    return family in (TRUNCATED_LAPLACE, TRUNCATED_DISCRETE_LAPLACE)


@njit(cache=True, nogil=True)
def reach(family, bound, step, table):
    """Largest possible size of the noise, a little beyond it where it is known in decimals."""
    if family == NO_NOISE:
        return 0.0
    if family == TRUNCATED_LAPLACE:
        return bound * (1.0 + _SLACK)
    if family == TRUNCATED_DISCRETE_LAPLACE:
        return (np.floor(bound / step + 1e-6) + _SLACK) * step
    if family == TABULATED and table.shape[0] > 0:
        return max(-table[0, 0], table[table.shape[0] - 1, 1])
    return np.inf


@njit(cache=True, nogil=True)
def _grid(family, step):
    """Step of the lattice of a Laplace law, 0 for a continuous one."""
    return step if family in (DISCRETE_LAPLACE, TRUNCATED_DISCRETE_LAPLACE) else 0.0


@njit(cache=True, nogil=True)
def _log_kept(family, scale, bound, step):
    """Log mass within the bound of the law before truncation, and its derivative in the scale."""
    if family == TRUNCATED_LAPLACE:
        ratio = bound / scale
        slope = -(ratio / scale) / math.expm1(ratio) if ratio < 700.0 else 0.0
        return log1mexp(-ratio), slope
    last = np.floor(bound / step + 1e-6)
    q = math.exp(-step / scale)
    outside = 2.0 * math.exp(-(last + 1.0) * step / scale) / (1.0 + q)
    slope = outside * (step / (scale * scale)) * (last + 1.0 - q / (1.0 + q))
    return math.log1p(-outside), -slope / (1.0 - outside)


@njit(cache=True, nogil=True)
def _laplace_peak(scale, step):
    """Log density (mass) at zero and its derivative in the scale."""
    if step == 0.0:
        return -math.log(2.0 * scale), -1.0 / scale
    ratio = step / scale
    slope = -(ratio / scale) / math.sinh(ratio) if ratio < 700.0 else 0.0
    return math.log(math.tanh(0.5 * ratio)), slope


@njit(cache=True, nogil=True)
def log_peak(family, scale, bound, step):
    """Log density (mass) at zero and its derivative in the scale; 0 for a tabulated law."""
    if family in (NO_NOISE, TABULATED):
        return 0.0, 0.0
    if family == GAUSSIAN:
        return -math.log(scale) - LOG_SQRT_2PI, -1.0 / scale
    if family == DISCRETE_GAUSSIAN:
        return -log_normalizer(scale), -variance_scalar(scale) / scale**3
    value, slope = _laplace_peak(scale, _grid(family, step))
    if is_truncated(family):
        kept, kept_slope = _log_kept(family, scale, bound, step)
        return value - kept, slope - kept_slope
    return value, slope


@njit(cache=True, nogil=True)
def log_shape(family, x, scale, table):
    """Log density at x less that at zero (the log density itself of a tabulated law)."""
    if family in (GAUSSIAN, DISCRETE_GAUSSIAN):
        return -0.5 * (x / scale) * (x / scale)
    if family == TABULATED:
        return table_logpdf(x, table)
    if family == NO_NOISE:
        return 0.0
    return -abs(x) / scale


@njit(cache=True, nogil=True)
def shape_slope(family, x, scale):
    """Differentiate `log_shape` in the scale."""
    if family in (GAUSSIAN, DISCRETE_GAUSSIAN):
        return x * x / (scale * scale * scale)
    if family in (NO_NOISE, TABULATED):
        return 0.0
    return abs(x) / (scale * scale)


@njit(cache=True, nogil=True)
def _per_expm1(w, scale):
    """W / scale^2 / expm1(w / scale), also for infinite w."""
    ratio = w / scale
    return (ratio / scale) / math.expm1(ratio) if ratio < 700.0 else 0.0


@njit(cache=True, nogil=True)
def _laplace_interval(lower, upper, scale, step):
    """Log P(lower < noise <= upper) of a Laplace law and its derivative in the scale."""
    q = math.exp(-step / scale)
    low_tail = -math.log1p(q)  # log of beta = 1 / (1 + q), the weight of the lower tail
    high_tail = low_tail - step / scale  # log of alpha = q / (1 + q)
    change = step / (scale * scale)  # d alpha / d scale = alpha beta change = - d beta / d scale
    alpha, beta = math.exp(high_tail), math.exp(low_tail)
    width = upper - lower
    if lower >= 0.0:
        value = high_tail - lower / scale + log1mexp(-width / scale)
        return value, beta * change + lower / (scale * scale) - _per_expm1(width, scale)
    if upper <= 0.0:
        value = low_tail + upper / scale + log1mexp(-width / scale)
        return value, -alpha * change - upper / (scale * scale) - _per_expm1(width, scale)
    below = above = -1.0
    moved = 0.0
    if lower > -np.inf:
        below = math.expm1(lower / scale)
        moved += beta * lower * math.exp(lower / scale)
    if upper < np.inf:
        above = math.expm1(-upper / scale)
        moved -= alpha * upper * math.exp(-upper / scale)
    inside = -beta * below - alpha * above
    slope = alpha * beta * change * (below - above) + moved / (scale * scale)
    return math.log(inside), slope / inside


@njit(cache=True, nogil=True)
def _gaussian_interval(lower, upper, sd):
    """Log P(lower < noise <= upper) of a Gaussian law and its derivative in the sd."""
    value = log_ndtr_interval(lower / sd, upper / sd)
    slope = 0.0
    for end, sign in ((lower, 1.0), (upper, -1.0)):
        if abs(end) < np.inf:
            z = end / sd
            slope += sign * z * math.exp(-0.5 * z * z - LOG_SQRT_2PI - value)
    return value, slope / sd


@njit(cache=True, nogil=True)
def _discrete_gaussian_interval(lower, upper, sigma):
    """Log P(lower < noise <= upper) of a discrete Gaussian law and its derivative in sigma."""
    first, last = lower + 1.0, upper
    if last == np.inf:
        return log_at_least_slope(first, sigma)
    if first == -np.inf:
        return log_at_least_slope(-last, sigma)
    value = log_members(first, last, sigma)
    variance, cube = variance_scalar(sigma), sigma**3
    if last - first < 64.0:
        total = square = 0.0
        nearest = max(first, min(0.0, last))
        k = first
        while k <= last:
            mass = math.exp(-0.5 * (k - nearest) * (k + nearest) / (sigma * sigma))
            total += mass
            square += k * k * mass
            k += 1.0
        return value, (square / total - variance) / cube
    if first + last > 0.0:
        first, last = -last, -first
    low, low_slope = log_at_least_slope(1.0 - first, sigma)
    if last < 0.0:
        high, high_slope = log_at_least_slope(-last, sigma)
        slope = high_slope * math.exp(high - value) - low_slope * math.exp(low - value)
        return value, slope
    high, high_slope = log_at_least_slope(last + 1.0, sigma)
    return value, -high_slope * math.exp(high - value) - low_slope * math.exp(low - value)


@njit(cache=True, nogil=True)
def log_interval(family, lower, upper, scale, bound, step, table):
    """Log P(lower < noise <= upper) and its derivative in the scale."""
    if not lower < upper:
        return -np.inf, 0.0
    if lower == -np.inf and upper == np.inf:
        return 0.0, 0.0
    if family == GAUSSIAN:
        return _gaussian_interval(lower, upper, scale)
    if family == DISCRETE_GAUSSIAN:
        return _discrete_gaussian_interval(lower, upper, scale)
    if family == TABULATED:
        return table_interval(lower, upper, table), 0.0
    if family == NO_NOISE:
        return (0.0 if lower < 0.0 <= upper else -np.inf), 0.0
    if is_truncated(family):
        edge, below = bound, -bound
        if family == TRUNCATED_DISCRETE_LAPLACE:  # an end below all members of the lattice
            edge = np.floor(bound / step + 1e-6) * step
            below = -edge - step
        lower, upper = max(lower, below), min(upper, edge)
        if not lower < upper:
            return -np.inf, 0.0
        value, slope = _laplace_interval(lower, upper, scale, _grid(family, step))
        kept, kept_slope = _log_kept(family, scale, bound, step)
        return min(value - kept, 0.0), slope - kept_slope
    return _laplace_interval(lower, upper, scale, _grid(family, step))


@njit(cache=True, nogil=True)
def noise_term(family, low, high, scale, bound, step, table):
    """Log Q(low < noise <= high), a point where the ends are equal, and its scale derivative."""
    if low == high:
        peak, slope = log_peak(family, scale, bound, step)
        value = peak + log_shape(family, low, scale, table)
        if abs(low) > reach(family, bound, step, table) or (family == NO_NOISE and low != 0.0):
            return -np.inf, 0.0
        return value, slope + shape_slope(family, low, scale)
    return log_interval(family, low, high, scale, bound, step, table)
