"""Functionals of draws against sampling from each draw, and honest within-bin bounds."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes.errors import DomainError, ParameterError
from dpbayes.posterior.estimand import Estimand, Support

EDGES = np.array([0.0, 1.0, 5.0, 6.0, 20.0])
SUPPORTS = {
    "bins": Support(EDGES),
    "atoms at the bounds": Support(EDGES, np.array([0.0, 20.0])),
    "atoms at an edge, inside a bin and outside": Support(EDGES, np.array([5.0, 11.0, 30.0, -4.0])),
    "atoms only": Support(None, np.array([3.0, 1.0, 7.0])),
}


def estimand(support, weights):
    array = np.asarray(weights, float)
    return Estimand("P", xr.DataArray(array, dims=("chain", "draw", "piece")), support)


def random_weights(support, draws=3, seed=1, empty=()):
    pieces = support.source.max() + 1
    w = np.random.default_rng(seed).dirichlet(np.ones(pieces), (1, draws))
    w[..., list(empty)] = 0.0
    return w / w.sum(axis=-1, keepdims=True)


def sample(support, weights, size, rng):
    """Draw from one distribution: a piece by its weight, then a uniform point of it."""
    pieces = rng.choice(support.lower.size, size, p=support.spread(weights))
    return support.lower[pieces] + support.width[pieces] * rng.random(size)


@pytest.mark.parametrize("empty", [(), (1,), (0, 2)])
@pytest.mark.parametrize("support", SUPPORTS.values(), ids=SUPPORTS)
def test_functionals_against_sampling(support, empty):
    w = random_weights(support, empty=empty)
    e, rng, n = estimand(support, w), np.random.default_rng(2), 200_000
    at = np.array([-5.0, -4.0, 0.0, 0.4, 1.0, 5.0, 7.0, 10.99, 11.0, 19.0, 20.0, 30.0, 31.0])
    for d in range(3):
        x = sample(support, w[0, d], n, rng)
        error = 4 * x.std() / np.sqrt(n)
        assert float(e.mean()[0, d]) == pytest.approx(x.mean(), abs=error)
        assert float(e.variance()[0, d]) == pytest.approx(x.var(), rel=0.03)
        assert float(e.expect(np.cos)[0, d]) == pytest.approx(np.cos(x).mean(), abs=0.01)
        cdf = np.mean(x[:, None] <= at, axis=0)
        np.testing.assert_allclose(e.cdf(at)[0, d], cdf, atol=0.006)
        for q in (0.13, 0.5, 0.87):
            value = float(e.quantile(q)[0, d])
            assert np.mean(x <= value + 1e-9) >= q - 0.006
            assert np.mean(x <= value - 1e-3 - 1e-9) <= q + 0.006


def test_expectations_of_polynomials_are_exact():
    w = random_weights(SUPPORTS["atoms at the bounds"])
    e = estimand(SUPPORTS["atoms at the bounds"], w)
    np.testing.assert_allclose(e.expect(lambda x: x), e.mean())
    np.testing.assert_allclose(e.expect(lambda x: x**2) - e.mean() ** 2, e.variance(), rtol=1e-9)
    np.testing.assert_allclose(e.expect(lambda x: 3.0), 3.0)
    indicator = e.expect(lambda x: (x > 6.0) & (x < 20.0))
    np.testing.assert_allclose(indicator, w[..., 3])


@given(st.integers(0, 10_000), st.floats(0.001, 0.999))
def test_quantiles_invert_the_distribution_function(seed, q):
    for support in SUPPORTS.values():
        e = estimand(support, random_weights(support, draws=1, seed=seed))
        x = float(e.quantile(q)[0, 0])
        assert float(e.cdf(x)[0, 0]) >= q - 1e-9
        assert float(e.cdf(x - 1e-7)[0, 0]) <= q + 1e-6


def test_quantiles_at_the_ends_and_of_several_levels():
    e = estimand(SUPPORTS["bins"], [[[0.0, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0]]])
    np.testing.assert_allclose(e.quantile([0.0, 0.5, 1.0])[0], [[1.0, 5.0, 6.0], [0.0, 0.5, 1.0]])
    assert e.quantile([0.1, 0.9]).dims == ("chain", "draw", "quantile")
    assert e.quantile(0.1).dims == ("chain", "draw")


def test_density_is_mass_over_width():
    e = estimand(SUPPORTS["atoms at the bounds"], [[[0.1, 0.2, 0.0, 0.4, 0.25, 0.05]]])
    at = [-1.0, 0.0, 0.5, 1.0, 5.5, 6.0, 20.0, 21.0]
    np.testing.assert_allclose(
        e.density(at)[0, 0], [0, 0.1, 0.1, 0.05, 0, 0.4 / 14, 0.4 / 14, 0], atol=1e-12
    )
    grid = np.linspace(-1, 21, 22_001)
    assert np.trapezoid(e.density(grid)[0, 0], grid) == pytest.approx(0.7, abs=1e-3)


def test_an_atom_is_counted_by_the_distribution_function_from_its_point_on():
    e = estimand(SUPPORTS["atoms at the bounds"], [[[0.1, 0.2, 0.0, 0.4, 0.25, 0.05]]])
    np.testing.assert_allclose(
        e.cdf([-1e-9, 0.0, 19.9999999, 20.0])[0, 0], [0, 0.25, 0.95, 1.0], atol=1e-6
    )
    assert float(e.quantile(0.2)[0, 0]) == 0.0
    assert float(e.quantile(0.97)[0, 0]) == 20.0


@settings(max_examples=150)
@given(st.data())
def test_no_rearrangement_within_bins_moves_a_functional_beyond_its_bound(data):
    support = SUPPORTS["atoms at an edge, inside a bin and outside"]
    w = random_weights(support, draws=1, seed=data.draw(st.integers(0, 1000)))
    e = estimand(support, w)
    # Each piece's mass moves to a few points of its inside, in any shares.
    inside = st.floats(0.001, 0.999)
    places = np.array(data.draw(st.lists(inside, min_size=3, max_size=3).map(sorted)))
    shares = np.random.default_rng(data.draw(st.integers(0, 1000))).dirichlet(
        np.full(3, 0.3), support.lower.size
    )
    x = (support.lower[:, None] + support.width[:, None] * places).ravel()
    p = (support.spread(w[0, 0])[:, None] * shares).ravel()
    order = np.argsort(x, kind="stable")
    x, p = x[order], p[order]
    mean = p @ x
    level, at = data.draw(st.floats(0.01, 0.99)), data.draw(st.floats(-5, 31))
    cases = [
        (e.mean(), mean),
        (e.variance(), p @ (x - mean) ** 2),
        (e.cdf(at), p[x <= at].sum()),
        (e.quantile(level), x[np.searchsorted(np.cumsum(p), level - 1e-12)]),
        (e.expect(np.exp), p @ np.exp(x)),
        (e.expect(lambda x: 1 / (0.1 + np.abs(x))), p @ (1 / (0.1 + np.abs(x)))),
    ]
    for ours, moved in cases:
        slack = 1e-9 * max(1.0, abs(moved))
        # An expectation errs by its quadrature besides, far below the bound in wide bins.
        assert abs(float(ours[0, 0]) - moved) <= ours.attrs["within_bin_bound"] * 1.01 + slack


def test_atoms_alone_leave_no_doubt_within_bins():
    e = estimand(SUPPORTS["atoms only"], [[[0.2, 0.5, 0.3]]])
    assert float(e.mean()[0, 0]) == pytest.approx(0.2 * 3 + 0.5 * 1 + 0.3 * 7)
    for draws in (e.mean(), e.variance(), e.cdf(2.0), e.quantile(0.5), e.expect(np.square)):
        assert draws.attrs["within_bin_bound"] == 0.0


def test_the_bound_of_the_mean_is_reached():
    e = estimand(SUPPORTS["bins"], [[[0.25, 0.25, 0.25, 0.25]]])
    assert e.mean().attrs["within_bin_bound"] == pytest.approx((1 + 4 + 1 + 14) / 8)


def test_a_draw_without_records_is_undefined_and_left_out_of_bounds():
    w = np.array([[[np.nan] * 4, [0.25, 0.25, 0.25, 0.25]]])
    e = estimand(SUPPORTS["bins"], w)
    for draws in (e.mean(), e.variance(), e.quantile(0.5), e.expect(np.abs), e.cdf(3.0)):
        assert np.isnan(draws.values[0]).tolist() == [True, False]
        assert np.isfinite(draws.attrs["within_bin_bound"])
    nothing = estimand(SUPPORTS["bins"], np.full((1, 2, 4), np.nan))
    assert np.isnan(nothing.mean().attrs["within_bin_bound"])


@pytest.mark.parametrize(
    "ask",
    [
        lambda e: e.mean(),
        lambda e: e.variance(),
        lambda e: e.quantile(0.5),
        lambda e: e.cdf(1.0),
        lambda e: e.density(1.0),
        lambda e: e.expect(np.abs),
    ],
)
def test_functionals_need_a_numeric_axis(ask):
    with pytest.raises(DomainError, match=r"needs a numeric axis: give HistogramRelease\(edges="):
        ask(estimand(None, [[[0.5, 0.5]]]))


@pytest.mark.parametrize("q", [-0.1, 1.1, np.nan, [[0.5]], [0.5, 2.0]])
def test_levels_must_be_probabilities(q):
    with pytest.raises(ParameterError, match=r"q must be a number in \[0, 1\]"):
        estimand(SUPPORTS["bins"], [[[0.25] * 4]]).quantile(q)


@pytest.mark.parametrize("x", [np.inf, np.nan, [[1.0]]])
def test_points_must_be_finite(x):
    e = estimand(SUPPORTS["bins"], [[[0.25] * 4]])
    for method in (e.cdf, e.density):
        with pytest.raises(ParameterError, match="x must be a finite number"):
            method(x)


def test_draws_of_two_posteriors_combine_only_when_there_are_as_many():
    few = estimand(SUPPORTS["bins"], random_weights(SUPPORTS["bins"], draws=5))
    more = estimand(SUPPORTS["bins"], random_weights(SUPPORTS["bins"], draws=7, seed=2))
    assert (few.mean() - few.mean()).shape == (1, 5)
    for combine in (np.subtract, np.divide, np.add, np.multiply):
        with pytest.raises(ValueError, match="draw"):
            combine(few.mean(), more.mean())
    with pytest.raises(ValueError, match="draw"):
        few.quantile([0.1, 0.9]) - more.quantile([0.1, 0.9])
