"""Exact posteriors of nested counts against enumeration.

The oracle knows nothing of the package's likelihoods, tilts, windows or FFT: the mass of each
released number is summed over all noise that leads to it, tables of groups are plain
convolutions over all counts up to a cap, and the moments of a cell come from a second pass
with its table multiplied by the count.
"""

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from dpbayes.engines import exact
from dpbayes.engines.tree import structure
from dpbayes.errors import ImpossibleReleaseError, UnsupportedError
from dpbayes.mechanism import Clamp, Mechanism, Rescale, Round, Suppress
from dpbayes.noise import (
    CustomNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoNoise,
    TruncatedDiscreteLaplace,
)
from dpbayes.priors import Dirichlet
from dpbayes.releases import HistogramRelease

DRAWS = 40_000


def assert_mean_and_sd(draws, mean, sd, width=4.0):
    """Independent draws agree with known moments within so many standard errors."""
    n = draws.shape[0]
    mean, sd = np.asarray(mean), np.asarray(sd)
    gap = np.abs(draws.mean(axis=0) - mean)
    assert np.all(gap <= width * sd / np.sqrt(n) + 1e-9), (draws.mean(axis=0), mean)
    fourth = np.mean((draws - mean) ** 4, axis=0)
    error = np.sqrt(np.maximum(fourth - sd**4, 0.0) / (4.0 * np.maximum(sd, 1e-100) ** 2 * n))
    assert np.all(np.abs(draws.std(axis=0) - sd) <= width * error + 1e-6), (draws.std(axis=0), sd)


# -- what was released, as mass over counts ----------------------------------------------


def laplace_mass(b):
    k = np.arange(-np.ceil(60 * b) - 3, np.ceil(60 * b) + 4)
    mass = np.exp(-np.abs(k) / b)
    return k, mass / mass.sum()


def gaussian_mass(sigma):
    k = np.arange(-np.ceil(25 * sigma) - 3, np.ceil(25 * sigma) + 4)
    mass = np.exp(-(k**2) / (2 * sigma**2))
    return k, mass / mass.sum()


def by_noise(mass, forward=lambda x: x):
    """Mass of a value at each count, summed over the noise that leads to it."""

    def q(value, counts):
        k, p = mass
        published = forward(counts[:, None] + k)
        hit = np.isnan(published) if value is None else np.abs(published - value) < 1e-9
        return hit @ p

    return q


def density(law):
    return lambda value, counts: law.pdf(value - counts)


def between(law, interval):
    def q(value, counts):
        low, high = interval(value)
        return law.cdf(high - counts) - law.cdf(low - counts)

    return q


def equal(value, counts):
    return (counts == value).astype(float)


@dataclass
class Released:
    """Numbers released about cells or groups: `q` gives their mass over counts."""

    values: Any
    mechanism: Any
    q: Any
    by: Any = None


@dataclass
class Case:
    """One nested release; `coords` and the margins' `by` are as the package takes them."""

    coords: dict
    cells: Released
    margins: list
    total: int | None = None
    rate: float = 0.05
    shapes: Any = 1.0
    cap: int = 220
    shape: tuple | None = None
    labels: dict = field(default_factory=dict)


def release_of(case):
    values = np.array(case.cells.values, dtype=float)
    release = HistogramRelease(
        values.reshape(case.shape or values.shape),
        mechanism=case.cells.mechanism,
        coords=case.coords,
        total=case.total,
    )
    for margin in case.margins:
        release = release.with_margin(margin.values, by=margin.by, mechanism=margin.mechanism)
    return release


def groups_of(case, by):
    """Group key of each cell, found without the package."""
    dims = {k: v for k, v in case.coords.items() if not isinstance(v, tuple)}
    cells = list(itertools.product(*dims.values()))
    names = (by,) if isinstance(by, str) else by
    keys = []
    for cell in cells:
        labels = dict(zip(dims, cell, strict=True))
        key = []
        for name in names:
            if name in labels:
                key.append(labels[name])
            else:
                dim, grouped = case.coords[name]
                key.append(grouped[list(dims[dim]).index(labels[dim])])
        keys.append(tuple(key))
    return keys


def enumerate_case(case):
    """Moments of counts and probabilities, and the log evidence."""
    size = len(case.cells.values)
    cap = case.total if case.total is not None else case.cap
    counts = np.arange(cap + 1.0)
    shapes = np.broadcast_to(np.asarray(case.shapes, float), (size,))
    qs = case.cells.q if isinstance(case.cells.q, list) else [case.cells.q] * size
    a = shapes[:, None]
    leaves = np.exp(special.gammaln(a + counts) - special.gammaln(a) - special.gammaln(counts + 1))
    leaves *= [q(v, counts) for q, v in zip(qs, case.cells.values, strict=True)]
    if case.total is None:
        leaves *= (1 + case.rate) ** -counts * (case.rate / (1 + case.rate)) ** a
    levels = []
    for margin in case.margins:
        keys = groups_of(case, margin.by)
        order = list(dict.fromkeys(keys))
        if isinstance(margin.values, dict):
            said = {(k,): v for k, v in margin.values.items()}
        else:
            said = dict(zip(order, np.ravel(np.array(margin.values, object)), strict=True))
        mq = margin.q if isinstance(margin.q, list) else [margin.q] * len(order)
        levels.append((keys, order, said, dict(zip(order, mq, strict=True))))
    levels.sort(key=lambda level: -len(level[1]))

    def root(tables):
        nodes = [([j], table) for j, table in enumerate(tables)]
        for keys, order, said, law in levels:
            merged = []
            for key in order:
                inside = [node for node in nodes if keys[node[0][0]] == key]
                assert all(keys[j] == key for node in inside for j in node[0])
                table = np.ones(1)
                for _, part in inside:
                    table = np.convolve(table, part)
                table = table[: size * cap + 1]
                if key in said:
                    sums = np.arange(table.size, dtype=float)
                    table = table * law[key](said[key], sums)
                merged.append(([j for node in inside for j in node[0]], table))
            nodes = merged
        table = np.ones(1)
        for _, part in nodes:
            table = np.convolve(table, part)
        return table

    whole = root(leaves)
    sums = np.arange(whole.size)
    keep = sums == case.total if case.total is not None else np.ones(whole.size, bool)
    mass = whole[keep].sum()
    mass_a = shapes.sum()
    first, second = np.empty(size), np.empty(size)
    p_first, p_second = np.empty(size), np.empty(size)
    for j in range(size):
        one, two = leaves.copy(), leaves.copy()
        one[j] *= counts
        two[j] *= counts**2
        one, two = root(one), root(two)
        first[j], second[j] = one[keep].sum() / mass, two[keep].sum() / mass
        # Given the counts P is Dirichlet(a + N).
        all_a = mass_a + sums[keep]
        p_first[j] = np.sum((shapes[j] * whole[keep] + one[keep]) / all_a) / mass
        square = (
            shapes[j] * (shapes[j] + 1) * whole[keep] + (2 * shapes[j] + 1) * one[keep] + two[keep]
        )
        p_second[j] = np.sum(square / (all_a * (all_a + 1))) / mass
    evidence = np.log(mass)
    if case.total is not None:
        n = case.total
        evidence -= special.gammaln(mass_a + n) - special.gammaln(mass_a) - special.gammaln(n + 1)
    total = np.sum(whole[keep] * sums[keep]) / mass
    total_sd = np.sqrt(max(np.sum(whole[keep] * (sums[keep] - total) ** 2) / mass, 0.0))
    return (
        (first, np.sqrt(np.maximum(second - first**2, 0.0))),
        (p_first, np.sqrt(p_second - p_first**2)),
        (total, total_sd),
        evidence,
    )


# -- cases -------------------------------------------------------------------------------

SHOPS = {
    "shop": list("abcdef"),
    "region": ("shop", ["n", "n", "s", "n", "s", "w"]),
    "country": ("shop", ["x", "x", "y", "x", "y", "y"]),
}
VALUES = [9, 21, 8, 14, -3, 11]
DL3 = Released(VALUES, DiscreteLaplace(scale=3), by_noise(laplace_mass(3)))


def laplace(by, values, b=2.0):
    return Released(values, Laplace(scale=b), density(stats.laplace(scale=b)), by)


def normal(by, values, sd=2.0):
    return Released(values, Gaussian(sd=sd), density(stats.norm(scale=sd)), by)


def whole_laplace(by, values, b=2.0):
    return Released(values, DiscreteLaplace(scale=b), by_noise(laplace_mass(b)), by)


def whole_normal(by, values, sigma=2.0):
    return Released(values, DiscreteGaussian(sigma=sigma), by_noise(gaussian_mass(sigma)), by)


def suppressing(x):
    return np.where(x < 30, np.nan, x)


CASES = {
    "two levels, public total": Case(
        SHOPS, DL3, [laplace("region", [47.3, 2.2, 13.0])], total=64, shapes=[1, 2, 0.5, 1, 1, 3]
    ),
    "two levels, unknown total": Case(SHOPS, DL3, [whole_laplace("region", [39, 9, 14])]),
    "three levels and a noisy grand total, Gaussian and Laplace": Case(
        SHOPS,
        Released(VALUES, DiscreteGaussian(sigma=3), by_noise(gaussian_mass(3))),
        [
            laplace((), 71.5),
            normal("region", [44.4, 6.1, 15.0]),
            whole_normal("country", [40, 19], 1.2),
        ],
    ),
    "three levels, public total": Case(
        SHOPS,
        Released([9.3, 20.9, 8.8, 14.1, -3.0, 11.2], Gaussian(sd=4), density(stats.norm(scale=4))),
        [normal("region", [40.1, 8.7, 14.0]), laplace("country", [44.0, 21.5], 4.0)],
        total=60,
        shapes=0.3,
    ),
    "totals suppressed below a threshold": Case(
        SHOPS,
        DL3,
        [
            Released(
                [44, None, None],
                Mechanism(DiscreteLaplace(scale=2), [Suppress(below=30)]),
                by_noise(laplace_mass(2), suppressing),
                "region",
            )
        ],
    ),
    "a suppressed total that its cells contradict": Case(
        SHOPS,
        DL3,
        [
            Released(
                [None, 31, None],
                Mechanism(DiscreteLaplace(scale=2), [Suppress(below=30)]),
                by_noise(laplace_mass(2), suppressing),
                "region",
            )
        ],
        total=70,
    ),
    "totals rounded to tens": Case(
        SHOPS,
        DL3,
        [
            Released(
                [40, 0, 20],
                Mechanism(Gaussian(sd=3), [Round(step=10)]),
                between(stats.norm(scale=3), lambda v: (v - 5, v + 5)),
                "region",
            )
        ],
        total=62,
    ),
    "totals rounded, clamped and rescaled": Case(
        SHOPS,
        Released(
            [0, 21, 8, 14, 0, 11],
            Mechanism(DiscreteLaplace(scale=3), [Clamp(lower=0)]),
            by_noise(laplace_mass(3), lambda x: np.maximum(x, 0)),
        ),
        [
            Released(
                [80, 0, 30],
                Mechanism(
                    DiscreteLaplace(scale=4), [Round(step=5), Clamp(lower=0, upper=40), Rescale(2)]
                ),
                by_noise(laplace_mass(4), lambda x: 2 * np.clip(5 * np.rint(x / 5), 0, 40)),
                "region",
            )
        ],
    ),
    "one region only": Case(SHOPS, DL3, [laplace("region", {"s": 17.0}, 1.0)], total=66),
    "one region only, unknown total": Case(SHOPS, DL3, [laplace("region", {"n": 30.5}, 1.0)]),
    "totals without noise": Case(SHOPS, DL3, [Released([41, 12, 9], NoNoise(), equal, "region")]),
    "a grand total without noise": Case(
        SHOPS, DL3, [Released(58, NoNoise(), equal, ()), laplace("country", [39.0, 21.0])]
    ),
    "a public total and a noisy one": Case(SHOPS, DL3, [laplace((), 66.0)], total=61),
    "noise that differs by region": Case(
        SHOPS,
        DL3,
        [
            Released(
                [50, 9, 3],
                DiscreteLaplace(scale=[1.0, 5.0, 12.0]),
                [by_noise(laplace_mass(b)) for b in (1.0, 5.0, 12.0)],
                "region",
            )
        ],
    ),
    "noise of bounded reach": Case(
        SHOPS,
        DL3,
        [
            Released(
                [46, 2, 12],
                TruncatedDiscreteLaplace(scale=2, bound=4),
                by_noise(
                    (np.arange(-4.0, 5.0), (m := np.exp(-np.abs(np.arange(-4, 5)) / 2)) / m.sum())
                ),
                "region",
            )
        ],
        total=58,
    ),
    "noise of a density given as code": Case(
        SHOPS,
        DL3,
        [
            Released(
                [46.1, 2.0, 12.4],
                CustomNoise(logpdf=stats.logistic.logpdf, cdf=stats.logistic.cdf, sd=1.8),
                density(stats.logistic),
                "region",
            )
        ],
    ),
    "rows of a table": Case(
        {"arm": ["a", "b"], "month": [1, 2, 3]},
        Released(VALUES, DL3.mechanism, DL3.q),
        [whole_laplace("arm", [33, 29])],
        total=60,
        shape=(2, 3),
    ),
    "columns of a table, and the grand total": Case(
        {"arm": ["a", "b"], "month": [1, 2, 3]},
        Released(VALUES, DL3.mechanism, DL3.q),
        [whole_laplace("month", [18, 24, 12]), normal((), 70.0)],
        shape=(2, 3),
    ),
    "both dims, as one more measurement of each cell": Case(
        {"arm": ["a", "b"], "month": [1, 2, 3]},
        Released(VALUES, DL3.mechanism, DL3.q),
        [laplace(("arm", "month"), [[12.0, 17.0, 9.0], [10.0, 1.5, 12.0]])],
        total=60,
        shape=(2, 3),
    ),
    "arms by quarters of months": Case(
        {"arm": ["a", "b"], "month": [1, 2, 3], "half": ("month", ["h1", "h1", "h2"])},
        Released(VALUES, DL3.mechanism, DL3.q),
        [whole_laplace(("arm", "half"), [[25, 9], [11, 15]]), laplace("half", [40.0, 21.0])],
        shape=(2, 3),
    ),
    # Noise of a total has sd 2.8 or 2, that of a sum of cells 4.3 to 7.3.
    "Laplace totals far above": Case(
        SHOPS, DL3, [laplace("region", [90.0, 40.0, 38.0])], rate=0.02, cap=320
    ),
    "Laplace totals far below": Case(SHOPS, DL3, [whole_laplace("region", [4, -25, -17])]),
    "totals on either side, public total": Case(
        SHOPS, DL3, [normal("region", [10.0, 60.0, 12.0], 3.0)], total=63
    ),
    "a grand total far below all else": Case(SHOPS, DL3, [whole_normal((), 12, 2.0)]),
    "Laplace totals very far below": Case(SHOPS, DL3, [whole_laplace("region", [-45, -50, -38])]),
    "Gaussian totals far below, two levels": Case(
        SHOPS,
        Released(VALUES, Gaussian(sd=3), density(stats.norm(scale=3))),
        [normal("region", [12.0, 5.0, 30.0]), normal("country", [40.0, 12.0])],
    ),
    "Gaussian totals far above": Case(
        SHOPS,
        Released(VALUES, DiscreteGaussian(sigma=3), by_noise(gaussian_mass(3))),
        [normal("region", [120.0, 60.0, 52.0])],
        rate=0.02,
        cap=320,
    ),
    "a grand total far from all else": Case(
        SHOPS, DL3, [whole_laplace("region", [39, 9, 14]), normal((), 150.0)], cap=320, rate=0.02
    ),
    "a public total far from a noisy one": Case(SHOPS, DL3, [whole_normal((), 62, 2.0)], total=92),
    "a public total far from the totals": Case(
        SHOPS, DL3, [whole_normal("region", [39, 9, 14])], total=120
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nested_releases_against_enumeration(case):
    count, probability, total, evidence = enumerate_case(case)
    release = release_of(case)
    prior = Dirichlet(concentration=case.shapes, rate=case.rate if case.total is None else None)
    drawn = exact.draw_posterior(release, prior, DRAWS, np.random.default_rng(11))
    assert_mean_and_sd(drawn.count, *count)
    assert_mean_and_sd(drawn.probability, *probability)
    assert_mean_and_sd(drawn.total[:, None], [total[0]], [total[1]])
    np.testing.assert_array_equal(drawn.total, drawn.count.sum(axis=1))
    for method in ("fft", "direct"):
        assert exact.log_evidence(release, prior, method) == pytest.approx(evidence, rel=1e-8)
    assert drawn.log_evidence == pytest.approx(evidence, rel=1e-8)
    for margin in release.margins:
        if isinstance(margin.mechanism.noise, NoNoise):
            sums = margin.sums(drawn.count)
            np.testing.assert_array_equal(sums, np.broadcast_to(margin.values, sums.shape))


def test_a_margin_over_two_cells_only_from_the_table_of_oracles():
    path = Path(__file__).parents[1] / "data/exact_posteriors.json"
    (case,) = [c for c in json.loads(path.read_text())["cases"] if "margins" in c]
    (margin,) = case["margins"]
    assert margin["cells"] == [0, 1]
    release = HistogramRelease(
        case["values"],
        mechanism=Mechanism(Laplace(scale=case["scale"]), [Round()]),
        coords={"cell": [0, 1, 2], "g": ("cell", [0, 0, 1])},
        total=case["total"],
    ).with_margin({0: margin["value"]}, by="g", mechanism=Laplace(scale=margin["scale"]))
    prior = Dirichlet(concentration=case["concentration"])
    drawn = exact.draw_posterior(release, prior, DRAWS, np.random.default_rng(3))
    assert_mean_and_sd(drawn.count, case["count_mean"], case["count_sd"])
    assert_mean_and_sd(drawn.probability, case["probability_mean"], case["probability_sd"])
    for method in ("fft", "direct"):
        got = exact.log_evidence(release, prior, method)
        assert got == pytest.approx(case["log_evidence"], rel=1e-8)


# -- the same data released several times ------------------------------------------------


def test_repeated_cells_and_margins_multiply():
    # Joint likelihoods by hand: the oracle takes products of those of single releases.
    again = [12, 17, 3, 19, 1, 15]

    def product(*parts):
        return lambda _, counts: np.prod([q(v, counts) for q, v in parts], axis=0)

    first, second = by_noise(laplace_mass(3)), density(stats.norm(scale=5))
    cells = Released(
        VALUES, None, [product((first, a), (second, b)) for a, b in zip(VALUES, again, strict=True)]
    )
    twice = zip([47.0, 2.0, 13.0], [41, 8, 12], strict=True)
    one, two = density(stats.laplace(scale=2)), by_noise(laplace_mass(4))
    margin = Released([0, 0, 0], None, [product((one, a), (two, b)) for a, b in twice], "region")
    case = Case(SHOPS, cells, [margin], total=64, shapes=0.7)
    count, probability, _, evidence = enumerate_case(case)

    release = HistogramRelease(VALUES, mechanism=DiscreteLaplace(scale=3), coords=SHOPS)
    release = release.with_margin([47.0, 2.0, 13.0], by="region", mechanism=Laplace(scale=2))
    other = HistogramRelease(again, mechanism=Gaussian(sd=5), coords=SHOPS, total=64)
    other = other.with_margin([41, 8, 12], by="region", mechanism=DiscreteLaplace(scale=4))
    for both in (release.with_repeat(other), other.with_repeat(release)):
        assert both.total == 64
        prior = Dirichlet(concentration=0.7)
        drawn = exact.draw_posterior(both, prior, DRAWS, np.random.default_rng(3))
        assert_mean_and_sd(drawn.count, *count)
        assert_mean_and_sd(drawn.probability, *probability)
        for method in ("fft", "direct"):
            got = exact.log_evidence(both, prior, method)
            assert got == pytest.approx(evidence, rel=1e-8)


def test_three_releases_of_cells_that_share_nothing_else():
    values = [[9, 30], [14, 22], [None, 27]]
    laws = [DiscreteLaplace(scale=3), DiscreteGaussian(sigma=4), DiscreteLaplace(scale=5)]
    noise = [by_noise(laplace_mass(3)), by_noise(gaussian_mass(4))]
    noise.append(by_noise(laplace_mass(5), lambda x: np.where(x < 10, np.nan, x)))
    counts, rate = np.arange(300.0), 0.03
    f = np.array(
        [
            np.prod([q(v[j], counts) for q, v in zip(noise, values, strict=True)], axis=0)
            for j in (0, 1)
        ]
    )
    f *= (1 + rate) ** -counts * rate / (1 + rate)
    mass = f.sum(axis=1)
    mean = f @ counts / mass
    mechanisms = [laws[0], laws[1], Mechanism(laws[2], [Suppress(below=10)])]
    parts = [HistogramRelease(v, mechanism=m) for v, m in zip(values, mechanisms, strict=True)]
    release = parts[0].with_repeat(parts[1]).with_repeat(parts[2])
    drawn = exact.draw_posterior(release, Dirichlet(rate=rate), DRAWS, np.random.default_rng(3))
    assert_mean_and_sd(drawn.count, mean, np.sqrt(f @ counts**2 / mass - mean**2))
    assert drawn.log_evidence == pytest.approx(np.log(mass).sum(), rel=1e-10)


# -- what does not fit together ----------------------------------------------------------


def three_shops(**options):
    coords = {
        "shop": ["a", "b", "c"],
        "region": ("shop", ["n", "n", "s"]),
        "half": ("shop", [1, 2, 2]),
    }
    return HistogramRelease(
        [9, 21, 8], mechanism=DiscreteLaplace(scale=3), coords=coords, **options
    )


def refused(release, match):
    prior = Dirichlet(rate=None if release.total is not None else 0.1)
    with pytest.raises(ImpossibleReleaseError, match=match):
        exact.draw_posterior(release, prior, 10, np.random.default_rng(0))
    assert exact.log_evidence(release, prior) == -np.inf


def test_public_totals_that_contradict_each_other_are_named():
    release = three_shops().with_margin([30, 8], by="region", mechanism=NoNoise())
    refused(release.with_margin(40, by=(), mechanism=NoNoise()), "grand total")
    contradiction = three_shops(total=40).with_margin([30, 8], by="region", mechanism=NoNoise())
    refused(contradiction, "public total 40")


def test_a_total_that_its_cells_cannot_make_is_named():
    coords = {"shop": ["a", "b", "c"], "region": ("shop", ["n", "n", "s"])}
    release = HistogramRelease([9, 21, 8], mechanism=NoNoise(), coords=coords)
    narrow = TruncatedDiscreteLaplace(scale=1, bound=3)
    refused(release.with_margin({"n": 34}, by="region", mechanism=narrow), "total of region=n")
    refused(release.with_margin([30, 9], by="region", mechanism=NoNoise()), "total of region=s")


def test_a_total_that_is_no_count_is_refused_before_any_fit():
    with pytest.raises(ImpossibleReleaseError, match="total of region=s"):
        three_shops().with_margin([30, 8.5], by="region", mechanism=DiscreteLaplace(scale=2))


def test_margins_that_are_not_nested_have_no_tree():
    release = three_shops().with_margin([30, 8], by="region", mechanism=DiscreteLaplace(scale=2))
    release = release.with_margin([9, 29], by="half", mechanism=DiscreteLaplace(scale=2))
    with pytest.raises(UnsupportedError, match="not nested"):
        structure(release)
