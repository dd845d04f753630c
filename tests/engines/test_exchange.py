"""Crossing margins against enumeration of every table."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import dpbayes as dpb
from dpbayes.engines import exchange
from dpbayes.errors import UnsupportedError
from dpbayes.mechanism import bounds_log_likelihood

SHAPE, RATE, LARGEST = 0.7, 0.4, 12


def crossed(total):
    cells = dpb.DiscreteLaplace(scale=2.0)
    release = dpb.HistogramRelease(
        [[3, 5], [-1, 7]], mechanism=cells, coords={"a": ["x", "y"], "b": [1, 2]}, total=total
    )
    release = release.with_margin([9, 5], by="a", mechanism=dpb.DiscreteLaplace(scale=1.0))
    return release.with_margin([2.3, 10.9], by="b", mechanism=dpb.Gaussian(sd=1.5))


def enumerate_posterior(release):
    """Means and sds of the counts, by a sum over all tables."""
    tables = np.array(list(itertools.product(range(LARGEST + 1), repeat=4)), dtype=float)
    if release.total is not None:
        tables = tables[tables.sum(axis=1) == release.total]
    log_p = (gammaln(tables + SHAPE) - gammaln(tables + 1)).sum(axis=1)
    if release.total is None:
        log_p -= tables.sum(axis=1) * np.log1p(RATE)
    seen = release.observations()
    log_p += bounds_log_likelihood(seen.noise, seen.bounds, tables).sum(axis=1)
    for margin in release.margins:
        seen = margin.observations()
        log_p += bounds_log_likelihood(seen.noise, seen.bounds, margin.sums(tables)).sum(axis=1)
    weight = np.exp(log_p - logsumexp(log_p))
    mean = weight @ tables
    return mean, np.sqrt(weight @ (tables - mean) ** 2)


@pytest.mark.parametrize("total", [13, None])
def test_means_and_sds_agree_with_enumeration(total):
    release = crossed(total)
    prior = dpb.Dirichlet(concentration=SHAPE, rate=None if total else RATE)
    posterior = dpb.fit(release, prior, draws=3000, random_seed=4, progressbar=False)
    assert posterior.attrs["engine"] == "exchange"
    assert posterior.verdict().converged
    mean, sd = enumerate_posterior(release)
    counts = posterior.count.values.reshape(-1, 4)
    error = sd / np.sqrt(posterior.attrs["min_ess"])
    assert np.all(np.abs(counts.mean(axis=0) - mean) < 4 * error)
    assert np.all(np.abs(counts.std(axis=0) / sd - 1) < 4 / np.sqrt(posterior.attrs["min_ess"]))
    if total is not None:
        assert np.all(counts.sum(axis=1) == total)


def test_margins_shrink_what_they_tell():
    release = crossed(None)
    prior = dpb.Dirichlet(rate=0.1)
    with_margins = dpb.fit(release, prior, draws=500, random_seed=4, progressbar=False)
    alone = exchange.replace_margins(release, ())
    without = dpb.fit(alone, prior, draws=500, random_seed=4, progressbar=False)
    assert with_margins.margin("a").std() < 0.7 * without.margin("a").std()


def test_draws_repeat_by_seed():
    release, prior = crossed(13), dpb.Dirichlet()
    first, again, other = (
        dpb.fit(release, prior, draws=50, chains=2, random_seed=s, progressbar=False).count
        for s in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_nested_margins_do_not_cross():
    release = crossed(None)
    assert exchange.crossing(release)
    assert not exchange.crossing(exchange.replace_margins(release, release.margins[:1]))


def test_priors_without_an_engine_are_refused():
    with pytest.raises(UnsupportedError, match="need a Dirichlet prior"):
        dpb.fit(crossed(13), random_seed=1, progressbar=False)
    with pytest.raises(UnsupportedError, match="given concentration"):
        dpb.fit(
            crossed(13), dpb.Dirichlet(concentration="learned"), random_seed=1, progressbar=False
        )
