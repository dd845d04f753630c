r"""Poisson count plus continuous or discrete Laplace noise, by the A/B decomposition.

For :math:`N \sim \mathrm{Poisson}(\mu)` and noise of scale :math:`b` write

.. math:: A(y) = E[e^{-(y-N)/b}; N \le y], \qquad B(y) = E[e^{-(N-y)/b}; N > y].

Then the density of the sum is :math:`(A+B)/(2b)` (on a lattice of step h its mass is
:math:`\tanh(h/2b)(A+B)`) and, with :math:`\alpha = q/(1+q)`, :math:`\beta = 1/(1+q)`,
:math:`q = e^{-h/b}` (both one half for continuous noise, h = 0),

.. math:: P(Y \le y) = F(y) - \alpha A(y) + \beta B(y), \quad
          P(Y > y) = 1 - F(y) + \alpha A(y) - \beta B(y).

A is the lower Poisson tail at the raised rate :math:`\mu e^{1/b}`, B the upper tail at the
lowered rate :math:`\mu e^{-1/b}`; each is one mass times a sum of positive terms.
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.gamma_ratios import left_ratio, log_poisson_tails, right_ratio
from dpbayes.kernels.special import log1mexp, log_poisson, logaddexp, logsubexp

_NARROW = 32.0  # an interval holding at most this many counts is summed count by count


@njit(cache=True, nogil=True)
def split_weights(scale, step):
    """alpha, beta and d alpha / d scale of the noise's two tails."""
    if step == 0.0:
        return 0.5, 0.5, 0.0
    q = math.exp(-step / scale)
    alpha, beta = q / (1.0 + q), 1.0 / (1.0 + q)
    return alpha, beta, alpha * beta * step / (scale * scale)


@njit(cache=True, nogil=True)
def log_peak(scale, step):
    """Log of the noise's density (or mass) at zero and its derivative in the scale."""
    if step == 0.0:
        return -math.log(2.0 * scale), -1.0 / scale
    ratio = step / scale
    slope = -(ratio / scale) / math.sinh(ratio) if ratio < 700.0 else 0.0
    return math.log(math.tanh(0.5 * ratio)), slope


@njit(cache=True, nogil=True)
def _below(y, k, mu, scale):
    """Log A(y), the mean of y - N under its terms, and log A(y-1) / A(y), with k = floor(y)."""
    if k < 0.0:
        return -np.inf, 0.0, -np.inf
    rate = mu * math.exp(min(1.0 / scale, 709.0))
    if k <= rate:
        total, moment, previous = left_ratio(k, rate)
        log_a = -(y - k) / scale + log_poisson(k, mu) + math.log(total)
        if k == 0.0:
            return log_a, y, -np.inf
        return log_a, (y - k) + moment / total, math.log(k / mu * previous / total)
    log_q, _ = log_poisson_tails(k, rate)
    last = math.exp(log_poisson(k, rate) - log_q)
    log_a = -y / scale + mu * math.expm1(1.0 / scale) + log_q
    return log_a, (y - rate) + rate * last, 1.0 / scale + math.log1p(-last)


@njit(cache=True, nogil=True)
def _above(y, k, mu, scale):
    """Log B(y), the mean of N - y under its terms, and log B(y-1) / B(y), with k = floor(y)."""
    rate = mu * math.exp(-1.0 / scale)
    if k < 0.0:
        return y / scale + mu * math.expm1(-1.0 / scale), rate - y, -1.0 / scale
    if k + 1.0 >= rate:
        total, moment = right_ratio(k, rate)
        gap = k + 1.0 - y
        log_b = -gap / scale + log_poisson(k + 1.0, mu) + math.log(total)
        shift = math.log((k + 1.0) / (mu * total) + math.exp(-1.0 / scale))
        return log_b, gap + moment / total, shift
    _, log_p = log_poisson_tails(k, rate)
    first = math.exp(log_poisson(k, rate) - log_p)
    log_b = y / scale + mu * math.expm1(-1.0 / scale) + log_p
    return log_b, (rate - y) + rate * first, -1.0 / scale + math.log1p(first)


@njit(cache=True, nogil=True)
def point(y, mu, scale, step):
    """Log g(y) and its derivatives in mu and scale; on a lattice y must be a lattice point."""
    k = np.floor(y)
    log_a, mean_a, shift_a = _below(y, k, mu, scale)
    log_b, mean_b, shift_b = _above(y, k, mu, scale)
    log_sum = logaddexp(log_a, log_b)
    share_a, share_b = math.exp(log_a - log_sum), math.exp(log_b - log_sum)
    peak, peak_slope = log_peak(scale, step)
    if scale >= 1.0:
        # g(y-1) - g(y) with the common terms of A(y-1), A(y), B(y-1), B(y) already cancelled
        rise = share_a * math.expm1(1.0 / scale) + share_b * math.expm1(-1.0 / scale)
        mass = math.exp(log_poisson(k, mu) - log_sum)
        d_mu = rise - 2.0 * math.sinh((k + 1.0 - y) / scale) * mass
    else:
        d_mu = share_a * _expm1_capped(shift_a) + share_b * _expm1_capped(shift_b)
    d_scale = peak_slope + (share_a * mean_a + share_b * mean_b) / (scale * scale)
    return peak + log_sum, d_mu, d_scale


@njit(cache=True, nogil=True)
def _expm1_capped(x):
    """exp(x) - 1, kept finite."""
    return math.expm1(min(x, 700.0))


@njit(cache=True, nogil=True)
def _end(y, mu, scale, step):
    """Everything an interval needs at one finite end y.

    log P(Y <= y), log P(Y > y), log A, log B, log P(y-1 < Y <= y), and d P(Y <= y) / d scale in
    three parts that scale with A, with B and with their weights.
    """
    k = np.floor(y)
    alpha, beta, _ = split_weights(scale, step)
    log_a, mean_a, shift_a = _below(y, k, mu, scale)
    log_b, mean_b, _ = _above(y, k, mu, scale)
    log_f, log_s = log_poisson_tails(k, mu)
    lower, upper = log_f, log_s
    if log_f > -np.inf:
        lower += math.log1p(-alpha * math.exp(min(log_a - log_f, 0.0)))
    if log_s > -np.inf:
        upper += math.log1p(-beta * math.exp(min(log_b - log_s, 0.0)))
    lower = logaddexp(lower, math.log(beta) + log_b)
    upper = logaddexp(upper, _log(alpha) + log_a)
    # the unit interval below y holds the single count k
    ends = logaddexp(_log(alpha) + log_a + shift_a, math.log(beta) + log_b)
    unit = ends + log1mexp(-1.0 / scale)
    inside = -beta * math.expm1(-(k + 1.0 - y) / scale) - alpha * math.expm1(-(y - k) / scale)
    if inside > 0.0:
        unit = logaddexp(unit, log_poisson(k, mu) + math.log(inside))
    return lower, upper, log_a, log_b, unit, mean_a, mean_b


@njit(cache=True, nogil=True)
def _log(x):
    """log, with log 0 = -inf."""
    return math.log(x) if x > 0.0 else -np.inf


@njit(cache=True, nogil=True)
def _scale_slope(sign, reference, end, scale, step):
    """Sign * d P(Y <= y) / d scale in units of exp(reference)."""
    _, _, log_a, log_b, _, mean_a, mean_b = end
    alpha, beta, slope = split_weights(scale, step)
    square = scale * scale
    part_a = math.exp(min(log_a - reference, 700.0)) * (slope + alpha * mean_a / square)
    part_b = math.exp(min(log_b - reference, 700.0)) * (-slope + beta * mean_b / square)
    return sign * (part_b - part_a)


@njit(cache=True, nogil=True)
def interval(lower, upper, mu, scale, step):
    """Log P(lower < Y <= upper) and its derivatives in mu and scale.

    On a lattice, finite ends must be lattice points.
    """
    if lower == -np.inf and upper == np.inf:
        return 0.0, 0.0, 0.0
    if lower == -np.inf:
        end = _end(upper, mu, scale, step)
        d_scale = _scale_slope(1.0, end[0], end, scale, step)
        return end[0], -math.exp(end[4] - end[0]), d_scale
    if upper == np.inf:
        end = _end(lower, mu, scale, step)
        d_scale = _scale_slope(-1.0, end[1], end, scale, step)
        return end[1], math.exp(end[4] - end[1]), d_scale
    low, high = _end(lower, mu, scale, step), _end(upper, mu, scale, step)
    if np.floor(upper) - np.floor(lower) <= _NARROW:
        value, d_scale = _narrow(lower, upper, low, high, mu, scale, step)
    else:
        if upper <= mu:
            value = logsubexp(high[0], low[0])
        elif lower >= mu:
            value = logsubexp(low[1], high[1])
        else:
            value = log1mexp(logaddexp(low[0], high[1]))
        d_scale = _scale_slope(1.0, value, high, scale, step)
        d_scale += _scale_slope(-1.0, value, low, scale, step)
    d_mu = math.exp(low[4] - value) - math.exp(high[4] - value)
    return value, d_mu, d_scale


@njit(cache=True, nogil=True)
def _narrow(lower, upper, low, high, mu, scale, step):
    """Value and scale derivative of an interval that holds few counts: all terms positive."""
    alpha, beta, slope = split_weights(scale, step)
    square, width = scale * scale, upper - lower
    log_a, mean_a = low[2], low[5]
    log_b, mean_b = high[3], high[6]
    inside, lost = -math.expm1(-width / scale), math.exp(-width / scale) * width / square
    first, last = max(np.floor(lower) + 1.0, 0.0), np.floor(upper)
    top = min(max(np.floor(mu), first), last)
    log_top = log_poisson(top, mu) if last >= first else -np.inf
    reference = max(log_top, max(log_a, log_b))
    part_a, part_b = math.exp(log_a - reference), math.exp(log_b - reference)
    value = (alpha * part_a + beta * part_b) * inside
    d_scale = part_a * ((slope + alpha * mean_a / square) * inside - alpha * lost)
    d_scale += part_b * ((beta * mean_b / square - slope) * inside - beta * lost)
    x = first
    while x <= last:
        mass = math.exp(log_poisson(x, mu) - reference)
        below, above = (x - lower) / scale, (upper - x) / scale
        value -= mass * (beta * math.expm1(-below) + alpha * math.expm1(-above))
        d_scale += mass * (slope - beta * below / scale) * math.exp(-below)
        d_scale -= mass * (slope + alpha * above / scale) * math.exp(-above)
        x += 1.0
    return reference + math.log(value), d_scale / value
