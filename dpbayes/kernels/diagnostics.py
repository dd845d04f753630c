"""R-hat and effective sample sizes of many quantities: arrays only.

Plain loops over what NumPy has sorted: sorting and array expressions would take numba longer
to compile than most fits take.

References
----------
Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat, Bayesian Analysis 16:667-718, equations (1) to (13).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["effective_sizes", "normal_scores", "rhats"]


@njit(cache=True, nogil=True)
def normal_scores(x, order, scores, out):
    """Rank-normalised values of each row.

    Parameters
    ----------
    x : ndarray, shape (quantities, size)
        Values.
    order : ndarray of int, shape (quantities, size)
        Sorts each row.
    scores : ndarray
        Normal quantiles of the ranks 1, 3/2, 2, ...
    out : ndarray, shape (quantities, size)
        Receives the scores of the average ranks.
    """
    for k in range(x.shape[0]):
        start = 0
        while start < x.shape[1]:
            value = x[k, order[k, start]]
            stop = start + 1
            while stop < x.shape[1] and x[k, order[k, stop]] == value:
                stop += 1
            score = scores[start + stop - 1]  # of the rank (start + stop + 1) / 2
            for i in range(start, stop):
                out[k, order[k, i]] = score
            start = stop


@njit(cache=True, nogil=True)
def _centre(x, means):
    """Take the means off the rows; return the mean square that is left and that of the means."""
    chains, draws = x.shape
    within, grand = 0.0, 0.0
    for c in range(chains):
        total = 0.0
        for i in range(draws):
            total += x[c, i]
        means[c] = total / draws
        grand += means[c] / chains
        for i in range(draws):
            x[c, i] -= means[c]
            within += x[c, i] * x[c, i]
    between = 0.0
    for c in range(chains):
        between += (means[c] - grand) * (means[c] - grand)
    return within / (chains * draws), between


@njit(cache=True, nogil=True)
def rhats(z, out):
    """Potential scale reduction of each quantity; NaN for one that does not vary.

    Parameters
    ----------
    z : ndarray, shape (quantities, chains, draws)
        Values; centred in place by chain.
    out : ndarray, shape (quantities,)
        Receives the results.
    """
    chains, draws = z.shape[1], z.shape[2]
    means = np.empty(chains)
    for k in range(z.shape[0]):
        within, between = _centre(z[k], means)
        within *= draws / (draws - 1.0)
        between *= draws / (chains - 1.0)
        if within == 0.0:
            out[k] = math.inf if between > 0.0 else math.nan
        else:
            out[k] = math.sqrt((between / within + draws - 1.0) / draws)


@njit(cache=True, nogil=True)
def _covariance(x, lag):
    """Mean over the rows of their autocovariances at a lag; each row has mean 0."""
    total = 0.0
    for c in range(x.shape[0]):
        for i in range(x.shape[1] - lag):
            total += x[c, i] * x[c, i + lag]
    return total / x.size


@njit(cache=True, nogil=True)
def _effective_size(x, means, rho):
    """Effective sample size by Geyer's initial monotone sequence; x is centred."""
    chains, draws = x.shape
    low, high = x[0, 0], x[0, 0]
    for c in range(chains):
        for i in range(draws):
            low, high = min(low, x[c, i]), max(high, x[c, i])
    if high - low < 1e-15:
        return float(x.size)
    total, between = _centre(x, means)
    variance = total * draws / (draws - 1.0)
    if chains > 1:
        total += between / (chains - 1.0)
    even, odd = 1.0, 1.0 - (variance - _covariance(x, 1)) / total
    for i in range(draws):
        rho[i] = 0.0
    rho[0], rho[1] = even, odd
    t = 1
    while t < draws - 3 and even + odd > 0.0:
        even = 1.0 - (variance - _covariance(x, t + 1)) / total
        odd = 1.0 - (variance - _covariance(x, t + 2)) / total
        if even + odd >= 0.0:
            rho[t + 1], rho[t + 2] = even, odd
        t += 2
    last = t - 2
    if even > 0.0:
        rho[last + 1] = even
    t = 1
    while t <= last - 2:
        if rho[t + 1] + rho[t + 2] > rho[t - 1] + rho[t]:
            rho[t + 1] = rho[t + 2] = 0.5 * (rho[t - 1] + rho[t])
        t += 2
    time = -1.0 + rho[last + 1]
    for i in range(last + 1):
        time += 2.0 * rho[i]
    return x.size / max(time, 1.0 / math.log10(x.size))


@njit(cache=True, nogil=True)
def effective_sizes(z, out):
    """Effective sample size of each quantity.

    Parameters
    ----------
    z : ndarray, shape (quantities, chains, draws)
        Values; centred in place by chain.
    out : ndarray, shape (quantities,)
        Receives the results; all draws for a quantity that does not vary.
    """
    means, rho = np.empty(z.shape[1]), np.empty(z.shape[2])
    for k in range(z.shape[0]):
        out[k] = _effective_size(z[k], means, rho)
