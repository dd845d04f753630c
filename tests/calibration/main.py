"""Calibration of the main job: Dirichlet histograms with data drawn from their prior.

``python -m tests.calibration.main --reps 600`` draws P from its prior, records from P and a
release from the records, fits it, and holds the posterior against the truth: ranks of the
truth among the draws must be uniform, and 90 % intervals must cover nine times out of ten.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import dpbayes as dpb
from dpbayes.engines.exact import draw_prior
from dpbayes.mechanism import Clamp, Mechanism, Round, Suppress
from tests.calibration.record import RESULTS, commit, write

__all__ = ["CASES", "run"]

EDGES = np.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
SHAPES = (0.5, 1.0, 2.0, 2.0, 1.0, 0.5)
CASES: dict[str, tuple[Mechanism, int | None]] = {
    "discrete Laplace, public n": (Mechanism(dpb.DiscreteLaplace(scale=6)), 200),
    "discrete Laplace, unknown n": (Mechanism(dpb.DiscreteLaplace(scale=6)), None),
    "Laplace clamped at 0, public n": (Mechanism(dpb.Laplace(scale=6), [Clamp(lower=0)]), 200),
    "discrete Laplace clamped at 0, unknown n": (
        Mechanism(dpb.DiscreteLaplace(scale=6), [Clamp(lower=0)]), None,
    ),
    "suppressed below 20, public n": (
        Mechanism(dpb.DiscreteLaplace(scale=6), [Suppress(below=20)]), 200,
    ),
    "suppressed below 20, unknown n": (
        Mechanism(dpb.DiscreteGaussian(sigma=8), [Suppress(below=20)]), None,
    ),
    "Gaussian rounded to tens, public n": (
        Mechanism(dpb.Gaussian(sd=8), [Round(step=10)]), 200,
    ),
}  # fmt: skip
BINS, LEVEL = 10, 0.9


def _quantities(probability: np.ndarray, count: np.ndarray) -> dict[str, np.ndarray]:
    """Scalars whose posterior is checked, from arrays whose last axis runs over cells."""
    middle, width = 0.5 * (EDGES[1:] + EDGES[:-1]), np.diff(EDGES)
    heights = np.cumsum(probability, axis=-1)
    below = np.clip(0.5 - (heights - probability), 0.0, None)
    inside = np.minimum(below / np.maximum(probability, 1e-300), 1.0)
    median = EDGES[0] + (width * inside).sum(axis=-1)
    return {
        "p, first cell": probability[..., 0],
        "p, third cell": probability[..., 2],
        "count, first cell": count[..., 0],
        "count, third cell": count[..., 2],
        "total": count.sum(axis=-1),
        "mean of P": probability @ middle,
        "median of P": median,
    }


def run(reps: int, draws: int, seed: int, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Run all cases and write the table."""
    rows = []
    for case, (mechanism, total) in CASES.items():
        prior = dpb.Dirichlet(concentration=SHAPES, rate=None if total is not None else 0.035)
        rng = np.random.default_rng([seed, list(CASES).index(case)])
        template = dpb.HistogramRelease(
            np.full(6, 20.0), mechanism=mechanism, edges=EDGES, total=total
        )
        ranks: dict[str, list[float]] = {}
        covered: dict[str, list[bool]] = {}
        for rep in range(reps):
            true = draw_prior(template, prior, 1, rng)
            values = mechanism.sample(true["count"][0].astype(float), rng)
            release = dpb.HistogramRelease(values, mechanism=mechanism, edges=EDGES, total=total)
            found = dpb.fit(
                release, prior, draws=draws, chains=1, random_seed=seed + rep, progressbar=False
            )
            got = _quantities(found.probability.values[0], found.count.values[0])
            truth = _quantities(true["probability"][0], true["count"][0])
            if rep == 0:  # the same functionals as the package's own
                np.testing.assert_allclose(got["mean of P"], found.P.mean().values[0])
                np.testing.assert_allclose(got["median of P"], found.P.quantile(0.5).values[0])
            for name, x in got.items():
                if np.ptp(x) == 0 and total is not None and name == "total":
                    continue
                t = truth[name]
                rank = np.sum(x < t) + rng.uniform(0.0, np.sum(x == t) + 1.0)
                ranks.setdefault(name, []).append(float(rank / (x.size + 1)))
                low, high = np.quantile(x, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
                covered.setdefault(name, []).append(bool(low <= t <= high))
        for name, values in ranks.items():
            seen = np.histogram(values, BINS, (0.0, 1.0))[0]
            rows.append({
                "release": case,
                "quantity": name,
                "reps": len(values),
                "mean rank": f"{np.mean(values):.3f}",
                "chi2 p": f"{stats.chisquare(seen).pvalue:.4f}",
                "cover 90 %": f"{np.mean(covered[name]):.3f}",
            })  # fmt: skip
    facts = [
        f"Commit {commit()}, seed {seed}, {reps} data sets a row, {draws} draws each.",
        f"Prior Dirichlet{SHAPES} over {EDGES.size - 1} bins; n = 200, or Gamma rates of mean 200.",
        f"chi2 p: ranks of the truth (ties broken at random) in {BINS} bins against uniform.",
        "Intervals of integers are wider than 90 % by what their steps leave.",
    ]
    write("main", "Dirichlet histograms with data drawn from the prior", facts, rows, folder)
    return rows


def main() -> None:
    """Read the command line, run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=600)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seed", type=int, default=20261)
    options = parser.parse_args()
    run(options.reps, options.draws, options.seed)
    print((RESULTS / "main.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
