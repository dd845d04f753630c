"""Cost of the exact engines: ``python -m tests.benchmarks.bench_exact [name ...]``.

Every case runs in a process of its own, after a small case that compiles the kernels, and
prints CPU seconds, wall seconds and peak memory.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import dpbayes as dpb
from dpbayes.engines import exact

#: Something that was timed: a label, the work, and the target in seconds (None: no target).
Case = tuple[str, Callable[[], object], float | None]


def skewed(cells: int, records: int, seed: int) -> np.ndarray:
    """Counts of a table whose cells differ in size."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(records, rng.dirichlet(np.full(cells, 0.7)))


def released(
    cells: int, records: int, *, public: bool = True, law: object = None, seed: int = 0
) -> dpb.HistogramRelease:
    """Release a skewed table with discrete Laplace noise of scale 20."""
    law = law or dpb.DiscreteLaplace(scale=20)
    counts = skewed(cells, records, seed)
    noise = law.rvs(cells, np.random.default_rng(seed + 1))
    total = int(counts.sum()) if public else None
    return dpb.HistogramRelease(counts + noise, mechanism=law, total=total)


def draw(
    release: dpb.HistogramRelease, draws: int, prior: dpb.Dirichlet | None = None
) -> Callable[[], object]:
    """Draw from the exact engine."""
    prior = prior or dpb.Dirichlet()
    return lambda: exact.draw_posterior(release, prior, draws, np.random.default_rng(0))


def few_cells() -> Iterator[Case]:
    """(i) 50 cells with a public total."""
    release = released(50, 20_000)
    yield "50 cells, n = 20 000, 4000 draws", draw(release, 4000), 0.15
    yield (
        "the same through fit",
        lambda: dpb.fit(release, dpb.Dirichlet(), random_seed=1, progressbar=False),
        None,
    )


def against_nuts() -> Iterator[Case]:
    """Effective draws a second of (i) against PyMC with latent counts, sampled by nutpie."""

    def compare() -> None:
        import arviz as az
        import nutpie
        import pymc as pm

        release = released(50, 20_000)
        start = time.process_time()
        exact.draw_posterior(release, dpb.Dirichlet(), 4000, np.random.default_rng(0))
        ours = 4000 / (time.process_time() - start)
        with pm.Model() as model:
            p = pm.Dirichlet("p", np.ones(50))
            mean = release.total * p  # the multinomial counts, relaxed to normal ones
            count = pm.TruncatedNormal("count", mean, pm.math.sqrt(mean), lower=0, shape=50)
            pm.Laplace("released", count, 20.0, observed=release.values.values.astype(float))
        compiled = nutpie.compile_pymc_model(model)
        start = time.process_time()
        trace = nutpie.sample(compiled, draws=500, tune=1000, chains=4, cores=2, progress_bar=False)
        seconds = time.process_time() - start
        theirs = float(az.ess(trace, var_names=["count"])["count"].min()) / seconds
        print(
            f"effective draws per CPU second: {ours:.0f} exact, {theirs:.1f} by NUTS on latent "
            f"counts: ratio {ours / theirs:.0f}", flush=True,
        )  # fmt: skip

    yield "50 cells against NUTS", compare, None


def public_totals() -> Iterator[Case]:
    """(ii) Growth of the cost with the number of cells, public total."""
    for cells in (512, 1024, 2048, 4096):
        release = released(cells, 82 * cells)
        target = 6.0 if cells == 4096 else None
        yield f"{cells} cells, n = {82 * cells}, 1000 draws", draw(release, 1000), target


def million() -> Iterator[Case]:
    """(iii) Growth of the cost with the number of cells, unknown total, rate given."""
    for cells in (10_000, 100_000, 1_000_000):
        release = released(cells, 5 * cells, public=False)
        prior = dpb.Dirichlet(rate=0.2)
        target = 30.0 if cells == 1_000_000 else None
        yield f"{cells} cells, unknown total, 100 draws", draw(release, 100, prior), target


def alike() -> Iterator[Case]:
    """Many cells that say the same."""
    mechanism = dpb.Mechanism(dpb.DiscreteLaplace(scale=20), [dpb.Clamp(lower=0)])
    release = dpb.HistogramRelease(np.zeros(20_000), mechanism=mechanism)
    prior = dpb.Dirichlet(rate=0.2)
    yield "20 000 zeros clamped, rate given, 100 draws", draw(release, 100, prior), 1.0
    yield "20 000 zeros clamped, unknown rate, 100 draws", draw(release, 100), 10.0


def heavy_noise() -> Iterator[Case]:
    """Noise of scale 1e5."""
    law = dpb.DiscreteLaplace(scale=1e5)
    release = dpb.HistogramRelease([150_000, -80_000, 420_000], mechanism=law)
    yield "3 cells, b = 1e5, unknown rate, 1000 draws", draw(release, 1000), 5.0
    rng = np.random.default_rng(3)
    values = 1e5 * rng.standard_normal(20) + 2e5
    gaussian = dpb.HistogramRelease(values, mechanism=dpb.Gaussian(sd=1e5))
    yield "20 cells, sd = 1e5, unknown rate, 1000 draws", draw(gaussian, 1000), 5.0
    for noise in (dpb.Gaussian(sd=1e5), law):
        known = dpb.HistogramRelease(np.rint(values), mechanism=noise, total=4_000_000)
        yield f"20 cells, {noise!r}, public total, 1000 draws", draw(known, 1000), 5.0


def hierarchy() -> Iterator[Case]:
    """(iv) Four levels of noisy totals."""
    law = dpb.DiscreteLaplace(scale=20)
    for sizes in ((50, 6, 30), (50, 60, 30)):
        counts = skewed(int(np.prod(sizes)), 10 * int(np.prod(sizes)), 4).reshape(sizes)
        rng = np.random.default_rng(5)
        names = ["country", "region", "shop"]
        coords = {n: list(range(s)) for n, s in zip(names, sizes, strict=True)}
        release = dpb.HistogramRelease(counts + law.rvs(sizes, rng), mechanism=law, coords=coords)
        for depth in (2, 1, 0):
            totals = counts.sum(axis=tuple(range(depth, 3)))
            noisy = totals + law.rvs(totals.shape, rng)
            release = release.with_margin(noisy, by=tuple(names[:depth]), mechanism=law)
        shape = " x ".join(map(str, sizes))
        target = 30.0 if sizes[1] == 60 else None
        yield (
            f"{shape}, four levels, 200 draws",
            draw(release, 200, dpb.Dirichlet(rate=0.1)),
            target,
        )


def many() -> Iterator[Case]:
    """(v) 10 000 releases of 8 cells through fit_many."""
    import pandas as pd

    law = dpb.DiscreteLaplace(scale=20)
    groups, cells = 10_000, 8
    counts = np.random.default_rng(6).poisson(60.0, (groups, cells))
    frame = pd.DataFrame({
        "page": np.repeat(np.arange(groups), cells),
        "cell": np.tile(np.arange(cells), groups),
        "value": (counts + law.rvs(counts.shape, np.random.default_rng(7))).reshape(-1),
        "n": np.repeat(counts.sum(axis=1), cells),
    })  # fmt: skip
    for label, total, prior in (
        ("public totals", "n", dpb.Dirichlet()),
        ("unknown totals, rate given", None, dpb.Dirichlet(rate=0.02)),
    ):
        yield f"10 000 releases of 8 cells, {label}, 200 draws", lambda t=total, p=prior: (
            dpb.fit_many(
                frame, by="page", value="value", dims="cell", mechanism=law, total=t, prior=p,
                draws=50, chains=4, random_seed=1, progressbar=False,
            )
        ), 20.0  # fmt: skip


def mixture() -> Iterator[Case]:
    """(vi) ScaleMixture."""
    from dpbayes.engines import mixture as engine

    def sampler(release: dpb.HistogramRelease) -> Callable[[], object]:
        seeds = np.random.SeedSequence(1)
        return lambda: engine.draw_posterior(release, dpb.ScaleMixture(), 1000, 4, 300, seeds)

    release = released(4096, 335_889, public=False)
    yield "4096 cells, ScaleMixture, unknown total, engine alone", sampler(release), None
    yield (
        "4096 cells, ScaleMixture, unknown total, fit",
        lambda: dpb.fit(release, random_seed=1, progressbar=False),
        10.0,
    )
    for cells, target in ((64, 2.0), (1024, 15.0), (4096, None)):
        public = released(cells, 82 * cells)
        yield (
            f"{cells} cells, ScaleMixture, public total, fit",
            lambda r=public: dpb.fit(r, random_seed=1, progressbar=False),
            target,
        )


GROUPS = {
    "few": few_cells, "nuts": against_nuts, "public": public_totals, "million": million,
    "alike": alike, "heavy": heavy_noise, "hierarchy": hierarchy, "many": many, "mixture": mixture,
}  # fmt: skip


def warm_up(group: str = "") -> None:
    """Compile, or load from the cache, all kernels."""
    rng = np.random.default_rng(0)
    for public in (True, False):
        release = released(40, 400, public=public)
        exact.draw_posterior(release, dpb.Dirichlet(), 10, rng)
        exact.draw_posterior(release, dpb.Dirichlet(rate=0.1), 10, rng)
    if group == "mixture":
        for public in (True, False):
            dpb.fit(released(40, 400, public=public), draws=20, random_seed=1, progressbar=False)


def measure(group: str, index: int) -> None:
    """Time one case and print its line."""
    warm_up(group)
    label, work, target = next(c for i, c in enumerate(GROUPS[group]()) if i == index)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    goal = "" if target is None else f"  (target {target:g} s)"
    print(
        f"{group:10s} {label:58s} CPU {cpu:8.3f} s  wall {wall:8.3f} s  "
        f"peak {peak:5.2f} GB (from {before:.2f}){goal}", flush=True,
    )  # fmt: skip


def main(names: list[str]) -> None:
    """Run the named groups, all by default."""
    context = multiprocessing.get_context("spawn")
    for name in names or GROUPS:
        for index in range(sum(1 for _ in GROUPS[name]())):
            process = context.Process(target=measure, args=(name, index))
            process.start()
            process.join()


if __name__ == "__main__":
    main(sys.argv[1:])
