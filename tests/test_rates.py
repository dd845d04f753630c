"""Rates and lifts, as an analyst asks for them."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dpbayes as dpb
from dpbayes.errors import (
    DomainError,
    ImpossibleReleaseError,
    ParameterError,
    ReleaseError,
    UnsupportedError,
)
from dpbayes.posterior.rates import RatePosterior

LAW = dpb.DiscreteLaplace(scale=8.0)


@pytest.fixture(scope="module")
def one():
    return dpb.rate(numerator=118, denominator=2040, mechanism=LAW, random_seed=1)


@pytest.fixture(scope="module")
def three():
    clicks = xr.DataArray([118.0, 40.0, 3.0], coords={"campaign": ["a", "b", "c"]})
    views = clicks.copy(data=[2040.0, 900.0, 55.0])
    return dpb.rate(numerator=clicks, denominator=views, mechanism=LAW, random_seed=2)


def test_a_single_rate(one):
    assert one.rate.dims == ("chain", "draw")
    assert isinstance(one, dpb.Posterior)
    assert np.all(one.numerator <= one.denominator)
    assert 0.045 < float(one.rate.mean()) < 0.07
    table = one.summary(ci_prob=0.9)
    assert list(table.index) == ["rate", "numerator", "denominator"]
    assert table.loc["rate", "naive"] == pytest.approx(118 / 2040)
    assert table.loc["rate", "lower"] < 118 / 2040 < table.loc["rate", "upper"]
    assert 0.2 < table.loc["rate", "noise_share"] < 0.8
    assert table.loc["numerator", "noise_share"] == 1.0
    assert one.verdict().converged
    assert one.to_frame().shape == (4000, 3)


def test_noise_widens_the_rate(one):
    exact = dpb.rate(numerator=118, denominator=2040, mechanism=dpb.NoNoise(), random_seed=1)
    assert float(exact.numerator.std()) == 0.0
    known = exact.rate.std()
    assert float(known) == pytest.approx(np.sqrt(0.058 * 0.942 / 2040), rel=0.05)
    assert float(one.rate.std()) > 1.3 * float(known)


def test_several_rates(three):
    assert three.rate.dims == ("chain", "draw", "campaign")
    table = three.summary()
    assert "rate[c]" in table.index
    assert "denominator[b]" in table.index
    assert table.loc["rate[c]", "sd"] > 3 * table.loc["rate[a]", "sd"]
    assert three.to_frame()["rate[b]"].mean() == pytest.approx(40 / 900, rel=0.2)
    # a rate of which little is known is said to be so
    vague = dpb.rate(numerator=1, denominator=2, mechanism=dpb.Laplace(scale=40.0), random_seed=1)
    assert "rate" in vague.verdict().prior_dominated


def test_ways_in_agree(three):
    clicks = dpb.HistogramRelease([118, 40, 3], mechanism=LAW, coords={"campaign": ["a", "b", "c"]})
    views = dpb.HistogramRelease(
        pd.Series([2040, 900, 55], index=pd.Index(["a", "b", "c"], name="campaign")), mechanism=LAW
    )
    again = dpb.rate(numerator=clicks, denominator=views, random_seed=2)
    np.testing.assert_array_equal(again.rate, three.rate)
    public = dpb.HistogramRelease(
        [2040, 900, 55], mechanism=dpb.NoNoise(), coords={"campaign": ["a", "b", "c"]}
    )
    known = dpb.rate(numerator=clicks, denominator=public, random_seed=2)
    assert np.all(known.denominator == [2040, 900, 55])
    assert dpb.rate(numerator=118, denominator=2040, mechanism=LAW, random_seed=3).rate.mean() != (
        known.rate.mean()
    )


def test_draws_of_two_arms_are_independent():
    # Equal seeds, different releases: the random numbers must not be shared.
    arms = [
        dpb.rate(numerator=k, denominator=2040, mechanism=LAW, random_seed=1) for k in (118, 119)
    ]
    together = np.corrcoef(*(a.rate.values.ravel() for a in arms))[0, 1]
    assert abs(together) < 0.06


def test_lift(one):
    new = dpb.rate(numerator=160, denominator=2100, mechanism=LAW, random_seed=1)
    found = dpb.lift(new, one)
    np.testing.assert_allclose(found.difference, new.rate - one.rate)
    np.testing.assert_allclose(found.lift, new.rate / one.rate - 1)
    assert float(found.chance(above=0.0)) == float((new.rate > one.rate).mean())
    table = found.summary()
    assert list(table.index) == ["lift", "difference"]
    assert table.loc["lift", "naive"] == pytest.approx(160 / 2100 / (118 / 2040) - 1)
    assert 0.1 < table.loc["lift", "noise_share"] < 0.9
    assert found.verdict().converged
    assert found.to_frame().shape == (4000, 2)
    assert isinstance(found, dpb.Posterior)


def test_lift_of_several_over_one(three, one):
    found = dpb.lift(three, one)
    assert found.lift.dims == ("chain", "draw", "campaign")
    assert list(found.summary().index)[:3] == ["lift[a]", "lift[b]", "lift[c]"]
    assert found.chance().dims == ("campaign",)
    same = dpb.lift(three, three)
    assert float(abs(same.difference).max()) == 0.0


def test_saving(one, three, tmp_path):
    for posterior in (one, three):
        posterior.save(tmp_path / "rates.nc")
        again = dpb.load(tmp_path / "rates.nc")
        assert isinstance(again, RatePosterior)
        assert again == posterior
        pd.testing.assert_frame_equal(again.summary(), posterior.summary())
    with pytest.raises(UnsupportedError, match="not stored"):
        dpb.lift(one, one).save(tmp_path / "lift.nc")


def test_what_a_posterior_of_rates_lacks(one):
    for name in ("P", "table", "prior_P"):
        with pytest.raises(DomainError, match=r"\.rate, \.numerator, \.denominator"):
            getattr(one, name)
    with pytest.raises(DomainError, match="probability"):
        _ = one.probability
    with pytest.raises(UnsupportedError, match="report"):
        one.report("page.html")


def test_bad_input(one):
    with pytest.raises(ReleaseError, match=r"same cells .*\{'cell': 2\} and \{'cell': 3\}"):
        dpb.rate(numerator=[1, 2], denominator=[9, 9, 9], mechanism=LAW)
    with pytest.raises(ReleaseError, match="other labels"):
        dpb.rate(
            numerator=xr.DataArray([1.0], coords={"arm": ["a"]}),
            denominator=xr.DataArray([9.0], coords={"arm": ["b"]}), mechanism=LAW,
        )  # fmt: skip
    with pytest.raises(ReleaseError, match="needs a mechanism"):
        dpb.rate(numerator=1, denominator=9)
    whole = dpb.HistogramRelease([1], mechanism=LAW, total=5)
    with pytest.raises(ReleaseError, match="plain table"):
        dpb.rate(numerator=whole, denominator=[9], mechanism=LAW)
    with pytest.raises(ImpossibleReleaseError, match=r"cell 1: no true counts"):
        dpb.rate(numerator=[1, 5], denominator=[2, 3], mechanism=dpb.NoNoise())
    with pytest.raises(ParameterError, match="prior must be a Dirichlet"):
        dpb.rate(numerator=1, denominator=9, mechanism=LAW, prior=dpb.ScaleMixture())
    for wrong in ({"draws": 0}, {"chains": 1.5}, {"random_seed": -1}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            dpb.rate(numerator=1, denominator=9, mechanism=LAW, **wrong)
    short = dpb.rate(numerator=1, denominator=9, mechanism=LAW, draws=10, random_seed=1)
    with pytest.raises(ParameterError, match="equal numbers of draws, got 4 x 10 and 4 x 1000"):
        dpb.lift(short, one)
    with pytest.raises(ParameterError, match="control must be what"):
        dpb.lift(one, one.rate)
    other = dpb.rate(
        numerator=xr.DataArray([1.0, 2.0], coords={"arm": ["a", "b"]}),
        denominator=xr.DataArray([9.0, 9.0], coords={"arm": ["a", "b"]}), mechanism=LAW,
        random_seed=1,
    )  # fmt: skip
    renamed = dpb.rate(
        numerator=xr.DataArray([1.0, 2.0], coords={"arm": ["a", "c"]}),
        denominator=xr.DataArray([9.0, 9.0], coords={"arm": ["a", "c"]}), mechanism=LAW,
        random_seed=1,
    )  # fmt: skip
    with pytest.raises(ParameterError, match="same labels"):
        dpb.lift(other, renamed)


def test_calibration():
    # Rates drawn from the prior, denominators of several sizes: ranks of the truth are uniform.
    rng = np.random.default_rng(7)
    size = 400
    p = rng.beta(0.5, 0.5, size)
    views = np.floor(10 ** rng.uniform(1.0, 3.5, size)).astype(int)
    clicks = rng.binomial(views, p)
    mechanism = dpb.Mechanism(dpb.Laplace(scale=6.0), [dpb.Clamp(lower=0)])
    found = dpb.rate(
        numerator=mechanism.sample(clicks, rng), denominator=mechanism.sample(views, rng),
        mechanism=mechanism, draws=250, random_seed=3,
    )  # fmt: skip
    for name, truth in (("rate", p), ("numerator", clicks)):
        draws = found.data["posterior"][name].values.reshape(-1, size)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        inside = np.mean((low <= truth) & (truth <= high))
        assert inside == pytest.approx(0.9, abs=0.045), name
    rank = (found.rate.values.reshape(-1, size) < p).mean(axis=0)
    assert abs(rank.mean() - 0.5) < 3.5 / np.sqrt(12 * size)
