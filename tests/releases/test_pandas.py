"""Series and tables as values: the index labels the cells."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dpbayes as dpb
from dpbayes.errors import ReleaseError

LAW = dpb.DiscreteLaplace(scale=10)


def release(values, **keywords):
    return dpb.HistogramRelease(values, mechanism=LAW, **keywords)


def test_series_takes_its_index():
    named = release(pd.Series([1, 2], index=pd.Index(["a", "b"], name="shop")))
    assert named == release([1, 2], coords={"shop": ["a", "b"]})
    assert release(pd.Series([1, 2], index=["a", "b"])).dims == ("cell",)
    assert release(pd.Series([1, 2])) == release([1, 2])
    assert release(pl.Series([1, 2])) == release([1, 2])


def test_missing_value_of_a_nullable_series():
    law = dpb.Mechanism(LAW, [dpb.Suppress(below=3)])
    series = pd.Series([5, pd.NA], dtype="Int64", index=["a", "b"])
    got = dpb.HistogramRelease(series, mechanism=law)
    np.testing.assert_array_equal(got.values.values, [5, np.nan])


def test_table_with_named_axes():
    frame = pd.DataFrame({"x": [1, 2], "y": [3, 4]}, index=["a", "b"])
    got = release(frame.rename_axis(index="shop", columns="day"))
    assert got == release([[1, 3], [2, 4]], coords={"shop": ["a", "b"], "day": ["x", "y"]})
    assert release(frame, coords={"shop": ["a", "b"], "day": ["x", "y"]}) == got


def test_edges_of_a_series():
    series = pd.Series([1, 2], index=["low", "high"])
    assert release(series, edges=[0, 1, 2]) == release([1, 2], edges=[0, 1, 2])


@pytest.mark.parametrize(
    ("values", "keywords", "words"),
    [
        (pd.DataFrame({"shop": ["a"], "n": [1]}), {}, "from_frame"),
        (pl.DataFrame({"shop": ["a"], "n": [1]}), {}, "from_frame"),
        (pd.Series([1, 2], index=["a", "a"]), {}, "'a' twice"),
        (pd.Series([1, 2], index=["a", None]), {}, "a missing label"),
        (
            pd.Series([1, 2], index=pd.MultiIndex.from_tuples([(1, 2), (1, 3)])),
            {},
            r"reset_index\(\)",
        ),
        (
            pd.Series([1, 2], index=["a", "b"]),
            {"coords": {"shop": ["b", "a"]}},
            "in its order, or be left out",
        ),
        (pd.Series([True, False]), {}, "values must be numbers"),
        (pd.Series(["1", "2"]), {}, "values must be numbers"),
    ],
    ids=lambda p: str(p)[:12] if isinstance(p, str) else "",
)
def test_refused(values, keywords, words):
    with pytest.raises(ReleaseError, match=words):
        release(values, **keywords)


@pytest.mark.parametrize(
    ("values", "coords", "words"),
    [
        ([1, 2], {"m": ["a", None]}, "labels of 'm' must not be missing, got None"),
        ([1, 2], {"m": ["a", float("nan")]}, "must not be missing, got nan"),
        ([1, 2, 3], {"m": "abc"}, r"coords\['m'\] must be a list of labels, got 'abc'"),
        ([1, 2, 3], {"m": 3}, r"coords\['m'\] must be a list of labels, got 3"),
        ([1, 2], [["a", "b"]], "coords must map names of dims to their labels"),
        ([1 + 2j, 3], None, r"values must be numbers .* got \(1\+2j\)"),
        (np.array([1 + 2j, 3]), None, r"values must be numbers .* got \(1\+2j\)"),
    ],
)
def test_labels_and_numbers(values, coords, words):
    with pytest.raises(ReleaseError, match=words):
        release(values, coords=coords)


def test_a_pair_of_labels_is_no_grouping():
    assert release([1, 2], coords={"m": ("a", "b")}) == release([1, 2], coords={"m": ["a", "b"]})


@pytest.mark.parametrize("value", ["3", True, 1j])
def test_totals_of_groups_are_numbers(value):
    table = release([1, 2], coords={"m": ["a", "b"]})
    with pytest.raises(ReleaseError, match="totals must be numbers"):
        table.with_margin(value, by=(), mechanism=LAW)
