"""Noisy coefficients of an orthogonal series."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbayes.noise import Laplace
from dpbayes.privacy.neighbours import Neighbours, whole
from dpbayes.releases.series import SeriesRelease, cosine_amplitudes, cosine_basis
from dpbayes.simulate.binning import check_records

__all__ = ["orthogonal_series"]


def orthogonal_series(
    records: Any, *, order: int, alpha: float, bounds: Any = (0.0, 1.0), rng: Any = None
) -> SeriesRelease:
    r"""Release means of cosines with Laplace noise.

    Replacing one record changes the mean of ψ_j by at most 2 sup \|ψ_j\| / n: the L1
    sensitivity is (2/n) Σ_j sup \|ψ_j\|, which is 2 √2 m / n for m cosines in one dimension.
    Noise of that scale over α on each coefficient is α-DP (Lemma 2.6 (3)).

    Parameters
    ----------
    records : array_like
        One number, or one row of two numbers, per person.
    order : int
        Largest frequency m along each axis.
    alpha : float
        Privacy loss α under `Neighbours.REPLACE_ONE`.
    bounds : pair or pairs
        Bounds (lo, hi) of the records, which are rescaled to [0, 1].
    rng : Generator, int or None
        Source of randomness.

    References
    ----------
    Wasserman & Zhou (2010), section 6.
    """
    m = whole("order", order, 1)
    x, pairs = check_records(records, bounds)
    low, high = np.array(pairs).T
    unit = (x - low) / (high - low)
    sensitivity = 2.0 * float(cosine_amplitudes(m, x.shape[1]).sum()) / x.shape[0]
    noise = Laplace.from_epsilon(epsilon=alpha, sensitivity=sensitivity)
    means = cosine_basis(unit, m).mean(axis=0)
    released = means + noise.rvs(means.shape, np.random.default_rng(rng))
    attrs = {
        "epsilon": float(alpha), "sensitivity": sensitivity,
        "neighbours": Neighbours.REPLACE_ONE.value,
    }  # fmt: skip
    return SeriesRelease(released, mechanism=noise, total=x.shape[0], bounds=pairs, attrs=attrs)
