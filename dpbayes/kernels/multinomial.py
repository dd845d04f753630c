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

and where V is small, so that the total is a lumpy sum of a few uncertain counts, the exact
convolution of the tilted counts. The gradient in :math:`\log p_j` is analytic: each cumulant is
the derivative of the one before. In exact form it is :math:`E[N_j \mid y, \sum N = n]`.

References
----------
.. [1] Daniels, H. E. (1954). Saddlepoint approximations in statistics, equation (2.6).
"""

import math

import numpy as np
from numba import njit

from dpbayes.kernels.families import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, GAUSSIAN
from dpbayes.kernels.poisson import floor_to_lattice, noise_interval, noise_point

#: Below this variance of the total its probability is computed by convolution,
#: and below the second where there are at most FEW cells.
EXACT_VARIANCE, EXACT_VARIANCE_FEW, FEW = 4.0, 40.0, 8
_TINY = 1e-18
_CUMULANTS = 6  # psi and the first five cumulants


@njit(cache=True, nogil=True)
def log_likelihood(family, lower, upper, scale, step, m):
    """Log Q(y | m) up to the noise's peak height where the bounds are a point."""
    if lower == upper:
        distance = abs(lower - m) / scale
        if family in (GAUSSIAN, DISCRETE_GAUSSIAN):
            return -0.5 * distance * distance
        return -distance
    low, high = lower - m, upper - m
    if family in (DISCRETE_LAPLACE, DISCRETE_GAUSSIAN):
        low, high = floor_to_lattice(low, step), floor_to_lattice(high, step)
    return noise_interval(family, low, high, scale, step)


@njit(cache=True, nogil=True)
def tilted_mode(family, lower, upper, scale, step, theta, n):
    """Find the most likely count of a cell under the tilt: bisection on a log-concave law."""
    low, high = 0.0, n
    while low < high:
        middle = np.floor(0.5 * (low + high))
        rise = log_likelihood(family, lower, upper, scale, step, middle + 1.0)
        rise -= log_likelihood(family, lower, upper, scale, step, middle)
        if rise + theta - math.log(middle + 1.0) > 0.0:
            low = middle + 1.0
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _point_side(family, y, scale, rate, mode, direction, n, out, filled):
    """Masses of the counts on one side of the mode for a released point, by recurrence.

    Returns how many were written to `out` from `filled` on, minus one where there is no room.
    """
    mass, m, end = 1.0, mode, filled
    gaussian = family in (GAUSSIAN, DISCRETE_GAUSSIAN)
    if gaussian:  # Q(m + direction) / Q(m), and the factor by which it changes
        ratio = math.exp((2.0 * direction * (y - mode) - 1.0) / (2.0 * scale * scale))
        shrink = math.exp(-1.0 / (scale * scale))
    else:
        ratio, shrink = 0.0, 1.0
        towards, away = math.exp(1.0 / scale), math.exp(-1.0 / scale)
    while (m < n) if direction > 0.0 else (m > 0.0):
        following = m + direction
        if not gaussian:
            gap, next_gap = (y - m) * direction, (y - following) * direction
            if next_gap >= 0.0:
                ratio = towards
            elif gap <= 0.0:
                ratio = away
            else:
                ratio = math.exp((gap + next_gap) / scale)
        mass *= ratio * (rate / following if direction > 0.0 else m / rate)
        ratio *= shrink
        m = following
        if mass < _TINY:
            break
        if end == out.size:
            return -1
        out[end] = mass
        end += 1
    return end - filled


@njit(cache=True, nogil=True)
def _interval_side(family, lower, upper, scale, step, theta, mode, top, direction, n, out, filled):
    """As `_point_side`, for a released interval."""
    log_ratio, m, end = 0.0, mode, filled
    while (m < n) if direction > 0.0 else (m > 0.0):
        following = m + direction
        log_ratio += direction * (theta - math.log(max(m, following)))
        noise = log_likelihood(family, lower, upper, scale, step, following)
        mass = math.exp(log_ratio + noise - top)
        m = following
        if mass < _TINY:
            break
        if end == out.size:
            return -1
        out[end] = mass
        end += 1
    return end - filled


@njit(cache=True, nogil=True)
def tilted_mass(family, lower, upper, scale, step, theta, n, out):
    """Unnormalised law of a cell's count under the tilt, outwards from its mode.

    Fills `out` while there is room and returns the first count, the number of counts, and the
    log of the unit of mass. Without room (``out.size`` too small) the number is minus one.
    """
    if theta == -np.inf:
        out[0] = 1.0
        return 0.0, 1, log_likelihood(family, lower, upper, scale, step, 0.0)
    mode, rate = tilted_mode(family, lower, upper, scale, step, theta, n), math.exp(theta)
    top = log_likelihood(family, lower, upper, scale, step, mode)
    out[0] = 1.0
    # away from tiny scales both factors of a point have short recurrences
    if lower == upper and scale > 0.01:
        right = 1 + _point_side(family, lower, scale, rate, mode, 1.0, n, out, 1)
        if right == 0:
            return mode, -1, top
        left = _point_side(family, lower, scale, rate, mode, -1.0, n, out, right)
    else:
        right = 1 + _interval_side(
            family, lower, upper, scale, step, theta, mode, top, 1.0, n, out, 1
        )
        if right == 0:
            return mode, -1, top
        left = _interval_side(
            family, lower, upper, scale, step, theta, mode, top, -1.0, n, out, right
        )
    if left < 0:
        return mode, -1, top
    # rotate the left part, stored from the mode downwards, in front of the right part
    ordered = np.empty(right + left)
    for i in range(left):
        ordered[left - 1 - i] = out[right + i]
    ordered[left:] = out[:right]
    out[: right + left] = ordered
    return mode - left, right + left, top + theta * mode - math.lgamma(mode + 1.0)


@njit(cache=True, nogil=True)
def _cell(family, lower, upper, scale, step, theta, n, scratch, out):
    """Log partition psi of one cell and its first five derivatives; returns the scratch space."""
    first, size, unit = tilted_mass(family, lower, upper, scale, step, theta, n, scratch)
    while size < 0:
        scratch = np.empty(4 * scratch.size)
        first, size, unit = tilted_mass(family, lower, upper, scale, step, theta, n, scratch)
    total = mean = 0.0
    for i in range(size):
        total += scratch[i]
        mean += i * scratch[i]
    mean /= total
    second = third = fourth = fifth = 0.0
    for i in range(size):
        d = i - mean
        w = scratch[i] * d * d
        second += w
        third += w * d
        fourth += w * d * d
        fifth += w * d * d * d
    second, third, fourth, fifth = second / total, third / total, fourth / total, fifth / total
    out[0] = unit + math.log(total)
    out[1] = first + mean
    out[2] = second
    out[3] = third
    out[4] = fourth - 3.0 * second * second
    out[5] = fifth - 10.0 * third * second
    return scratch


@njit(cache=True, nogil=True)
def solve_tilt(family, lower, upper, scale, step, log_p, n):
    """Tilt tau with expected total n, and each cell's log partition and cumulants there.

    Returns tau = nan where no tilt reaches the total: it is then impossible.
    """
    cells = log_p.size
    cumulants = np.empty((cells, _CUMULANTS))
    scratch = np.empty(256)
    tau = math.log(max(n, 0.5))
    low, high = -np.inf, np.inf
    for _ in range(200):
        for j in range(cells):
            scratch = _cell(
                family, lower[j], upper[j], scale[j], step, log_p[j] + tau, n, scratch,
                cumulants[j],
            )  # fmt: skip
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
def _peaks(family, lower, upper, log_jacobian, scale, step):
    """Terms of the log-likelihood that do not depend on the counts."""
    total = 0.0
    for j in range(lower.size):
        if lower[j] == upper[j]:
            total += noise_point(family, 0.0, scale[j], step)
        total += log_jacobian[j]
    return total


@njit(cache=True, nogil=True)
def value_and_gradient(family, lower, upper, log_jacobian, scale, step, log_p, n, gradient):
    """Log-likelihood; fills `gradient` with its derivatives in log p.

    Parameters
    ----------
    family : int
        Noise family code.
    lower, upper, log_jacobian : ndarray, shape (J,)
        Canonical bounds of count + noise in each cell.
    scale : ndarray, shape (J,)
        Noise scale of each cell.
    step : float
        Lattice step of a discrete law.
    log_p : ndarray, shape (J,)
        Log probabilities of the cells.
    n : float
        Public total.
    gradient : ndarray, shape (J,)
        Output.
    """
    gradient[:] = 0.0
    for j in range(log_p.size):
        if math.isnan(log_p[j]) or not scale[j] > 0.0 or lower[j] > upper[j]:
            return -np.inf
    tau, cumulants = solve_tilt(family, lower, upper, scale, step, log_p, n)
    if math.isnan(tau):
        return -np.inf
    value = math.lgamma(n + 1.0) - n * tau + _peaks(family, lower, upper, log_jacobian, scale, step)
    for j in range(log_p.size):
        value += cumulants[j, 0]
    threshold = EXACT_VARIANCE if log_p.size > FEW else EXACT_VARIANCE_FEW
    if cumulants[:, 2].sum() < threshold:
        return value + _exact(family, lower, upper, scale, step, log_p + tau, n, gradient)
    return value + _saddlepoint(cumulants, gradient)


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
def _exact(family, lower, upper, scale, step, theta, n, gradient):
    """Log P(sum = n) by convolving the tilted counts; fills the gradient E[N_j | y, sum = n]."""
    cells = theta.size
    first = np.empty(cells, dtype=np.int64)
    start = np.zeros(cells + 1, dtype=np.int64)
    masses = np.empty(64 * cells + 64)
    scratch = np.empty(1024)
    for j in range(cells):
        at, size, _ = tilted_mass(family, lower[j], upper[j], scale[j], step, theta[j], n, scratch)
        while size < 0:
            scratch = np.empty(4 * scratch.size)
            at, size, _ = tilted_mass(
                family, lower[j], upper[j], scale[j], step, theta[j], n, scratch
            )
        if start[j] + size > masses.size:
            grown = np.empty(2 * (masses.size + size))
            grown[: start[j]] = masses[: start[j]]
            masses = grown
        first[j] = at
        start[j + 1] = start[j] + size
        masses[start[j] : start[j + 1]] = scratch[:size] / scratch[:size].sum()
    # A total of s above the sum of the first counts; only totals up to `target` matter.
    target = int(n) - first.sum()
    if target < 0 or target > (start[1:] - start[:-1] - 1).sum():
        gradient[:] = 0.0
        return -np.inf
    before = np.zeros((cells + 1, target + 1))
    before[0, 0] = 1.0
    for j in range(cells):
        for s in range(target + 1):
            for i in range(min(start[j + 1] - start[j], target + 1 - s)):
                before[j + 1, s + i] += before[j, s] * masses[start[j] + i]
    mass = before[cells, target]
    after = np.zeros(target + 1)
    after[0] = 1.0
    for j in range(cells - 1, -1, -1):
        size = start[j + 1] - start[j]
        mean = 0.0
        for i in range(1, min(size, target + 1)):
            others = 0.0
            for s in range(target + 1 - i):
                others += before[j, s] * after[target - i - s]
            mean += i * masses[start[j] + i] * others
        gradient[j] = first[j] + mean / mass
        updated = np.zeros(target + 1)
        for s in range(target + 1):
            for i in range(min(size, target + 1 - s)):
                updated[s + i] += after[s] * masses[start[j] + i]
        after = updated
    return math.log(mass)
