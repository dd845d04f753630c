r"""Log-likelihood of noisy multinomial counts with a public total, and its gradient.

With :math:`\psi_j(\theta) = \log \sum_m Q(y_j \mid m) e^{\theta m} / m!`, whose derivatives are
the cumulants :math:`\kappa_r` of the count given its released value under the tilt, and any
:math:`\tau`,

.. math::

   \log f(y) = \log n! + \sum_j \psi_j(\log p_j + \tau) - n \tau
               + \log P_\tau\Bigl(\sum_j N_j = n \mid y\Bigr).

The tilt is chosen such that the expected total is n. The last probability is the saddlepoint

.. math:: (2 \pi V)^{-1/2} \Bigl[1 + \frac{\kappa_4}{8 V^2} - \frac{5 \kappa_3^2}{24 V^3}\Bigr],
          \qquad V = \sum_j \kappa_{2j},

where the next term of its expansion is below `SADDLEPOINT_ERROR`. Elsewhere (few cells, or counts
that are almost known) it is the inverse Fourier transform of the product of the characteristic
functions, a sum over the circle that is exact up to rounding, and the gradient is then
:math:`E[N_j \mid y, \sum N = n]`.

`cells` is (family, lower, upper, scale, bound, step), with one entry of the arrays lower, upper,
scale and bound per cell; the ends of intervals are lattice points for lattice laws (`prepare`).

References
----------
.. [1] Daniels, H. E. (1954). Saddlepoint approximations in statistics, equation (2.6).
"""

import math

import numpy as np
from numba import njit, types

from dpbayes.kernels.families import TABULATED
from dpbayes.kernels.native import NativeKernel
from dpbayes.kernels.noise_terms import log_peak
from dpbayes.kernels.terms import scale_slope
from dpbayes.kernels.tilted_counts import fill_masses, on_lattice

__all__ = [
    "NATIVE",
    "SADDLEPOINT_ERROR",
    "cell_noise",
    "masses_of_cell",
    "prepare",
    "solve_tilt",
    "value_and_gradient",
]

#: Size of the first neglected term up to which the saddlepoint is used.
SADDLEPOINT_ERROR = 2e-4
_CUMULANTS = 7  # psi and the first six cumulants
_NEGLIGIBLE = 1e-10  # share of the integral at which the transform is cut
_UNLIKELY = 1e-7  # probabilities below it are taken from a convolution of positive terms


@njit(cache=True, nogil=True)
def prepare(family, lower, upper, scale, bound, step):
    """Cells in the form that the functions of this module take."""
    low, high = lower.copy(), upper.copy()
    for j in range(lower.size):
        low[j], high[j] = on_lattice(family, lower[j], upper[j], step)
    return family, low, high, scale, bound, step


@njit(cache=True, nogil=True)
def cell_noise(cells, j):
    """Noise and bounds of one cell."""
    family, lower, upper, scale, bound, step = cells
    return family, lower[j], upper[j], scale[j], bound[j], step


@njit(cache=True, nogil=True)
def masses_of_cell(cells, table, j, theta, n, scratch):
    """`fill_masses` with scratch space that grows as needed; the scratch space comes last."""
    noise = cell_noise(cells, j)
    first, size, unit = fill_masses(noise, table, theta, n, scratch)
    while size < 0:
        scratch = np.empty(4 * scratch.size)
        first, size, unit = fill_masses(noise, table, theta, n, scratch)
    return first, size, unit, scratch


@njit(cache=True, nogil=True)
def _cell(cells, table, j, theta, n, scratch, out):
    """Log partition psi of one cell and its first six derivatives; returns the scratch space."""
    first, size, unit, scratch = masses_of_cell(cells, table, j, theta, n, scratch)
    if size == 0:
        out[:] = 0.0
        out[0] = -np.inf
        return scratch
    total = mean = 0.0
    for i in range(size):
        total += scratch[i]
        mean += i * scratch[i]
    mean /= total
    second = third = fourth = fifth = sixth = 0.0
    for i in range(size):
        d = i - mean
        square = d * d
        w = scratch[i] * square
        second += w
        third += w * d
        w *= square
        fourth += w
        fifth += w * d
        sixth += w * square
    second, third, fourth = second / total, third / total, fourth / total
    fifth, sixth = fifth / total, sixth / total
    out[0] = unit + math.log(total)
    out[1] = first + mean
    out[2] = second
    out[3] = third
    out[4] = fourth - 3.0 * second * second
    out[5] = fifth - 10.0 * third * second
    out[6] = sixth - 15.0 * fourth * second - 10.0 * third * third + 30.0 * second**3
    return scratch


@njit(cache=True, nogil=True)
def solve_tilt(cells, table, log_p, n):
    """Tilt tau with expected total n, and each cell's log partition and cumulants there.

    Returns tau = nan where no tilt reaches the total: it is then impossible.
    """
    count = log_p.size
    cumulants = np.empty((count, _CUMULANTS))
    scratch = np.empty(256)
    tau = math.log(max(n, 0.5))
    low, high = -np.inf, np.inf
    for _ in range(200):
        for j in range(count):
            scratch = _cell(cells, table, j, log_p[j] + tau, n, scratch, cumulants[j])
            if cumulants[j, 0] == -np.inf:
                return np.nan, cumulants
        gap, variance = cumulants[:, 1].sum() - n, cumulants[:, 2].sum()
        if abs(gap) <= 1e-7 * math.sqrt(variance) + 1e-11 * n:
            return tau, cumulants
        if gap < 0.0:
            low = tau
        else:
            high = tau
        following = tau + min(max(_tilt_step(gap, cumulants), -8.0), 8.0)
        if not (low < following and following < high):
            following = 0.5 * (low + high)
        if abs(following) > 600.0 or following == tau:
            break
        tau = following
    if variance < 1e-6 and abs(gap) > 0.5:
        return np.nan, cumulants
    return tau, cumulants


@njit(cache=True, nogil=True)
def _tilt_step(gap, cumulants):
    """Root of gap + kappa_2 d + kappa_3 d^2/2 + ... near zero: the cumulants give five terms."""
    variance = cumulants[:, 2].sum()
    if variance < 1e-12:
        return -8.0 * np.sign(gap)
    third, fourth, fifth = cumulants[:, 3].sum(), cumulants[:, 4].sum(), cumulants[:, 5].sum()
    newton = d = -gap / variance
    for _ in range(4):
        bend = d * d * (third / 2.0 + d * (fourth / 6.0 + d * fifth / 24.0))
        slope = variance + d * (third + d * (fourth / 2.0 + d * fifth / 6.0))
        if not slope > 0.3 * variance:
            return newton
        d -= (gap + variance * d + bend) / slope
    return d if abs(d) < 3.0 * abs(newton) else newton


@njit(cache=True, nogil=True)
def _neglected(cumulants):
    """Size of the term after the first correction of the saddlepoint."""
    variance = cumulants[:, 2].sum()
    if not variance > 1e-3:
        return np.inf
    sd = math.sqrt(variance)
    third, fourth = cumulants[:, 3].sum() / sd**3, cumulants[:, 4].sum() / variance**2
    fifth, sixth = cumulants[:, 5].sum() / sd**5, cumulants[:, 6].sum() / variance**3
    square = third * third
    total = size = 0.0
    for term in (
        -sixth / 48.0,
        35.0 * fourth * fourth / 384.0,
        7.0 * third * fifth / 48.0,
        -35.0 * square * fourth / 64.0,
        385.0 * square * square / 1152.0,
    ):
        total += term
        size += abs(term)
    return abs(total) + 0.2 * size


@njit(cache=True, nogil=True)
def value_and_gradient(cells, table, log_jacobian, log_p, n, want_scale, gradient, by_scale):
    """Log-likelihood; fills its derivatives in log p and in the noise scales.

    Parameters
    ----------
    cells : tuple
        Noise and bounds of each cell, from `prepare`.
    table : ndarray
        Table of a tabulated law, `dpbayes.kernels.tabulated.EMPTY` otherwise.
    log_jacobian : ndarray, shape (J,)
        Log Jacobian of each released value.
    log_p : ndarray, shape (J,)
        Log probabilities of the cells.
    n : float
        Public total.
    want_scale : bool
        Whether the derivatives in the scales are wanted; they need the exact sum.
    gradient, by_scale : ndarray, shape (J,)
        Output.
    """
    family, lower, upper, scale, bound, step = cells
    gradient[:] = 0.0
    by_scale[:] = 0.0
    for j in range(log_p.size):
        if math.isnan(log_p[j]) or not scale[j] > 0.0 or lower[j] > upper[j]:
            return -np.inf
    tau, cumulants = solve_tilt(cells, table, log_p, n)
    if math.isnan(tau):
        return -np.inf
    value = math.lgamma(n + 1.0) - n * tau + cumulants[:, 0].sum() + log_jacobian.sum()
    for j in range(log_p.size):
        if lower[j] == upper[j]:
            value += log_peak(family, scale[j], bound[j], step)[0]
    if _neglected(cumulants) < SADDLEPOINT_ERROR and not want_scale:
        return value + _saddlepoint(cumulants, gradient)
    return value + _exact(cells, table, log_p + tau, n, cumulants, want_scale, gradient, by_scale)


def _entry(
    family, lower, upper, scale, bound, step, table, jacobian, log_p, n, want_scale, slope, by_scale
):
    """Call `value_and_gradient` with plain arguments."""
    cells = prepare(family, lower, upper, scale, bound, step)
    return value_and_gradient(cells, table, jacobian, log_p, n, want_scale, slope, by_scale)


_VECTOR = types.Array(types.float64, 1, "C")
NATIVE = NativeKernel(
    _entry,
    types.float64(
        types.int64, *[_VECTOR] * 4, types.float64,
        types.Array(types.float64, 2, "C", readonly=True), _VECTOR, _VECTOR, types.float64,
        types.boolean, _VECTOR, _VECTOR,
    ),
)  # fmt: skip
"""`value_and_gradient` as a function of (family, lower, upper, scale, bound, step, table, log
Jacobian, log p, n, want scale, output, output) for code that is compiled with each model."""


@njit(cache=True, nogil=True)
def _saddlepoint(cumulants, gradient):
    """Log P(sum = n) by the saddlepoint with its first correction; fills the whole gradient."""
    variance, skew, excess = cumulants[:, 2].sum(), cumulants[:, 3].sum(), cumulants[:, 4].sum()
    inverse = 1.0 / variance
    c = 1.0 + inverse * inverse * (excess / 8.0 - 5.0 * skew * skew * inverse / 24.0)
    part = np.empty(cumulants.shape[0])
    for j in range(part.size):
        third, fourth, fifth = cumulants[j, 3], cumulants[j, 4], cumulants[j, 5]
        change = fifth / 8.0 - inverse * (excess * third / 4.0 + 5.0 * skew * fourth / 12.0)
        change += 5.0 * inverse * inverse * skew * skew * third / 8.0
        part[j] = -0.5 * third * inverse + change * inverse * inverse / c
    total = part.sum()
    for j in range(part.size):
        gradient[j] = cumulants[j, 1] + part[j] - total * cumulants[j, 2] * inverse
    return math.log(c) - 0.5 * math.log(2.0 * math.pi * variance)


@njit(cache=True, nogil=True)
def _exact(cells, table, theta, n, cumulants, want_scale, gradient, by_scale):
    """Log P(sum = n) without approximation, and expectations given the sum."""
    count = theta.size
    first = np.empty(count)
    start = np.zeros(count + 1, dtype=np.int64)
    masses, scratch = np.empty(64 * count + 64), np.empty(1024)
    for j in range(count):
        first[j], size, _, scratch = masses_of_cell(cells, table, j, theta[j], n, scratch)
        if start[j] + size > masses.size:
            grown = np.empty(2 * (masses.size + size))
            grown[: start[j]] = masses[: start[j]]
            masses = grown
        start[j + 1] = start[j] + size
        masses[start[j] : start[j + 1]] = scratch[:size] / scratch[:size].sum()
    # A total of s above the sum of the first counts.
    target = int(n - first.sum())
    if target < 0 or target > (start[1:] - start[:-1] - 1).sum():
        return -np.inf
    slopes = np.zeros(masses.size if want_scale else 0)
    if want_scale:
        for j in range(count):
            noise = cell_noise(cells, j)
            for i in range(start[j], start[j + 1]):
                slopes[i] = masses[i] * scale_slope(noise, table, first[j] + (i - start[j]))
    whole = cells[0] != TABULATED
    probability = _transform(masses, slopes, start, target, cumulants, whole, gradient, by_scale)
    if not probability > _UNLIKELY:
        probability = _convolution(masses, slopes, start, target, gradient, by_scale)
        if not probability > 0.0:
            return -np.inf
    for j in range(count):
        gradient[j] = first[j] + gradient[j] / probability
        if want_scale:
            noise = cell_noise(cells, j)
            by_scale[j] /= probability
            if noise[1] == noise[2]:
                by_scale[j] += log_peak(noise[0], noise[3], noise[4], noise[5])[1]
    return math.log(probability)


@njit(cache=True, nogil=True)
def _power_sums(masses, slopes, low, high, z):
    """Add up masses, index times mass, and slopes, times powers of z (Horner)."""
    total = moment = change = 0.0 + 0.0j
    for i in range(high - 1, low - 1, -1):
        total = total * z + masses[i]
        moment = moment * z + (i - low) * masses[i]
    if slopes.size > 0:
        for i in range(high - 1, low - 1, -1):
            change = change * z + slopes[i]
    return total, moment, change


@njit(cache=True, nogil=True)
def _transform(masses, slopes, start, target, cumulants, whole, gradient, by_scale):
    """P(sum of indices = target), and with the index or slope of each cell as a factor."""
    count = start.size - 1
    sd = math.sqrt(cumulants[:, 2].sum())
    reach = min(float((start[1:] - start[:-1] - 1).sum() + 1), 30.0 * sd + 64.0)
    half = int(0.5 * reach) + 1  # points on half of the circle, apart from the first
    parts = np.empty((3, count), dtype=np.complex128)
    before = np.empty(count + 1, dtype=np.complex128)
    total = 0.0
    gradient[:] = 0.0
    by_scale[:] = 0.0
    quiet = 0
    for k in range(half + 1):
        angle = math.pi * k / half
        z = complex(math.cos(angle), math.sin(angle))
        before[0] = 1.0
        for j in range(count):
            parts[0, j], parts[1, j], parts[2, j] = _power_sums(
                masses, slopes, start[j], start[j + 1], z
            )
            before[j + 1] = before[j] * parts[0, j]
        weight = (0.5 if k in (0, half) else 1.0) / half
        phase = weight * complex(math.cos(angle * target), -math.sin(angle * target))
        total += (phase * before[count]).real
        after = phase
        for j in range(count - 1, -1, -1):
            others = after * before[j]
            gradient[j] += (others * parts[1, j]).real
            by_scale[j] += (others * parts[2, j]).real
            after = after * parts[0, j]
        small = abs(before[count]) * (k + 1.0) < _NEGLIGIBLE * abs(total) * half
        quiet = quiet + 1 if small else 0
        if quiet == 4 and whole:  # the transform of a law with gaps may come back
            break
    return total


@njit(cache=True, nogil=True)
def _convolution(masses, slopes, start, target, gradient, by_scale):
    """As `_transform`, by convolving positive terms: for probabilities near zero."""
    count = start.size - 1
    before = np.zeros((count + 1, target + 1))
    before[0, 0] = 1.0
    for j in range(count):
        for s in range(target + 1):
            for i in range(min(start[j + 1] - start[j], target + 1 - s)):
                before[j + 1, s + i] += before[j, s] * masses[start[j] + i]
    after = np.zeros(target + 1)
    after[0] = 1.0
    gradient[:] = 0.0
    by_scale[:] = 0.0
    for j in range(count - 1, -1, -1):
        size = start[j + 1] - start[j]
        for i in range(min(size, target + 1)):
            others = 0.0
            for s in range(target + 1 - i):
                others += before[j, s] * after[target - i - s]
            gradient[j] += i * masses[start[j] + i] * others
            if slopes.size > 0:
                by_scale[j] += slopes[start[j] + i] * others
        updated = np.zeros(target + 1)
        for s in range(target + 1):
            for i in range(min(size, target + 1 - s)):
                updated[s + i] += after[s] * masses[start[j] + i]
        after = updated
    return before[count, target]
