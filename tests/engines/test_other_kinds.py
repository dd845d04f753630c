"""Posteriors of responses, synthetic rows and selections against enumeration of all tables."""

import numpy as np
import pytest
from scipy import special, stats

import dpbayes as dpb
from dpbayes import simulate
from dpbayes.engines import responses, series
from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.privacy.neighbours import compositions
from dpbayes.releases import (
    DirichletSampling,
    PerturbedSampling,
    QuantileLoss,
    Smoothing,
    WinnerLoss,
    flip_matrix,
)
from dpbayes.releases.series import cosine_basis

SHAPES = np.array([1.0, 2.0, 0.5])
PRIOR = dpb.Dirichlet(concentration=SHAPES)
N = 6
TABLES = np.array(list(compositions(N, 3)))


def fit(release, prior=PRIOR, draws=5000, seed=1):
    return dpb.fit(release, prior, draws=draws, chains=1, random_seed=seed, progressbar=False)


def log_prior(tables=TABLES, shapes=SHAPES):
    n = tables.sum(axis=1)
    log = special.gammaln(shapes + tables) - special.gammaln(shapes) - special.gammaln(tables + 1)
    return log.sum(axis=1) + (
        special.gammaln(shapes.sum()) + special.gammaln(n + 1) - special.gammaln(shapes.sum() + n)
    )


def check_counts(posterior, log_likelihood):
    """Frequencies of whole tables among the draws against their probabilities."""
    logs = log_prior() + log_likelihood
    p = np.exp(logs - special.logsumexp(logs))
    counts = posterior.count.values.reshape(-1, 3)
    seen = np.array([np.sum((counts == t).all(axis=1)) for t in TABLES])
    assert seen.sum() == len(counts)
    few = p * len(counts) < 5
    observed = np.append(seen[~few], seen[few].sum())
    expected = np.append(p[~few], p[few].sum()) * len(counts)
    good = expected > 0
    expected *= observed[good].sum() / expected[good].sum()
    assert stats.chisquare(observed[good], expected[good]).pvalue > 1e-3
    # P given the counts is Dirichlet.
    mean = p @ ((SHAPES + TABLES) / (SHAPES.sum() + N))
    error = posterior.probability.values.reshape(-1, 3).std(axis=0) / np.sqrt(len(counts))
    found = posterior.probability.values.reshape(-1, 3).mean(axis=0)
    assert np.all(np.abs(found - mean) < 5 * error)


# -- responses -------------------------------------------------------------------------


def test_a_table_of_two_flipped_bits():
    release = dpb.ResponseRelease(
        [104, 120, 74, 102], categories=["11", "10", "01", "00"], matrix=flip_matrix(0.25, 0.25)
    )
    found = dpb.fit(release, draws=1500, random_seed=1, progressbar=False)
    assert found.attrs["engine"] == "augmentation"
    assert found.verdict().converged
    p = found.probability.values.reshape(-1, 4)
    np.testing.assert_allclose(p.mean(axis=0), [0.2823, 0.3358, 0.1095, 0.2724], atol=0.004)
    np.testing.assert_allclose(p.std(axis=0), [0.0597, 0.0642, 0.0522, 0.0593], atol=0.003)
    assert np.all(found.total == 400)


def exact_responses(counts, matrix):
    """Posterior over true tables, summed over all ways in which truths could be reported."""
    log_likelihood = np.empty(len(TABLES))
    for i, table in enumerate(TABLES):
        law = {(0, 0, 0): 1.0}
        for x, people in enumerate(table):
            for _ in range(people):
                new = {}
                for seen, mass in law.items():
                    for v in range(3):
                        key = tuple(s + (j == v) for j, s in enumerate(seen))
                        new[key] = new.get(key, 0.0) + mass * matrix[x, v]
                law = new
        mass = law.get(tuple(counts), 0.0)
        log_likelihood[i] = np.log(mass) if mass > 0 else -np.inf
    return log_likelihood


@pytest.mark.parametrize("epsilon", [0.7, 3.0])
def test_responses_against_enumeration(epsilon):
    counts = [3, 1, 2]
    release = dpb.ResponseRelease(counts, categories=list("abc"), epsilon=epsilon)
    logs = exact_responses(counts, release.responses)
    found = fit(release)
    assert found.attrs["engine"] == "exact"
    check_counts(found, logs)
    assert found.attrs["log_evidence"] == pytest.approx(special.logsumexp(log_prior() + logs))
    assert responses.log_evidence(release, PRIOR) == found.attrs["log_evidence"]


def test_augmentation_against_enumeration():
    matrix = np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.0, 0.4, 0.6]])
    release = dpb.ResponseRelease([3, 1, 2], categories=list("abc"), matrix=matrix)
    check_counts(fit(release), exact_responses([3, 1, 2], matrix))


def test_many_answers_in_many_categories():
    rng = np.random.default_rng(2)
    truth = rng.dirichlet(np.full(40, 0.5))
    people = rng.choice(40, size=50_000, p=truth)
    release = simulate.randomized_response(people, categories=range(40), epsilon=2.0, rng=3)
    found = fit(release, dpb.Dirichlet(), draws=500)
    share, counts = release.uniform_share, release.values.values
    naive = release.naive_counts() / 50_000
    spread = np.sqrt(counts) / 50_000 / (1 - share)
    p = found.probability.values[0]
    far = naive > 4 * spread
    assert np.all(np.abs(p.mean(axis=0) - naive)[far] < spread[far])
    np.testing.assert_allclose(p.std(axis=0)[far], spread[far], rtol=0.2)


# -- synthetic rows --------------------------------------------------------------------


def test_smoothed_rows_against_enumeration():
    rows = np.array([4, 0, 3])
    release = dpb.SyntheticRelease(rows, sampling=Smoothing(delta=0.3), total=N)
    check_counts(fit(release), special.xlogy(rows, 0.7 * TABLES / N + 0.1).sum(axis=1))


def test_dirichlet_rows_against_enumeration():
    rows, a = np.array([4, 0, 3]), np.array([0.5, 1.0, 2.0])
    release = dpb.SyntheticRelease(rows, sampling=DirichletSampling(concentration=a), total=N)
    logs = special.gammaln(a + TABLES + rows) - special.gammaln(a + TABLES)
    check_counts(fit(release), logs.sum(axis=1))


@pytest.mark.parametrize(
    ("rows", "law"),
    [
        ((4, 0, 3), dpb.Laplace(scale=2.0)),
        ((40, 0, 25), dpb.Laplace(scale=1.0)),
        ((0, 2, 1), dpb.Gaussian(sd=4.0)),
    ],
)
def test_rows_of_a_perturbed_histogram_against_simulation(rows, law):
    release = dpb.SyntheticRelease(rows, sampling=PerturbedSampling(mechanism=law), total=N)
    rng, logs = np.random.default_rng(4), []
    for table in TABLES:
        noisy = np.maximum(table + law.rvs((60_000, 3), rng), 0.0)
        total = noisy.sum(axis=1, keepdims=True)
        q = np.where(total > 0, noisy / np.where(total > 0, total, 1.0), 1 / 3)
        logs.append(np.log(np.mean(np.exp(special.xlogy(rows, q).sum(axis=1)))))
    check_counts(fit(release, draws=2000), np.array(logs))


def test_more_rows_do_not_shrink_the_interval_below_what_the_release_knows():
    records = np.random.default_rng(1).beta(3, 5, 150)
    source = simulate.perturbed_histogram(records, bins=5, alpha=0.2, rng=2)
    widths = []
    for draws in (200, 20_000, 2_000_000):
        release = simulate.synthetic_rows(source, draws, rng=3)
        found = fit(release, dpb.Dirichlet(), draws=1500)
        widths.append(np.diff(np.quantile(found.P.mean(), [0.05, 0.95]))[0])
    clamped = dpb.HistogramRelease(
        np.maximum(source.values.values, 0),
        mechanism=dpb.Mechanism(source.mechanism.noise, [dpb.Clamp(lower=0)]),
        edges=source.edges, total=150,
    )  # fmt: skip
    known = fit(clamped, dpb.Dirichlet(), draws=2000)
    least = np.diff(np.quantile(known.P.mean(), [0.05, 0.95]))[0]
    # The rows tell the shares of the clamped histogram, the release itself its counts too.
    assert widths[2] > 0.85 * least
    assert widths[1] == pytest.approx(widths[2], rel=0.15)


def test_what_synthetic_rows_cannot_be():
    lattice = PerturbedSampling(mechanism=dpb.DiscreteLaplace(scale=2))
    with pytest.raises(UnsupportedError, match="continuous noise"):
        fit(dpb.SyntheticRelease([1, 2, 3], sampling=lattice, total=N))
    with pytest.raises(UnsupportedError, match="merge cells"):
        fit(dpb.SyntheticRelease([1, 2, 3], sampling=Smoothing(delta=0.5), total=10**8))


# -- selections ------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [WinnerLoss(), QuantileLoss(0.5)])
def test_selections_against_enumeration(loss):
    release = dpb.SelectionRelease(
        "b", outcomes=["a", "b", "c"], loss=loss, alpha=1.5, sensitivity=1.0, total=N
    )
    logs = release.log_probabilities(TABLES)[:, 1]
    found = fit(release)
    check_counts(found, logs)
    exact = special.logsumexp(log_prior() + logs)
    assert found.attrs["log_evidence"] == pytest.approx(exact, abs=0.06)
    assert np.isfinite(found.summary().loc["probability[b]", "learned"])
    with pytest.raises(UnsupportedError, match="no value by cell"):
        found.plot_predictive()


# -- series ----------------------------------------------------------------------------


def test_means_of_cosines_over_cells():
    x = (np.arange(40_000) + 0.5) / 40_000
    dense = cosine_basis(x, 3).reshape(8, 5000, 3).mean(axis=1)
    np.testing.assert_allclose(series.cell_means(3, 8), dense.T, atol=1e-6)


@pytest.mark.parametrize("law", [dpb.Laplace(scale=0.3), dpb.Gaussian(sd=0.25)])
def test_series_against_enumeration(law):
    released = np.array([0.4, -0.3])
    release = dpb.SeriesRelease(released, mechanism=law, total=N)
    truth = TABLES @ series.cell_means(2, 3).T / N
    check_counts(fit(release, draws=3000), law.logpdf(released - truth).sum(axis=1))


def test_a_series_finds_the_distribution():
    records = np.random.default_rng(1).beta(3, 5, 1000)
    release = simulate.orthogonal_series(2 * records, order=3, alpha=2.0, bounds=(0, 2), rng=1)
    found = fit(release, dpb.Dirichlet(), draws=400)
    low, high = np.quantile(found.P.mean(), [0.01, 0.99])
    assert low < 2 * 3 / 8 < high
    assert high - low < 0.12
    assert found.probability.sizes["bin"] == 32
    assert found.summary().loc["P.mean", "naive"] == pytest.approx(2 * 3 / 8, abs=0.08)
    assert found.plot_predictive(rng=1) is not None
    with pytest.raises(UnsupportedError, match="no exact engine"):
        dpb.fit(release, engine="exact")
    plane = simulate.orthogonal_series(
        np.stack([records, records], axis=1), order=1, alpha=1.0, rng=1
    )
    with pytest.raises(UnsupportedError, match="two dimensions"):
        fit(plane, dpb.Dirichlet())


# -- what all share --------------------------------------------------------------------


def test_priors_and_engines_that_do_not_fit():
    release = dpb.ResponseRelease([3, 1, 2], categories=list("abc"), epsilon=1)
    with pytest.raises(UnsupportedError, match="Dirichlet prior"):
        fit(release, dpb.ScaleMixture())
    with pytest.raises(ParameterError, match="one entry per cell"):
        fit(release, dpb.Dirichlet(concentration=[1, 2]))
    with pytest.raises(UnsupportedError, match="engines of its own"):
        dpb.fit(release, engine="nuts")
    other = dpb.ResponseRelease([3, 1, 2], categories=list("abc"), matrix=release.responses)
    with pytest.raises(UnsupportedError, match="state epsilon="):
        dpb.fit(other, engine="exact")


@pytest.mark.parametrize(
    "release",
    [
        dpb.ResponseRelease([3, 1, 2], categories=list("abc"), epsilon=1),
        dpb.ResponseRelease([3, 1, 2], categories=[5, 6, 7], matrix=0.4 * np.eye(3) + 0.2),
        dpb.SyntheticRelease([3, 1], sampling=Smoothing(delta=0.5), total=9, edges=[0, 1, 2]),
        dpb.SyntheticRelease(
            [3, 1], sampling=DirichletSampling(concentration=[1, 2]), total=9,
            coords={"shop": ["a", "b"], "region": ("shop", ["x", "y"])}, attrs={"unit": "rows"},
        ),
        dpb.SyntheticRelease(
            [3, 1], sampling=PerturbedSampling(mechanism=dpb.Laplace(scale=2)), total=9
        ),
        dpb.SeriesRelease([0.1, 0.2], mechanism=dpb.Laplace(scale=0.1), total=9, bounds=[(0, 5)]),
        dpb.SelectionRelease(
            20, outcomes=[10, 20], loss=WinnerLoss(), alpha=1, sensitivity=1, total=9
        ),
        dpb.SelectionRelease(
            20, outcomes=[10, 20, 30], loss=QuantileLoss(0.5), alpha=1, sensitivity=1, total=9,
            edges=[0, 10, 20, 30],
        ),
        dpb.SelectionRelease(
            20, outcomes=[10, 20, 30], loss=QuantileLoss(0.5), alpha=1, sensitivity=1, total=9,
            cells=3,
        ),
    ],
    ids=lambda release: type(release).__name__,
)  # fmt: skip
def test_posteriors_are_saved_and_read_back(release, tmp_path):
    found = fit(release, dpb.Dirichlet(), draws=20)
    found.save(tmp_path / "posterior.nc")
    again = dpb.load(tmp_path / "posterior.nc")
    assert again.release == release
    assert again == found


def test_summary_verdict_and_predictive_check():
    release = dpb.SyntheticRelease(
        [40, 0, 30, 5], sampling=Smoothing(delta=0.3), total=200, edges=[0, 1, 2, 3, 4]
    )
    found = fit(release, dpb.Dirichlet(), draws=400)
    summary = found.summary()
    assert summary.loc["P.mean", "naive"] == pytest.approx(
        np.dot([40, 0, 30, 5], [0.5, 1.5, 2.5, 3.5]) / 75
    )
    assert "exact and independent" in str(found.verdict())
    assert found.plot_predictive(rng=1) is not None
