from dataclasses import replace

import numpy as np
import pytest

from dpbayes import plots
from dpbayes.posterior.predictive import check


def test_positions_of_released_values(labelled, ax):
    found = check(labelled, rng=1)
    assert found.resolves
    assert labelled.plot_predictive(ax=ax, checked=found) is ax
    ranges = np.array(ax.collections[0].get_segments())
    assert ranges[:, 0, 0] == pytest.approx(found.below)
    assert ranges[:, 1, 0] == pytest.approx(found.above)
    # Withheld values tie with all withheld replicates.
    assert (found.above - found.below)[[1, 3]].min() > 0.3
    assert (found.above - found.below)[[0, 2]].max() < 0.01
    assert np.all((found.below < found.pit) & (found.pit < found.above))


def test_implausible_values_are_marked_and_named(numeric, ax):
    found = check(numeric, rng=1)
    assert not found.outside.any()
    below = np.where(np.arange(10) == 3, 0.9995, found.below)
    far = replace(found, below=below, above=np.where(below > 0.99, 1.0, found.above))
    plots.predictive(numeric, ax=ax, checked=far)
    marked = next(line for line in ax.lines if line.get_marker() == "D")
    assert marked.get_xdata().tolist() == [3]
    assert [t.get_text() for t in ax.texts] == ["[30, 40)"]


def test_records_stand_beside_the_band_of_replicates(records, ax):
    found = check(records, rng=1)
    plots.predictive(records, ax=ax, checked=found, ci_prob=0.8)
    upper = ax.patches[0].get_data()
    assert upper.values == pytest.approx(np.quantile(found.replicated, 0.9, axis=0))
    dots = next(line for line in ax.lines if line.get_label() == "Released records")
    assert dots.get_ydata() == pytest.approx(found.observed[~found.outside])
    assert found.observed.sum() == 4000
    assert ax.get_xlabel().startswith("Record + noise (USD)")


def test_integer_records_are_checked_too(integers):
    found = check(integers, rng=1, replicates=100)
    assert not found.resolves
    assert found.replicated.shape == (100, found.observed.size)
    assert found.p_value > 0.01


def test_a_wrong_public_total_shows_in_the_sum(numeric):
    good = check(numeric, rng=1)
    assert good.sum_above > 0.02
    assert good.sum_below < 0.98
    wrong = numeric.total.copy(data=np.full(numeric.total.shape, 400))
    tree = numeric.data.copy()
    tree["posterior"]["total"] = wrong
    bad = check(type(numeric)(tree, numeric.release), rng=1)
    assert bad.sum_above < 0.001
    assert bad.p_value < 0.05
