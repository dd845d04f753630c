"""The committed releases of notebooks/data: consistent with their truth and made by the script."""

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

DATA = Path(__file__).resolve().parents[1] / "notebooks" / "data"
RELEASES = ["buyers_by_month", "customers_by_spend", "spend_records_eps8", "spend_records_eps1"]
TRUTHS = [
    "buyers_by_month_truth.csv",
    "customers_by_spend_truth.csv",
    "spend_records_truth.csv",
    "spend_records_truth_bins.csv",
]
N_CUSTOMERS = 23_570


def toml(name, directory=DATA):
    with (directory / f"{name}.toml").open("rb") as file:
        return tomllib.load(file)


def table(name, directory=DATA):
    return pd.read_csv(directory / name)


def spend_truth():
    rows = table("spend_records_truth.csv").fillna({"at": -1})
    return rows.set_index(["functional", "at"])["value"].to_dict()


def scale(name):
    mechanism = toml(name)["mechanism"]
    return mechanism["sensitivity"] / mechanism["epsilon"]


@pytest.mark.parametrize("name", RELEASES)
def test_release_file_names_columns_that_exist(name):
    content = toml(name)
    release = content["release"]
    columns = [release.get("value"), release.get("column")]
    columns += release.get("dims", []) + release.get("edges", [])
    assert content["version"] == 1
    assert release["title"]
    assert release["source"]
    assert release["unit"]
    assert set(table(release["file"]).columns) == {column for column in columns if column}


def test_months_are_complete_and_bounding_keeps_what_it_should():
    truth = table("buyers_by_month_truth.csv")
    months = pd.period_range("1997-01", "1998-06", freq="M").astype(str)
    assert list(truth["month"]) == list(months)
    assert list(table("buyers_by_month.csv")["month"]) == list(months)
    assert truth["buyers"].sum() == 41_148
    assert truth["buyers_unbounded"].sum() == 55_379
    assert (truth["buyers"] <= truth["buyers_unbounded"]).all()
    first_three = truth["month"] <= "1997-03"
    assert (truth["buyers"] == truth["buyers_unbounded"])[first_three].all()


def test_spend_bins_are_contiguous_and_hold_every_customer():
    release = table("customers_by_spend.csv")
    truth = table("customers_by_spend_truth.csv")
    edges = [0, 10, 20, 30, 40, 50, 75, 100, 150, 200, 250]
    for bins in (release, truth):
        assert list(bins["lower"]) == edges[:-1]
        assert list(bins["upper"]) == edges[1:]
    assert truth["customers"].sum() == N_CUSTOMERS
    assert toml("customers_by_spend")["release"]["total"] == N_CUSTOMERS
    assert toml("customers_by_spend")["mechanism"]["steps"] == [{"clamp": {"lower": 0}}]
    assert (release["noisy_customers"] >= 0).all()


# The mean of n absolute integer Laplace draws of scale b is about b, with sd b / sqrt(n).
@pytest.mark.parametrize(
    ("name", "value", "true", "expected_scale"),
    [
        ("buyers_by_month", "noisy_buyers", "buyers", 30),
        ("customers_by_spend", "noisy_customers", "customers", 20),
    ],
)
def test_count_noise_is_integer_and_of_the_stated_size(name, value, true, expected_scale):
    released = table(f"{name}.csv")[value]
    noise = released - table(f"{name}_truth.csv")[true]
    assert scale(name) == pytest.approx(expected_scale)
    assert np.issubdtype(released.dtype, np.integer)
    assert expected_scale / 3 < noise.abs().mean() < expected_scale * 2


@pytest.mark.parametrize(
    ("name", "b"), [("spend_records_eps8", 31.25), ("spend_records_eps1", 250)]
)
def test_record_noise_has_the_moments_of_the_stated_law(name, b):
    noisy = table(f"{name}.csv")["noisy_spend"].to_numpy()
    truth = spend_truth()
    assert scale(name) == b
    assert toml(name)["release"]["bounds"] == [0, 250]
    assert len(noisy) == truth["records", -1] == N_CUSTOMERS
    # given the true spend, the mean of the noise has sd b sqrt(2 / n), its variance is 2 b^2
    assert abs(noisy.mean() - truth["mean", -1]) < 5 * b * np.sqrt(2 / N_CUSTOMERS)
    assert noisy.var() - truth["variance", -1] == pytest.approx(2 * b**2, rel=0.15)
    # full precision: no rounding step is stated, so none may have been made
    assert np.mean(np.round(noisy, 6) == noisy) < 0.01


def test_record_truths_agree_with_each_other():
    truth = spend_truth()
    fine = table("spend_records_truth_bins.csv")
    coarse = table("customers_by_spend_truth.csv")
    assert fine["customers"].sum() == N_CUSTOMERS
    assert fine["customers"].iloc[-1] == 2260
    assert truth["atom", 250] == pytest.approx(2260 / N_CUSTOMERS)
    assert truth["cdf", 25] < truth["cdf", 50] < truth["cdf", 100] < truth["cdf", 200] < 1
    for lower, upper, customers in coarse.itertuples(index=False):
        if upper % 10 == 0 and lower % 10 == 0:
            inside = fine["lower"].ge(lower) & fine["upper"].le(upper)
            assert fine.loc[inside, "customers"].sum() == customers
    # the CDF counts the customers at the point itself, the bins below do not
    for at in (50, 100, 200):
        below = fine.loc[fine["upper"] <= at, "customers"].sum() / N_CUSTOMERS
        assert 0 <= truth["cdf", at] - below < 0.001
    middles = (fine["lower"] + fine["upper"]) / 2
    binned_mean = (middles * fine["customers"]).sum() / N_CUSTOMERS
    assert truth["mean", -1] == pytest.approx(binned_mean, abs=1)


def test_data_files_stay_small():
    assert max(path.stat().st_size for path in DATA.glob("*.csv")) < 600_000


def test_script_makes_the_same_truth_and_other_noise(tmp_path):
    script = [sys.executable, str(DATA / "make_releases.py"), "--out", str(tmp_path)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "kept 41148 of 55379 customer-months" in done.stdout
    assert "2260 of 23570 customers (9.6%) above 250 dollars" in done.stdout
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {path.name for path in DATA.iterdir() if path.suffix in {".csv", ".toml"}}
    for name in TRUTHS:
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()
    for name in RELEASES:
        assert toml(name, tmp_path) == toml(name)
        fresh, committed = table(f"{name}.csv", tmp_path), table(f"{name}.csv")
        value = committed.columns[-1]
        assert fresh.shape == committed.shape
        assert fresh.dtypes.equals(committed.dtypes)
        assert fresh.drop(columns=value).equals(committed.drop(columns=value))
        assert not fresh[value].equals(committed[value])
