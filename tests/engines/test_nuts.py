"""NUTS against posteriors by enumeration, and the verdict on draws."""

import json
from pathlib import Path

import arviz as az
import numpy as np
import pytest
import xarray as xr

from dpbayes.engines import nuts
from dpbayes.errors import ConvergenceWarning
from dpbayes.mechanism import Clamp, Mechanism, Round, Suppress
from dpbayes.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpbayes.priors import Dirichlet
from dpbayes.releases import HistogramRelease

ROWS = json.loads((Path(__file__).parents[1] / "data" / "exact_posteriors.json").read_text())
CASES = [case for case in ROWS["cases"] if "margins" not in case]
LAWS = {
    "laplace": lambda s: Laplace(scale=s),
    "discrete_laplace": lambda s: DiscreteLaplace(scale=s),
    "gaussian": lambda s: Gaussian(sd=s),
    "discrete_gaussian": lambda s: DiscreteGaussian(sigma=s),
}
DEFAULT = ("discrete gaussian, one cell suppressed below 10", "laplace, unknown total")


def build(case):
    described = case.get("steps", {})
    steps = [Round()] if described.get("round") else []
    if "clamp_lower" in described:
        steps.append(Clamp(lower=described["clamp_lower"]))
    if "suppress_below" in described:
        steps.append(Suppress(below=described["suppress_below"]))
    mechanism = Mechanism(LAWS[case["noise"]](case["scale"]), steps)
    release = HistogramRelease(case["values"], mechanism=mechanism, total=case["total"])
    return release, Dirichlet(concentration=case["concentration"], rate=case.get("rate"))


def check(case):
    drawn = nuts.fit_histogram(
        *build(case), draws=2000, tune=500, chains=4, random_seed=3, progressbar=False
    )
    assert drawn.convergence.converged
    for name in ("probability", "count"):
        draws = drawn.posterior[name].astype(float)
        for j in range(draws.shape[-1]):
            x = draws[..., j]
            mean, sd = x.mean(), x.std()
            error = sd / np.sqrt(float(az.ess(x)))
            assert abs(mean - case[f"{name}_mean"][j]) < 4 * error
            square = (x - mean) ** 2
            error = square.std() / np.sqrt(float(az.ess(square))) / (2 * sd)
            assert abs(sd - case[f"{name}_sd"][j]) < 4 * error
    if case["total"] is not None:
        assert np.all(drawn.posterior["total"] == case["total"])


@pytest.mark.parametrize(
    "case", [c for c in CASES if c["name"] in DEFAULT], ids=lambda c: c["name"]
)
def test_posterior_by_enumeration(case):
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [c for c in CASES if c["name"] not in DEFAULT], ids=lambda c: c["name"]
)
def test_other_posteriors_by_enumeration(case):
    check(case)


def tree(draws, diverging=0):
    stats = np.zeros(draws.shape[:2], dtype=bool)
    stats.flat[:diverging] = True
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(
                {"x": (("chain", "draw", "cell"), draws)},
                coords={"cell": ["a", "b"]},
            ),
            "sample_stats": xr.Dataset({"diverging": (("chain", "draw"), stats)}),
        }
    )


def test_verdict_on_good_draws_and_constant_cells():
    draws = np.random.default_rng(1).normal(size=(4, 1000, 2))
    assert nuts.convergence(tree(draws)).converged
    draws[..., 1] = 1.0
    assert nuts.convergence(tree(draws)).converged


def test_verdict_names_the_variable_and_the_remedy():
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(4, 1000, 2))
    draws[0, :, 1] += 3.0
    verdict = nuts.convergence(tree(draws, diverging=7))
    assert not verdict.converged
    assert verdict.divergences == 7
    assert verdict.worst_rhat == verdict.worst_bulk == "x[b]"
    assert verdict.min_ess < 100
    assert any("R-hat of x[b]" in p for p in verdict.problems)
    assert any("7 divergent" in p for p in verdict.problems)
    assert any("bulk ESS of x[b]" in p for p in verdict.problems)
    for remedy in ("--target-accept 0.99", "draws= and tune=, --draws and --tune"):
        assert any(remedy in p for p in verdict.problems)
    one = nuts.convergence(tree(draws, diverging=1)).problems[-1]
    assert one.startswith("1 divergent transition:")


def test_verdict_on_slow_chains_and_one_chain():
    walk = np.cumsum(np.random.default_rng(2).normal(size=(4, 1000, 2)), axis=1)
    assert any("ESS" in p for p in nuts.convergence(tree(walk)).problems)
    single = np.random.default_rng(2).normal(size=(1, 1000, 2))
    assert any("one chain" in p for p in nuts.convergence(tree(single)).problems)


def test_a_short_run_warns_and_repeats_itself():
    release = HistogramRelease([12.0, 30.0], mechanism=DiscreteLaplace(scale=3.0))
    runs = []
    for _ in range(2):
        with pytest.warns(ConvergenceWarning, match="too few effective draws"):
            runs.append(
                nuts.fit_histogram(
                    release, Dirichlet(rate=0.05), draws=30, tune=100, chains=2,
                    random_seed=5, progressbar=False,
                )
            )  # fmt: skip
    for name in ("probability", "count", "total"):
        np.testing.assert_array_equal(runs[0].posterior[name], runs[1].posterior[name])


def test_counts_of_huge_tables_are_drawn_with_their_total():
    rng = np.random.default_rng(4)
    n = 5_000_000
    counts = rng.multinomial(n, rng.dirichlet(np.ones(12)))
    law = DiscreteLaplace(scale=20.0)
    release = HistogramRelease(counts + law.rvs(12, rng), mechanism=law, total=n)
    p = rng.dirichlet(counts + 1.0, size=(1, 20))
    drawn = nuts.draw_counts(release, p, rng)
    assert np.all(drawn.sum(axis=-1) == n)
    assert np.abs(drawn - counts).max() < 20 * 20.0
