import matplotlib.pyplot as plt
import numpy as np
import pytest

import dpbayes as dpb
from dpbayes import plots
from dpbayes.errors import ParameterError
from dpbayes.plots.style import shorten

FLAT = dpb.Dirichlet(concentration=1.0)


def points(ax, marker):
    """Coordinates of all markers of one kind."""
    found = [line.get_xydata() for line in ax.lines if line.get_marker() == marker]
    return np.concatenate(found)


def test_rows_show_means_intervals_and_released_values(labelled, ax):
    assert plots.cells(labelled, ci_prob=0.8, ax=ax) is ax
    draws = labelled.count.values.reshape(-1, 4)
    segments = np.array(ax.collections[0].get_segments())
    assert segments[:, 0, 0] == pytest.approx(np.quantile(draws, 0.1, axis=0))
    assert segments[:, 1, 0] == pytest.approx(np.quantile(draws, 0.9, axis=0))
    shown = points(ax, "o")[:, 0]
    assert shown[:4] == pytest.approx(draws.mean(axis=0))
    assert shown[4:] == pytest.approx([480.5, 77.25])
    # Withheld values are drawn as bounds, at the threshold.
    assert points(ax, "<")[:, 0] == pytest.approx([50, 50])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Count (visits)", "page")
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels[0] == "home"
    assert len(labels[1]) <= 34
    assert "Released only as a bound" in [t.get_text() for t in ax.get_legend().get_texts()]


def test_probabilities_are_those_of_p(labelled, ax):
    plots.cells(labelled, "P", ax=ax, truth=[0.7, 0.1, 0.1, 0.1])
    draws = labelled.P.weights.values.reshape(-1, 4)
    shown = points(ax, "o")[:, 0]
    assert shown[:4] == pytest.approx(draws.mean(axis=0))
    assert shown[4:] == pytest.approx(labelled.naive_weights)
    assert points(ax, "x")[:, 0] == pytest.approx([0.7, 0.1, 0.1, 0.1])
    assert ax.get_xlabel() == "Probability"


def test_numeric_cells_span_their_bins(numeric, ax):
    plots.cells(numeric, ax=ax)
    draws = numeric.count.values.reshape(-1, 10)
    edges = numeric.release.edges
    bars = [(b.get_x(), b.get_width(), b.get_y(), b.get_height()) for b in ax.patches]
    expected = np.quantile(draws, [0.05, 0.95], axis=0)
    assert np.array(bars) == pytest.approx(
        np.column_stack([edges[:-1], np.diff(edges), expected[0], expected[1] - expected[0]])
    )
    # Zeros from a clamp are bounds.
    assert points(ax, "v")[:, 1] == pytest.approx([0, 0, 0])
    assert ax.get_title(loc="left") == "Spend ($ a month, $ a year)"
    ax.figure.canvas.draw()  # a pair of dollars must not become a formula


def test_differences_are_taken_from_the_naive_estimate(numeric, ax):
    plots.cells(numeric, ax=ax, difference=True, truth=numeric.release.values.values + 3)
    draws = numeric.count.values.reshape(-1, 10) - numeric.release.values.values
    lower = [b.get_y() for b in ax.patches]
    assert lower == pytest.approx(np.quantile(draws, 0.05, axis=0))
    assert points(ax, "x")[:, 1] == pytest.approx(np.full(10, 3))
    assert "less the naive" in ax.get_ylabel()
    assert ax.get_xlabel() == "Value (USD)"


def test_many_cells_stand_in_columns_with_some_labels(wide, ax):
    plots.cells(wide, ax=ax)
    assert points(ax, "o").shape == (160, 2)
    assert points(ax, "o")[:80, 1] == pytest.approx(wide.count.values.reshape(-1, 80).mean(axis=0))
    labels = [t.get_text() for t in ax.get_xticklabels()]
    assert labels[:2] == ["region 0, 0", "region 1, 0"]
    assert len(labels) == 8
    lines = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "-"]
    separators = [x for x in lines if x == int(x) + 0.5]
    assert separators == [9.5, 19.5, 29.5, 39.5, 49.5, 59.5, 69.5]


def test_records_draw_atoms_apart_from_bins(records, ax):
    plots.cells(records, "P", ax=ax)
    draws = records.P.weights.values.reshape(-1, 7)
    assert len(ax.patches) == 5
    atoms = points(ax, "o")[:2]
    assert atoms[:, 0] == pytest.approx([0, 100])
    assert atoms[:, 1] == pytest.approx(draws.mean(axis=0)[5:])
    assert ax.get_xlabel() == "Value (USD)"


def test_without_axes_a_pyplot_figure_is_made(labelled):
    ax = labelled.plot_cells()
    assert ax.figure.number in plt.get_fignums()
    plt.close(ax.figure)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimand": "p"}, "estimand must be 'P'"),
        ({"ci_prob": 90}, "ci_prob must be between 0 and 1, got 90"),
        ({"truth": [1, 2]}, r"one value per cell \(4\), got 2"),
    ],
)
def test_wrong_options_are_refused(labelled, ax, options, message):
    with pytest.raises(ParameterError, match=message):
        plots.cells(labelled, ax=ax, **options)


def test_single_cell_and_empty_release(ax):
    mechanism = dpb.Mechanism(dpb.DiscreteLaplace(scale=5), steps=[dpb.Clamp(lower=0)])
    release = dpb.HistogramRelease([0], mechanism=mechanism)
    posterior = dpb.fit(release, FLAT, draws=50, random_seed=1, progressbar=False)
    plots.cells(posterior, "P", ax=ax)
    # With nothing released above zero there is no naive share to draw.
    assert np.isnan(points(ax, "o")[1]).any()


def test_shortened_labels_keep_both_ends():
    label = shorten("Campaign 017, spring sale, remarketing, variant B", 24)
    assert len(label) <= 24
    assert label.startswith("Campaign 017")
    assert label.endswith("B")
    assert shorten("short") == "short"
