"""R-hat and effective sample sizes of many quantities: arrays only.

References
----------
Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat, Bayesian Analysis 16:667-718, equations (1) to (13).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["diagnose"]

#: Whole numbers within a range of so many times their number are ranked by counting.
_DENSE = 8


@njit(cache=True, nogil=True)
def _ranks(x, out):
    """Twice the average ranks, counted from 2."""
    low, high, whole = x[0], x[0], True
    for value in x:
        low, high = min(low, value), max(high, value)
        whole = whole and value == math.floor(value)
    if whole and high - low < _DENSE * x.size:
        counts = np.zeros(int(high - low) + 2, dtype=np.int64)
        for value in x:
            counts[int(value - low) + 1] += 1
        for i in range(1, counts.size):
            counts[i] += counts[i - 1]
        for i in range(x.size):
            k = int(x[i] - low)
            out[i] = counts[k] + counts[k + 1] + 1
        return
    order = np.argsort(x)
    start = 0
    while start < x.size:
        stop = start + 1
        while stop < x.size and x[order[stop]] == x[order[start]]:
            stop += 1
        for i in range(start, stop):
            out[order[i]] = start + stop + 1
        start = stop


@njit(cache=True, nogil=True)
def _rhat(z):
    """Potential scale reduction of the rows of an array."""
    chains, draws = z.shape
    within, means = 0.0, np.empty(chains)
    for c in range(chains):
        means[c] = z[c].mean()
        within += np.sum((z[c] - means[c]) ** 2) / (draws - 1.0)
    within /= chains
    between = np.sum((means - means.mean()) ** 2) / (chains - 1.0) * draws
    if within == 0.0:
        return np.inf if between > 0.0 else np.nan
    return math.sqrt((between / within + draws - 1.0) / draws)


@njit(cache=True, nogil=True)
def _covariance(x, lag):
    """Mean over the rows of their autocovariances at a lag; each row has mean 0."""
    total = 0.0
    for c in range(x.shape[0]):
        total += np.dot(x[c, : x.shape[1] - lag], x[c, lag:])
    return total / x.size


@njit(cache=True, nogil=True)
def _ess(x):
    """Effective sample size by Geyer's initial monotone sequence; x is changed."""
    chains, draws = x.shape
    if x.max() - x.min() < 1e-15:
        return float(x.size)
    means = np.empty(chains)
    for c in range(chains):
        means[c] = x[c].mean()
        x[c] -= means[c]
    variance = _covariance(x, 0) * draws / (draws - 1.0)
    total = variance * (draws - 1.0) / draws
    if chains > 1:
        total += np.sum((means - means.mean()) ** 2) / (chains - 1.0)
    rho = np.zeros(draws)
    even, odd = 1.0, 1.0 - (variance - _covariance(x, 1)) / total
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
    time = -1.0 + 2.0 * rho[: last + 1].sum() + rho[last + 1]
    return x.size / max(time, 1.0 / math.log10(x.size))


@njit(cache=True, nogil=True)
def _normal_scores(x, scores, ranks):
    """Rank-normalised values in the shape of x."""
    _ranks(x.reshape(-1), ranks)
    z = np.empty(x.size)
    for i in range(x.size):
        z[i] = scores[ranks[i] - 2]
    return z.reshape(x.shape)


@njit(cache=True, nogil=True)
def _quantile(ordered, prob):
    """Quantile by linear interpolation between order statistics."""
    at = prob * (ordered.size - 1)
    i = min(int(at), ordered.size - 2)
    low, high, share = ordered[i], ordered[i + 1], at - i
    # As NumPy does, so that ties with a draw fall on the same side.
    return high - (high - low) * (1.0 - share) if share >= 0.5 else low + (high - low) * share


@njit(cache=True, nogil=True)
def _split(x):
    """Halves of the rows, first halves first."""
    chains, half = x.shape[0], x.shape[1] // 2
    out = np.empty((2 * chains, half))
    out[:chains] = x[:, :half]
    out[chains:] = x[:, x.shape[1] - half :]
    return out


@njit(cache=True, nogil=True)
def diagnose(draws, scores, tails, out):
    """Rank-normalised split R-hat, bulk and tail effective sample size of many quantities.

    Parameters
    ----------
    draws : ndarray, shape (quantities, chains, draws)
        Finite draws.
    scores : ndarray
        Normal quantiles of the ranks 1, 3/2, 2, ... of all draws in half chains.
    tails : tuple of float
        Probabilities of the two quantiles of the tail effective sample size.
    out : ndarray, shape (quantities, 3)
        Receives the results; NaN for a quantity that does not vary.
    """
    half = draws.shape[2] // 2
    ranks = np.empty(2 * draws.shape[1] * half, dtype=np.int64)
    for k in range(draws.shape[0]):
        x = draws[k]
        if x.min() == x.max():
            out[k] = np.nan
            continue
        split = _split(x)
        z = _normal_scores(split, scores, ranks)
        middle = np.median(split.copy().reshape(-1))
        folded = _normal_scores(np.abs(2.0 * split - 2.0 * middle), scores, ranks)
        bulk, tail = _rhat(z), _rhat(folded)
        out[k, 0] = tail if tail > bulk or math.isnan(bulk) else bulk
        out[k, 1] = _ess(z)
        ordered = np.sort(x.copy().reshape(-1))
        out[k, 2] = np.inf
        for i in range(2):
            below = _split((x <= _quantile(ordered, tails[i])).astype(np.float64))
            out[k, 2] = min(out[k, 2], _ess(below))
