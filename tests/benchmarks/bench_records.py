"""Cost of perturbed records: by number of records, and with and without whitening.

Usage: ``python tests/benchmarks/bench_records.py``
"""

import time

import numpy as np
import nutpie
import pymc as pm
import pytensor.tensor as pt
from scipy import stats

from dpbayes.distributions.mixture import NoisyMixture
from dpbayes.models.records import ELEMENT, build, plan_records, table_draws
from dpbayes.models.smooth import TAU_RATE, TAU_SHAPE
from dpbayes.noise import Laplace
from dpbayes.priors import Smooth
from dpbayes.releases import RecordRelease

SCALE, CELLS = 0.2, 40


def release_of(n, seed=1):
    """Beta(10, 10) records with Laplace noise."""
    rng = np.random.default_rng(seed)
    values = rng.beta(10, 10, n) + rng.laplace(0, SCALE, n)
    return RecordRelease(values, mechanism=Laplace(scale=SCALE), bounds=(0, 1))


def plain(plan):
    """The same posterior in unit normal innovations of the prior."""
    with pm.Model() as model:
        tau = pm.Gamma("tau", TAU_SHAPE, TAU_RATE)
        u = pm.Normal("u", shape=plan.law.rank)
        weights = pm.Deterministic(ELEMENT, pt.special.softmax(tau * pt.dot(plan.law.root, u)))
        NoisyMixture(
            "released", weights=weights, mechanism=plan.release.mechanism, edges=plan.edges,
            observed=plan.records,
        )  # fmt: skip
    return model


def evaluation(model):
    """Seconds per log posterior and gradient."""
    function = model.logp_dlogp_function(ravel_inputs=True)
    function.set_extra_values({})
    x = 0.1 * np.ones(sum(np.size(v) for v in model.initial_point().values()))
    function(x)
    start = time.perf_counter()
    for _ in range(2000):
        function(x)
    return (time.perf_counter() - start) / 2000


def main():
    """Print the tables."""
    prior = Smooth(order=2, atoms="none", cells=CELLS)
    times = {}
    for n in (10_000, 10_000_000):
        release = release_of(n)
        start = time.perf_counter()
        plan = plan_records(release, prior)
        planned = time.perf_counter() - start
        times[n] = evaluation(build(release, plan=plan))
        print(f"n = {n:>10,}: plan {planned:.2f} s, evaluation {1e6 * times[n]:.1f} µs")
    print(f"ratio {times[10_000_000] / times[10_000]:.2f}")
    release = release_of(1_000_000)
    plan = plan_records(release, prior)
    truth = np.diff(stats.beta(10, 10).cdf(plan.edges))
    for name, model in (("whitened", build(release, plan=plan)), ("plain", plain(plan))):
        start = time.perf_counter()
        compiled = nutpie.compile_pymc_model(model)
        middle = time.perf_counter()
        data = nutpie.sample(
            compiled, draws=500, tune=1000, chains=4, cores=2, seed=1, target_accept=0.9,
            progress_bar=False,
        )  # fmt: skip
        end = time.perf_counter()
        steps = float(data.sample_stats["n_steps"].mean())
        divergent = int(data.sample_stats["diverging"].sum())
        element = data.posterior[ELEMENT].values
        distance = 0.5 * np.abs(element.mean(axis=(0, 1)) - truth).sum()
        print(
            f"{name}: compile {middle - start:.1f} s, sample {end - middle:.1f} s, "
            f"{steps:.0f} leapfrog steps a draw, {divergent} divergences, "
            f"total variation {distance:.4f}"
        )
    start = time.perf_counter()
    table_draws(plan, np.repeat(element, 2, axis=1), np.random.default_rng(1))
    print(f"4000 draws of the true counts, n = 1e6: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
