"""Dense linear algebra of a few rows, in plain loops on given arrays: quick to compile."""

from __future__ import annotations

import math
from typing import Any

from numba import njit

__all__ = [
    "FAST",
    "OPTIONS",
    "cholesky",
    "gram",
    "inverse",
    "pull_cholesky",
    "solve_lower",
    "solve_upper",
    "times",
    "transposed_times",
]

# No exception may leave a kernel: a sampler's callback would swallow it. NaN is refused later.
OPTIONS: Any = {"cache": True, "nogil": True, "error_model": "numpy"}
# Sums may be taken in any order, so that loops run on several numbers at once.
FAST: Any = {**OPTIONS, "fastmath": {"reassoc", "contract", "nsz"}}


@njit(**FAST)
def times(matrix, vector, out):
    """Matrix times vector."""
    for i in range(matrix.shape[0]):
        total = 0.0
        for j in range(matrix.shape[1]):
            total += matrix[i, j] * vector[j]
        out[i] = total


@njit(**FAST)
def transposed_times(matrix, vector, out):
    """Transposed matrix times vector."""
    for j in range(matrix.shape[1]):
        out[j] = 0.0
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[j] += matrix[i, j] * vector[i]


@njit(**OPTIONS)
def gram(left, right, out):
    """1 + left' right."""
    size = left.shape[1]
    for i in range(size):
        for j in range(size):
            total = 1.0 if i == j else 0.0
            for k in range(size):
                total += left[k, i] * right[k, j]
            out[i, j] = total


@njit(**OPTIONS)
def cholesky(matrix, out):
    """Lower factor (the upper triangle is left as it is); whether there is one."""
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= out[i, k] * out[j, k]
            if i > j:
                out[i, j] = total / out[j, j]
            elif total > 0.0:
                out[i, i] = math.sqrt(total)
            else:
                return False
    return True


@njit(**OPTIONS)
def solve_lower(factor, x):
    """Replace x by C^-1 x for a lower triangle C."""
    for i in range(x.size):
        for j in range(i):
            x[i] -= factor[i, j] * x[j]
        x[i] /= factor[i, i]


@njit(**OPTIONS)
def solve_upper(factor, x):
    """Replace x by C'^-1 x for a lower triangle C."""
    for i in range(x.size - 1, -1, -1):
        for j in range(i + 1, x.size):
            x[i] -= factor[j, i] * x[j]
        x[i] /= factor[i, i]


@njit(**OPTIONS)
def inverse(matrix, rows):
    """Replace a matrix by its inverse (Gauss-Jordan with pivots); return its determinant.

    ``rows`` holds one number per row, for the order of the pivots.
    """
    size, determinant = matrix.shape[0], 1.0
    for i in range(size):
        best = i
        for k in range(i + 1, size):
            if abs(matrix[k, i]) > abs(matrix[best, i]):
                best = k
        rows[i] = best
        if best != i:
            determinant = -determinant
            for j in range(size):
                matrix[i, j], matrix[best, j] = matrix[best, j], matrix[i, j]
        pivot = matrix[i, i]
        determinant *= pivot
        matrix[i, i] = 1.0
        for j in range(size):
            matrix[i, j] /= pivot
        for k in range(size):
            if k != i:
                ratio = matrix[k, i]
                matrix[k, i] = 0.0
                for j in range(size):
                    matrix[k, j] -= ratio * matrix[i, j]
    for i in range(size - 1, -1, -1):
        best = int(rows[i])
        if best != i:
            for k in range(size):
                matrix[k, i], matrix[k, best] = matrix[k, best], matrix[k, i]
    return determinant


@njit(**OPTIONS)
def pull_cholesky(factor, d_factor, work):
    """Replace the derivative of a lower factor by that of its (symmetric) matrix.

    References
    ----------
    Murray, I. (2016), Differentiation of the Cholesky decomposition, arXiv 1602.07527,
    equation 9.
    """
    size = factor.shape[0]
    for j in range(size):
        for i in range(size):
            total = 0.0
            for k in range(i, size):
                total += factor[k, i] * d_factor[k, j] if i >= j else 0.0
            work[j, i] = 0.5 * total if i == j else total
        solve_upper(factor, work[j])
    for i in range(size):
        for j in range(size):
            d_factor[i, j] = work[j, i]
        solve_upper(factor, d_factor[i])
    for i in range(size):
        for j in range(i):
            d_factor[i, j] = d_factor[j, i] = 0.5 * (d_factor[i, j] + d_factor[j, i])
