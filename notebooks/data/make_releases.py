"""Make noisy releases of the CDNOW purchases, with the truth beside each of them.

The data are the 69 659 orders of 23 570 customers of the music shop CDNOW from January 1997 to
June 1998 (Fader and Hardie), shipped as a text file by the Python package ``lifetimes`` (MIT
licence). The file is read from the installed package; none of its code is imported. The noise
comes from OpenDP.

OpenDP takes its randomness from the operating system and cannot be seeded. The releases were
therefore written once and are committed; running this script again gives the same truth and
other noise. Publishing both runs would spend the privacy budget twice.

What is released:

``buyers_by_month``
    Distinct buyers in each of 18 months. Each customer counts in the first 3 months in which she
    bought, so adding or removing a customer changes the counts by at most 3 in all (L1). Integer
    Laplace noise with epsilon 0.1, scale 30. The truth is the bounded counts; the truth file also
    gives the unbounded ones, since bounding is a bias that no noise model undoes.
``customers_by_spend``
    Customers by total spend, clipped at 250 dollars. Bins hold their lower edge and not their
    upper one, but the last holds both, so clipped customers fall into it. Replacing a customer
    changes the counts by at most 2 (L1). The number of customers is public. Integer Laplace noise
    with epsilon 0.1, scale 20, published clamped at zero.
``spend_records_eps8``, ``spend_records_eps1``
    Total spend of each customer, clipped to [0, 250] dollars and perturbed by Laplace noise of
    scale 250/epsilon (local privacy, epsilon per record). They share two truth files: functionals
    (``spend_records_truth.csv``) and counts in bins 10 dollars wide, where the last row,
    from 250 to 250, is the customers at the upper bound (``spend_records_truth_bins.csv``).

Usage: ``python make_releases.py [--out DIRECTORY]``
"""

import argparse
import importlib.metadata
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pandas as pd

dp.enable_features("contrib")

PURCHASES_FILE = "CDNOW_master.txt"
N_ORDERS, N_CUSTOMERS = 69_659, 23_570

MONTHS_KEPT = 3
SPEND_CAP = 250
SPEND_EDGES = (0, 10, 20, 30, 40, 50, 75, 100, 150, 200, 250)
COUNT_EPSILON = 0.1
RECORD_EPSILONS = (8, 1)
CDF_AT = (25, 50, 100, 200)
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
FINE_BIN_WIDTH = 10

SOURCE = (
    "CDNOW purchases, January 1997 to June 1998 (Fader and Hardie), "
    "as shipped by the Python package lifetimes; noise made by OpenDP"
)

BUYERS_TOML = """\
version = 1

[release]
kind = "histogram"
title = "CDNOW: distinct buyers by month"
source = "{source}"
unit = "buyers"
file = "buyers_by_month.csv"
value = "noisy_buyers"
dims = ["month"]

[mechanism]
noise = "discrete-laplace"
epsilon = {epsilon}
sensitivity = {sensitivity}
neighbours = "add-remove"
"""

CUSTOMERS_TOML = """\
version = 1

[release]
kind = "histogram"
title = "CDNOW: customers by total spend (USD, clipped at {cap})"
source = "{source}"
unit = "customers"
axis_unit = "USD"
file = "customers_by_spend.csv"
value = "noisy_customers"
edges = ["lower", "upper"]
total = {total}

[mechanism]
noise = "discrete-laplace"
epsilon = {epsilon}
sensitivity = {sensitivity}
neighbours = "replace-one"
steps = [{{ clamp = {{ lower = 0 }} }}]
"""

RECORDS_TOML = """\
version = 1

[release]
kind = "records"
title = "CDNOW: total spend per customer, epsilon {epsilon} per record"
source = "{source}"
unit = "USD"
file = "{name}.csv"
column = "noisy_spend"
bounds = [0, {cap}]

[mechanism]
noise = "laplace"
epsilon = {epsilon}
sensitivity = {cap}
neighbours = "replace-one"
"""


def read_purchases() -> pd.DataFrame:
    """Read the orders from the installed package: customer, month ("1997-01") and cents."""
    try:
        files = importlib.metadata.files("lifetimes") or []
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit("lifetimes is not installed: pip install lifetimes") from None
    found = [file for file in files if file.name == PURCHASES_FILE]
    if not found:
        raise SystemExit(f"the installed lifetimes has no {PURCHASES_FILE}: reinstall lifetimes")
    orders = pd.read_csv(
        found[0].locate(),
        sep=r"\s+",
        header=0,
        names=["customer", "date", "disks", "dollars"],
        dtype={"customer": str, "date": str},
    )
    size = (len(orders), orders["customer"].nunique())
    if size != (N_ORDERS, N_CUSTOMERS):
        raise SystemExit(
            f"{PURCHASES_FILE} must hold {N_ORDERS} orders of {N_CUSTOMERS} customers, got {size}"
        )
    return pd.DataFrame(
        {
            "customer": orders["customer"],
            "month": orders["date"].str[:4] + "-" + orders["date"].str[4:6],
            "cents": (orders["dollars"] * 100).round().astype("int64"),
        }
    )


def count_buyers(orders: pd.DataFrame) -> pd.DataFrame:
    """Count distinct buyers by month: bounded to each customer's first months, and unbounded."""
    pairs = orders[["customer", "month"]].drop_duplicates().sort_values(["customer", "month"])
    kept = pairs.groupby("customer").head(MONTHS_KEPT)
    print(
        f"buyers_by_month: kept {len(kept)} of {len(pairs)} customer-months "
        f"(first {MONTHS_KEPT} months of each customer)"
    )
    months = pairs["month"].value_counts().sort_index()
    bounded = kept["month"].value_counts().reindex(months.index, fill_value=0)
    return pd.DataFrame(
        {
            "month": months.index,
            "buyers": bounded.to_numpy(),
            "buyers_unbounded": months.to_numpy(),
        }
    )


def clipped_cents(orders: pd.DataFrame) -> np.ndarray:
    """Sum each customer's orders in whole cents (so that edges are met exactly) and clip."""
    cents = orders.groupby("customer")["cents"].sum().to_numpy()
    cap = SPEND_CAP * 100
    print(
        f"total spend: {np.sum(cents > cap)} of {len(cents)} customers "
        f"({np.mean(cents > cap):.1%}) above {SPEND_CAP} dollars, clipped"
    )
    return np.clip(cents, 0, cap)


def bin_counts(cents: np.ndarray, edges: np.ndarray) -> pd.DataFrame:
    """Count values in bins given in dollars; bins hold their lower edge, the last one both."""
    counts, _ = np.histogram(cents, bins=edges * 100)
    return pd.DataFrame({"lower": edges[:-1], "upper": edges[1:], "customers": counts})


def fine_bin_counts(cents: np.ndarray) -> pd.DataFrame:
    """Count values in narrow bins, with the customers at the upper bound in a row of their own."""
    below = cents[cents < SPEND_CAP * 100]
    table = bin_counts(below, np.arange(0, SPEND_CAP + FINE_BIN_WIDTH, FINE_BIN_WIDTH))
    table.loc[len(table)] = [SPEND_CAP, SPEND_CAP, len(cents) - len(below)]
    return table


def spend_functionals(cents: np.ndarray) -> pd.DataFrame:
    """Tabulate moments, CDF values, quantiles and atoms of the clipped spend, in dollars."""
    dollars = cents / 100
    rows = [
        ("records", None, len(cents)),
        ("mean", None, dollars.mean()),
        ("variance", None, dollars.var()),
        *(("cdf", at, np.mean(cents <= at * 100)) for at in CDF_AT),
        *(("quantile", q, np.quantile(dollars, q, method="inverted_cdf")) for q in QUANTILES),
        *(("atom", at, np.mean(cents == at * 100)) for at in (0, SPEND_CAP)),
    ]
    return pd.DataFrame(
        [(name, "" if at is None else f"{at:g}", f"{value:.10g}") for name, at, value in rows],
        columns=["functional", "at", "value"],
    )


def add_noise(values: np.ndarray, *, epsilon: float, sensitivity: int, dtype: str) -> list:
    """Release a vector of the given L1 sensitivity with OpenDP's Laplace noise.

    Integer noise (mass proportional to exp(-abs(k)/scale)) for ``dtype`` "i64"; for "f64" OpenDP's
    default granularity, which is the finest that doubles have.
    """
    domain = {"i64": dp.atom_domain(T="i64"), "f64": dp.atom_domain(T="f64", nan=False)}[dtype]
    measurement = dp.m.make_laplace(
        dp.vector_domain(domain), dp.l1_distance(T=dtype), scale=sensitivity / epsilon
    )
    distance = float(sensitivity) if dtype == "f64" else sensitivity
    spent = measurement.map(distance)
    if spent > epsilon * (1 + 1e-9):
        raise SystemExit(f"epsilon must be at most {epsilon}, OpenDP counts {spent}")
    return measurement(values.tolist())


def histogram_files(truth_buyers: pd.DataFrame, truth_spend: pd.DataFrame) -> dict[str, str]:
    """Release the two histograms; returns file names and their text."""
    noisy_buyers = add_noise(
        truth_buyers["buyers"], epsilon=COUNT_EPSILON, sensitivity=MONTHS_KEPT, dtype="i64"
    )
    noisy_customers = add_noise(
        truth_spend["customers"], epsilon=COUNT_EPSILON, sensitivity=2, dtype="i64"
    )
    buyers = pd.DataFrame({"month": truth_buyers["month"], "noisy_buyers": noisy_buyers})
    customers = truth_spend[["lower", "upper"]].assign(
        noisy_customers=np.maximum(noisy_customers, 0)
    )
    return {
        "buyers_by_month.csv": as_csv(buyers),
        "buyers_by_month_truth.csv": as_csv(truth_buyers),
        "buyers_by_month.toml": BUYERS_TOML.format(
            source=SOURCE, epsilon=COUNT_EPSILON, sensitivity=MONTHS_KEPT
        ),
        "customers_by_spend.csv": as_csv(customers),
        "customers_by_spend_truth.csv": as_csv(truth_spend),
        "customers_by_spend.toml": CUSTOMERS_TOML.format(
            source=SOURCE, cap=SPEND_CAP, total=N_CUSTOMERS, epsilon=COUNT_EPSILON, sensitivity=2
        ),
    }


def record_files(cents: np.ndarray) -> dict[str, str]:
    """Release the perturbed records at each epsilon; returns file names and their text."""
    files = {
        "spend_records_truth.csv": as_csv(spend_functionals(cents)),
        "spend_records_truth_bins.csv": as_csv(fine_bin_counts(cents)),
    }
    for epsilon in RECORD_EPSILONS:
        name = f"spend_records_eps{epsilon}"
        noisy = add_noise(cents / 100, epsilon=epsilon, sensitivity=SPEND_CAP, dtype="f64")
        files[f"{name}.csv"] = as_csv(pd.DataFrame({"noisy_spend": noisy}))
        files[f"{name}.toml"] = RECORDS_TOML.format(
            name=name, source=SOURCE, epsilon=epsilon, cap=SPEND_CAP
        )
        print(f"{name}: {len(noisy)} records, Laplace scale {SPEND_CAP / epsilon:g} dollars")
    return files


def as_csv(table: pd.DataFrame) -> str:
    """Write a table as CSV; doubles keep every digit."""
    return table.to_csv(index=False, lineterminator="\n")


def write_all(files: dict[str, str], out: Path) -> None:
    """Write every file under a temporary name first, then rename them all."""
    out.mkdir(parents=True, exist_ok=True)
    temporary = {name: out / f".{name}.tmp" for name in files}
    try:
        for name, text in files.items():
            temporary[name].write_text(text, encoding="utf-8", newline="\n")
        for name, path in temporary.items():
            path.replace(out / name)
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)
    for name in files:
        print(f"wrote {out / name} ({(out / name).stat().st_size} bytes)")


def main() -> None:
    """Read the purchases, make all releases and write them."""
    parser = argparse.ArgumentParser(description="Make noisy releases of the CDNOW purchases.")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).resolve().parent,
        help="directory for the files (default: the directory of this script)",
    )
    out = parser.parse_args().out
    orders = read_purchases()
    buyers = count_buyers(orders)
    cents = clipped_cents(orders)
    spend = bin_counts(cents, np.array(SPEND_EDGES))
    write_all(histogram_files(buyers, spend) | record_files(cents), out)


if __name__ == "__main__":
    main()
