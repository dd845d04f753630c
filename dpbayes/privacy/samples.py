"""Audit of a mechanism that can only be run: a lower bound of its privacy loss."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import special

from dpbayes.errors import ParameterError
from dpbayes.noise.base import check_level, positive
from dpbayes.privacy.neighbours import whole
from dpbayes.privacy.result import Audit

__all__ = ["audit_samples"]

#: Thresholds tried for each feature, and cells whose differences are looked at.
_THRESHOLDS, _CELLS = 60, 12

Event = tuple[str, Callable[[np.ndarray], np.ndarray]]


def audit_samples(
    sample: Callable[[Any, int, np.random.Generator], Any],
    x: Any,
    neighbour: Any,
    *,
    claim: float | None = None,
    draws: int = 100_000,
    confidence: float = 0.999,
    random_seed: int = 0,
) -> Audit:
    r"""Bound the privacy loss of a black box from below, from its outputs at two neighbours.

    Half of the draws choose the event B (cells and differences of cells beyond a threshold
    or equal to a common value) with the largest ratio; the other half bounds
    log Q(B \| x) / Q(B \| x') by Clopper-Pearson limits. It can refute a claim, never prove it.

    Parameters
    ----------
    sample : callable
        ``sample(x, size, rng)`` returns `size` releases as rows.
    x, neighbour : object
        Neighbouring data sets.
    claim : float, optional
        Alpha that was claimed.
    draws : int
        Draws for each of the two data sets.
    confidence : float
        Probability that the bound is one.
    random_seed : int
        Seed.

    Returns
    -------
    Audit
        With ``upper`` infinite: nothing is proved from above.

    References
    ----------
    Clopper & Pearson (1934), The use of confidence or fiducial limits, section 2.
    """
    if claim is not None:
        claim = float(positive("claim", claim))
    check_level(confidence)
    rng = np.random.default_rng(random_seed)
    whole("draws", draws, 100)
    outputs = []
    for data in (x, neighbour):
        rows = np.asarray(sample(data, draws, rng), dtype=float)
        rows = rows[:, None] if rows.ndim == 1 else rows.reshape(rows.shape[0], -1)
        if rows.shape[0] != draws:
            raise ParameterError(f"sample must return {draws} releases, got {rows.shape[0]}")
        outputs.append(rows)
    half = draws // 2
    found, best = None, -np.inf
    for order in (False, True):
        one, other = outputs[::-1] if order else outputs
        for event in _events(one[:half], other[:half]):
            score = _bound(event, one[:half], other[:half], confidence)
            if score > best:
                found, best = (event, order), score
    assert found is not None  # there is at least one feature
    event, order = found
    one, other = outputs[::-1] if order else outputs
    loss = max(_bound(event, one[half:], other[half:], confidence), 0.0)
    pair = (neighbour, x) if order else (x, neighbour)
    reason = f"lower bound from {draws} draws each, confidence {confidence:g}"
    return Audit(loss, np.inf, pair, event[0], claim, reason)


def _bound(event: Event, one: np.ndarray, other: np.ndarray, confidence: float) -> float:
    """Clopper-Pearson lower limit of the log ratio of an event's probabilities."""
    hits, misses = int(event[1](one).sum()), int(event[1](other).sum())
    if hits == 0:
        return -np.inf
    tail = 0.5 * (1.0 - confidence)  # half of it for each of the two limits
    low = special.betaincinv(hits, one.shape[0] - hits + 1, tail)
    size = other.shape[0]
    high = 1.0 if misses == size else special.betaincinv(misses + 1, size - misses, 1.0 - tail)
    return float(np.log(low) - np.log(high))


def _features(rows: np.ndarray) -> Iterator[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
    cells = min(rows.shape[1], _CELLS)
    for i in range(cells):
        yield f"cell {i}", lambda r, i=i: r[:, i]  # type: ignore[misc]
    for i, j in itertools.combinations(range(cells), 2):
        yield f"cell {i} - cell {j}", lambda r, i=i, j=j: r[:, i] - r[:, j]  # type: ignore[misc]
        yield f"cell {i} + cell {j}", lambda r, i=i, j=j: r[:, i] + r[:, j]  # type: ignore[misc]


def _events(one: np.ndarray, other: np.ndarray) -> Iterator[Event]:
    """Half-lines of features, points that several outputs share, and withheld outputs."""
    levels = np.linspace(0.0, 1.0, _THRESHOLDS + 2)[1:-1]
    for name, feature in _features(one):
        values = feature(one)
        shown = values[~np.isnan(values)]
        if shown.size < values.size:
            yield f"{name} withheld", lambda r, f=feature: np.isnan(f(r))  # type: ignore[misc]
        if not shown.size:
            continue
        both = np.concatenate([shown, feature(other)])
        for t in np.unique(np.nanquantile(both, levels)):
            yield f"{name} <= {t:g}", lambda r, f=feature, t=t: f(r) <= t  # type: ignore[misc]
            yield f"{name} > {t:g}", lambda r, f=feature, t=t: f(r) > t  # type: ignore[misc]
        near = np.round(shown, 9)
        points, times = np.unique(near, return_counts=True)
        for p in points[np.argsort(-times)][:10]:
            yield (
                f"{name} = {p:g}",
                lambda r, f=feature, p=p: np.round(f(r), 9) == p,  # type: ignore[misc]
            )
        # Fractional parts tell whether noise covers the lattice of the statistic.
        parts = np.round(near % 1.0, 6) % 1.0
        fractions, times = np.unique(parts, return_counts=True)
        p = float(fractions[np.argmax(times)])
        if times.max() > 1:
            yield (
                f"fractional part of {name} = {p:g}",
                lambda r, f=feature, p=p: np.round(np.round(f(r), 9) % 1.0, 6) % 1.0 == p,  # type: ignore[misc]
            )
