"""Coordinates of atoms and of straightened directions: densities, draws and derivatives."""

import itertools

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats

from dpbayes.distributions.atoms import AtomCoordinates, atom_log_odds
from dpbayes.distributions.straighten import Straightened, straighten


def _directions(seed=0, size=6, directions=2):
    rng = np.random.default_rng(seed)
    tight = np.linalg.qr(rng.normal(size=(size, directions)))[0]
    return [
        rng.normal(size=size), rng.normal(size=directions), 0.9, 0.5, np.ascontiguousarray(tight),
        4.0 * rng.normal(size=(directions, size)), np.zeros(directions),
    ]  # fmt: skip


@pytest.mark.parametrize("scale", [0.1, 0.6])
def test_density_of_one_atom_integrates_to_one(scale):
    coordinate = pt.vector("x", shape=(1,))
    dist = AtomCoordinates.dist(np.array([-2.0]), np.array([[scale]]), -2.5, 1.5)
    logp = pytensor.function([coordinate], pm.logp(dist, coordinate))
    ends = np.array([-30, -8, 0, 8, 100, 1e4, 1e6]) / scale
    area = sum(
        integrate.quad(lambda x: np.exp(logp(np.array([x]))), low, high, limit=200)[0]
        for low, high in itertools.pairwise(ends)
    )
    assert area == pytest.approx(1.0, rel=1e-6)


def test_log_odds_of_drawn_atoms_are_normal():
    center, factor = np.array([-2.0, 0.5]), np.array([[0.4, 0.0], [0.2, 0.3]])
    dist = AtomCoordinates.dist(center, factor, -2.5, 1.5)
    xi = pm.draw(dist, 3000, random_seed=1)
    eta = np.array([atom_log_odds(pt.as_tensor(x), center, factor).eval() for x in xi[:5]])
    assert np.all(np.isfinite(eta))
    inner = np.logaddexp(0.0, 2.5 * (1.0 + xi @ factor.T)) / np.logaddexp(0.0, 2.5)
    eta_all = center + np.log(inner)
    np.testing.assert_allclose(eta_all[:5], eta, rtol=1e-10)
    for i in range(2):
        assert stats.kstest(eta_all[:, i], stats.norm(-2.5, 1.5).cdf).pvalue > 1e-3


def test_straightened_draws_have_the_prior_of_their_directions():
    params = _directions()
    xi = pm.draw(Straightened.dist(*params), 2000, random_seed=2)
    value = pt.vector("xi")
    directions = pytensor.function([value], straighten(value, *params))
    beta = np.array([directions(x) for x in xi])
    for i in range(2):
        assert stats.kstest(beta[:, i], stats.norm(0, 0.5**-0.5).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(beta.T)[0, 1]) < 0.1


def test_straightened_density_is_that_of_the_directions():
    params = _directions(seed=3)
    value = pt.vector("xi", shape=(2,))
    logp = pytensor.function([value], pm.logp(Straightened.dist(*params), value))
    directions = pytensor.function([value], straighten(value, *params))
    x = np.array([0.4, -1.2])
    steps = 1e-6 * np.eye(2)
    jacobian = np.array([(directions(x + s) - directions(x - s)) / 2e-6 for s in steps])
    expected = stats.norm.logpdf(directions(x), scale=0.5**-0.5).sum()
    expected += np.linalg.slogdet(jacobian)[1]
    assert logp(x) == pytest.approx(expected, abs=1e-6)


def test_gradient_reaches_every_parameter():
    params = _directions(seed=4)
    free = [pt.vector("theta"), pt.vector("target"), pt.scalar("rest"), pt.scalar("inverse")]
    value = pt.vector("xi")
    both = [*free, *params[4:]]
    scalar = pm.logp(Straightened.dist(*both), value) + straighten(value, *both).sum()
    inputs = [value, *free]
    function = pytensor.function(inputs, [scalar, *pytensor.grad(scalar, inputs)])
    at = [np.array([0.3, -0.8]), *params[:4]]
    found = function(*at)[1:]
    for i, point in enumerate(at):
        flat = np.atleast_1d(np.asarray(point, float))
        for j in range(flat.size):
            ends = []
            for sign in (1e-5, -1e-5):
                moved = flat.copy()
                moved[j] += sign
                changed = list(at)
                changed[i] = moved if np.ndim(point) else float(moved[0])
                ends.append(function(*changed)[0])
            slope = (ends[0] - ends[1]) / 2e-5
            assert np.atleast_1d(found[i])[j] == pytest.approx(slope, rel=1e-5, abs=1e-6)
