"""Mechanisms and releases survive the way through JSON."""

import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbayes as dpb
from dpbayes.errors import ReleaseFileError, UnsupportedError
from dpbayes.io.serialise import (
    mechanism_from_dict,
    mechanism_to_dict,
    release_from_dict,
    release_to_dict,
)

POSITIVE = st.floats(1e-3, 1e6)
ARRAYS = st.lists(POSITIVE, min_size=3, max_size=3).map(np.array)
SIZES = POSITIVE | ARRAYS
LAWS = st.one_of(
    st.builds(lambda b: dpb.Laplace(scale=b), SIZES),
    st.builds(lambda b, h: dpb.DiscreteLaplace(scale=b, step=h), SIZES, st.sampled_from([1, 0.5])),
    st.builds(lambda b: dpb.Gaussian(sd=b), SIZES),
    st.builds(lambda b: dpb.DiscreteGaussian(sigma=b), SIZES),
    st.builds(lambda b: dpb.TruncatedLaplace(scale=b, bound=1e9), SIZES),
    st.builds(lambda b: dpb.TruncatedDiscreteLaplace(scale=b, bound=1e9), SIZES),
    st.just(dpb.NoNoise()),
)
NUMBERS = st.floats(-1e6, 1e6)
STEPS = st.lists(
    st.one_of(
        st.builds(dpb.Rescale, NUMBERS.filter(bool)),
        st.builds(dpb.Round, st.sampled_from(["nearest", "floor", "ceil"]), POSITIVE),
        st.builds(lambda a, w: dpb.Clamp(lower=a, upper=a + w), NUMBERS, POSITIVE),
        st.builds(lambda a: dpb.Clamp(lower=a), NUMBERS),
        st.builds(lambda a: dpb.Clamp(upper=a), NUMBERS),
    ),
    max_size=3,
)
SUPPRESS = st.lists(st.builds(dpb.Suppress, NUMBERS, st.booleans()), max_size=1)
MECHANISMS = st.builds(lambda law, a, b: dpb.Mechanism(law, (*a, *b)), LAWS, STEPS, SUPPRESS)


def through_json(stored):
    return json.loads(json.dumps(stored, allow_nan=False))


@given(MECHANISMS)
@settings(deadline=None)
def test_mechanisms(mechanism):
    assert mechanism_from_dict(through_json(mechanism_to_dict(mechanism))) == mechanism


ATTRS = st.fixed_dictionaries(
    {}, optional={"title": st.text(), "epsilon": POSITIVE, "neighbours": st.just("add-remove")}
)
LABELS = st.one_of(
    st.lists(st.text(), min_size=3, max_size=3, unique=True),
    st.lists(st.integers(-(2**62), 2**62), min_size=3, max_size=3, unique=True),
    st.lists(NUMBERS, min_size=3, max_size=3, unique=True),
)
VALUES = st.lists(st.just(float("nan")) | st.integers(60, 10**6), min_size=3, max_size=3)


@given(VALUES, LAWS, LABELS, ATTRS, st.none() | st.integers(0, 10**9))
@settings(deadline=None, max_examples=40)
def test_tables(values, law, labels, attrs, total):
    mechanism = dpb.Mechanism(law, [dpb.Suppress(below=50)])
    release = dpb.HistogramRelease(
        values, mechanism=mechanism, coords={"cell": labels}, total=total, attrs=attrs
    )
    back = release_from_dict(through_json(release_to_dict(release)))
    assert back == release
    assert back.digest() == release.digest()


def examples():
    scale = np.arange(1.0, 7).reshape(2, 3)
    yield dpb.HistogramRelease([1, -2, 3], mechanism=dpb.Laplace(scale=[1, 2, 3]))
    yield dpb.HistogramRelease([1, 2], mechanism=dpb.Gaussian(sd=1), edges=[0, 0.1, 7], total=9)
    yield dpb.HistogramRelease(
        np.arange(6).reshape(2, 3),
        mechanism=dpb.DiscreteLaplace(scale=scale),
        coords={"a": ["x", "y"], "b": [3, 1, 2], "group": ("b", ["u", "u", "v"])},
    )
    dates = np.array(["2024-01-01", "2024-02-01"], dtype="datetime64[D]")
    yield dpb.HistogramRelease(
        xr.DataArray([5, 6], coords={"day": dates}, dims="day"), mechanism=dpb.Laplace(scale=1)
    )
    yield dpb.RecordRelease(
        [3, -4], mechanism=dpb.DiscreteLaplace(scale=1), bounds=(0, 5), support="integers"
    )


@pytest.mark.parametrize("release", list(examples()), ids=repr)
def test_examples(release):
    assert release_from_dict(through_json(release_to_dict(release))) == release


@pytest.mark.parametrize("release", list(examples()), ids=repr)
def test_values_kept_elsewhere(release):
    stored = release_to_dict(release, values=False)
    assert "values" not in stored
    values = getattr(release.values, "values", release.values)
    assert release_from_dict(through_json(stored), values) == release


def test_labelled_parameters():
    scale = xr.DataArray([1.0, 2.0], coords={"a": ["x", "y"]}, dims="a")
    mechanism = dpb.Mechanism(dpb.Laplace(scale=scale))
    back = mechanism_from_dict(through_json(mechanism_to_dict(mechanism)))
    assert back.noise.scale.identical(scale)


def test_code_cannot_be_stored():
    law = dpb.CustomNoise(logpdf=lambda x: -abs(x), sd=1.0)
    with pytest.raises(UnsupportedError, match="CustomNoise cannot be stored"):
        mechanism_to_dict(dpb.Mechanism(law))


def test_attributes_must_be_plain():
    release = dpb.HistogramRelease([1], mechanism=dpb.Laplace(scale=1), attrs={"title": object()})
    with pytest.raises(UnsupportedError, match="'title' holds"):
        release_to_dict(release)


@pytest.mark.parametrize("broken", [{}, {"noise": 3}, {"noise": {"law": "Laplce"}}])
def test_what_is_no_mechanism(broken):
    with pytest.raises(ReleaseFileError, match="does not describe a mechanism"):
        mechanism_from_dict(broken)
