"""Masses and scores of the true statistic against 40-digit arithmetic."""

import mpmath as mp
import numpy as np
import pytest

from dpbayes.kernels import base_laws
from dpbayes.kernels.families import BINOMIAL, NEGATIVE_BINOMIAL, NORMAL, POISSON


def cases(count):
    """Parameters over many orders of magnitude, values in the bulk and far from it."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        mu, alpha = 10 ** rng.uniform(-3, 7), 10 ** rng.uniform(-4, 9)
        near = mu + rng.normal() * np.sqrt(mu + mu * mu / alpha)
        m = np.floor(max(near, 0.0) if rng.random() < 0.5 else 10 ** rng.uniform(-1, 8))
        yield mu, alpha, m + (0.37 if rng.random() < 0.3 else 0.0)


def test_negative_binomial_mass_and_score():
    with mp.workdps(40):
        for mu, alpha, m in cases(300):
            a, x, total = mp.mpf(alpha), mp.mpf(m), mp.mpf(alpha) + mp.mpf(mu)
            mass = mp.loggamma(x + a) - mp.loggamma(a) - mp.loggamma(x + 1)
            mass += a * mp.log(a / total) + x * mp.log(mu / total)
            value = base_laws.log_mass(NEGATIVE_BINOMIAL, m, mu, alpha)
            assert abs(value - mass) < 1e-13 * max(1, abs(mass)), (mu, alpha, m)
            score = mp.digamma(x + a) - mp.digamma(a) + mp.log(a / total) + (mu - x) / total
            found = base_laws.second_score(NEGATIVE_BINOMIAL, m, mu, alpha)
            assert abs(found - score) < max(1e-9 * abs(score), 1e-14), (mu, alpha, m)


def test_binomial_mass():
    rng = np.random.default_rng(1)
    with mp.workdps(40):
        for _ in range(300):
            n, p = np.floor(10 ** rng.uniform(0, 8)), 10 ** rng.uniform(-8, -0.01)
            p = p if rng.random() < 0.5 else 1 - p
            m = np.clip(np.floor(n * p + rng.normal() * 3 * np.sqrt(n * p * (1 - p))), 0, n)
            mass = mp.loggamma(n + 1) - mp.loggamma(m + 1) - mp.loggamma(n - m + 1)
            mass += m * mp.log(p) + (n - m) * mp.log(1 - mp.mpf(p))
            value = base_laws.log_mass(BINOMIAL, m, n, p)
            assert abs(value - mass) < 1e-13 * max(1, abs(mass)), (n, p, m)


@pytest.mark.parametrize(
    "law", [(POISSON, 7.3, 0.0), (BINOMIAL, 40.0, 0.3), (NEGATIVE_BINOMIAL, 5.0, 0.4)]
)
def test_rise_mode_and_tails(law):
    base, a, b = law
    low, high = base_laws.ends(base, a)
    m = np.arange(low, min(high, 4000.0) + 1.0)
    mass = np.exp([base_laws.log_mass(base, x, a, b) for x in m])
    assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    assert m[np.argmax(mass)] == base_laws.mode(base, a, b)
    centre, spread = base_laws.centre_and_spread(base, a, b)
    assert mass @ m == pytest.approx(centre, rel=1e-10)
    assert np.sqrt(mass @ (m - centre) ** 2) == pytest.approx(spread, rel=1e-10)
    for k in (0.0, 3.0, 11.0, 25.0):
        at = int(k)
        assert base_laws.rise(base, k, a, b) == pytest.approx(mass[at + 1] / mass[at], rel=1e-12)
        with np.errstate(divide="ignore"):
            above, below = np.log(mass[at + 1 :].sum()), np.log(mass[:at].sum())
        assert base_laws.log_beyond(base, k, 1.0, a, b) >= above - 1e-12
        assert base_laws.log_beyond(base, k, -1.0, a, b) >= below - 1e-12
    # bounds that are worth having: within a factor of ten, far out
    assert base_laws.log_beyond(base, 30.0, 1.0, a, b) < np.log(10 * mass[31:].sum())


def test_scores_are_derivatives():
    h = 1e-5
    for base, a, b, m in (
        (POISSON, 7.0, 0.0, 4.0),
        (BINOMIAL, 40.0, 0.3, 9.0),
        (NEGATIVE_BINOMIAL, 5.0, 0.4, 9.0),
        (NORMAL, 3.0, 2.0, 4.5),
    ):
        centre, _ = base_laws.centre_and_spread(base, a, b)
        score = base_laws.location_score(base, m - centre, a, b)
        shift = (0.0, h) if base == BINOMIAL else (h, 0.0)
        up = base_laws.log_mass(base, m, a + shift[0], b + shift[1])
        down = base_laws.log_mass(base, m, a - shift[0], b - shift[1])
        assert score == pytest.approx((up - down) / (2 * h), rel=1e-6)
    up, down = (base_laws.log_mass(NORMAL, 4.5, 3.0, 2.0 + s) for s in (h, -h))
    assert base_laws.second_score(NORMAL, 4.5, 3.0, 2.0) == pytest.approx((up - down) / (2 * h))


def test_laws_without_spread():
    assert base_laws.fixed_count(POISSON, 0.0, 0.0) == 0.0
    assert base_laws.fixed_count(BINOMIAL, 9.0, 1.0) == 9.0
    assert base_laws.fixed_count(BINOMIAL, 9.0, 0.0) == 0.0
    assert base_laws.fixed_count(NEGATIVE_BINOMIAL, 0.0, 2.0) == 0.0
    assert base_laws.fixed_count(NORMAL, 0.0, 2.0) == -1.0
