"""Exact posteriors of released counts against enumeration and independent sums.

The oracles here know nothing of the package's likelihoods: the mass of each release is
summed over all noise that leads to it through plain Python steps, and the counts are
enumerated by full-range convolution without tilts or windows.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, special, stats

from dpbayes.engines import exact
from dpbayes.errors import ImpossibleReleaseError, ParameterError
from dpbayes.mechanism import Clamp, Mechanism, Rescale, Round, Suppress
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
from dpbayes.priors import Dirichlet
from dpbayes.releases import HistogramRelease

DRAWS = 40_000
CASES = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[1] / "data/exact_posteriors.json").read_text())[
        "cases"
    ]
    if "margins" not in case
}
LAWS = {
    "laplace": lambda s: Laplace(scale=s),
    "discrete_laplace": lambda s: DiscreteLaplace(scale=s),
    "gaussian": lambda s: Gaussian(sd=s),
    "discrete_gaussian": lambda s: DiscreteGaussian(sigma=s),
}


def _release(case):
    steps = [
        {"clamp_lower": lambda v: Clamp(lower=v), "suppress_below": lambda v: Suppress(below=v)}[k](
            v
        )
        for k, v in case.get("steps", {}).items()
    ]
    law = LAWS[case["noise"]](case["scale"])
    return HistogramRelease(
        case["values"], mechanism=Mechanism(law, steps), total=case["total"]
    ), Dirichlet(concentration=case["concentration"], rate=case.get("rate"))


def assert_mean_and_sd(draws, mean, sd, width=4.0):
    """Independent draws agree with known moments within so many standard errors."""
    n = draws.shape[0]
    mean, sd = np.asarray(mean), np.asarray(sd)
    gap = np.abs(draws.mean(axis=0) - mean)
    assert np.all(gap <= width * sd / np.sqrt(n) + 1e-12), (draws.mean(axis=0), mean)
    # The standard error of an sd takes the fourth moment.
    fourth = np.mean((draws - mean) ** 4, axis=0)
    error = np.sqrt(np.maximum(fourth - sd**4, 0.0) / (4.0 * np.maximum(sd, 1e-300) ** 2 * n))
    assert np.all(np.abs(draws.std(axis=0) - sd) <= width * error + 1e-9), (draws.std(axis=0), sd)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_enumerated_posteriors(case):
    drawn = exact.draw_posterior(*_release(case), DRAWS, np.random.default_rng(0))
    assert_mean_and_sd(drawn.count, case["count_mean"], case["count_sd"])
    assert_mean_and_sd(drawn.probability, case["probability_mean"], case["probability_sd"])
    np.testing.assert_array_equal(drawn.total, drawn.count.sum(axis=1))
    if case["total"] is not None:
        assert set(drawn.total) == {case["total"]}
        assert drawn.rate is None
    np.testing.assert_allclose(drawn.probability.sum(axis=1), 1.0, rtol=1e-12)
    for column in drawn.count.T:
        assert abs(np.corrcoef(column[1:], column[:-1])[0, 1]) < 4.0 / np.sqrt(DRAWS)


@pytest.mark.parametrize("method", ["fft", "direct", "auto"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_enumerated_evidence(case, method):
    got = exact.log_evidence(*_release(case), method=method)
    assert got == pytest.approx(case["log_evidence"], rel=1e-8)


# -- enumeration -----------------------------------------------------------------------


def laplace_mass(b, h=1.0, bound=np.inf):
    k = h * np.arange(-np.ceil(60 * b / h) - 3, np.ceil(60 * b / h) + 4)
    mass = np.where(np.abs(k) <= bound, np.exp(-np.abs(k) / b), 0.0)
    return k, mass / mass.sum()


def gaussian_mass(sigma):
    k = np.arange(-np.ceil(15 * sigma) - 3, np.ceil(15 * sigma) + 4)
    mass = np.exp(-(k**2) / (2 * sigma**2))
    return k, mass / mass.sum()


def by_noise(law, forward):
    """Mass of each release at each count, summed over the noise that leads to it."""

    def likelihood(values, counts):
        out = np.zeros((len(values), counts.size))
        for j, value in enumerate(values):
            k, mass = law[j] if isinstance(law, list) else law
            published = forward(counts[:, None] + k)
            hit = np.isnan(published) if value is None else np.abs(published - value) < 1e-9
            out[j] = hit @ mass
        return out

    return likelihood


def by_cdf(law, interval):
    """Mass (or density, where the interval is a number) under a scipy law."""

    def likelihood(values, counts):
        rows = []
        for value in values:
            piece = interval(value)
            if np.ndim(piece):
                low, high = piece
                rows.append(law.cdf(high - counts) - law.cdf(low - counts))
            else:
                rows.append(law.pdf(piece - counts))
        return np.array(rows)

    return likelihood


ENUMERATED = {
    "rounded to fives and clamped at both ends": (
        Mechanism(DiscreteGaussian(sigma=4.0), [Round(step=5), Clamp(lower=0, upper=20)]),
        [0, 20, 15, 5],
        by_noise(gaussian_mass(4.0), lambda x: np.clip(5 * np.rint(x / 5), 0, 20)),
    ),
    "suppressed, a scale per cell": (
        Mechanism(DiscreteLaplace(scale=[1.0, 3.0, 8.0, 2.0]), [Suppress(below=8)]),
        [None, 14, None, 19],
        by_noise(
            [laplace_mass(b) for b in (1.0, 3.0, 8.0, 2.0)], lambda x: np.where(x < 8, np.nan, x)
        ),
    ),
    "suppressed, threshold itself withheld, then rescaled": (
        Mechanism(DiscreteLaplace(scale=4.0), [Suppress(below=12, inclusive=True), Rescale(10)]),
        [None, 130, 200, None],
        by_noise(laplace_mass(4.0), lambda x: 10 * np.where(x <= 12, np.nan, x)),
    ),
    "rescaled by a negative factor, clamped": (
        Mechanism(Laplace(scale=3.0), [Rescale(-2.0), Clamp(upper=0)]),
        [0.0, -21.5, -33.0, 0.0],
        # -2 (m + noise) >= 0 for the zeros; the density of a point is halved.
        lambda values, counts: np.array(
            [
                stats.laplace.cdf(-counts / 3.0)
                if v == 0
                else stats.laplace.pdf((v / -2.0 - counts) / 3.0) / 3.0 / 2.0
                for v in values
            ]
        ),
    ),
    "truncated noise": (
        Mechanism(TruncatedDiscreteLaplace(scale=3.0, bound=5)),
        [-2, 11, 17, 15],
        by_noise(laplace_mass(3.0, bound=5), lambda x: x),
    ),
    "continuous truncated noise": (
        Mechanism(TruncatedLaplace(scale=3.0, bound=7.5)),
        [4.2, 11.9, 17.0, 6.1],
        lambda values, counts: np.array(
            [
                np.where(
                    np.abs(v - counts) <= 7.5,
                    np.exp(-np.abs(v - counts) / 3.0) / (6.0 * (1 - np.exp(-2.5))),
                    0.0,
                )
                for v in values
            ]
        ),
    ),
    "no noise, rounded down to fives": (
        Mechanism(NoNoise(), [Round("floor", 5)]),
        [5, 15, 10, 5],
        by_noise((np.zeros(1), np.ones(1)), lambda x: 5 * np.floor(x / 5)),
    ),
    "custom noise, rounded up to threes": (
        Mechanism(
            CustomNoise(
                logpdf=stats.logistic(scale=2).logpdf, cdf=stats.logistic(scale=2).cdf, sd=3.6
            ),
            [Round("ceil", 3)],
        ),
        [-3, 24, 15, 9],
        by_cdf(stats.logistic(scale=2), lambda v: (v - 3, v)),
    ),
    "custom noise, as it is": (
        Mechanism(CustomNoise(logpdf=stats.t(3, scale=2).logpdf, sd=3.5)),
        [-3.3, 24.1, 10.0, 8.8],
        by_cdf(stats.t(3, scale=2), lambda v: v),
    ),
    "noise on halves": (
        Mechanism(DiscreteLaplace(scale=2.0, step=0.5)),
        [1.5, 20.0, 8.5, 12.0],
        by_noise(laplace_mass(2.0, 0.5), lambda x: x),
    ),
    "noise on halves, rounded": (
        Mechanism(DiscreteLaplace(scale=2.0, step=0.5), [Round()]),
        [1, 20, 8, 13],
        by_noise(laplace_mass(2.0, 0.5), np.rint),
    ),
    "rounded gaussian": (
        Mechanism(Gaussian(sd=2.0), [Round(step=4)]),
        [4, 16, 12, 8],
        by_cdf(stats.norm(scale=2.0), lambda v: (v - 2, v + 2)),
    ),
    "all suppressed": (
        Mechanism(DiscreteLaplace(scale=2.0), [Suppress(below=20)]),
        [None] * 4,
        by_noise(laplace_mass(2.0), lambda x: np.where(x < 20, np.nan, x)),
    ),
}


def _weights(shapes, counts):
    a = np.asarray(shapes, float)[:, None]
    return np.exp(special.gammaln(a + counts) - special.gammaln(a) - special.gammaln(counts + 1.0))


def enumerate_public(likelihood, shapes, total):
    """Means, sds and log evidence by convolving full tables from 0 to the total."""
    counts = np.arange(total + 1.0)
    f = _weights(shapes, counts) * likelihood
    mean, square = np.empty(len(f)), np.empty(len(f))
    for j in range(len(f)):
        others = np.ones(1)
        for i in range(len(f)):
            if i != j:
                others = np.convolve(others, f[i])[: total + 1]
        marginal = f[j] * np.pad(others, (0, total + 1))[total::-1][: total + 1]
        mass = marginal.sum()
        mean[j], square[j] = marginal @ counts / mass, marginal @ counts**2 / mass
    a = np.sum(shapes)
    norm = special.gammaln(a + total) - special.gammaln(a) - special.gammaln(total + 1.0)
    return mean, np.sqrt(square - mean**2), np.log(mass) - norm


@pytest.mark.parametrize(("mechanism", "values", "q"), ENUMERATED.values(), ids=ENUMERATED)
def test_public_total_by_enumeration(mechanism, values, q):
    shapes, total = [0.3, 1.0, 2.5, 1.0], 47
    mean, sd, evidence = enumerate_public(q(values, np.arange(total + 1.0)), shapes, total)
    release = HistogramRelease(values, mechanism=mechanism, total=total)
    prior = Dirichlet(concentration=shapes)
    drawn = exact.draw_posterior(release, prior, DRAWS, np.random.default_rng(5))
    assert_mean_and_sd(drawn.count, mean, sd)
    assert np.all(drawn.count.sum(axis=1) == total)
    # p given the counts is Dirichlet: its moments follow from those of the counts.
    a, whole = np.array(shapes), sum(shapes) + total
    expected = (a + mean) / whole
    second = ((a + mean) * (a + mean + 1) + sd**2) / (whole * (whole + 1))
    assert_mean_and_sd(drawn.probability, expected, np.sqrt(second - expected**2))
    assert drawn.log_evidence == pytest.approx(evidence, rel=1e-10)
    for method in ("fft", "direct"):
        assert exact.log_evidence(release, prior, method) == pytest.approx(evidence, rel=1e-9)


@pytest.mark.parametrize(("mechanism", "values", "q"), ENUMERATED.values(), ids=ENUMERATED)
def test_unknown_total_with_a_given_rate(mechanism, values, q):
    shapes, rate = np.array([0.3, 1.0, 2.5, 1.0]), 0.08
    counts = np.arange(1200.0)
    f = _weights(shapes, counts) * q(values, counts)
    f = f * (1 + rate) ** -counts * (rate / (1 + rate)) ** shapes[:, None]
    mass = f.sum(axis=1)
    mean = f @ counts / mass
    sd = np.sqrt(f @ counts**2 / mass - mean**2)
    release = HistogramRelease(values, mechanism=mechanism)
    prior = Dirichlet(concentration=shapes, rate=rate)
    drawn = exact.draw_posterior(release, prior, DRAWS, np.random.default_rng(6))
    assert_mean_and_sd(drawn.count, mean, sd)
    assert_mean_and_sd(drawn.total[:, None], [mean.sum()], [np.sqrt(np.sum(sd**2))])
    assert drawn.log_evidence == pytest.approx(np.log(mass).sum(), rel=1e-9)
    assert exact.log_evidence(release, prior) == pytest.approx(np.log(mass).sum(), rel=1e-9)
    assert np.all(drawn.rate == rate)


@pytest.mark.parametrize("concentration", [0.4, 1.0, [1.0, 2.0, 0.5]])
def test_unknown_rate_against_numerical_integration(concentration):
    values, b = np.array([3.0, 40.0, -6.0]), 5.0
    release = HistogramRelease(values, mechanism=Laplace(scale=b))
    prior = Dirichlet(concentration=concentration)
    shapes = np.broadcast_to(concentration, 3).astype(float)
    low, high = prior.rate_range(np.array([3.0, 40.0, 0.0]), np.sqrt(2) * b)
    counts = np.arange(3000.0)
    base = _weights(shapes, counts) * stats.laplace.pdf(values[:, None] - counts, scale=b)

    def moments(log_rate):
        rate = np.exp(log_rate)
        f = base * (1 + rate) ** -counts * (rate / (1 + rate)) ** shapes[:, None]
        mass = f.sum(axis=1)
        mean = f @ counts / mass
        variance = f @ counts**2 / mass - mean**2
        total = mean.sum()
        weight = np.prod(mass)
        return weight * np.array(
            [1.0, *mean, *(variance + mean**2), total, variance.sum() + total**2, rate]
        )

    sums, _ = integrate.quad_vec(moments, np.log(low), np.log(high), epsrel=1e-10)
    evidence, expected = sums[0] / np.log(high / low), sums[1:] / sums[0]
    drawn = exact.draw_posterior(release, prior, DRAWS, np.random.default_rng(7))
    mean = expected[:3]
    assert_mean_and_sd(drawn.count, mean, np.sqrt(expected[3:6] - mean**2))
    assert_mean_and_sd(
        drawn.total[:, None], [expected[6]], [np.sqrt(expected[7] - expected[6] ** 2)]
    )
    assert drawn.rate.mean() == pytest.approx(expected[8], rel=0.03)
    assert np.all((drawn.rate >= low * (1 - 1e-9)) & (drawn.rate <= high * (1 + 1e-9)))
    assert drawn.log_evidence == pytest.approx(np.log(evidence), abs=2e-4)


def test_an_improper_rate_against_direct_sums():
    values, b = [20.0, 5.0], 3.0
    release = HistogramRelease(values, mechanism=Laplace(scale=b))
    prior = Dirichlet(concentration=[1.0, 0.4], rate=0)
    drawn = exact.draw_posterior(release, prior, DRAWS, np.random.default_rng(8))
    m = np.arange(400.0)
    f = _weights([1.0, 0.4], m) * stats.laplace.pdf(np.array(values)[:, None] - m, scale=b)
    mean = f @ m / f.sum(axis=1)
    assert_mean_and_sd(drawn.count, mean, np.sqrt(f @ m**2 / f.sum(axis=1) - mean**2))


def test_a_learned_concentration_against_numerical_integration():
    # The law of the shape is log-uniform on [0.01, 100].
    values, b, total = [33.0, -2.0, 1.0, 14.0], 3.0, 47
    q = stats.laplace.pdf(np.array(values)[:, None] - np.arange(total + 1), scale=b)
    grid = np.geomspace(0.01, 100, 401)
    found = [enumerate_public(q, [a] * 4, total) for a in grid]
    weight = np.exp([evidence for _, _, evidence in found])
    weight[[0, -1]] *= 0.5
    mean = weight @ [m for m, _, _ in found] / weight.sum()
    square = weight @ [m**2 + s**2 for m, s, _ in found] / weight.sum()
    release = HistogramRelease(values, mechanism=Laplace(scale=b), total=total)
    prior = Dirichlet(concentration="learned")
    drawn = exact.draw_posterior(release, prior, DRAWS, np.random.default_rng(8))
    assert_mean_and_sd(drawn.count, mean, np.sqrt(square - mean**2))
    evidence = np.log(weight.sum() / 400)
    assert drawn.log_evidence == pytest.approx(evidence, abs=1e-3)


def test_draws_of_neighbouring_cells_have_the_right_correlation():
    # Marginals alone would not show a wrong joint law.
    values, total, b = [6.0, 9.0, 12.0, 3.0], 30, 4.0
    counts = np.arange(total + 1)
    f = stats.laplace.pdf(np.array(values)[:, None] - counts, scale=b)
    joint = np.zeros((total + 1, total + 1))
    rest = np.convolve(f[2], f[3])
    for i in counts:
        for j in counts[: total + 1 - i]:
            joint[i, j] = f[0, i] * f[1, j] * rest[total - i - j]
    joint /= joint.sum()
    release = HistogramRelease(values, mechanism=Laplace(scale=b), total=total)
    drawn = exact.draw_posterior(release, Dirichlet(), DRAWS, np.random.default_rng(9))
    seen = np.zeros_like(joint)
    np.add.at(seen, (drawn.count[:, 0], drawn.count[:, 1]), 1)
    big = joint * DRAWS > 5
    expected, observed = joint[big] * DRAWS, seen[big]
    statistic = np.sum((observed - expected) ** 2 / expected)
    statistic += (observed.sum() - expected.sum()) ** 2 / max(DRAWS - expected.sum(), 1.0)
    assert stats.chi2.sf(statistic, big.sum()) > 1e-3


# -- extremes --------------------------------------------------------------------------


def test_empty_data_set():
    release = HistogramRelease([3, -2], mechanism=DiscreteLaplace(scale=4), total=0)
    drawn = exact.draw_posterior(release, Dirichlet(), 2000, np.random.default_rng(1))
    assert np.all(drawn.count == 0)
    # Nothing was observed: P has its prior law, the evidence is that of the noise.
    assert stats.kstest(drawn.probability[:, 0], "uniform").pvalue > 1e-3
    q = np.exp(-1 / 4)
    noise = 2 * np.log((1 - q) / (1 + q)) - 5 / 4
    assert drawn.log_evidence == pytest.approx(noise, rel=1e-10)


def test_a_single_record():
    release = HistogramRelease([1, 0, 4], mechanism=DiscreteLaplace(scale=1.5), total=1)
    drawn = exact.draw_posterior(release, Dirichlet(), DRAWS, np.random.default_rng(1))
    # One record in cell j: the noise of the release is its distance from that table.
    distance = np.array([0 + 0 + 4, 1 + 1 + 4, 1 + 0 + 3])
    p = np.exp(-distance / 1.5)
    p /= p.sum()
    assert_mean_and_sd(drawn.count, p, np.sqrt(p * (1 - p)))


def test_a_single_cell():
    release = HistogramRelease([17], mechanism=DiscreteLaplace(scale=3), total=12)
    drawn = exact.draw_posterior(release, Dirichlet(), 50, np.random.default_rng(1))
    assert np.all(drawn.count == 12)
    assert np.all(drawn.probability == 1.0)
    assert drawn.log_evidence == pytest.approx(float(DiscreteLaplace(scale=3).logpdf(5)))
    unknown = HistogramRelease([17], mechanism=DiscreteLaplace(scale=3))
    drawn = exact.draw_posterior(unknown, Dirichlet(rate=0.01), DRAWS, np.random.default_rng(1))
    m = np.arange(300)
    f = np.exp(-np.abs(17 - m) / 3) * 1.01**-m
    mean = f @ m / f.sum()
    assert_mean_and_sd(drawn.count, [mean], [np.sqrt(f @ m**2 / f.sum() - mean**2)])


def test_a_huge_total_in_few_cells():
    n, b = 10**8, 50.0
    truth = np.array([70_000_000, 29_999_000, 1_000, 0])
    values = truth + np.array([30, -80, 12, 5])
    release = HistogramRelease(values, mechanism=DiscreteLaplace(scale=b), total=n)
    drawn = exact.draw_posterior(release, Dirichlet(), DRAWS, np.random.default_rng(2))
    assert np.all(drawn.count.sum(axis=1) == n)
    # On this scale the flat prior is flat: the noise conditioned on the sum, on its own grid.
    x = np.arange(-1500, 1501)
    offsets = [30, -80, 12, 5]
    f = [np.exp(-np.abs(o - x) / b) * (t + x >= 0) for o, t in zip(offsets, truth, strict=True)]
    for j in range(4):
        others = np.ones(1)
        for i in range(4):
            if i != j:
                others = np.convolve(others, f[i])
        middle = 3 * 1500
        marginal = f[j] * others[middle - x]
        mean = marginal @ x / marginal.sum()
        sd = np.sqrt(marginal @ x**2 / marginal.sum() - mean**2)
        assert_mean_and_sd(drawn.count[:, [j]] - truth[j], [mean], [sd])


def test_a_total_ten_sds_away_from_the_sum_of_the_releases():
    values, b, total = [20.0, 30.0, 40.0], 2.0, 160
    sd = b * np.sqrt(2.0 * 3)
    assert total - sum(values) > 10 * sd
    q = np.exp(-np.abs(np.array(values)[:, None] - np.arange(total + 1)) / b) / (2 * b)
    mean, spread, evidence = enumerate_public(q, [1.0, 1.0, 1.0], total)
    release = HistogramRelease(values, mechanism=Laplace(scale=b), total=total)
    for method in ("fft", "direct"):
        assert exact.log_evidence(release, Dirichlet(), method) == pytest.approx(evidence, rel=1e-8)
    drawn = exact.draw_posterior(release, Dirichlet(), DRAWS, np.random.default_rng(2))
    assert_mean_and_sd(drawn.count, mean, spread)


def test_a_total_ten_sds_away_under_gaussian_noise():
    values, sigma, total = [20, 30, 40, 0], 3.0, 30
    q = np.exp(-0.5 * ((np.array(values)[:, None] - np.arange(total + 1)) / sigma) ** 2)
    q /= gaussian_norm(sigma)
    mean, spread, evidence = enumerate_public(q, [1.0] * 4, total)
    release = HistogramRelease(values, mechanism=DiscreteGaussian(sigma=sigma), total=total)
    drawn = exact.draw_posterior(release, Dirichlet(), DRAWS, np.random.default_rng(2))
    assert drawn.log_evidence == pytest.approx(evidence, rel=1e-9)
    assert_mean_and_sd(drawn.count, mean, spread)


def gaussian_norm(sigma):
    k = np.arange(-200, 201)
    return np.exp(-0.5 * (k / sigma) ** 2).sum()


def test_a_tiny_concentration_has_a_spike_at_zero():
    # Log weights drop steeply from 0 to 1 and then run flat for a long way.
    a, b, total = 0.01, 6.0, 150
    values = [2.0, 140.0, -5.0, 30.0]
    q = np.exp(-np.abs(np.array(values)[:, None] - np.arange(total + 1)) / b) / (2 * b)
    mean, sd, evidence = enumerate_public(q, [a] * 4, total)
    release = HistogramRelease(values, mechanism=Laplace(scale=b), total=total)
    drawn = exact.draw_posterior(
        release, Dirichlet(concentration=a), DRAWS, np.random.default_rng(3)
    )
    assert_mean_and_sd(drawn.count, mean, sd)
    assert drawn.log_evidence == pytest.approx(evidence, rel=1e-9)
    assert np.mean(drawn.count[:, 0] == 0) > 0.5


def test_huge_noise_leaves_the_prior():
    release = HistogramRelease([1e4, -3e5, 2e5], mechanism=Laplace(scale=1e5), total=30)
    drawn = exact.draw_posterior(release, Dirichlet(), DRAWS, np.random.default_rng(4))
    # A flat Dirichlet makes every table equally likely: marginal mass ∝ 30 - m + 1.
    m = np.arange(31)
    p = (31 - m) / (31 - m).sum()
    mean = p @ m
    assert_mean_and_sd(drawn.count, [mean] * 3, [np.sqrt(p @ m**2 - mean**2)] * 3)


def test_huge_noise_and_an_unknown_total_of_that_size():
    b, rate = 1e5, 1e-5
    release = HistogramRelease([2e5, -1e5], mechanism=Laplace(scale=b))
    drawn = exact.draw_posterior(release, Dirichlet(rate=rate), 3000, np.random.default_rng(4))
    m = np.arange(6_000_000.0)
    for j, y in enumerate((2e5, -1e5)):
        f = np.exp(-np.abs(y - m) / b - m * np.log1p(rate))
        mean = f @ m / f.sum()
        sd = np.sqrt(f @ (m - mean) ** 2 / f.sum())
        assert_mean_and_sd(drawn.count[:, [j]], [mean], [sd])


@pytest.mark.parametrize(
    "law", [Laplace(scale=0.01), DiscreteLaplace(scale=0.01), Gaussian(sd=0.01)]
)
@pytest.mark.parametrize("total", [107, None])
def test_tiny_noise_gives_the_counts_back(law, total):
    release = HistogramRelease([100, 0, 7], mechanism=law, total=total)
    drawn = exact.draw_posterior(release, Dirichlet(), 500, np.random.default_rng(4))
    assert np.all(drawn.count == [100, 0, 7])
    assert np.isfinite(drawn.log_evidence)


def test_many_cells():
    rng = np.random.default_rng(10)
    truth = rng.poisson(3.0, 3000)
    law = DiscreteLaplace(scale=10.0)
    release = HistogramRelease(truth + law.rvs(3000, rng), mechanism=law, total=int(truth.sum()))
    drawn = exact.draw_posterior(release, Dirichlet(), 200, rng)
    assert np.all(drawn.count.sum(axis=1) == truth.sum())
    assert np.all(drawn.count >= 0)
    by_fft = exact.log_evidence(release, Dirichlet(), "fft")
    assert by_fft == pytest.approx(exact.log_evidence(release, Dirichlet(), "direct"), rel=1e-10)


# -- errors ----------------------------------------------------------------------------


def test_what_no_table_explains_is_an_error():
    release = HistogramRelease([3, 4], mechanism=NoNoise(), total=9)
    with pytest.raises(ImpossibleReleaseError, match="sums to the public total 9"):
        exact.draw_posterior(release, Dirichlet(), 10, np.random.default_rng(0))
    assert exact.log_evidence(release, Dirichlet()) == -np.inf
    narrow = TruncatedDiscreteLaplace(scale=1, bound=2)
    release = HistogramRelease([-5, 4], mechanism=narrow)
    with pytest.raises(ImpossibleReleaseError, match="no table of counts"):
        exact.draw_posterior(release, Dirichlet(rate=1.0), 10, np.random.default_rng(0))


def test_a_prior_with_another_number_of_cells():
    release = HistogramRelease([3, 4], mechanism=Laplace(scale=1), total=9)
    with pytest.raises(ParameterError, match=r"one entry per cell \(2\), got 3"):
        exact.draw_posterior(
            release, Dirichlet(concentration=[1, 1, 1]), 10, np.random.default_rng(0)
        )


# -- prior draws -----------------------------------------------------------------------


@pytest.mark.parametrize("concentration", [1.0, 0.01, [0.5, 2.0]])
def test_prior_draws_with_a_public_total(concentration):
    release = HistogramRelease([3, 4], mechanism=Laplace(scale=1), total=9)
    prior = Dirichlet(concentration=concentration)
    drawn = exact.draw_prior(release, prior, 20_000, np.random.default_rng(1))
    a, b = np.broadcast_to(concentration, 2)
    law = stats.beta(a, b)
    assert_mean_and_sd(drawn["probability"][:, [0]], [law.mean()], [law.std()])
    if np.min(concentration) > 0.1:  # else most of the mass rounds to 0 or 1
        assert stats.kstest(drawn["probability"][:, 0], law.cdf).pvalue > 1e-3
    law = stats.betabinom(9, a, b)
    assert_mean_and_sd(drawn["count"][:, [0]], [law.mean()], [law.std()])
    assert np.all(drawn["total"] == 9)


def test_prior_draws_with_an_unknown_total():
    release = HistogramRelease([3, 4], mechanism=Laplace(scale=1))
    prior = Dirichlet(concentration=2.0, rate=0.1)
    drawn = exact.draw_prior(release, prior, 20_000, np.random.default_rng(1))
    law = stats.nbinom(2.0, 0.1 / 1.1)
    assert_mean_and_sd(drawn["count"], [law.mean()] * 2, [law.std()] * 2)
    assert_mean_and_sd(drawn["probability"], [0.5] * 2, [stats.beta(2, 2).std()] * 2)


@pytest.mark.parametrize("concentration", [1e-3, 1e-2])
def test_an_empty_data_set_under_a_tiny_concentration_has_one_cell_with_all(concentration):
    release = HistogramRelease([0, 0], mechanism=DiscreteLaplace(scale=4), total=0)
    prior = Dirichlet(concentration=concentration)
    p = exact.draw_posterior(release, prior, 4000, np.random.default_rng(1)).probability
    assert np.mean(np.max(p, axis=1) > 0.9) > 0.9


@pytest.mark.parametrize(
    ("values", "law", "total"),
    [
        ([1, 2, 3], Gaussian(sd=1.0), 3000),
        ([10, 20, 30], DiscreteGaussian(sigma=0.05), 64),
        ([1, 2, 3], Gaussian(sd=0.05), 5),
        ([1, 2, 3], DiscreteLaplace(scale=0.01), 9),
        ([50, 2, 1], DiscreteGaussian(sigma=0.3), 3),
        ([1e5, -2e5, 3e5], Gaussian(sd=1e5), 400),
    ],
    ids=str,
)
def test_a_total_that_only_a_steep_tilt_reaches(values, law, total):
    # All tables of the first cells; the last takes the rest.
    grid = np.stack(np.meshgrid(*[np.arange(total + 1.0)] * (len(values) - 1), indexing="ij"))
    grid = grid.reshape(len(values) - 1, -1)
    grid = np.concatenate([grid, total - grid.sum(axis=0, keepdims=True)])
    grid = grid[:, grid[-1] >= 0]
    logs = sum(law.logpdf(y - m) for y, m in zip(values, grid, strict=True))
    p = np.exp(logs - special.logsumexp(logs))
    mean = grid @ p
    sd = np.sqrt(((grid - mean[:, None]) ** 2) @ p)
    release = HistogramRelease(values, mechanism=law, total=total)
    drawn = exact.draw_posterior(release, Dirichlet(), DRAWS, np.random.default_rng(3))
    assert_mean_and_sd(drawn.count, mean, sd)
    tables = np.log(grid.shape[1])  # a flat Dirichlet makes all tables equally likely
    assert drawn.log_evidence == pytest.approx(special.logsumexp(logs) - tables, rel=1e-9)


def test_a_huge_total_far_from_the_release_under_narrow_noise():
    release = HistogramRelease([1, 2, 3], mechanism=Gaussian(sd=1.0), total=100_000)
    drawn = exact.draw_posterior(release, Dirichlet(), DRAWS, np.random.default_rng(3))
    # Normal noise conditioned on its sum: equal shares of the gap, variance 1 - 1/3.
    expected = np.array([1, 2, 3]) + (100_000 - 6) / 3
    assert_mean_and_sd(drawn.count, expected, [np.sqrt(2 / 3)] * 3)


def test_cells_that_are_all_suppressed_under_a_total_they_cannot_reach_by_themselves():
    mechanism = Mechanism(DiscreteLaplace(scale=2.0), [Suppress(below=5)])
    release = HistogramRelease([None] * 3, mechanism=mechanism, total=60)
    drawn = exact.draw_posterior(release, Dirichlet(), DRAWS, np.random.default_rng(3))
    k, mass = laplace_mass(2.0)
    m = np.arange(61)
    q = np.array([mass[k + i < 5].sum() for i in m])
    mean, sd, evidence = enumerate_public(np.stack([q] * 3), [1.0] * 3, 60)
    assert_mean_and_sd(drawn.count, mean, sd)
    assert drawn.log_evidence == pytest.approx(evidence, rel=1e-9)


def test_equal_cells_share_their_work_but_not_their_draws():
    mechanism = Mechanism(DiscreteLaplace(scale=3.0), [Clamp(lower=0)])
    values = np.tile([0, 7], 5000)
    shapes = np.repeat([0.3, 2.0], 5000)
    release = HistogramRelease(values, mechanism=mechanism)
    prior = Dirichlet(concentration=shapes, rate=0.1)
    rng = np.random.default_rng(4)
    drawn = exact.draw_posterior(release, prior, 50, rng)
    again = exact.draw_posterior(release, prior, 50, np.random.default_rng(4))
    np.testing.assert_array_equal(drawn.count, again.count)
    np.testing.assert_array_equal(drawn.probability, again.probability)
    k, mass = laplace_mass(3.0)
    m = np.arange(400)
    evidence = 0.0
    for value, shape in [(0, 0.3), (7, 0.3), (0, 2.0), (7, 2.0)]:
        hit = [k + i <= 0 if value == 0 else k + i == 7 for i in m]
        seen = np.array([mass[h].sum() for h in hit])
        f = stats.nbinom(shape, 0.1 / 1.1).pmf(m) * seen
        evidence += 2500 * np.log(f.sum())
        cells = drawn.count[:, (values == value) & (shapes == shape)]
        mean = f @ m / f.sum()
        sd = np.sqrt(f @ m**2 / f.sum() - mean**2)
        assert_mean_and_sd(cells.reshape(-1, 1), [mean], [sd])
        pairs = np.corrcoef(cells[:, ::2].ravel(), cells[:, 1::2].ravel())[0, 1]
        assert abs(pairs) < 4.0 / np.sqrt(cells.size / 2)
    assert drawn.log_evidence == pytest.approx(evidence, rel=1e-10)
