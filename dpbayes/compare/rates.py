"""Rates of convergence and the tuning that reaches them, as the theory has them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbayes.errors import ParameterError, UnsupportedError, nearest_name
from dpbayes.privacy import smoothing_delta

__all__ = ["DISTANCES", "MECHANISMS", "Tuning", "check_names", "rate", "tuning"]

#: Mechanisms that can be compared; "none" publishes the histogram itself.
MECHANISMS = ("none", "perturbed", "smoothed", "exponential")
DISTANCES = ("l2", "ks")


@dataclass(frozen=True)
class Tuning:
    """What a mechanism leaves to choose.

    Parameters
    ----------
    bins : int
        Cells along each axis; there are bins^r of them.
    draws : int or None
        Rows k; None: the density itself is published.
    delta : float or None
        Share of the uniform law (smoothed histograms).
    """

    bins: int
    draws: int | None = None
    delta: float | None = None


def check_names(mechanism: str, distance: str) -> None:
    """Refuse unknown names."""
    for name, value, known in (
        ("mechanism", mechanism, MECHANISMS),
        ("distance", distance, DISTANCES),
    ):
        if value not in known:
            raise ParameterError(
                f"{name} must be one of {', '.join(known)}, got {value!r}"
                f"{nearest_name(value, known)}"
            )


def rate(mechanism: str, distance: str, dimension: int = 1) -> float:
    """Exponent s of the expected error n^s, logarithms left out.

    ===========  =============  =====================================
    mechanism    squared L2     KS
    ===========  =============  =====================================
    none         -2/(2 + r)     -1/2
    perturbed    -2/(2 + r)     the larger of -2/(2 + r) and -1/2
    smoothed     -2/(2r + 3)    -2/(6 + r)
    exponential                 -1/3 (r = 1)
    ===========  =============  =====================================

    Parameters
    ----------
    mechanism : {"none", "perturbed", "smoothed", "exponential"}
    distance : {"l2", "ks"}
    dimension : int
        Dimension r.

    References
    ----------
    Wasserman & Zhou (2010), Theorems 4.2, 4.3, 4.4 and 5.1.
    """
    check_names(mechanism, distance)
    r = dimension
    found = {
        ("none", "l2"): -2.0 / (2 + r),
        ("none", "ks"): -0.5,
        ("perturbed", "l2"): -2.0 / (2 + r),
        ("perturbed", "ks"): max(-2.0 / (2 + r), -0.5),
        ("smoothed", "l2"): -2.0 / (2 * r + 3),
        ("smoothed", "ks"): -2.0 / (6 + r),
    }
    if r == 1:
        found["exponential", "ks"] = -1.0 / 3.0
    if (mechanism, distance) not in found:
        raise UnsupportedError(
            "the exponential mechanism is known for the KS distance in one dimension only"
        )
    return found[mechanism, distance]


def tuning(mechanism: str, distance: str, records: int, alpha: float, dimension: int = 1) -> Tuning:
    """Tuning that reaches the rate, with all constants 1.

    Parameters
    ----------
    mechanism, distance
        As in `rate`.
    records : int
        Number of records n.
    alpha : float
        Privacy loss α (a smoothed histogram takes the least δ for it).
    dimension : int
        Dimension r.

    References
    ----------
    Wasserman & Zhou (2010), Theorems 4.2 to 4.4 and 5.1.
    """
    rate(mechanism, distance, dimension)
    n, r = float(records), dimension
    if mechanism == "exponential":
        return Tuning(bins=1, draws=max(2, round(n ** (2.0 / 3.0))))
    if mechanism in ("none", "perturbed"):
        return Tuning(bins=max(2, round(n ** (1.0 / (2 + r)))))
    power_m, power_k = (
        (1.0 / (2 * r + 3), (r + 2.0) / (2 * r + 3))
        if distance == "l2"
        else (1.0 / (6 + r), 4.0 / (6 + r))
    )
    bins, draws = max(2, round(n**power_m)), max(1, round(n**power_k))
    delta = smoothing_delta(alpha=alpha, draws=draws, records=records, cells=bins**r)
    return Tuning(bins=bins, draws=draws, delta=float(np.clip(delta, 1e-300, 1.0)))
