"""Totals of groups beside the cells of a release: what is taken, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import dpbayes as dpb
from dpbayes.errors import ImpossibleReleaseError, ParameterError, ReleaseError
from dpbayes.mechanism import Mechanism, Suppress
from dpbayes.releases.margins import group_sums, is_nested

LAW = dpb.DiscreteLaplace(scale=3)
COORDS = {
    "shop": ["a", "b", "c", "d"],
    "region": ("shop", ["n", "s", "n", "w"]),
    "country": ("shop", ["x", "y", "x", "y"]),
}


def shops(**options):
    return dpb.HistogramRelease([9, 21, 8, 14], mechanism=LAW, coords=COORDS, **options)


def table():
    coords = {"arm": ["a", "b"], "month": [1, 2, 3], "half": ("month", ["h1", "h1", "h2"])}
    return dpb.HistogramRelease(np.arange(6).reshape(2, 3), mechanism=LAW, coords=coords)


# -- ways to give totals -----------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [17, 21, 14],
        np.array([17.0, 21.0, 14.0]),
        {"w": 14, "n": 17, "s": 21},
        xr.DataArray([14, 17, 21], dims="region", coords={"region": ["w", "n", "s"]}),
        xr.DataArray([17, 21, 14], dims="region"),
    ],
    ids=["list", "array", "mapping", "labelled", "unlabelled"],
)
def test_forms_of_totals_agree(values):
    margin = shops().with_margin(values, by="region", mechanism=LAW).margin("region")
    assert margin.values.values.tolist() == [17, 21, 14]
    assert margin.values["region"].values.tolist() == ["n", "s", "w"]
    assert margin.groups.tolist() == [0, 1, 0, 2]
    assert margin.published.all()


def test_by_names_of_every_kind():
    release = table()
    rows = release.with_margin([3, 12], by="arm", mechanism=LAW).margin("arm")
    assert rows.groups.tolist() == [0, 0, 0, 1, 1, 1]
    halves = release.with_margin([8, 7], by="half", mechanism=LAW).margin("half")
    assert halves.groups.tolist() == [0, 0, 1, 0, 0, 1]
    both = release.with_margin([[1, 2], [7, 5]], by=("arm", "half"), mechanism=LAW)
    assert both.margin(("arm", "half")).groups.tolist() == [0, 0, 1, 2, 2, 3]
    assert both.margin(("arm", "half")).label(2) == "total of arm=b, half=h1"
    grand = release.with_margin(15, by=(), mechanism=LAW).margin(())
    assert grand.groups.tolist() == [0] * 6
    assert grand.name == grand.label(0) == "grand total"


def test_edges_allow_the_grand_total():
    release = dpb.HistogramRelease([3, 4], mechanism=LAW, edges=[0, 1, 2])
    release = release.with_margin(9, by=(), mechanism=LAW)
    assert release.margin(()).values.item() == 9


def test_a_suppressed_total_is_not_a_total_that_was_not_released():
    law = Mechanism(LAW, [Suppress(below=16)])
    suppressed = shops().with_margin({"n": 17, "s": None}, by="region", mechanism=law)
    bounds = suppressed.margin("region").observations().bounds
    assert bounds.upper[1] == 15.5
    assert np.isneginf(bounds.lower[1:]).all()
    assert np.isposinf(bounds.upper[2])
    assert suppressed.margin("region").published.tolist() == [True, True, False]


def test_noise_by_group():
    scale = xr.DataArray([1.0, 2.0, 3.0], dims="region", coords={"region": ["w", "s", "n"]})
    law = dpb.Laplace(scale=scale)
    margin = shops().with_margin([17, 21, 14], by="region", mechanism=law).margin("region")
    np.testing.assert_array_equal(margin.mechanism.noise.scale, [3, 2, 1])


def test_the_release_itself_does_not_change():
    release = shops()
    extended = release.with_margin([17, 21, 14], by="region", mechanism=LAW)
    assert release.margins == ()
    assert extended != release
    assert extended.digest() != release.digest()
    other = release.with_margin([17, 21, 13], by="region", mechanism=LAW)
    assert extended != other
    assert extended.digest() != other.digest()
    wider = release.with_margin([17, 21, 14], by="region", mechanism=dpb.DiscreteLaplace(scale=4))
    assert extended.digest() != wider.digest()


def test_a_total_left_out_and_one_suppressed_are_different_releases():
    law = Mechanism(LAW, [Suppress(below=16)])
    out = shops().with_margin({"n": 17, "s": 21}, by="region", mechanism=law)
    withheld = shops().with_margin({"n": 17, "s": 21, "w": None}, by="region", mechanism=law)
    assert out != withheld
    assert out.digest() != withheld.digest()


# -- what is refused ---------------------------------------------------------------------

REFUSED = {
    "unknown by": ([1], "regoin", "did you mean 'region'"),
    "too few": ([17, 21], "region", r"one entry per group \(region: 3\)"),
    "a scalar": (17, "region", "one entry per group"),
    "a list for the grand total": ([17, 21], (), "one entry per group"),
    "an unknown group": ({"n": 1, "x": 2}, "region", "'x' is no group"),
    "other dims": (xr.DataArray([1, 2, 3], dims="shop"), "region", "have dims"),
    "a lacking group": (
        xr.DataArray([1, 2, 3], dims="region", coords={"region": ["n", "s", "x"]}),
        "region", "lack a group",
    ),
    "text": (["many", 1, 2], "region", "must be numbers"),
    "a mapping for two names": ({"n": 1}, ("region", "shop"), "no cell belongs|one name"),
    "a suppressed total without a step": ([17, None, 14], "region", "total of region=s"),
    "the same name twice": ([17, 21, 14], ("region", "region"), "no cell belongs"),
    "names that cross": (np.ones((3, 2)), ("region", "country"), "no cell belongs"),
}  # fmt: skip


@pytest.mark.parametrize(("values", "by", "match"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(values, by, match):
    with pytest.raises(ReleaseError, match=match):
        shops().with_margin(values, by=by, mechanism=LAW)


def test_an_impossible_total_names_its_group():
    with pytest.raises(ImpossibleReleaseError, match="total of region=s"):
        shops().with_margin([17, 21.5, 14], by="region", mechanism=LAW)
    with pytest.raises(ImpossibleReleaseError, match="grand total"):
        shops().with_margin(17.5, by=(), mechanism=LAW)


def test_a_cell_without_a_group_is_refused():
    coords = {"shop": ["a", "b"], "region": ("shop", ["n", None])}
    release = dpb.HistogramRelease([9, 21], mechanism=LAW, coords=coords)
    with pytest.raises(ReleaseError, match="shop=b has none"):
        release.with_margin([9], by="region", mechanism=LAW)


def test_a_margin_given_twice_is_refused():
    release = shops().with_margin([17, 21, 14], by="region", mechanism=LAW)
    with pytest.raises(ReleaseError, match="given before"):
        release.with_margin([17, 21, 14], by=("region",), mechanism=LAW)
    with pytest.raises(ReleaseError, match=r"no margin by=\('country',\); released margins"):
        release.margin("country")


def test_noise_of_another_shape_is_refused():
    law = dpb.Laplace(scale=[1.0, 2.0])
    with pytest.raises(ReleaseError, match=r"shape \(2,\)"):
        shops().with_margin([17, 21, 14], by="region", mechanism=law)


# -- frames ------------------------------------------------------------------------------

FRAME = pd.DataFrame({
    "shop": ["a", "b", "c", "d"], "region": ["n", "s", "n", "w"], "country": ["x", "y", "x", "y"],
    "n": [9, 21, 8, 14],
})  # fmt: skip


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_groups_from_columns(kind):
    frame = FRAME
    if kind == "polars":
        frame = pytest.importorskip("polars").from_pandas(FRAME)
    if kind == "pyarrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(FRAME)
    release = dpb.HistogramRelease.from_frame(
        frame, value="n", dims=["shop"], groups=["region", "country"], mechanism=LAW
    )
    assert release == shops()
    assert release.group_labels("region") == ["n", "s", "w"]


def test_groups_need_one_dim_and_their_column():
    options = {"value": "n", "mechanism": LAW}
    with pytest.raises(ReleaseError, match="one dim"):
        dpb.HistogramRelease.from_frame(
            FRAME, dims=["shop", "country"], groups=["region"], **options
        )
    with pytest.raises(ReleaseError, match="did you mean 'region'"):
        dpb.HistogramRelease.from_frame(FRAME, dims=["shop"], groups=["regoin"], **options)


# -- repeats -----------------------------------------------------------------------------


def test_repeats_need_the_same_cells_and_totals():
    release = shops(total=52)
    assert release.with_repeat(shops()).total == 52
    assert shops().with_repeat(release).total == 52
    assert len(release.with_repeat(shops()).with_repeat(shops()).repeats) == 2
    with pytest.raises(ReleaseError, match=r"totals \[52, 53\]"):
        release.with_repeat(shops(total=53))
    order = {"shop": ["b", "a", "c", "d"]}
    for other in (
        dpb.HistogramRelease([9, 21, 8, 14], mechanism=LAW, coords=order),
        dpb.HistogramRelease([9, 21, 8], mechanism=LAW),
    ):
        with pytest.raises(ReleaseError, match="same cells in the same order"):
            release.with_repeat(other)
    with pytest.raises(ReleaseError, match="two HistogramRelease"):
        release.with_repeat([9, 21, 8, 14])


# -- arithmetic --------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(0, 2**32 - 1))
def test_sums_of_groups(codes, seed):
    groups = np.unique(codes, return_inverse=True)[1]
    counts = np.random.default_rng(seed).integers(0, 100, (3, groups.size))
    size = int(groups.max()) + 1
    expected = np.stack([counts[:, groups == g].sum(axis=1) for g in range(size)], axis=1)
    np.testing.assert_array_equal(group_sums(groups, size, counts), expected)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=12))
def test_nesting(pairs):
    fine, coarse = (np.array(column) for column in zip(*pairs, strict=True))
    expected = all(len(set(coarse[fine == f])) == 1 for f in set(fine))
    assert is_nested(fine, coarse) == expected


# -- what fits say of them ---------------------------------------------------------------


@pytest.mark.parametrize("prior", [dpb.Dirichlet(rate=0.1), dpb.ScaleMixture()])
def test_levels_add_up_in_every_draw(prior):
    release = shops().with_margin([17, 21, 14], by="region", mechanism=LAW)
    release = release.with_margin({"x": 18}, by="country", mechanism=dpb.NoNoise())
    release = release.with_margin(50, by=(), mechanism=LAW)
    # Regions lie within countries: n in x, s and w in y.
    posterior = dpb.fit(release, prior, draws=100, chains=2, random_seed=1, progressbar=False)
    count = posterior.count
    regions, countries = posterior.margin("region"), posterior.margin("country")
    np.testing.assert_array_equal(
        regions.sel(region="n"), count.sel(shop="a") + count.sel(shop="c")
    )
    np.testing.assert_array_equal(regions.sel(region="w"), count.sel(shop="d"))
    np.testing.assert_array_equal(countries.sel(country="x"), regions.sel(region="n"))
    np.testing.assert_array_equal(regions.sum("region"), posterior.total)
    np.testing.assert_array_equal(posterior.margin(()), posterior.total)
    assert np.all(countries.sel(country="x") == 18)
    table = posterior.summary()
    assert table.loc["count[region=n]", "naive"] == 17
    assert table.loc["count[region=n]", "mean"] == pytest.approx(18.0)
    assert table.loc["count[country=x]", "sd"] == 0
    assert np.isnan(table.loc["count[country=y]", "naive"])


# -- a list of releases of the same data -------------------------------------------------


def test_a_list_of_releases_is_one_release_with_repeats():
    first = shops(total=52).with_margin([17, 21, 14], by="region", mechanism=LAW)
    other = dpb.HistogramRelease([12, 18, 9, 13], mechanism=dpb.Gaussian(sd=5), coords=COORDS)
    options = {"draws": 100, "random_seed": 3, "progressbar": False}
    prior = dpb.Dirichlet()
    listed = dpb.fit([first, other, other], prior, shared="data", **options)
    assert listed.release == first.with_repeat(other).with_repeat(other)
    assert listed == dpb.fit(first.with_repeat(other).with_repeat(other), prior, **options)
    alone = dpb.fit([first], prior, shared="data", **options)
    assert alone == dpb.fit(first, prior, **options)
    # Four measurements of a cell leave less doubt than one.
    assert listed.count.std(("chain", "draw")).sum() < alone.count.std(("chain", "draw")).sum()


def test_lists_that_cannot_be_combined():
    with pytest.raises(ReleaseError, match=r"totals \[52, 53\]"):
        dpb.fit([shops(total=52), shops(total=53)], shared="data")
    with pytest.raises(ReleaseError, match="same cells in the same order"):
        dpb.fit([shops(), dpb.HistogramRelease([1, 2], mechanism=LAW)], shared="data")
    with pytest.raises(ParameterError, match="needs a list of releases"):
        dpb.fit(shops(), shared="data")
    with pytest.raises(ParameterError, match="at least one release"):
        dpb.fit([], shared="data")
    with pytest.raises(ParameterError, match="got shared=None"):
        dpb.fit([shops(), shops()])
    with pytest.raises(ReleaseError, match="two HistogramRelease"):
        dpb.fit([shops(), 3], shared="data")
