import numpy as np
import pytest

from dpbayes import plots
from dpbayes.errors import DomainError, ParameterError


def band(ax):
    """Lower and upper edge of the band, as functions of x."""
    path = ax.collections[0].get_paths()[0].vertices
    return path


def test_cdf_band_holds_the_quantiles_of_the_draws(numeric, ax):
    plots.cdf(numeric, ci_prob=0.8, ax=ax)
    at = 75.0
    draws = numeric.P.cdf(at).values
    vertices = band(ax)
    heights = vertices[np.isclose(vertices[:, 0], at), 1]
    assert heights.min() == pytest.approx(np.quantile(draws, 0.1), abs=1e-12)
    assert heights.max() == pytest.approx(np.quantile(draws, 0.9), abs=1e-12)
    naive = next(line for line in ax.lines if line.get_label() == "Naive")
    x, y = naive.get_xydata().T
    assert np.interp(50.0, x, y) == pytest.approx(numeric.naive_weights[:5].sum())
    assert ax.get_xlabel() == "Value (USD)"


def test_cdf_jumps_at_atoms(records, ax):
    plots.cdf(records, ax=ax)
    mean = next(line for line in ax.lines if line.get_label() == "Posterior mean")
    x, y = mean.get_xydata().T
    assert x[0] < 0
    assert y[0] == 0
    assert y[1] == pytest.approx(records.P.weights.values[..., 5].mean())
    assert y[-1] - y[-2] == pytest.approx(records.P.weights.values[..., 6].mean())


def test_cdf_of_whole_numbers_is_a_step(integers, ax):
    plots.cdf(integers, "table", ax=ax)
    mean = next(line for line in ax.lines if line.get_label() == "Posterior mean")
    assert mean.get_drawstyle() == "steps-post"
    assert mean.get_xdata().tolist() == [0, 1, 2, 3, 4, 5]


def test_truth_is_a_function_or_points(numeric, ax):
    plots.cdf(numeric, ax=ax, truth=lambda x: x / 250)
    plots.density(numeric, ax=ax, truth=([0, 250], [0.004, 0.004]))
    lines = [line for line in ax.lines if line.get_label() == "Truth"]
    assert np.interp(100, *lines[0].get_xydata().T) == pytest.approx(0.4)
    assert lines[1].get_ydata().tolist() == [0.004, 0.004]
    with pytest.raises(ParameterError, match="function or a pair"):
        plots.cdf(numeric, ax=ax, truth=3)
    with pytest.raises(ParameterError, match="one length"):
        plots.cdf(numeric, ax=ax, truth=([1, 2], [0.5]))


def test_density_is_mass_over_width(numeric, ax):
    plots.density(numeric, ci_prob=0.8, ax=ax)
    widths = np.diff(numeric.release.edges)
    draws = numeric.P.weights.values.reshape(-1, 10) / widths
    upper, mean, naive = (patch.get_data() for patch in ax.patches)
    assert upper.values == pytest.approx(np.quantile(draws, 0.9, axis=0))
    assert upper.baseline == pytest.approx(np.quantile(draws, 0.1, axis=0))
    assert mean.values == pytest.approx(draws.mean(axis=0))
    assert naive.values == pytest.approx(numeric.naive_weights / widths)


def test_density_puts_atoms_on_their_own_scale(records, ax):
    plots.density(records, ax=ax)
    left, right = ax.figure.axes
    assert left is ax
    assert right.get_ylabel() == "Probability of a single point"
    stems = next(line for line in right.lines if line.get_label() == "Posterior mean")
    assert stems.get_xdata().tolist() == [0, 100]
    assert stems.get_ydata() == pytest.approx(records.P.weights.values.mean(axis=(0, 1))[5:])
    assert left.get_ylabel() == "Density (share per USD)"


def test_density_of_whole_numbers_is_all_stems(integers, ax):
    plots.density(integers, ax=ax)
    assert ax.figure.axes == [ax]
    stems = next(line for line in ax.lines if line.get_label() == "Posterior mean")
    assert stems.get_ydata() == pytest.approx(integers.P.weights.values.mean(axis=(0, 1)))
    assert ax.get_ylabel() == "Probability"


@pytest.mark.parametrize("plot", [plots.cdf, plots.density])
def test_labelled_cells_have_no_curve(labelled, plot, ax):
    with pytest.raises(DomainError, match="numeric axis"):
        plot(labelled, ax=ax)
