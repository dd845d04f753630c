"""Tables of custom densities against the densities."""

import numpy as np
import pytest
from scipy import stats

from dpbayes.errors import ParameterError
from dpbayes.kernels import tabulated

LAWS = {
    "laplace": stats.laplace(scale=2.0),
    "student": stats.t(2.5),
    "uniform": stats.uniform(-3.0, 6.0),
    "skewed": stats.gamma(3.0, loc=-3.0),
    "triangle": stats.triang(0.3, loc=-1.0, scale=2.0),
}


@pytest.fixture(scope="module", params=LAWS)
def law(request):
    found = LAWS[request.param]

    def logpdf(x):
        with np.errstate(divide="ignore"):
            return found.logpdf(x)

    return found, tabulated.tabulate(logpdf, found.std())


def test_density(law):
    exact, table = law
    rng = np.random.default_rng(0)
    x = exact.std() * np.concatenate([3 * rng.normal(size=300), 5 * rng.standard_cauchy(300)])
    with np.errstate(divide="ignore"):
        expected = exact.logpdf(x)
    value = np.array([tabulated.table_logpdf(v, table) for v in x])
    seen = expected > -500.0
    assert seen.sum() > 100
    np.testing.assert_allclose(value[seen], expected[seen], rtol=1e-9, atol=1e-9)
    assert np.all(value[np.isneginf(expected)] < -500.0)


def test_probabilities(law):
    exact, table = law
    rng = np.random.default_rng(1)
    low, high = np.sort(exact.std() * 3 * rng.normal(size=(2, 200)), axis=0)
    value = np.array(
        [tabulated.table_interval(a, b, table) for a, b in zip(low, high, strict=True)]
    )
    right = low > exact.median()
    with np.errstate(divide="ignore"):
        expected = np.log(
            np.where(right, exact.sf(low) - exact.sf(high), exact.cdf(high) - exact.cdf(low))
        )
    seen = expected > -15.0
    assert seen.sum() > 100
    np.testing.assert_allclose(value[seen], expected[seen], atol=2e-9)
    assert tabulated.table_interval(-np.inf, np.inf, table) == pytest.approx(0.0, abs=1e-9)
    assert tabulated.table_interval(1.0, 0.5, table) == -np.inf


def test_quantiles(law):
    exact, table = law
    for u in (1e-12, 0.003, 0.2, 0.5, 0.77, 0.9999):
        found = tabulated.table_quantile(u, table)
        assert found == pytest.approx(exact.ppf(u), rel=1e-8, abs=1e-8)
    assert np.isnan(tabulated.table_quantile(0.0, table))


def test_tops_bound_the_density(law):
    exact, table = law
    grid = np.linspace(-6.0, 6.0, 400) * exact.std()
    with np.errstate(divide="ignore"):
        density = exact.logpdf(grid)
    for i in range(0, 400, 40):
        assert tabulated.table_top(grid[i], 1.0, table) >= density[i:].max() - 1e-9
        assert tabulated.table_top(grid[i], -1.0, table) >= density[: i + 1].max() - 1e-9


def test_edges_are_found_in_both_directions():
    table = tabulated.tabulate(LAWS["laplace"].logpdf, LAWS["laplace"].std())
    edge = tabulated.table_next_edge(0.1, 1.0, table)
    assert edge > 0.1
    assert tabulated.table_next_edge(edge, -1.0, table) <= 0.1
    assert tabulated.table_next_edge(np.inf, 1.0, table) == np.inf


@pytest.mark.parametrize(
    ("logpdf", "message"),
    [
        (lambda x: -np.abs(x), "integrate to 1, got 2"),
        (lambda x: np.full(x.shape, np.nan), "NaN"),
        (lambda x: np.full(x.shape, np.inf), "minus infinity"),
        (lambda x: np.full(x.shape, -np.inf), "within 8 standard deviations"),
        (lambda x: 0.0, "one value per argument"),
        (lambda x: -np.abs(x) - 0.1 * np.modf(1e5 * x)[0], "smooth"),
    ],
)
def test_what_cannot_be_tabulated(logpdf, message):
    with pytest.raises(ParameterError, match=message):
        tabulated.tabulate(logpdf, 1.4)
