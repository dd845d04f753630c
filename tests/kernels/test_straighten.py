"""Straightened directions: what their coordinates are, and their derivatives."""

import numpy as np
import pytest
from scipy import optimize, special

from dpbayes.kernels.straighten import straighten, straighten_inverse, straighten_pullback

CELLS = 12


def problem(directions=3, atoms=1, seed=2):
    """Coordinates, base, τ; then target, cells, directions, functionals and start."""
    rng = np.random.default_rng(seed)
    size = CELLS + atoms
    tight = np.linalg.qr(rng.normal(size=(size, directions)))[0].T.copy()
    functionals = 5.0 * rng.normal(size=(directions, size))
    base, tau = 0.3 * rng.normal(size=size), 1.4
    target = functionals @ weights(base + 0.3 * rng.normal(size=directions) @ tight, tau)
    constants = target, CELLS, tight, functionals
    return rng.normal(size=directions), base, tau, constants, 0.1 * np.ones(directions)


def weights(raw, tau):
    odds = np.exp(raw[CELLS:])
    return np.r_[special.softmax(tau * raw[:CELLS]), odds] / (1.0 + odds.sum())


def find(zeta, base, tau, constants, start):
    centre, beta = start.copy(), np.empty(zeta.size)
    log_det = straighten(zeta, base, tau, *constants, centre, beta)
    return beta, log_det, centre


def slopes(beta, base, tau, constants):
    """Derivatives of the functionals with respect to the directions, by differences."""
    _, _, tight, functionals = constants
    return np.column_stack([
        functionals @ (weights(base + (beta + s) @ tight, tau)
                       - weights(base + (beta - s) @ tight, tau)) / 2e-6
        for s in 1e-6 * np.eye(beta.size)
    ])  # fmt: skip


@pytest.mark.parametrize("atoms", [0, 1, 2])
def test_coordinates_are_residuals_on_the_tangent_at_the_least_squares_solution(atoms):
    zeta, base, tau, constants, start = problem(atoms=atoms)
    target, _, tight, functionals = constants

    def residuals(beta):
        return np.r_[target - functionals @ weights(base + beta @ tight, tau), beta]

    found = optimize.least_squares(residuals, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    beta, log_det, centre = find(zeta, base, tau, constants, start)
    np.testing.assert_allclose(centre, found.x, atol=1e-6)
    at_centre = slopes(centre, base, tau, constants)
    factor = np.linalg.cholesky(np.eye(3) + at_centre.T @ at_centre)
    expected = np.linalg.solve(factor, beta - at_centre.T @ residuals(beta)[:3])
    np.testing.assert_allclose(zeta, expected, atol=1e-6)
    determinant = np.linalg.det(np.eye(3) + at_centre.T @ slopes(beta, base, tau, constants))
    assert log_det == pytest.approx(np.log(np.linalg.det(factor)) - np.log(determinant), abs=1e-6)


def test_log_det_is_that_of_the_map_and_the_inverse_inverts():
    zeta, base, tau, constants, start = problem(directions=4)
    beta, log_det, _ = find(zeta, base, tau, constants, start)
    steps = 1e-5 * np.eye(4)
    jacobian = [
        (find(zeta + s, base, tau, constants, start)[0]
         - find(zeta - s, base, tau, constants, start)[0]) / 2e-5
        for s in steps
    ]  # fmt: skip
    assert log_det == pytest.approx(np.linalg.slogdet(np.array(jacobian))[1], abs=1e-7)
    back = straighten_inverse(beta, base, tau, *constants, start)
    np.testing.assert_allclose(back, zeta, atol=1e-7)


def test_coordinates_out_of_reach_are_refused():
    zeta, base, tau, constants, start = problem()
    _, log_det, _ = find(np.full(3, np.nan), base, tau, constants, start)
    assert log_det == -np.inf
    assert np.isfinite(find(zeta, base, tau, constants, start)[1])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("directions", "atoms"), [(1, 0), (3, 1), (4, 2)])
def test_derivatives_match_central_differences(seed, directions, atoms):
    zeta, base, tau, constants, start = problem(directions, atoms, seed)
    d_beta = np.random.default_rng(seed).normal(size=directions)

    def scalar(zeta, base, tau):
        beta, log_det, _ = find(zeta, base, tau, constants, start)
        return beta @ d_beta + log_det

    beta, _, centre = find(zeta, base, tau, constants, start)
    d_zeta, d_base = np.empty(directions), np.empty(base.size)
    d_tau = straighten_pullback(beta, centre, zeta, base, tau, *constants, d_beta, d_zeta, d_base)

    def differences(function, at):
        steps = 1e-4 * np.eye(at.size)
        return [(function(at + s) - function(at - s)) / 2e-4 for s in steps]

    options = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(d_zeta, differences(lambda z: scalar(z, base, tau), zeta), **options)
    np.testing.assert_allclose(d_base, differences(lambda b: scalar(zeta, b, tau), base), **options)
    np.testing.assert_allclose(
        d_tau, differences(lambda t: scalar(zeta, base, t[0]), np.array([tau]))[0], **options
    )
