"""The learned mixture of scales: compiled log posterior, tables, draws, verdict."""

import numpy as np
import pytest
from scipy import stats

import dpbayes as dpb
from dpbayes.engines import mixture
from dpbayes.engines.likelihood import Likelihood
from dpbayes.kernels import mixture as kernel
from dpbayes.mechanism import Clamp, Mechanism

SCALE_PRIOR = (-0.5, 0.3)
NOTHING = np.empty((0, 0))
NO_INDEX = np.empty(0, dtype=np.int64)


# -- log posterior of the weights --------------------------------------------------------


def cells_of(seed, cells=7, components=5):
    rng = np.random.default_rng(seed)
    evidence = rng.uniform(0.05, 1.0, (cells, components + 1))
    mean = rng.uniform(0.0, 40.0, evidence.shape)
    return evidence, mean, mean**2 + rng.uniform(0.5, 60.0, evidence.shape)


#: Two regions and a world: groups 0 and 1 hold the cells, 2 is the root.
GROUPS = np.array([0, 0, 0, 1, 1, 1, 1])
PARENT = np.array([2, 2, -1])
SUMS = {
    "cells only": None,
    "public total": (np.zeros(7, int), np.array([-1]), np.array([np.nan]), np.zeros(1), 130.0),
    "noisy total": (np.zeros(7, int), np.array([-1]), np.array([120.0]), np.array([9.0]), np.nan),
    "noisy regions": (
        GROUPS, PARENT, np.array([70.0, 40.0, np.nan]), np.array([4.0, 8.0, 0]), np.nan,
    ),
    "one region without noise": (
        GROUPS, PARENT, np.array([70.0, np.nan, np.nan]), np.array([0.0, 0, 0]), np.nan,
    ),
    "regions, total and public total": (
        GROUPS, PARENT, np.array([70.0, 40.0, 125.0]), np.array([4.0, 8.0, 3.0]), 131.0,
    ),
}  # fmt: skip


def arguments(seed, sums):
    evidence, mean, square = cells_of(seed)
    if sums is None:
        copies = np.array([1.0, 3, 1, 2, 1, 1, 5])
        nothing = (NOTHING, NOTHING, NO_INDEX, NO_INDEX, np.empty(0), np.empty(0), np.nan)
        return (evidence, copies, *nothing, SCALE_PRIOR)
    return (evidence, np.ones(7), mean, square, *sums, SCALE_PRIOR)


def weights_of(x):
    walk = np.concatenate([[0.0], np.cumsum(np.exp(x[1]) * x[2:])])
    spike = 1.0 / (1.0 + np.exp(-x[0]))
    return np.concatenate([[spike], (1 - spike) * np.exp(walk) / np.exp(walk).sum()])


def expected_log_posterior(x, seed, sums):
    """Log posterior from its definition, sums as one multivariate normal law."""
    evidence, mean, square = cells_of(seed)
    w = weights_of(x)
    copies = np.array([1.0, 3, 1, 2, 1, 1, 5]) if sums is None else np.ones(7)
    f = evidence @ w
    value = copies @ np.log(f)
    # Beta(1/2, 1/2) in the log odds; normal laws of the log scale and of the increments.
    value += 0.5 * np.log(w[0] * (1 - w[0]))
    value += stats.norm.logpdf(x[1], *SCALE_PRIOR) + stats.norm.logpdf(x[2:]).sum()
    if sums is None:
        return value
    leaf_group, parent, released, noise, total = sums
    r = w * evidence / f[:, None]
    m = (r * mean).sum(axis=1)
    v = (r * square).sum(axis=1) - m**2
    member = np.zeros((parent.size, 7))
    for j, g in enumerate(leaf_group):
        while g >= 0:
            member[g, j] = 1.0
            g = parent[g]
    seen = ~np.isnan(released)
    rows, y, extra = member[seen], released[seen], noise[seen]
    if not np.isnan(total):
        rows, y, extra = np.vstack([rows, member[-1]]), [*y, total], [*extra, 0.25]
    covariance = rows @ np.diag(v) @ rows.T + np.diag(extra)
    return value + stats.multivariate_normal.logpdf(y, rows @ m, covariance)


@pytest.mark.parametrize("sums", SUMS.values(), ids=SUMS)
@pytest.mark.parametrize("seed", [0, 1])
def test_log_posterior_and_its_gradient(sums, seed):
    args = arguments(seed, sums)
    rng = np.random.default_rng(seed + 10)
    offsets = []
    for _ in range(4):
        x = rng.normal(0.0, 0.8, 6)
        value, gradient = kernel.log_posterior(x, *args)
        offsets.append(value - expected_log_posterior(x, seed, sums))
        step = 1e-5
        numeric = [
            (kernel.log_posterior(x + step * e, *args)[0]
             - kernel.log_posterior(x - step * e, *args)[0]) / (2 * step)
            for e in np.eye(6)
        ]  # fmt: skip
        np.testing.assert_allclose(gradient, numeric, rtol=2e-6, atol=2e-6)
    assert np.ptp(offsets) < 1e-9  # the same but for a constant


def test_log_posterior_far_out_is_finite():
    args = arguments(0, None)
    for x in (np.full(6, 30.0), np.full(6, -30.0), np.array([800.0, 0, 0, 0, 0, 0])):
        x[1] = min(max(x[1], -5.0), 3.0)
        value, gradient = kernel.log_posterior(x, *args)
        assert np.isfinite(value)
        assert np.all(np.isfinite(gradient))


# -- evidence of components --------------------------------------------------------------

MEANS, SHAPE = np.array([2.0, 6.0, 20.0, 60.0]), 10.0


def negative_binomial(counts):
    laws = [stats.nbinom(SHAPE, SHAPE / (SHAPE + m)).pmf(counts) for m in MEANS]
    return np.array([np.where(counts == 0, 1.0, 0.0), *laws])


@pytest.mark.parametrize(
    ("law", "density"),
    [
        (dpb.Laplace(scale=4), lambda x: stats.laplace.pdf(x, scale=4)),
        (dpb.Gaussian(sd=3), lambda x: stats.norm.pdf(x, scale=3)),
        (dpb.DiscreteLaplace(scale=4), lambda x: np.exp(-np.abs(x) / 4)),
        (dpb.DiscreteGaussian(sigma=3), lambda x: np.exp(-(x**2) / 18)),
    ],
)
def test_evidence_and_moments_of_components_by_brute_force(law, density):
    values = np.array([0.0, 7.0, 31.0, 70.0, -6.0])
    release = dpb.HistogramRelease(values, mechanism=law)
    found = mixture._tabulate(Likelihood(release.observations()), MEANS, SHAPE, None)
    m = np.arange(1500.0)
    joint = negative_binomial(m)[None] * density(values[:, None] - m)[:, None]
    evidence = joint.sum(axis=2)
    scaled = found.evidence / found.evidence.max(axis=1, keepdims=True)
    np.testing.assert_allclose(
        scaled, evidence / evidence.max(axis=1, keepdims=True), rtol=1e-9, atol=1e-18
    )
    seen = scaled > 1e-9
    np.testing.assert_allclose(found.mean[seen], ((joint @ m) / evidence)[seen], rtol=1e-8)
    np.testing.assert_allclose(found.square[seen], ((joint @ m**2) / evidence)[seen], rtol=1e-8)


# -- counts given the weights ------------------------------------------------------------

VALUES, LAW = np.array([9.0, 21.0, 0.0, 14.0]), dpb.DiscreteLaplace(scale=3)
WEIGHTS = np.array([0.3, 0.1, 0.25, 0.3, 0.05])
PRIOR = dpb.ScaleMixture(means=(2.0, 60.0), shape=SHAPE)
COORDS = {"shop": list("abcd"), "region": ("shop", ["n", "n", "s", "s"])}


def fixed_draws(monkeypatch, release, draws=5000):
    monkeypatch.setattr(
        mixture, "_sample_weights",
        lambda *args, **_: np.broadcast_to(WEIGHTS, (2, args[3], WEIGHTS.size)).copy(),
    )  # fmt: skip
    # `component_means` spaces the components; the weights are for four of them.
    monkeypatch.setattr(dpb.ScaleMixture, "component_means", lambda *_: MEANS)
    return mixture.draw_posterior(release, PRIOR, draws, 2, 10, np.random.SeedSequence(4))


def chi_square(draws, mass):
    """p-value of draws of counts against their mass."""
    expected = mass / mass.sum() * draws.size
    seen = np.bincount(draws.ravel(), minlength=mass.size).astype(float)
    assert seen.size == mass.size
    big = expected > 8
    assert big.sum() >= 3
    pairs = [(seen[big], expected[big]), ([seen[~big].sum()], [max(expected[~big].sum(), 1e-9)])]
    gap = sum(np.sum((np.array(s) - e) ** 2 / e) for s, e in pairs if np.sum(e) > 5)
    return stats.chi2.sf(gap, int(big.sum()))


def leaves(cap=160):
    m = np.arange(cap + 1.0)
    return m, (WEIGHTS @ negative_binomial(m)) * np.exp(-np.abs(VALUES[:, None] - m) / 3)


def test_independent_cells_given_the_weights(monkeypatch):
    drawn = fixed_draws(monkeypatch, dpb.HistogramRelease(VALUES, mechanism=LAW))
    _, f = leaves()
    for j in range(4):
        assert chi_square(drawn.count[..., j], f[j]) > 1e-4
    np.testing.assert_array_equal(drawn.total, drawn.count.sum(axis=-1))
    # Rates are Gamma given the count and the component.
    assert np.all(drawn.count[drawn.probability == 0] == 0)


@pytest.mark.parametrize("public", [True, False])
def test_cells_tied_by_sums_given_the_weights(monkeypatch, public):
    release = dpb.HistogramRelease(
        VALUES, mechanism=LAW, coords=COORDS, total=47 if public else None
    ).with_margin({"n": 36, "s": 10}, by="region", mechanism=dpb.DiscreteLaplace(scale=2))
    drawn = fixed_draws(monkeypatch, release)
    m, f = leaves()
    sums = np.arange(2 * m.size - 1)
    said = np.exp(-np.abs(np.array([[36], [10]]) - sums) / 2)
    regions = np.array([np.convolve(f[0], f[1]), np.convolve(f[2], f[3])]) * said
    if public:
        north = regions[0, :48] * regions[1, 47::-1]
        weight = {0: north, 1: north[::-1]}
    else:
        weight = {0: regions[0], 1: regions[1]}
    got = drawn.count.reshape(-1, 4)
    assert chi_square(got[:, 0] + got[:, 1], weight[0]) > 1e-4
    assert chi_square(got[:, 2] + got[:, 3], weight[1]) > 1e-4
    # Cell "c" given its region's law: split of each region's sum.
    mass = np.zeros(m.size)
    whole = np.convolve(f[2], f[3])
    for s, w in enumerate(weight[1]):
        if w > 0:
            k = np.arange(min(s, m.size - 1) + 1)
            k = k[s - k < m.size]
            mass[k] += w * f[2, k] * f[3, s - k] / whole[s]
    assert chi_square(got[:, 2], mass) > 1e-4
    if public:
        assert np.all(got.sum(axis=1) == 47)


def test_rates_given_counts_have_the_mean_of_their_mixture():
    rng = np.random.default_rng(0)
    counts = np.tile([0, 3, 12, 40], (60_000, 1))
    rates = np.empty(counts.shape)
    kernel.rates_given_counts(rng, counts, WEIGHTS, MEANS, SHAPE, rates)
    for j, m in enumerate([0, 3, 12, 40]):
        r = WEIGHTS * negative_binomial(np.array([float(m)]))[:, 0]
        r /= r.sum()
        means = np.array([0.0, *((SHAPE + m) / (SHAPE / MEANS + 1))])
        squares = np.array([0.0, *((SHAPE + m) * (SHAPE + m + 1) / (SHAPE / MEANS + 1) ** 2)])
        sd = np.sqrt(r @ squares - (r @ means) ** 2)
        assert abs(rates[:, j].mean() - r @ means) < 4 * sd / np.sqrt(60_000)
        share = np.mean(rates[:, j] == 0)
        assert abs(share - r[0]) < 4 * np.sqrt(r[0] * (1 - r[0]) / 60_000) + 1e-12


# -- verdict and edges -------------------------------------------------------------------


def test_a_table_of_zeros_has_draws_without_any_record_and_says_so():
    release = dpb.HistogramRelease(
        np.zeros(40), mechanism=Mechanism(dpb.DiscreteLaplace(scale=2), [Clamp(lower=0)])
    )
    posterior = dpb.fit(release, draws=150, chains=2, random_seed=1, progressbar=False)
    total, probability = posterior.total, posterior.probability
    empty = probability.isnull().all("cell")
    assert empty.any()
    assert np.all(total.values[empty.values] == 0)  # no rate, no record
    np.testing.assert_allclose(probability.sum("cell", skipna=False).values[~empty.values], 1.0)
    verdict = posterior.verdict()
    assert "the table is empty" in str(verdict)
    assert np.all(np.isfinite(posterior.summary()[["mean", "lower", "upper"]].to_numpy()))


def test_the_verdict_tells_rhat_and_effective_sample_size():
    release = dpb.HistogramRelease([40, 3, 120, 7, 66, 0], mechanism=LAW)
    posterior = dpb.fit(release, draws=200, random_seed=1, progressbar=False)
    verdict = posterior.verdict()
    assert verdict.diagnostics["engine"] == "mixture"
    assert verdict.diagnostics["max_rhat"] < 1.05
    assert verdict.diagnostics["min_ess"] > 100
    assert "R-hat" in str(verdict)


def test_too_few_draws_are_said_to_be_too_few():
    release = dpb.HistogramRelease([40, 3, 120, 7, 66, 0], mechanism=LAW)
    posterior = dpb.fit(release, draws=20, chains=2, random_seed=1, progressbar=False)
    verdict = posterior.verdict()
    assert not verdict.converged
    assert "ESS" in str(verdict)


# -- simulation-based calibration --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("public", [False, True])
def test_ranks_under_data_drawn_from_the_prior(public):
    # With a public total the model is that of rates, given the sum of counts.
    prior = dpb.ScaleMixture(means=(3.0, 60.0))
    law = dpb.DiscreteLaplace(scale=4)
    rng = np.random.default_rng(20)
    template = dpb.HistogramRelease(np.zeros(8), mechanism=law)
    reps, bins, draws = 160 if not public else 100, 8, 100
    ranks, covered = [], []
    for rep in range(reps):
        truth = mixture.draw_prior(template, prior, 1, rng)["count"][0]
        n = int(truth.sum())
        if public and n == 0:
            continue
        release = dpb.HistogramRelease(
            truth + law.rvs(8, rng), mechanism=law, total=n if public else None
        )
        found = dpb.fit(release, prior, draws=draws, chains=2, random_seed=rep, progressbar=False)
        count, total = found.count.values.reshape(-1, 8), found.total.values.ravel()
        low, high = np.quantile(count, [0.05, 0.95], axis=0)
        covered.append(np.mean((low <= truth) & (truth <= high)))
        for got, true in ((count[:, 0], truth[0]), (count[:, 1] + count[:, 2], truth[1:3].sum()),
                          (total, n)):  # fmt: skip
            rank = np.sum(got < true) + rng.uniform(0, np.sum(got == true) + 1)
            ranks.append(rank / (got.size + 1))
    ranks = np.array(ranks).reshape(-1, 3)
    for column in ranks.T[: 2 if public else 3]:
        seen = np.histogram(column, bins, (0, 1))[0]
        assert stats.chisquare(seen).pvalue > 1e-3, seen
    assert np.mean(covered) > 0.86
