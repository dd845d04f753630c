import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpbayes.errors import ReleaseError
from dpbayes.releases.frames import as_frame, edges_from_columns, labels, numbers

KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_columns_of_any_frame(kind):
    frame = as_frame(
        kind({"a": [1, None, 3], "b": [1.5, float("nan"), 2.0], "c": ["1", " 2.5 ", ""]})
    )
    for name, expected in (("a", [1, np.nan, 3]), ("b", [1.5, np.nan, 2]), ("c", [1, 2.5, np.nan])):
        column = numbers(frame, name, "value")
        assert column.dtype == float
        np.testing.assert_array_equal(column, expected)
    assert labels(frame, "c", "dims[0]") == ["1", " 2.5 ", ""]
    with pytest.raises(ReleaseError, match=r"dims\[0\]: column 'a' has no label in row 2"):
        labels(frame, "a", "dims[0]")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_text_among_numbers_is_named_with_its_row(kind):
    column = [str(i) for i in range(1, 21)]
    column[16] = "n/a"
    with pytest.raises(ReleaseError, match="column 'z' must hold numbers, got 'n/a' in row 17"):
        numbers(as_frame(kind({"z": column})), "z", "spend")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_missing_column_names_the_nearest(kind):
    frame = as_frame(kind({"noisy_buyers": [1], "month": [2]}))
    with pytest.raises(ReleaseError, match=r"value: no column 'noisy_buyer' \(did you mean 'noisy_buyers'\?\); columns: noisy_buyers, month"):  # fmt: skip  # noqa: E501
        numbers(frame, "noisy_buyer", "value")
    with pytest.raises(ReleaseError, match="no column 'zzz'; columns"):
        labels(frame, "zzz", "dims[0]")


def test_whole_numbers_beyond_floats_of_nullable_types():
    frame = as_frame(pd.DataFrame({"n": pd.array([1, None, 2**53], dtype="Int64")}))
    np.testing.assert_array_equal(numbers(frame, "n", "value"), [1, np.nan, 2.0**53])


@pytest.mark.parametrize("thing", [[1, 2], {"a": [1]}, None, np.zeros((2, 2))])
def test_what_is_not_a_frame(thing):
    with pytest.raises(ReleaseError, match=rf"expected a data frame .* got {type(thing).__name__}"):
        as_frame(thing)


def test_edges_of_adjoining_bins():
    frame = as_frame(pd.DataFrame({"lo": [0, 1, 2.5], "hi": [1, 2.5, 9]}))
    assert edges_from_columns(frame, ("lo", "hi")).tolist() == [0, 1, 2.5, 9]
    for columns in ("lo", ["lo"], ["lo", "hi", "lo"]):
        with pytest.raises(ReleaseError, match="edges must name two columns"):
            edges_from_columns(frame, columns)
    missing = as_frame(pd.DataFrame({"lo": [0, None], "hi": [1, 2]}))
    with pytest.raises(ReleaseError, match="row 1 ends at 1 and row 2 starts at nan"):
        edges_from_columns(missing, ("lo", "hi"))
