"""The learned mixture of scales: tables, draws of counts, prior, verdict."""

import numpy as np
import pytest
from scipy import stats

import dpbayes as dpb
from dpbayes.engines import mixture, scale_cells, scale_prior
from dpbayes.engines.likelihood import Likelihood
from dpbayes.engines.nesting import structure
from dpbayes.engines.scale_weights import WeightChains
from dpbayes.errors import ImpossibleReleaseError, UnsupportedError
from dpbayes.kernels import mixture as kernel
from dpbayes.kernels.scale_weights import weights_at
from dpbayes.mechanism import Clamp, Mechanism

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
@pytest.mark.parametrize("tilt", [0.0, 0.05, -0.1])
def test_evidence_and_moments_of_components_by_brute_force(law, density, tilt):
    values = np.array([0.0, 7.0, 31.0, 70.0, -6.0])
    release = dpb.HistogramRelease(values, mechanism=law)
    found = scale_cells.tabulate(Likelihood(release.observations()), MEANS, SHAPE, None, tilt)
    m = np.arange(1500.0)
    said = density(values[:, None] - m) * np.exp(tilt * m)
    joint = negative_binomial(m)[None] * said[:, None]
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


class FixedWeights(WeightChains):
    """A sampler of the weights that has but one value."""

    lost = 0

    def __init__(self, model, chains, *_):
        self.model = model
        a, b, c, _ = model.prior
        logs = np.log(WEIGHTS)
        self._x = np.concatenate([[(logs[0] - logs[1] - a) / b], np.diff(logs[1:]) / c])
        np.testing.assert_allclose(weights_at(self._x, model.prior), WEIGHTS, rtol=1e-12)
        self.positions = [self._x] * chains

    def draw(self, chain, draws):
        return np.tile(self._x, (draws, 1))

    def weights(self, draws):
        return np.broadcast_to(WEIGHTS, (len(self.positions), draws, WEIGHTS.size))


def fixed_draws(monkeypatch, release, draws=5000):
    monkeypatch.setattr(mixture, "WeightChains", FixedWeights)
    # `component_means` spaces the components; the weights are for four of them.
    monkeypatch.setattr(dpb.ScaleMixture, "component_means", lambda *_: MEANS)
    return mixture.draw_posterior(release, PRIOR, draws, 2, 10, np.random.SeedSequence(4))


def chi_square(draws, mass):
    """p-value of draws of counts against their mass."""
    expected = mass / mass.sum() * draws.size
    seen = np.bincount(draws.ravel(), minlength=mass.size).astype(float)
    assert seen.size == mass.size
    seen = seen[: mass.size]
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


@pytest.mark.parametrize("total", [20, 47, 90])
def test_cells_with_a_public_total_given_the_weights(monkeypatch, total):
    drawn = fixed_draws(monkeypatch, dpb.HistogramRelease(VALUES, mechanism=LAW, total=total))
    _, f = leaves()
    got = drawn.count.reshape(-1, 4)
    assert np.all(got.sum(axis=1) == total)
    for j in range(4):
        rest = np.ones(1)
        for i in range(4):
            if i != j:
                rest = np.convolve(rest, f[i])[: total + 1]
        mass = f[j, : total + 1] * rest[: total + 1][::-1]
        assert chi_square(got[:, j], mass) > 1e-4
    pair = np.convolve(f[0], f[1])[: total + 1] * np.convolve(f[2], f[3])[: total + 1][::-1]
    assert chi_square(got[:, 0] + got[:, 1], pair) > 1e-4


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


def test_small_counts_that_the_noise_hides_are_flagged():
    rng = np.random.default_rng(4)
    law = dpb.DiscreteLaplace(scale=20)
    truth = rng.poisson(np.repeat([3.0, 500.0], 24))
    release = dpb.HistogramRelease(truth + law.rvs(48, rng), mechanism=law)
    verdict = dpb.fit(release, draws=250, random_seed=1, progressbar=False).verdict()
    flagged = {int(n[6:-1]) for n in verdict.prior_dominated if n.startswith("count[")}
    assert len(flagged & set(range(24))) > 18
    assert not flagged & set(range(24, 48))
    assert "zeros and small counts: there the prior speaks" in str(verdict)
    # With little noise the same table is told.
    law = dpb.DiscreteLaplace(scale=0.5)
    release = dpb.HistogramRelease(truth + law.rvs(48, rng), mechanism=law)
    verdict = dpb.fit(release, draws=250, random_seed=1, progressbar=False).verdict()
    assert not verdict.prior_dominated


def test_too_few_draws_are_said_to_be_too_few():
    release = dpb.HistogramRelease([40, 3, 120, 7, 66, 0], mechanism=LAW)
    posterior = dpb.fit(release, draws=20, chains=2, random_seed=1, progressbar=False)
    verdict = posterior.verdict()
    assert not verdict.converged
    assert "ESS" in str(verdict)


# -- weights under sums: the second stage of acceptance ----------------------------------


def moments_of_weights(release, prior, draws, seed, tune=300):
    """Means of a few functions of the weights over draws, and their sd."""
    found = mixture.draw_posterior(release, prior, draws, 4, tune, np.random.SeedSequence(seed))
    w = np.concatenate([found.spike[..., None], found.weights], axis=-1)
    return functions(w.reshape(-1, w.shape[-1]))


def functions(w):
    return np.stack([w[:, 0], w[:, 1] + w[:, 2], np.log(w[:, -1] + w[:, -2])], axis=1)


@pytest.mark.parametrize("kind", ["public total", "noisy total"])
def test_weights_have_the_exact_law_of_sums(kind):
    # Two cells, one of them unknown: the law of their sum is far from normal.
    law = dpb.DiscreteLaplace(scale=3)
    values = np.array([25.0, np.nan])
    mechanism = Mechanism(law, [dpb.Suppress(below=18)])
    release = dpb.HistogramRelease(
        values, mechanism=mechanism, total=31 if kind == "public total" else None
    )
    if kind == "noisy total":
        release = release.with_margin(31, by=(), mechanism=dpb.DiscreteLaplace(scale=1.5))
    prior = dpb.ScaleMixture(means=(2.0, 60.0), shape=4.0)
    nest = structure(release)
    means = scale_cells.component_means(release, prior, nest)
    walk = prior.walk(means)
    m = np.arange(400.0)
    laws = np.array([
        m == 0, *(stats.nbinom(4.0, 4.0 / (4.0 + mu)).pmf(m) for mu in means)
    ], dtype=float)  # fmt: skip
    # Direct: draws of the prior, weighted by the evidence from convolutions.
    rng = np.random.default_rng(8)
    x = rng.standard_normal((20_000, means.size))
    x[:, 1:] *= np.exp(walk[3] * rng.standard_normal((20_000, 1)))
    w = np.array([weights_at(row, walk) for row in x])
    said = np.array([np.exp(nest.cells(np.full(m.size, j), m)) for j in range(2)])
    tables = (w @ laws)[:, None, :] * said
    if kind == "public total":
        evidence = np.sum(tables[:, 0, :32] * tables[:, 1, 31::-1], axis=1)
    else:
        size = 1024
        sums = np.fft.irfft(np.fft.rfft(tables, size).prod(axis=1), size)[:, :800]
        evidence = sums @ np.exp(-np.abs(31 - np.arange(sums.shape[1])) / 1.5)
    weight = evidence / evidence.sum()
    assert 1.0 / np.sum(weight**2) > 2000
    exact = functions(w)
    mean = weight @ exact
    sd = np.sqrt(weight @ (exact - mean) ** 2)
    got = moments_of_weights(release, prior, 200, 5)
    error = sd * np.sqrt(np.sum(weight**2) + 1 / 200)  # draws of a chain are not independent
    assert np.all(np.abs(got.mean(axis=0) - mean) < 4 * error), (got.mean(axis=0), mean, error)


# -- prior --------------------------------------------------------------------------------


def test_prior_without_a_total():
    prior, law = dpb.ScaleMixture(means=(3.0, 60.0)), dpb.DiscreteLaplace(scale=4)
    release = dpb.HistogramRelease(np.zeros(6), mechanism=law)
    drawn = scale_prior.draw_prior(release, prior, 20_000, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn["total"], drawn["count"].sum(axis=1))
    # Expected counts of a cell given the weights, averaged over draws of them.
    rng = np.random.default_rng(1)
    means = prior.component_means(np.zeros(6), 5.0)
    walk = prior.walk(means)
    x = rng.standard_normal((20_000, means.size))
    x[:, 1:] *= np.exp(walk[3] * rng.standard_normal((20_000, 1)))
    w = np.array([weights_at(row, walk) for row in x])
    expected = w[:, 1:] @ means
    for j in (0, 5):
        error = np.hypot(drawn["count"][:, j].std(), expected.std()) / np.sqrt(20_000)
        assert abs(drawn["count"][:, j].mean() - expected.mean()) < 4 * error
    empty = w[:, 0] + w[:, 1:] @ (1 + means / prior.shape) ** -prior.shape
    error = np.sqrt(0.25 / 20_000 + empty.var() / 20_000)
    assert abs(np.mean(drawn["count"][:, 3] == 0) - empty.mean()) < 4 * error


@pytest.mark.parametrize("total", [0, 1, 60, 200])
def test_prior_with_a_total_is_the_prior_given_that_total(total):
    prior, law = dpb.ScaleMixture(means=(3.0, 60.0)), dpb.DiscreteLaplace(scale=4)
    free = dpb.HistogramRelease(np.zeros(6), mechanism=law)
    fixed = dpb.HistogramRelease(np.zeros(6), mechanism=law, total=total)
    drawn = scale_prior.draw_prior(fixed, prior, 4000, np.random.default_rng(2))
    assert np.all(drawn["count"].sum(axis=1) == total)
    assert np.all(drawn["count"][np.nan_to_num(drawn["probability"]) == 0] == 0)
    if total == 0:
        return
    # Draws without a total, those within a few of it and stretched to it.
    many = scale_prior.draw_prior(free, prior, 400_000, np.random.default_rng(3))
    near = np.abs(many["total"] - total) <= (0 if total == 1 else total // 20)
    assert near.sum() > 700
    share = many["count"][near] / many["total"][near, None]
    got = drawn["count"] / total
    for get in (lambda s: s.max(axis=1), lambda s: (s == 0).sum(axis=1), lambda s: s[:, 2]):
        a, b = get(got), get(share)
        error = np.hypot(a.std() / np.sqrt(1500), b.std() / np.sqrt(b.size))
        assert abs(a.mean() - b.mean()) < 4 * error + 0.004, (a.mean(), b.mean(), error)
    # Rates given the counts: more where there is more, and zero only with a zero count.
    positive = drawn["count"].ravel() > 5
    if positive.sum() > 500:
        ratio = drawn["probability"].ravel()[positive] / (drawn["count"].ravel()[positive] / total)
        assert 0.8 < np.median(ratio) < 1.2


@pytest.mark.slow
@pytest.mark.parametrize("total", [None, 60])
def test_ranks_under_data_drawn_from_the_prior(total):
    prior, law = dpb.ScaleMixture(means=(3.0, 60.0)), dpb.DiscreteLaplace(scale=4)
    rng = np.random.default_rng(20)
    template = dpb.HistogramRelease(np.zeros(8), mechanism=law, total=total)
    reps, bins, draws = 160, 8, 100
    truths = mixture.draw_prior(template, prior, reps, rng)["count"]
    ranks, covered = [], []
    for rep, truth in enumerate(truths):
        release = dpb.HistogramRelease(truth + law.rvs(8, rng), mechanism=law, total=total)
        found = dpb.fit(release, prior, draws=draws, chains=2, random_seed=rep, progressbar=False)
        count, sums = found.count.values.reshape(-1, 8), found.total.values.ravel()
        low, high = np.quantile(count, [0.05, 0.95], axis=0)
        covered.append(np.mean((low <= truth) & (truth <= high)))
        pairs = [(count[:, 0], truth[0]), (count[:, 1] + count[:, 2], truth[1:3].sum())]
        pairs.append((count.max(axis=1), truth.max()) if total else (sums, truth.sum()))
        for got, true in pairs:
            rank = np.sum(got < true) + rng.uniform(0, np.sum(got == true) + 1)
            ranks.append(rank / (got.size + 1))
    for column in np.array(ranks).reshape(-1, 3).T:
        seen = np.histogram(column, bins, (0, 1))[0]
        assert stats.chisquare(seen).pvalue > 1e-3, seen
    assert np.mean(covered) > 0.87


# -- extremes -----------------------------------------------------------------------------


def test_a_total_of_zero():
    release = dpb.HistogramRelease([3.0, -2.0, 0.0], mechanism=LAW, total=0)
    posterior = dpb.fit(release, draws=100, random_seed=1, progressbar=False)
    assert np.all(posterior.count == 0)
    assert posterior.verdict().converged


def test_a_total_far_from_the_sum_of_the_values():
    law = dpb.DiscreteLaplace(scale=10)
    values = np.array([12.0, 30.0, -4.0, 55.0, 21.0, 8.0])
    for total in (470, 3):  # 10 sds of the sum's noise above, far below
        release = dpb.HistogramRelease(values, mechanism=law, total=total)
        found = dpb.fit(release, draws=300, random_seed=2, progressbar=False)
        assert np.all(found.count.sum("cell") == total)
        assert found.verdict().diagnostics["max_rhat"] < 1.1


def test_a_total_out_of_reach_says_so():
    release = dpb.HistogramRelease([10, 20, 30], mechanism=dpb.Laplace(scale=2), total=10**8)
    with pytest.raises((UnsupportedError, ImpossibleReleaseError), match="public total 100000000"):
        dpb.fit(release, draws=50, progressbar=False)
