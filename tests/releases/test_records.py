import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpbayes.errors import ImpossibleReleaseError, ParameterError, ReleaseError, UnsupportedError
from dpbayes.mechanism import Clamp, Mechanism, Round, Suppress
from dpbayes.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, NoNoise
from dpbayes.releases import RecordRelease

LAW = Laplace(scale=2.0)


def records(values=(1.0, -3.5, 12.0), mechanism=LAW, bounds=(0, 10), **options):
    return RecordRelease(values, mechanism=mechanism, bounds=bounds, **options)


def test_what_a_release_holds():
    release = records(attrs={"unit": "EUR"})
    assert release.size == 3
    assert release.bounds == (0.0, 10.0)
    assert release.support == "continuous"
    assert release.mechanism == Mechanism(LAW)
    assert release.attrs == {"unit": "EUR"}
    assert "3 records in [0, 10], continuous" in repr(release)
    assert release.label(16) == "record in row 17"
    with pytest.raises(ValueError, match="read-only"):
        release.values[0] = 3.0


def test_the_given_array_is_copied():
    values = np.array([1.0, 2.0])
    release = records(values)
    values[0] = 99
    assert release.values[0] == 1.0


SEVENTEEN = [1.0] * 16
BAD = {
    "reversed bounds": (
        dict(bounds=(10, 0)),
        ReleaseError,
        r"bounds must be \(lo, hi\) with lo < hi, got \(10, 0\)",
    ),
    "equal bounds": (dict(bounds=(1, 1)), ReleaseError, "lo < hi"),
    "infinite bounds": (
        dict(bounds=(0, np.inf)),
        ReleaseError,
        r"bounds must be finite, got \(0.0, inf\)",
    ),
    "one bound": (dict(bounds=5), ReleaseError, "bounds must be a pair .* got 5"),
    "three bounds": (dict(bounds=(1, 2, 3)), ReleaseError, "bounds must be a pair"),
    "no record": (dict(values=[]), ReleaseError, "at least one record, got none"),
    "a table": (dict(values=[[1.0, 2.0]]), ReleaseError, r"one-dimensional, got shape \(1, 2\)"),
    "missing": (
        dict(values=[*SEVENTEEN, np.nan]),
        ImpossibleReleaseError,
        "record in row 17 is missing, but the mechanism withholds nothing: add a Suppress",
    ),
    "infinite": (
        dict(values=[*SEVENTEEN, -np.inf]),
        ImpossibleReleaseError,
        "record in row 17: -inf is infinite",
    ),
    "text": (
        dict(values=[*SEVENTEEN, "x"]),
        ReleaseError,
        "values must be numbers, one per record.*'x' in row 17",
    ),
    "outside the clamp": (
        dict(mechanism=Mechanism(LAW, [Clamp(lower=0)])),
        ImpossibleReleaseError,
        "record in row 2: -3.5 cannot have been published: values were raised to 0",
    ),
    "not rounded": (
        dict(mechanism=Mechanism(LAW, [Round()])),
        ImpossibleReleaseError,
        "record in row 2: -3.5 cannot .* rounded",
    ),
    "off the lattice": (
        dict(mechanism=DiscreteLaplace(scale=2), support="integers"),
        ImpossibleReleaseError,
        "record in row 2: -3.5 cannot come from a whole count plus noise on multiples of 1",
    ),
    "integers and continuous records": (
        dict(values=[1, 2], mechanism=DiscreteLaplace(scale=2)),
        ReleaseError,
        'noise on the lattice of DiscreteLaplace needs support="integers"',
    ),
    "fractional bounds of integers": (
        dict(bounds=(0, 9.5), support="integers"),
        ReleaseError,
        r"must be whole numbers, got \(0, 9.5\)",
    ),
    "unknown support": (
        dict(support="discrete"),
        ReleaseError,
        "support must be 'continuous' or 'integers', got 'discrete'",
    ),
    "no noise": (dict(mechanism=NoNoise()), ReleaseError, "mechanism is NoNoise"),
    "a bare number": (
        dict(mechanism=2.0),
        ParameterError,
        "mechanism must be a Mechanism .* got 2.0",
    ),
    "a scale per record": (
        dict(mechanism=Laplace(scale=[1, 2, 3])),
        UnsupportedError,
        "a noise scale of their own each",
    ),
    "scales of another number": (
        dict(mechanism=Laplace(scale=[1, 2])),
        ReleaseError,
        r"shape \(2,\), the records \(3,\)",
    ),
    "an unknown attribute": (
        dict(attrs={"unti": "EUR"}),
        ReleaseError,
        r"'unti' \(did you mean 'unit'\?\)",
    ),
}


@pytest.mark.parametrize(("arguments", "error", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_at_construction(arguments, error, message):
    with pytest.raises(error, match=message):
        records(**arguments)


def test_suppressed_records_need_the_step():
    release = records([1.0, np.nan, 9.0], Mechanism(LAW, [Suppress(below=0)]))
    assert np.isnan(release.values).tolist() == [False, True, False]


def test_integer_records():
    for law in (DiscreteLaplace(scale=2), DiscreteGaussian(sigma=2), Gaussian(sd=2)):
        assert records([1, -4, 3], law, support="integers").support == "integers"


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_from_frame(make):
    frame = make({"z": [1.0, -3.5, 12.0], "other": ["a", "b", "c"]})
    assert RecordRelease.from_frame(frame, column="z", mechanism=LAW, bounds=(0, 10)) == records()
    with pytest.raises(ReleaseError, match="column: no column 'zz'"):
        RecordRelease.from_frame(frame, column="zz", mechanism=LAW, bounds=(0, 10))
    with pytest.raises(ReleaseError, match="column 'other' must hold numbers, got 'a' in row 1"):
        RecordRelease.from_frame(frame, column="other", mechanism=LAW, bounds=(0, 10))


def test_equality_and_digest():
    variants = [
        lambda: records(),
        lambda: records([1.0, 12.0, -3.5]),
        lambda: records([1.0, -3.5]),
        lambda: records(bounds=(0, 11)),
        lambda: records(mechanism=Laplace(scale=2.5)),
        lambda: records(mechanism=Gaussian(sd=2.0)),
        lambda: records(mechanism=Mechanism(LAW, [Suppress(below=-10)])),
        lambda: records(support="integers"),
    ]
    releases = [make() for make in variants]
    for i, make in enumerate(variants):
        assert [make() == r for r in releases] == [i == j for j in range(len(releases))]
        assert pickle.loads(pickle.dumps(releases[i])).digest() == make().digest()
    assert len({r.digest() for r in releases}) == len(releases)
    assert records(attrs={"unit": "EUR"}) != records()
    assert records() != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(records())
