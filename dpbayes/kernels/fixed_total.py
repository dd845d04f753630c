r"""Independent counts given their sum: arrays only.

Cell j has a table g_j of probabilities, tilted so that the expected sum is n. The probability
of the sum n is then, with the cumulants κ of the sum, V = κ2 and λ_r = κ_r / V^(r/2), about

.. math::

   (2 \pi V)^{-1/2} \Bigl[1 + \tfrac{\lambda_4}{8} - \tfrac{5 \lambda_3^2}{24}
   - \tfrac{\lambda_6}{48} + \tfrac{35 \lambda_4^2}{384} + \tfrac{7 \lambda_3 \lambda_5}{48}
   - \tfrac{35 \lambda_3^2 \lambda_4}{64} + \tfrac{385 \lambda_3^4}{1152}\Bigr] ,

and where these terms are not small, a trapezoidal sum of the characteristic function, which
converges geometrically. It is about one over the sum's sd, so that draws by rejection succeed
often: all cells but one are drawn independently, that one takes the rest, and the table is kept
with probability proportional to the mass of the rest.

References
----------
Barndorff-Nielsen & Cox (1989), Asymptotic techniques for use in statistics, section 4.3.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["accumulate", "draw_alone", "log_mass_at", "tilt_to", "weigh"]

#: Entries below this share of the largest are cut off the ends of a table, and the same for
#: many cells, whose tilts are small.
_CUT, _CUT_MANY, _MANY = 1e-17, 1e-13, 256
#: The tilt is good enough when the expected sum is this many sds from the sum.
_NEAR = 0.03
#: Largest first correction with which the expansion is used, and least variance of the sum.
_CORRECTION, _VARIANCE = 0.03, 4.0
#: Length of the trapezoidal rule's period in sds of the sum, and extra entries.
_PERIOD, _EXTRA = 20.0, 64.0
#: The characteristic function is taken for 0 from here on.
_NOTHING = 1e-8
#: Recurrences of exponentials start afresh after so many entries.
_BLOCK = 64


@njit(cache=True, nogil=True)
def weigh(tables, offsets, first, mass, places, out, start, stop, log_norm, moments):
    """Posterior tables of cells under one prior law of all counts.

    Parameters
    ----------
    tables : ndarray
        Likelihood of the released value at the counts of each cell's window.
    offsets, first : ndarray of int
        Where each cell's table starts, and the end of the last; count of its first entry.
    mass : ndarray
        Prior mass of counts, at all counts of all windows.
    places : ndarray of int
        Where in `mass` each cell's window starts.
    out : ndarray
        Receives the tables, normalised.
    start, stop : ndarray of int
        Receive the part of each table in `out` that is worth keeping.
    log_norm : ndarray
        Receives the log of the factor taken out.
    moments : ndarray, shape (2,)
        Receives mean and variance of the sum.
    """
    cut = _CUT if places.size < _MANY else _CUT_MANY
    moments[:] = 0.0
    for j in range(places.size):
        a, size = offsets[j], offsets[j + 1] - offsets[j]
        peak = 0.0
        for i in range(size):
            value = tables[a + i] * mass[places[j] + i]
            out[a + i] = value
            peak = max(peak, value)
        if not peak > 0.0:
            log_norm[j], start[j], stop[j] = -np.inf, a, a + 1
            continue
        low, high = 0, size
        while out[a + low] < cut * peak:
            low += 1
        while out[a + high - 1] < cut * peak:
            high -= 1
        total, one, two = 0.0, 0.0, 0.0
        for i in range(low, high):
            value = out[a + i]
            total += value
            one += value * (i - low)
            two += value * (i - low) * (i - low)
        scale = 1.0 / total
        for i in range(low, high):
            out[a + i] *= scale
        one *= scale
        log_norm[j], start[j], stop[j] = math.log(total), a + low, a + high
        moments[0] += first[j] + low + one
        moments[1] += two * scale - one * one


@njit(cache=True, nogil=True)
def _tilted_moments(g, start, stop, slope):
    """Log of the sum of g_i exp(slope i), i from 0 at `start`, and mean and variance of i."""
    size = stop - start
    # From the end at which the factor is largest, where it is 1.
    ratio, total, one, two = math.exp(-abs(slope)), 0.0, 0.0, 0.0
    for block in range(0, size, _BLOCK):
        factor = math.exp(-abs(slope) * block)
        for i in range(block, min(block + _BLOCK, size)):
            term = g[stop - 1 - i if slope > 0.0 else start + i] * factor
            total += term
            one += term * i
            two += term * i * i
            factor *= ratio
    one /= total
    log_sum, variance = math.log(total), two / total - one * one
    if slope > 0.0:
        return log_sum + slope * (size - 1), size - 1 - one, variance
    return log_sum, one, variance


@njit(cache=True, nogil=True)
def _tilt(g, start, stop, slope, mean, moments):
    """Tilt one table in place; central moments 2 to 6 of its normalised entries."""
    size = stop - start
    ratio, total = math.exp(-abs(slope)), 0.0
    for block in range(0, size, _BLOCK):
        factor = math.exp(-abs(slope) * block)
        for i in range(block, min(block + _BLOCK, size)):
            k = stop - 1 - i if slope > 0.0 else start + i
            g[k] *= factor
            total += g[k]
            factor *= ratio
    m2, m3, m4, m5, m6 = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(start, stop):
        g[k] /= total
        x = k - start - mean
        square = x * x
        term = g[k] * square
        m2 += term
        m3 += term * x
        m4 += term * square
        m5 += term * square * x
        m6 += term * square * square
    moments[0], moments[1], moments[2], moments[3], moments[4] = m2, m3, m4, m5, m6


@njit(cache=True, nogil=True)
def tilt_to(g, offsets, first, start, stop, n, moments, means, cumulants):
    """Tilt all tables alike such that the expected sum is n.

    Parameters
    ----------
    g : ndarray
        Tables, changed in place.
    offsets, first : ndarray of int
        Where each cell's window starts in `g`, and the count of its first entry.
    start, stop : ndarray of int
        Part of each table in use.
    n : float
        Sum.
    moments : ndarray, shape (2,)
        Mean and variance of the sum without a tilt.
    means : ndarray
        Receives the expected counts.
    cumulants : ndarray, shape (7,)
        Receives the cumulants of the sum, from the second to the sixth at their places.

    Returns
    -------
    float
        Log of what multiplies P(sum = n) under the tilt; -inf where no tilt serves.
    """
    gap, log_norm = n - moments[0], 0.0
    low, high = (0.0, np.inf) if gap > 0.0 else (-np.inf, 0.0)
    slope = gap / max(moments[1], 1e-12)
    for _ in range(100):
        if not abs(slope) < 1e6:
            return -np.inf
        log_norm, mean, variance = 0.0, 0.0, 0.0
        for j in range(first.size):
            log_sum, m, v = _tilted_moments(g, start[j], stop[j], slope)
            origin = first[j] + start[j] - offsets[j]
            means[j] = origin + m
            log_norm += log_sum + slope * origin
            mean += means[j]
            variance += v
        gap = n - mean
        if abs(gap) <= _NEAR * math.sqrt(max(variance, 0.0)) + 1e-9 * max(abs(n), 1.0):
            break
        if gap > 0.0:
            low = slope
        else:
            high = slope
        new = slope + gap / max(variance, 1e-12)
        if not low < new < high:
            new = 0.5 * (low + high)
        if new == slope:
            return -np.inf
        slope = new
    central = np.empty(5)
    cumulants[:] = 0.0
    for j in range(first.size):
        place = means[j] - (first[j] + start[j] - offsets[j])
        _tilt(g, start[j], stop[j], slope, place, central)
        m2, m3, m4 = central[0], central[1], central[2]
        cumulants[2] += m2
        cumulants[3] += m3
        cumulants[4] += m4 - 3.0 * m2 * m2
        cumulants[5] += central[3] - 10.0 * m3 * m2
        cumulants[6] += central[4] - 15.0 * m4 * m2 - 10.0 * m3 * m3 + 30.0 * m2**3
    return log_norm - slope * n


@njit(cache=True, nogil=True)
def _waves(t, cosine, sine):
    """Cosines and sines of 0, t, 2 t, ..."""
    step = complex(math.cos(t), math.sin(t))
    for block in range(0, cosine.size, _BLOCK):
        turn = complex(math.cos(t * block), math.sin(t * block))
        for i in range(block, min(block + _BLOCK, cosine.size)):
            cosine[i], sine[i] = turn.real, turn.imag
            turn *= step


@njit(cache=True, nogil=True)
def _by_characteristic(g, offsets, first, start, stop, spread, n, holes):
    """Probability of the sum n by a trapezoidal sum of its characteristic function."""
    period = math.ceil(_PERIOD * spread + _EXTRA)
    longest = (stop - start).max()
    cosine, sine = np.empty(longest), np.empty(longest)
    total = 0.5  # half the term at t = 0
    for node in range(1, period // 2 + 1):
        t = 2.0 * math.pi * node / period
        _waves(t, cosine, sine)
        product, origin, size = complex(1.0, 0.0), -n, 1.0
        for j in range(first.size):
            part, width = g[start[j] : stop[j]], stop[j] - start[j]
            product *= complex(np.dot(part, cosine[:width]), np.dot(part, sine[:width]))
            origin += first[j] + start[j] - offsets[j]
            size = abs(product)
            if size < _NOTHING:
                break
        if size >= _NOTHING:
            share = 0.5 if 2 * node == period else 1.0
            total += share * (product * complex(math.cos(t * origin), math.sin(t * origin))).real
        elif not holes:
            break
    return 2.0 * total / period


@njit(cache=True, nogil=True)
def log_mass_at(g, offsets, first, start, stop, means, cumulants, n, holes):
    """Log probability that independent counts sum to n, their expected sum being about n.

    Parameters
    ----------
    g, offsets, first, start, stop, means, cumulants
        Tables and their moments (see `tilt_to`).
    n : float
        Sum.
    holes : bool
        Whether some counts inside a window are impossible: where all are even, say, the
        characteristic function has a second peak.

    Returns
    -------
    float
        -inf where no counts sum to n.
    """
    variance = cumulants[2]
    if variance > _VARIANCE and not holes:
        l3, l4 = cumulants[3] / variance**1.5, cumulants[4] / variance**2
        l5, l6 = cumulants[5] / variance**2.5, cumulants[6] / variance**3
        if abs(l4) / 8.0 + 5.0 * l3 * l3 / 24.0 < _CORRECTION:
            # Hermite polynomials: the tilt leaves the mean a little off.
            x = (n - means.sum()) / math.sqrt(variance)
            one = l3 / 6.0 * (x**3 - 3.0 * x) + l4 / 24.0 * (3.0 - 6.0 * x * x)
            one += l3 * l3 / 72.0 * (45.0 * x * x - 15.0) - 0.5 * x * x
            two = -l6 / 48.0 + 35.0 * l4 * l4 / 384.0 + 7.0 * l3 * l5 / 48.0
            two += -35.0 * l3 * l3 * l4 / 64.0 + 385.0 * l3**4 / 1152.0
            return math.log1p(one + two) - 0.5 * math.log(2.0 * math.pi * variance)
    spread = math.sqrt(max(variance, 0.0))
    mass = _by_characteristic(g, offsets, first, start, stop, spread, n, holes)
    return math.log(mass) if mass > _NOTHING else -np.inf


@njit(cache=True, nogil=True)
def accumulate(g, start, stop, cumulative, peaks):
    """Cumulative tables and their largest entries."""
    for j in range(start.size):
        total, peak = 0.0, 0.0
        for i in range(start[j], stop[j]):
            total += g[i]
            cumulative[i] = total
            peak = max(peak, g[i])
        peaks[j] = peak


@njit(cache=True, nogil=True)
def draw_alone(rng, cells, cumulative, offsets, first, start, stop, out, rest):
    """Draw the counts of some cells as if their sum were not known.

    Parameters
    ----------
    rng : Generator
        Source of randomness.
    cells : ndarray of int
        Cells to draw.
    cumulative : ndarray
        Cumulative tables.
    offsets, first, start, stop : ndarray of int
        Tables (see `tilt_to`).
    out : ndarray of int, shape (cells, draws)
        Receives the counts.
    rest : ndarray of int, shape (draws,)
        From which the counts are taken away.
    """
    for row in range(cells.size):
        j = cells[row]
        origin = first[j] - offsets[j]
        for d in range(rest.size):
            target = rng.random() * cumulative[stop[j] - 1]
            low, high = start[j], stop[j] - 1
            while low < high:
                middle = (low + high) >> 1
                if cumulative[middle] > target:
                    high = middle
                else:
                    low = middle + 1
            out[row, d] = origin + low
            rest[d] -= origin + low
