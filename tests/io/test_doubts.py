"""Likely mistakes are named, and sound releases raise no doubt."""

import numpy as np
import pytest

import dpbayes as dpb
from dpbayes.io.doubts import doubts

LAPLACE = dpb.Laplace(scale=10)
INTEGER = dpb.DiscreteLaplace(scale=10)
SOUND = {"neighbours": "add-remove"}


def table(values, mechanism, **options):
    return dpb.HistogramRelease(values, mechanism=mechanism, **options)


def records(values, mechanism, bounds=(0, 100), **options):
    return dpb.RecordRelease(values, mechanism=mechanism, bounds=bounds, **options)


def found(release):
    return {doubt.code: doubt.text for doubt in doubts(release)}


def sound_releases():
    rng = np.random.default_rng(5)
    counts = rng.poisson(200, 40)
    clamp, thousands = [dpb.Clamp(lower=0)], [dpb.Rescale(0.001)]
    for law in (LAPLACE, INTEGER, dpb.Gaussian(sd=9), dpb.DiscreteGaussian(sigma=9)):
        for steps in ([], clamp, [dpb.Round(step=10)], thousands, [dpb.Suppress(below=150)]):
            mechanism = dpb.Mechanism(law, steps)
            yield table(mechanism.sample(counts, rng), mechanism, total=int(counts.sum()))
            if steps != [dpb.Suppress(below=150)]:
                few = rng.poisson(3, 40)
                few[0] = 400
                yield table(mechanism.sample(few, rng), mechanism, total=int(few.sum()))
    true = rng.uniform(0, 100, 2000)
    for law in (LAPLACE, dpb.Laplace(scale=500), dpb.Gaussian(sd=9)):
        for steps in ([], [dpb.Round(step=5)], [dpb.Clamp(lower=0, upper=100)]):
            mechanism = dpb.Mechanism(law, steps)
            yield records(mechanism.sample(true, rng), mechanism)


@pytest.mark.parametrize("release", list(sound_releases()), ids=repr)
def test_sound_releases_raise_no_doubt(release):
    assert found(release) == {}


def test_rate_for_scale():
    texts = found(table([812.3, 455.1], dpb.Laplace(scale=0.1)))
    assert "A Laplace scale of 0.1 means a standard deviation of 0.141" in texts["rate-for-scale"]
    assert "the scale is sensitivity/0.1: 10 for sensitivity 1" in texts["rate-for-scale"]


def test_rate_for_scale_with_stated_epsilon():
    attrs = {"epsilon": 0.1, "sensitivity": 1, **SOUND}
    text = found(table([812.3, 455.1], dpb.Laplace(scale=0.1), attrs=attrs))
    assert "means scale 10. A rate (or epsilon) seems" in text["scale-contradicts-epsilon"]


def test_scale_that_contradicts_epsilon_otherwise():
    attrs = {"epsilon": 0.1, "sensitivity": 2, **SOUND}
    text = found(table([812.3, 455.1], LAPLACE, attrs=attrs))["scale-contradicts-epsilon"]
    assert "sensitivity 2 means scale 20" in text
    assert "rate" not in text


def test_scale_for_epsilon():
    attrs = {"epsilon": 10.0, "sensitivity": 1.0, **SOUND}
    law = dpb.Laplace.from_epsilon(epsilon=10, sensitivity=1)
    text = found(table([812.3, 455.1], law, attrs=attrs))["scale-for-epsilon"]
    assert "If 10 is the scale of the noise, epsilon is 0.1" in text


def test_neighbours_not_stated():
    attrs = {"epsilon": 0.1, "sensitivity": 1.0}
    text = found(table([812.3, 455.1], LAPLACE, attrs=attrs))["neighbours-not-stated"]
    assert "the scale is 5 or 20, not 10" in text
    assert "neighbours-not-stated" not in found(
        table([812.3, 455.1], LAPLACE, attrs={**attrs, **SOUND})
    )


def test_negligible_noise():
    assert "noise-negligible" in found(table([812.3, 455.1], dpb.Gaussian(sd=0.1)))
    assert "noise-negligible" not in found(table([812.3, 455.1], dpb.Gaussian(sd=0.6)))
    text = found(records([50.1, 3.2], dpb.Laplace(scale=0.01)))["noise-negligible"]
    assert "must be multiplied by 100" in text


def test_dominant_noise():
    assert "noise-dominates" in found(table([8.5, -4.2], LAPLACE))
    assert "noise-dominates" not in found(table([8.5, -40.2], LAPLACE))
    assert "noise-dominates" in found(records([8.5, -4e3, 5e3], dpb.Laplace(scale=2000)))


def test_undeclared_clamp():
    values = [0] * 30 + [5, 17, 3, 400]
    text = found(table(values, INTEGER))["undeclared-clamp"]
    assert "30 of 34 values are exactly 0" in text
    assert "{ clamp = { lower = 0 } }" in text
    declared = dpb.Mechanism(INTEGER, [dpb.Clamp(lower=0)])
    assert "undeclared-clamp" not in found(table(values, declared))


def test_probability_that_nothing_is_negative():
    # Empty cells under integer Laplace noise: P(noise >= 0) each.
    q = np.exp(-1 / 10)
    text = found(table([0] * 20 + [900], INTEGER))["undeclared-clamp"]
    assert f"about {(1 / (1 + q)) ** 20:.1g}." in text
    assert "undeclared-clamp" not in found(table([0] * 10 + [900], INTEGER))


def test_undeclared_clamp_of_records():
    values = np.linspace(0.5, 99, 500)
    text = found(records(values, dpb.Laplace(scale=100)))["undeclared-clamp"]
    assert "{ clamp = { lower = 0, upper = 100 } }" in text


def test_undeclared_rounding():
    text = found(table([812, 455, -3], LAPLACE))["undeclared-rounding"]
    assert "continuous noise never gives" in text
    text = found(table([810, 450, -30, 20, 70, 990], INTEGER))["undeclared-rounding"]
    assert "multiples of 10" in text
    assert "undeclared-rounding" not in found(table([810, 450, -30], INTEGER))


def test_repeated_value():
    values = np.r_[np.random.default_rng(0).laplace(50, 40, 900), np.full(100, 99.5)]
    text = found(records(values, dpb.Laplace(scale=40)))["repeated-value"]
    assert "The value 99.5 occurs 100 times" in text


def test_records_outside_reach():
    text = found(records([50.2, 3.1, 900.5], dpb.Laplace(scale=10)))["outside-reach"]
    assert "1 record lies (such as 900.5)" in text


def test_total_far_from_the_sum():
    mechanism = dpb.Mechanism(INTEGER, [dpb.Clamp(lower=0)])
    for law in (INTEGER, mechanism):
        assert "total-far-from-sum" in found(table([500, 700], law, total=2000))
    assert "total-far-from-sum" in found(table([500, 700], INTEGER, total=100))
    # Clamped zeros raise the sum: that is no contradiction.
    assert "total-far-from-sum" not in found(table([500, 700], mechanism, total=100))


@pytest.mark.parametrize(
    ("law", "value", "sds"),
    [
        (dpb.Laplace(scale=0.1), -5, "35.4"),
        (INTEGER, -300, "21.2"),
        (dpb.Gaussian(sd=10), -60, "6 "),
        (dpb.Mechanism(LAPLACE, [dpb.Rescale(0.001)]), -0.3, "21.2"),
    ],
)
def test_values_far_below_zero(law, value, sds):
    release = table([value, 200, 1], law, coords={"shop": ["a", "b", "c"]})
    text = found(release)["below-reach"]
    assert text.startswith(f"cell a is {value}, {sds}")


def test_values_that_noise_makes_negative_are_no_doubt():
    assert "below-reach" not in found(table([-100, 200], INTEGER))  # probability 2e-5
    assert "below-reach" not in found(table([-55, 200], dpb.Gaussian(sd=12)))


def test_several_values_and_totals_far_below_zero():
    text = found(table([-300, -400, -500, -600, 9], INTEGER))["below-reach"]
    assert text.startswith("cell 3 is -600, 42.4 standard")
    assert "cell 0" not in text
    assert "(1 more like it)" in text
    release = table([3, 9], INTEGER).with_margin(-900, by=(), mechanism=INTEGER)
    assert found(release)["below-reach"].startswith("grand total is -900")


@pytest.mark.parametrize("label", ["Total", "all", "(All)", "Grand total", "SUM", "Total visits"])
def test_label_of_a_total(label):
    release = table([40, 30, 70], INTEGER, coords={"shop": ["a", "b", label]})
    text = found(release)["total-among-cells"]
    assert f"shop {label!r} looks like the sum of the others (70; they add up to 70)" in text
    assert "by = []" in text


@pytest.mark.parametrize("label", ["Summer", "Allentown", "totally new", "a"])
def test_label_that_is_no_total(label):
    release = table([40, 30, 70], INTEGER, coords={"shop": ["b", "c", label]})
    assert "total-among-cells" not in found(release)


def test_value_of_a_total():
    parts = [4000, 9000, 7000, 12000]
    labels = {"shop": list("abcde")}
    assert "total-among-cells" in found(table([*parts, 32020], INTEGER, coords=labels))
    assert "total-among-cells" not in found(table([*parts, 33000], INTEGER, coords=labels))
    # Noise so large that many a cell is near the sum of the others.
    blurred = dpb.DiscreteLaplace(scale=300)
    assert "total-among-cells" not in found(table([*parts, 32020], blurred, coords=labels))


def test_slice_of_a_total():
    release = table(
        [[40, 30, 70], [20, 10, 35]], INTEGER, coords={"day": [1, 2], "shop": ["a", "b", "All"]}
    )
    text = found(release)["total-among-cells"]
    assert "shop 'All'" in text
    assert 'by = ["day"]' in text
