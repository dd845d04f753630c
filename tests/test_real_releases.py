"""Releases of real data, made with another library: the truth lies where the posterior says."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpbayes as dpb
from dpbayes.io import read_release

DATA = Path(__file__).parents[1] / "notebooks" / "data"
LEVELS = [0.005, 0.995]
#: Noise of 138 in one month: beyond what a Laplace law of scale 30 does in 99 of 100 cases.
OUTLIER = "1998-06"


def interval(draws):
    return draws.quantile(LEVELS, ("chain", "draw")).values


def inside(draws, truth):
    low, high = interval(draws)
    return (low <= truth) & (truth <= high)


def fit(name, **options):
    release = read_release(DATA / f"{name}.toml")
    return dpb.fit(release, random_seed=1, progressbar=False, **options)


def test_true_buyers_of_every_month_lie_in_the_99_percent_interval():
    truth = pd.read_csv(DATA / "buyers_by_month_truth.csv").set_index("month")["buyers"]
    posterior = fit("buyers_by_month", prior=dpb.Dirichlet(concentration=1.0), draws=30_000)
    assert inside(posterior.count, truth[posterior.count["month"].values].values).all()


def test_default_prior_misses_no_more_than_the_one_outlier():
    truth = pd.read_csv(DATA / "buyers_by_month_truth.csv").set_index("month")["buyers"]
    posterior = fit("buyers_by_month", draws=2000)
    found = inside(posterior.count, truth[posterior.count["month"].values].values)
    assert set(posterior.count["month"].values[~found]) <= {OUTLIER}


@pytest.mark.parametrize("prior", [None, dpb.Dirichlet(concentration=1.0)], ids=["default", "flat"])
def test_true_customers_of_every_bin_and_their_mean_lie_in_the_99_percent_interval(prior):
    truth = pd.read_csv(DATA / "customers_by_spend_truth.csv")
    posterior = fit("customers_by_spend", prior=prior, draws=2000)
    customers = truth["customers"].values
    assert inside(posterior.count, customers).all()
    middle = 0.5 * (truth["lower"] + truth["upper"])
    assert inside(posterior.table.mean(), np.average(middle, weights=customers))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spend_records_eps8", "spend_records_eps1"])
def test_true_mean_and_distribution_of_perturbed_records_lie_in_the_99_percent_interval(name):
    rows = pd.read_csv(DATA / "spend_records_truth.csv").fillna({"at": -1})
    truth = rows.set_index(["functional", "at"])["value"]
    posterior = fit(name)
    assert inside(posterior.table.mean(), truth["mean", -1])
    for at in (25, 50, 100, 200):
        assert inside(posterior.table.cdf(at), truth["cdf", at]), at
    dominated = posterior.verdict().prior_dominated
    assert bool(dominated) == (name == "spend_records_eps1")
    assert posterior.verdict().converged
