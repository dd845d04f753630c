"""Many small releases in one call: the same law as separate fits, failures by name."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpbayes as dpb
from dpbayes.errors import ParameterError, ReleaseError
from dpbayes.mechanism import Mechanism, Suppress

LAW = dpb.DiscreteLaplace(scale=3)
FRAME = pd.DataFrame({
    "page": ["home"] * 3 + ["shop"] * 3 + ["blog"] * 3,
    "kind": ["new", "old", "bot"] * 3,
    "visits": [12, 30, -2, 55, 41, 3, 0, 6, 1],
    "n": [42] * 3 + [100] * 3 + [9] * 3,
})  # fmt: skip


def fit(frame=FRAME, **options):
    settings = {
        "by": "page", "value": "visits", "dims": "kind", "mechanism": LAW, "draws": 1000,
        "random_seed": 1, "progressbar": False, "prior": dpb.Dirichlet(rate=0.05),
    }  # fmt: skip
    return dpb.fit_many(frame, **(settings | options))


def same_law(many, alone, group):
    """Two-sample tests of every count, the total and every probability."""
    pairs = [(many.total.sel(group=group), alone.total)]
    for cell in alone.count["kind"].values:
        at = {"kind": cell}
        pairs.append((many.count.sel(group=group, **at), alone.count.sel(at)))
        pairs.append((many.probability.sel(group=group, **at), alone.probability.sel(at)))
    for got, expected in pairs:
        a, b = got.values.ravel(), expected.values.ravel()
        if np.ptp(a) == np.ptp(b) == 0:
            assert a[0] == b[0]
        else:
            assert stats.ks_2samp(a, b).pvalue > 1e-4


@pytest.mark.parametrize("total", [None, "n"])
def test_the_same_law_as_separate_fits(total):
    prior = dpb.Dirichlet(concentration=0.7, rate=0.05 if total is None else None)
    many = fit(total=total, prior=prior)
    assert many.failures == {}
    assert many.count.dims == ("chain", "draw", "group", "kind")
    assert many.count["group"].values.tolist() == ["home", "shop", "blog"]
    for group, part in FRAME.groupby("page"):
        release = dpb.HistogramRelease(
            part["visits"].to_numpy(), mechanism=LAW, coords={"kind": list(part["kind"])},
            total=None if total is None else int(part["n"].iloc[0]),
        )  # fmt: skip
        alone = dpb.fit(release, prior, draws=1000, random_seed=2, progressbar=False)
        same_law(many, alone, group)
        if total:
            assert np.all(many.total.sel(group=group) == part["n"].iloc[0])
    np.testing.assert_allclose(many.probability.sum("kind"), 1.0)


def test_suppressed_cells_and_cells_without_a_row():
    law = Mechanism(LAW, [Suppress(below=5)])
    frame = FRAME.assign(visits=[12, 30, None, 55, 41, None, None, 6, None]).drop(index=[5])
    many = fit(frame, mechanism=law)
    assert many.failures == {}
    release = dpb.HistogramRelease(
        [55, 41, None], mechanism=law, coords={"kind": ["new", "old", "bot"]}
    )
    alone = dpb.fit(release, dpb.Dirichlet(rate=0.05), draws=1000, random_seed=2, progressbar=False)
    same_law(many, alone, "shop")


BAD = {
    "a value that is no count": (
        FRAME.assign(visits=[12, 30, -2, 55.5, 41, 3, 0, 6, 1]), {}, "shop", "cell new",
    ),
    "an empty value": (
        FRAME.assign(visits=[12, 30, -2, 55, None, 3, 0, 6, 1]), {}, "shop", "cell old",
    ),
    "no row": (FRAME.drop(index=[5]), {}, "shop", "cell bot has no row"),
    "two rows": (
        FRAME.assign(kind=["new", "old", "bot", "new", "new", "bot", "new", "old", "bot"]),
        {}, "shop", "cell new has several rows",
    ),
    "two totals": (
        FRAME.assign(n=[42] * 3 + [100, 100, 101] + [9] * 3), {"total": "n"}, "shop", "100",
    ),
    "half a record": (
        FRAME.assign(n=[42] * 3 + [99.5] * 3 + [9] * 3), {"total": "n"}, "shop", "total",
    ),
    "no total": (
        FRAME.assign(n=[42] * 3 + [None] * 3 + [9] * 3), {"total": "n"}, "shop", "total",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("frame", "options", "group", "match"), BAD.values(), ids=BAD)
def test_a_bad_group_is_named_and_does_not_stop_the_others(frame, options, group, match):
    many = fit(frame, draws=50, **options)
    assert list(many.failures) == [group]
    assert match in many.failures[group]
    assert many.count["group"].values.tolist() == ["home", "blog"]
    assert np.all(np.isfinite(many.summary()["mean"]))


def test_groups_of_several_columns():
    frame = FRAME.assign(year=[1, 1, 1, 2, 2, 2, 1, 1, 1])
    many = fit(frame, by=["page", "year"], draws=50)
    assert many.count["group"].values.tolist() == ["home, 1", "shop, 2", "blog, 1"]
    bad = frame.assign(visits=[12, 30, -2, 55.5, 41, 3, 0, 6, 1])
    assert list(fit(bad, by=["page", "year"], draws=50).failures) == [("shop", 2)]


@pytest.mark.parametrize("prior", [None, dpb.Dirichlet(), dpb.Dirichlet(concentration="learned")])
def test_other_priors(prior):
    many = fit(prior=prior, draws=100)
    assert many.joint.verdict().diagnostics["engine"] == ("mixture" if prior is None else "exact")
    home = many.count.sel(group="home").mean(("chain", "draw"))
    assert np.all(np.abs(home.values - [12, 30, 0]) < [8, 8, 6])
    assert np.all(fit(prior=prior, draws=100, total="n").total.sel(group="blog") == 9)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries_and_seeds(library):
    module = pytest.importorskip(library)
    other = module.from_pandas(FRAME) if library == "polars" else module.Table.from_pandas(FRAME)
    first, again = fit(draws=60), fit(other, draws=60)
    assert first.count.identical(again.count)
    assert first.probability.identical(again.probability)
    assert not np.array_equal(first.count, fit(draws=60, random_seed=2).count)


def test_the_summary_has_a_row_for_every_group_cell_and_quantity():
    many = fit(draws=200)
    table = many.summary(ci_prob=0.8)
    assert len(table) == 3 * 3 * 2
    row = table.loc[("home", "old", "count")]
    draws = many.count.sel(group="home", kind="old").values
    assert row["mean"] == pytest.approx(draws.mean())
    assert row["lower"] == pytest.approx(np.quantile(draws, 0.1))
    assert row["upper"] == pytest.approx(np.quantile(draws, 0.9))
    with pytest.raises(ParameterError, match="ci_prob"):
        many.summary(ci_prob=1.0)


def test_what_cannot_be_fitted_at_all():
    with pytest.raises(ReleaseError, match="did you mean 'page'"):
        fit(by="pgae")
    with pytest.raises(ReleaseError, match="no rows"):
        fit(FRAME.iloc[:0])
    with pytest.raises(ReleaseError, match="one noise law"):
        fit(mechanism=dpb.DiscreteLaplace(scale=[1.0, 2.0, 3.0]))
    with pytest.raises(ReleaseError, match="no group can be fitted; home"):
        fit(FRAME.assign(visits=0.5))
