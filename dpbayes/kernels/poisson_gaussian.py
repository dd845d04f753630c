r"""Poisson count plus continuous or discrete Gaussian noise, by short sums.

Every sum over the count m is taken outwards from (near) its largest term until the terms are
negligible. Where the summand varies over many counts, the sum is a trapezoid of a smooth function
and is taken over a few dozen real nodes instead, its error being of order
:math:`e^{-2 \pi^2 s^2 / h^2}` for a summand of width s and nodes h apart.

Probabilities of half-lines sum :math:`P(N = m) P(\text{noise} \le y - m)`; where the count is much
wider than the noise they sum :math:`P(N \le j) P(\text{noise} = y - j)` over the noise.

The derivative in the scale of Gaussian noise is :math:`\partial g / \partial \sigma = \sigma
g''(y)`, so that of a probability needs the density at its ends only.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.discrete_gaussian import (
    log_at_least_slope,
    log_normalizer,
    variance_scalar,
)
from dpbayes.kernels.gamma_ratios import log_poisson_tails
from dpbayes.kernels.special import (
    LOG_SQRT_2PI,
    bd0,
    log1mexp,
    log_ndtr,
    log_ndtr_interval,
    log_poisson,
    logaddexp,
    logsubexp,
    stirlerr,
)

_SMOOTH = 8.0  # widths from here on allow a trapezoid
_SETTLED = 8.5  # noise sds beyond which a distribution function is one
_TINY = 1e-18
_LIMIT = 100_000


@njit(cache=True, nogil=True)
def _centre(y, mu, sigma):
    """Real m with log(m / mu) = (y - m) / sigma^2: the most likely count given the sum y."""
    if y == -np.inf:
        return 0.0
    if y == np.inf:
        return np.inf
    square = sigma * sigma
    d = math.log(mu / square) + y / square
    # v + exp(v) = d by Newton from a close start
    v = d if d < 1.0 else math.log(d - math.log(d))
    if d < 1.0:
        v = d - math.log1p(math.exp(d))
    for _ in range(6):
        e = math.exp(v)
        v -= (v + e - d) / (1.0 + e)
    return square * math.exp(v) if d < 1.0 else max(square * (d - v), 0.0)


@njit(cache=True, nogil=True)
def _width(centre, sigma):
    """Approximate the standard deviation of the count given the sum, near `centre`."""
    return 1.0 / math.sqrt(1.0 / (sigma * sigma) + 1.0 / max(centre, 1e-300))


@njit(cache=True, nogil=True)
def _log_mass_ratio(m, origin, mu):
    """Log pois(m) / pois(origin) for real m, origin > 0, without cancellation."""
    change = stirlerr(m) - stirlerr(origin) + 0.5 * math.log(m / origin)
    return (m - origin) * math.log(mu / origin) - bd0(m, origin) - change


@njit(cache=True, nogil=True)
def _mode(y, centre, mu, sigma):
    """Find the most likely integer count given the sum y, from its real approximation."""
    twice = 2.0 * sigma * sigma
    m = np.floor(centre + 0.5)
    while math.log(mu / (m + 1.0)) + (2.0 * (y - m) - 1.0) / twice > 0.0 and m < centre + 2.0:
        m += 1.0
    while m > 0.0 and math.log(m / mu) - (2.0 * (y - m) + 1.0) / twice > 0.0 and m > centre - 2.0:
        m -= 1.0
    return m


@njit(cache=True, nogil=True)
def gaussian_point(y, mu, sigma):
    """Log density of count + Gaussian noise, E[N | y] - mu, and E[(y - N)^2 | y]."""
    centre = _centre(y, mu, sigma)
    width = _width(centre, sigma)
    step = 1.0 if width < _SMOOTH else 0.5 * width
    origin = _mode(y, centre, mu, sigma)
    square = sigma * sigma
    total, first, second = 1.0, 0.0, 0.0
    for direction in (1.0, -1.0):
        log_term, term, m = 0.0, 1.0, origin
        for _ in range(_LIMIT):
            following = m + direction * step
            if following < 0.0:
                break
            gap = following - origin
            if step == 1.0:
                log_term += math.log(mu / following) if direction > 0.0 else math.log(m / mu)
                log_noise = 0.5 * gap * (2.0 * (y - origin) - gap) / square
                updated = math.exp(log_term + log_noise)
            else:
                slope = math.log(mu / origin) + (y - origin) / square
                rest = bd0(following, origin) + stirlerr(following) - stirlerr(origin)
                rest += 0.5 * math.log(following / origin) + 0.5 * gap * gap / square
                updated = math.exp(gap * slope - rest)
            m = following
            total += updated
            first += updated * gap
            second += updated * gap * gap
            if updated < _TINY * total and updated <= term:
                break
            term = updated
    first, second = first / total, second / total
    gap = y - origin
    value = log_poisson(origin, mu) - 0.5 * (gap / sigma) ** 2 + math.log(total * step)
    value -= math.log(sigma) + LOG_SQRT_2PI
    return value, (origin - mu) + first, gap * gap - 2.0 * gap * first + second


@njit(cache=True, nogil=True)
def point(discrete, y, mu, sigma):
    """Log g(y) and its derivatives in mu and sigma; y must be an integer for discrete noise."""
    value, shift, square = gaussian_point(y, mu, sigma)
    cube = sigma * sigma * sigma
    if discrete:
        value += math.log(sigma) + LOG_SQRT_2PI - log_normalizer(sigma)
        return value, shift / mu, (square - variance_scalar(sigma)) / cube
    return value, shift / mu, (square - sigma * sigma) / cube


@njit(cache=True, nogil=True)
def _noise(discrete, lower, upper, sigma):
    """Log P(lower < noise <= upper) and, for discrete half-lines, its derivative in sigma."""
    if lower == -np.inf:
        if discrete:
            return log_at_least_slope(-upper, sigma)
        return log_ndtr(upper / sigma), 0.0
    if upper == np.inf:
        if discrete:
            return log_at_least_slope(lower + 1.0, sigma)
        return log_ndtr(-lower / sigma), 0.0
    return log_ndtr_interval(lower / sigma, upper / sigma), 0.0


@njit(cache=True, nogil=True)
def _half_line(discrete, lower, upper, mu, sigma):
    """Log P(lower < Y <= upper) with one end infinite, and derivatives (sigma: discrete only)."""
    rising = upper == np.inf
    end = lower if rising else upper
    centre = _centre(end, mu, sigma)
    centre = max(centre, mu) if rising else min(centre, mu)
    spread = math.sqrt(centre)
    if min(spread, sigma) < _SMOOTH:
        step = 1.0
    elif spread <= 4.0 * sigma:
        step = 0.5 * _width(centre, sigma)
    else:
        return _half_line_by_noise(discrete, rising, end, mu, sigma)
    return _sum_over_counts(discrete, lower, upper, mu, sigma, np.floor(centre), step)


@njit(cache=True, nogil=True)
def _settled_tail(m, direction, lower, upper, reach, mu):
    """Sum counts past m, log P and log of abs d P / d mu, if the noise spares them all."""
    if direction < 0.0 and lower == -np.inf and m - 1.0 < upper - reach:
        below, _ = log_poisson_tails(m - 1.0, mu)
        return below, log_poisson(m - 1.0, mu)
    if direction > 0.0 and upper == np.inf and m + 1.0 > lower + reach:
        _, above = log_poisson_tails(m, mu)
        return above, log_poisson(m, mu)
    return -np.inf, -np.inf


@njit(cache=True, nogil=True)
def _sum_over_counts(discrete, lower, upper, mu, sigma, origin, step):
    """Sum of P(N = m) P(lower < m + noise <= upper) outwards from m = origin.

    With unit steps, counts so deep inside a half-line that the noise factor is one are added in
    closed form.
    """
    reach = _SETTLED * sigma + 1.0 if step == 1.0 else np.inf
    if upper < np.inf and lower == -np.inf:
        origin = max(origin, np.floor(upper - reach))
    elif upper == np.inf:
        origin = max(min(origin, np.ceil(lower + reach)), 0.0)
    start, slope = _noise(discrete, lower - origin, upper - origin, sigma)
    total, moment, top = 1.0, origin - mu, 0.0
    bulk = bulk_slope = -np.inf
    sign = 1.0
    for direction in (1.0, -1.0):
        log_ratio, term, m = 0.0, math.exp(-top), origin
        for _ in range(_LIMIT):
            tail, tail_slope = _settled_tail(m, direction, lower, upper, reach, mu)
            if tail_slope > -np.inf:
                bulk, bulk_slope, sign = tail, tail_slope, direction
                break
            following = m + direction * step
            if following < 0.0:
                break
            if step == 1.0:
                log_ratio += math.log(mu / following) if direction > 0.0 else math.log(m / mu)
            else:
                log_ratio = _log_mass_ratio(following, origin, mu)
            m = following
            log_noise, noise_slope = _noise(discrete, lower - m, upper - m, sigma)
            exponent = log_ratio + log_noise - start
            if exponent > top + 50.0:  # the origin was not the largest term: measure from here
                scale = math.exp(top - exponent)
                total, moment, slope, term = total * scale, moment * scale, slope * scale, 0.0
                top = exponent
            updated = math.exp(exponent - top)
            total += updated
            moment += updated * (m - mu)
            slope += updated * noise_slope
            if updated < _TINY * total and updated <= term:
                break
            term = updated
    summed = log_poisson(origin, mu) + start + top + math.log(total * step)
    value = logaddexp(summed, bulk)
    share = math.exp(summed - value) / total
    d_mu = share * moment / mu + sign * math.exp(bulk_slope - value)
    return value, d_mu, share * slope


@njit(cache=True, nogil=True)
def _half_line_by_noise(discrete, rising, end, mu, sigma):
    """Sum over real j of P(N <= j), or P(N > j), times P(end - j - 1 < noise <= end - j)."""
    outside = end > mu if rising else end < mu
    origin = _centre(end, mu, sigma) if outside else end
    step = 0.5 * _width(max(origin, 1.0), sigma)
    variance = variance_scalar(sigma)
    reference = value = slope = d_mu = 0.0
    for direction in (1.0, -1.0):
        term, j = 0.0, origin if direction > 0.0 else origin - step
        for _ in range(_LIMIT):
            if j < 0.0:
                break
            below, above = log_poisson_tails(j, mu)
            log_count = above if rising else below
            distance = end - j
            if discrete:
                log_noise = -0.5 * (distance / sigma) ** 2
            else:
                log_noise = log_ndtr_interval((distance - 1.0) / sigma, distance / sigma)
            if value == 0.0:
                reference = log_count + log_noise
            updated = math.exp(log_count + log_noise - reference)
            value += updated
            d_mu += math.exp(log_poisson(j, mu) + log_noise - reference)
            slope += updated * (distance * distance - variance)
            if updated < _TINY * value and updated <= term:
                break
            term = updated
            j += direction * step
    log_value = reference + math.log(value * step)
    if discrete:
        log_value -= log_normalizer(sigma)
    sign = 1.0 if rising else -1.0
    return log_value, sign * d_mu / value, slope / value / sigma**3


@njit(cache=True, nogil=True)
def _narrow(lower, upper, mu, sigma):
    """Gaussian noise, an interval of a few sds: value and derivative in mu."""
    low, high = _centre(lower, mu, sigma), _centre(upper, mu, sigma)
    centre = min(max(mu, low), high)
    wide = min(math.sqrt(centre), sigma) >= _SMOOTH
    step = 0.5 * _width(centre, sigma) if wide else 1.0
    value, d_mu, _ = _sum_over_counts(False, lower, upper, mu, sigma, np.floor(centre), step)
    return value, d_mu, 0.0


@njit(cache=True, nogil=True)
def _members(lower, upper, mu, sigma):
    """Discrete noise: the interval as the sum of the masses of its members."""
    value, d_mu, d_scale = -np.inf, 0.0, 0.0
    y = lower + 1.0
    while y <= upper:
        log_mass, mass_mu, mass_scale = point(True, y, mu, sigma)
        updated = logaddexp(value, log_mass)
        if updated > -np.inf:
            kept, added = math.exp(value - updated), math.exp(log_mass - updated)
            d_mu = kept * d_mu + added * mass_mu
            d_scale = kept * d_scale + added * mass_scale
        value = updated
        y += 1.0
    return value, d_mu, d_scale


@njit(cache=True, nogil=True)
def _edge(y, value, mu, sigma):
    """-d P(Y <= y) / d sigma over exp(value), for Gaussian noise at a finite y."""
    if math.isinf(y):
        return 0.0
    log_density, shift, _ = gaussian_point(y, mu, sigma)
    return (y - mu - shift) / sigma * math.exp(log_density - value)


@njit(cache=True, nogil=True)
def interval(discrete, lower, upper, mu, sigma):
    """Log P(lower < Y <= upper) and its derivatives; integer ends for discrete noise."""
    if lower == -np.inf and upper == np.inf:
        return 0.0, 0.0, 0.0
    if lower == -np.inf or upper == np.inf:
        value, d_mu, d_scale = _half_line(discrete, lower, upper, mu, sigma)
    elif discrete and upper - lower <= 64.0:
        value, d_mu, d_scale = _members(lower, upper, mu, sigma)
    elif not discrete and upper - lower <= max(4.0 * sigma, 64.0):
        value, d_mu, d_scale = _narrow(lower, upper, mu, sigma)
    else:
        value, d_mu, d_scale = _wide(discrete, lower, upper, mu, sigma)
    if not discrete:
        d_scale = _edge(lower, value, mu, sigma) - _edge(upper, value, mu, sigma)
    return value, d_mu, d_scale


@njit(cache=True, nogil=True)
def _wide(discrete, lower, upper, mu, sigma):
    """Take a wide interval as a difference of half-lines, in the tail where both are small."""
    low_upper = lower >= mu
    high_upper = upper > mu
    if low_upper:
        low = _half_line(discrete, lower, np.inf, mu, sigma)
    else:
        low = _half_line(discrete, -np.inf, lower, mu, sigma)
    if high_upper:
        high = _half_line(discrete, upper, np.inf, mu, sigma)
    else:
        high = _half_line(discrete, -np.inf, upper, mu, sigma)
    if low_upper:
        value = logsubexp(low[0], high[0])
    elif not high_upper:
        value = logsubexp(high[0], low[0])
    else:
        value = log1mexp(logaddexp(low[0], high[0]))
    low_share = math.exp(low[0] - value) * (1.0 if low_upper else -1.0)
    high_share = math.exp(high[0] - value) * (-1.0 if high_upper else 1.0)
    d_mu = low_share * low[1] + high_share * high[1]
    return value, d_mu, low_share * low[2] + high_share * high[2]
