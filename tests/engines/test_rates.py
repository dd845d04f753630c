"""Exact draws of rates against enumeration of all pairs of counts."""

import numpy as np
import pytest
from scipy import special, stats

from dpbayes.engines.rates import draw_rate
from dpbayes.errors import ImpossibleReleaseError, UnsupportedError
from dpbayes.kernels.pair_draws import draw_parts
from dpbayes.mechanism import Clamp, Mechanism, Round, Suppress
from dpbayes.mechanism.core import bounds_log_likelihood
from dpbayes.noise import (
    CustomNoise,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoNoise,
    TruncatedDiscreteLaplace,
)
from dpbayes.releases import RateRelease


def student(x):
    return stats.t.logpdf(x, 4.0, scale=3.0)


CASES = {
    "ordinary": (120.3, 400.2, Laplace(scale=10.0)),
    "a few": (3.0, 9.0, DiscreteLaplace(scale=4.0)),
    "more clicks than impressions": (50.0, 10.0, DiscreteLaplace(scale=5.0)),
    "far more": (200.0, 40.0, Laplace(scale=5.0)),
    "clamped": (0.0, 300.0, Mechanism(DiscreteLaplace(scale=8.0), [Clamp(lower=0)])),
    "suppressed": (np.nan, 90.0, Mechanism(Gaussian(sd=8.0), [Round(), Suppress(below=20)])),
    "both suppressed": (np.nan, np.nan, Mechanism(Laplace(scale=8.0), [Suppress(below=20)])),
    "no noise": (30.0, 70.0, NoNoise()),
    "truncated": (3.0, -2.0, TruncatedDiscreteLaplace(scale=3.0, bound=9.0)),
    "custom": (31.4, 77.7, CustomNoise(logpdf=student, sd=4.3)),
}


def observations(release):
    return release.numerator.observations(), release.denominator.observations()


def enumerate_pairs(release, a, b, size=900):
    """Log evidence, and the law of (numerator, denominator) over a square."""
    over, under = observations(release)
    m = np.arange(size, dtype=float)
    log_c = bounds_log_likelihood(over.noise, over.bounds, m)[:, None]
    log_n = bounds_log_likelihood(under.noise, under.bounds, m)[None]
    c, n = m[:, None], m[None]
    with np.errstate(invalid="ignore"):
        joint = log_c + log_n - np.log1p(n) - special.betaln(a, b) + special.gammaln(n + 1)
        joint += special.betaln(a + c, b + n - c) - special.gammaln(c + 1)
        joint -= special.gammaln(n - c + 1)
    joint = np.where(c <= n, joint, -np.inf)
    evidence = special.logsumexp(joint)
    return evidence, np.exp(joint - evidence)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("prior", [(0.5, 0.5), (3.0, 1.5)])
def test_against_enumeration(case, prior):
    numerator, denominator, mechanism = CASES[case]
    release = RateRelease(numerator=numerator, denominator=denominator, mechanism=mechanism)
    draws = 20_000
    found = draw_rate(*observations(release), 0, prior, draws, np.random.default_rng(3))
    evidence, law = enumerate_pairs(release, *prior)
    assert found.log_evidence == pytest.approx(evidence, abs=1e-9)
    a, b = prior
    c, n = np.arange(law.shape[0])[:, None], np.arange(law.shape[0])[None]
    with np.errstate(invalid="ignore"):
        p = np.where(c <= n, (a + c) / (a + b + n), 0.0)
    assert np.all(found.numerator <= found.denominator)
    exact = {
        "numerator": (found.numerator, c + 0.0 * n),
        "denominator": (found.denominator, n + 0.0 * c),
        "rate": (found.rate, p),
    }
    for values, f in exact.values():
        mean = (law * f).sum()
        sd = max(values.std(), 1e-9)
        assert values.mean() == pytest.approx(mean, abs=4.5 * sd / np.sqrt(draws))
    spread = np.sqrt((law * c**2).sum() - (law * c).sum() ** 2)
    assert found.numerator.std() == pytest.approx(spread, rel=0.04, abs=1e-9)


def test_draws_of_parts_in_both_ways():
    rng = np.random.default_rng(1)
    part, rest = np.exp(-0.5 * ((np.arange(50_000) - 3e4) / 4e3) ** 2), np.ones(60_000)
    rest[:] = (np.arange(rest.size) + 0.5) ** -0.5
    total = np.full(4000, 40_000)
    found = draw_parts(part, rest, total, np.arange(total.size), rng)
    law = part[:40_001] * rest[40_000::-1][:40_001]
    mean = law @ np.arange(law.size) / law.sum()
    sd = np.sqrt(law @ (np.arange(law.size) - mean) ** 2 / law.sum())
    assert found.mean() == pytest.approx(mean, abs=4.5 * sd / np.sqrt(total.size))
    assert found.std() == pytest.approx(sd, rel=0.06)


def test_impossible_and_unbounded():
    none = RateRelease(numerator=5.0, denominator=3.0, mechanism=NoNoise())
    with pytest.raises(ImpossibleReleaseError, match="no true counts"):
        draw_rate(*observations(none), 0, (0.5, 0.5), 10, np.random.default_rng(1))
    capped = Mechanism(Laplace(scale=3.0), [Clamp(upper=50)])
    open_above = RateRelease(numerator=5.0, denominator=50.0, mechanism=capped)
    with pytest.raises(UnsupportedError, match="bound the true one from above"):
        draw_rate(*observations(open_above), 0, (0.5, 0.5), 10, np.random.default_rng(1))
