"""Draws from tables and splits of totals against their exact conditional laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpbayes.engines.tables import Forest, Table, Tables
from dpbayes.kernels.leaves import outward_draws, split_draws


def chi_square(draws, first, masses, floor=5.0):
    expected = draws.size * masses / masses.sum()
    seen = np.bincount(draws - first, minlength=masses.size)
    assert seen.size == masses.size
    assert np.all(seen[masses == 0] == 0)
    big = expected >= floor
    statistic = np.sum((seen[big] - expected[big]) ** 2 / expected[big])
    rest = expected[~big].sum()
    if rest > 1:
        statistic += (seen[~big].sum() - rest) ** 2 / rest
    return stats.chi2.sf(statistic, max(big.sum() - (rest <= 1), 1))


TABLES = {
    "bell": stats.norm.pdf(np.arange(60), 25, 6),
    "spike at the start": np.append(50.0, stats.norm.pdf(np.arange(80), 55, 5)),
    "holes": np.tile([1.0, 0.0, 0.0, 2.0], 12),
    "one entry": np.array([3.0]),
    "zeros at both ends": np.array([0.0, 0.0, 1.0, 2.0, 0.5, 0.0]),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("centre", [-50, 100, 120, 10_000])
def test_outward_draws_follow_the_table_from_any_centre(table, centre):
    out = np.empty(40_000, dtype=np.int64)
    outward_draws(table, 100, centre, np.random.default_rng(1).random(out.size), out)
    assert chi_square(out, 100, table) > 1e-3


def test_outward_draws_at_the_ends_of_the_unit_interval():
    out = np.empty(2, dtype=np.int64)
    for table in TABLES.values():
        outward_draws(table, 0, table.size // 2, np.array([0.0, np.nextafter(1.0, 0.0)]), out)
        assert np.all(table[out] > 0)


@pytest.mark.parametrize("slope", [0.0, 0.5, 3.0])
def test_splits_follow_the_conditional_law_of_each_total(slope):
    left, right = stats.nbinom(2, 0.2).pmf(np.arange(3, 40)), TABLES["spike at the start"]
    totals = np.repeat([60, 7, 99], 30_000)
    np.random.default_rng(3).shuffle(totals)
    out = np.empty(totals.size, dtype=np.int64)
    uniforms = np.random.default_rng(4).random(totals.size)
    assert split_draws(left, 3, right, 2, slope, 1.0, totals, uniforms, out) == -1
    for total in (60, 7, 99):
        m = np.arange(3, 40)
        other = total - m - 2
        inside = (other >= 0) & (other < right.size)
        masses = np.where(inside, left * right[np.where(inside, other, 0)], 0.0)
        assert chi_square(out[totals == total], 3, masses) > 1e-3


def test_an_impossible_total_is_reported():
    out, uniforms = np.empty(3, dtype=np.int64), np.array([0.1, 0.5, 0.9])
    ones = np.ones(5)
    totals = np.array([4, 30, 5])
    assert split_draws(ones, 0, ones, 0, 0.5, 0.0, totals, uniforms, out) == 1
    holes = np.array([1.0, 0.0, 1.0])
    totals = np.array([2, 1, 4])
    assert split_draws(holes, 0, holes, 0, 0.5, 0.0, totals, uniforms, out) == 1


def table(values, first=0, log_scale=0.0, tilt=0.0):
    values = np.asarray(values, float)
    return Table(first, values / values.max(), log_scale + np.log(values.max()), tilt)


def law(t):
    return {int(s): np.exp(t.log_at(int(s))) for s in t.sums if np.isfinite(t.log_at(int(s)))}


def test_tilting_leaves_the_law_as_it_is():
    start = table([1.0, 3.0, 2.0, 0.5], first=7)
    for tilt in (-2.0, 0.3, 5.0):
        moved = start.tilted(tilt)
        assert moved.tilt == tilt
        assert law(moved) == pytest.approx(law(start), rel=1e-12)
    assert start.log_at(6) == -np.inf
    assert start.log_at(11) == -np.inf


def merged(tables, method="auto"):
    return Forest(Tables.of(tables), np.array([len(tables)]), method).top.one(0)


@given(st.integers(1, 400), st.integers(1, 400), st.integers(0, 100))
def test_ways_to_convolve_agree(a, b, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.random(a) ** 6, rng.random(b) ** 6
    direct = np.convolve(x, y)
    for method in ("fft", "direct", "auto"):
        found = merged([table(x), table(y)], method)
        got = np.zeros(direct.size)
        got[found.sums] = found.values * np.exp(found.log_scale)
        assert np.all(got >= 0)
        np.testing.assert_allclose(got, direct, rtol=0, atol=1e-13 * direct.max())


def test_merging_tilted_tables_adds_their_sums():
    a, b = table([1.0, 3.0, 2.0], first=2), table([0.5, 0.0, 4.0], first=1)
    expected = {}
    for s, p in law(a).items():
        for r, q in law(b).items():
            expected[s + r] = expected.get(s + r, 0.0) + p * q
    for method in ("fft", "direct"):
        assert law(merged([a.tilted(0.7), b.tilted(0.7)], method)) == pytest.approx(
            expected, rel=1e-9
        )


def test_nodes_of_a_forest_do_not_mix():
    rng = np.random.default_rng(8)
    sizes = np.array([3, 1, 5, 2])
    tables = [table(rng.random(n) + 0.1, first=f) for n, f in rng.integers(1, 60, (11, 2))]
    forest = Forest(Tables.of(tables), sizes)
    totals = np.empty((4, 50), dtype=np.int64)
    for node, part in enumerate(np.split(np.arange(11), np.cumsum(sizes)[:-1])):
        alone = merged([tables[j] for j in part])
        assert law(forest.top.one(node)) == pytest.approx(law(alone), rel=1e-9)
        totals[node] = rng.choice(alone.sums, 50)
    drawn = forest.split(totals, rng)
    np.testing.assert_array_equal(np.add.reduceat(drawn, np.cumsum(sizes) - sizes), totals)
    for j, t in enumerate(tables):
        assert np.all((drawn[j] >= t.first) & (drawn[j] < t.first + t.values.size))


def test_times_multiplies_by_a_likelihood():
    a = table([1.0, 3.0, 2.0], first=2).tilted(1.5)
    got = law(a.times(np.log([0.5, 0.1, 2.0])))
    assert got == pytest.approx({2: 0.5, 3: 0.3, 4: 4.0})
    with np.errstate(divide="ignore"):
        assert not a.times(np.log(np.zeros(3))).possible


@pytest.mark.parametrize("children", [1, 2, 3, 5, 8])
def test_a_forest_splits_totals_with_the_exact_joint_law(children):
    rng = np.random.default_rng(children)
    tables = [table(rng.random(5) + 0.01, first=int(rng.integers(0, 3))) for _ in range(children)]
    forest = Forest(Tables.of(tables), np.array([children]))
    middle = int(sum(t.first + 2 for t in tables))
    draws = forest.split(np.full((1, 20_000), middle), rng)
    assert draws.shape == (children, 20_000)
    assert np.all(draws.sum(axis=0) == middle)
    # The marginal of each child given the total, by convolving the others.
    for j, t in enumerate(tables):
        others = np.ones(1)
        for i, other in enumerate(tables):
            if i != j:
                others = np.convolve(others, other.values)
        first = sum(o.first for i, o in enumerate(tables) if i != j)
        left = middle - t.sums - first
        inside = (left >= 0) & (left < others.size)
        masses = np.where(inside, t.values * others[np.where(inside, left, 0)], 0.0)
        assert chi_square(draws[j], t.first, masses) > 1e-3
    evidence = np.ones(1)
    for t in tables:
        evidence = np.convolve(evidence, np.exp([t.log_at(int(s)) for s in t.sums]))
    start = sum(t.first for t in tables)
    assert np.exp(forest.top.one(0).log_at(middle)) == pytest.approx(
        evidence[middle - start], rel=1e-12
    )


def test_a_total_that_no_child_can_make_is_marked():
    forest = Forest(Tables.of([table([1.0, 1.0]), table([1.0, 1.0])]), np.array([2]))
    assert np.all(forest.split(np.array([[1, 5]]), np.random.default_rng(0)) == -1)
