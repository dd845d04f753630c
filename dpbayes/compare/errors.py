"""Errors of densities and distribution functions that are estimated from a release."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbayes.compare.rates import Tuning, check_names
from dpbayes.compare.targets import BetaMixture
from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.noise.base import positive
from dpbayes.simulate import ks_exponential

__all__ = ["expected_error", "simulate_errors"]

#: Points per cell at which distribution functions are compared.
_POINTS = 8
#: Entries simulated at a time.
_BATCH = 4_000_000
#: Records from which on a chain of the exponential mechanism takes too long.
_MOST_RECORDS = 100_000


def expected_error(
    mechanism: str,
    target: BetaMixture,
    records: int,
    alpha: float,
    tuning: Tuning,
    *,
    dimension: int = 1,
    clamp: bool = True,
) -> float | None:
    r"""Return the expected squared L2 error in closed form, None where none is known.

    With cells of volume h, masses p_j and estimates q_j, the error is
    ∫f² - (2/h) Σ p_j E q_j + (1/h) Σ E q_j². A histogram has E q_j = p_j and
    Var q_j = p_j (1 - p_j)/n; unclamped Laplace noise of scale 2/α adds 8/(nα)² to each
    variance, hence 8 m²/(nα)² to the error of m cells; k rows of a smoothed histogram have mean
    (1 - δ) p_j + δ/m. Clamped at 0 and normalised, a perturbed histogram has no closed form.

    Parameters
    ----------
    mechanism : {"none", "perturbed", "smoothed"}
        How the histogram is published.
    target : BetaMixture
        Law of each coordinate.
    records : int
        Number of records n.
    alpha : float
        Privacy loss α; inf allowed.
    tuning : Tuning
        Cells, rows and δ.
    dimension : int
        Dimension r.
    clamp : bool
        Whether a perturbed histogram is clamped at 0 and normalised.

    References
    ----------
    Wasserman & Zhou (2010), sections 4 and 6.
    """
    check_names(mechanism, "l2")
    if mechanism == "exponential":
        return None
    p, n = target.masses(tuning.bins, dimension), float(records)
    mean, variance = p, p * (1.0 - p) / n
    if mechanism == "perturbed" and not np.isinf(alpha):
        if clamp:
            return None
        variance = variance + 8.0 / (n * float(positive("alpha", alpha))) ** 2
    if mechanism == "smoothed":
        if tuning.draws is None or tuning.delta is None:
            raise ParameterError("a smoothed histogram needs draws= and delta= in its tuning")
        mean = (1.0 - tuning.delta) * p + tuning.delta / p.size
        variance = (1.0 - tuning.delta) ** 2 * variance
        within = mean - mean**2 - variance  # E q (1 - q)
        variance = variance + within / tuning.draws
    elif tuning.draws is not None:
        variance = variance + (mean - mean**2 - variance) / tuning.draws
    inside = np.sum(variance + mean**2 - 2.0 * p * mean) * p.size
    return float(target.square_integral(dimension) + inside)


def simulate_errors(
    mechanism: str,
    distance: str,
    target: BetaMixture,
    records: int,
    alpha: float,
    tuning: Tuning,
    *,
    simulations: int = 1000,
    dimension: int = 1,
    clamp: bool = True,
    rng: Any = None,
) -> np.ndarray:
    r"""Simulate errors of what is estimated from a release.

    Counts, noise and rows are drawn; the density is the histogram of the rows (or the
    published histogram itself), uniform within cells. The squared L2 error is exact given
    them. The KS distance is the largest difference of distribution functions over a grid of
    8 points per cell (in several dimensions: over the corners of cells).

    Parameters
    ----------
    mechanism : {"none", "perturbed", "smoothed", "exponential"}
        What is published.
    distance : {"l2", "ks"}
        Squared L2 distance of densities, or Kolmogorov-Smirnov distance.
    target, records, alpha, tuning, dimension, clamp
        As in `expected_error`.
    simulations : int
        Number of simulations.
    rng : Generator, int or None
        Source of randomness.
    """
    check_names(mechanism, distance)
    generator = np.random.default_rng(rng)
    if mechanism == "exponential":
        return _exponential(target, records, alpha, tuning, simulations, dimension, distance,
                            generator)  # fmt: skip
    p = target.masses(tuning.bins, dimension)
    batch = max(1, _BATCH // p.size)
    errors = []
    for start in range(0, simulations, batch):
        size = min(batch, simulations - start)
        q = _shares(mechanism, p.reshape(-1), records, alpha, tuning, clamp, size, generator)
        if distance == "l2":
            inside = np.sum(q * q - 2.0 * q * p.reshape(-1), axis=1) * p.size
            errors.append(target.square_integral(dimension) + inside)
        else:
            errors.append(_ks(q.reshape(size, *p.shape), target, tuning.bins))
    return np.concatenate(errors)


def _shares(
    mechanism: str,
    p: np.ndarray,
    records: int,
    alpha: float,
    tuning: Tuning,
    clamp: bool,
    size: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Estimated masses of cells, one row per simulation."""
    q = rng.multinomial(records, p / p.sum(), size=size) / records
    if mechanism == "perturbed" and not np.isinf(alpha):
        q = q + rng.laplace(0.0, 2.0 / (alpha * records), q.shape)
        if clamp:
            q = np.maximum(q, 0.0)
            total = q.sum(axis=1, keepdims=True)
            q = np.where(total > 0, q / np.where(total > 0, total, 1.0), 1.0 / p.size)
    if mechanism == "smoothed":
        assert tuning.delta is not None
        q = (1.0 - tuning.delta) * q + tuning.delta / p.size
    if tuning.draws is None:
        return q
    if mechanism == "perturbed" and not clamp:
        raise ParameterError("rows need a clamped histogram: negative shares cannot be drawn from")
    return rng.multinomial(tuning.draws, q / q.sum(axis=1, keepdims=True)) / tuning.draws


def _ks(q: np.ndarray, target: BetaMixture, bins: int) -> np.ndarray:
    """KS distances of estimates that are uniform within cells."""
    if q.ndim == 2:
        fine = np.linspace(0.0, 1.0, bins * _POINTS + 1)
        steps = np.repeat(q / _POINTS, _POINTS, axis=1)
        return np.abs(np.cumsum(steps, axis=1) - target.cdf(fine[1:])).max(axis=1)
    corners = target.cdf(np.linspace(0.0, 1.0, bins + 1)[1:])
    truth = corners
    for axis in range(1, q.ndim):
        q = np.cumsum(q, axis=axis)
        truth = truth if axis == 1 else np.multiply.outer(truth, corners)
    return np.abs(q - truth).reshape(q.shape[0], -1).max(axis=1)


def _exponential(
    target: BetaMixture,
    records: int,
    alpha: float,
    tuning: Tuning,
    simulations: int,
    dimension: int,
    distance: str,
    rng: np.random.Generator,
) -> np.ndarray:
    """KS distances of samples chosen by the exponential mechanism, each by a chain of its own."""
    if distance != "ks" or dimension != 1:
        raise UnsupportedError("the exponential mechanism is simulated for KS in one dimension")
    if records > _MOST_RECORDS:
        raise UnsupportedError(
            f"the exponential mechanism takes too long for {records} records: "
            f"at most {_MOST_RECORDS}"
        )
    errors = np.empty(simulations)
    for i in range(simulations):
        z = ks_exponential(
            target.sample(records, rng), alpha=alpha, draws=tuning.draws, sweeps=200, rng=rng
        )
        heights, truth = np.arange(z.size + 1) / z.size, target.cdf(z)
        errors[i] = np.maximum(heights[1:] - truth, truth - heights[:-1]).max()
    return errors
