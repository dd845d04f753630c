"""Closure of differential privacy under what people do with releases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dpbayes.errors import ParameterError
from dpbayes.mechanism import Mechanism, Step, as_mechanism
from dpbayes.noise import Laplace
from dpbayes.noise.base import positive
from dpbayes.privacy.neighbours import whole

__all__ = [
    "compose",
    "group_privacy",
    "laplace_mechanism",
    "post_process",
    "power_bound",
    "repeated_draws",
    "split_budget",
]


def post_process(mechanism: Any, *steps: Step) -> Mechanism:
    """Return the mechanism followed by further steps: its alpha does not grow.

    Parameters
    ----------
    mechanism : Mechanism or NoiseLaw
        What was done so far.
    *steps : Step
        Further post-processing, which must not look at the data again.

    References
    ----------
    Wasserman & Zhou (2010), Lemma 2.6 (1).
    """
    first = as_mechanism(mechanism)
    return Mechanism(first.noise, (*first.steps, *steps))


def repeated_draws(alpha: float, draws: int) -> float:
    """Alpha of any number of independent draws from a density that is itself a release.

    The density is α-DP; drawing from it does not look at the data again, so that the draws
    are α-DP whatever their number.

    Parameters
    ----------
    alpha : float
        Privacy loss of the released density.
    draws : int
        Number of draws.

    References
    ----------
    Wasserman & Zhou (2010), Lemma 2.6 (2).
    """
    whole("draws", draws, 0)
    return float(positive("alpha", alpha))


def laplace_mechanism(*, sensitivity: float, alpha: float) -> Mechanism:
    """Mechanism that releases a statistic with Laplace(sensitivity / α) noise.

    Parameters
    ----------
    sensitivity : float
        L1 sensitivity of the whole released vector.
    alpha : float
        Privacy loss.

    References
    ----------
    Wasserman & Zhou (2010), Lemma 2.6 (3).
    """
    return Mechanism(
        Laplace.from_epsilon(epsilon=positive("alpha", alpha), sensitivity=sensitivity)
    )


def compose(alphas: Iterable[float], *, disjoint: bool = False) -> float:
    """Alpha of several releases together.

    Parameters
    ----------
    alphas : iterable of float
        Privacy loss of each release.
    disjoint : bool
        False: the same people are in all of them, losses add up. True: each record is in one
        of them only and alphas are meant under `Neighbours.ADD_REMOVE`: the largest counts.
    """
    losses = [float(positive("alpha", alpha)) for alpha in alphas]
    if not losses:
        raise ParameterError("alphas must hold at least one privacy loss, got none")
    return max(losses) if disjoint else float(np.sum(losses))


def split_budget(alpha: float, weights: Sequence[float]) -> list[float]:
    """Split an alpha among releases of the same people, in proportion to weights.

    Parameters
    ----------
    alpha : float
        Privacy loss of all of them together.
    weights : sequence of float
        Positive shares, of any sum.
    """
    budget, shares = positive("alpha", alpha), np.atleast_1d(positive("weights", weights))
    return [float(share) for share in budget * shares / shares.sum()]


def group_privacy(alpha: float, size: int) -> float:
    """Alpha that protects a group of people: size times that of one.

    Parameters
    ----------
    alpha : float
        Privacy loss for one person.
    size : int
        Number of people in the group.
    """
    return float(positive("alpha", alpha)) * whole("size", size, 1)


def power_bound(level: float, alpha: float) -> float:
    r"""Largest power of any test of level γ about one person's record: min(1, γ e^α).

    The complement gives a second bound, 1 - (1 - γ) e^{-α}; the smaller of the two is returned.

    Parameters
    ----------
    level : float
        Level γ of the test, between 0 and 1.
    alpha : float
        Privacy loss (inf allowed: the bound is then 1).

    References
    ----------
    Wasserman & Zhou (2010), Theorem 2.4 (the first bound).
    """
    if not 0 < level < 1:
        raise ParameterError(f"level must be between 0 and 1, got {level}")
    loss = float(positive("alpha", alpha, allow_inf=True))
    if np.isinf(loss) or loss > -np.log(level):
        return float(1.0 - (1.0 - level) * np.exp(-loss))
    return float(min(level * np.exp(loss), 1.0 - (1.0 - level) * np.exp(-loss)))
