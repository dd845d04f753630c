"""The exponential mechanism: over finite outcomes, and over samples with KS loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.noise.base import positive
from dpbayes.privacy.neighbours import Neighbours, whole
from dpbayes.releases import SelectionRelease
from dpbayes.simulate.binning import check_records

__all__ = ["exponential_mechanism", "ks_exponential", "loss_sensitivity"]

#: Tables looked at when a sensitivity is computed or checked.
_ENUMERATED, _SAMPLED = 20_000, 200


def exponential_mechanism(
    counts: Any,
    *,
    outcomes: Sequence[Any],
    loss: Callable[[np.ndarray], np.ndarray],
    alpha: float,
    sensitivity: float | None = None,
    cells: Any = None,
    edges: Any = None,
    rng: Any = None,
) -> SelectionRelease:
    r"""Choose one outcome z with probability ∝ exp(-α ξ(x, z) / (2Δ)).

    Between neighbours each loss ξ changes by at most Δ, hence each weight by a factor of
    e^{α/2} at most, and the sum of the weights too: the choice is α-DP (Theorem 2.5). The
    loss that is reached may be smaller (see `dpbayes.privacy.audit`).

    Parameters
    ----------
    counts : array_like
        True counts by cell.
    outcomes : sequence
        Possible outcomes.
    loss : callable
        Losses of all outcomes given counts (see `dpbayes.releases.SelectionRelease`).
    alpha : float
        Privacy loss α under `Neighbours.REPLACE_ONE`.
    sensitivity : float, optional
        Δ. None: computed over all neighbouring tables of n records, where they are few.
    cells, edges
        Names of the cells (see `dpbayes.releases.SelectionRelease`).
    rng : Generator, int or None
        Source of randomness.

    Raises
    ------
    ParameterError
        If losses are not finite, or change by more than `sensitivity` somewhere near.
    UnsupportedError
        If there are too many tables to compute the sensitivity.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 2.5.
    """
    table = np.asarray(counts)
    if table.ndim != 1 or table.size < 2 or (table < 0).any() or not table.sum() > 0:
        raise ParameterError("counts must be one-dimensional, nonnegative and not all 0")
    n = int(table.sum())
    found, complete = loss_sensitivity(loss, table, rng=np.random.default_rng(0))
    if sensitivity is None:
        if not complete:
            raise UnsupportedError(
                f"there are too many tables of {n} records in {table.size} cells to compute "
                "the sensitivity: give sensitivity="
            )
        sensitivity = found
    elif found > positive("sensitivity", sensitivity) * (1.0 + 1e-9):
        raise ParameterError(
            f"sensitivity must be at least {found:.6g}, got {sensitivity:g}: the loss changes by "
            "as much between two neighbours"
        )
    options = {
        "outcomes": outcomes, "loss": loss, "alpha": alpha, "sensitivity": sensitivity,
        "total": n, "cells": table.size if cells is None and edges is None else cells,
        "edges": edges,
    }  # fmt: skip
    if len(outcomes) == table.size and cells is None:
        options["cells"] = None
    attrs = {
        "epsilon": float(alpha), "sensitivity": float(sensitivity),
        "neighbours": Neighbours.REPLACE_ONE.value,
    }  # fmt: skip
    template = SelectionRelease(outcomes[0], attrs=attrs, **options)
    p = np.exp(template.log_probabilities(table))
    chosen = int(np.random.default_rng(rng).choice(len(outcomes), p=p / p.sum()))
    return SelectionRelease(outcomes[chosen], attrs=attrs, **options)


def loss_sensitivity(
    loss: Callable[[np.ndarray], np.ndarray], counts: np.ndarray, rng: Any = None
) -> tuple[float, bool]:
    """Largest change of any outcome's loss between neighbours, and whether all were seen.

    Parameters
    ----------
    loss : callable
        Losses given counts.
    counts : ndarray
        Table whose number of records is public; where the tables are too many, it, its
        neighbours and random others are looked at.
    rng : Generator, int or None
        Source of the random tables.
    """
    n, size = int(counts.sum()), counts.size
    log_tables = sum(np.log((n + i) / i) for i in range(1, size))
    complete = bool(log_tables < np.log(_ENUMERATED / size))
    if complete:
        pairs = list(Neighbours.REPLACE_ONE.tables(size, n))
    else:
        generator = np.random.default_rng(rng)
        shares = generator.dirichlet(np.full(size, 0.3), _SAMPLED)
        tables = [counts, *generator.multinomial(n, shares)]
        pairs = [(t, t + d) for t in tables for d in _few_differences(size, generator)]
        pairs = [(t, u) for t, u in pairs if (u >= 0).all()]
    one, other = (np.stack(side) for side in zip(*pairs, strict=True))
    change = np.abs(np.asarray(loss(one), float) - np.asarray(loss(other), float))
    if not np.all(np.isfinite(change)):
        raise ParameterError("loss must be finite, got NaN or infinite losses")
    return float(change.max()), complete


def _few_differences(size: int, rng: np.random.Generator) -> np.ndarray:
    """Return some differences between neighbouring tables."""
    unit = np.eye(size, dtype=int)
    ends = np.array([rng.choice(size, 2, replace=False) for _ in range(20)])
    return np.concatenate([unit[ends[:, 0]] - unit[ends[:, 1]], unit[[0]] - unit[[-1]]])


def ks_exponential(
    records: Any,
    *,
    alpha: float,
    draws: int | None = None,
    bounds: Any = (0.0, 1.0),
    sweeps: int = 400,
    rng: Any = None,
) -> np.ndarray:
    r"""Choose a sample z of k points by the exponential mechanism with KS loss, by MCMC.

    The density of z is ∝ exp(-α n KS(x, z) / 2): the KS distance changes by at most 1/n when
    one record is replaced, so that Δ = 1/n. The chain starts at uniform points, which do not
    look at the data; what is stated is α-DP only as far as the chain has converged.

    Parameters
    ----------
    records : array_like
        One number per person.
    alpha : float
        Privacy loss α under `Neighbours.REPLACE_ONE`.
    draws : int, optional
        Number of points k; n^(2/3) by default, the rate-optimal order.
    bounds : pair
        Bounds (lo, hi) of the records.
    sweeps : int
        Moves of each point.
    rng : Generator, int or None
        Source of randomness.

    Returns
    -------
    ndarray
        Sorted points.

    References
    ----------
    Wasserman & Zhou (2010), section 5.
    """
    from dpbayes.kernels.ks_chain import ks_chain

    x, pairs = check_records(records, bounds)
    if x.shape[1] != 1:
        raise ParameterError("records must be one number per person")
    (low, high), n = pairs[0], x.shape[0]
    k = whole("draws", draws, 1) if draws is not None else max(2, round(n ** (2.0 / 3.0)))
    generator = np.random.default_rng(rng)
    unit, z = np.sort((x[:, 0] - low) / (high - low)), np.sort(generator.random(k))
    rate = 0.5 * float(positive("alpha", alpha)) * n
    ks_chain(unit, z, rate, whole("sweeps", sweeps, 1), int(generator.integers(2**31)))
    return low + (high - low) * z
