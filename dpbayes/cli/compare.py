"""``dpbayes compare``: expected errors of mechanisms against n and alpha."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dpbayes.cli.failures import reporting
from dpbayes.errors import ParameterError

__all__ = ["compare"]

_PICTURES = (".png", ".svg", ".pdf")


class Distance(StrEnum):
    """Distances between estimate and truth."""

    l2 = "l2"
    ks = "ks"


class Format(StrEnum):
    """How the table is printed."""

    table = "table"
    csv = "csv"
    json = "json"


def compare(
    mechanisms: Annotated[
        list[str] | None,
        typer.Argument(help="Some of none, perturbed, smoothed, exponential."),
    ] = None,
    records: Annotated[
        str, typer.Option(help="Numbers of records, separated by commas.")
    ] = "1000,10000,100000",
    alpha: Annotated[str, typer.Option(help="Privacy losses, separated by commas.")] = "1",
    distance: Annotated[Distance, typer.Option(help="Distance from the truth.")] = Distance.l2,
    bins: Annotated[
        str | None,
        typer.Option(help="Cells along each axis, separated by commas; optimal rates otherwise."),
    ] = None,
    dimension: Annotated[int, typer.Option(min=1, max=3, help="Dimension of the records.")] = 1,
    simulations: Annotated[int, typer.Option(min=2, help="Simulations per row.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="Seed.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.png", help="Write a picture (PNG, SVG or PDF).")
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="Table on standard output.")
    ] = Format.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Compare mechanisms by how fast what is estimated from them approaches the truth."""
    with reporting(debug):
        from dpbayes.compare import MECHANISMS
        from dpbayes.compare import compare as study
        from dpbayes.io.atomic import check_writable

        target = None if plot is None else check_writable(plot, "--plot")
        if target is not None and target.suffix.lower() not in _PICTURES:
            raise ParameterError(f"--plot must end in .png, .svg or .pdf, got {str(plot)!r}")
        table = study(
            mechanisms or MECHANISMS[:3],
            records=[int(n) for n in _numbers("--records", records, whole=True)],
            alphas=_numbers("--alpha", alpha),
            distance=distance.value,
            bins=None if bins is None else [int(m) for m in _numbers("--bins", bins, whole=True)],
            dimension=dimension,
            simulations=simulations,
            random_seed=seed,
            workers=workers,
            progressbar=not quiet and sys.stderr.isatty(),
        )
        _print(table, output.value)
        if target is not None:
            _draw(table, target)


def _numbers(option: str, text: str, whole: bool = False) -> list[float]:
    """Parse numbers separated by commas; whole ones may be written as 1e6."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(
            f"{option} must be numbers separated by commas, got {text!r}"
        ) from None
    if whole and any(v != round(v) for v in found):
        raise ParameterError(f"{option} must be whole numbers, got {text!r}")
    return found


def _print(table: Any, output: str) -> None:
    if output == "csv":
        table.to_csv(sys.stdout, index=False)
    elif output == "json":
        print(table.to_json(orient="records", indent=2))
    else:
        _print_table(table)
    sys.stdout.flush()


def _print_table(table: Any) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from dpbayes.compare import exponents

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("mechanism", "n", "alpha", "bins", "rows", "error", "± 1 se", "closed form"):
        shown.add_column(name, justify="left" if name == "mechanism" else "right", no_wrap=True)
    for row in table.itertuples():
        shown.add_row(
            row.mechanism, f"{row.records:,}", f"{row.alpha:g}", str(row.bins),
            "-" if _missing(row.draws) else f"{int(row.draws):,}", f"{row.error:.4g}",
            f"{row.standard_error:.2g}", "-" if _missing(row.exact) else f"{row.exact:.4g}",
        )  # fmt: skip
    console = Console(highlight=False)
    console.print(shown)
    single = table.groupby(["mechanism", "alpha"])["records"].agg(["nunique", "size"])
    if (single["nunique"] >= 2).all() and (single["nunique"] == single["size"]).all():
        for row in exponents(table).itertuples():
            console.print(
                f"{row.mechanism}, alpha {row.alpha:g}: error falls as n^{row.fitted:.3f} "
                f"(theory n^{row.theory:.3f})"
            )


def _missing(value: Any) -> bool:
    return value is None or value != value


def _draw(table: Any, path: Path) -> None:
    from matplotlib.figure import Figure

    from dpbayes.io.atomic import atomic_path
    from dpbayes.plots import convergence

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    convergence(table, figure.add_subplot())
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lower()[1:], dpi=150)
