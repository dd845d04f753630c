"""Steps of post-processing against brute force, and likelihoods against sums and simulation."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dpbayes.errors import ImpossibleReleaseError, ParameterError, UnsupportedError
from dpbayes.mechanism import (
    Clamp,
    Mechanism,
    Preimage,
    Rescale,
    Round,
    Step,
    Suppress,
    as_mechanism,
)
from dpbayes.noise import (
    CustomNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoNoise,
    TruncatedDiscreteLaplace,
    TruncatedLaplace,
)


def members(preimage, values):
    """Which values lie in each interval, by its ends as stated: rows are intervals."""
    low, high = preimage.lower[:, None], preimage.upper[:, None]
    above = (values > low) | ((values == low) & preimage.lower_closed[:, None])
    below = (values < high) | ((values == high) & preimage.upper_closed[:, None])
    return above & below


def same(a, b):
    return (a == b) | (np.isnan(a) & np.isnan(b))


# Multiples of a quarter: exact in binary, with every tie of the roundings below among them.
GRID = np.arange(-120, 121) / 4.0

quarters = st.integers(-40, 40).map(lambda k: k / 4.0)
rescales = st.sampled_from([-4.0, -1.0, -0.5, 0.25, 0.5, 2.0]).map(Rescale)
rounds = st.builds(
    Round,
    st.sampled_from(["nearest", "floor", "ceil"]),
    st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0]),
)
clamps = st.tuples(st.none() | quarters, st.none() | quarters).filter(
    lambda c: c != (None, None) and (None in c or c[0] < c[1])
).map(lambda c: Clamp(*c))  # fmt: skip
suppressions = st.builds(Suppress, quarters, st.booleans())


@st.composite
def sequences(draw):
    steps = draw(st.lists(rescales | rounds | clamps, max_size=4))
    if draw(st.booleans()):
        steps.insert(draw(st.integers(0, len(steps))), draw(suppressions))
    return steps


@settings(max_examples=400)
@given(sequences())
def test_preimage_inverts_forward(steps):
    mechanism = Mechanism(Laplace(scale=1.0), steps)
    published = mechanism.forward(GRID)
    distinct = np.unique(published)
    found = mechanism.interval(distinct)
    np.testing.assert_array_equal(members(found, GRID), same(published, distinct[:, None]))


@settings(max_examples=200)
@given(sequences(), quarters)
def test_what_no_value_leads_to_is_refused(steps, value):
    mechanism = Mechanism(Laplace(scale=1.0), steps)
    fine = np.arange(-4000, 4001) / 8.0
    reached = np.any(mechanism.forward(fine) == value)
    try:
        found = mechanism.interval([value])
    except ImpossibleReleaseError:
        assert not reached
    else:
        # Not on the grid means the preimage is elsewhere: forward of it gives the value.
        inside = np.clip(0.5 * (found.lower + found.upper), -1e9, 1e9)
        ends = np.concatenate([found.lower, found.upper, np.nan_to_num(inside)])
        assert reached or value in mechanism.forward(ends)


@pytest.mark.parametrize("step", [1.0, 0.5, 2.0, 0.25])
@settings(max_examples=60)
@given(steps=sequences())
def test_canonical_bounds_hold_the_same_lattice_points(step, steps):
    mechanism = Mechanism(Laplace(scale=1.0), steps)
    lattice = step * np.arange(-60, 61)
    published = mechanism.forward(lattice)
    distinct = np.unique(published)
    b = mechanism.interval(distinct).bounds(step)
    point = (b.lower == b.upper)[:, None]
    inside = (lattice > b.lower[:, None]) & (lattice <= b.upper[:, None])
    inside |= point & (lattice == b.lower[:, None])
    np.testing.assert_array_equal(inside, same(published, distinct[:, None]))
    ends = np.concatenate([b.lower[b.lower < b.upper], b.upper[b.lower < b.upper]])
    ends = ends[np.isfinite(ends)] / step
    np.testing.assert_allclose(ends - np.floor(ends), 0.5, atol=1e-9)
    assert not b.empty.any()


def test_canonical_bounds_without_a_member_are_empty():
    between = Preimage.points([0.5, 3.0])
    b = between.bounds(1.0)
    assert b.empty.tolist() == [True, False]
    assert (b.lower[0], b.upper[0]) == (np.inf, -np.inf)


@pytest.mark.parametrize(
    ("value", "published"),
    [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (3.4999, 3), (3.5001, 4)],
)
def test_ties_go_to_the_even_multiple(value, published):
    assert Round().forward(value) == published
    assert Round(step=10).forward(10 * value) == 10 * published


def test_ends_of_roundings_are_open_or_closed_as_they_should_be():
    even, odd = Round().preimage([4.0]), Round().preimage([5.0])
    assert (even.lower[0], even.upper[0]) == (3.5, 4.5)
    assert even.lower_closed[0]
    assert even.upper_closed[0]
    assert not odd.lower_closed[0]
    assert not odd.upper_closed[0]
    down, up = Round("floor", 5).preimage([10.0]), Round("ceil", 5).preimage([10.0])
    assert (down.lower[0], down.upper[0], down.lower_closed[0], down.upper_closed[0]) == (
        10, 15, True, False,
    )  # fmt: skip
    assert (up.lower[0], up.upper[0], up.lower_closed[0], up.upper_closed[0]) == (
        5, 10, False, True,
    )  # fmt: skip


@pytest.mark.parametrize("k", range(-30, 31))
@pytest.mark.parametrize("step", [0.1, 0.3, 0.7])
def test_ties_of_a_step_that_is_not_binary(k, step):
    image = Round(step=step).preimage([k * step])
    assert image.lower_closed[0] == image.upper_closed[0] == (k % 2 == 0)
    assert image.lower[0] == pytest.approx((k - 0.5) * step)


def test_suppress_inclusive_or_not():
    assert np.isnan(Suppress(below=5).forward([4.9, 5, 5.1])).tolist() == [True, False, False]
    assert np.isnan(Suppress(5, inclusive=True).forward([4.9, 5, 5.1])).tolist() == [
        True,
        True,
        False,
    ]
    lattice = Mechanism(DiscreteLaplace(scale=1), [Suppress(below=5)]).integer_bounds([np.nan])
    assert lattice.upper[0] == 4.5
    lattice = Mechanism(DiscreteLaplace(scale=1), [Suppress(5, True)]).integer_bounds([np.nan])
    assert lattice.upper[0] == 5.5


def test_a_published_value_below_a_later_clamp_shows_that_it_passed_the_threshold():
    # 3 was withheld unless >= 2; then everything above 10 became 10.
    mechanism = Mechanism(Laplace(scale=1), [Suppress(below=2), Clamp(lower=4, upper=10)])
    found = mechanism.interval([4.0, 10.0, np.nan])
    np.testing.assert_array_equal(found.lower, [2.0, 10.0, -np.inf])
    np.testing.assert_array_equal(found.upper, [4.0, np.inf, 2.0])


# -- likelihood ------------------------------------------------------------------------

LATTICE_MECHANISMS = {
    "plain": Mechanism(DiscreteLaplace(scale=2.0)),
    "clamped": Mechanism(DiscreteLaplace(scale=2.0), [Clamp(lower=0)]),
    "clamped twice": Mechanism(DiscreteGaussian(sigma=3.0), [Clamp(lower=0, upper=9)]),
    "rounded to even tens": Mechanism(DiscreteGaussian(sigma=8.0), [Round(step=10)]),
    "rounded then suppressed": Mechanism(
        DiscreteLaplace(scale=4.0), [Round(step=5), Suppress(below=10)]
    ),
    "suppressed, inclusive": Mechanism(DiscreteLaplace(scale=3.0), [Suppress(6, inclusive=True)]),
    "rescaled": Mechanism(DiscreteLaplace(scale=3.0), [Rescale(-2.5), Clamp(upper=20)]),
    "lattice of halves": Mechanism(DiscreteLaplace(scale=1.5, step=0.5), [Round("floor")]),
    "truncated": Mechanism(TruncatedDiscreteLaplace(scale=2.0, bound=3), [Clamp(lower=4)]),
    "no noise": Mechanism(NoNoise(), [Round("ceil", 4)]),
}


@pytest.mark.parametrize("mechanism", LATTICE_MECHANISMS.values(), ids=LATTICE_MECHANISMS)
@pytest.mark.parametrize("truth", [0, 3, 7, 25])
def test_probabilities_over_all_possible_releases_sum_to_one(mechanism, truth):
    h = mechanism.integer_step()
    noise = h * np.arange(-400 / h, 400 / h + 1) if mechanism.noise.sd else np.zeros(1)
    releases = mechanism.forward(truth + noise)
    distinct, index = np.unique(releases, return_inverse=True)
    # The sum of the masses of all noise that leads to a release is its probability.
    by_sum = np.bincount(index, np.exp(mechanism.noise.logpdf(noise)))
    got = np.exp(mechanism.log_likelihood(distinct, truth))
    # The outermost release may lack noise beyond the grid.
    np.testing.assert_allclose(got, by_sum, rtol=1e-10, atol=1e-40)
    assert got.sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("mechanism", LATTICE_MECHANISMS.values(), ids=LATTICE_MECHANISMS)
def test_simulated_releases_have_the_stated_frequencies(mechanism):
    n, truth = 20_000, 7
    draws = mechanism.sample(np.full(n, truth), np.random.default_rng(8))
    distinct, seen = np.unique(draws, return_counts=True)
    expected = n * np.exp(mechanism.log_likelihood(distinct, truth))
    big = expected > 8
    rest = n - expected[big].sum(), n - seen[big].sum()
    statistic = np.sum((seen[big] - expected[big]) ** 2 / expected[big])
    statistic += (rest[1] - rest[0]) ** 2 / max(rest[0], 1.0)
    assert stats.chi2.sf(statistic, max(big.sum(), 1)) > 1e-3


CONTINUOUS_NOISE = {
    "laplace": Laplace(scale=2.0),
    "gaussian": Gaussian(sd=3.0),
    "truncated": TruncatedLaplace(scale=2.0, bound=6.0),
    "custom": CustomNoise(
        logpdf=stats.logistic.logpdf, cdf=stats.logistic.cdf, sd=np.pi / np.sqrt(3)
    ),
}


@pytest.mark.parametrize("noise", CONTINUOUS_NOISE.values(), ids=CONTINUOUS_NOISE)
def test_continuous_mass_adds_up_over_points_and_ends(noise):
    # Censored at both ends, doubled: two atoms and a density between them.
    mechanism = Mechanism(noise, [Clamp(lower=0, upper=8), Rescale(2.0)])
    for truth in (-3.0, 2.5, 9.0):
        # Break points where the density has a kink or ends.
        kinks = [2 * truth + d for d in (-12, 0, 12) if 0 < 2 * truth + d < 16]
        inside, _ = integrate.quad(
            lambda z, t=truth: float(np.exp(mechanism.log_likelihood(z, t))),
            1e-12,
            16 - 1e-9,
            points=kinks or None,
            limit=200,
        )
        atoms = np.exp(mechanism.log_likelihood([0.0, 16.0], truth))
        assert inside + atoms.sum() == pytest.approx(1.0, abs=1e-7)
        assert atoms[0] == pytest.approx(np.exp(noise.logcdf(-truth)))


@pytest.mark.parametrize("noise", CONTINUOUS_NOISE.values(), ids=CONTINUOUS_NOISE)
@pytest.mark.parametrize("mode", ["nearest", "floor", "ceil"])
def test_rounded_continuous_releases_are_interval_masses(noise, mode):
    mechanism = Mechanism(noise, [Round(mode, step=3)])
    z = 3.0 * np.arange(-40, 41)
    assert np.exp(mechanism.log_likelihood(z, 4.2)).sum() == pytest.approx(1.0, rel=1e-9)
    offset = {"nearest": -1.5, "floor": 0.0, "ceil": -3.0}[mode]
    expected = noise.log_interval(6 + offset - 4.2, 9 + offset - 4.2)
    assert mechanism.log_likelihood(6.0, 4.2) == pytest.approx(float(expected))


@pytest.mark.parametrize("factor", [0.01, -3.0, 100.0])
def test_a_rescale_divides_the_density(factor):
    noise = Gaussian(sd=2.0)
    mechanism = Mechanism(noise, [Rescale(factor)])
    z = np.array([-1.0, 0.3, 5.0]) * factor
    expected = stats.norm.logpdf(z, 1.5 * factor, 2.0 * abs(factor))
    np.testing.assert_allclose(mechanism.log_likelihood(z, 1.5), expected)
    # Masses and intervals are not rescaled.
    lattice = Mechanism(DiscreteLaplace(scale=2), [Rescale(factor)])
    assert lattice.log_likelihood(4 * factor, 4) == DiscreteLaplace(scale=2).logpdf(0)
    rounded = Mechanism(noise, [Rescale(factor), Round(step=abs(factor))])
    assert rounded.log_likelihood(0.0, 0.0) == pytest.approx(float(noise.log_interval(-0.5, 0.5)))


def test_two_rescales_multiply():
    twice = Mechanism(Laplace(scale=1), [Rescale(2.0), Rescale(5.0)])
    once = Mechanism(Laplace(scale=1), [Rescale(10.0)])
    assert twice.log_likelihood(7.0, 1.0) == pytest.approx(float(once.log_likelihood(7.0, 1.0)))


def test_likelihood_broadcasts_values_truths_and_scales():
    mechanism = Mechanism(DiscreteLaplace(scale=[1.0, 4.0]), [Clamp(lower=0)])
    released, truth = np.array([0.0, 6.0]), np.arange(5.0)[:, None]
    got = mechanism.log_likelihood(released, truth)
    assert got.shape == (5, 2)
    for i in range(5):
        for j, scale in enumerate((1.0, 4.0)):
            single = Mechanism(DiscreteLaplace(scale=scale), [Clamp(lower=0)])
            assert got[i, j] == pytest.approx(float(single.log_likelihood(released[j], i)))


def test_sample_draws_noise_for_every_value():
    out = Mechanism(Laplace(scale=[1.0, 100.0])).sample(np.zeros((4000, 2)), 3)
    np.testing.assert_allclose(out.std(axis=0), np.sqrt(2) * np.array([1, 100]), rtol=0.1)
    assert abs(np.corrcoef(out.T)[0, 1]) < 0.05
    assert np.unique(Mechanism(Gaussian(sd=1.0)).sample(np.zeros(50), 3)).size == 50
    np.testing.assert_array_equal(
        Mechanism(Gaussian(sd=1.0)).sample([1.0, 2.0], 3),
        Mechanism(Gaussian(sd=1.0)).sample([1.0, 2.0], 3),
    )


# -- lattices --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "joint"), [(1, 1.0), (5, 1.0), (0.5, 0.5), (0.1, 0.1), (1 / 3, 1 / 3)]
)
def test_lattice_of_a_count_plus_noise(step, joint):
    assert Mechanism(DiscreteLaplace(scale=1, step=step)).integer_step() == joint
    assert Mechanism(Laplace(scale=1)).integer_step() == 0.0
    assert Mechanism(NoNoise()).integer_step() == 1.0


def test_a_lattice_foreign_to_counts_is_refused():
    with pytest.raises(UnsupportedError, match=r"step 0\.3 shares no lattice with integer counts"):
        Mechanism(DiscreteLaplace(scale=1, step=0.3)).integer_step()


def test_noise_on_fives_leaves_holes_between_counts():
    mechanism = Mechanism(DiscreteLaplace(scale=6.0, step=5), [Clamp(lower=0)])
    got = mechanism.log_likelihood(12.0, np.arange(20.0))
    expected = mechanism.noise.logpdf(12 - np.arange(20.0))
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(got)), [2, 7, 12, 17])
    np.testing.assert_allclose(got, expected)


# -- impossible values -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "values", "message"),
    [
        (
            Mechanism(Laplace(scale=1), [Clamp(lower=0)]),
            [1, -2.5],
            "index 1: -2.5 cannot have been published: values were raised to 0 where below it",
        ),
        (
            Mechanism(Laplace(scale=1), [Clamp(upper=10)]),
            [11],
            "index 0: 11 cannot have been published: values were lowered to 10",
        ),
        (
            Mechanism(Laplace(scale=1), [Round(step=5)]),
            [10, 12],
            "index 1: 12 cannot have been published: values were rounded to multiples of 5",
        ),
        (
            Mechanism(Laplace(scale=1), [Suppress(below=50)]),
            [60, 49],
            "index 1: 49 cannot have been published: values were withheld where below 50",
        ),
        (
            Mechanism(Laplace(scale=1), [Suppress(50, True)]),
            [50],
            "index 0: 50 cannot have been published: values were withheld where at or below 50",
        ),
        (
            Mechanism(DiscreteLaplace(scale=1)),
            [1, 2, 3.5],
            "index 2: 3.5 cannot come from a whole count plus noise on multiples of 1",
        ),
        (
            Mechanism(Laplace(scale=1)),
            [1, np.nan],
            "index 1 is missing, but the mechanism withholds nothing: add a Suppress",
        ),
        (Mechanism(Laplace(scale=1)), [np.inf, 2], "index 0: inf is infinite"),
        (Mechanism(Laplace(scale=1), [Clamp(upper=5)]), [-np.inf], "index 0: -inf is infinite"),
        (Mechanism(Laplace(scale=1), [Clamp(lower=0)]), [-1, -2, -3], r"(and 2 more such values)"),
        # Clamped before it was rounded to multiples of 4: only 0, 4 and 8 are possible.
        (
            Mechanism(Laplace(scale=1), [Clamp(0, 7), Round(step=4)]),
            [12.0],
            "index 0: 12 cannot have been published",
        ),
    ],
)
def test_impossible_values_are_named_with_the_step(mechanism, values, message):
    with pytest.raises(ImpossibleReleaseError, match=re.escape(message)):
        mechanism.integer_bounds(np.array(values, float))


def test_a_label_names_the_cell():
    with pytest.raises(ImpossibleReleaseError, match=r"^month 1: -1 cannot"):
        Mechanism(Laplace(scale=1), [Clamp(0)]).interval([2, -1], lambda i: f"month {i}")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rescale(0), "factor must not be 0"),
        (lambda: Rescale(np.inf), "factor must be finite, got inf"),
        (lambda: Rescale("2"), "factor must be a number, got '2'"),
        (lambda: Round("up"), "mode must be 'nearest', 'floor' or 'ceil', got 'up'"),
        (lambda: Round(step=0), "step must be positive, got 0"),
        (lambda: Round(step=-1), "step must be positive, got -1"),
        (lambda: Clamp(), "Clamp needs lower= or upper="),
        (lambda: Clamp(5, 5), "lower must be below upper, got lower=5 and upper=5"),
        (lambda: Clamp(lower=np.nan), "lower must be finite, got nan"),
        (lambda: Clamp(lower=True), "lower must be a number, got True"),
        (lambda: Suppress(below=None), "below must be a number, got None"),
        (lambda: Suppress(below=np.nan), "below must be finite, got nan"),
        (
            lambda: Mechanism(2.0),
            r"noise must be a noise law such as Laplace\(scale=...\), got 2.0",
        ),
        (lambda: Mechanism(Laplace(scale=1), Clamp(0)), "steps must be a list of steps"),
        (
            lambda: Mechanism(Laplace(scale=1), [Clamp(0), 3]),
            r"steps\[1\] must be Rescale, Round, Clamp or Suppress, got 3",
        ),
        (lambda: Mechanism(Laplace(scale=1), [Clamp]), r"steps\[0\] must be"),
        (lambda: Mechanism(Laplace(scale=1), [Suppress(1), Suppress(2)]), "at most one Suppress"),
        (lambda: as_mechanism(3.0), r"mechanism must be a Mechanism or a noise law.*got 3.0"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_mechanisms_are_values():
    a = Mechanism(Laplace(scale=1), [Clamp(lower=0), Round()])
    assert a == Mechanism(Laplace(scale=1), (Clamp(0.0, None), Round("nearest", 1)))
    assert hash(a) == hash(Mechanism(Laplace(scale=1), [Clamp(lower=0), Round()]))
    assert a != Mechanism(Laplace(scale=1), [Round(), Clamp(lower=0)])
    assert as_mechanism(Laplace(scale=1)) == Mechanism(Laplace(scale=1))
    assert as_mechanism(a) is a
    assert a.describe()[1:] == ["raised to 0 where below it", "rounded to multiples of 1"]
    assert all(isinstance(step, Step) for step in a.steps)
    assert Mechanism(Laplace(scale=1), [Suppress(2)]).suppresses
    assert not a.suppresses
