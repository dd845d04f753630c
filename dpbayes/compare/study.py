"""Studies over mechanisms, numbers of records and privacy losses."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes.compare.errors import expected_error, simulate_errors
from dpbayes.compare.rates import MECHANISMS, Tuning, rate, tuning
from dpbayes.compare.targets import BetaMixture
from dpbayes.engines.progress import progress_bar
from dpbayes.errors import ParameterError
from dpbayes.noise.base import positive
from dpbayes.privacy import smoothing_delta
from dpbayes.privacy.neighbours import whole

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["best_bins", "compare", "exponents"]


def compare(
    mechanisms: Sequence[str] = MECHANISMS[:3],
    *,
    records: Sequence[int] = (1_000, 10_000, 100_000),
    alphas: Sequence[float] = (1.0,),
    distance: str = "l2",
    target: BetaMixture | None = None,
    bins: Sequence[int] | None = None,
    dimension: int = 1,
    simulations: int = 1000,
    clamp: bool = True,
    random_seed: int = 0,
    workers: int | None = None,
    progressbar: bool = True,
) -> pd.DataFrame:
    """Tabulate errors of mechanisms, by simulation and in closed form where one is known.

    Parameters
    ----------
    mechanisms : sequence of str
        Some of "none", "perturbed", "smoothed", "exponential".
    records : sequence of int
        Numbers of records n.
    alphas : sequence of float
        Privacy losses α.
    distance : {"l2", "ks"}
        Squared L2 distance of densities, or Kolmogorov-Smirnov distance.
    target : BetaMixture, optional
        Law of each coordinate; Beta(10, 10) by default.
    bins : sequence of int, optional
        Cells along each axis; by default those that reach the rate (see `tuning`).
    dimension : int
        Dimension r of the records.
    simulations : int
        Simulations per row.
    clamp : bool
        Whether perturbed histograms are clamped at 0 and normalised.
    random_seed : int
        Seed; every row has a stream of its own.
    workers : int, optional
        Processes; as many as there are processors by default.
    progressbar : bool
        Show progress.

    Returns
    -------
    pandas.DataFrame
        Columns mechanism, distance, dimension, records, alpha, bins, draws, delta, error,
        standard_error, exact (closed form, NaN where unknown), simulations.
    """
    import pandas as pd

    truth = target or BetaMixture()
    tasks = []
    for place, (mechanism, n, alpha) in enumerate(itertools.product(mechanisms, records, alphas)):
        whole("records", n, 2)
        positive("alpha", alpha, allow_inf=True)
        numbers: Sequence[int | None] = bins or [None]
        for m in numbers:
            chosen = _tuned(mechanism, distance, n, alpha, dimension, m)
            tasks.append((mechanism, distance, truth, n, alpha, chosen, simulations, dimension,
                          clamp, (random_seed, place, chosen.bins)))  # fmt: skip
    number = min(workers or os.cpu_count() or 1, len(tasks))
    rows: list[Any] = [None] * len(tasks)
    with progress_bar("Simulating", len(tasks), progressbar) as advance:
        if number == 1:
            for i, task in enumerate(tasks):
                rows[i] = _row(*task)
                advance(1)
        else:
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(number, mp_context=context) as pool:
                waiting = {pool.submit(_row, *task): i for i, task in enumerate(tasks)}
                for done in as_completed(waiting):
                    rows[waiting[done]] = done.result()
                    advance(1)
    return pd.DataFrame(rows)


def _tuned(
    mechanism: str, distance: str, n: int, alpha: float, dimension: int, bins: int | None
) -> Tuning:
    """Tuning that reaches the rate, with the number of bins replaced where one is given."""
    chosen = tuning(mechanism, distance, n, alpha, dimension)
    if bins is None or mechanism == "exponential":
        return chosen
    whole("bins", bins, 1)
    if mechanism != "smoothed":
        return Tuning(bins=bins)
    assert chosen.draws is not None
    delta = smoothing_delta(alpha=alpha, draws=chosen.draws, records=n, cells=bins**dimension)
    return Tuning(bins=bins, draws=chosen.draws, delta=delta)


def _row(
    mechanism: str,
    distance: str,
    target: BetaMixture,
    n: int,
    alpha: float,
    chosen: Tuning,
    simulations: int,
    dimension: int,
    clamp: bool,
    seed: tuple[int, ...],
) -> dict[str, Any]:
    errors = simulate_errors(
        mechanism, distance, target, n, alpha, chosen, simulations=simulations,
        dimension=dimension, clamp=clamp, rng=np.random.default_rng(seed),
    )  # fmt: skip
    exact = None
    if distance == "l2":
        exact = expected_error(
            mechanism, target, n, alpha, chosen, dimension=dimension, clamp=clamp
        )
    spread = errors.std(ddof=1) / np.sqrt(errors.size) if errors.size > 1 else np.nan
    return {
        "mechanism": mechanism, "distance": distance, "dimension": dimension, "records": n,
        "alpha": alpha, "bins": chosen.bins, "draws": chosen.draws, "delta": chosen.delta,
        "error": float(errors.mean()), "standard_error": float(spread),
        "exact": np.nan if exact is None else exact, "simulations": simulations,
    }  # fmt: skip


def exponents(table: pd.DataFrame) -> pd.DataFrame:
    """Fitted exponents of n in a table of `compare`, beside those of the theory.

    Parameters
    ----------
    table : pandas.DataFrame
        Result of `compare` with at least two numbers of records.

    Returns
    -------
    pandas.DataFrame
        One row per mechanism, distance, dimension and α: ``fitted`` (least squares of
        log error on log n, over all n), ``standard_error`` (from the simulations), ``last``
        (between the two largest n) and ``theory``.
    """
    import pandas as pd

    rows = []
    for key, part in table.groupby(["mechanism", "distance", "dimension", "alpha"], sort=False):
        mechanism, distance, dimension, alpha = key
        part = part.sort_values("records")
        if part["records"].nunique() < 2 or part["records"].duplicated().any():
            raise ParameterError(
                "exponents need two or more numbers of records, each with one number of bins"
            )
        error = part["error"].to_numpy()
        x, y = np.log(part["records"].to_numpy(float)), np.log(error)
        centred = x - x.mean()
        weights = centred / np.sum(centred**2)
        spread = part["standard_error"].to_numpy() / error
        rows.append({
            "mechanism": mechanism, "distance": distance, "dimension": dimension, "alpha": alpha,
            "fitted": float(weights @ y),
            "standard_error": float(np.sqrt(np.sum((weights * spread) ** 2))),
            "last": float((y[-1] - y[-2]) / (x[-1] - x[-2])),
            "theory": rate(str(mechanism), str(distance), int(dimension)),
        })  # fmt: skip
    return pd.DataFrame(rows)


def best_bins(
    mechanism: str,
    *,
    records: int,
    alpha: float,
    target: BetaMixture | None = None,
    distance: str = "l2",
    dimension: int = 1,
    most: int = 400,
    simulations: int = 400,
    random_seed: int = 0,
) -> pd.DataFrame:
    """Errors over a range of numbers of bins, the best first.

    Parameters
    ----------
    mechanism : {"none", "perturbed", "smoothed"}
        What is published.
    records, alpha, target, distance, dimension, simulations, random_seed
        As in `compare`.
    most : int
        Largest number of bins along each axis.

    Returns
    -------
    pandas.DataFrame
        As from `compare`, sorted by the error (the closed form where one is known).
    """
    grid = np.unique(np.rint(np.geomspace(2, most, 40)).astype(int)).tolist()
    table = compare(
        [mechanism], records=[records], alphas=[alpha], distance=distance, target=target,
        bins=grid, dimension=dimension, simulations=simulations, random_seed=random_seed,
        workers=1, progressbar=False,
    )  # fmt: skip
    order = table["exact"].fillna(table["error"])
    return table.assign(best=order).sort_values("best").drop(columns="best").reset_index(drop=True)
