"""Coordinates of the directions of log weights that released functionals determine.

Given all else, directions β are tied by functionals F of the weights w(β) to released values
y. With the residuals ρ(β) = (y - F w(β), β), J = ∂(F w)/∂β, c the minimum of |ρ|², and
C C' = 1 + J(c)' J(c), the coordinates are

    ζ = C⁻¹ (β - J(c)' (y - F w(β))),

the residuals projected on their tangent at the minimum: ζ is standard normal where |ρ|²/2 is
quadratic, and follows the surfaces F w = y where it is not. All derivatives are exact, by the
implicit function theorem.

References
----------
Bardsley, J. M., Solonen, A., Haario, H. & Laine, M. (2014), Randomize-then-optimize, SIAM
Journal on Scientific Computing 36, section 2 (the projection, there used for proposals).
"""

from __future__ import annotations

import math
from typing import Any

import llvmlite.binding
import numpy as np
from numba import carray, cfunc, njit, types

from dpbayes.kernels.mixture_weights import COMPILED, bend, linearise, pull_linearise
from dpbayes.kernels.small_algebra import (
    OPTIONS,
    cholesky,
    gram,
    inverse,
    pull_cholesky,
    solve_lower,
    solve_upper,
    times,
    transposed_times,
)

__all__ = ["straighten", "straighten_inverse", "straighten_pullback"]

STEPS = 200
# Squared length, in posterior standard deviations, of a step after which Newton stops: what
# is left is of the order of its square.
ENOUGH = 1e-8
SHORTEST = 1e-6  # share of a step


@njit(**OPTIONS)
def _hessian(wide, narrow, rest, tau, cells, tight, functionals, work, out):
    """Cholesky factor of the second derivatives of |ρ|²/2, of 1 + J' J if they have none."""
    slope = narrow[1:]
    gram(slope, slope, work)
    bend(wide, narrow, rest, tau, cells, tight, functionals, out)
    for i in range(out.shape[0]):
        for j in range(out.shape[0]):
            out[i, j] = work[i, j] - out[i, j]
    if not cholesky(out, out):
        cholesky(work, out)


@njit(**OPTIONS)
def _minimise(base, tau, target, cells, tight, functionals, beta, wide, narrow):
    """Move β to the minimum c of |ρ|² by Newton's method with backtracking."""
    size = beta.size
    vectors, matrices = np.empty((3, size)), np.empty((2, size, size))
    trial, downhill, step = vectors[0], vectors[1], vectors[2]
    rest = linearise(base, tau, target, cells, tight, functionals, beta, wide, narrow)
    for _ in range(STEPS):
        transposed_times(narrow[1:], narrow[0], downhill)
        height = 0.0
        for i in range(size):
            height += narrow[0, i] * narrow[0, i] + beta[i] * beta[i]
            downhill[i] -= beta[i]
            step[i] = downhill[i]
        factor = matrices[1]
        _hessian(wide, narrow, rest, tau, cells, tight, functionals, matrices[0], factor)
        solve_lower(factor, step)
        solve_upper(factor, step)
        gain, length = 0.0, 1.0
        for i in range(size):
            gain += downhill[i] * step[i]
        while True:
            for i in range(size):
                trial[i] = beta[i] + length * step[i]
            rest = linearise(base, tau, target, cells, tight, functionals, trial, wide, narrow)
            lower = 0.0
            for i in range(size):
                lower += narrow[0, i] * narrow[0, i] + trial[i] * trial[i]
            if lower <= height - 0.2 * length * gain or gain < ENOUGH or length < SHORTEST:
                break
            length *= 0.5
        for i in range(size):
            beta[i] = trial[i]
        if gain < ENOUGH:
            break
    return rest


@njit(**OPTIONS)
def _gap(zeta, fixed, factor, residual, beta, out):
    """Coordinates of β less ζ; their sum of squares."""
    transposed_times(fixed, residual, out)
    for i in range(beta.size):
        out[i] = beta[i] - out[i]
    solve_lower(factor, out)
    total = 0.0
    for i in range(beta.size):
        out[i] -= zeta[i]
        total += out[i] * out[i]
    return total


@njit(**OPTIONS)
def _locate(zeta, fixed, factor, base, tau, target, cells, tight, functionals, beta, wide, narrow):
    """Move β from the minimum to coordinates ζ by damped Newton; return the error left.

    Short steps of Newton's method follow the line from 0 to ζ, along which β is defined.
    """
    size = beta.size
    vectors, matrix = np.empty((4, size)), np.empty((size, size))
    trial, gap, step, full = vectors[0], vectors[1], vectors[2], vectors[3]
    linearise(base, tau, target, cells, tight, functionals, beta, wide, narrow)
    error = _gap(zeta, fixed, factor, narrow[0], beta, gap)
    for _ in range(STEPS):
        gram(fixed, narrow[1:], matrix)
        inverse(matrix, step)
        for i in range(size):
            full[i] = 0.0
            for j in range(i + 1):
                full[i] += factor[i, j] * gap[j]
        times(matrix, full, step)
        before, length = error, 1.0
        while True:
            for i in range(size):
                trial[i] = beta[i] - length * step[i]
            linearise(base, tau, target, cells, tight, functionals, trial, wide, narrow)
            error = _gap(zeta, fixed, factor, narrow[0], trial, gap)
            if error < (1.0 - 0.5 * length) * before or before < ENOUGH or length < SHORTEST:
                break
            length *= 0.5
        for i in range(size):
            beta[i] = trial[i]
        if before < ENOUGH:
            break
    return error


@njit(**OPTIONS)
def _straighten(zeta, base, tau, target, cells, tight, functionals, centre, beta):
    r, size = tight.shape
    wide, narrow, matrices = np.empty((2 + r, size)), np.empty((1 + r, r)), np.empty((3, r, r))
    fixed, work, factor = matrices[0], matrices[1], matrices[2]
    _minimise(base, tau, target, cells, tight, functionals, centre, wide, narrow)
    for i in range(r):
        beta[i] = centre[i]
        for j in range(r):
            fixed[i, j] = narrow[1 + i, j]
    gram(fixed, fixed, work)
    cholesky(work, factor)
    error = _locate(
        zeta, fixed, factor, base, tau, target, cells, tight, functionals, beta, wide, narrow
    )
    gram(fixed, narrow[1:], work)
    determinant = inverse(work, narrow[0])
    # Where the determinant is not positive the surfaces fold back on themselves.
    if not (error < ENOUGH and determinant > 0.0):
        return -math.inf
    log_det = -math.log(determinant)
    for i in range(r):
        log_det += math.log(factor[i, i])
    return log_det


@njit(**OPTIONS)
def _pullback(
    beta, centre, zeta, base, tau, target, cells, tight, functionals, d_beta, d_zeta, d_base
):
    r, size = tight.shape
    wide, narrow, more = np.empty((2 + r, size)), np.empty((1 + r, r)), np.empty(size)
    matrices, vectors = np.empty((6, r, r)), np.empty((2, r))
    fixed, factor, inverted = matrices[0], matrices[1], matrices[2]
    d_slope, d_fixed, d_factor = matrices[3], matrices[4], matrices[5]
    moved, d_value = vectors[0], vectors[1]
    linearise(base, tau, target, cells, tight, functionals, centre, wide, narrow)
    for i in range(r):
        for j in range(r):
            fixed[i, j] = narrow[1 + i, j]
    gram(fixed, fixed, inverted)
    cholesky(inverted, factor)
    rest = linearise(base, tau, target, cells, tight, functionals, beta, wide, narrow)
    slope, residual = narrow[1:], narrow[0]
    gram(fixed, slope, inverted)
    inverse(inverted, moved)
    # Through the slopes at β and at the centre in the determinant.
    for k in range(r):
        d_value[k] = 0.0
        for i in range(r):
            d_fixed[k, i], d_slope[k, i] = 0.0, 0.0
            for j in range(r):
                d_fixed[k, i] -= slope[k, j] * inverted[j, i]
                d_slope[k, i] -= fixed[k, j] * inverted[i, j]
    d_tau = pull_linearise(wide, rest, tau, cells, tight, functionals, d_slope, d_value, d_base)
    # β solves β - J(c)' residual - C ζ = 0.
    times(tight, d_base, d_value)
    for i in range(r):
        d_value[i] += d_beta[i]
    transposed_times(inverted, d_value, moved)
    times(fixed, moved, d_value)
    for i in range(r):
        d_value[i] = -d_value[i]
        d_zeta[i] = 0.0
        for j in range(r):
            d_slope[i, j] = 0.0
            d_fixed[i, j] += residual[i] * moved[j]
            d_factor[i, j] = moved[i] * zeta[j] if j <= i else 0.0
            d_zeta[i] += factor[j, i] * moved[j] if j >= i else 0.0
        d_factor[i, i] += 1.0 / factor[i, i]
    d_tau += pull_linearise(wide, rest, tau, cells, tight, functionals, d_slope, d_value, more)
    for k in range(size):
        d_base[k] += more[k]
    pull_cholesky(factor, d_factor, inverted)
    return d_tau + _pull_centre(
        centre,
        base,
        tau,
        target,
        cells,
        tight,
        functionals,
        d_fixed,
        d_factor,
        wide,
        narrow,
        d_base,
    )


@njit(**OPTIONS)
def _pull_centre(
    centre, base, tau, target, cells, tight, functionals, d_fixed, d_gram, wide, narrow, d_base
):
    """Pull derivatives with respect to J(c) and 1 + J(c)' J(c) to the base and τ."""
    r, size = tight.shape
    matrices, vectors, rooms = np.empty((2, r, r)), np.empty((2, r)), np.empty((2, size))
    moved, d_value = vectors[0], vectors[1]
    rest = linearise(base, tau, target, cells, tight, functionals, centre, wide, narrow)
    for i in range(r):
        d_value[i] = 0.0
        for j in range(r):
            for k in range(r):
                d_fixed[i, j] += 2.0 * narrow[1 + i, k] * d_gram[k, j]
    d_tau = pull_linearise(wide, rest, tau, cells, tight, functionals, d_fixed, d_value, rooms[0])
    # The minimum solves c - J' residual = 0.
    hessian = matrices[0]
    _hessian(wide, narrow, rest, tau, cells, tight, functionals, matrices[1], hessian)
    times(tight, rooms[0], moved)
    solve_lower(hessian, moved)
    solve_upper(hessian, moved)
    times(narrow[1:], moved, d_value)
    for i in range(r):
        d_value[i] = -d_value[i]
        for j in range(r):
            d_fixed[i, j] = narrow[0, i] * moved[j]
    d_tau += pull_linearise(wide, rest, tau, cells, tight, functionals, d_fixed, d_value, rooms[1])
    for k in range(size):
        d_base[k] += rooms[0, k] + rooms[1, k]
    return d_tau


# Compiled once and called by the names of their symbols (see `mixture_weights`).
_ARRAY = types.CPointer(types.float64)
_SHAPE = (types.float64, types.int64, types.int64, types.int64)
_FORWARD: Any = types.float64(*(_ARRAY,) * 5, *_SHAPE, _ARRAY, _ARRAY)
_BACKWARD: Any = types.float64(*(_ARRAY,) * 8, *_SHAPE, _ARRAY, _ARRAY)


@cfunc(_FORWARD, **COMPILED)
def _straighten_at(
    zeta, base, target, tight, functionals, tau, cells, size, r, centre, beta
):  # fmt: skip
    return _straighten(
        carray(zeta, (r,)), carray(base, (size,)), tau, carray(target, (r,)), cells,
        carray(tight, (r, size)), carray(functionals, (r, size)), carray(centre, (r,)),
        carray(beta, (r,)),
    )  # fmt: skip


@cfunc(_BACKWARD, **COMPILED)
def _pullback_at(
    beta, centre, zeta, base, target, tight, functionals, d_beta, tau, cells, size, r,
    d_zeta, d_base,
):  # fmt: skip
    return _pullback(
        carray(beta, (r,)), carray(centre, (r,)), carray(zeta, (r,)), carray(base, (size,)), tau,
        carray(target, (r,)), cells, carray(tight, (r, size)), carray(functionals, (r, size)),
        carray(d_beta, (r,)), carray(d_zeta, (r,)), carray(d_base, (size,)),
    )  # fmt: skip


llvmlite.binding.add_symbol("dpbayes_straighten", _straighten_at.address)
llvmlite.binding.add_symbol("dpbayes_straighten_pullback", _pullback_at.address)
_straighten_symbol: Any = types.ExternalFunction("dpbayes_straighten", _FORWARD)
_pullback_symbol: Any = types.ExternalFunction("dpbayes_straighten_pullback", _BACKWARD)


@njit(**OPTIONS)
def straighten(zeta, base, tau, target, cells, tight, functionals, centre, beta):
    """Find the directions at given coordinates.

    Parameters
    ----------
    zeta : ndarray, shape (r,)
        Coordinates ζ.
    base : ndarray, shape (K + m,)
        θ / τ of the cells, then η of the atoms, without these directions.
    tau : float
        Scale τ of the cells' log weights.
    target : ndarray, shape (r,)
        Released values y of the functionals.
    cells : int
        K.
    tight : ndarray, shape (r, K + m)
        Directions T.
    functionals : ndarray, shape (r, K + m)
        Functionals F.
    centre : ndarray, shape (r,)
        Where the search for the minimum starts; becomes the minimum.
    beta : ndarray, shape (r,)
        Becomes the directions β.

    Returns
    -------
    float
        log det ∂β/∂ζ; -inf where there is no β at ζ.
    """
    return _straighten_symbol(
        zeta.ctypes, base.ctypes, target.ctypes, tight.ctypes, functionals.ctypes,
        tau, cells, tight.shape[1], tight.shape[0], centre.ctypes, beta.ctypes,
    )  # fmt: skip


@njit(**OPTIONS)
def straighten_pullback(
    beta, centre, zeta, base, tau, target, cells, tight, functionals, d_beta, d_zeta, d_base
):
    """Gradient of β·d_beta + log det ∂β/∂ζ.

    Parameters
    ----------
    beta, centre
        As `straighten` left them.
    zeta, base, tau, target, cells, tight, functionals
        As in `straighten`.
    d_beta : ndarray, shape (r,)
        Derivative with respect to β.
    d_zeta : ndarray, shape (r,)
        Becomes the derivative with respect to ζ.
    d_base : ndarray, shape (K + m,)
        Becomes the derivative with respect to the base.

    Returns
    -------
    float
        Derivative with respect to τ.
    """
    return _pullback_symbol(
        beta.ctypes, centre.ctypes, zeta.ctypes, base.ctypes, target.ctypes, tight.ctypes,
        functionals.ctypes, d_beta.ctypes, tau, cells, tight.shape[1], tight.shape[0],
        d_zeta.ctypes, d_base.ctypes,
    )  # fmt: skip


@njit(**OPTIONS)
def straighten_inverse(beta, base, tau, target, cells, tight, functionals, start):
    """Coordinates of given directions.

    Parameters
    ----------
    beta : ndarray, shape (r,)
        Directions β.
    base, tau, target, cells, tight, functionals
        As in `straighten`.
    start : ndarray, shape (r,)
        Where the search for the minimum starts.

    Returns
    -------
    ndarray, shape (r,)
        Coordinates ζ.
    """
    r, size = tight.shape
    wide, narrow, matrices = np.empty((2 + r, size)), np.empty((1 + r, r)), np.empty((3, r, r))
    fixed, work, factor = matrices[0], matrices[1], matrices[2]
    centre, zeta, zero = start.copy(), np.empty(r), np.zeros(r)
    _minimise(base, tau, target, cells, tight, functionals, centre, wide, narrow)
    for i in range(r):
        for j in range(r):
            fixed[i, j] = narrow[1 + i, j]
    gram(fixed, fixed, work)
    cholesky(work, factor)
    linearise(base, tau, target, cells, tight, functionals, beta, wide, narrow)
    _gap(zero, fixed, factor, narrow[0], beta, zeta)
    return zeta
