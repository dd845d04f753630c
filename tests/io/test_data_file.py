"""Parquet files, with and without the packages that read them."""

import sys

import numpy as np
import pandas as pd
import pytest

from dpbayes.errors import ReleaseFileError
from dpbayes.io.data_file import DataFile

FRAME = pd.DataFrame({"month": ["b", "a", "c"], "buyers": [5, None, -3], "text": ["1", "x", ""]})


@pytest.fixture
def parquet(tmp_path):
    FRAME.to_parquet(tmp_path / "data.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    return tmp_path


def read(folder, name="data.parquet", column="buyers"):
    data = DataFile.beside(folder / "release.toml", name)
    return data.read({column: "release.value"}, {"month": "release.dims[0]"})


def without(monkeypatch, *packages):
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("absent", [(), ("pyarrow.parquet",)], ids=["pyarrow", "polars"])
def test_parquet(parquet, monkeypatch, absent):
    without(monkeypatch, *absent)
    frame = read(parquet)
    np.testing.assert_array_equal(frame["buyers"], [5, np.nan, -3])
    assert list(frame["month"]) == ["b", "a", "c"]


@pytest.mark.parametrize("absent", [(), ("pyarrow.parquet",)], ids=["pyarrow", "polars"])
def test_what_is_wrong_with_a_parquet_file(parquet, monkeypatch, absent):
    without(monkeypatch, *absent)
    with pytest.raises(ReleaseFileError, match=r"release\.value: no column 'buyer'.*'buyers'"):
        read(parquet, column="buyer")
    with pytest.raises(ReleaseFileError, match=r"'x' in row 2 of 'data\.parquet'"):
        read(parquet, column="text")
    with pytest.raises(ReleaseFileError, match=r"release\.file: cannot read .* as Parquet"):
        read(parquet, "broken.parquet")


def test_parquet_without_a_reader_names_the_packages(parquet, monkeypatch):
    without(monkeypatch, "pyarrow.parquet", "polars")
    with pytest.raises(ReleaseFileError, match="needs the package pyarrow or polars"):
        read(parquet)


def test_booleans_are_no_counts(tmp_path):
    pd.DataFrame({"month": ["a"], "buyers": [True]}).to_parquet(tmp_path / "data.parquet")
    with pytest.raises(ReleaseFileError, match="must hold numbers, got booleans"):
        read(tmp_path)
