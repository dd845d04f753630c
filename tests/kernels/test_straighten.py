"""Straightened directions: what they solve, and their derivatives against differences."""

import numpy as np
import pytest
from scipy import optimize, special

from dpbayes.kernels.straighten import straighten, straighten_pullback


def _problem(size=12, directions=3, seed=2):
    rng = np.random.default_rng(seed)
    tight = np.linalg.qr(rng.normal(size=(size, directions)))[0]
    functionals = 5.0 * rng.normal(size=(directions, size))
    theta = 0.3 * rng.normal(size=size)
    target = (
        0.8 * functionals @ special.softmax(theta + tight @ (0.3 * rng.normal(size=directions)))
    )
    return [rng.normal(size=directions), theta, target, 0.8, 0.4], (
        np.ascontiguousarray(tight), functionals, 0.1 * np.ones(directions)
    )  # fmt: skip


def test_centre_is_the_least_squares_solution():
    (_, theta, target, rest, inverse), (tight, functionals, start) = _problem()

    def residuals(beta):
        fit = rest * functionals @ special.softmax(theta + tight @ beta)
        return np.r_[target - fit, np.sqrt(inverse) * beta]

    found = optimize.least_squares(residuals, start, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    zero = np.zeros(start.size)
    beta, log_det, factor = straighten(
        zero, theta, target, rest, inverse, tight, functionals, start
    )
    np.testing.assert_allclose(beta, found.x, atol=2e-3)
    np.testing.assert_allclose(factor @ factor.T, found.jac.T @ found.jac, rtol=2e-2, atol=2e-2)
    assert log_det == pytest.approx(0.5 * np.linalg.slogdet(factor @ factor.T)[1], rel=1e-12)


def test_scale_of_the_coordinates():
    inputs, constants = _problem()
    beta, _, factor = straighten(*inputs, *constants)
    centre = straighten(np.zeros(3), *inputs[1:], *constants)[0]
    np.testing.assert_allclose(factor.T @ (beta - centre), inputs[0], rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("directions", [1, 4])
def test_derivatives_match_central_differences(seed, directions):
    inputs, constants = _problem(directions=directions, seed=seed)
    rng = np.random.default_rng(seed)
    d_beta, d_log_det = rng.normal(size=directions), 0.7

    def scalar(*values):
        beta, log_det, _ = straighten(*values, *constants)
        return beta @ d_beta + log_det * d_log_det

    got = straighten_pullback(*inputs, *constants, d_beta, d_log_det)
    for i, value in enumerate(inputs):
        flat = np.atleast_1d(np.asarray(value, float))
        for j in range(flat.size):
            ends = []
            for sign in (1.0, -1.0):
                moved = flat.copy()
                moved[j] += sign * 1e-5
                changed = list(inputs)
                changed[i] = moved if np.ndim(value) else float(moved[0])
                ends.append(scalar(*changed))
            slope = (ends[0] - ends[1]) / 2e-5
            assert np.atleast_1d(got[i])[j] == pytest.approx(slope, rel=1e-6, abs=1e-7)
