"""fit(): arguments, seeds, the laws of its draws, calibration, and why steps must be modelled."""

import numpy as np
import pytest
from scipy import stats

import dpbayes as dpb
from dpbayes.errors import ImpossibleReleaseError, ParameterError, UnsupportedError

LAW = dpb.DiscreteLaplace(scale=5)


def release(values=(31, 12, 25, -4), total=70, mechanism=LAW, **options):
    return dpb.HistogramRelease(values, mechanism=mechanism, total=total, **options)


def fit(rel, draws=1000, seed=1, prior=None, chains=1):
    prior = dpb.Dirichlet() if prior is None else prior
    return dpb.fit(rel, prior, draws=draws, chains=chains, random_seed=seed, progressbar=False)


def test_seed_from_a_generator():
    release = dpb.HistogramRelease([5, 9], mechanism=dpb.DiscreteLaplace(scale=2))

    def seeds(generator):
        return [fit(release, seed=generator).attrs["random_seed"] for _ in range(2)]

    first = seeds(np.random.default_rng(1))
    assert first == seeds(np.random.default_rng(1))
    assert first[0] != first[1]


@pytest.mark.parametrize("total", [70, None])
def test_the_same_seed_repeats(total):
    a, b = fit(release(total=total)), fit(release(total=total))
    assert a == b
    assert not a.data.identical(fit(release(total=total), seed=2).data)


@pytest.mark.parametrize("total", [70, None])
def test_other_seeds_agree_in_law(total):
    a, b = (fit(release(total=total), draws=8000, seed=s) for s in (1, 2))
    for name in ("probability", "count"):
        for j in range(4):
            x, y = (p.data["posterior"][name].values[0, :, j] for p in (a, b))
            assert stats.ks_2samp(x, y).pvalue > 1e-3
            assert abs(np.corrcoef(x, y)[0, 1]) < 4 / np.sqrt(8000)


def test_chains_are_independent():
    p = fit(release(), draws=8000, chains=2).probability.values
    assert abs(np.corrcoef(p[0, :, 0], p[1, :, 0])[0, 1]) < 4 / np.sqrt(8000)
    assert stats.ks_2samp(p[0, :, 0], p[1, :, 0]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"values": (29, 14, 25, -4)}),
        ({}, {"total": 71}),
        # Only the labels differ: two arms of one shape that happened to publish the same.
        (
            {"coords": {"cell": ["a", "b", "c", "d"]}},
            {"coords": {"cell": ["e", "f", "g", "h"]}},
        ),
        ({"total": None}, {"total": None, "mechanism": dpb.DiscreteLaplace(scale=5.5)}),
    ],
)
def test_two_arms_fitted_with_one_seed_are_independent(first, second):
    n = 8000
    a, b = (fit(release(**options), draws=n) for options in (first, second))
    for j in range(4):
        x, y = a.probability.values[..., j], b.probability.values[..., j]
        combined = np.sqrt(x.var() + y.var())
        # The relative standard error of an sd is about √((kurtosis + 2) / 4n).
        assert (x - y).std() == pytest.approx(combined, rel=5 * np.sqrt(5 / (4 * n)))


def test_a_fresh_seed_is_kept():
    rel = release()
    a = dpb.fit(rel, dpb.Dirichlet(), draws=50, chains=1, progressbar=False)
    seed = a.attrs["random_seed"]
    assert fit(rel, draws=50, seed=seed) == a
    other = dpb.fit(rel, dpb.Dirichlet(), draws=50, chains=1, progressbar=False)
    assert other.attrs["random_seed"] != seed


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"draws": 0}, ParameterError, "draws must be a whole number of at least 1, got 0"),
        ({"draws": 10.5}, ParameterError, "draws must be a whole number of at least 1, got 10.5"),
        ({"draws": True}, ParameterError, "draws must be a whole number of at least 1, got True"),
        ({"chains": -1}, ParameterError, "chains must be a whole number of at least 1, got -1"),
        ({"tune": "many"}, ParameterError, "tune must be a whole number of at least 1, got 'many'"),
        ({"prior": "dirichlet"}, ParameterError, r"such as dpb\.Dirichlet\(\), got the text"),
        ({"prior": "scale-mixture"}, ParameterError, r"such as dpb\.ScaleMixture\(\)"),
        ({"prior": dpb.Dirichlet}, ParameterError, r"dpb\.Dirichlet\(\), got the class"),
        ({"random_seed": -3}, ParameterError, "random_seed must be a whole number .* got -3"),
        ({"random_seed": 1.5}, ParameterError, "random_seed must be a whole number .* got 1.5"),
        (
            {"engine": "exat"},
            ParameterError,
            r"engine must be .* got 'exat' \(did you mean 'exact'",
        ),
        ({"target_accept": 1.0}, ParameterError, "target_accept must be between 0 and 1, got 1.0"),
        ({"prior": 3}, UnsupportedError, "prior"),
        (
            {"prior": dpb.Dirichlet(concentration=[1, 2])},
            ParameterError,
            r"one entry per cell \(4\), got 2",
        ),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        dpb.fit(release(), **arguments)


def test_what_can_be_fitted():
    with pytest.raises(ParameterError, match=r'a list of releases needs shared="data"'):
        dpb.fit([1, 2, 3])
    with pytest.raises(UnsupportedError, match='shared="data" needs histograms, got int'):
        dpb.fit([1, 2, 3], shared="data")
    with pytest.raises(ParameterError, match=r"release must be .* got int"):
        dpb.fit(3)
    records = dpb.RecordRelease([1.0], mechanism=dpb.Laplace(scale=1), bounds=(0, 2))
    with pytest.raises(UnsupportedError, match='no exact engine: use engine="auto" or "nuts"'):
        dpb.fit(records, engine="exact")
    with pytest.raises(UnsupportedError, match="records take"):
        dpb.fit(records, dpb.Dirichlet())
    with pytest.raises(ImpossibleReleaseError, match="public total 9"):
        fit(release([3, 4], total=9, mechanism=dpb.NoNoise()))


# -- the naive likelihood fails --------------------------------------------------------


def test_empty_cells_clamped_at_zero_are_seen_to_be_empty():
    # Positive noise only survives the clamp: the sum of the release is about 248.
    law = dpb.DiscreteLaplace.from_epsilon(epsilon=0.2, sensitivity=1)
    mechanism = dpb.Mechanism(law, [dpb.Clamp(lower=0)])
    naive, mean, lower = [], [], []
    for seed in range(5):
        values = mechanism.sample(np.zeros(100), np.random.default_rng(seed))
        posterior = dpb.fit(
            dpb.HistogramRelease(values, mechanism=mechanism),
            draws=1000, chains=1, random_seed=seed, progressbar=False,
        )  # fmt: skip
        naive.append(values.sum())
        mean.append(float(posterior.total.mean()))
        lower.append(np.quantile(posterior.total.values, 0.05))
    assert np.mean(naive) == pytest.approx(248, rel=0.15)
    assert np.all(np.array(mean) < 0.35 * np.array(naive))
    assert np.all(np.array(lower) < 15)


def interval(posterior, prob=0.9):
    tail = 0.5 - 0.5 * prob
    return np.quantile(posterior.total.values, [tail, 1 - tail])


@pytest.mark.parametrize("law", [dpb.DiscreteLaplace(scale=8), dpb.DiscreteGaussian(sigma=11)])
def test_ignoring_the_clamp_invents_records(law):
    honest = dpb.Mechanism(law, [dpb.Clamp(lower=10)])
    truth = np.random.default_rng(3).poisson(2.0, 200)
    values = honest.sample(truth, np.random.default_rng(4))
    right = fit(dpb.HistogramRelease(values, mechanism=honest))
    wrong = fit(dpb.HistogramRelease(values, mechanism=law))
    low, high = interval(right, 0.99)
    assert low <= truth.sum() <= high
    assert interval(wrong, 0.999)[0] > 2 * truth.sum()


def test_laplace_noise_clamped_at_zero_says_the_same_as_a_measured_zero():
    # P(noise <= -m) and P(noise = -m) are the same function of a count m >= 0 but for a
    # factor, so that here, and for Laplace noise only, the clamp changes no posterior.
    counts = np.arange(60.0)
    for law, same in ((dpb.DiscreteLaplace(scale=8), True), (dpb.DiscreteGaussian(sigma=8), False)):
        clamped = dpb.Mechanism(law, [dpb.Clamp(lower=0)]).log_likelihood(0.0, counts)
        gap = clamped - dpb.Mechanism(law).log_likelihood(0.0, counts)
        assert (np.ptp(gap) < 1e-9) == same


def test_ignoring_suppression_loses_records():
    law, cells = dpb.DiscreteLaplace(scale=4), 120
    honest = dpb.Mechanism(law, [dpb.Suppress(below=20)])
    truth = np.random.default_rng(5).poisson(15.0, cells)
    values = honest.sample(truth, np.random.default_rng(6))
    hidden = np.isnan(values)
    assert 0.3 < hidden.mean() < 0.95
    prior = dpb.Dirichlet(concentration=15.0, rate=1.0)
    right = fit(dpb.HistogramRelease(values, mechanism=honest), prior=prior)
    as_zero = fit(dpb.HistogramRelease(np.where(hidden, 0, values), mechanism=law), prior=prior)
    low, high = interval(right, 0.99)
    assert low <= truth.sum() <= high
    assert interval(as_zero, 0.999)[1] < truth.sum()


def test_ignoring_rounding_is_too_sure_or_impossible():
    law = dpb.Laplace(scale=1.0)
    honest = dpb.Mechanism(law, [dpb.Round(step=100)])
    right = fit(release([300, 200], total=None, mechanism=honest), prior=dpb.Dirichlet(rate=1e-3))
    wrong = fit(release([300, 200], total=None, mechanism=law), prior=dpb.Dirichlet(rate=1e-3))
    # Uniform on a width of 100 against Laplace noise of sd √2.
    assert right.count.values[..., 0].std() == pytest.approx(100 / np.sqrt(12), rel=0.06)
    assert wrong.count.values[..., 0].std() < 2.0


# -- calibration -----------------------------------------------------------------------

EDGES = np.array([0.0, 1.0, 3.0, 6.0, 10.0])
CALIBRATION = {
    "public total": (dpb.Mechanism(dpb.Laplace(scale=6.0)), 80),
    "public total, clamped": (
        dpb.Mechanism(dpb.DiscreteLaplace(scale=6.0), [dpb.Clamp(lower=0)]),
        80,
    ),
    "unknown total, suppressed": (
        dpb.Mechanism(dpb.DiscreteGaussian(sigma=6.0), [dpb.Suppress(below=8)]),
        None,
    ),
    "unknown total, rounded and clamped": (
        dpb.Mechanism(dpb.DiscreteLaplace(scale=4.0), [dpb.Round(step=5), dpb.Clamp(lower=0)]),
        None,
    ),
}


def _median(p):
    cumulative = np.cumsum(p, axis=-1)
    index = np.argmax(cumulative >= 0.5, axis=-1)[..., None]
    before = np.take_along_axis(cumulative - p, index, -1)
    share = (0.5 - before) / np.take_along_axis(p, index, -1)
    low, high = EDGES[:-1][index], EDGES[1:][index]
    return (low + share * (high - low))[..., 0]


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "total"), CALIBRATION.values(), ids=CALIBRATION)
def test_ranks_are_uniform_and_intervals_cover(mechanism, total):
    repetitions, draws = 300, 199
    rng = np.random.default_rng(77)
    shapes, rate = np.array([1.0, 0.5, 2.0, 1.0]), 0.05
    middle = 0.5 * (EDGES[1:] + EDGES[:-1])
    ranks, covered = [], []
    for i in range(repetitions):
        if total is None:
            intensity = rng.gamma(shapes, 1 / rate)
            p, counts = intensity / intensity.sum(), rng.poisson(intensity)
        else:
            p = rng.dirichlet(shapes)
            counts = rng.multinomial(total, p)
        rel = dpb.HistogramRelease(
            mechanism.sample(counts, rng), mechanism=mechanism, total=total, edges=EDGES
        )
        prior = dpb.Dirichlet(concentration=shapes, rate=rate if total is None else None)
        post = fit(rel, draws=draws, prior=prior, seed=i)
        q = np.column_stack(
            [
                post.probability.values[0],
                post.P.mean().values[0],
                post.P.quantile(0.5).values[0],
                post.count.values[0],
            ]
        )
        truth = np.concatenate([p, [p @ middle], [_median(p)], counts])
        # Ties of counts are broken at random.
        below, equal = (q < truth).sum(axis=0), (q == truth).sum(axis=0)
        ranks.append(below + rng.integers(0, equal + 1))
        low, high = np.quantile(q[:, :6], [0.05, 0.95], axis=0)
        covered.append((low <= truth[:6]) & (truth[:6] <= high))
    bins = np.array(ranks) * 10 // (draws + 1)
    for column in bins.T:
        assert stats.chisquare(np.bincount(column, minlength=10)).pvalue > 1e-3
    # Six estimates per data set, each with a standard error of 1.7 %.
    coverage = np.mean(covered, axis=0)
    assert np.all(np.abs(coverage.mean() - 0.9) < 0.04)
    assert np.all(np.abs(coverage - 0.9) < 0.07)
