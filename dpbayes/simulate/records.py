"""Records perturbed one by one, and noise on statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbayes.errors import ParameterError
from dpbayes.mechanism import as_mechanism
from dpbayes.noise import Laplace
from dpbayes.privacy import composition
from dpbayes.privacy.neighbours import Neighbours
from dpbayes.releases import RecordRelease, ResponseRelease, StatisticRelease
from dpbayes.simulate.binning import check_records

__all__ = ["laplace_mechanism", "perturbed_records", "randomized_response"]


def perturbed_records(
    records: Any,
    *,
    bounds: Any,
    alpha: float | None = None,
    mechanism: Any = None,
    support: str = "continuous",
    rng: Any = None,
) -> RecordRelease:
    r"""Release every record with noise of its own, Z_i = X_i + ε_i.

    With Laplace noise of scale Σ_c (hi_c - lo_c) / α on each of the r coordinates, replacing
    one record changes the log density of Z_i by at most Σ_c |x_c - x'_c| / scale <= α.

    Parameters
    ----------
    records : array_like
        One number, or one row of r numbers, per person.
    bounds : pair or pairs
        Bounds (lo, hi) of the records, one pair per column.
    alpha : float, optional
        Privacy loss α of Laplace noise under `Neighbours.REPLACE_ONE`.
    mechanism : Mechanism or NoiseLaw, optional
        Any other noise of known law. Exactly one of `alpha` and `mechanism` must be given.
    support : {"continuous", "integers"}
        Whether the true records are real or whole numbers.
    rng : Generator, int or None
        Source of randomness.

    References
    ----------
    Wasserman & Zhou (2010), Example 2.1.
    """
    if (alpha is None) == (mechanism is None):
        raise ParameterError("give either alpha= (Laplace noise) or mechanism=")
    x, pairs = check_records(records, bounds)
    attrs = None
    if alpha is not None:
        reach = float(sum(high - low for low, high in pairs))
        mechanism = Laplace.from_epsilon(epsilon=alpha, sensitivity=reach)
        attrs = {
            "epsilon": float(alpha), "sensitivity": reach,
            "neighbours": Neighbours.REPLACE_ONE.value,
        }  # fmt: skip
    released = as_mechanism(mechanism).sample(x, rng)
    single = x.shape[1] == 1
    return RecordRelease(
        released[:, 0] if single else released, mechanism=mechanism,
        bounds=pairs[0] if single else pairs, support=support, attrs=attrs,
    )  # fmt: skip


def laplace_mechanism(
    statistic: Any, *, sensitivity: float, alpha: float, rng: Any = None
) -> StatisticRelease:
    r"""Release any statistic with Laplace noise of scale S/α on each of its numbers.

    S is the largest L1 change of the statistic between neighbours, so that the log density
    of the release changes by at most S / (S/α) = α.

    Parameters
    ----------
    statistic : array_like
        True value f(x).
    sensitivity : float
        L1 sensitivity S of the whole statistic (see `dpbayes.privacy`).
    alpha : float
        Privacy loss α.
    rng : Generator, int or None
        Source of randomness.

    References
    ----------
    Wasserman & Zhou (2010), Lemma 2.6 (3).
    """
    mechanism = composition.laplace_mechanism(sensitivity=sensitivity, alpha=alpha)
    attrs = {"epsilon": float(alpha), "sensitivity": float(sensitivity)}
    released = mechanism.sample(np.asarray(statistic, float), rng)
    return StatisticRelease(released, mechanism=mechanism, attrs=attrs)


def randomized_response(
    truths: Sequence[Any],
    *,
    categories: Sequence[Any],
    epsilon: float | None = None,
    matrix: Any = None,
    rng: Any = None,
) -> ResponseRelease:
    r"""Report every person's category at random.

    With ε the true category is reported with probability e^ε / (k + e^ε - 1) and each other
    one with 1 / (k + e^ε - 1): the ratio of any two is at most e^ε, and it is reached. With
    a matrix, ε is the largest log ratio within one of its columns.

    Parameters
    ----------
    truths : sequence
        True category of each person.
    categories : sequence
        All categories.
    epsilon : float, optional
        Loss of k-ary randomised response.
    matrix : array_like, optional
        Response matrix, truths in rows (independent bit flips: `dpbayes.releases.flip_matrix`).
    rng : Generator, int or None
        Source of randomness.

    References
    ----------
    Kairouz, Bonawitz & Ramage (2016), Discrete distribution estimation under local privacy.
    """
    labels = list(categories)
    where = {label: i for i, label in enumerate(labels)}
    try:
        found = np.bincount([where[t] for t in truths], minlength=len(labels))
    except KeyError as error:
        raise ParameterError(f"truths: {error.args[0]!r} is none of the categories") from None
    template = ResponseRelease(
        dict.fromkeys(labels, 1), categories=labels, epsilon=epsilon, matrix=matrix
    )
    generator = np.random.default_rng(rng)
    rows = generator.multinomial(found, template.responses)
    counts = dict(zip(labels, rows.sum(axis=0).tolist(), strict=True))
    attrs = {"epsilon": template.epsilon}
    return ResponseRelease(counts, categories=labels, epsilon=epsilon, matrix=matrix, attrs=attrs)
