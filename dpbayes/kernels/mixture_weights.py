"""Weights of cells and atoms, functionals of them along a few directions, derivatives.

Cells have log weights θ = τ ρ and atoms log odds η against all cells; raw = (ρ, η). Along
directions β, raw = base + T' β, and functionals of the weights are F w.

A *point* is what `linearise` finds at one β: ``wide``, shape (2 + r, K + m), holds raw, the
weights, and the derivatives of the log weights with respect to β, a row each; ``narrow``,
shape (1 + r, r), holds the residuals (targets less functionals) and the derivatives of the
functionals (rows) with respect to β (columns). `point` makes room for one.
"""

from __future__ import annotations

import math
from typing import Any

import llvmlite.binding
import numpy as np
from numba import carray, cfunc, njit, types

from dpbayes.kernels.small_algebra import FAST, OPTIONS

__all__ = [
    "COMPILED",
    "bend",
    "linearise",
    "mixture_weights",
    "pull_linearise",
    "weights_pullback",
]


@njit(**OPTIONS)
def mixture_weights(raw, tau, cells, out):
    """Weights of cells and atoms.

    Parameters
    ----------
    raw : ndarray, shape (K + m,)
        θ / τ of the cells, then η of the atoms.
    tau : float
        τ.
    cells : int
        K.
    out : ndarray, shape (K + m,)
        Becomes the weights.

    Returns
    -------
    float
        Mass of all cells.
    """
    top, highest = -math.inf, 0.0
    for k in range(cells):
        top = max(top, tau * raw[k])
    for k in range(cells, raw.size):
        highest = max(highest, raw[k])
    total, odds = 0.0, math.exp(-highest)
    for k in range(cells):
        out[k] = math.exp(tau * raw[k] - top)
        total += out[k]
    for k in range(cells, raw.size):
        out[k] = math.exp(raw[k] - highest)
        odds += out[k]
    rest = math.exp(-highest) / odds
    for k in range(cells):
        out[k] *= rest / total
    for k in range(cells, raw.size):
        out[k] /= odds
    return rest


@njit(**FAST)
def weights_pullback(weights, rest, cells, d_weights, out):
    """Pull derivatives with respect to weights back to θ and η.

    Parameters
    ----------
    weights : ndarray, shape (K + m,)
        Weights of cells and atoms.
    rest : float
        Mass of all cells.
    cells : int
        K.
    d_weights : ndarray, shape (K + m,)
        Derivatives.
    out : ndarray, shape (K + m,)
        Becomes the derivatives with respect to (θ, η).
    """
    inside = 0.0
    for k in range(cells):
        inside += weights[k] * d_weights[k]
    every = inside
    for k in range(cells, weights.size):
        every += weights[k] * d_weights[k]
    for k in range(cells):
        out[k] = weights[k] * (d_weights[k] - inside / rest)
    for k in range(cells, weights.size):
        out[k] = weights[k] * (d_weights[k] - every)


# numba optimises all that a function calls anew wherever it is used, so that kernels of many
# parts take minutes to compile. The larger parts are compiled once, on their own, and called
# by the names of their symbols.
COMPILED: Any = {k: v for k, v in FAST.items() if k != "nogil"}
_ARRAY = types.CPointer(types.float64)
_SHAPE = (types.float64, types.int64, types.int64, types.int64)  # τ, K, K + m, r
_LINEARISE: Any = types.float64(*(_ARRAY,) * 5, *_SHAPE, _ARRAY, _ARRAY)
_PULL: Any = types.float64(*(_ARRAY,) * 5, types.float64, *_SHAPE, _ARRAY)
_BEND: Any = types.void(*(_ARRAY,) * 4, types.float64, *_SHAPE, _ARRAY)


@cfunc(_LINEARISE, **COMPILED)
def _linearise(
    base_, target, tight_, functionals_, beta, tau, cells, size, r, wide_, narrow_
):  # fmt: skip
    base, wide, narrow = (
        carray(base_, (size,)),
        carray(wide_, (2 + r, size)),
        carray(narrow_, (1 + r, r)),
    )
    tight, functionals = carray(tight_, (r, size)), carray(functionals_, (r, size))
    raw, weights = wide[0], wide[1]
    for k in range(size):
        raw[k] = base[k]
    for j in range(r):
        for k in range(size):
            raw[k] += tight[j, k] * beta[j]
    rest = mixture_weights(raw, tau, cells, weights)
    for j in range(r):
        cell_mean, atom_mean = 0.0, 0.0
        for k in range(cells):
            cell_mean += weights[k] * tight[j, k]
        for k in range(cells, size):
            atom_mean += weights[k] * tight[j, k]
        cell_mean /= rest
        for k in range(cells):
            wide[2 + j, k] = tau * (tight[j, k] - cell_mean) - atom_mean
        for k in range(cells, size):
            wide[2 + j, k] = tight[j, k] - atom_mean
    for i in range(r):
        value = 0.0
        for k in range(size):
            value += functionals[i, k] * weights[k]
        narrow[0, i] = target[i] - value
        for j in range(r):
            value = 0.0
            for k in range(size):
                value += functionals[i, k] * weights[k] * wide[2 + j, k]
            narrow[1 + i, j] = value
    return rest


@cfunc(_PULL, **COMPILED)
def _pull_linearise(
    wide_, tight_, functionals_, d_slope, d_value, rest, tau, cells, size, r, out_
):  # fmt: skip
    wide, out = carray(wide_, (2 + r, size)), carray(out_, (size,))
    tight, functionals = carray(tight_, (r, size)), carray(functionals_, (r, size))
    weights, room, d_tau = wide[1], np.zeros((3, size)), 0.0
    d_weights, d_share, inner = room[0], room[1], room[2]
    for i in range(r):
        for k in range(size):
            d_weights[k] += functionals[i, k] * d_value[i]
    for j in range(r):
        cell_sum, mean = 0.0, 0.0
        for k in range(size):
            inner[k] = 0.0
        for i in range(r):
            for k in range(size):
                inner[k] += functionals[i, k] * d_slope[i * r + j]
        for k in range(size):
            d_weights[k] += inner[k] * wide[2 + j, k]
            inner[k] *= weights[k]
        for k in range(cells):
            cell_sum += inner[k]
            mean += weights[k] * tight[j, k]
        mean /= rest
        every_sum = cell_sum
        for k in range(cells, size):
            every_sum += inner[k]
        # Through the means of the directions over the cells and over the atoms.
        for k in range(cells):
            d_share[k] -= tau * tight[j, k] * cell_sum
            d_tau += inner[k] * (tight[j, k] - mean)
        for k in range(cells, size):
            d_weights[k] -= tight[j, k] * every_sum
    weights_pullback(weights, rest, cells, d_weights, out)
    average = 0.0
    for k in range(cells):
        average += weights[k] * d_share[k]
    average /= rest
    for k in range(cells):
        out[k] += weights[k] / rest * (d_share[k] - average)
        d_tau += out[k] * wide[0, k]
        out[k] *= tau
    return d_tau


@cfunc(_BEND, **COMPILED)
def _bend(wide_, narrow, tight_, functionals_, rest, tau, cells, size, r, out):
    wide = carray(wide_, (2 + r, size))
    tight, functionals = carray(tight_, (r, size)), carray(functionals_, (r, size))
    weights, pulls = wide[1], np.zeros(size)
    inside, every = 0.0, 0.0
    for i in range(r):
        for k in range(size):
            pulls[k] += functionals[i, k] * narrow[i]
    for k in range(size):
        pulls[k] *= weights[k]
        every += pulls[k]
    for k in range(cells):
        inside += pulls[k]
    for j in range(r):
        mass = 0.0
        for k in range(cells):
            mass += weights[k] * wide[2 + j, k]
        for i in range(j + 1):
            total, cell, atom, mean = 0.0, 0.0, 0.0, 0.0
            for k in range(size):
                total += pulls[k] * wide[2 + i, k] * wide[2 + j, k]
            for k in range(cells):
                cell += weights[k] * tight[i, k] * wide[2 + j, k]
                mean += weights[k] * tight[i, k]
            for k in range(cells, size):
                atom += weights[k] * tight[i, k] * wide[2 + j, k]
            # How the means of the directions over cells and atoms move.
            cell = tau * (cell - mean * mass / rest) / rest
            value = total - inside * cell - every * atom
            out[i * r + j], out[j * r + i] = value, value


llvmlite.binding.add_symbol("dpbayes_linearise", _linearise.address)
llvmlite.binding.add_symbol("dpbayes_pull_linearise", _pull_linearise.address)
llvmlite.binding.add_symbol("dpbayes_bend", _bend.address)
_linearise_symbol: Any = types.ExternalFunction("dpbayes_linearise", _LINEARISE)
_pull_symbol: Any = types.ExternalFunction("dpbayes_pull_linearise", _PULL)
_bend_symbol: Any = types.ExternalFunction("dpbayes_bend", _BEND)


@njit(**OPTIONS)
def linearise(base, tau, target, cells, tight, functionals, beta, wide, narrow):
    """Find the weights at given directions, and how functionals of them move.

    Parameters
    ----------
    base : ndarray, shape (K + m,)
        θ / τ of the cells, then η of the atoms, without the directions.
    tau : float
        τ.
    target : ndarray, shape (r,)
        Released values of the functionals.
    cells : int
        K.
    tight : ndarray, shape (r, K + m)
        Directions T.
    functionals : ndarray, shape (r, K + m)
        Functionals F.
    beta : ndarray, shape (r,)
        Directions β.
    wide, narrow : ndarray
        Become the point (see the module).

    Returns
    -------
    float
        Mass of all cells.
    """
    return _linearise_symbol(
        base.ctypes, target.ctypes, tight.ctypes, functionals.ctypes, beta.ctypes,
        tau, cells, tight.shape[1], tight.shape[0], wide.ctypes, narrow.ctypes,
    )  # fmt: skip


@njit(**OPTIONS)
def pull_linearise(wide, rest, tau, cells, tight, functionals, d_slope, d_value, out):
    """Pull derivatives of slopes and values of functionals back to raw and τ.

    Parameters
    ----------
    wide, rest
        Point and mass of all cells that `linearise` found.
    tau, cells, tight, functionals
        As in `linearise`.
    d_slope : ndarray, shape (r, r)
        Derivatives with respect to the slopes.
    d_value : ndarray, shape (r,)
        Derivatives with respect to the values.
    out : ndarray, shape (K + m,)
        Becomes the derivative with respect to raw at fixed directions, so also to the base.

    Returns
    -------
    float
        Derivative with respect to τ.
    """
    return _pull_symbol(
        wide.ctypes, tight.ctypes, functionals.ctypes, d_slope.ctypes, d_value.ctypes, rest,
        tau, cells, tight.shape[1], tight.shape[0], out.ctypes,
    )  # fmt: skip


@njit(**OPTIONS)
def bend(wide, narrow, rest, tau, cells, tight, functionals, out):
    """Second derivatives of the functionals with respect to β, times their residuals.

    Parameters
    ----------
    wide, narrow, rest
        Point and mass of all cells that `linearise` found.
    tau, cells, tight, functionals
        As in `linearise`.
    out : ndarray, shape (r, r)
        Becomes the sum.
    """
    _bend_symbol(
        wide.ctypes, narrow.ctypes, tight.ctypes, functionals.ctypes, rest,
        tau, cells, tight.shape[1], tight.shape[0], out.ctypes,
    )  # fmt: skip
