"""Smooth distributions in coordinates whitened by a release: map, prior, derivatives.

The coordinates x = (s, ξ, ζ) stand for log τ = mean + sd s, little informed directions
α = centre(τ) + spread(τ) ξ, and well informed directions β(ζ; α, τ) (see `straighten`), where
α, β ~ N(0, I), τ ~ Gamma, and (θ/τ, η) = level + loose' α + tight' β.

The constants are a tuple, ``frame``:

cells : int
    K.
scale : ndarray, shape (4,)
    Mean and sd of log τ, first node and step of the grid.
law : ndarray, shape (3,)
    Shape and rate of the prior of τ, log of what normalises the density of x.
level : ndarray, shape (K + m,)
    Prior mean of (θ/τ, η).
loose : ndarray, shape (L, K + m)
    Directions of α.
tight, functionals : ndarray, shape (r, K + m)
    Directions of β, functionals of the weights that tie them.
target : ndarray, shape (r,)
    Released values of the functionals.
grid : ndarray, shape (4, G, L + r)
    Centres of (α, β) at nodes in log τ, their slopes a step, log spreads, their slopes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from dpbayes.kernels.mixture_weights import mixture_weights, weights_pullback
from dpbayes.kernels.small_algebra import OPTIONS, times, transposed_times
from dpbayes.kernels.straighten import straighten, straighten_inverse, straighten_pullback

__all__ = [
    "coordinates",
    "log_posterior",
    "prior_and_weights",
    "prior_and_weights_pullback",
    "weights_of",
]


@njit(**OPTIONS)
def _at_scale(log_tau, frame):
    """Centres and log spreads at τ, and their derivatives in log τ: cubics between nodes."""
    scale, grid = frame[1], frame[8]
    position = (log_tau - scale[2]) / scale[3]
    inside = min(max(position, 0.0), grid.shape[1] - 1.0)
    node = min(int(inside), grid.shape[1] - 2)
    t = inside - node
    moving = 1.0 / scale[3] if position == inside else 0.0
    rise, rising = t * t * (3.0 - 2.0 * t), 6.0 * t * (1.0 - t) * moving
    left, left_moving = t * (1.0 - t) * (1.0 - t), (1.0 - t) * (1.0 - 3.0 * t) * moving
    right, right_moving = t * t * (t - 1.0), t * (3.0 * t - 2.0) * moving
    size = grid.shape[2]
    value, slope = np.empty((2, size)), np.empty((2, size))
    for part in range(2):
        height, tangent = grid[2 * part], grid[2 * part + 1]
        for i in range(size):
            jump = height[node + 1, i] - height[node, i]
            value[part, i] = (
                height[node, i] + rise * jump + left * tangent[node, i]
                + right * tangent[node + 1, i]
            )  # fmt: skip
            slope[part, i] = (
                rising * jump + left_moving * tangent[node, i]
                + right_moving * tangent[node + 1, i]
            )  # fmt: skip
    return value, slope


@njit(**OPTIONS)
def _forward(x, frame):
    """Follow the map, keeping what its derivatives need."""
    cells, scale, law, level, loose, tight, functionals, target, _ = frame
    free = loose.shape[0]
    log_tau = scale[0] + scale[1] * x[0]
    tau = math.exp(log_tau)
    log_prior = law[2] + law[0] * log_tau - law[1] * tau
    local = _at_scale(log_tau, frame)[0]
    alpha = np.empty(free)
    for i in range(free):
        alpha[i] = local[0, i] + math.exp(local[1, i]) * x[1 + i]
        log_prior += local[1, i] - 0.5 * alpha[i] * alpha[i]
    rooms, beta, centre = np.empty((3, level.size)), np.empty(target.size), local[0, free:]
    base, raw, weights = rooms[0], rooms[1], rooms[2]
    transposed_times(loose, alpha, base)
    for k in range(level.size):
        base[k] += level[k]
    log_prior += straighten(
        x[1 + free :], base, tau, target, cells, tight, functionals, centre, beta
    )
    transposed_times(tight, beta, raw)
    for i in range(beta.size):
        log_prior -= 0.5 * beta[i] * beta[i]
    for k in range(level.size):
        raw[k] += base[k]
    rest = mixture_weights(raw, tau, cells, weights)
    return log_prior, weights, tau, (alpha, base, beta, centre, raw, rest)


@njit(**OPTIONS)
def _backward(x, frame, weights, tau, kept, d_weights):
    """Gradient of log prior + d_weights · weights."""
    cells, scale, law, _, loose, tight, functionals, target, _ = frame
    alpha, base, beta, centre, raw, rest = kept
    free, gradient = loose.shape[0], np.empty(x.size)
    rooms, d_beta, d_alpha, d_tau = np.empty((2, raw.size)), beta.copy(), alpha.copy(), 0.0
    d_raw, d_base = rooms[0], rooms[1]
    weights_pullback(weights, rest, cells, d_weights, d_raw)
    for k in range(cells):
        d_tau += d_raw[k] * raw[k]
        d_raw[k] *= tau
    times(tight, d_raw, d_beta)
    for i in range(beta.size):
        d_beta[i] -= beta[i]
    d_tau += straighten_pullback(
        beta, centre, x[1 + free :], base, tau, target, cells, tight, functionals, d_beta,
        gradient[1 + free :], d_base,
    )  # fmt: skip
    for k in range(raw.size):
        d_base[k] += d_raw[k]
    times(loose, d_base, d_alpha)
    d_log_tau = tau * (d_tau - law[1]) + law[0]
    local, slope = _at_scale(scale[0] + scale[1] * x[0], frame)
    for i in range(free):
        d_alpha[i] -= alpha[i]
        gradient[1 + i] = math.exp(local[1, i]) * d_alpha[i]
        d_log_tau += slope[0, i] * d_alpha[i] + slope[1, i] * (1.0 + gradient[1 + i] * x[1 + i])
    gradient[0] = scale[1] * d_log_tau
    return gradient


@njit(**OPTIONS)
def prior_and_weights(x, frame):
    """Log prior density of the coordinates, the weights they stand for, and τ.

    Parameters
    ----------
    x : ndarray, shape (K + m,)
        Coordinates.
    frame : tuple
        Constants (see the module).

    Returns
    -------
    log_prior : float
        -inf where the coordinates stand for nothing.
    weights : ndarray, shape (K + m,)
        Weights of cells and atoms.
    tau : float
        τ.
    """
    return _forward(x, frame)[:3]


@njit(**OPTIONS)
def prior_and_weights_pullback(x, frame, d_log_prior, d_weights, d_tau):
    """Pull derivatives with respect to `prior_and_weights` back to the coordinates.

    Parameters
    ----------
    x, frame
        As in `prior_and_weights`.
    d_log_prior : float
        Derivative with respect to the log prior density.
    d_weights : ndarray, shape (K + m,)
        Derivative with respect to the weights.
    d_tau : float
        Derivative with respect to τ.

    Returns
    -------
    ndarray, shape (K + m,)
    """
    _, weights, tau, kept = _forward(x, frame)
    # The gradient is linear in the weights' derivative and holds the prior's once.
    gradient = _backward(x, frame, weights, tau, kept, d_weights)
    if d_log_prior != 1.0:
        prior = _backward(x, frame, weights, tau, kept, np.zeros(weights.size))
        for i in range(x.size):
            gradient[i] += (d_log_prior - 1.0) * prior[i]
    gradient[0] += d_tau * tau * frame[1][1]
    return gradient


@njit(**OPTIONS)
def coordinates(log_tau, alpha, beta, frame):
    """Coordinates that stand for given directions.

    Parameters
    ----------
    log_tau : float
        log τ.
    alpha, beta : ndarray, shapes (L,) and (r,)
        Little and well informed directions.
    frame : tuple
        Constants (see the module).

    Returns
    -------
    ndarray, shape (K + m,)
    """
    cells, scale, _, level, loose, tight, functionals, target, _ = frame
    free = alpha.size
    local = _at_scale(log_tau, frame)[0]
    x = np.empty(1 + free + beta.size)
    x[0] = (log_tau - scale[0]) / scale[1]
    for i in range(free):
        x[1 + i] = (alpha[i] - local[0, i]) * math.exp(-local[1, i])
    base = np.empty(level.size)
    transposed_times(loose, alpha, base)
    for k in range(level.size):
        base[k] += level[k]
    x[1 + free :] = straighten_inverse(
        beta, base, math.exp(log_tau), target, cells, tight, functionals, local[0, free:]
    )
    return x


@njit(**OPTIONS)
def weights_of(x, frame):
    """Weights and τ of many coordinates.

    Parameters
    ----------
    x : ndarray, shape (S, K + m)
        Coordinates, a row each.
    frame : tuple
        Constants (see the module).

    Returns
    -------
    weights : ndarray, shape (S, K + m)
    tau : ndarray, shape (S,)
    """
    weights, tau = np.empty(x.shape), np.empty(x.shape[0])
    for i in range(x.shape[0]):
        _, found, tau[i] = prior_and_weights(x[i], frame)
        weights[i] = found
    return weights, tau


@njit(**OPTIONS)
def log_posterior(x, frame, table, counts):
    """Log posterior density of the coordinates, up to a constant, and its gradient.

    Parameters
    ----------
    x, frame
        As in `prior_and_weights`.
    table : ndarray, shape (J, K + m)
        Probability of each released cell given each basis element.
    counts : ndarray, shape (J,)
        Records by released cell, none of them 0.

    Returns
    -------
    value : float
        Log prior density plus Σ_j c_j log (A w)_j.
    gradient : ndarray, shape (K + m,)
    """
    value, weights, tau, kept = _forward(x, frame)
    density, d_weights = np.empty(counts.size), np.empty(weights.size)
    times(table, weights, density)
    for j in range(counts.size):
        if not density[j] > 0.0:
            return -np.inf, np.zeros(x.size)
        value += counts[j] * math.log(density[j])
        density[j] = counts[j] / density[j]
    if not value > -np.inf:
        return -np.inf, np.zeros(x.size)
    transposed_times(table, density, d_weights)
    return value, _backward(x, frame, weights, tau, kept, d_weights)
