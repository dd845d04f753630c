"""Releases other than noisy counts and records: what they refuse, and their identity."""

import numpy as np
import pytest

import dpbayes as dpb
from dpbayes.errors import ReleaseError
from dpbayes.releases import (
    DirichletSampling,
    PerturbedSampling,
    ResponseRelease,
    SelectionRelease,
    SeriesRelease,
    Smoothing,
    SyntheticRelease,
    WinnerLoss,
    flip_matrix,
)
from dpbayes.releases.series import cosine_amplitudes, cosine_basis

LABELS = ["yes", "no", "maybe"]


def test_reports_and_counts_say_the_same():
    reports = ResponseRelease(["no", "yes", "no"], categories=LABELS, epsilon=1.0)
    counts = ResponseRelease([1, 2, 0], categories=LABELS, epsilon=1.0)
    mapping = ResponseRelease({"no": 2, "yes": 1}, categories=LABELS, epsilon=1.0)
    assert reports == counts == mapping
    assert reports.digest() == mapping.digest()
    assert reports.values.dims == ("category",)
    assert reports.short_label(2) == "maybe"
    assert reports != ResponseRelease([1, 2, 0], categories=LABELS, epsilon=1.1)


def test_a_matrix_states_its_own_epsilon():
    release = ResponseRelease([1, 2, 3, 4], categories=list("abcd"), matrix=flip_matrix(0.25, 0.25))
    assert release.epsilon == pytest.approx(2 * np.log(3))
    expected = np.linalg.solve(flip_matrix(0.25, 0.25).T, [1, 2, 3, 4])
    np.testing.assert_allclose(release.naive_counts(), expected)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (["yes", "nope"], {"epsilon": 1}, "report 2, 'nope', is none of the 3 categories"),
        ([1, 2.5, 0], {"epsilon": 1}, "whole numbers"),
        ([0, 0, 0], {"epsilon": 1}, "at least one report"),
        ([1, 2, 3], {}, "either epsilon"),
        ([1, 2, 3], {"epsilon": 1, "matrix": np.eye(3)}, "either epsilon"),
        ([1, 2, 3], {"epsilon": -1}, "epsilon must be a number above 0"),
        ([1, 2, 3], {"matrix": np.eye(2)}, "matrix must be 3 x 3"),
        ([1, 2, 3], {"matrix": [[1, 0, 0], [1, 0, 0], [-1, 1, 1]]}, "negative"),
        ([1, 2, 3], {"matrix": [[0.5, 0, 0], [0.5, 1, 0], [0, 0, 1]]}, "transpose"),
        ({"yes": 1, "now": 2}, {"epsilon": 1}, "'now' is none of the categories"),
    ],
)
def test_responses_refuse(values, options, message):
    with pytest.raises(ReleaseError, match=message):
        ResponseRelease(values, categories=LABELS, **options)


def test_numbers_that_could_be_reports_or_counts_are_refused():
    with pytest.raises(ReleaseError, match="could be reports or counts"):
        ResponseRelease([1, 0], categories=[0, 1], epsilon=1)
    assert ResponseRelease([1, 0, 1], categories=[0, 1], epsilon=1).total == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [1.5, 2]}, "whole counts of rows"),
        ({"values": [-1, 2]}, "whole counts of rows"),
        ({"total": None}, "total must be the public number"),
        ({"sampling": 0.5}, "sampling must be one of Smoothing"),
        ({"sampling": DirichletSampling(concentration=[1, 2, 3])}, "one entry per cell"),
        ({"edges": [0, 1]}, "edges must have one more"),
    ],
)
def test_synthetic_refuses(change, message):
    given = {"values": [3, 4], "sampling": Smoothing(delta=0.5), "total": 10} | change
    with pytest.raises(ReleaseError, match=message):
        SyntheticRelease(given.pop("values"), **given)


def test_synthetic_identity():
    law = PerturbedSampling(mechanism=dpb.Laplace(scale=2))
    one = SyntheticRelease([3, 4], sampling=law, total=10, coords={"shop": ["a", "b"]})
    assert one == SyntheticRelease([3, 4], sampling=law, total=10, coords={"shop": ["a", "b"]})
    assert one.digest() != SyntheticRelease([3, 4], sampling=law, total=11).digest()
    np.testing.assert_allclose(one.naive_counts(), [30 / 7, 40 / 7])
    assert one.label(1) == "cell b"
    with pytest.raises(ReleaseError, match=r"delta must be a number in \(0, 1\]"):
        Smoothing(delta=0)


def test_selection_refuses():
    given = {"outcomes": ["a", "b"], "alpha": 1.0, "sensitivity": 2.0, "total": 5}
    release = SelectionRelease("b", loss=WinnerLoss(), **given)
    assert release.chosen == 1
    assert release == SelectionRelease("b", loss=WinnerLoss(), **given)
    assert release.digest() != SelectionRelease("a", loss=WinnerLoss(), **given).digest()
    with pytest.raises(ReleaseError, match="one of the outcomes"):
        SelectionRelease("c", loss=WinnerLoss(), **given)
    with pytest.raises(ReleaseError, match="must return 2 losses"):
        SelectionRelease("b", loss=lambda c: c[..., :1], **given)
    with pytest.raises(ReleaseError, match="NaN"):
        SelectionRelease("b", loss=lambda c: c * np.nan, **given)
    with pytest.raises(ReleaseError, match="alpha must be"):
        SelectionRelease("b", loss=WinnerLoss(), **(given | {"alpha": 0}))


def test_cosines_are_orthonormal_and_bounded():
    grid = (np.arange(400) + 0.5) / 400
    psi = cosine_basis(grid, 5)
    np.testing.assert_allclose(psi.T @ psi / 400, np.eye(5), atol=1e-12)
    x, y = np.meshgrid(grid[::10], grid[::10])
    plane = cosine_basis(np.stack([x.ravel(), y.ravel()], axis=1), 2)
    ends = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert plane.shape == (1600, 8)
    largest = np.abs(cosine_basis(ends, 2)).max(axis=0)
    np.testing.assert_allclose(largest, cosine_amplitudes(2, 2))
    np.testing.assert_allclose(cosine_amplitudes(3, 1), np.sqrt(2))


def test_series_refuses():
    law = dpb.Laplace(scale=1)
    with pytest.raises(ReleaseError, match="finite coefficients"):
        SeriesRelease([np.nan], mechanism=law, total=5)
    with pytest.raises(ReleaseError, match="coefficients, got 4"):
        SeriesRelease([0.0] * 4, mechanism=law, total=5, bounds=[(0, 1), (0, 1)])
    one = SeriesRelease([0.1, 0.2], mechanism=law, total=5)
    assert one == SeriesRelease([0.1, 0.2], mechanism=law, total=5)
    assert one.digest() != SeriesRelease([0.1, 0.2], mechanism=law, total=6).digest()
