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
    "mixture_mass",
    "mixture_masses",
    "rates_given_counts",
]

#: A component with less mass than this anywhere in a window is left out of it.
_NO_MASS = 1e-40


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
def mixture_masses(first, offsets, weights, means, shape, out):
    """Prior mass of counts in several windows, one after the other in `out`."""
    longest = 0
    for i in range(first.size):
        longest = max(longest, offsets[i + 1] - offsets[i])
    work = np.empty(longest)
    for i in range(first.size):
        a, size = offsets[i], offsets[i + 1] - offsets[i]
        out[a : a + size] = 0.0
        for k in range(means.size):
            nearest = min(max(means[k], float(first[i])), float(first[i] + size - 1))
            log_top = _log_negative_binomial(math.floor(nearest), means[k], shape)
            if weights[k + 1] * math.exp(log_top) < _NO_MASS:
                continue
            _fill_component(first[i], size, means[k], shape, work)
            for m in range(size):
                out[a + m] += weights[k + 1] * work[m]
        if first[i] == 0:
            out[a] += weights[0]


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
    share, constant, slope = np.empty(size), np.empty(size), np.empty(size)
    for k in range(1, size):
        # What the components' masses of a count have in common is left out.
        constant[k] = math.log(weights[k] + 1e-300) - shape * math.log1p(means[k - 1] / shape)
        slope[k] = math.log1p(shape / means[k - 1])
    for d in range(counts.shape[0]):
        for j in range(counts.shape[1]):
            m = float(counts[d, j])
            top = -np.inf
            for k in range(1, size):
                share[k] = constant[k] - m * slope[k]
                top = max(top, share[k])
            total = 0.0
            for k in range(1, size):
                share[k] = math.exp(share[k] - top)
                total += share[k]
            spike = weights[0] * math.exp(min(-top, 690.0)) if m == 0.0 else 0.0
            target = rng.random() * (total + spike) - spike
            if target < 0.0:
                rates[d, j] = 0.0
                continue
            k = 1
            while k < size - 1 and target >= share[k]:
                target -= share[k]
                k += 1
            rates[d, j] = rng.standard_gamma(shape + m) / (shape / means[k - 1] + 1.0)
