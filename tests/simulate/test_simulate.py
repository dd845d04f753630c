import numpy as np
import pytest
from scipy import stats

import dpbayes as dpb
from dpbayes import simulate
from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.kernels.ks_chain import ks_distance
from dpbayes.releases import (
    DirichletSampling,
    PerturbedSampling,
    QuantileLoss,
    Smoothing,
    WinnerLoss,
    flip_matrix,
)


@pytest.fixture(scope="module")
def records():
    return np.random.default_rng(1).beta(3, 5, 2000)


def test_perturbed_records(records):
    release = simulate.perturbed_records(records, bounds=(0, 1), alpha=0.5, rng=1)
    assert release.mechanism.noise == dpb.Laplace(scale=2.0)
    assert release.bounds == (0.0, 1.0)
    noise = release.values - records
    assert stats.kstest(noise, stats.laplace(scale=2).cdf).pvalue > 1e-3
    other = simulate.perturbed_records(
        np.arange(5), bounds=(0, 9), mechanism=dpb.DiscreteLaplace(scale=3), support="integers"
    )
    assert other.support == "integers"
    with pytest.raises(ParameterError, match="within bounds"):
        simulate.perturbed_records([1.5], bounds=(0, 1), alpha=1)
    with pytest.raises(ParameterError, match="either alpha"):
        simulate.perturbed_records([0.5], bounds=(0, 1))


def test_laplace_mechanism():
    release = simulate.laplace_mechanism([3.0, 4.0], sensitivity=2, alpha=0.1, rng=1)
    assert release.mechanism.noise == dpb.Laplace(scale=20.0)
    expected = stats.laplace.logpdf(release.values - [3, 4], scale=20).sum()
    assert release.log_likelihood([3.0, 4.0]) == pytest.approx(expected)
    assert release == simulate.laplace_mechanism([3.0, 4.0], sensitivity=2, alpha=0.1, rng=1)
    assert release.digest() != simulate.laplace_mechanism(3.0, sensitivity=2, alpha=0.1).digest()


def test_perturbed_histogram(records):
    release = simulate.perturbed_histogram(records, bins=10, alpha=0.5, rng=3)
    assert release.total == 2000
    assert release.mechanism.noise == dpb.Laplace(scale=4.0)  # 2/alpha
    truth = np.histogram(records, np.linspace(0, 1, 11))[0]
    assert np.abs(release.values.values - truth).max() < 4 * 12
    clamped = simulate.perturbed_histogram(records, bins=[0, 0.9, 1], alpha=0.01, clamp=True, rng=3)
    assert clamped.values.values.min() >= 0
    plane = np.stack([records, records[::-1]], axis=1)
    table = simulate.perturbed_histogram(plane, bins=4, alpha=1, rng=4)
    assert dict(table.values.sizes) == {"x1": 4, "x2": 4}
    posterior = dpb.fit(release, dpb.Dirichlet(), draws=50, random_seed=1, progressbar=False)
    assert posterior.total.min() == 2000


def test_variance_of_the_noise_is_eight_over_alpha_squared():
    noise = [
        simulate.perturbed_histogram([0.2, 0.7], bins=400, alpha=2.0, rng=s).values.values
        for s in range(100)
    ]
    # 40 000 draws: a relative standard error of 1.1 %; the fourth moment is 6 times the square.
    assert np.var(np.array(noise)) == pytest.approx(8 / 4, rel=0.05)


def test_smoothed_histogram(records):
    release = simulate.smoothed_histogram(records, bins=8, draws=60, alpha=1.0, rng=1)
    delta = release.sampling.delta
    assert delta == pytest.approx(1 / (1 + 2000 * np.expm1(1 / 60) / 8))
    assert release.rows == 60
    assert release.attrs["epsilon"] == pytest.approx(1.0)
    wide = simulate.smoothed_histogram(records, bins=8, draws=60, delta=0.9)
    assert wide.sampling == Smoothing(delta=0.9)
    with pytest.raises(ParameterError, match=r"at least 0.192.*gives alpha 2.3"):
        simulate.smoothed_histogram(records, bins=8, draws=60, alpha=1.0, delta=0.0925)
    with pytest.raises(ParameterError, match="alpha= "):
        simulate.smoothed_histogram(records, bins=8, draws=60)


def test_laws_of_rows():
    counts, rng, repeats, draws = np.array([1, 0, 7]), np.random.default_rng(4), 4000, 5
    laws = [Smoothing(delta=0.3), DirichletSampling(concentration=[1, 2, 3.0])]
    expected = [0.7 * counts / 8 + 0.1, (np.array([1, 2, 3]) + counts) / 14]
    for law, mean in zip(laws, expected, strict=True):
        rows = np.array([law.sample(counts, draws, rng) for _ in range(repeats)])
        error = rows.std(axis=0) / np.sqrt(repeats)
        assert np.all(np.abs(rows.mean(axis=0) - draws * mean) < 5 * error)
        assert np.all(rows.sum(axis=1) == draws)
    # Draws of Dirichlet sampling are exchangeable, not independent: overdispersed by
    # (A + n + k) / (A + n + 1).
    over = rows.var(axis=0) / (draws * mean * (1 - mean))
    np.testing.assert_allclose(over, (14 + draws) / 15, rtol=0.12)
    nothing = PerturbedSampling(mechanism=dpb.Laplace(scale=1e-6))
    q = nothing.proportions(np.array([0, 3, 1]), rng)
    np.testing.assert_allclose(q, [0, 0.75, 0.25], atol=1e-4)


def test_dirichlet_posterior(records):
    release = simulate.dirichlet_posterior(records, bins=5, draws=100, alpha=1.0, rng=1)
    assert release.sampling.concentration == pytest.approx(100 / (np.e - 1))
    assert release.attrs["epsilon"] == pytest.approx(1.0)
    with pytest.raises(ParameterError, match="either alpha"):
        simulate.dirichlet_posterior(records, bins=5, draws=100)


def test_synthetic_rows(records):
    source = simulate.perturbed_histogram(records, bins=10, alpha=0.5, rng=3)
    release = simulate.synthetic_rows(source, 100_000, rng=1)
    assert release.sampling == PerturbedSampling(mechanism=source.mechanism)
    assert (release.rows, release.total) == (100_000, 2000)
    q = np.maximum(source.values.values, 0)
    np.testing.assert_allclose(release.values.values / 1e5, q / q.sum(), atol=0.01)
    points = simulate.uniform_rows(release, rng=2)
    again = type(release).from_rows(
        points, edges=release.edges, sampling=release.sampling, total=2000, attrs=release.attrs
    )
    assert again == release
    assert again.digest() == release.digest()
    with pytest.raises(ParameterError, match="more than"):
        simulate.uniform_rows(simulate.synthetic_rows(source, 10**9, rng=1))
    with pytest.raises(ParameterError, match="public total"):
        simulate.synthetic_rows(dpb.HistogramRelease([1, 2], mechanism=dpb.Laplace(scale=1)), 5)


def test_exponential_mechanism():
    counts = np.array([5, 9, 2])
    release = simulate.exponential_mechanism(
        counts, outcomes=["a", "b", "c"], loss=WinnerLoss(), alpha=1.0, rng=1
    )
    assert release.sensitivity == 1.0
    p = np.exp(release.log_probabilities(counts))
    np.testing.assert_allclose(p, np.exp([2.5, 4.5, 1]) / np.exp([2.5, 4.5, 1]).sum())
    p = np.exp(0.15 * counts) / np.exp(0.15 * counts).sum()
    chosen = [
        simulate.exponential_mechanism(
            counts, outcomes=["a", "b", "c"], loss=WinnerLoss(), alpha=0.3, rng=s
        ).chosen
        for s in range(150)
    ]
    assert stats.chisquare(np.bincount(chosen, minlength=3), 150 * p).pvalue > 1e-3
    options = {"outcomes": ["a", "b", "c"], "alpha": 1.0}
    with pytest.raises(ParameterError, match="sensitivity must be at least 1"):
        simulate.exponential_mechanism(counts, loss=WinnerLoss(), sensitivity=0.9, **options)
    with pytest.raises(ParameterError, match="finite"):
        simulate.exponential_mechanism(counts, loss=lambda c: c * np.nan, **options)
    with pytest.raises(UnsupportedError, match="give sensitivity="):
        simulate.exponential_mechanism(1000 * counts, loss=WinnerLoss(), **options)
    # Where not all tables can be seen, the neighbours of this one still refute a claim.
    with pytest.raises(ParameterError, match="sensitivity must be at least 1"):
        simulate.exponential_mechanism(
            1000 * counts, loss=QuantileLoss(0.5), sensitivity=0.5, **options
        )


def test_ks_distance_and_chain(records):
    rng = np.random.default_rng(2)
    x, z = np.sort(records[:300]), np.sort(rng.random(40))
    assert ks_distance(x, z) == pytest.approx(stats.ks_2samp(x, z).statistic, abs=1e-12)
    chosen = simulate.ks_exponential(records, alpha=1.0, draws=60, sweeps=200, rng=5)
    assert chosen.shape == (60,)
    assert np.all((chosen >= 0) & (chosen <= 1))
    near = ks_distance(np.sort(records), chosen)
    assert near < 0.5 * ks_distance(np.sort(records), np.sort(rng.random(60)))


def test_the_ks_chain_has_the_law_of_its_density():
    # One point z and n records: the density exp(-rate KS) is known, step by step.
    x, rate, rng = np.array([0.1, 0.2, 0.6]), 4.0, np.random.default_rng(6)
    from dpbayes.kernels.ks_chain import ks_chain

    drawn = []
    for _ in range(1500):
        z = rng.random(1)
        ks_chain(x, z, rate, 30, int(rng.integers(2**31)))
        drawn.append(z[0])
    cuts = np.concatenate([[0.0], x, [1.0]])
    middle = 0.5 * (cuts[1:] + cuts[:-1])
    weight = np.diff(cuts) * np.exp([-rate * ks_distance(x, np.array([m])) for m in middle])
    seen = np.histogram(drawn, cuts)[0]
    assert stats.chisquare(seen, 1500 * weight / weight.sum()).pvalue > 1e-3


def test_orthogonal_series(records):
    release = simulate.orthogonal_series(records, order=4, alpha=2.0, rng=1)
    assert release.mechanism.noise.scale == pytest.approx(2 * np.sqrt(2) * 4 / (2000 * 2.0))
    truth = [np.mean(np.sqrt(2) * np.cos(np.pi * j * records)) for j in range(1, 5)]
    np.testing.assert_allclose(release.values, truth, atol=0.05)
    plane = np.stack([records, 2 * records[::-1]], axis=1)
    table = simulate.orthogonal_series(plane, order=2, alpha=1e9, bounds=[(0, 1), (0, 2)], rng=1)
    assert (table.dimension, table.order, table.size) == (2, 2, 8)
    wave = 2 * np.mean(np.cos(np.pi * plane[:, 0]) * np.cos(np.pi * plane[:, 1] / 2))
    assert table.values[5 - 2] == pytest.approx(wave, abs=1e-6)  # (1, 1)
    assert table.mechanism.noise.scale == pytest.approx(2 * (4 * np.sqrt(2) + 4 * 2) / (2000 * 1e9))
    assert release.density([0.5]).shape == (1,)


def test_randomized_response():
    truths = ["a"] * 3000 + ["b"] * 1000
    release = simulate.randomized_response(truths, categories=["a", "b", "c"], epsilon=2, rng=1)
    assert release.total == 4000
    np.testing.assert_allclose(release.naive_counts(), [3000, 1000, 0], atol=150)
    flipped = simulate.randomized_response(
        ["01", "11"], categories=["00", "01", "10", "11"], matrix=flip_matrix(0.5, 0.5), rng=1
    )
    assert flipped.epsilon == pytest.approx(0.0)
    with pytest.raises(ParameterError, match="none of the categories"):
        simulate.randomized_response(["x"], categories=["a", "b"], epsilon=1)
