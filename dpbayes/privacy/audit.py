r"""Audits: the supremum of the log ratio in the definition of differential privacy.

A mechanism is α-DP if Q(B | x) <= e^α Q(B | x') for all neighbours x, x' and all events B.

References
----------
Wasserman & Zhou (2010), Definition 2.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dpbayes.errors import ParameterError
from dpbayes.mechanism import Mechanism, as_mechanism
from dpbayes.noise import NoiseLaw
from dpbayes.noise.base import positive
from dpbayes.privacy import additive
from dpbayes.privacy.optimise import certified_maximum
from dpbayes.privacy.result import Audit
from dpbayes.privacy.samples import audit_samples

__all__ = ["Audit", "audit", "audit_samples", "law_gap"]


def audit(
    mechanism: Any,
    pairs: Iterable[tuple[Any, Any]],
    *,
    claim: float | None = None,
    shared_noise: bool = False,
    outputs: tuple[float, float] | None = None,
    lipschitz: float | None = None,
    tolerance: float = 1e-4,
) -> Audit:
    r"""Find the privacy loss, sup log Q(B \| x) / Q(B \| x'), over given pairs of neighbours.

    Both orders of each pair are looked at. Three kinds of mechanism are known:

    * additive noise with post-processing: exact. The laws of this package are log-concave
      and the steps monotone, so that the likelihood ratio is monotone in the output and its
      supremum lies at the last output or is the limit there; independent cells add up;
    * a function ``law(x)`` that returns the probabilities of finitely many outputs: exact;
    * a function ``law(x, z)`` that returns log densities at outputs z of an interval
      `outputs`: branch and bound, proved where `lipschitz` is given.

    Parameters
    ----------
    mechanism : Mechanism, NoiseLaw or callable
        What was done to the statistic x.
    pairs : iterable of pairs
        Neighbouring values of the statistic (numbers, or arrays whose cells got noise of
        their own), such as ``Neighbours.REPLACE_ONE.tables(cells=2, records=3)``.
    claim : float, optional
        Alpha that was claimed.
    shared_noise : bool
        Whether one draw of noise was added to all cells (it should not be).
    outputs : pair of float, optional
        Range of a one-dimensional output.
    lipschitz : float, optional
        Bound of the slope of the log density in z, the same for all x. Without it nothing is
        proved about outputs between those that were looked at.
    tolerance : float
        Width of the bounds at which the search stops.

    Returns
    -------
    Audit
        Lower and upper bound of the loss, and where it is reached.

    Raises
    ------
    ParameterError
        If there are no pairs, or probabilities are negative or do not sum to 1.
    UnsupportedError
        If the supremum cannot be found for this kind of mechanism.

    References
    ----------
    Wasserman & Zhou (2010), Definition 2.3.

    Examples
    --------
    >>> from dpbayes.noise import Laplace
    >>> found = audit(Laplace(scale=1), Neighbours.REPLACE_ONE.tables(2, 3), claim=1.0)
    >>> found.epsilon, found.holds
    (2.0, False)
    """
    if claim is not None:
        claim = float(positive("claim", claim))
    listed = [(np.asarray(x), np.asarray(y)) for x, y in pairs]
    if not listed:
        raise ParameterError("pairs must hold at least one pair of neighbours, got none")
    listed += [(y, x) for x, y in listed]
    if isinstance(mechanism, Mechanism | NoiseLaw):
        return additive.audit(as_mechanism(mechanism), listed, claim, shared_noise)
    if not callable(mechanism):
        raise ParameterError(
            f"mechanism must be a Mechanism, a noise law or a function, got {mechanism!r}"
        )
    if outputs is None:
        return _finite(mechanism, listed, claim)
    return _one_dimensional(mechanism, listed, claim, outputs, lipschitz, tolerance)


def _finite(
    law: Callable[[Any], Any], pairs: list[tuple[np.ndarray, np.ndarray]], claim: float | None
) -> Audit:
    """Largest log ratio of probabilities over all pairs and outputs."""
    seen: dict[bytes, np.ndarray] = {}
    best = Audit(-np.inf, -np.inf, None, None, claim, "")
    for x, y in pairs:
        p, q = (_probabilities(law, data, seen) for data in (x, y))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(p > 0, np.log(p) - np.log(q), -np.inf)
        top = int(np.argmax(ratio))
        if ratio[top] > best.epsilon:
            loss = float(ratio[top])
            best = Audit(loss, loss, (x, y), top, claim, "exact: all outputs enumerated")
    return best


def _probabilities(
    law: Callable[[Any], Any], data: np.ndarray, seen: dict[bytes, np.ndarray]
) -> np.ndarray:
    key = data.tobytes()
    if key not in seen:
        p = np.asarray(law(data), dtype=float).reshape(-1)
        if np.isnan(p).any() or (p < 0).any() or not np.isclose(p.sum(), 1.0, rtol=1e-9):
            raise ParameterError(
                f"probabilities must be nonnegative and sum to 1, got a sum of {p.sum():g} "
                f"at data {data.tolist()}"
            )
        seen[key] = p
    return seen[key]


def _one_dimensional(
    law: Callable[[Any, np.ndarray], Any],
    pairs: list[tuple[np.ndarray, np.ndarray]],
    claim: float | None,
    outputs: tuple[float, float],
    lipschitz: float | None,
    tolerance: float,
) -> Audit:
    """Branch and bound on an interval of outputs."""
    low, high = (float(end) for end in outputs)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ParameterError(f"outputs must be finite with lo < hi, got ({low:g}, {high:g})")
    proved = lipschitz is not None
    slope = 2.0 * (lipschitz if lipschitz is not None else 0.0)
    best, upper = Audit(-np.inf, -np.inf, None, None, claim, ""), -np.inf
    for x, y in pairs:

        def ratio(z: np.ndarray, x: np.ndarray = x, y: np.ndarray = y) -> np.ndarray:
            return np.asarray(law(x, z), float) - np.asarray(law(y, z), float)

        value, bound, place = certified_maximum(ratio, low, high, slope, tolerance)
        upper = max(upper, bound)
        if value > best.epsilon:
            best = Audit(value, value, (x, y), place, claim, "")
    reason = (
        f"outputs in [{low:g}, {high:g}], branch and bound"
        if proved
        else f"outputs in [{low:g}, {high:g}] on a grid; no bound without lipschitz="
    )
    return Audit(best.epsilon, upper if proved else np.inf, best.pair, best.output, claim, reason)


def law_gap(first: Any, second: Any, statistic: float, *, reach: float = 40.0) -> float:
    r"""Largest \|log ratio\| between two mechanisms' laws of one statistic, over an integer window.

    0 where both publish whole numbers with the same law. For example flooring a continuous
    Laplace law leaves its privacy loss alone, but is no discrete Laplace law: it publishes
    half a unit too little on average, and analysts told otherwise are misled.

    Parameters
    ----------
    first, second : Mechanism or NoiseLaw
        Mechanisms that publish whole numbers.
    statistic : float
        True value, a whole number.
    reach : float
        Half-width of the window around the statistic.
    """
    z = np.arange(np.ceil(statistic - reach), np.floor(statistic + reach) + 1.0)
    one, other = (as_mechanism(m).log_likelihood(z, statistic) for m in (first, second))
    with np.errstate(invalid="ignore"):
        gap = np.abs(one - other)
    return float(np.max(np.where(np.isneginf(one) & np.isneginf(other), 0.0, gap)))
