r"""Log posterior of the weights of a learned mixture of scales, and its gradient: arrays only.

The weights are a softmax of log weights :math:`\eta` that the coordinates x give as

.. math::

   \eta_1 = 0, \quad \eta_{k+1} = \eta_k + c \, x_k, \quad \eta_0 = a + b x_0 ,

a random walk over the components in the order of their means, and the spike beside its first
step. Spike and smallest components explain the same cells: what the data say of both together,
and the ratio that x_0 stands for, are different coordinates. Under the prior x_0 is standard
normal and the steps are normal with a common scale that is log-normal and integrated out; with
the scale as a coordinate of its own, data that pin the steps down would tie it to all of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

__all__ = ["Model", "all_weights_at", "log_posterior", "log_prior", "weights_at"]

#: Nodes on each side of the integral over the scale of the steps, and their distance in its sd.
_NODES, _SPACING = 30, 0.2


class Model(NamedTuple):
    """What the log posterior of the weights is made of.

    Parameters
    ----------
    evidence : ndarray, shape (rows, components + 1)
        Evidence of the cells under the spike and the components; cells that say the same
        share a row.
    copies : ndarray
        How many cells share each row.
    first, second : ndarray
        Evidence times E[N | y, k] and E[N² | y, k]; empty where nothing is known of sums.
    leaf_group : ndarray of int
        Group of each row, where something is known of sums.
    parent, released, noise, total
        What was released about sums (see `_tree_adjoint`); `parent` is empty for nothing.
    prior : tuple of float
        a, b and c of the module's formula, and the sd of the log scale of the steps.
    """

    evidence: np.ndarray
    copies: np.ndarray
    first: np.ndarray
    second: np.ndarray
    leaf_group: np.ndarray
    parent: np.ndarray
    released: np.ndarray
    noise: np.ndarray
    total: float
    prior: tuple[float, float, float, float]


@njit(cache=True, nogil=True)
def weights_at(x, prior):
    """Weights of the spike and the components at coordinates x."""
    weights = np.zeros(x.size + 1)
    weights[0] = prior[0] + prior[1] * x[0]
    for k in range(1, x.size):
        weights[k + 1] = weights[k] + prior[2] * x[k]
    top = weights.max()
    for k in range(weights.size):
        weights[k] = math.exp(weights[k] - top)
    return weights / weights.sum()


@njit(cache=True, nogil=True)
def all_weights_at(x, prior):
    """Weights at each row of coordinates."""
    out = np.empty((x.shape[0], x.shape[1] + 1))
    for i in range(x.shape[0]):
        out[i] = weights_at(x[i], prior)
    return out


@njit(cache=True, nogil=True)
def log_prior(x, spread):
    """Log prior density of the coordinates up to a constant, and its gradient.

    `spread` is the sd of the log of the scale of the steps; the integral over it is a
    trapezoidal sum, which for an integrand like a normal density is exact to rounding.
    """
    square = np.dot(x[1:], x[1:])
    terms, top = np.empty(2 * _NODES + 1), -np.inf
    for i in range(terms.size):
        z = _SPACING * (i - _NODES)
        log_scale = spread * z
        terms[i] = -0.5 * (square * math.exp(-2.0 * log_scale) + z * z)
        terms[i] -= (x.size - 1) * log_scale
        top = max(top, terms[i])
    total, precision = 0.0, 0.0
    for i in range(terms.size):
        term = math.exp(terms[i] - top)
        total += term
        precision += term * math.exp(-2.0 * spread * _SPACING * (i - _NODES))
    gradient = x * (-precision / total)
    gradient[0] = -x[0]
    return top + math.log(total) - 0.5 * x[0] * x[0], gradient


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
def _sums(model, weights, density, slope):
    """Log likelihood of what is known of sums; adds its derivatives in the weights to `slope`."""
    groups, rows = model.parent.size, density.size
    one, two = model.first @ weights, model.second @ weights
    moments, adjoint = np.zeros((groups, 2)), np.zeros((groups, 2))
    for j in range(rows):
        one[j] /= density[j]
        two[j] /= density[j]
        moments[model.leaf_group[j], 0] += model.copies[j] * one[j]
        moments[model.leaf_group[j], 1] += model.copies[j] * max(two[j] - one[j] * one[j], 0.0)
    value = _tree_adjoint(moments, model.parent, model.released, model.noise, model.total, adjoint)
    in_mean, in_square, in_evidence = np.empty(rows), np.empty(rows), np.empty(rows)
    for j in range(rows):
        dm, dv = adjoint[model.leaf_group[j], 0], adjoint[model.leaf_group[j], 1]
        share = model.copies[j] / density[j]
        in_mean[j] = (dm - 2.0 * dv * one[j]) * share
        in_square[j] = dv * share
        in_evidence[j] = -(in_mean[j] * one[j] + in_square[j] * two[j])
    slope += in_mean @ model.first + in_square @ model.second + in_evidence @ model.evidence
    return value


@njit(cache=True, nogil=True)
def log_posterior(x, model):
    """Log posterior of the weights, labels and counts summed out, and its gradient in x.

    Parameters
    ----------
    x : ndarray
        Coordinates: of the spike, of the steps of the walk.
    model : Model
        Evidence of the cells and what is known of sums.

    Returns
    -------
    value : float
        Log posterior up to a constant; -inf where a cell has no evidence left.
    gradient : ndarray
    """
    weights = weights_at(x, model.prior)
    density = model.evidence @ weights
    value, gradient = log_prior(x, model.prior[3])
    for j in range(density.size):
        if not density[j] > 0.0:
            return -np.inf, gradient
        value += model.copies[j] * math.log(density[j])
    slope = (model.copies / density) @ model.evidence  # derivatives in the weights
    if model.parent.size:
        value += _sums(model, weights, density, slope)
    slope *= weights
    slope -= weights * slope.sum()  # in the log weights before they are normalised
    gradient[0] += model.prior[1] * slope[0]
    beyond = 0.0
    for k in range(x.size - 1, 0, -1):
        beyond += model.prior[2] * slope[k + 1]
        gradient[k] += beyond
    return value, gradient
