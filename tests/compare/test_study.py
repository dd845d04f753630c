import numpy as np
import pandas as pd
import pytest

from dpbayes.compare import MECHANISMS, best_bins, compare, exponents, rate, tuning
from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.privacy import smoothing_alpha


def test_rates():
    assert rate("perturbed", "l2", 1) == pytest.approx(-2 / 3)
    assert rate("perturbed", "l2", 2) == -0.5
    assert rate("perturbed", "ks", 1) == -0.5
    assert rate("perturbed", "ks", 3) == pytest.approx(-2 / 5)
    assert rate("smoothed", "ks", 1) == pytest.approx(-2 / 7)
    assert rate("smoothed", "l2", 2) == pytest.approx(-2 / 7)
    with pytest.raises(UnsupportedError, match="one dimension only"):
        rate("exponential", "ks", 2)
    with pytest.raises(ParameterError, match="did you mean 'perturbed'"):
        rate("pertubed", "l2")


@pytest.mark.parametrize("distance", ["l2", "ks"])
@pytest.mark.parametrize("dimension", [1, 2])
def test_tuning_of_the_smoothed_histogram_keeps_alpha(distance, dimension):
    for n in (1000, 10**6):
        chosen = tuning("smoothed", distance, n, 0.7, dimension)
        size = {"draws": chosen.draws, "records": n, "cells": chosen.bins**dimension}
        assert smoothing_alpha(delta=chosen.delta, **size) == pytest.approx(0.7, rel=1e-9)


def test_a_small_study_and_its_exponents():
    table = compare(
        MECHANISMS[:3], records=[10_000, 100_000, 1_000_000], simulations=150, workers=1,
        progressbar=False,
    )  # fmt: skip
    assert list(table["mechanism"].unique()) == ["none", "perturbed", "smoothed"]
    known = table[table["exact"].notna()]
    assert set(known["mechanism"]) == {"none", "smoothed"}
    assert np.all(np.abs(known["error"] - known["exact"]) < 5 * known["standard_error"])
    found = exponents(table).set_index("mechanism")
    assert abs(found.loc["none", "fitted"] + 2 / 3) < 0.05
    assert abs(found.loc["perturbed", "fitted"] + 2 / 3) < 0.05
    assert abs(found.loc["smoothed", "fitted"] + 2 / 5) < 0.08
    # A smoothed histogram is worse at every n.
    errors = table.pivot(index="records", columns="mechanism", values="error")
    assert np.all(errors["smoothed"] > 3 * errors["perturbed"])


def test_the_fit_of_exponents():
    n = np.array([10, 100, 1000])
    table = pd.DataFrame({
        "mechanism": "none", "distance": "l2", "dimension": 1, "alpha": 1.0, "records": n,
        "error": 3.0 * n**-0.6, "standard_error": 0.01 * n**-0.6,
    })  # fmt: skip
    found = exponents(table).iloc[0]
    assert found["fitted"] == pytest.approx(-0.6)
    assert found["last"] == pytest.approx(-0.6)
    assert found["standard_error"] == pytest.approx(0.01 / 3 / np.log(100) * np.sqrt(2))
    with pytest.raises(ParameterError, match="two or more numbers of records"):
        exponents(table.iloc[:1])


def test_the_best_number_of_bins():
    table = best_bins("none", records=1000, alpha=np.inf, simulations=50)
    assert 20 <= table["bins"][0] <= 30
    assert table["exact"].is_monotonic_increasing
    noisy = best_bins("perturbed", records=1000, alpha=0.05, simulations=300)
    assert noisy["bins"][0] < table["bins"][0]


def test_processes_give_the_same_table():
    options = {"records": [1000, 3000], "simulations": 20, "progressbar": False}
    pd.testing.assert_frame_equal(
        compare(["none"], workers=1, **options), compare(["none"], workers=2, **options)
    )


def test_bad_input():
    with pytest.raises(ParameterError, match="alpha must be positive"):
        compare(["none"], alphas=[0], progressbar=False)
    with pytest.raises(ParameterError, match="records must be"):
        compare(["none"], records=[0], progressbar=False)
