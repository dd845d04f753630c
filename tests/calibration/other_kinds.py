"""Calibration of responses, synthetic rows, selections: data drawn from their prior.

``python -m tests.calibration.other_kinds`` draws P from its prior, records from P and a
release from the records, fits it, and holds the posterior against the truth. For synthetic
rows it also counts how often intervals cover that take the rows for data.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import dpbayes as dpb
from dpbayes.releases import (
    DirichletSampling,
    PerturbedSampling,
    QuantileLoss,
    Smoothing,
    WinnerLoss,
    flip_matrix,
)
from tests.calibration.record import RESULTS, commit, write

__all__ = ["CASES", "run"]

SHAPES = np.array([1.0, 2.0, 1.0, 0.5])
EDGES = np.arange(5.0)
MIDDLE = EDGES[:-1] + 0.5
BINS, LEVEL, N = 10, 0.9, 60
Maker = Callable[[np.ndarray, np.random.Generator], Any]


def _responses(**how: Any) -> Maker:
    def make(counts: np.ndarray, rng: np.random.Generator) -> Any:
        labels = list("abcd")
        blank = dpb.ResponseRelease(dict.fromkeys(labels, 1), categories=labels, **how)
        seen = rng.multinomial(counts, blank.responses).sum(axis=0).tolist()
        return dpb.ResponseRelease(dict(zip(labels, seen, strict=True)), categories=labels, **how)

    return make


def _rows(sampling: Any, draws: int) -> Maker:
    def make(counts: np.ndarray, rng: np.random.Generator) -> Any:
        return dpb.SyntheticRelease(
            sampling.sample(counts, draws, rng), sampling=sampling, total=N, edges=EDGES
        )

    return make


def _selection(loss: Any, alpha: float) -> Maker:
    def make(counts: np.ndarray, rng: np.random.Generator) -> Any:
        options = {
            "outcomes": list("abcd"), "loss": loss, "alpha": alpha, "sensitivity": 1.0, "total": N,
        }  # fmt: skip
        p = np.exp(dpb.SelectionRelease("a", **options).log_probabilities(counts))
        return dpb.SelectionRelease("abcd"[rng.choice(4, p=p / p.sum())], **options)

    return make


CASES: dict[str, Maker] = {
    "responses, epsilon 1": _responses(epsilon=1.0),
    "responses, two bits flipped with probability 1/4": _responses(matrix=flip_matrix(0.25, 0.25)),
    "40 smoothed rows": _rows(Smoothing(delta=0.3), 40),
    "40 rows, Dirichlet sampling": _rows(DirichletSampling(concentration=10.0), 40),
    "40 rows, perturbed": _rows(PerturbedSampling(mechanism=dpb.Laplace(scale=4)), 40),
    "5000 rows, perturbed": _rows(PerturbedSampling(mechanism=dpb.Laplace(scale=4)), 5000),
    "winner": _selection(WinnerLoss(), 0.2),
    "median": _selection(QuantileLoss(0.5), 0.2),
}


def _quantities(probability: np.ndarray, count: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "p, first cell": probability[..., 0],
        "p, last cell": probability[..., 3],
        "mean of P": probability @ MIDDLE,
        "count, second cell": count[..., 1],
    }


def run(
    reps: int, draws: int, seed: int, folder: Path = RESULTS, cases: Sequence[str] = tuple(CASES)
) -> list[dict[str, Any]]:
    """Run all cases and write the table."""
    rows, prior = [], dpb.Dirichlet(concentration=SHAPES)
    for case in cases:
        rng = np.random.default_rng([seed, list(CASES).index(case)])
        ranks: dict[str, list[float]] = {}
        covered: dict[str, list[bool]] = {}
        naive = []
        for rep in range(reps):
            p = rng.dirichlet(SHAPES)
            counts = rng.multinomial(N, p)
            release = CASES[case](counts, rng)
            found = dpb.fit(
                release, prior, draws=draws, chains=1, random_seed=seed + rep, progressbar=False
            )
            got = _quantities(found.probability.values[0], found.count.values[0])
            truth = _quantities(p, counts)
            for name, x in got.items():
                t = truth[name]
                rank = np.sum(x < t) + rng.uniform(0.0, np.sum(x == t) + 1.0)
                ranks.setdefault(name, []).append(float(rank / (x.size + 1)))
                low, high = np.quantile(x, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
                covered.setdefault(name, []).append(bool(low <= t <= high))
            if isinstance(release, dpb.SyntheticRelease):
                as_data = rng.dirichlet(SHAPES + release.values.values, size=draws) @ MIDDLE
                low, high = np.quantile(as_data, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
                naive.append(bool(low <= p @ MIDDLE <= high))
        for name, values in ranks.items():
            seen = np.histogram(values, BINS, (0.0, 1.0))[0]
            rows.append({
                "release": case, "quantity": name, "reps": len(values),
                "mean rank": f"{np.mean(values):.3f}",
                "chi2 p": f"{stats.chisquare(seen).pvalue:.4f}",
                "cover 90 %": f"{np.mean(covered[name]):.3f}",
                "rows as data": f"{np.mean(naive):.3f}" if naive and name == "mean of P" else "-",
            })  # fmt: skip
    facts = [
        f"Commit {commit()}, seed {seed}, {reps} data sets a row, {draws} draws each.",
        f"Prior Dirichlet{tuple(SHAPES.tolist())} over 4 cells, n = {N}.",
        f"chi2 p: ranks of the truth (ties broken at random) in {BINS} bins against uniform.",
        "rows as data: how often 90 % intervals cover that take synthetic rows for records.",
        "Intervals of integers are wider than 90 % by what their steps leave.",
    ]
    write("other_kinds", "Responses, synthetic rows, selections", facts, rows, folder)
    return rows


def main() -> None:
    """Read the command line, run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=300)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seed", type=int, default=20267)
    options = parser.parse_args()
    run(options.reps, options.draws, options.seed)
    print((RESULTS / "other_kinds.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
