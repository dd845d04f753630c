"""Several samples of one process: P is learned from all of them, the tables stay apart."""

import numpy as np
import pytest
from scipy import special, stats

import dpbayes as dpb
from dpbayes.errors import ParameterError, ReleaseError, UnsupportedError

FIRST, SECOND = dpb.DiscreteLaplace(scale=6), dpb.Laplace(scale=2.5)
EDGES = [0, 1, 3]


def samples():
    public = dpb.HistogramRelease([31, 17], mechanism=FIRST, edges=EDGES, total=40)
    unknown = dpb.HistogramRelease([22.3, 4.1], mechanism=SECOND, edges=EDGES)
    return public, unknown


def exact_moments():
    """Means and sds of p_0 and of the first counts, by sums over counts and a grid of p."""
    p = (np.arange(4000) + 0.5) / 4000
    rate = 0.1
    n = np.arange(41)
    noise = FIRST.logpdf(31 - n) + FIRST.logpdf(17 - (40 - n))
    table = stats.binom.logpmf(n, 40, p[:, None]) + noise
    # An unknown total: the cells are Gamma(1, rate) intensities, so that N is negative binomial
    # with mean 2 / rate in all, and binomial in its first cell.
    m = np.arange(150)
    cells = SECOND.logpdf(22.3 - m)[:, None] + SECOND.logpdf(4.1 - m)
    total = m[:, None] + m
    size = stats.nbinom.logpmf(total, 2, rate / (1 + rate))
    split = special.gammaln(total + 1) - special.gammaln(m + 1)[:, None] - special.gammaln(m + 1)
    constant = (cells + size + split).ravel()
    first, second = (a.ravel() for a in np.meshgrid(m, m, indexing="ij"))
    keep = cells.ravel() > cells.max() - 30  # noise of 75 scales
    other = special.logsumexp(
        constant[keep] + first[keep] * np.log(p[:, None]) + second[keep] * np.log1p(-p[:, None]),
        axis=1,
    )
    weight = special.softmax(special.logsumexp(table, axis=1) + other)
    mean = weight @ p
    joint = special.softmax(table, axis=1) * weight[:, None]
    count = joint.sum(axis=0) @ n
    return mean, np.sqrt(weight @ (p - mean) ** 2), count


def test_posterior_of_a_shared_distribution_is_the_exact_one(tmp_path):
    posterior = dpb.fit(
        list(samples()), prior=dpb.Dirichlet(rate=0.1), shared="P", draws=2000, random_seed=4,
        progressbar=False,
    )  # fmt: skip
    assert posterior.verdict().converged
    mean, sd, count = exact_moments()
    share = posterior.probability.isel(bin=0).values
    # Independent draws would err by sd / 89; a fifth of them is enough for both.
    assert share.mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(share.size / 5))
    assert share.std() == pytest.approx(sd, rel=4 / np.sqrt(2 * share.size / 5))
    first = posterior.count.isel(bin=0).values
    assert first.mean() == pytest.approx(count, abs=4 * first.std() / np.sqrt(first.size / 5))
    assert (posterior.total == 40).all()

    other = posterior.data["posterior"]["sample_count"]
    assert other.dims == ("chain", "draw", "sample", "bin")
    assert np.abs(other.mean(("chain", "draw")).values - [[22.3, 4.1]]).max() < 5
    # All records that P comes from, not those of the first sample alone, explain its noise.
    shares = posterior.summary()["noise_share"]
    both = posterior.count.isel(bin=0) + other.isel(bin=0, sample=0)
    both = both / (posterior.total + other.sum("bin").isel(sample=0))
    expected = np.corrcoef(both.values.ravel(), share.ravel())[0, 1] ** 2
    assert shares["probability[[0, 1)]"] == pytest.approx(expected)

    posterior.save(tmp_path / "pooled.nc")
    assert dpb.load(tmp_path / "pooled.nc") == posterior


def test_samples_are_part_of_what_a_release_is():
    public, unknown = samples()
    both = public.with_sample(unknown)
    assert both != public
    assert both.digest() != public.with_repeat(unknown).digest() != public.digest()
    assert "pooled with 1 more" in repr(both)


def test_what_cannot_be_pooled():
    public, unknown = samples()
    other = dpb.HistogramRelease([1, 2], mechanism=FIRST, edges=[0, 2, 3])
    with pytest.raises(ReleaseError, match="same cells in the same order"):
        dpb.fit([public, other], shared="P")
    grouped = unknown.with_margin(30, by=(), mechanism=FIRST)
    with pytest.raises(ReleaseError, match="margins and repeats are not pooled"):
        dpb.fit([public, grouped], shared="P")
    with pytest.raises(UnsupportedError, match="takes a Dirichlet prior"):
        dpb.fit([public, unknown], dpb.ScaleMixture(), shared="P")
    with pytest.raises(UnsupportedError, match="no exact engine"):
        dpb.fit([public, unknown], shared="P", engine="exact")
    with pytest.raises(ParameterError, match=r'shared="data".*shared="P"'):
        dpb.fit([public, unknown], shared="people")
