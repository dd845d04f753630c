"""Losses of mechanisms that draw rows or outcomes, against enumeration of all of them."""

from math import lgamma

import numpy as np
import pytest

from dpbayes.errors import ParameterError
from dpbayes.privacy import (
    Neighbours,
    audit,
    dirichlet_sampling_alpha,
    smoothing_alpha,
    smoothing_delta,
)
from dpbayes.privacy.neighbours import compositions
from dpbayes.releases import (
    QuantileLoss,
    SelectionRelease,
    WinnerLoss,
    flip_matrix,
    response_matrix,
    response_probability,
)

PAIRS = list(Neighbours.REPLACE_ONE.tables(3, 4))


def multinomial(p, draws):
    """Probabilities of all tables of rows."""
    rows = np.array(list(compositions(draws, len(p))))
    logs = [lgamma(draws + 1) - sum(lgamma(v + 1) for v in row) for row in rows]
    return np.exp(np.array(logs)) * np.prod(np.asarray(p) ** rows, axis=1)


@pytest.mark.parametrize(("alpha", "draws"), [(0.5, 3), (1.0, 1), (2.0, 5)])
def test_the_condition_of_the_smoothed_histogram_is_tight(alpha, draws):
    size = {"draws": draws, "records": 4, "cells": 3}
    delta = smoothing_delta(alpha=alpha, **size)
    assert smoothing_alpha(delta=delta, **size) == pytest.approx(alpha, rel=1e-12)

    def law(counts):
        return multinomial((1 - delta) * counts / 4 + delta / 3, draws)

    found = audit(law, PAIRS, claim=alpha)
    assert found.epsilon == pytest.approx(alpha, rel=1e-12)
    # One per mille below the least delta the claim is wrong.
    delta *= 0.999
    assert audit(law, PAIRS, claim=alpha).holds is False


@pytest.mark.parametrize("concentration", [(1.0, 1.0, 1.0), (0.5, 2.0, 3.0)])
def test_dirichlet_sampling(concentration):
    draws, a = 3, np.array(concentration)

    def law(counts):
        shape, rows = a + counts, np.array(list(compositions(draws, 3)))
        logs = [
            lgamma(draws + 1) + lgamma(shape.sum()) - lgamma(shape.sum() + draws)
            + sum(
                lgamma(s + z) - lgamma(s) - lgamma(z + 1) for s, z in zip(shape, row, strict=True)
            )
            for row in rows
        ]  # fmt: skip
        return np.exp(logs)

    expected = dirichlet_sampling_alpha(concentration=a, draws=draws)
    assert expected == pytest.approx(np.log(1 + draws / a.min()))
    assert audit(law, PAIRS).epsilon == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("loss", "sensitivity"),
    [(WinnerLoss(), 1.0), (QuantileLoss(0.5), 1.0), (QuantileLoss(0.2), 1.0)],
)
def test_the_exponential_mechanism_keeps_its_alpha_and_what_it_really_loses(loss, sensitivity):
    alpha = 0.8
    release = SelectionRelease(
        0, outcomes=range(3), loss=loss, alpha=alpha, sensitivity=sensitivity, total=4
    )
    found = audit(lambda t: np.exp(release.log_probabilities(t)), PAIRS, claim=alpha)
    assert found.holds
    assert 0.4 * alpha < found.epsilon <= alpha
    change = max(np.abs(loss(x) - loss(y)).max() for x, y in PAIRS)
    assert change == pytest.approx(sensitivity)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_randomized_response(size):
    matrix = response_matrix(size, 1.3)
    pairs = [(i, j) for i in range(size) for j in range(size) if i != j]
    assert audit(lambda x: matrix[x], pairs).epsilon == pytest.approx(1.3, rel=1e-12)
    direct = (1 + (np.exp(1.3) - 1) * np.eye(size)) / (size + np.exp(1.3) - 1)
    np.testing.assert_allclose(matrix, direct, rtol=1e-13)


def test_constants_of_randomized_response():
    assert response_probability(2925, 14.0) == pytest.approx(0.0024263221679834, abs=5e-17)
    assert response_probability(3, 14.0) == pytest.approx(2.494582e-6, rel=1e-6)
    assert response_probability(2, np.log(3)) == pytest.approx(0.5, rel=1e-15)
    assert response_probability(3, np.log(3)) == pytest.approx(0.6, rel=1e-15)
    assert response_probability(3, 1e4) == 0.0


def test_bits_flipped_independently():
    matrix = flip_matrix(0.25, 0.1)
    assert matrix[0, 1] == pytest.approx(0.75 * 0.1)  # 00 reported as 01
    assert matrix[0, 2] == pytest.approx(0.25 * 0.9)  # 00 reported as 10
    loss = audit(lambda x: matrix[x], [(0, 3), (1, 2)]).epsilon
    assert loss == pytest.approx(np.log(3) + np.log(9), rel=1e-12)


def test_bad_input():
    with pytest.raises(ParameterError, match="alpha must be positive"):
        smoothing_delta(alpha=0, draws=3, records=4, cells=3)
    with pytest.raises(ParameterError, match=r"delta must be in \(0, 1\]"):
        smoothing_alpha(delta=0, draws=3, records=4, cells=3)
