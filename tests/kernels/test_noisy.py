"""Noisy statistics of every law under every noise: references, sums, differences, identities."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy import integrate

from dpbayes.distributions.count_mechanism import CountMechanism, noise_parameters
from dpbayes.kernels import base_laws, families, noisy, poisson
from dpbayes.kernels.noise_terms import noise_term
from dpbayes.kernels.tabulated import EMPTY
from dpbayes.mechanism import Mechanism
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

DATA = Path(__file__).parents[1] / "data" / "noisy_counts.json"
NOISE = {
    "laplace": families.LAPLACE,
    "discrete_laplace": families.DISCRETE_LAPLACE,
    "gaussian": families.GAUSSIAN,
    "discrete_gaussian": families.DISCRETE_GAUSSIAN,
}
BASE = {
    "poisson": families.POISSON,
    "binomial": families.BINOMIAL,
    "negative_binomial": families.NEGATIVE_BINOMIAL,
}
COUNTS = list(BASE.values())


def student(x):
    return np.log(0.9375) - 0.5 * np.log(4.0) - 2.5 * np.log1p((x / 2.0) ** 2 / 4.0) - np.log(2.5)


@pytest.fixture(scope="module")
def custom():
    """Laplace noise of scale 7 as a table."""
    law = CustomNoise(logpdf=lambda x: -np.abs(x) / 7.0 - np.log(14.0), sd=9.9)
    return CountMechanism.of(Mechanism(law)).table


# -- references --------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASE)
def test_references(base):
    rows = [c for c in json.loads(DATA.read_text())["cases"] if c["base"] == base]
    assert len(rows) >= 80
    for row in rows:
        ends = row.get("interval", [row.get("value")] * 2)
        lower = -np.inf if ends[0] is None else ends[0]
        upper = np.inf if ends[1] is None else ends[1]
        given_ = row["params"]
        a, b = given_.get("mu", given_.get("n")), given_.get("alpha", given_.get("p", 0.0))
        value, *_ = noisy.logp_array(
            BASE[base], NOISE[row["noise"]], lower, upper, a, b, row["scale"]
        )
        assert abs(value - row["log"]) < 1e-10 * max(1.0, abs(row["log"])), row


@njit
def full_sum(law, noise, table, low, high, out):
    """Logs of all terms from low to high."""
    family, lower, upper, scale, bound, step = noise
    m, size = low, 0
    while m <= high:
        term = noise_term(family, lower - m, upper - m, scale, bound, step, table)[0]
        out[size] = base_laws.log_mass(law[0], m, law[1], law[2]) + term
        m += 1.0
        size += 1
    return size


def settings(count, seed, table):
    """Laws, noise and bounds over many orders of magnitude."""
    rng = np.random.default_rng(seed)
    while count:
        base = int(rng.choice(COUNTS))
        if base == families.POISSON:
            law = (base, 10 ** rng.uniform(-3, 5), 0.0)
        elif base == families.BINOMIAL:
            p = 10 ** rng.uniform(-5, -0.01)
            law = (base, np.floor(10 ** rng.uniform(0, 5)), p if rng.random() < 0.7 else 1 - p)
        else:
            law = (base, 10 ** rng.uniform(-2, 4), 10 ** rng.uniform(-3, 4))
        family = int(rng.integers(0, 8))
        step = float(rng.choice([1.0, 0.5, 0.1])) if family in (1, 5) else 1.0
        scale = 10 ** rng.uniform(-1.5, 3) if family < 7 else 1.0
        bound = max(scale * 10 ** rng.uniform(-0.5, 1.2), step) if family in (4, 5) else 0.0
        centre, spread = base_laws.centre_and_spread(*law)
        width = 10.0 if family == 7 else scale
        y = centre + rng.standard_t(3) * np.hypot(spread, width)
        y = max(y, 0.0) if family == 6 else y
        y = np.round(y / step) * step if family in (1, 3, 5, 6) else y
        far = y + max(1.0, np.round(width * 10 ** rng.uniform(-2, 1)))
        lower, upper = [(y, y), (-np.inf, y), (y, np.inf), (y, far)][rng.integers(0, 4)]
        count -= 1
        yield law, (family, lower, upper, scale, bound, step), (table if family == 7 else EMPTY)


def test_against_full_sums(custom):
    out = np.empty(2_000_000)
    checked = 0
    for law, noise, table in settings(600, 5, custom):
        base, a, b = law
        centre, spread = base_laws.centre_and_spread(*law)
        seen = [x for x in noise[1:3] if np.isfinite(x)]
        wide = 45.0 * (10.0 if noise[0] == 7 else noise[3])
        tail = 60.0 * spread + 1000.0 + (45.0 * a / b if base == families.NEGATIVE_BINOMIAL else 0)
        low = np.floor(min(centre - 60.0 * spread, *seen) - wide)
        if base == families.NEGATIVE_BINOMIAL:
            low = 0.0
        low, high = max(low, 0.0), np.ceil(max([centre + tail, *seen]) + wide)
        if base == families.BINOMIAL:
            high = min(high, a)
        if noise[0] == 6 and noise[1] == noise[2]:
            low = high = noise[1]  # the count itself
        if high - low >= out.size:
            continue
        logs = out[: full_sum(law, noise, table, low, high, out)]
        top = logs.max(initial=-np.inf)
        exact = top + np.log(np.exp(logs - top).sum()) if top > -np.inf else -np.inf
        value = noisy.logp(law, noise, table, noisy.EVERYTHING)[0]
        if exact == -np.inf:
            assert value == -np.inf, (law, noise)
            continue
        assert abs(value - exact) < 1e-10 * max(1.0, abs(exact)), (law, noise, value, exact)
        checked += 1
    assert checked > 450


def test_poisson_kernel_agrees():
    # Two independent ways to one number: closed forms and sums.
    for law, noise, table in settings(400, 6, EMPTY):
        if law[0] == families.POISSON and noise[0] <= families.DISCRETE_GAUSSIAN:
            family, lower, upper, scale, _, step = noise
            closed = poisson.logp(family, lower, upper, law[1], scale, step)
            value, d_mu, _, d_scale = noisy.logp(law, noise, table, noisy.EVERYTHING)
            assert value == pytest.approx(closed[0], rel=1e-10, abs=1e-10), (law, noise)
            assert d_mu * np.sqrt(law[1]) == pytest.approx(
                closed[1] * np.sqrt(law[1]), rel=1e-8, abs=1e-8
            ), (law, noise)
            assert d_scale * scale == pytest.approx(closed[2] * scale, rel=1e-7, abs=1e-8)


# -- derivatives -------------------------------------------------------------------------------


def check_gradient(law, noise, table):
    base, a, b = law
    scale = noise[3]
    _, *slopes = noisy.logp(law, noise, table, noisy.EVERYTHING)
    widths = [min(abs(a), np.sqrt(abs(a) + 0.1)), b, scale]
    if base == families.NORMAL:
        widths[0] = b
    if base == families.BINOMIAL:
        widths[1] = min(b, 1 - b, np.sqrt(b * (1 - b) / a))
    free = {
        families.POISSON: (0,), families.BINOMIAL: (1,), families.NEGATIVE_BINOMIAL: (0, 1),
        families.NORMAL: (0, 1),
    }[base]  # fmt: skip
    for i in (*free, 2) if noise[0] < 6 else free:
        h, difference = 2e-3 * widths[i], 0.0
        for shift, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
            at = [a, b, scale]
            at[i] += shift * h
            moved = (*noise[:3], at[2], *noise[4:])
            value = noisy.logp((base, at[0], at[1]), moved, table, noisy.EVERYTHING)[0]
            difference += weight * value / (12 * h)
        error = abs(slopes[i] - difference) * widths[i]
        assert error < 1e-6 * max(1.0, abs(difference * widths[i])), (i, law, noise)


def test_gradients_are_central_differences(custom):
    checked = 0
    for law, noise, table in settings(400, 7, custom):
        value = noisy.logp(law, noise, table, noisy.EVERYTHING)[0]
        if value > -1e4:  # the difference itself loses its digits further out
            check_gradient(law, noise, table)
            checked += 1
    assert checked > 300


# -- normal statistics -------------------------------------------------------------------------

CONTINUOUS = [
    Laplace(scale=2.0),
    Laplace(scale=0.003),
    Laplace(scale=300.0),
    Gaussian(sd=2.0),
    TruncatedLaplace(scale=2.0, bound=3.0),
    NoNoise(),
    CustomNoise(logpdf=student, cdf=None, sd=4.0),
]


@pytest.mark.parametrize("law", CONTINUOUS, ids=lambda law: type(law).__name__)
def test_normal_statistic(law):
    static = CountMechanism.of(Mechanism(law), whole=False)
    scale, bound = noise_parameters(law)
    mu, sigma = 3.0, 1.5

    def density(y):
        return np.exp(value(y, y)[0])

    def value(low, high):
        noise = (static.family, low, high, scale, bound, 1.0)
        return noisy.logp((families.NORMAL, mu, sigma), noise, static.table, noisy.EVERYTHING)

    if not isinstance(law, NoNoise):  # the convolution itself
        for y in (-1.0, 3.0, 4.7):
            points = [p for p in (y, y - bound, y + bound) if abs(p - mu) < 12 * sigma]
            exact = integrate.quad(
                lambda x, y=y: np.exp(law.logpdf(y - x) - 0.5 * ((x - mu) / sigma) ** 2),
                mu - 12 * sigma, mu + 12 * sigma, points=points, epsabs=1e-13, limit=500,
            )[0]  # fmt: skip
            assert density(y) == pytest.approx(exact / sigma / np.sqrt(2 * np.pi), rel=1e-8)
    for low, high in ((-2.0, 0.5), (3.0, 3.2), (4.0, 9.0)):
        exact = integrate.quad(density, low, high, epsabs=1e-13, limit=200)[0]
        assert np.exp(value(low, high)[0]) == pytest.approx(exact, rel=1e-8)
        below = np.exp(value(-np.inf, high)[0]) - np.exp(value(-np.inf, low)[0])
        assert below == pytest.approx(exact, rel=1e-7)
        above = np.exp(value(low, np.inf)[0]) - np.exp(value(high, np.inf)[0])
        assert above == pytest.approx(exact, rel=1e-7)
    for ends in ((4.4, 4.4), (-np.inf, 1.0), (1.0, np.inf), (1.0, 2.0)):
        noise = (static.family, *ends, scale, bound, 1.0)
        check_gradient((families.NORMAL, mu, sigma), noise, static.table)


def test_normal_tails_keep_their_accuracy():
    # Far outside, the Laplace tail takes over: log g falls linearly, with the slope 1/b.
    values = [
        noisy.logp_array(families.NORMAL, families.LAPLACE, y, y, 0.0, 1.0, 2.0)[0]
        for y in (200.0, 202.0, 2e4)
    ]
    assert values[1] - values[0] == pytest.approx(-1.0, abs=1e-12)
    assert values[2] == pytest.approx(-1e4 + 0.125 - np.log(4.0), rel=1e-12)


# -- edges -------------------------------------------------------------------------------------


def test_laws_without_spread():
    laplace = families.LAPLACE
    for base, a, b in ((families.NEGATIVE_BINOMIAL, 0.0, 2.0), (families.BINOMIAL, 9.0, 0.0)):
        value, d_a, d_b, _ = noisy.logp_array(base, laplace, 1.3, 1.3, a, b, 2.0)
        assert value == pytest.approx(float(Laplace(scale=2.0).logpdf(1.3)), rel=1e-14)
        near = noisy.logp_array(base, laplace, 1.3, 1.3, max(a, 1e-7), max(b, 1e-7), 2.0)
        slope = (near[0] - value) / 1e-7
        assert (d_a if base == families.NEGATIVE_BINOMIAL else d_b) == pytest.approx(
            slope, rel=1e-5
        )
    value, _, d_p, _ = noisy.logp_array(families.BINOMIAL, laplace, 8.0, 8.0, 9.0, 1.0, 2.0)
    near = noisy.logp_array(families.BINOMIAL, laplace, 8.0, 8.0, 9.0, 1 - 1e-7, 2.0)[0]
    assert value == pytest.approx(float(Laplace(scale=2.0).logpdf(1.0)), rel=1e-14)
    assert d_p == pytest.approx((value - near) / 1e-7, rel=1e-5)


@pytest.mark.parametrize(
    ("base", "a", "b"),
    [
        (families.POISSON, -1.0, 0.0),
        (families.POISSON, np.nan, 0.0),
        (families.BINOMIAL, 9.0, 1.1),
        (families.BINOMIAL, -1.0, 0.5),
        (families.NEGATIVE_BINOMIAL, 3.0, 0.0),
        (families.NEGATIVE_BINOMIAL, np.inf, 1.0),
        (families.NORMAL, 0.0, -1.0),
    ],
)
def test_bad_parameters_have_no_likelihood(base, a, b):
    assert noisy.logp_array(base, 0, 1.0, 1.0, a, b, 1.0) == (-np.inf, 0.0, 0.0, 0.0)


def test_impossible_values_have_no_likelihood():
    truncated = families.TRUNCATED_LAPLACE
    assert (
        noisy.logp_array(families.POISSON, truncated, -5.0, -5.0, 4.0, 0.0, 2.0, 3.0)[0] == -np.inf
    )
    assert (
        noisy.logp_array(families.BINOMIAL, truncated, 9.0, 9.0, 5.0, 0.5, 2.0, 3.0)[0] == -np.inf
    )
    none = families.NO_NOISE
    assert noisy.logp_array(families.POISSON, none, 2.5, 2.5, 4.0, 0.0, 1.0)[0] == -np.inf
    assert noisy.logp_array(families.BINOMIAL, none, 5.5, 8.5, 5.0, 0.5, 1.0)[0] == -np.inf


# -- identities --------------------------------------------------------------------------------

LATTICE = [
    DiscreteLaplace(scale=3.0),
    DiscreteLaplace(scale=1.0, step=0.5),
    DiscreteGaussian(sigma=2.0),
    TruncatedDiscreteLaplace(scale=3.0, bound=6.0),
    NoNoise(),
]


@st.composite
def count_laws(draw):
    base = draw(st.sampled_from(COUNTS))
    if base == families.POISSON:
        return base, draw(st.floats(0.01, 60.0)), 0.0
    if base == families.BINOMIAL:
        return base, float(draw(st.integers(1, 80))), draw(st.floats(0.01, 0.99))
    return base, draw(st.floats(0.01, 30.0)), draw(st.floats(1.0, 50.0))


def arguments(noise):
    static = CountMechanism.of(Mechanism(noise))
    scale, bound = noise_parameters(noise)
    step = static.step or 1.0
    return static.family, {"scale": scale, "bound": bound, "step": step, "table": static.table}


@given(law=count_laws(), noise=st.sampled_from(LATTICE))
def test_masses_sum_to_one_and_intervals_to_differences(law, noise):
    base, a, b = law
    family, rest = arguments(noise)
    step = rest["step"]
    y = step * np.arange(np.floor(-60 / step), np.ceil(700 / step))
    mass = np.exp(noisy.logp_array(base, family, y, y, a, b, **rest)[0])
    assert mass.sum() == pytest.approx(1.0, abs=1e-8)
    below = np.exp(noisy.logp_array(base, family, -np.inf, y, a, b, **rest)[0])
    np.testing.assert_allclose(np.cumsum(mass), below, atol=1e-9)
    inside = np.exp(noisy.logp_array(base, family, y[3:-9], y[12:], a, b, **rest)[0])
    np.testing.assert_allclose(inside, below[12:] - below[3:-9], atol=1e-9)


SMOOTH = [Laplace(scale=2.0), Gaussian(sd=3.0), TruncatedLaplace(scale=2.0, bound=30.3)]


@given(law=count_laws(), y=st.floats(-20, 100), noise=st.sampled_from(SMOOTH))
def test_narrow_intervals_refine_to_the_density(law, y, noise):
    base, a, b = law
    family, rest = arguments(noise)
    density = noisy.logp_array(base, family, y, y, a, b, **rest)[0]
    if density > -600.0:
        for width in (1e-2, 1e-4, 1e-6):
            ends = y - width / 2, y + width / 2
            value = noisy.logp_array(base, family, *ends, a, b, **rest)[0]
            assert value - np.log(width) == pytest.approx(density, abs=2.0 * width + 1e-8)
