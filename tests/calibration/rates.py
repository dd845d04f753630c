"""Rates of convergence: fitted exponents of the error against those of the theory.

``python -m tests.calibration.rates`` simulates every mechanism at the tuning that reaches its
rate, fits the exponent of n, writes the table, and puts a short one into README.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes.compare import compare, exponents
from tests.calibration.record import RESULTS, commit, markdown, write

__all__ = ["README", "README_MARK", "run"]

README = Path(__file__).parents[2] / "README.md"
README_MARK = re.compile(r"(<!-- rates: begin[^>]*-->\n).*?(<!-- rates: end -->)", re.DOTALL)
#: Mechanism, distance, dimension, largest power of 10 of n.
CASES = [
    ("none", "l2", 1, 8), ("none", "l2", 2, 8), ("none", "ks", 1, 8),
    ("perturbed", "l2", 1, 8), ("perturbed", "l2", 2, 8),
    ("perturbed", "ks", 1, 8), ("perturbed", "ks", 2, 8),
    ("smoothed", "l2", 1, 8), ("smoothed", "l2", 2, 8), ("smoothed", "ks", 1, 8),
    ("exponential", "ks", 1, 4),
]  # fmt: skip


def _powers(most: int, distance: str) -> list[int]:
    least = 4 if most > 4 else 2
    return np.rint(10.0 ** np.arange(least, most + 0.25, 0.5)).astype(int).tolist()


def run(
    simulations: int,
    seed: int,
    folder: Path = RESULTS,
    cases: Sequence[tuple[str, str, int, int]] = tuple(CASES),
    alpha: float = 1.0,
) -> list[dict[str, Any]]:
    """Simulate all cases and write the table."""
    rows = []
    for mechanism, distance, dimension, most in cases:
        number = simulations if mechanism != "exponential" else max(4, simulations // 20)
        records = _powers(most, distance)
        table = compare(
            [mechanism], records=records, alphas=[alpha], distance=distance, dimension=dimension,
            simulations=number, random_seed=seed, workers=1, progressbar=False,
        )  # fmt: skip
        found = exponents(table).iloc[0]
        middle = records[len(records) // 2]
        early = exponents(table[table["records"] <= middle]).iloc[0]
        late = exponents(table[table["records"] >= middle]).iloc[0]
        rows.append({
            "mechanism": mechanism,
            "distance": {"l2": "squared L2", "ks": "KS"}[distance],
            "r": dimension,
            "n": f"1e{np.log10(records[0]):g} to 1e{np.log10(records[-1]):g}",
            "theory": f"{found['theory']:.3f}" + " (bound)" * (mechanism == "exponential"),
            "fitted": f"{found['fitted']:.3f}",
            "se": f"{found['standard_error']:.3f}",
            "lower half": f"{early['fitted']:.3f}",
            "upper half": f"{late['fitted']:.3f}",
            "error at the largest n": f"{table['error'].iloc[-1]:.3g}",
            "simulations": number,
        })  # fmt: skip
    facts = [
        f"Commit {commit()}, seed {seed}, alpha {alpha:g}, Beta(10, 10) on each axis.",
        "Exponents of n, logarithms left out; the tuning has all constants 1 and, for the smoothed "
        "histogram, the least delta that alpha allows.",
        "fitted: least squares of log error on log n; lower and upper half: the same over the "
        "smaller and the larger n.",
        "exponential: k = n^(2/3) points. The theory is an upper bound; by the small-ball "
        "probability of a Brownian bridge, k points come within (nk)^(-1/3) = n^(-5/9) of the "
        "records' distribution function, so that n^(-1/2) is reached.",
    ]
    write("rates", "Rates of convergence", facts, rows, folder)
    return rows


def update_readme(rows: Sequence[dict[str, Any]], path: Path = README) -> None:
    """Put the short table between its marks in README."""
    names = ("mechanism", "distance", "r", "theory", "fitted", "upper half")
    short = markdown([{name: row[name] for name in names} for row in rows])
    text = path.read_text(encoding="utf-8")
    new, times = README_MARK.subn(lambda m: m[1] + short + "\n" + m[2], text)
    if times != 1:
        raise ValueError(f"{path} must hold the marks of the table of rates once, found {times}")
    path.write_text(new, encoding="utf-8")


def main() -> None:
    """Read the command line, run all cases, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=20266)
    parser.add_argument("--readme", action="store_true", help="update the table in README")
    options = parser.parse_args()
    rows = run(options.simulations, options.seed)
    if options.readme:
        update_readme(rows)
    print((RESULTS / "rates.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
