r"""Exact, independent draws of a rate from a noisy numerator and a noisy denominator.

With rate p ~ Beta(a, b), denominator N with prior weight π(N) = 1 / (N + 1) and numerator
C ~ Binomial(N, p), the rate is integrated out:

.. math::

   P(C, D \mid y) \propto
   \underbrace{\frac{\Gamma(a + C)}{C!} Q_c(y_c \mid C)}_{v(C)}
   \underbrace{\frac{\Gamma(b + D)}{D!}}_{w(D)}
   \underbrace{\frac{N! \, \pi(N)}{\Gamma(a + b + N)} Q_n(y_n \mid N)}_{u(N)},
   \qquad N = C + D.

The law of N is u times the convolution of v and w, by one FFT over the counts that matter; given N
the numerator is drawn from v(C) w(N - C), given both p ~ Beta(a + C, b + D). No Markov chain and
no approximation but the cut of windows at e^-50 of the largest weight. The weights are tilted by
:math:`e^{\tau N}` so that the transform keeps its digits where the two releases contradict each
other (more clicks than impressions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import fft, special

from dpbayes.errors import ImpossibleReleaseError, UnsupportedError
from dpbayes.kernels.pair_draws import draw_parts
from dpbayes.mechanism import Preimage
from dpbayes.mechanism.core import bounds_log_likelihood
from dpbayes.noise import NoiseLaw
from dpbayes.releases.observations import Observations

__all__ = ["RateDraws", "draw_rate"]

_DEPTH = 50.0  # log of the largest weight over the smallest that is kept
_WIDEST = 1 << 24  # counts in a window
_COARSE = 4096

_LogWeight = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class RateDraws:
    """Draws of one rate and of its true counts.

    Parameters
    ----------
    rate : ndarray, shape (draws,)
    numerator, denominator : ndarray of int, shape (draws,)
    log_evidence : float
        log of the released values' probability (density), up to the constant of π.
    """

    rate: np.ndarray
    numerator: np.ndarray
    denominator: np.ndarray
    log_evidence: float


@dataclass(frozen=True)
class _Seen:
    """One released count: log Q as a function of the true count, and where it is large."""

    bounds: Preimage
    noise: NoiseLaw
    peak: float
    spread: float

    @classmethod
    def of(cls, seen: Observations, index: int) -> _Seen:
        """Take one cell."""
        fields = ("lower", "upper", "lower_closed", "upper_closed", "log_jacobian")
        bounds = Preimage(*(getattr(seen.bounds, f)[index : index + 1] for f in fields))
        noise = seen.noise.at(np.array([index]))
        low, high = float(bounds.lower[0]), float(bounds.upper[0])
        middle = 0.5 * (low + high) if np.isfinite(low) and np.isfinite(high) else 0.0
        if np.isinf(high) and np.isfinite(low):
            middle = low + 1.0
        sd = float(np.max(np.asarray(noise.sd)))
        return cls(bounds, noise, max(np.round(middle), 0.0), sd)

    def log_q(self, count: np.ndarray) -> np.ndarray:
        """Log-likelihood of true counts."""
        return bounds_log_likelihood(self.noise, self.bounds, np.asarray(count, dtype=float))


def draw_rate(
    numerator: Observations,
    denominator: Observations,
    index: int,
    prior: tuple[float, float],
    draws: int,
    rng: np.random.Generator,
    label: str = "the rate",
) -> RateDraws:
    """Draw one rate.

    Parameters
    ----------
    numerator, denominator : Observations
        Released counts.
    index : int
        Which of their cells.
    prior : pair of float
        Parameters a, b of the Beta prior of the rate.
    draws : int
        Number of independent draws.
    rng : Generator
        Source of randomness.
    label : str
        Name of the rate, for messages.

    Raises
    ------
    ImpossibleReleaseError
        If no counts could have led to the two values.
    UnsupportedError
        If the released denominator does not bound the true one.
    """
    a, b = prior
    over, under = _Seen.of(numerator, index), _Seen.of(denominator, index)
    top, part_at, total_at = _summit(over, under, label)

    def best_given_part(c: np.ndarray) -> np.ndarray:
        return over.log_q(c) + under.log_q(np.maximum(c, under.peak))

    def best_given_total(n: np.ndarray) -> np.ndarray:
        return under.log_q(n) + over.log_q(np.minimum(n, over.peak))

    low_c, high_c = _window(best_given_part, part_at, top, over.spread, label)
    low_n, high_n = _window(best_given_total, total_at, top, under.spread, label)
    low_n = max(low_n, low_c)
    high_c = min(high_c, high_n)
    low_d, high_d = max(low_n - high_c, 0), high_n - low_c
    tilt = _tilt(over, under, part_at) if part_at == total_at else 0.0
    windows = ((low_c, high_c), (low_d, high_d), (low_n, high_n))
    c, d, n = (np.arange(low, high + 1.0) for low, high in windows)
    v = special.gammaln(a + c) - special.gammaln(c + 1.0) + over.log_q(c) + tilt * c
    w = special.gammaln(b + d) - special.gammaln(d + 1.0) + tilt * d
    u = special.gammaln(n + 1.0) - special.gammaln(a + b + n) - np.log1p(n)
    u += under.log_q(n) - tilt * n
    part, rest = np.exp(v - v.max()), np.exp(w - w.max())
    both = _convolve(part, rest)
    start = low_n - low_c - low_d
    with np.errstate(divide="ignore"):
        law = u + np.log(np.maximum(both[start : start + n.size], 0.0))
    if not np.isfinite(law.max()):
        raise ImpossibleReleaseError(f"{label}: no true counts could have led to both values")
    mass = np.exp(law - law.max())
    chosen = rng.choice(n.size, size=draws, p=mass / mass.sum())
    order = np.argsort(chosen, kind="stable")
    first = draw_parts(part, rest, chosen + start, order, rng)
    count, total = first + low_c, chosen + low_n
    evidence = law.max() + np.log(mass.sum()) + v.max() + w.max() - special.betaln(a, b)
    return RateDraws(rng.beta(a + count, b + (total - count)), count, total, float(evidence))


def _tilt(over: _Seen, under: _Seen, at: float) -> float:
    """Slope of both log Q where the two releases contradict each other and meet at one count."""
    around = at + np.array([-1.0, 0.0, 1.0])
    with np.errstate(invalid="ignore"):
        up, down = np.diff(over.log_q(around)), np.diff(under.log_q(around))
    # at a kink any slope between those of its sides will do
    low, high = np.fmax(down[1], -up[0]), np.fmin(down[0], -up[1])
    return float(0.5 * (np.clip(low, -20.0, 20.0) + np.clip(high, -20.0, 20.0)))


def _convolve(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Convolution of two arrays, by FFT."""
    size = x.size + y.size - 1
    padded = fft.next_fast_len(size, real=True)
    return fft.irfft(fft.rfft(x, padded) * fft.rfft(y, padded), padded)[:size]


def _summit(over: _Seen, under: _Seen, label: str) -> tuple[float, float, float]:
    """Largest log Q of both with numerator <= denominator, and where it is."""
    if over.peak <= under.peak:
        at_c, at_n = over.peak, under.peak
        top = float(over.log_q(np.array([at_c]))[0] + under.log_q(np.array([at_n]))[0])
    else:  # the two contradict each other: they meet where both are equal
        low, high = under.peak, over.peak
        while True:
            step = max(np.floor((high - low) / _COARSE), 1.0)
            grid = np.arange(low, high + step, step)
            both = over.log_q(grid) + under.log_q(grid)
            best = int(np.argmax(both))
            if step == 1.0:
                break
            low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
        at_c = at_n = float(grid[best])
        top = float(both[best])
    if not np.isfinite(top):
        raise ImpossibleReleaseError(f"{label}: no true counts could have led to both values")
    return top, at_c, at_n


def _window(
    log_weight: _LogWeight, centre: float, top: float, spread: float, label: str
) -> tuple[int, int]:
    """Find the counts whose weight is within reach of the largest, around it."""
    ends = []
    for direction in (-1.0, 1.0):
        inside, step = 0.0, max(np.ceil(20.0 * spread), 8.0)  # no gap in the noise is that wide
        while True:
            reach = inside + step
            if direction < 0.0 and centre - reach <= 0.0:
                ends.append(0.0)
                break
            if reach > _WIDEST:
                raise UnsupportedError(
                    f"{label}: the released denominator must bound the true one from above, and "
                    f"noise must be narrow enough for {_WIDEST} counts"
                )
            if log_weight(np.array([centre + direction * reach]))[0] < top - _DEPTH:
                ends.append(_last_inside(log_weight, centre, direction, inside, reach, top))
                break
            inside, step = reach, 2.0 * step
    return int(ends[0]), int(ends[1])


def _last_inside(
    log_weight: _LogWeight,
    centre: float,
    direction: float,
    inside: float,
    outside: float,
    top: float,
) -> float:
    """Bisect for the last count within reach."""
    while outside - inside > 1.0:
        middle = np.floor(0.5 * (inside + outside))
        if log_weight(np.array([centre + direction * middle]))[0] < top - _DEPTH:
            outside = middle
        else:
            inside = middle
    return centre + direction * inside
