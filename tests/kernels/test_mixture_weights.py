"""Weights of cells and atoms, and functionals along directions, against definitions."""

import numpy as np
import pytest
from scipy import special

from dpbayes.kernels.mixture_weights import (
    bend,
    linearise,
    mixture_weights,
    pull_linearise,
    weights_pullback,
)

CELLS, TAU = 5, 1.7


def problem(atoms, seed=0, directions=2):
    rng = np.random.default_rng(seed)
    size = CELLS + atoms
    base, target = rng.normal(size=size), rng.normal(size=directions)
    tight, functionals = rng.normal(size=(2, directions, size))
    return base, target, tight, functionals, rng.normal(size=directions)


def weights_of(raw, tau=TAU):
    """Weights by definition: softmax of θ, and odds exp(η) against all cells."""
    odds = np.exp(raw[CELLS:])
    rest = 1.0 / (1.0 + odds.sum())
    return np.r_[rest * special.softmax(tau * raw[:CELLS]), rest * odds]


def point(base, target, tight, functionals, beta, tau=TAU):
    r, size = tight.shape
    wide, narrow = np.empty((2 + r, size)), np.empty((1 + r, r))
    rest = linearise(base, tau, target, CELLS, tight, functionals, beta, wide, narrow)
    return wide, narrow, rest


@pytest.mark.parametrize("atoms", [0, 1, 2])
def test_weights_and_their_pullback(atoms):
    raw = problem(atoms)[0]
    out, d_raw = np.empty((2, raw.size))
    rest = mixture_weights(raw, TAU, CELLS, out)
    np.testing.assert_allclose(out, weights_of(raw), rtol=1e-13)
    assert rest == pytest.approx(out[:CELLS].sum(), rel=1e-13)
    d = np.random.default_rng(1).normal(size=raw.size)
    weights_pullback(out, rest, CELLS, d, d_raw)
    scale = np.r_[np.full(CELLS, TAU), np.ones(atoms)]
    steps = 1e-6 * np.eye(raw.size)
    numeric = [d @ (weights_of(raw + s) - weights_of(raw - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(d_raw * scale, numeric, atol=1e-8)


def test_weights_out_of_range_of_exp():
    out = np.empty(CELLS + 1)
    raw = np.r_[np.linspace(-900, 900, CELLS), 800.0]
    mixture_weights(raw, TAU, CELLS, out)
    np.testing.assert_allclose(out, np.r_[np.zeros(CELLS), 1.0], atol=1e-12)


@pytest.mark.parametrize("atoms", [0, 1, 2])
def test_slopes_and_second_derivatives_of_functionals(atoms):
    base, target, tight, functionals, beta = problem(atoms, seed=3)
    wide, narrow, rest = point(base, target, tight, functionals, beta)

    def values(b):
        return functionals @ weights_of(base + b @ tight)

    np.testing.assert_allclose(narrow[0], target - values(beta), rtol=1e-12)
    for j, s in enumerate(1e-6 * np.eye(2)):
        slope = (values(beta + s) - values(beta - s)) / 2e-6
        np.testing.assert_allclose(narrow[1:, j], slope, atol=1e-8)
        moves = (
            np.log(weights_of(base + (beta + s) @ tight) / weights_of(base + (beta - s) @ tight))
            / 2e-6
        )
        np.testing.assert_allclose(wide[2 + j], moves, atol=1e-7)
    bent = np.empty((2, 2))
    bend(wide, narrow, rest, TAU, CELLS, tight, functionals, bent)
    for j, s in enumerate(1e-5 * np.eye(2)):
        up, down = (point(base, target, tight, functionals, beta + q)[1][1:] for q in (s, -s))
        np.testing.assert_allclose(bent[:, j], narrow[0] @ (up - down) / 2e-5, atol=1e-7)


@pytest.mark.parametrize("atoms", [0, 1, 2])
def test_pullback_of_slopes_and_values(atoms):
    base, target, tight, functionals, beta = problem(atoms, seed=4)
    rng = np.random.default_rng(5)
    d_slope, d_value, out = rng.normal(size=(2, 2)), rng.normal(size=2), np.empty(base.size)
    wide, _, rest = point(base, target, tight, functionals, beta)
    d_tau = pull_linearise(wide, rest, TAU, CELLS, tight, functionals, d_slope, d_value, out)

    def scalar(b, tau):
        narrow = point(b, target, tight, functionals, beta, tau)[1]
        return np.sum(d_slope * narrow[1:]) - d_value @ narrow[0]

    steps = 1e-6 * np.eye(base.size)
    numeric = [(scalar(base + s, TAU) - scalar(base - s, TAU)) / 2e-6 for s in steps]
    np.testing.assert_allclose(out, numeric, atol=1e-7)
    assert d_tau == pytest.approx(
        (scalar(base, TAU + 1e-6) - scalar(base, TAU - 1e-6)) / 2e-6, abs=1e-7
    )
