"""Independent counts given their sum, against convolution."""

import numpy as np
import pytest
from scipy import stats

from dpbayes.kernels import fixed_total as kernel


def tables_of(kind):
    """Likelihoods over windows, first counts, prior mass of all counts."""
    rng = np.random.default_rng(5)
    counts = np.arange(800.0)
    prior = 0.3 * (counts == 0) + 0.7 * stats.nbinom(2, 0.02).pmf(counts)
    if kind == "one cell":
        centres, scale = [31.0], 5.0
    elif kind == "many cells":
        centres, scale = rng.integers(0, 200, 60), 8.0
    elif kind == "nearly known":
        centres, scale = rng.integers(3, 90, 5), 0.12
    else:
        centres, scale = rng.integers(0, 120, 6), 6.0
    first = np.array([max(int(c - 30 * scale), 0) for c in centres])
    last = np.array([min(int(c + 30 * scale) + 1, 799) for c in centres])
    likelihood = []
    for c, a, b in zip(centres, first, last, strict=True):
        table = np.exp(-np.abs(c - counts[a : b + 1]) / scale)
        if kind == "holes":  # noise on even numbers only
            table[(counts[a : b + 1] - c) % 2 == 1] = 0.0
        likelihood.append(table)
    return likelihood, first, prior


def weighed(kind):
    likelihood, first, prior = tables_of(kind)
    offsets = np.concatenate([[0], np.cumsum([t.size for t in likelihood])])
    size = first.size
    g, log_norm, moments = np.empty(offsets[-1]), np.empty(size), np.empty(2)
    start, stop = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    kernel.weigh(
        np.concatenate(likelihood), offsets, first, prior, first, g, start, stop, log_norm, moments
    )
    return g, offsets, first, start, stop, log_norm, moments


def whole(kind):
    """Unnormalised law of the sum by direct convolution, and its first entry."""
    likelihood, first, prior = tables_of(kind)
    law = np.ones(1)
    for table, a in zip(likelihood, first, strict=True):
        law = np.convolve(law, table * prior[a : a + table.size])
    return law, int(first.sum())


KINDS = ["one cell", "a few cells", "many cells", "nearly known", "holes"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("away", [-2.5, 0.0, 3.0])
def test_probability_of_a_sum(kind, away):
    law, origin = whole(kind)
    sums = origin + np.arange(law.size)
    mean = law @ sums / law.sum()
    sd = np.sqrt(law @ (sums - mean) ** 2 / law.sum())
    n = int(np.clip(round(mean + away * sd), sums[0], sums[-1]))
    if kind == "nearly known":
        n = int(sums[np.argmax(law)]) + int(np.sign(away))
    g, offsets, first, start, stop, log_norm, moments = weighed(kind)
    if kind == "holes":
        n += n % 2 != sums[np.argmax(law > 0)] % 2
    np.testing.assert_allclose(moments, [mean, sd**2], rtol=1e-9)
    means, cumulants = np.empty(first.size), np.empty(7)
    shift = kernel.tilt_to(g, offsets, first, start, stop, float(n), moments, means, cumulants)
    assert abs(means.sum() - n) < 0.05 * np.sqrt(cumulants[2]) + 1e-6
    log_mass = kernel.log_mass_at(
        g, offsets, first, start, stop, means, cumulants, float(n), kind == "holes"
    )
    expected = np.log(law[n - origin])
    tolerance = 3e-4 if kind == "many cells" else 1e-6
    assert abs(log_norm.sum() + shift + log_mass - expected) < tolerance


@pytest.mark.parametrize("kind", ["many cells", "a few cells"])
def test_expansion_and_characteristic_function_agree(kind, monkeypatch):
    law, origin = whole(kind)
    n = float(origin + np.argmax(law))
    g, offsets, first, start, stop, _, moments = weighed(kind)
    means, cumulants = np.empty(first.size), np.empty(7)
    kernel.tilt_to(g, offsets, first, start, stop, n, moments, means, cumulants)
    arguments = (g, offsets, first, start, stop, means, cumulants, n)
    # Told of holes it sums the characteristic function over the whole circle.
    summed = kernel.log_mass_at(*arguments, True)
    default = kernel.log_mass_at(*arguments, False)
    assert abs(summed - default) < (3e-4 if kind == "many cells" else 1e-7)


def test_a_sum_of_the_wrong_parity_or_out_of_reach_is_impossible():
    law, origin = whole("holes")
    n = origin + int(np.argmax(law > 0)) + 41
    g, offsets, first, start, stop, _, moments = weighed("holes")
    means, cumulants = np.empty(first.size), np.empty(7)
    kernel.tilt_to(g, offsets, first, start, stop, float(n), moments, means, cumulants)
    arguments = (g, offsets, first, start, stop, means, cumulants, float(n))
    assert kernel.log_mass_at(*arguments, True) == -np.inf
    g, offsets, first, start, stop, _, moments = weighed("nearly known")
    shift = kernel.tilt_to(g, offsets, first, start, stop, 5e6, moments, means[:5], cumulants)
    assert shift == -np.inf


def test_cells_drawn_alone_have_their_tables_laws():
    g, offsets, first, start, stop, _, _ = weighed("a few cells")
    cumulative, peaks = np.empty(g.size), np.empty(first.size)
    kernel.accumulate(g, start, stop, cumulative, peaks)
    some = np.array([0, 3])
    np.testing.assert_array_equal(peaks[some], [g[start[j] : stop[j]].max() for j in some])
    out, rest = np.empty((2, 20_000), dtype=np.int64), np.full(20_000, 1000)
    kernel.draw_alone(
        np.random.default_rng(6), some, cumulative, offsets, first, start, stop, out, rest
    )
    np.testing.assert_array_equal(rest, 1000 - out.sum(axis=0))
    for row, j in zip(out, some, strict=True):
        expected = g[start[j] : stop[j]] * row.size
        seen = np.bincount(row - first[j] - start[j] + offsets[j], minlength=expected.size)
        big = expected > 8
        gap = np.sum((seen[big] - expected[big]) ** 2 / expected[big])
        assert stats.chi2.sf(gap, big.sum()) > 1e-4
