import numpy as np
import pytest

from dpbayes import plots
from dpbayes.errors import ParameterError


def texts(ax):
    return [t.get_text() for t in ax.get_legend().get_texts()]


def test_interval_mean_and_marks_are_those_of_the_draws(numeric, ax):
    draws = numeric.P.mean()
    plots.functional(draws, ci_prob=0.8, ax=ax, naive=40.0, reference=35.5, label="Mean ($)")
    bar = ax.lines[0].get_xdata()
    assert bar == pytest.approx(np.quantile(draws.values, [0.1, 0.9]))
    assert ax.lines[1].get_xdata()[0] == pytest.approx(draws.values.mean())
    assert [line.get_xdata()[0] for line in ax.lines[2:]] == [40.0, 35.5]
    heights = ax.patches[0].get_data()
    assert np.sum(heights.values * np.diff(heights.edges)) == pytest.approx(1.0)
    assert ax.get_xlabel() == "Mean ($)"
    ax.figure.canvas.draw()


def test_whole_numbers_have_bins_between_them_and_no_decimals(ax):
    plots.functional(np.repeat([0, 1, 2, 5], [55, 20, 20, 5]), 0.8, ax=ax, label="Total")
    edges = ax.patches[0].get_data().edges
    assert np.all(edges % 1 == 0.5)
    assert texts(ax) == ["80% interval 0 to 2", "Mean 0.8"]


def test_prior_is_drawn_only_where_it_shows(ax):
    rng = np.random.default_rng(1)
    draws = rng.normal(size=2000)
    plots.functional(draws, ax=ax, prior=rng.normal(size=2000) * 2)
    assert "Prior" in texts(ax)
    ax.clear()
    plots.functional(draws, ax=ax, prior=rng.normal(size=2000) * 1e4)
    assert "Prior" not in texts(ax)


def test_constant_and_undefined_draws(ax):
    plots.functional(np.array([2.0, 2.0, np.nan]), ax=ax)
    assert texts(ax) == ["90% interval 2 to 2", "Mean 2.000"]
    with pytest.raises(ParameterError, match="at least one finite value"):
        plots.functional(np.array([np.nan]), ax=ax)
    with pytest.raises(ParameterError, match="draws must be numbers"):
        plots.functional(["a"], ax=ax)


def test_axes_are_named(ax):
    import xarray as xr

    plots.functional(xr.DataArray(np.arange(50.0), dims="draw", name="spend"), ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Spend", "Probability density")


def test_draws_of_a_posterior_are_named_with_their_unit(numeric, ax):
    P, table = numeric.P, numeric.table
    for draws, label in (
        (P.mean(), "Mean of P"),
        (table.mean(), "Mean of the realised data"),
        (P.quantile(0.9), "90% quantile of P"),
        (P.cdf(20), "Share of P at or below 20"),
    ):
        unit = plots.style.axis_unit(numeric)
        assert plots.functional_label(numeric, draws) == label + unit
    # A difference may keep the name and the attributes of its first part.
    assert plots.functional_label(numeric, P.mean() - table.mean()) is None
    assert plots.functional_label(numeric, np.arange(3.0)) is None
    assert numeric.plot_functional(P.mean(), ax=ax).get_xlabel().startswith("Mean of P")
