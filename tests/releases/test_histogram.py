"""Released histograms: labels, parameters by cell, data frames, and refusal of bad input."""

import dataclasses
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

from dpbayes.errors import ImpossibleReleaseError, ParameterError, ReleaseError, UnsupportedError
from dpbayes.mechanism import Clamp, Mechanism, Rescale, Round, Suppress
from dpbayes.noise import CustomNoise, DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpbayes.releases import HistogramRelease

LAW = DiscreteLaplace(scale=10)
HIDING = Mechanism(LAW, [Suppress(below=5)])


def test_numeric_edges_name_the_bins():
    release = HistogramRelease([12, -3, 40], mechanism=LAW, edges=[0, 10, 20.5, 30], total=50)
    assert release.dims == ("bin",)
    assert release.values.coords["bin"].values.tolist() == ["[0, 10)", "[10, 20.5)", "[20.5, 30]"]
    assert release.values.coords["lower"].values.tolist() == [0, 10, 20.5]
    assert release.values.coords["upper"].values.tolist() == [10, 20.5, 30]
    assert release.label(1) == "cell [10, 20.5)"
    assert release.total == 50
    assert isinstance(release.total, int)
    assert "public total 50" in repr(release)


def test_labels_of_a_table():
    release = HistogramRelease(
        [[1, 2, 3], [4, 5, 6]], mechanism=LAW, coords={"shop": ["a", "b"], "month": [1, 2, 3]}
    )
    assert release.dims == ("shop", "month")
    assert release.label(5) == "cell b, 3"
    assert release.short_label(2) == "a, 3"
    assert release.size == 6
    assert "unknown total" in repr(release)


def test_labels_that_group_a_dim():
    release = HistogramRelease(
        [1, 2, 3],
        mechanism=LAW,
        coords={"shop": ["a", "b", "c"], "region": ("shop", ["north", "north", "south"])},
    )
    assert release.dims == ("shop",)
    assert release.values.coords["region"].values.tolist() == ["north", "north", "south"]


def test_cells_without_labels_are_numbered():
    release = HistogramRelease([1, 2], mechanism=LAW)
    assert release.dims == ("cell",)
    assert release.label(1) == "cell 1"


def test_a_data_array_keeps_its_labels():
    array = xr.DataArray([[1, 2]], dims=("x", "y"), coords={"x": ["u"], "y": ["v", "w"]})
    release = HistogramRelease(array, mechanism=LAW)
    assert release.values.dims == ("x", "y")
    assert release.label(1) == "cell u, w"
    array[0, 0] = 99
    assert release.values.values[0, 0] == 1


def test_none_and_nan_are_suppressed():
    release = HistogramRelease([None, 7, np.nan], mechanism=HIDING)
    assert np.isnan(release.values).values.tolist() == [True, False, True]
    bounds = release.observations().bounds
    np.testing.assert_array_equal(bounds.lower, [-np.inf, 7, -np.inf])
    np.testing.assert_array_equal(bounds.upper, [4.5, 7, 4.5])


def test_observations_are_flattened_in_c_order():
    release = HistogramRelease(
        [[1, 2, 3], [0, 5, 6]],
        mechanism=Mechanism(DiscreteLaplace(scale=[[1], [9]]), [Clamp(lower=0)]),
        coords={"a": [1, 2], "b": [1, 2, 3]},
    )
    seen = release.observations()
    np.testing.assert_array_equal(seen.bounds.upper, [1, 2, 3, 0.5, 5, 6])
    assert seen.bounds.lower[3] == -np.inf
    np.testing.assert_array_equal(seen.noise.scale, [1, 1, 1, 9, 9, 9])
    assert (seen.size, seen.step) == (6, 1.0)


# -- a noise parameter per cell --------------------------------------------------------


def table(scale):
    return HistogramRelease(
        [[1, 2, 3], [4, 5, 6]],
        mechanism=DiscreteLaplace(scale=scale),
        coords={"shop": ["a", "b"], "month": [1, 2, 3]},
    )


def test_a_scale_as_an_array_broadcasts():
    for scale in ([1, 2, 3], [[1, 2, 3]], [[1, 2, 3], [1, 2, 3]]):
        np.testing.assert_array_equal(table(scale).mechanism.noise.scale, [[1, 2, 3]] * 2)
    assert table([1, 2, 3]) == table([[1, 2, 3], [1, 2, 3]])


def test_a_scale_over_one_dim_is_matched_by_label():
    by_shop = xr.DataArray([20.0, 10.0], dims="shop", coords={"shop": ["b", "a"]})
    np.testing.assert_array_equal(table(by_shop).mechanism.noise.scale, [[10] * 3, [20] * 3])
    by_month = xr.DataArray([3, 1, 2, 7], dims="month", coords={"month": [3, 1, 2, 9]})
    np.testing.assert_array_equal(table(by_month).mechanism.noise.scale, [[1, 2, 3]] * 2)
    turned = xr.DataArray(
        [[1.0, 4], [2, 5], [3, 6]],
        dims=("month", "shop"),
        coords={"shop": ["a", "b"], "month": [1, 2, 3]},
    )
    np.testing.assert_array_equal(table(turned).mechanism.noise.scale, [[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ([1, 2], r"parameter of the noise has shape \(2,\), the released values have \(2, 3\)"),
        (
            xr.DataArray([1.0, 2], dims="region"),
            r"dims \('region',\), the release has \('shop', 'month'\)",
        ),
        (
            xr.DataArray([1.0, 2], dims="month", coords={"month": [1, 2]}),
            "lacks some labels of the release",
        ),
        (xr.DataArray([1.0, 2], dims="month"), "parameter of the noise"),
        (
            xr.DataArray([1.0, 2, 3, 4], dims="month", coords={"month": [1, 2, 2, 3]}),
            "parameter of the noise",
        ),
    ],
)
def test_parameters_that_do_not_fit(scale, message):
    with pytest.raises(ReleaseError, match=message):
        table(scale)


def test_other_laws_take_a_parameter_per_cell():
    for law in (Gaussian(sd=[1, 2]), DiscreteGaussian(sigma=[1, 2]), Laplace(scale=[1, 2])):
        release = HistogramRelease([3, 4], mechanism=law)
        np.testing.assert_array_equal(release.observations().noise.scale, [1, 2])


# -- bad input -------------------------------------------------------------------------

BAD = {
    "nothing": (dict(values=[]), ReleaseError, "values must hold at least one cell"),
    "a number": (
        dict(values=3.0),
        ReleaseError,
        r"values must hold at least one cell, got shape \(\)",
    ),
    "number as text": (dict(values=[1, "2"]), ReleaseError, "values must be numbers.*'2'"),
    "boolean": (dict(values=[1, True]), ReleaseError, "values must be numbers.*True"),
    "text": (dict(values=[1, "many"]), ReleaseError, "values must be numbers.*many"),
    "missing, nothing withheld": (
        dict(values=[1, None], edges=[0, 1, 2]),
        ImpossibleReleaseError,
        r"cell \[1, 2\] is missing, but the mechanism withholds nothing: add a Suppress\(below=",
    ),
    "infinite": (
        dict(values=[1, np.inf]),
        ImpossibleReleaseError,
        "cell 1: inf is infinite; releases are finite",
    ),
    "off the lattice": (
        dict(values=[1, 2.5]),
        ImpossibleReleaseError,
        "cell 1: 2.5 cannot come from a whole count plus noise on multiples of 1; state the",
    ),
    "below the clamp": (
        dict(
            values=[[1, 2], [-3, 4]],
            mechanism=Mechanism(LAW, [Clamp(lower=0)]),
            coords={"shop": ["a", "b"], "month": ["jan", "feb"]},
        ),
        ImpossibleReleaseError,
        "cell b, jan: -3 cannot have been published: values were raised to 0",
    ),
    "above the clamp": (
        dict(values=[11], mechanism=Mechanism(LAW, [Clamp(upper=10)])),
        ImpossibleReleaseError,
        "cell 0: 11 cannot have been published: values were lowered to 10",
    ),
    "below the threshold": (
        dict(values=[4, 9], mechanism=HIDING),
        ImpossibleReleaseError,
        "cell 0: 4 cannot have been published: values were withheld where below 5",
    ),
    "not rounded": (
        dict(values=[10, 12], mechanism=Mechanism(Laplace(scale=1), [Round(step=5)])),
        ImpossibleReleaseError,
        "cell 1: 12 cannot have been published: values were rounded",
    ),
    "edges that fall": (
        dict(edges=[0, 20, 10]),
        ReleaseError,
        "edges must increase, got 20 then 10 at positions 1, 2",
    ),
    "edges that repeat": (
        dict(edges=[0, 10, 10]),
        ReleaseError,
        "edges must increase, got 10 then 10 at positions 1, 2",
    ),
    "too few edges": (
        dict(edges=[0, 1]),
        ReleaseError,
        r"edges must have one more entry than values \(3\), got 2",
    ),
    "edges without end": (
        dict(edges=[0, 1, np.inf]),
        ReleaseError,
        "edges must be finite, got inf",
    ),
    "edges not numbers": (
        dict(edges=[0, 1, "2+"]),
        ReleaseError,
        r"edges must be numbers, got .*2\+",
    ),
    "edges of a table": (
        dict(values=[[1, 2]], edges=[0, 1, 2]),
        ReleaseError,
        "edges belong to a one-dimensional histogram",
    ),
    "edges and labels": (
        dict(edges=[0, 1, 2], coords={"a": [1, 2]}),
        ReleaseError,
        "give edges .* or coords .*, not both",
    ),
    "a table without names": (
        dict(values=[[1, 2]]),
        ReleaseError,
        r"values of shape \(1, 2\) need coords that name their axes",
    ),
    "labels of another shape": (
        dict(coords={"a": [1, 2, 3]}),
        ReleaseError,
        r"coords describe a table of shape \(a: 3\), values have \(2,\)",
    ),
    "a label twice": (
        dict(coords={"month": ["jan", "jan"]}),
        ReleaseError,
        "labels of 'month' must be distinct, got 'jan' twice",
    ),
    "groups of nothing": (
        dict(coords={"shop": ["a", "b"], "region": ("store", ["n", "s"])}),
        ReleaseError,
        r"coords\['region'\] must group the labels of one dim",
    ),
    "a negative total": (
        dict(total=-5),
        ReleaseError,
        "total must be a whole number of records, 0 or more, got -5",
    ),
    "a fractional total": (
        dict(total=10.5),
        ReleaseError,
        "total must be a whole number .* got 10.5",
    ),
    "an infinite total": (
        dict(total=np.inf),
        ReleaseError,
        "total must be a whole number .* got inf",
    ),
    "total true": (
        dict(total=True),
        ReleaseError,
        "total must be a whole number of records or None, got True",
    ),
    "total text": (
        dict(total="many"),
        ReleaseError,
        "total must be a whole number of records or None, got 'many'",
    ),
    "two totals": (
        dict(total=[1, 2]),
        ReleaseError,
        "total must be a whole number of records or None",
    ),
    "a bare number as mechanism": (
        dict(mechanism=10.0),
        ParameterError,
        "mechanism must be a Mechanism or a noise law .*got 10.0",
    ),
    "an unknown attribute": (
        dict(attrs={"tilte": "x"}),
        ReleaseError,
        r"unknown attribute 'tilte' \(did you mean 'title'\?\)",
    ),
}


@pytest.mark.parametrize(("arguments", "error", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_at_construction(arguments, error, message):
    options = {"values": [1, 2], "mechanism": LAW, **arguments}
    with pytest.raises(error, match=message):
        HistogramRelease(options.pop("values"), **options)


@pytest.mark.parametrize("step", [5, 3])
def test_noise_that_leaves_holes_between_counts_is_refused(step):
    with pytest.raises(UnsupportedError, match=f"multiples of {step} does not reach all whole"):
        HistogramRelease([1, 2], mechanism=DiscreteLaplace(scale=1, step=step))


def test_options_are_given_by_name():
    with pytest.raises(TypeError):
        HistogramRelease([1, 2], LAW)


def test_totals_may_be_numpy_numbers_or_whole_floats():
    for total in (7, 7.0, np.int32(7), np.float64(7)):
        release = HistogramRelease([1, 2], mechanism=LAW, total=total)
        assert release.total == 7
        assert isinstance(release.total, int)


# -- data frames -----------------------------------------------------------------------

ROWS = {
    "shop": ["a", "a", "b"],
    "month": [1, 2, 2],
    "noisy": [10, None, -3],
}
FRAMES = {
    "pandas": lambda rows: pd.DataFrame(rows),
    "polars": lambda rows: pl.DataFrame(rows),
    "polars, lazy": lambda rows: pl.LazyFrame(rows),
    "pyarrow": lambda rows: pa.table(rows),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_from_frames_of_any_kind(make):
    release = HistogramRelease.from_frame(
        make(ROWS), value="noisy", dims=["shop", "month"], mechanism=Mechanism(LAW, [Suppress(-5)])
    )
    np.testing.assert_array_equal(release.values, [[10, np.nan], [np.nan, -3]])
    assert release.values.coords["shop"].values.tolist() == ["a", "b"]
    assert release.values.coords["month"].values.tolist() == [1, 2]


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_edges_from_two_columns(make):
    rows = {"from": [0, 10, 25], "to": [10, 25, 50], "n": [5, 6, 7]}
    release = HistogramRelease.from_frame(
        make(rows), value="n", edges=["from", "to"], mechanism=LAW, total=18
    )
    assert release.edges.tolist() == [0, 10, 25, 50]
    assert release == HistogramRelease([5, 6, 7], mechanism=LAW, edges=[0, 10, 25, 50], total=18)
    rows["from"][2] = 26
    with pytest.raises(
        ReleaseError, match=r"bins must adjoin .* row 2 ends at 25 and row 3 starts at 26"
    ):
        HistogramRelease.from_frame(make(rows), value="n", edges=["from", "to"], mechanism=LAW)


def from_rows(rows, dims=("shop", "month"), **options):
    options = {"value": "noisy", "mechanism": HIDING, **options}
    return HistogramRelease.from_frame(pd.DataFrame(rows), dims=list(dims), **options)


def test_a_declared_domain_fills_gaps_and_sets_the_order():
    release = from_rows(
        {"month": [3, 1], "noisy": [8, 9]}, dims=["month"], coords={"month": [1, 2, 3, 4]}
    )
    np.testing.assert_array_equal(release.values, [9, np.nan, 8, np.nan])
    with pytest.raises(ImpossibleReleaseError, match="cell 2 is missing"):
        from_rows(
            {"month": [3, 1], "noisy": [8, 9]},
            dims=["month"],
            coords={"month": [1, 2, 3]},
            mechanism=LAW,
        )


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            ROWS,
            {"value": "nosy"},
            r"value: no column 'nosy' \(did you mean 'noisy'\?\); columns: shop, month, noisy",
        ),
        (
            ROWS,
            {"dims": ["shop", "mnth"]},
            r"dims\[1\]: no column 'mnth' \(did you mean 'month'\?\)",
        ),
        (
            {**ROWS, "noisy": [1, "x", 3]},
            {},
            "value: column 'noisy' must hold numbers, got 'x' in row 2",
        ),
        ({**ROWS, "shop": ["a", None, "b"]}, {}, r"dims\[0\]: column 'shop' has no label in row 2"),
        (
            {**ROWS, "month": [1, 1, 2], "noisy": [7, 8, 9]},
            {},
            "rows 1 and 2 both describe the cell shop=a, month=1",
        ),
        (ROWS, {"coords": {"month": [1]}}, "row 2: 2 is not in the declared domain of 'month'"),
        (
            ROWS,
            {"coords": {"mnth": [1, 2]}},
            r"coords: 'mnth' is none of the dims \(did you mean 'month'\?\)",
        ),
        ({k: [] for k in ROWS}, {}, "the data frame has no rows"),
        (ROWS, {"dims": ["shop", "shop"]}, "dims must name distinct columns"),
        (ROWS, {"dims": []}, "dims must name distinct columns"),
    ],
)
def test_bad_frames(rows, options, message):
    with pytest.raises(ReleaseError, match=message):
        from_rows(rows, **options)


def test_frames_need_labels_or_edges():
    frame = pd.DataFrame({"a": [1], "b": [2], "n": [3]})
    for options in ({}, {"dims": ["a"], "edges": ["a", "b"]}):
        with pytest.raises(ReleaseError, match=r"give dims .* or edges"):
            HistogramRelease.from_frame(frame, value="n", mechanism=LAW, **options)
    with pytest.raises(ReleaseError, match=r"edges must name two columns .* got 'a'"):
        HistogramRelease.from_frame(frame, value="n", mechanism=LAW, edges="a")
    with pytest.raises(ReleaseError, match=r"expected a data frame .* got dict"):
        HistogramRelease.from_frame({"n": [1]}, value="n", dims="n", mechanism=LAW)


# -- identity --------------------------------------------------------------------------


def variants():
    base = {"values": [12, 3, 40], "mechanism": LAW, "edges": [0, 1, 2, 3], "total": 60}
    changes = [
        {},
        {"values": [12, 3, 41]},
        {"values": [3, 12, 40]},
        {"total": 61},
        {"total": None},
        {"edges": [0, 1, 2, 4]},
        {"edges": None},
        {"edges": None, "coords": {"cell": ["a", "b", "c"]}},
        {"edges": None, "coords": {"month": ["a", "b", "c"]}},
        {"mechanism": DiscreteLaplace(scale=11)},
        {"mechanism": DiscreteLaplace(scale=[10, 10, 11])},
        {"mechanism": Laplace(scale=10)},
        {"mechanism": DiscreteGaussian(sigma=10)},
        {"mechanism": Mechanism(LAW, [Clamp(lower=0)])},
        {"mechanism": Mechanism(LAW, [Clamp(lower=1)])},
        {"mechanism": Mechanism(LAW, [Suppress(below=1), Clamp(lower=0)])},
        {"mechanism": Mechanism(LAW, [Clamp(lower=0), Suppress(below=1)])},
        {"mechanism": Mechanism(LAW, [Rescale(1.0)])},
        {"mechanism": CustomNoise(logpdf=np.abs, sd=10.0)},
    ]
    for change in changes:
        options = {**base, **change}
        yield HistogramRelease(options.pop("values"), **options)


def test_releases_that_differ_have_their_own_digest():
    releases, again = list(variants()), list(variants())
    for i, a in enumerate(releases):
        assert [a == b for b in again] == [i == j for j in range(len(again))]
        assert a.digest() == again[i].digest()
    assert len({r.digest() for r in releases}) == len(releases)


def test_the_digest_is_the_same_in_another_process():
    release = HistogramRelease([12, 3], mechanism=Mechanism(LAW, [Clamp(0)]), total=15)
    # Kept as a number: a change means that seeds no longer repeat old results.
    assert pickle.loads(pickle.dumps(release)).digest() == release.digest()
    assert release.digest() == 7755636532544445963


def test_releases_are_frozen_and_unhashable():
    release = HistogramRelease([12, 3], mechanism=LAW)
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.total = 5
    with pytest.raises(TypeError, match="unhashable"):
        hash(release)
    assert release != 3


def test_free_text_is_kept():
    release = HistogramRelease([1], mechanism=LAW, attrs={"title": "T", "epsilon": 0.1})
    assert release.attrs == {"title": "T", "epsilon": 0.1}
    assert re.match(r"<HistogramRelease \(cell: 1\), unknown total", repr(release))


@pytest.mark.parametrize("value", [2.0**53 + 2, -1e18, 1e300])
def test_counts_that_floating_point_does_not_hold_are_refused(value):
    law = DiscreteLaplace(scale=10)
    with pytest.raises(ReleaseError, match=r"cell b: .* is beyond 2\*\*53 .* check the value"):
        HistogramRelease([1, value], mechanism=law, coords={"m": ["a", "b"]})
    HistogramRelease([1, 2.0**53], mechanism=law)
