"""Mean integrated squared error of the perturbed histogram, in simulation and closed form.

``python -m tests.calibration.mise`` simulates the clamped, normalised histogram for two
densities, holds it against reference values where there are some, and the unclamped
histogram against its closed form.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes.compare import BetaMixture, Tuning, expected_error, simulate_errors
from tests.calibration.record import RESULTS, commit, write

__all__ = ["BINS", "REFERENCE", "TARGETS", "run"]

BINS = (5, 10, 15, 20, 30, 50)
TARGETS = {
    "Beta(10,10)": BetaMixture((10.0,), (10.0,)),
    "1/2 Beta(10,3) + 1/2 Beta(3,10)": BetaMixture((10.0, 3.0), (3.0, 10.0)),
}
#: (n, alpha) -> values for BINS under Beta(10, 10), 10 000 simulations each, three digits.
REFERENCE: dict[tuple[int, float], tuple[str, ...]] = {
    (100, np.inf): (".257", ".155", ".161", ".195", ".284", ".478"),
    (100, 1.0): (".271", ".203", ".260", ".354", ".583", "1.05"),
    (100, 0.1): (".925", "1.73", "2.33", "2.75", "3.28", "3.75"),
    (1000, np.inf): (".233", ".0875", ".0488", ".0380", ".0366", ".0508"),
    (1000, 0.1): (".248", ".142", ".164", ".231", ".420", ".858"),
    (1000, 0.01): (".912", "1.73", "2.32", "2.75", "3.26", "3.76"),
}


def _half_unit(text: str) -> float:
    return 0.5 * 10.0 ** -len(text.split(".")[1])


def run(simulations: int, seed: int, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Simulate all cells of the table and write it."""
    rows = []
    for name, target in TARGETS.items():
        for (n, alpha), reference in REFERENCE.items():
            rows += [
                _row(name, target, n, alpha, m, text, simulations, (seed, n, m, len(rows)))
                for m, text in zip(BINS, reference, strict=True)
            ]
    facts = [
        f"Commit {commit()}, seed {seed}, {simulations} simulations a cell.",
        "error: clamped at 0 and normalised, with its standard error.",
        "z: difference from the reference in combined standard errors (the reference has 10 000 "
        "simulations), after half a unit of its last digit is allowed for rounding.",
        "unclamped, closed form: their difference in standard errors is z of the closed form.",
    ]
    write("mise", "Error of the perturbed histogram", facts, rows, folder)
    return rows


def _row(
    name: str, target: BetaMixture, n: int, alpha: float, m: int, text: str, simulations: int,
    seed: Sequence[int],
) -> dict[str, Any]:  # fmt: skip
    rng, tuning = np.random.default_rng(seed), Tuning(bins=m)
    options = {"simulations": simulations, "rng": rng}
    clamped = simulate_errors("perturbed", "l2", target, n, alpha, tuning, **options)
    raw = simulate_errors("perturbed", "l2", target, n, alpha, tuning, clamp=False, **options)
    exact = expected_error("perturbed", target, n, alpha, tuning, clamp=False)
    error, spread = clamped.mean(), clamped.std() / np.sqrt(simulations)
    z = "-"
    if name == "Beta(10,10)":
        both = np.hypot(spread, clamped.std() / 100.0)
        z = f"{max(abs(error - float(text)) - _half_unit(text), 0.0) / both:.2f}"
    return {
        "density": name, "n": n, "alpha": f"{alpha:g}", "m": m,
        "error": f"{error:.4g}", "se": f"{spread:.2g}",
        "reference": text if name == "Beta(10,10)" else "-", "z": z,
        "unclamped": f"{raw.mean():.4g}", "closed form": f"{exact:.4g}",
        "z of the closed form": f"{abs(raw.mean() - exact) * np.sqrt(simulations) / raw.std():.2f}",
    }  # fmt: skip


def main() -> None:
    """Read the command line, run all cells, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=20265)
    options = parser.parse_args()
    run(options.simulations, options.seed)
    print((RESULTS / "mise.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
