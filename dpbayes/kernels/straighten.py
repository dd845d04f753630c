"""Coordinates of the directions of a log density that released functionals determine.

Given the rest of the log weights θ, directions β (θ + V β) are tied by r functionals F of the
cell probabilities to their released values y:

    minimise |y - rest F softmax(θ + V β)|² + |β|² / τ²,  by damped Gauss-Newton from β0,

and with Q = C C' the Gauss-Newton matrix there, β = minimum + C'^-1 ξ. The kernels return β,
log det C and C, and the derivatives by hand-written reverse mode, so that the sampler
compiles none of this. Derivatives are those of the steps taken, hence exact
whether or not they have converged.
"""

from __future__ import annotations

import math
from typing import Any

import llvmlite.binding
import numpy as np
from numba import carray, cfunc, njit, types

__all__ = ["GAUSS_NEWTON_STEPS", "straighten", "straighten_pullback"]

# Where one cell takes all mass the functionals hardly move and an undamped step overshoots:
# with these, under 1 in 1000 of the points that samplers visit are left unsolved.
GAUSS_NEWTON_STEPS = 5
LONGEST_STEP = 3.0  # in log weights
SHORTEST_STEP = 1e-4  # in posterior standard deviations
# No exception may leave a kernel: a sampler's callback would swallow it. NaN is refused later.
_OPTIONS: Any = {"cache": True, "nogil": True, "error_model": "numpy"}


# Plain loops: array expressions would take numba ten times as long to compile.


@njit(**_OPTIONS)
def _times(matrix, vector):
    """Matrix times vector."""
    out = np.zeros(matrix.shape[0])
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[i] += matrix[i, j] * vector[j]
    return out


@njit(**_OPTIONS)
def _transposed_times(matrix, vector):
    """Transposed matrix times vector."""
    out = np.zeros(matrix.shape[1])
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[j] += matrix[i, j] * vector[i]
    return out


@njit(**_OPTIONS)
def _cholesky(matrix):
    """Lower factor, NaN where the matrix has none."""
    size = matrix.shape[0]
    factor = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i == j:
                factor[i, i] = math.sqrt(total) if total > 0.0 else math.nan
            else:
                factor[i, j] = total / factor[j, j]
    return factor


@njit(**_OPTIONS)
def _solve_lower(factor, right):
    """Solve C x = right."""
    x = right.copy()
    for i in range(x.size):
        for j in range(i):
            x[i] -= factor[i, j] * x[j]
        x[i] /= factor[i, i]
    return x


@njit(**_OPTIONS)
def _solve_upper(factor, right):
    """Solve C' x = right."""
    x = right.copy()
    for i in range(x.size - 1, -1, -1):
        for j in range(i + 1, x.size):
            x[i] -= factor[j, i] * x[j]
        x[i] /= factor[i, i]
    return x


@njit(**_OPTIONS)
def _softmax(theta, tight, beta):
    """Shares of the cells."""
    share = _times(tight, beta)
    top = -math.inf
    for k in range(share.size):
        share[k] += theta[k]
        top = max(top, share[k])
    total = 0.0
    for k in range(share.size):
        share[k] = math.exp(share[k] - top)
        total += share[k]
    for k in range(share.size):
        share[k] /= total
    return share


@njit(**_OPTIONS)
def _linearise(theta, target, rest, inverse, tight, functionals, beta):
    """Shares, values and slopes of the functionals, residual, Cholesky factor of Q."""
    share = _softmax(theta, tight, beta)
    value, moved = _times(functionals, share), _transposed_times(tight, share)
    size = beta.size
    slope, matrix, residual = np.zeros((size, size)), np.zeros((size, size)), np.empty(size)
    for i in range(size):
        residual[i] = target[i] - rest * value[i]
        matrix[i, i] = inverse
        for k in range(share.size):
            for j in range(size):
                slope[i, j] += functionals[i, k] * share[k] * tight[k, j]
        for j in range(size):
            slope[i, j] = rest * (slope[i, j] - value[i] * moved[j])
    for i in range(size):
        for j in range(size):
            for k in range(size):
                matrix[i, j] += slope[k, i] * slope[k, j]
    return share, value, slope, residual, _cholesky(matrix)


@njit(**_OPTIONS)
def _path(theta, target, rest, inverse, tight, functionals, start):
    """Take damped Gauss-Newton steps; the start and each of them is a row."""
    path = np.empty((GAUSS_NEWTON_STEPS + 1, start.size))
    path[0] = start
    for i in range(GAUSS_NEWTON_STEPS):
        _, _, slope, residual, factor = _linearise(
            theta, target, rest, inverse, tight, functionals, path[i]
        )
        inner = _transposed_times(slope, residual + _times(slope, path[i]))
        step = _solve_upper(factor, _solve_lower(factor, inner)) - path[i]
        path[i + 1] = path[i] + _damping(step) * step
        # Convergence is quadratic: what is left after a short step is beyond rounding.
        if np.max(np.abs(_transposed_times(factor, step))) < SHORTEST_STEP:
            return path[: i + 2]
    return path


@njit(**_OPTIONS)
def _damping(step):
    """Share of a step that is taken: all of a short one, at most LONGEST_STEP of a long one."""
    squares = 0.0
    for value in step:
        squares += value * value
    return 1.0 / math.sqrt(1.0 + squares / LONGEST_STEP**2)


@njit(**_OPTIONS)
def _forward(xi, theta, target, rest, inverse, tight, functionals, start):
    """Directions, log determinant and factor."""
    beta = _path(theta, target, rest, inverse, tight, functionals, start)[-1]
    _, _, _, _, factor = _linearise(theta, target, rest, inverse, tight, functionals, beta)
    log_det = 0.0
    for i in range(beta.size):
        log_det += math.log(factor[i, i])
    return beta + _solve_upper(factor, xi), log_det, factor


@njit(**_OPTIONS)
def _pull_linearise(share, value, slope, rest, tight, functionals, d_slope, d_residual):
    """Pull derivatives back to log weights and mass of the cells."""
    moved = _transposed_times(tight, share)
    d_rest, size = 0.0, value.size
    d_value, d_moved = np.empty(size), np.zeros(size)
    for i in range(size):
        d_rest -= d_residual[i] * value[i]
        d_value[i] = -rest * d_residual[i]
        for j in range(size):
            d_rest += d_slope[i, j] * slope[i, j] / rest
            d_value[i] -= rest * d_slope[i, j] * moved[j]
            d_moved[j] -= rest * d_slope[i, j] * value[i]
    d_share = _transposed_times(functionals, d_value) + _times(tight, d_moved)
    mean = 0.0
    for k in range(share.size):
        for i in range(size):
            for j in range(size):
                d_share[k] += rest * functionals[i, k] * d_slope[i, j] * tight[k, j]
        mean += share[k] * d_share[k]
    for k in range(share.size):
        d_share[k] = share[k] * (d_share[k] - mean)
    return d_share, d_rest


@njit(**_OPTIONS)
def _pull_cholesky(factor, d_factor):
    """Pull the derivative of a Cholesky factor back to its (symmetric) matrix."""
    size = factor.shape[0]
    half, full = np.zeros((size, size)), np.empty((size, size))
    for j in range(size):
        for i in range(j, size):
            for k in range(i, size):
                half[j, i] += factor[k, i] * d_factor[k, j]
        half[j, j] *= 0.5
        half[j] = _solve_upper(factor, half[j])
    for i in range(size):
        full[i] = _solve_upper(factor, half[:, i])
    for i in range(size):
        for j in range(i):
            full[i, j] = full[j, i] = 0.5 * (full[i, j] + full[j, i])
    return full


@njit(**_OPTIONS)
def _twice_product(slope, matrix):
    """2 slope matrix."""
    out = np.zeros_like(slope)
    for i in range(slope.shape[0]):
        for j in range(slope.shape[1]):
            for k in range(slope.shape[1]):
                out[i, j] += 2.0 * slope[i, k] * matrix[k, j]
    return out


@njit(**_OPTIONS)
def _pull_step(old, d_new, theta, target, rest, inverse, tight, functionals):
    """Pull a derivative back through one step, which solves Q aim = slope' v and is damped."""
    share, value, slope, residual, factor = _linearise(
        theta, target, rest, inverse, tight, functionals, old
    )
    v = residual + _times(slope, old)
    aim = _solve_upper(factor, _solve_lower(factor, _transposed_times(slope, v)))
    step = aim - old
    damping, along = _damping(step), 0.0
    for i in range(old.size):
        along += step[i] * d_new[i]
    d_step = damping * d_new - (damping**3 * along / LONGEST_STEP**2) * step
    d_right = _solve_upper(factor, _solve_lower(factor, d_step))
    d_v = _times(slope, d_right)
    size, d_inverse = old.size, 0.0
    d_matrix = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            d_matrix[i, j] = -0.5 * (d_right[i] * aim[j] + aim[i] * d_right[j])
        d_inverse += d_matrix[i, i]
    d_slope = _twice_product(slope, d_matrix)
    for i in range(size):
        for j in range(size):
            d_slope[i, j] += v[i] * d_right[j] + d_v[i] * old[j]
    d_theta, d_rest = _pull_linearise(share, value, slope, rest, tight, functionals, d_slope, d_v)
    d_old = d_new - d_step + _transposed_times(slope, d_v) + _transposed_times(tight, d_theta)
    return d_old, d_theta, d_v, d_rest, d_inverse


@njit(**_OPTIONS)
def _backward(xi, theta, target, rest, inverse, tight, functionals, start, d_beta, d_log_det):
    """Differentiate β·d_beta + log_det·d_log_det."""
    path = _path(theta, target, rest, inverse, tight, functionals, start)
    share, value, slope, _, factor = _linearise(
        theta, target, rest, inverse, tight, functionals, path[-1]
    )
    offset, d_xi = _solve_upper(factor, xi), _solve_lower(factor, d_beta)
    size, d_inverse = xi.size, 0.0
    d_factor = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1):
            d_factor[i, j] = -offset[i] * d_xi[j]
        d_factor[i, i] += d_log_det / factor[i, i]
    d_matrix = _pull_cholesky(factor, d_factor)
    for i in range(size):
        d_inverse += d_matrix[i, i]
    d_target = np.zeros(size)
    d_theta, d_rest = _pull_linearise(
        share, value, slope, rest, tight, functionals, _twice_product(slope, d_matrix), d_target
    )
    d_point = d_beta + _transposed_times(tight, d_theta)
    for i in range(path.shape[0] - 2, -1, -1):
        d_point, more, d_v, more_rest, more_inverse = _pull_step(
            path[i], d_point, theta, target, rest, inverse, tight, functionals
        )
        d_theta += more
        d_target += d_v
        d_rest += more_rest
        d_inverse += more_inverse
    return d_xi, d_theta, d_target, d_rest, d_inverse


# numba optimises all that a function calls anew wherever it is used, which for these kernels
# takes longer than all else that a model compiles. So they are compiled once, on their own,
# and called by the names of their symbols.
_POINTER = types.CPointer(types.float64)
_SIGNATURE = types.void(_POINTER, _POINTER, types.int64, types.int64)
_FORWARD_SYMBOL, _BACKWARD_SYMBOL = "dpbayes_straighten", "dpbayes_straighten_pullback"


@njit(**_OPTIONS)
def _unpack(packed, size, directions):
    """Arguments of the kernels from one array."""
    k, r = size, directions
    at = 2 * r + k + 2
    return (
        packed[:r],
        packed[r : r + k],
        packed[r + k : 2 * r + k],
        packed[2 * r + k],
        packed[2 * r + k + 1],
        packed[at : at + k * r].reshape((k, r)),
        packed[at + k * r : at + 2 * k * r].reshape((r, k)),
        packed[at + 2 * k * r : at + 2 * k * r + r],
    )


@njit(**_OPTIONS)
def _pack(out, xi, theta, target, rest, inverse, tight, functionals, start):
    """Put the arguments into one array."""
    k, r = tight.shape
    at = 2 * r + k + 2
    out[:r] = xi
    out[r : r + k] = theta
    out[r + k : 2 * r + k] = target
    out[2 * r + k] = rest
    out[2 * r + k + 1] = inverse
    for i in range(k):
        out[at + i * r : at + (i + 1) * r] = tight[i]
    for i in range(r):
        out[at + k * r + i * k : at + k * r + (i + 1) * k] = functionals[i]
    out[at + 2 * k * r : at + 2 * k * r + r] = start
    return at + 2 * k * r + r


@cfunc(_SIGNATURE, cache=True, error_model="numpy")
def _forward_symbol(pointer, result, size, directions):
    r = directions
    packed = carray(pointer, (3 * r + size + 2 + 2 * size * r,))
    out = carray(result, (r + 1 + r * r,))
    beta, log_det, factor = _forward(*_unpack(packed, size, r))
    out[:r] = beta
    out[r] = log_det
    out[r + 1 :] = factor.reshape(r * r)


@cfunc(_SIGNATURE, cache=True, error_model="numpy")
def _backward_symbol(pointer, result, size, directions):
    r = directions
    end = 3 * r + size + 2 + 2 * size * r
    packed = carray(pointer, (end + r + 1,))
    out = carray(result, (2 * r + size + 2,))
    xi, theta, target, rest, inverse, tight, functionals, start = _unpack(packed, size, r)
    d_xi, d_theta, d_target, d_rest, d_inverse = _backward(
        xi, theta, target, rest, inverse, tight, functionals, start,
        packed[end : end + r], packed[end + r],
    )  # fmt: skip
    out[:r] = d_xi
    out[r : r + size] = d_theta
    out[r + size : 2 * r + size] = d_target
    out[2 * r + size] = d_rest
    out[2 * r + size + 1] = d_inverse


llvmlite.binding.add_symbol(_FORWARD_SYMBOL, _forward_symbol.address)
llvmlite.binding.add_symbol(_BACKWARD_SYMBOL, _backward_symbol.address)
_forward_compiled: Any = types.ExternalFunction(_FORWARD_SYMBOL, _SIGNATURE)
_backward_compiled: Any = types.ExternalFunction(_BACKWARD_SYMBOL, _SIGNATURE)


@njit(**_OPTIONS)
def straighten(xi, theta, target, rest, inverse, tight, functionals, start):
    """Directions β, log det C and C.

    Parameters
    ----------
    xi : ndarray, shape (r,)
        Standardised coordinates.
    theta : ndarray, shape (K,)
        Log weights without these directions.
    target : ndarray, shape (r,)
        Released values y of the functionals.
    rest : float
        Mass of all cells (1 without atoms).
    inverse : float
        1 / τ².
    tight : ndarray, shape (K, r)
        Directions V.
    functionals : ndarray, shape (r, K)
        Functionals F.
    start : ndarray, shape (r,)
        Where Gauss-Newton starts, β0.

    Returns
    -------
    beta : ndarray, shape (r,)
    log_det : float
    factor : ndarray, shape (r, r)
    """
    k, r = tight.shape
    packed, out = np.empty(3 * r + k + 2 + 2 * k * r), np.empty(r + 1 + r * r)
    _pack(packed, xi, theta, target, rest, inverse, tight, functionals, start)
    _forward_compiled(packed.ctypes, out.ctypes, k, r)
    return out[:r].copy(), out[r], out[r + 1 :].copy().reshape((r, r))


@njit(**_OPTIONS)
def straighten_pullback(
    xi, theta, target, rest, inverse, tight, functionals, start, d_beta, d_log_det
):
    """Differentiate β·d_beta + log_det·d_log_det.

    Parameters
    ----------
    xi, theta, target, rest, inverse, tight, functionals, start
        As in `straighten`.
    d_beta : ndarray, shape (r,)
        Derivative with respect to β.
    d_log_det : float
        Derivative with respect to log det C.

    Returns
    -------
    d_xi, d_theta, d_target : ndarray
    d_rest, d_inverse : float
    """
    k, r = tight.shape
    packed, out = np.empty(4 * r + k + 3 + 2 * k * r), np.empty(2 * r + k + 2)
    end = _pack(packed, xi, theta, target, rest, inverse, tight, functionals, start)
    packed[end : end + r] = d_beta
    packed[end + r] = d_log_det
    _backward_compiled(packed.ctypes, out.ctypes, k, r)
    return (
        out[:r].copy(),
        out[r : r + k].copy(),
        out[r + k : 2 * r + k].copy(),
        out[2 * r + k],
        out[2 * r + k + 1],
    )
