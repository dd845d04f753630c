"""Counts under a learned mixture of Gamma scales with a spike at zero: arrays only.

A cell's rate λ is 0 with weight ω_0 and Gamma(shape, mean μ_k) with weight ω_k; its count is
Poisson(λ), hence negative binomial given k. Components are numbered 1..C, the spike is 0.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = [
    "component_moments",
    "draw_cells",
    "log_posterior",
    "mixture_mass",
    "rates_given_counts",
    "whitened_log_posterior",
]


@njit(cache=True, nogil=True)
def _log_negative_binomial(m, mean, shape):
    return (
        math.lgamma(shape + m)
        - math.lgamma(shape)
        - math.lgamma(m + 1.0)
        - shape * math.log1p(mean / shape)
        - m * math.log1p(shape / mean)
    )


@njit(cache=True, nogil=True)
def _fill_component(first, size, mean, shape, out):
    """Masses of the negative binomial law at first, first + 1, ...

    Recurrences run outwards from the entry nearest the mode, where nothing underflows
    unless all of the window is negligible.
    """
    mode = math.floor(mean * (shape - 1.0) / shape) if shape > 1.0 else 0.0
    start = int(min(max(mode, float(first)), float(first + size - 1)))
    ratio = mean / (mean + shape)
    peak = math.exp(_log_negative_binomial(float(start), mean, shape))
    value = peak
    for m in range(start, first + size):
        out[m - first] = value
        value *= ratio * (shape + m) / (m + 1.0)
    value = peak
    for m in range(start, first, -1):
        value *= m / (ratio * (shape + m - 1.0))
        out[m - 1 - first] = value


@njit(cache=True, nogil=True)
def component_moments(tables, offsets, first, at_zero, means, shape, evidence, mean, square):
    """Evidence and conditional moments of each cell under each component.

    Parameters
    ----------
    tables : ndarray
        Likelihood of the released value at the counts of each cell's window, scaled.
    offsets, first : ndarray of int
        Where each cell's table starts, and the count of its first entry.
    at_zero : ndarray
        The same likelihood at a count of 0.
    means, shape : ndarray, float
        Means and shape of the components.
    evidence, mean, square : ndarray, shape (cells, components + 1)
        Receive the evidence, E[N | y, k] and E[N² | y, k].
    """
    longest = 0
    for j in range(first.size):
        longest = max(longest, offsets[j + 1] - offsets[j])
    work = np.empty(longest)
    for j in range(first.size):
        size = offsets[j + 1] - offsets[j]
        evidence[j, 0], mean[j, 0], square[j, 0] = at_zero[j], 0.0, 0.0
        for k in range(means.size):
            _fill_component(first[j], size, means[k], shape, work)
            total, one, two = 0.0, 0.0, 0.0
            for i in range(size):
                p = work[i] * tables[offsets[j] + i]
                m = float(first[j] + i)
                total += p
                one += p * m
                two += p * m * m
            evidence[j, k + 1] = total
            mean[j, k + 1] = one / total if total > 0.0 else float(first[j])
            square[j, k + 1] = two / total if total > 0.0 else float(first[j]) ** 2


@njit(cache=True, nogil=True)
def _tree_adjoint(moments, parent, released, noise, total, adjoint):
    """Gaussian log likelihood of what was released about sums, and its adjoint.

    Nodes 0..G-1 are groups in an order in which children come first; `moments` holds the
    mean and variance of the cells right below each node on entry. `released` is NaN where
    nothing is used; `total` is the public total of the last node, or NaN.
    """
    size = parent.size
    below = moments.copy()
    above = np.empty((size, 2))
    value = 0.0
    for g in range(size):
        m, v = below[g, 0], below[g, 1]
        if not math.isnan(released[g]):
            spread = v + noise[g]
            gap = released[g] - m
            value += -0.5 * math.log(2.0 * math.pi * spread) - 0.5 * gap * gap / spread
            m += v / spread * gap
            v *= noise[g] / spread
        above[g, 0], above[g, 1] = m, v
        if parent[g] >= 0:
            below[parent[g], 0] += m
            below[parent[g], 1] += v
    top = np.zeros(2)
    if not math.isnan(total):
        v = above[size - 1, 1] + 0.25  # a lattice of whole numbers is never narrower
        gap = total - above[size - 1, 0]
        value += -0.5 * math.log(2.0 * math.pi * v) - 0.5 * gap * gap / v
        top[0] = gap / v
        top[1] = -0.5 / v + 0.5 * gap * gap / (v * v)
    for g in range(size - 1, -1, -1):
        dm, dv = top[0], top[1]
        if parent[g] >= 0:
            dm, dv = adjoint[parent[g], 0], adjoint[parent[g], 1]
        if not math.isnan(released[g]):
            v = below[g, 1]
            spread = v + noise[g]
            gap = released[g] - below[g, 0]
            share = noise[g] / spread
            dv = (
                dv * share * share
                + dm * gap * noise[g] / (spread * spread)
                - 0.5 / spread
                + 0.5 * gap * gap / (spread * spread)
            )
            dm = dm * share + gap / spread
        adjoint[g, 0], adjoint[g, 1] = dm, dv
    return value


@njit(cache=True, nogil=True)
def log_posterior(
    x, evidence, copies, mean, square, leaf_group, parent, released, noise, total, scale_prior
):
    """Log posterior of the mixture's weights, labels and counts summed out, and gradient.

    Parameters
    ----------
    x : ndarray
        Log odds of the spike, log scale σ of the random walk, standardised increments.
    evidence : ndarray, shape (cells, components + 1)
        Evidence of each cell under the spike and the components.
    copies : ndarray
        How many cells share each row.
    mean, square : ndarray
        Conditional moments, used only where sums were released.
    leaf_group, parent, released, noise, total
        What was released about sums (see `_tree_adjoint`); `parent` is empty for nothing.
    scale_prior : tuple of float
        Mean and sd of the normal prior of log σ.
    """
    size = evidence.shape[1]
    weights = np.empty(size)
    walk = np.zeros(size - 1)
    sigma = math.exp(x[1])
    for k in range(1, size - 1):
        walk[k] = walk[k - 1] + x[1 + k]
    top = walk.max() * sigma
    norm = 0.0
    for k in range(size - 1):
        weights[k + 1] = math.exp(sigma * walk[k] - top)
        norm += weights[k + 1]
    spike = 1.0 / (1.0 + math.exp(-x[0]))
    rest = 1.0 / (1.0 + math.exp(x[0]))
    for k in range(1, size):
        weights[k] *= rest / norm
    weights[0] = spike
    value = 0.0
    slope = np.zeros(size)  # derivatives in the log weights
    groups = parent.size
    moments = np.zeros((groups, 2))
    cell_mean = np.zeros(evidence.shape[0] if groups else 0)
    density = evidence @ weights
    for j in range(evidence.shape[0]):
        f = density[j]
        if not f > 0.0:
            return -np.inf, np.zeros(x.size)
        value += copies[j] * math.log(f)
        if groups:
            one, two = 0.0, 0.0
            for k in range(size):
                r = weights[k] * evidence[j, k] / f
                one += r * mean[j, k]
                two += r * square[j, k]
            cell_mean[j] = one
            moments[leaf_group[j], 0] += one
            moments[leaf_group[j], 1] += max(two - one * one, 0.0)
    slope += weights * ((copies / density) @ evidence)
    if groups:
        adjoint = np.zeros((groups, 2))
        value += _tree_adjoint(moments, parent, released, noise, total, adjoint)
        for j in range(evidence.shape[0]):
            dm, dv = adjoint[leaf_group[j], 0], adjoint[leaf_group[j], 1]
            two = 0.0
            for k in range(size):
                two += weights[k] * evidence[j, k] / density[j] * square[j, k]
            for k in range(size):
                r = weights[k] * evidence[j, k] / density[j]
                first = r * (mean[j, k] - cell_mean[j])
                slope[k] += dm * first + dv * (r * (square[j, k] - two) - 2 * cell_mean[j] * first)
    gradient = np.empty(x.size)
    others = slope[1:].sum()
    gradient[0] = slope[0] * rest - spike * others
    # The spike's share is Beta(1/2, 1/2), with the Jacobian of the log odds.
    value += 0.5 * (math.log(spike + 1e-300) + math.log(rest + 1e-300))
    gradient[0] += 0.5 * (rest - spike)
    tail = 0.0
    gradient[1] = 0.0
    for k in range(size - 2, 0, -1):
        d = slope[k + 1] - weights[k + 1] / rest * others if rest > 0.0 else 0.0
        tail += d
        gradient[1] += sigma * walk[k] * d
        gradient[1 + k] = sigma * tail - x[1 + k]
        value -= 0.5 * x[1 + k] * x[1 + k]
    z = (x[1] - scale_prior[0]) / scale_prior[1]
    value -= 0.5 * z * z
    gradient[1] -= z / scale_prior[1]
    return value, gradient


@njit(cache=True, nogil=True)
def whitened_log_posterior(u, mode, factor, arguments):
    """`log_posterior` and its gradient in u at x = mode + factor u."""
    value, gradient = log_posterior(mode + factor @ u, *arguments)
    return value, gradient @ factor


@njit(cache=True, nogil=True)
def mixture_mass(first, size, weights, means, shape):
    """Prior mass of counts first..first+size-1 under the mixture."""
    out = np.zeros(size)
    work = np.empty(size)
    for k in range(means.size):
        _fill_component(first, size, means[k], shape, work)
        for i in range(size):
            out[i] += weights[k + 1] * work[i]
    if first == 0:
        out[0] += weights[0]
    return out


@njit(cache=True, nogil=True)
def draw_cells(rng, weights, evidence, tables, offsets, first, means, shape, counts, rates):
    """Draw the count and the rate of every cell given the weights of each draw.

    Parameters
    ----------
    rng : Generator
        Source of randomness.
    weights : ndarray, shape (draws, components + 1)
        Weights of the spike and the components.
    evidence, tables, offsets, first, means, shape
        As in `component_moments`.
    counts, rates : ndarray, shape (cells, draws)
        Receive the draws.
    """
    draws, size = weights.shape
    label = np.empty(draws, dtype=np.int64)
    for j in range(first.size):
        used = np.zeros(size, dtype=np.int64)
        for d in range(draws):
            total = 0.0
            for k in range(size):
                total += weights[d, k] * evidence[j, k]
            target = rng.random() * total
            acc, k = 0.0, 0
            while k < size - 1:
                acc += weights[d, k] * evidence[j, k]
                if acc > target:
                    break
                k += 1
            while evidence[j, k] == 0.0 or weights[d, k] == 0.0:
                k -= 1  # rounding at the very end landed on no mass
            label[d] = k
            used[k] += 1
        width = offsets[j + 1] - offsets[j]
        cumulative = np.empty(width)
        for k in range(size):
            if used[k] == 0:
                continue
            if k == 0:
                for d in range(draws):
                    if label[d] == 0:
                        counts[j, d], rates[j, d] = 0, 0.0
                continue
            _fill_component(first[j], width, means[k - 1], shape, cumulative)
            acc = 0.0
            for i in range(width):
                acc += cumulative[i] * tables[offsets[j] + i]
                cumulative[i] = acc
            scale = 1.0 / (shape / means[k - 1] + 1.0)
            for d in range(draws):
                if label[d] == k:
                    i = np.searchsorted(cumulative, rng.random() * acc, side="right")
                    m = first[j] + min(i, width - 1)
                    counts[j, d] = m
                    rates[j, d] = rng.standard_gamma(shape + m) * scale


@njit(cache=True, nogil=True)
def rates_given_counts(rng, counts, weights, means, shape, rates):
    """Draw each cell's rate given its count and the weights.

    Parameters
    ----------
    rng : Generator
        Source of randomness.
    counts : ndarray of int, shape (draws, cells)
        True counts.
    weights : ndarray, shape (components + 1,)
        Weights of the spike and the components.
    means, shape : ndarray, float
        Means and shape of the components.
    rates : ndarray, shape (draws, cells)
        Receives the rates.
    """
    size = weights.size
    log_mass = np.empty(size)
    for d in range(counts.shape[0]):
        for j in range(counts.shape[1]):
            m = float(counts[d, j])
            log_mass[0] = math.log(weights[0] + 1e-300) if m == 0.0 else -np.inf
            for k in range(1, size):
                log_mass[k] = math.log(weights[k] + 1e-300) + _log_negative_binomial(
                    m, means[k - 1], shape
                )
            top = log_mass.max()
            total = 0.0
            for k in range(size):
                total += math.exp(log_mass[k] - top)
            target = rng.random() * total
            acc, k = 0.0, 0
            while k < size - 1:
                acc += math.exp(log_mass[k] - top)
                if acc > target:
                    break
                k += 1
            if k == 0:
                rates[d, j] = 0.0
            else:
                scale = 1.0 / (shape / means[k - 1] + 1.0)
                rates[d, j] = rng.standard_gamma(shape + m) * scale
