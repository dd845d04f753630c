"""Calibration of the default prior on tables of real shapes.

``python -m tests.calibration.default_prior --reps 50`` fits every shape of `shapes.SHAPES`
at several numbers of cells and noise scales, with unknown and with public totals, and holds
the posterior of the true counts and of the total against the truth.
"""

import argparse
import itertools
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import dpbayes as dpb
from tests.calibration.record import RESULTS, commit, write
from tests.calibration.shapes import SHAPES

__all__ = ["one_fit", "run", "summarise"]

SCALES = (2.0, 20.0)


def one_fit(task: tuple[str, int, float, bool, int, int, int]) -> dict[str, Any]:
    """Draw one table, release it, fit it; return what was measured."""
    shape, cells, scale, public, rep, seed, draws = task
    key = [seed, list(SHAPES).index(shape), cells, int(scale), int(public), rep]
    rng = np.random.default_rng(np.random.SeedSequence(key))
    truth = SHAPES[shape](cells, rng)
    law = dpb.DiscreteLaplace(scale=scale)
    released = truth + law.rvs(cells, rng)
    release = dpb.HistogramRelease(
        released, mechanism=law, total=int(truth.sum()) if public else None
    )
    start = time.perf_counter()
    posterior = dpb.fit(release, draws=draws, random_seed=rep, progressbar=False)
    seconds = time.perf_counter() - start
    count = posterior.count.values.reshape(-1, cells)
    total = posterior.total.values.reshape(-1)
    low, high = np.quantile(count, [0.05, 0.95], axis=0)
    total_low, total_high = np.quantile(total, [0.05, 0.95])
    verdict = posterior.verdict()
    counts = [name for name in verdict.prior_dominated if name.startswith("count")]
    sum_sd = float(law.sd) * np.sqrt(cells)
    return {
        "key": (shape, cells, scale, public),
        "cover": np.mean((low <= truth) & (truth <= high)),
        "error": np.mean(np.abs(count.mean(axis=0) - truth)),
        "naive": np.mean(np.abs(released - truth)),
        "clipped": np.mean(np.abs(np.maximum(released, 0) - truth)),
        "total_sds": truth.sum() / sum_sd,
        "bias": (total.mean() - truth.sum()) / sum_sd,
        # The released sum is unbiased: what is subtracted here is noise only.
        "pull": (total.mean() - released.sum()) / sum_sd,
        "total_cover": total_low <= truth.sum() <= total_high,
        "upper": total_high / sum_sd,
        "hidden": truth.max() < 0.5 * scale,
        "flagged": len(counts) / cells,
        "rhat": verdict.diagnostics["max_rhat"],
        "ess": verdict.diagnostics["min_ess"],
        "seconds": seconds,
    }


def summarise(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per shape, number of cells, noise scale and kind of total."""
    rows = []
    keys = list(dict.fromkeys(r["key"] for r in results))
    for key in sorted(keys, key=lambda k: (k[3], k[1], k[2], list(SHAPES).index(k[0]))):
        of = [r for r in results if r["key"] == key]

        def mean(name: str, of: list[dict[str, Any]] = of) -> float:
            return float(np.mean([r[name] for r in of]))

        shape, cells, scale, public = key
        empty = mean("total_sds") == 0
        rows.append({
            "table": shape,
            "cells": cells,
            "b": f"{scale:g}",
            "total": "public" if public else "unknown",
            "reps": len(of),
            "cover 90 %": f"{mean('cover'):.3f}",
            "error / naive": f"{mean('error') / mean('naive'):.3f}",
            "error / clipped": f"{mean('error') / mean('clipped'):.3f}",
            "signal < b/2": "yes" if all(r["hidden"] for r in of) else "",
            "counts flagged": f"{mean('flagged'):.2f}",
            "total, noise sds": f"{mean('total_sds'):.1f}",
            "bias of total": "" if public else f"{mean('bias'):+.2f}",
            "less noise": "" if public else f"{mean('pull'):+.2f}",
            "cover of total": "" if public or empty else f"{mean('total_cover'):.2f}",
            "upper 95 % of total": f"{mean('upper'):.2f}" if empty and not public else "",
            "R-hat max": f"{max(r['rhat'] for r in of):.4f}",
            "ESS min": f"{min(r['ess'] for r in of):.0f}",
            "seconds": f"{mean('seconds'):.1f}",
        })  # fmt: skip
    return rows


def run(
    reps: int,
    cells: list[int],
    totals: list[bool],
    jobs: int = 1,
    seed: int = 20260,
    draws: int = 1000,
    folder: Path = RESULTS,
    name: str = "default_prior",
) -> list[dict[str, Any]]:
    """Run the grid; the table is written after every sweep over shapes and scales."""
    made_by = commit()
    results: list[dict[str, Any]] = []
    pool = ProcessPoolExecutor(jobs) if jobs > 1 else None
    rows: list[dict[str, Any]] = []
    try:
        for public, size in itertools.product(totals, cells):
            for rep in range(reps):
                tasks = [
                    (shape, size, scale, public, rep, seed, draws)
                    for shape, scale in itertools.product(SHAPES, SCALES)
                ]
                results += (pool.map if pool else map)(one_fit, tasks)
                rows = summarise(results)
                facts = [
                    f"Commit {made_by}, seed {seed}, 4 x {draws} draws, discrete Laplace noise of "
                    f"scale b; {reps} repetitions asked for, `reps` were done.",
                    "cover 90 %: share of true counts within the equal-tailed 90 % interval.",
                    "error: mean absolute error of the posterior mean, over that of the released "
                    "values (naive) and of these with negatives set to 0 (clipped).",
                    "counts flagged: share of counts that the verdict calls prior-dominated.",
                    "Bias and upper bound of the total in noise sds of the sum; less noise: the "
                    "same bias, estimated by the distance from the (unbiased) released sum.",
                ]
                write(name, "Default prior on tables of real shapes", facts, rows, folder)
    finally:
        if pool:
            pool.shutdown(cancel_futures=True)
    return rows


def main() -> None:
    """Read the command line and run the grid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=50)
    parser.add_argument("--cells", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--total", choices=["unknown", "public", "both"], default="both")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=20260)
    parser.add_argument("--draws", type=int, default=1000, help="per chain, of 4 chains")
    parser.add_argument("--name", default="default_prior", help="of the files in results/")
    options = parser.parse_args()
    totals = {"unknown": [False], "public": [True], "both": [False, True]}[options.total]
    run(
        options.reps, options.cells, totals, options.jobs, options.seed, options.draws,
        name=options.name,
    )  # fmt: skip
    print((RESULTS / f"{options.name}.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
