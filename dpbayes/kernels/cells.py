"""Probabilities of released cells when the true value is uniform on a cell or a point.

With X uniform on (a, c] and noise of distribution function F,

    P(l < X + noise <= u) = [R(u-a) - R(u-c) - R(l-a) + R(l-c)] / (c-a),   R' = F.

The four terms cancel in the tails and for narrow cells, so each family has a form that is
a sum of positive parts.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from dpbayes.errors import ParameterError
from dpbayes.kernels.families import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, GAUSSIAN, LAPLACE

__all__ = ["cell_probabilities"]

_ROOT2 = math.sqrt(2.0)
_ROOT2PI = math.sqrt(2.0 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_WEIGHTS = 0.5 * _WEIGHTS  # weights of an average over the interval
_LATTICE_TOLERANCE = 1e-6


def cell_probabilities(
    family: int,
    scale: float,
    step: float,
    lower: ArrayLike,
    upper: ArrayLike,
    x_lower: ArrayLike,
    x_upper: ArrayLike,
) -> np.ndarray:
    """Probability of each released cell given each cell of the true value.

    A[j, k] = P(lower_j < X + noise <= upper_j), X uniform on (x_lower_k, x_upper_k]. Where
    x_lower_k = x_upper_k, X is that point. Where lower_j = upper_j, A[j, k] is the density
    (continuous noise) or the mass (lattice noise) of X + noise at that point.

    Parameters
    ----------
    family : int
        Code of the noise law (`dpbayes.kernels.families`).
    scale : float
        Noise scale: b of the Laplace laws, sd or sigma of the Gaussian ones, in the units
        of the released values.
    step : float
        Step of the noise lattice; 0 for continuous laws.
    lower, upper : array_like, shape (J,)
        Ends of the released cells; infinite ends are allowed. On a lattice the finite ends
        of an interval lie between lattice points.
    x_lower, x_upper : array_like, shape (K,)
        Ends of the cells of the true value, finite.

    Returns
    -------
    numpy.ndarray, shape (J, K)
        Probabilities, to about 1e-12 relative wherever they are not denormal.

    Raises
    ------
    ParameterError
        If an interval is reversed or not finite, `family` is unknown, or a lattice law meets
        a cell of positive width.

    Notes
    -----
    Laplace: closed forms as sums of positive terms. Gaussian: Gauss-Legendre over the
    narrower of the two intervals where it is narrow (8 nodes, exact to rounding there), else
    the second difference of ∫ P(noise > t) dt, whose terms then differ by orders of magnitude.
    """
    low, high = _interval("lower", "upper", lower, upper)
    a, c = _interval("x_lower", "x_upper", x_lower, x_upper)
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(c))):
        raise ParameterError("`x_lower` and `x_upper` must be finite, got an infinite end")
    if not (np.isfinite(scale) and scale > 0):
        raise ParameterError(f"`scale` must be a positive number, got {scale}")
    if family == LAPLACE:
        return _fill_laplace(low, high, a, c, float(scale))
    if family == GAUSSIAN:
        return _fill_gaussian(low, high, a, c, float(scale))
    if family not in (DISCRETE_LAPLACE, DISCRETE_GAUSSIAN):
        raise ParameterError(f"`family` must be a code of kernels.families, got {family!r}")
    if np.any(a != c):
        raise ParameterError(
            "`x_lower` and `x_upper` must be equal for noise on a lattice, got a cell of positive "
            "width: a continuous value plus lattice noise has no cell form; use integer support"
        )
    if not step > 0:
        raise ParameterError(f"`step` must be positive for noise on a lattice, got {step}")
    if family == DISCRETE_LAPLACE:
        return _fill_discrete_laplace(low, high, a, float(scale), float(step))
    return _fill_discrete_gaussian(low, high, a, float(scale), float(step))


def _interval(
    low_name: str, high_name: str, low: ArrayLike, high: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Check two one-dimensional arrays of ends."""
    first = np.ascontiguousarray(np.atleast_1d(low), dtype=float)
    last = np.ascontiguousarray(np.atleast_1d(high), dtype=float)
    if first.ndim != 1 or first.shape != last.shape:
        raise ParameterError(
            f"`{low_name}` and `{high_name}` must be one-dimensional and of one length, "
            f"got shapes {first.shape} and {last.shape}"
        )
    bad = ~(first <= last)
    if bad.any():
        at = int(np.argmax(bad))
        raise ParameterError(
            f"`{low_name}` must not exceed `{high_name}`, got {first[at]} and {last[at]} at {at}"
        )
    return first, last


# -- Laplace, in units of the scale ------------------------------------------------------------


@njit(cache=True, nogil=True)
def _mean_decay(w):
    """Average of exp(-t) over (0, w]."""
    return -math.expm1(-w) / w if w > 0.0 else 1.0


@njit(cache=True, nogil=True)
def _excess(d):
    """Return d - 1 + exp(-d) without cancellation."""
    if d > 0.5:
        return d + math.expm1(-d)
    term, total = 0.5 * d * d, 0.0
    for i in range(3, 20):
        total += term
        term *= -d / i
    return total


@njit(cache=True, nogil=True)
def _saturation(start, length):
    """Integral of 1 - exp(-t) over (start, start + length]."""
    return -length * math.expm1(-start) + math.exp(-start) * _excess(length)


@njit(cache=True, nogil=True)
def _laplace_interval(low, high, a, c):
    """P(low < X + noise <= high) for the standard Laplace law."""
    w = c - a
    total = 0.0
    if high > c:  # the part of the released cell above the true one
        near = max(low, c)
        total += 0.5 * math.exp(c - near) * -math.expm1(near - high) * _mean_decay(w)
    if low < a:
        near = min(high, a)
        total += 0.5 * math.exp(near - a) * -math.expm1(low - near) * _mean_decay(w)
    near, far = max(low, a), min(high, c)
    if far > near:
        length = far - near
        total += 0.5 * (_saturation(near - a, length) + _saturation(c - far, length)) / w
    return total


@njit(cache=True, nogil=True)
def _laplace_density(z, a, c):
    """Density of X + noise at z for the standard Laplace law."""
    w = c - a
    if z >= c:
        return 0.5 * math.exp(c - z) * _mean_decay(w)
    if z <= a:
        return 0.5 * math.exp(z - a) * _mean_decay(w)
    return -0.5 * (math.expm1(a - z) + math.expm1(z - c)) / w


@njit(cache=True, nogil=True)
def _fill_laplace(lower, upper, a, c, b):
    out = np.empty((lower.size, a.size))
    for j in range(lower.size):
        for k in range(a.size):
            # Offsets from the cell keep their relative accuracy when both are far from 0.
            low, w = (lower[j] - a[k]) / b, (c[k] - a[k]) / b
            if lower[j] == upper[j]:
                out[j, k] = _laplace_density(low, 0.0, w) / b
            else:
                out[j, k] = _laplace_interval(low, (upper[j] - a[k]) / b, 0.0, w)
    return out


# -- Gaussian, in units of the standard deviation ----------------------------------------------


@njit(cache=True, nogil=True)
def _normal_pdf(t):
    return math.exp(-0.5 * t * t) / _ROOT2PI


@njit(cache=True, nogil=True)
def _normal_interval(s, t):
    """P(s < noise <= t) without cancellation."""
    if s + t < 0.0:
        s, t = -t, -s
    length = t - s
    if length * max(1.0, s) < 0.5:
        total = 0.0
        for i in range(_NODES.size):
            total += _WEIGHTS[i] * _normal_pdf(s + 0.5 * length * (1.0 + _NODES[i]))
        return total * length
    if s > 0.0:
        return 0.5 * (math.erfc(s / _ROOT2) - math.erfc(t / _ROOT2))
    return 0.5 * (math.erf(t / _ROOT2) + math.erf(-s / _ROOT2))


@njit(cache=True, nogil=True)
def _normal_tail_integral(t):
    """Integral of P(noise > s) over s > t, for t >= 0."""
    tail = 0.5 * math.erfc(t / _ROOT2)
    if t < 2.0:
        return _normal_pdf(t) - t * tail
    if tail == 0.0:
        return 0.0
    # Continued fraction of repeated integrals of erfc (DLMF 7.18.2), from its tail.
    z = t / _ROOT2
    fraction = z
    for m in range(80, 1, -1):
        fraction = z + 0.5 * m / fraction
    return tail * _ROOT2 * 0.5 / fraction


@njit(cache=True, nogil=True)
def _gaussian_interval(low, high, w):
    """P(low < X + noise <= high) for the standard normal law and X uniform on (0, w]."""
    if w == 0.0:
        return _normal_interval(low, high)
    d = high - low
    gap = max(low - w, -high, 0.0)
    if min(w, d) * max(1.0, gap) < 0.5:
        total = 0.0
        for i in range(_NODES.size):
            share = 0.5 * (1.0 + _NODES[i])
            if w <= d:
                total += _WEIGHTS[i] * _normal_interval(low - share * w, high - share * w)
            else:
                z = low + share * d
                total += _WEIGHTS[i] * _normal_interval(z - w, z) * (d / w)
        return total
    overlap = max(min(high, w) - max(low, 0.0), 0.0)
    second = _normal_tail_integral(abs(high)) - _normal_tail_integral(abs(high - w))
    second += _normal_tail_integral(abs(low - w)) - _normal_tail_integral(abs(low))
    return (overlap + second) / w


@njit(cache=True, nogil=True)
def _fill_gaussian(lower, upper, a, c, sd):
    out = np.empty((lower.size, a.size))
    for j in range(lower.size):
        for k in range(a.size):
            low, w = (lower[j] - a[k]) / sd, (c[k] - a[k]) / sd
            if lower[j] != upper[j]:
                out[j, k] = _gaussian_interval(low, (upper[j] - a[k]) / sd, w)
            elif w == 0.0:
                out[j, k] = _normal_pdf(low) / sd
            else:
                out[j, k] = _normal_interval(low - w, low) / (w * sd)
    return out


# -- lattice laws, the true value a point ------------------------------------------------------


@njit(cache=True, nogil=True)
def _lattice_range(low, high, x, step):
    """First and last lattice index of (low, high] - x; an exact point if low == high."""
    if low == high:
        k = np.rint((low - x) / step)
        on = abs((low - x) / step - k) <= _LATTICE_TOLERANCE
        return (k, k) if on else (1.0, 0.0)
    first = np.floor((low - x) / step + _LATTICE_TOLERANCE) + 1.0
    return first, np.floor((high - x) / step + _LATTICE_TOLERANCE)


@njit(cache=True, nogil=True)
def _discrete_laplace_sum(first, last, rate):
    """P(first <= k <= last) for mass ∝ exp(-rate |k|), without cancellation."""
    if first > last:
        return 0.0
    if last < 0.0:
        first, last = -last, -first
    norm = 1.0 + math.exp(-rate)
    if first > 0.0:
        return math.exp(-rate * first) * -math.expm1(-rate * (last - first + 1.0)) / norm
    above = -math.expm1(-rate * (last + 1.0))
    return (above - math.exp(-rate) * math.expm1(rate * first)) / norm


@njit(cache=True, nogil=True)
def _fill_discrete_laplace(lower, upper, x, b, step):
    out = np.empty((lower.size, x.size))
    for j in range(lower.size):
        for k in range(x.size):
            first, last = _lattice_range(lower[j], upper[j], x[k], step)
            out[j, k] = _discrete_laplace_sum(first, last, step / b)
    return out


@njit(cache=True, nogil=True)
def _gaussian_sum(first, last, s):
    """Sum of exp(-k²/(2 s²)) over first <= k <= last, from the largest term outwards."""
    total = 0.0
    start = min(max(first, 0.0), last)
    for direction in (1.0, -1.0):
        k = start if direction > 0.0 else start - 1.0
        while first <= k <= last:
            term = math.exp(-0.5 * (k / s) * (k / s))
            total += term
            # Terms fall faster than geometrically, by at least this ratio.
            if term == 0.0 or term < 1e-17 * total * -math.expm1(-(abs(k) + 0.5) / (s * s)):
                break
            k += direction
    return total


@njit(cache=True, nogil=True)
def _fill_discrete_gaussian(lower, upper, x, sigma, step):
    s = sigma / step
    norm = _gaussian_sum(-np.inf, np.inf, s)
    out = np.empty((lower.size, x.size))
    for j in range(lower.size):
        for k in range(x.size):
            first, last = _lattice_range(lower[j], upper[j], x[k], step)
            out[j, k] = _gaussian_sum(first, last, s) / norm if first <= last else 0.0
    return out
