"""Planning: which epsilon, or how many records, an interval of a given width takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from dpbayes.errors import ParameterError
from dpbayes.noise.base import check_level, positive

__all__ = ["Plan", "plan"]


@dataclass(frozen=True)
class Plan:
    """What an interval takes.

    Parameters
    ----------
    records : float
        Number of records n (a whole number where it was solved for).
    epsilon : float
        Privacy loss of the histogram.
    half_width : float
        Half-width of the interval, in the units of the functional.
    sampling_share : float
        Share of the variance that is due to the sampling of records from P; the rest is
        privacy noise.
    """

    records: float
    epsilon: float
    half_width: float
    sampling_share: float

    def __str__(self) -> str:
        return (
            f"n = {self.records:,.0f} records and epsilon = {self.epsilon:.4g} give "
            f"±{self.half_width:.4g}; {1 - self.sampling_share:.0%} of the variance is noise"
        )


def plan(
    functional: Any,
    probabilities: Any,
    *,
    half_width: float | None = None,
    records: float | None = None,
    epsilon: float | None = None,
    sensitivity: float = 2.0,
    level: float = 0.95,
) -> Plan:
    r"""Solve for epsilon, for n or for the half-width of an interval on a functional of P.

    For counts y = N + Laplace(S/ε) and a functional Σ f_j p_j the efficient variance given
    a public total is

        Var_P(f)/n + 2 (S/ε)² Σ (f_j - mean f)² / n²,

    sampling and noise. (y has covariance n (diag p - p p') + 2 (S/ε)² I and Σ p_j = 1.)

    Parameters
    ----------
    functional : array_like
        f_j by cell: middles of bins for the mean, 0 and 1 for a share or P(X <= edge).
        For the q-quantile give 1/density at the quantile for the cells below it and 0 above.
    probabilities : array_like
        Guess of P by cell.
    half_width : float, optional
        Half-width of the interval wanted. Exactly one of `half_width`, `records` and
        `epsilon` may be left out, and is solved for.
    records : float, optional
        Number of records n.
    epsilon : float, optional
        Privacy loss of the histogram.
    sensitivity : float
        L1 sensitivity S of the counts: 2 for replaced records, 1 for added ones.
    level : float
        Probability of the interval.

    Raises
    ------
    ParameterError
        If no epsilon is enough: the sampling of n records alone is wider (the message says
        which n would do without any noise).

    References
    ----------
    Wasserman & Zhou (2010), section 4, for the release.
    """
    given = {"half_width": half_width, "records": records, "epsilon": epsilon}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) != 1:
        raise ParameterError(
            f"leave out exactly one of half_width, records and epsilon, got {len(missing)} left out"
        )
    for name, value in given.items():
        if value is not None:
            positive(name, value)
    sampling, noise = _variances(
        functional, probabilities, float(positive("sensitivity", sensitivity))
    )
    check_level(level)
    z = float(special.ndtri(0.5 + 0.5 * level))
    n, eps, width = _solve(given, sampling, noise, z)
    total = sampling / n + noise / (n * eps) ** 2
    return Plan(n, eps, width, (sampling / n) / total)


def _variances(functional: Any, probabilities: Any, sensitivity: float) -> tuple[float, float]:
    """Return the sampling variance times n, and noise variance times (n ε)²."""
    f, p = np.asarray(functional, float), np.asarray(probabilities, float)
    if f.shape != p.shape or f.ndim != 1 or f.size < 2:
        raise ParameterError(
            "functional and probabilities must have one entry per cell, "
            f"got {f.shape} and {p.shape}"
        )
    if (p < 0).any() or not np.isclose(p.sum(), 1.0, rtol=1e-6) or not np.all(np.isfinite(f)):
        raise ParameterError("probabilities must be nonnegative and sum to 1, functional finite")
    p = p / p.sum()
    sampling = float(p @ (f - p @ f) ** 2)
    noise = float(2.0 * sensitivity**2 * np.sum((f - f.mean()) ** 2))
    if noise == 0.0:
        raise ParameterError("functional must differ between cells: a constant needs no data")
    return sampling, noise


def _solve(
    given: dict[str, float | None], sampling: float, noise: float, z: float
) -> tuple[float, float, float]:
    """Return records, epsilon and half-width, two of them given."""
    n, eps, width = given["records"], given["epsilon"], given["half_width"]
    if width is None:
        assert n is not None
        assert eps is not None
        return n, eps, z * float(np.sqrt(sampling / n + noise / (n * eps) ** 2))
    variance = (width / z) ** 2
    if n is None:
        assert eps is not None
        # variance n² - sampling n - noise/ε² = 0
        root = np.sqrt(sampling**2 + 4.0 * variance * noise / eps**2)
        exact = float((sampling + root) / (2.0 * variance))
        n = float(np.ceil(exact * (1.0 - 1e-12)))
        return n, eps, z * float(np.sqrt(sampling / n + noise / (n * eps) ** 2))
    rest = variance - sampling / n
    if rest <= 0:
        raise ParameterError(
            f"half_width must be above {z * np.sqrt(sampling / n):.4g}, what {n:g} records give "
            f"without any noise, got {width:g}: it takes over {sampling / variance:,.0f} records"
        )
    return n, float(np.sqrt(noise / rest) / n), width
