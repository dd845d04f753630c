"""Laplace laws far in their tails against mpmath, and their ways in."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpbayes.errors import ParameterError
from dpbayes.noise import DiscreteLaplace, Laplace, TruncatedDiscreteLaplace, TruncatedLaplace

SCALES = [0.01, 0.7, 30.0, 1e6]


def exact_laplace(low, high, scale):
    """P(low < x <= high) with 60 digits."""
    with mp.workdps(60):

        def cdf_minus_half(x):
            x = mp.mpf(x) / mp.mpf(scale)
            return mp.sign(x) * (1 - mp.exp(-abs(x))) / 2

        low, high = mp.mpf(low), mp.mpf(high)
        if low >= 0 or high <= 0:
            near, far = sorted((abs(low), abs(high)))
            mass = (mp.exp(-near / mp.mpf(scale)) - mp.exp(-far / mp.mpf(scale))) / 2
        else:
            mass = cdf_minus_half(high) - cdf_minus_half(low)
        return float(mp.log(mass)) if mass > 0 else -np.inf


def exact_discrete(first, last, rate):
    """P(first <= k <= last) of mass ∝ exp(-rate |k|), with 60 digits."""
    with mp.workdps(60):
        q = mp.exp(-mp.mpf(rate))

        def one_side(a, b):  # sum of q^k over a <= k <= b, 0 <= a
            return (q**a - (mp.mpf(0) if b == np.inf else q ** (b + 1))) / (1 - q)

        if first > 0:
            mass = one_side(first, last)
        elif last < 0:
            mass = one_side(-last, -first)
        else:
            mass = one_side(0, last) + (one_side(1, -first) if first < 0 else 0)
        return float(mp.log(mass * (1 - q) / (1 + q)))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "z", [(-800, -799), (-50, -49.999), (-3, 2), (-1e-9, 1e-9), (40, 41), (600, 1e5)]
)
def test_laplace_intervals_far_in_both_tails(scale, z):
    low, high = z[0] * scale, z[1] * scale
    got = float(Laplace(scale=scale).log_interval(low, high))
    assert got == pytest.approx(exact_laplace(low, high, scale), rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_tails_have_no_cancellation(scale):
    law = Laplace(scale=scale)
    z = np.array([5.0, 40.0, 700.0, 1e5])
    np.testing.assert_allclose(law.logsf(z * scale), np.log(0.5) - z, rtol=1e-14)
    np.testing.assert_allclose(law.logcdf(-z * scale), np.log(0.5) - z, rtol=1e-14)
    # The other side: log(1 - tail) is minus the tail.
    np.testing.assert_allclose(
        law.logcdf(z[:2] * scale), np.log1p(-0.5 * np.exp(-z[:2])), atol=1e-16
    )


@pytest.mark.parametrize("step", [1.0, 0.25, 10.0])
@pytest.mark.parametrize("ratio", [0.02, 1.0, 40.0])
@pytest.mark.parametrize("k", [(-900, -900), (-900, -100), (-3, 5), (0, 0), (1, 2), (200, 10_000)])
def test_discrete_laplace_intervals_far_in_both_tails(step, ratio, k):
    law = DiscreteLaplace(scale=ratio * step, step=step)
    got = float(law.log_interval((k[0] - 0.5) * step, (k[1] + 0.5) * step))
    assert got == pytest.approx(exact_discrete(*k, 1 / ratio), rel=1e-12, abs=1e-13)
    # Ends on the lattice: the lower one is left out.
    on = float(law.log_interval((k[0] - 1) * step, k[1] * step))
    assert on == pytest.approx(got, rel=1e-12)


def test_discrete_laplace_tails():
    law = DiscreteLaplace(scale=2.0)
    for k in (0, 3, 100, 5000):
        assert float(law.logsf(k)) == pytest.approx(exact_discrete(k + 1, np.inf, 0.5), rel=1e-13)
        assert float(law.logcdf(-k)) == pytest.approx(exact_discrete(k, np.inf, 0.5), rel=1e-13)


def test_off_lattice_values_have_no_mass_but_rounding_is_forgiven():
    law = DiscreteLaplace(scale=0.5, step=0.1)
    assert law.logpdf(3 * 0.1) == pytest.approx(np.log(np.tanh(0.1)) - 0.6)
    assert np.isneginf(law.logpdf(0.25))


# -- ways in ---------------------------------------------------------------------------

spreads = st.floats(0.05, 1e5)


@given(spreads)
def test_from_sd_and_variance(sd):
    for make in (
        Laplace.from_sd,
        DiscreteLaplace.from_sd,
        lambda sd: DiscreteLaplace.from_sd(sd=sd, step=0.5),
        lambda sd: TruncatedLaplace.from_sd(sd=sd, bound=4 * sd),
    ):
        assert float(make(sd=sd).sd) == pytest.approx(sd, rel=1e-9)
    assert float(Laplace.from_variance(variance=sd**2).sd) == pytest.approx(sd, rel=1e-12)
    assert float(DiscreteLaplace.from_variance(variance=sd**2).sd) == pytest.approx(sd, rel=1e-9)


def test_the_scale_of_a_given_sd_is_not_the_sd():
    assert Laplace.from_sd(sd=10).scale == pytest.approx(10 / np.sqrt(2))
    assert DiscreteLaplace.from_sd(sd=1e4).scale == pytest.approx(1e4 / np.sqrt(2), rel=1e-6)


def test_a_truncated_law_has_no_sd_above_the_uniform_one():
    with pytest.raises(ParameterError, match="no finite scale fits the stated spread"):
        TruncatedLaplace.from_sd(sd=3.0, bound=4.0)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("half_width", [2.0, 3.0, 17.0, 250.5])
def test_from_half_width_puts_the_level_inside(half_width, level):
    law = Laplace.from_half_width(half_width=half_width, level=level)
    assert np.exp(law.logsf(half_width)) == pytest.approx((1 - level) / 2)
    discrete = DiscreteLaplace.from_half_width(half_width=half_width, level=level)
    k = np.arange(-np.floor(half_width), np.floor(half_width) + 1)
    assert np.exp(discrete.logpdf(k)).sum() == pytest.approx(level, rel=1e-9)
    truncated = TruncatedDiscreteLaplace.from_half_width(
        half_width=half_width, level=level, bound=20 * half_width
    )
    assert np.exp(truncated.logpdf(k)).sum() == pytest.approx(level, rel=1e-9)


def test_ways_in_take_arrays():
    sd = np.array([1.0, 5.0, 20.0])
    np.testing.assert_allclose(DiscreteLaplace.from_sd(sd=sd).sd, sd)
    np.testing.assert_allclose(TruncatedLaplace.from_sd(sd=sd, bound=100.0).sd, sd)
    law = DiscreteLaplace.from_epsilon(epsilon=np.array([0.1, 1.0]), sensitivity=2)
    np.testing.assert_allclose(law.scale, [20.0, 2.0])


@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 9.9e-3, 1.01e-2, 0.3, 2.0, 50.0])
def test_sd_of_the_truncated_law_against_mpmath(ratio):
    with mp.workdps(50):
        b, bound = mp.mpf(3), mp.mpf(ratio) * 3
        top = mp.quad(lambda x: x * x * mp.exp(-x / b), [0, bound])
        exact = mp.sqrt(top / mp.quad(lambda x: mp.exp(-x / b), [0, bound]))
    law = TruncatedLaplace(scale=3.0, bound=3.0 * ratio)
    assert float(law.sd) == pytest.approx(float(exact), rel=1e-9)


def test_a_truncated_law_is_its_parent_given_the_bound():
    parent, law = DiscreteLaplace(scale=3.0), TruncatedDiscreteLaplace(scale=3.0, bound=4)
    k = np.arange(-4, 5)
    weights = np.exp(parent.logpdf(k))
    np.testing.assert_allclose(np.exp(law.logpdf(k)), weights / weights.sum())
    assert np.all(np.isneginf(law.logpdf([-5, 5, 60])))
    np.testing.assert_allclose(np.exp(law.logcdf([-5, -4, 3, 4, 9])), np.append(
        [0.0], np.cumsum(weights / weights.sum())[[0, 7, 8, 8]]
    ), rtol=1e-12)  # fmt: skip


@pytest.mark.parametrize("scale", [1e4, 1e12])
def test_a_bound_far_inside_the_scale_gives_a_uniform_law_at_no_cost(scale):
    draws = TruncatedLaplace(scale=scale, bound=2.0).rvs(20_000, 3)
    assert stats.kstest(draws, stats.uniform(-2, 4).cdf).pvalue > 1e-3
    whole = TruncatedDiscreteLaplace(scale=scale, bound=2.7).rvs(20_000, 3)
    counts = np.unique(whole, return_counts=True)
    np.testing.assert_array_equal(counts[0], np.arange(-2, 3))
    assert stats.chisquare(counts[1]).pvalue > 1e-3
