"""What a description says, in the units of the data."""

import json
from pathlib import Path

import numpy as np
import pytest

import dpbayes as dpb
from dpbayes.io import describe, read_release

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"


def flat(description):
    return " ".join(description.text(80).split())


def test_buyers_by_month():
    description = describe(read_release(DATA / "buyers_by_month.toml"))
    text = flat(description)
    assert text.startswith("CDNOW: distinct buyers by month What was released")
    for words in (
        "18 counts of buyers, by month.",
        "The number of records is unknown",
        "Integer Laplace (two-sided geometric) noise of scale 30 was added to each count.",
        "Standard deviation of the noise: 42.4 buyers; in 95 % of cases it is at most 90 buyers",
        "Noise in the sum of all 18 counts: standard deviation 180 buyers.",
        "Privacy loss of this release: epsilon 0.1 (sensitivity 3; data sets are neighbours where "
        "one person is added or removed (add-remove)).",
        "one person counts in up to 3 cells",
    ):
        assert words in text
    assert description.doubts == ()
    # The file states epsilon for its neighbours: nothing follows for others.
    assert "replaced by another" not in text


@pytest.mark.parametrize("path", sorted(DATA.glob("*.toml")), ids=lambda p: p.stem)
def test_committed_releases_raise_no_doubt(path):
    assert describe(read_release(path)).doubts == ()


@pytest.mark.parametrize(
    ("neighbours", "words"),
    [
        ("add-remove", "is replaced by another (replace-one), counts usually change 2 times as"),
        ("replace-one", "is added or removed (add-remove), counts usually change 0.5 times as"),
    ],
)
def test_epsilon_for_other_neighbours_where_it_is_not_stated(neighbours, words):
    release = dpb.HistogramRelease(
        [812, 455],
        mechanism=dpb.DiscreteLaplace(scale=20),
        attrs={"sensitivity": 2, "neighbours": neighbours},
    )
    text = flat(describe(release))
    assert "Privacy loss of this release: epsilon 0.1" in text
    assert words in text
    assert f"has epsilon {0.2 if neighbours == 'add-remove' else 0.05}." in text


def test_public_total():
    text = flat(describe(read_release(DATA / "customers_by_spend.toml")))
    assert "The number of records is public: 23,570." in text
    assert "No value reached a clamp" in text


def test_records():
    text = flat(describe(read_release(DATA / "spend_records_eps8.toml")))
    assert (
        "23,570 records, each perturbed on its own; the true values lie between 0 and 250 USD"
        in text
    )
    assert "21% of the released values lie outside these bounds" in text
    assert "no model of the noise undoes clipping" in text


def test_clamped_zeros_are_not_zeros():
    steps = [dpb.Round(), dpb.Clamp(lower=0)]
    release = dpb.HistogramRelease(
        [0, 0, 31, 0, 12], mechanism=dpb.Mechanism(dpb.Laplace(scale=5), steps)
    )
    description = describe(release)
    assert (
        '3 of 5 values are exactly 0: each means "count + noise was below 0.5", not zero.'
        in flat(description)
    )
    assert description.figures["censored"] == 3


def test_clamped_zeros_of_integer_noise():
    mechanism = dpb.Mechanism(dpb.DiscreteLaplace(scale=5), [dpb.Clamp(lower=0)])
    text = flat(describe(dpb.HistogramRelease([0, 7], mechanism=mechanism)))
    assert '1 of 2 values is exactly 0: it means "count + noise was 0 or less", not zero.' in text


def test_suppressed_values_were_below_the_threshold():
    mechanism = dpb.Mechanism(dpb.DiscreteLaplace(scale=5), [dpb.Suppress(below=50)])
    text = flat(describe(dpb.HistogramRelease([None, 70, None], mechanism=mechanism)))
    assert "2 of 3 values are suppressed." in text
    assert (
        '2 of 3 values are suppressed: each means "count + noise was 49 or less", not zero.' in text
    )


def test_rescaled_noise_in_both_units():
    mechanism = dpb.Mechanism(dpb.Gaussian(sd=4), [dpb.Rescale(0.5)])
    text = flat(describe(dpb.HistogramRelease([1.3, -0.2], mechanism=mechanism)))
    assert "Standard deviation of the noise: 4;" in text
    assert "In the units after that the noise has standard deviation 2." in text
    assert "1 of 2 values is negative" in text


def test_scale_per_cell_is_a_range():
    release = dpb.HistogramRelease([1.3, -0.2], mechanism=dpb.Laplace(scale=[2, 3]))
    description = describe(release)
    assert "scale 2 to 3, which differs by cell" in flat(description)
    assert description.figures["noise_scale"] == (2, 3)
    assert description.figures["sum_sd"] == pytest.approx(np.sqrt(2 * (4 + 9)), rel=1e-5)


def test_gaussian_privacy_loss():
    law = dpb.Gaussian.from_epsilon_delta(epsilon=1, delta=1e-6, sensitivity=1)
    attrs = {"epsilon": 1.0, "sensitivity": 1.0, "neighbours": "add-remove"}
    text = flat(describe(dpb.HistogramRelease([9.3, -2], mechanism=law, attrs=attrs)))
    assert "epsilon 1 with delta 1e-06, or rho" in text
    assert "replace-one" not in text


def test_no_noise_and_custom_noise():
    text = flat(describe(dpb.HistogramRelease([9, 2], mechanism=dpb.NoNoise())))
    assert "No noise was added to each count." in text
    law = dpb.CustomNoise(logpdf=lambda x: -np.log1p(x**2), sd=3.0)
    text = flat(describe(dpb.HistogramRelease([9.5, 2.25, -1], mechanism=law)))
    assert "Standard deviation of the noise: 3." in text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_text_keeps_to_the_width(width):
    for path in DATA.glob("*.toml"):
        lines = describe(read_release(path)).text(width).splitlines()
        assert max(map(len, lines)) <= width


def test_json():
    description = describe(read_release(DATA / "buyers_by_month.toml"))
    stored = json.loads(json.dumps(description.to_dict(), allow_nan=False))
    assert stored["figures"]["noise_scale"] == [30, 30]
