import numpy as np
import pytest
from scipy import stats

from dpbayes.errors import ParameterError
from dpbayes.mechanism import Clamp, Mechanism, Round, Suppress
from dpbayes.noise import DiscreteLaplace, Gaussian, Laplace
from dpbayes.posterior.predictive import (
    discrepancy_p_value,
    pit,
    replicate_counts,
    replicate_records,
)
from dpbayes.releases import RecordRelease

MECHANISMS = {
    "continuous": Mechanism(Laplace(scale=3.0)),
    "lattice": Mechanism(DiscreteLaplace(scale=0.7)),
    "clamped": Mechanism(DiscreteLaplace(scale=4), steps=[Clamp(lower=0)]),
    "suppressed": Mechanism(DiscreteLaplace(scale=4), steps=[Suppress(below=6)]),
}


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_pit_is_uniform_on_data_from_the_model(mechanism):
    rng = np.random.default_rng(1)
    cells = 2000
    p = np.full(cells, 1 / cells)
    rows = replicate_counts(np.tile(p, (100, 1)), np.full(100, 5 * cells), mechanism, (cells,), rng)
    # With 99 replicates the transform has no exact law but the uniform one.
    u = pit(rows[0], rows[1:], rng)
    assert stats.kstest(u, "uniform").pvalue > 0.01


def test_pit_without_random_ties_would_not_be_uniform():
    rng = np.random.default_rng(2)
    rows = MECHANISMS["suppressed"].sample(np.zeros((100, 2000)), rng)
    assert np.isnan(rows).mean() > 0.7
    naive = np.nanmean(rows[1:] < rows[0], axis=0)
    assert stats.kstest(naive, "uniform").pvalue < 1e-6
    assert stats.kstest(pit(rows[0], rows[1:], rng), "uniform").pvalue > 0.01


def test_pit_places_a_suppressed_value_below_published_ones():
    u = pit(np.array([np.nan]), np.arange(9.0)[:, None], 1)
    assert u[0] < 0.1
    assert pit(np.array([50.0]), np.full((9, 1), np.nan), 1)[0] > 0.9


def test_pit_refuses_replicates_of_another_shape():
    with pytest.raises(ParameterError, match=r"one column per value \(3\)"):
        pit(np.zeros(3), np.zeros((5, 2)))


def test_discrepancy_is_uniform_on_data_from_the_model():
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(12))
    values = []
    for _ in range(300):
        rows = replicate_counts(
            np.tile(p, (60, 1)), np.full(60, 400), MECHANISMS["clamped"], (12,), rng
        )
        values.append(discrepancy_p_value(rows[0], rows[1:], rng))
    assert stats.kstest(values, "uniform").pvalue > 0.01


def test_discrepancy_finds_values_that_do_not_fit():
    rng = np.random.default_rng(4)
    p = np.full(12, 1 / 12)
    rows = replicate_counts(
        np.tile(p, (200, 1)), np.full(200, 400), MECHANISMS["clamped"], (12,), rng
    )
    shifted = rows[0] + np.where(np.arange(12) % 2, 25, -20)
    assert discrepancy_p_value(np.maximum(shifted, 0), rows[1:], rng) < 0.02


def test_replicated_counts_have_the_moments_of_table_plus_noise():
    rng = np.random.default_rng(5)
    p, total, law = np.array([0.2, 0.3, 0.5]), 1000, Gaussian(sd=7.0)
    rows = replicate_counts(
        np.tile(p, (20_000, 1)), np.full(20_000, total), Mechanism(law), (3,), rng
    )
    variance = total * p * (1 - p) + 49.0
    assert np.all(np.abs(rows.mean(0) - total * p) < 4 * np.sqrt(variance / 20_000))
    assert rows.var(0) == pytest.approx(variance, rel=0.05)


def test_replicated_counts_of_empty_tables_are_noise_whatever_p_is():
    p = np.full((50, 4), np.nan)
    rows = replicate_counts(
        p, np.zeros(50), Mechanism(DiscreteLaplace(scale=2)), (2, 2), np.random.default_rng(6)
    )
    assert rows.shape == (50, 2, 2)
    assert np.isfinite(rows).all()


RECORDS = {
    "laplace": (Mechanism(Laplace(scale=20)), "continuous"),
    "gaussian rounded": (Mechanism(Gaussian(sd=15), steps=[Round(step=5)]), "continuous"),
    "clamped": (Mechanism(Laplace(scale=40), steps=[Clamp(lower=0, upper=100)]), "continuous"),
    "integers": (Mechanism(DiscreteLaplace(scale=9)), "integers"),
}


@pytest.mark.parametrize(("mechanism", "support"), RECORDS.values(), ids=RECORDS)
def test_replicated_records_match_brute_force(mechanism, support):
    rng = np.random.default_rng(7)
    n = 40_000
    if support == "integers":
        elements = (np.arange(101.0), np.arange(101.0))
        weights = rng.dirichlet(np.ones(101))
        truth = rng.choice(101, size=(2, n), p=weights).astype(float)
    else:
        elements = (np.array([0.0, 30.0, 100.0]), np.array([30.0, 100.0, 100.0]))
        weights = np.array([0.5, 0.3, 0.2])
        piece = rng.choice(3, size=(2, n), p=weights)
        truth = rng.uniform(elements[0][piece], elements[1][piece])
    released = mechanism.sample(truth, rng)
    release = RecordRelease(released[0], mechanism=mechanism, bounds=(0, 100), support=support)
    observed, replicated, lower, upper = replicate_records(
        np.tile(weights, (400, 1)), elements, release, rng
    )
    assert observed.sum() == n
    assert np.all(replicated.sum(axis=1) == n)
    assert np.isneginf(lower[0])
    assert np.isposinf(upper[-1])
    # A second release of the same law, counted by the intervals of its values.
    found = mechanism.interval(released[1])
    middle = np.clip(found.lower, -1e6, 1e6) + np.clip(found.upper, -1e6, 1e6)
    other = np.histogram(middle / 2, bins=np.append(np.r_[-np.inf, lower[1:]], np.inf))[0]
    expected = replicated.mean(axis=0)
    for counts in (observed, other):
        z = (counts - expected) / np.sqrt(expected + 1.0)
        assert np.abs(z).max() < 4.5
    assert stats.kstest(pit(observed, replicated, rng), "uniform").pvalue > 1e-3
