"""The no-U-turn sampler, compiled, on the log posterior of a mixture's weights: arrays only.

Trees are built leaf by leaf, without recursion: of the leaves of a subtree one momentum for
each of its levels is kept, against which a later leaf is checked for a U-turn.

References
----------
Hoffman & Gelman (2014), The No-U-Turn sampler, JMLR 15:1593-1623. Betancourt (2017), A
conceptual introduction to Hamiltonian Monte Carlo, arXiv 1701.02434, appendix A. Phan, Pradhan
& Jankowiak (2019), Composable effects for flexible and accelerated probabilistic programming in
NumPyro, arXiv 1912.11554, algorithm 2.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from dpbayes.kernels.scale_weights import log_posterior

__all__ = ["advance"]

#: Doublings of a trajectory, and energy error that counts as a divergence.
_DEPTH, _LOST = 8, 1000.0
#: Constants of the dual averaging of the step size (Hoffman & Gelman, section 3.2).
_SHRINK, _DELAY, _DECAY = 0.05, 10.0, 0.75


@njit(cache=True, nogil=True)
def _whitened(u, mode, factor, model):
    """Log posterior and its gradient in u at x = mode + factor u."""
    value, gradient = log_posterior(mode + factor @ u, model)
    return value, gradient @ factor


@njit(cache=True, nogil=True)
def _turns(left, right, total):
    """Whether a trajectory with these end momenta and this sum of momenta turns back."""
    a, b = 0.0, 0.0
    for i in range(left.size):
        inner = total[i] - 0.5 * (left[i] + right[i])
        a += left[i] * inner
        b += right[i] * inner
    return a <= 0.0 or b <= 0.0


@njit(cache=True, nogil=True)
def _log_add(a, b):
    top = max(a, b)
    return top + math.log(math.exp(a - top) + math.exp(b - top)) if top > -np.inf else top


@njit(cache=True, nogil=True)
def _levels(leaf):
    """First and last level of the subtrees that end at an odd leaf, or its level if even."""
    last, n = 0, leaf >> 1
    while n:
        last += n & 1
        n >>= 1
    ones, n = 0, leaf
    while n & 1:
        ones += 1
        n >>= 1
    return last - ones + 1, last


@njit(cache=True, nogil=True)
def _subtree(rng, edge, depth, step, energy, chosen, total, mode, factor, model):
    """Grow a subtree of 2^depth leaves from an end of the trajectory.

    Parameters
    ----------
    edge : ndarray, shape (3, dimension)
        Position, momentum and gradient of the end, moved along.
    chosen : ndarray, shape (2, dimension)
        Receives position and gradient of the leaf that represents the subtree.
    total : ndarray
        Receives the sum of the leaves' momenta.

    Returns
    -------
    value, log_weight, accepted, leaves, turned, lost
        Log density of the representative; log weight of the subtree; sum of the acceptance
        probabilities of its leaves; their number; whether it turns back or diverges.
    """
    position, momentum, gradient = edge[0], edge[1], edge[2]
    kept = np.empty((2, _DEPTH + 1, position.size))
    best, log_weight, accepted = 0.0, -np.inf, 0.0
    total[:] = 0.0
    for leaf in range(1 << depth):
        momentum += 0.5 * step * gradient
        position += step * momentum
        value, slope = _whitened(position, mode, factor, model)
        gradient[:] = slope
        momentum += 0.5 * step * gradient
        change = value - 0.5 * np.dot(momentum, momentum) - energy
        if not change > -_LOST:
            return best, log_weight, accepted, leaf + 1, False, True
        accepted += math.exp(min(change, 0.0))
        log_weight = _log_add(log_weight, change)
        if math.log(rng.random()) < change - log_weight:
            chosen[0], chosen[1], best = position, gradient, value
        total += momentum
        low, high = _levels(leaf)
        if leaf % 2 == 0:
            kept[0, high], kept[1, high] = momentum, total
            continue
        for level in range(high, low - 1, -1):
            if _turns(kept[0, level], momentum, total - kept[1, level] + kept[0, level]):
                return best, log_weight, accepted, leaf + 1, True, False
    return best, log_weight, accepted, 1 << depth, False, False


@njit(cache=True, nogil=True)
def _transition(rng, state, value, step, mode, factor, model):
    """Move `state` (position and gradient) once; its new log density and how the move went."""
    dimension = state.shape[1]
    momentum = rng.standard_normal(dimension)
    energy = value - 0.5 * np.dot(momentum, momentum)
    ends = np.empty((2, 3, dimension))
    for side in range(2):
        ends[side, 0], ends[side, 1], ends[side, 2] = state[0], momentum, state[1]
    chosen, part = np.empty((2, dimension)), np.empty(dimension)
    total, log_weight = momentum.copy(), 0.0
    accepted, leaves, lost = 0.0, 0, False
    for depth in range(_DEPTH):
        side = int(rng.random() < 0.5)
        best, weight, share, number, turned, lost = _subtree(
            rng, ends[side], depth, step if side else -step, energy, chosen, part, mode, factor,
            model,
        )  # fmt: skip
        accepted += share
        leaves += number
        if turned or lost:
            break
        if math.log(rng.random()) < weight - log_weight:
            state[:], value = chosen, best
        log_weight = _log_add(log_weight, weight)
        total += part
        if _turns(ends[0, 1], ends[1, 1], total):
            break
    return value, accepted / leaves, leaves, lost


@njit(cache=True, nogil=True)
def advance(rng, start, step, target, mode, factor, model, out):
    """Run a chain.

    Parameters
    ----------
    rng : Generator
        Source of randomness.
    start : ndarray
        Position to start from, in the coordinates u with x = mode + factor u.
    step : float
        Step size, or first guess of it.
    target : float
        Acceptance rate to which the step size is adapted; 0 to keep it.
    mode, factor : ndarray
        Origin and scale of the coordinates; the posterior should be about standard normal
        in them.
    model : Model
        Posterior.
    out : ndarray, shape (draws, dimension)
        Receives the positions.

    Returns
    -------
    step : float
        Adapted step size.
    leaves : int
        Evaluations of the log posterior.
    lost : int
        Divergent transitions.
    """
    state = np.empty((2, start.size))
    value, slope = _whitened(start, mode, factor, model)
    state[0], state[1] = start, slope
    centre, error, log_mean = math.log(10.0 * step), 0.0, 0.0
    leaves, lost = 0, 0
    for i in range(out.shape[0]):
        value, accepted, number, diverged = _transition(
            rng, state, value, step, mode, factor, model
        )
        leaves += number
        lost += diverged
        out[i] = state[0]
        if target > 0.0:
            share = 1.0 / (i + 1.0 + _DELAY)
            error += share * (target - accepted - error)
            log_step = centre - math.sqrt(i + 1.0) / _SHRINK * error
            share = (i + 1.0) ** -_DECAY
            log_mean += share * (log_step - log_mean)
            step = math.exp(log_step)
    return math.exp(log_mean) if target > 0.0 else step, leaves, lost
