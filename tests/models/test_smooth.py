"""Smooth prior: scaling, derivatives, mode and evidence against direct computation."""

import numpy as np
import pytest
from scipy import optimize, special, stats

from dpbayes.errors import ParameterError
from dpbayes.kernels.cells import cell_probabilities
from dpbayes.kernels.families import LAPLACE
from dpbayes.models.smooth import (
    ATOM_MEAN,
    ATOM_SD,
    TAU_RATE,
    TAU_SHAPE,
    Likelihood,
    SmoothLaw,
    find_mode,
    fit_scale,
    log_prior_of_scale,
)


def _model(cells=8, order=1, atoms=1, n=500, scale=0.15, seed=0):
    edges = np.linspace(0, 1, cells + 1)
    low, high = np.r_[edges[:-1], np.ones(atoms)], np.r_[edges[1:], np.ones(atoms)]
    z = np.r_[-np.inf, np.linspace(0, 1, 31), np.inf]
    table = cell_probabilities(LAPLACE, scale, 0.0, z[:-1], z[1:], low, high)
    weights = np.r_[stats.beta(2, 4).pdf(0.5 * (edges[1:] + edges[:-1])), np.full(atoms, 0.8)]
    counts = np.random.default_rng(seed).multinomial(n, table @ (weights / weights.sum()))
    return Likelihood(table, counts, SmoothLaw(cells, order, atoms))


@pytest.mark.parametrize("order", [1, 2])
def test_scale_does_not_depend_on_the_number_of_cells(order):
    """Variances of θ at matching places, and of increments over a tenth of the range."""
    variances = []
    for cells in (40, 120):
        root = SmoothLaw(cells, order).root
        assert root.shape == (cells, cells - 1)
        np.testing.assert_allclose(root.sum(axis=0), 0.0, atol=1e-10)
        covariance = root @ root.T
        assert np.mean(np.diag(covariance)) == pytest.approx(1.0)
        at = [cells // 20, cells // 4, cells // 2]
        tenth = cells // 10
        variances.append(
            [
                covariance[i, i] + covariance[i + tenth, i + tenth] - 2 * covariance[i, i + tenth]
                for i in at
            ]
        )
    np.testing.assert_allclose(variances[0], variances[1], rtol=0.15)


def test_increments_of_order_one_are_independent():
    root = SmoothLaw(30, 1).root
    steps = np.diff(root, axis=0)
    covariance = steps @ steps.T
    np.testing.assert_allclose(covariance, covariance[0, 0] * np.eye(29), atol=1e-10)


def test_order_two_leaves_straight_lines_cheap():
    law = SmoothLaw(30, 2)
    line, wave = np.linspace(-1, 1, 30), np.cos(np.pi * np.arange(30))
    precision = np.linalg.pinv(law.root @ law.root.T)
    assert line @ precision @ line < 2.0
    assert wave @ precision @ wave > 1e4


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("atoms", [0, 1])
def test_derivatives_match_central_differences(order, atoms):
    model = _model(order=order, atoms=atoms)
    rng = np.random.default_rng(3)
    theta, eta = rng.normal(size=8), rng.normal(size=atoms)
    point = np.r_[theta, eta]
    gradient, observed, expected = model.derivatives(theta, eta)

    def value(v):
        return model.value(v[:8], v[8:])

    def slope(v):
        return model.derivatives(v[:8], v[8:])[0]

    np.testing.assert_allclose(
        gradient, optimize.approx_fprime(point, value, 1e-6), rtol=1e-4, atol=1e-3
    )
    steps = 1e-5 * np.eye(8 + atoms)
    numeric = np.array([(slope(point + s) - slope(point - s)) / 2e-5 for s in steps])
    np.testing.assert_allclose(observed, -numeric, rtol=1e-5, atol=1e-4)
    assert np.all(np.linalg.eigvalsh(expected) > -1e-8 * model.counts.sum())


def test_expected_information_is_the_mean_of_the_observed():
    model = _model()
    theta, eta = np.linspace(1, -1, 8), np.array([-1.0])
    p = model.table @ model.law.weights(theta, eta)
    expected = model.derivatives(theta, eta)[2] / model.counts.sum()
    many = 10_000_000 * p  # counts equal to their mean
    observed = Likelihood(model.table, many, model.law).derivatives(theta, eta)[1] / many.sum()
    np.testing.assert_allclose(expected, observed, atol=1e-9)


def test_mode_is_stationary_and_does_not_depend_on_the_start():
    model = _model(cells=20, order=2)
    first = find_mode(model, 2.0)
    second = find_mode(model, 2.0, np.random.default_rng(1).normal(size=20))
    np.testing.assert_allclose(first.point, second.point, atol=1e-4)
    law = model.law
    gradient = model.derivatives(
        2.0 * law.root @ first.point[:19], ATOM_MEAN + ATOM_SD * first.point[19:]
    )[0]
    pulled = np.r_[2.0 * law.root.T @ gradient[:20], ATOM_SD * gradient[20:]]
    np.testing.assert_allclose(pulled, first.point, atol=1e-3)


def test_evidence_against_quadrature():
    """Three cells, no atom, 4000 records: Laplace's error is about 0.1."""
    model = _model(cells=3, atoms=0, n=4000)
    best = model.value(*_at(model, find_mode(model, 2.0), 2.0))

    grid = np.linspace(-4, 4, 281)
    u = np.stack(np.meshgrid(grid, grid), axis=-1)
    seen, counts = model.seen
    t, weight = np.polynomial.legendre.leggauss(24)
    middle, reach, area = 0.6, 2.0, 0.0
    for node, share in zip(middle + reach * t, reach * weight, strict=True):
        w = special.softmax(np.exp(node) * u @ model.law.root.T, axis=-1)
        height = np.log(w @ seen.T) @ counts - best - 0.5 * np.sum(u**2, axis=-1)
        height += stats.gamma(TAU_SHAPE, scale=1 / TAU_RATE).logpdf(np.exp(node)) + node
        area += share * np.exp(height).sum() * (grid[1] - grid[0]) ** 2
    exact = best + np.log(area / (2 * np.pi))
    assert fit_scale(model).log_evidence == pytest.approx(exact, abs=0.15)


def _at(model, mode, tau):
    return model.law.at(tau, mode.point)


def test_prior_of_the_scale_is_normalised():
    t = np.linspace(-12, 5, 20_001)
    heights = np.exp([log_prior_of_scale(x) for x in t])
    assert np.trapezoid(heights, t) == pytest.approx(1.0, rel=1e-6)
    _, drawn = SmoothLaw(6, 1).draw(4000, np.random.default_rng(1))
    below = np.trapezoid(heights[t < 0.5], t[t < 0.5])
    assert np.mean(drawn < 0.5) == pytest.approx(below, abs=0.03)


def test_evidence_finds_the_order_and_the_atom():
    """Smooth integer truth with 41 % zeros under Gaussian noise, n = 100 000."""
    from dpbayes.models.record_plan import plan_records
    from dpbayes.noise import Gaussian
    from dpbayes.releases import RecordRelease

    rng = np.random.default_rng(0)
    truth = np.exp(-np.arange(22) / 4) * (1 + 0.3 * np.sin(np.arange(22)))
    truth[0] = 0.0
    truth *= 0.59 / truth.sum()
    truth[0] = 0.41
    z = rng.choice(22, 100_000, p=truth) + rng.normal(0, 0.94, 100_000)
    plan = plan_records(
        RecordRelease(z, mechanism=Gaussian(sd=0.94), bounds=(0, 21), support="integers")
    )
    best = plan.candidates[0]
    assert (best.order, best.atoms) == (2, "lower")
    assert sum(c.weight for c in plan.candidates) == pytest.approx(1.0)
    weights = plan.law.weights(*_at(plan.likelihood, plan.fit.mode, plan.fit.mode.tau))
    cells = weights[:22].copy()
    cells[0] += weights[22]
    assert 0.5 * np.abs(cells - truth).sum() < 0.013


def test_bad_input_is_named():
    with pytest.raises(ParameterError, match="order must be 1 or 2, got 3"):
        SmoothLaw(10, 3)
    with pytest.raises(ParameterError, match="cells must exceed"):
        SmoothLaw(2, 2)
