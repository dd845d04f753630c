"""What ``dpbayes fit`` prints: a table to read, or data for other programs."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dpbayes.io.doubts import doubts
from dpbayes.io.words import amount, plural
from dpbayes.releases import HistogramRelease

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Result", "columns", "print_json", "show"]

#: Cells shown on a terminal; the other formats have all of them.
MOST_CELLS = 60
#: Columns that a label keeps, however wide the numbers beside it are.
LEAST_LABEL = 24


@dataclass(frozen=True)
class Result:
    """What a fit has to say.

    Parameters
    ----------
    posterior : Posterior
        The fit.
    summary : pandas.DataFrame
        Its summary.
    verdict : Verdict
        Whether it may be trusted.
    ci_prob : float
        Probability of the intervals.
    command : str
        Command that makes it again.
    files : dict
        Files that were written, by option.
    """

    posterior: Any
    summary: pd.DataFrame
    verdict: Any
    ci_prob: float
    command: str
    files: dict[str, Path]


def columns() -> int:
    """Width of the terminal, 80 where the output is no terminal."""
    return Console().width


def show(result: Result, output: str, quiet: bool) -> None:
    """Print the summary on stdout, and what is said about it where it disturbs no program."""
    {"table": _show_table, "csv": _show_csv, "json": _show_json}[output](result)
    console = Console(stderr=output != "table", highlight=False, soft_wrap=False)
    if not quiet or not result.verdict.ok:
        _say_verdict(result, console)
    for doubt in doubts(result.posterior.release):
        console.print(Text(f"Check the release file: {doubt.text}", style="yellow"))
    if not quiet:
        for path in result.files.values():
            console.print(Text(f"Wrote {path}"), soft_wrap=True)
        console.print(Text(f"Again: {result.command}", style="dim"), soft_wrap=True)


def _say_verdict(result: Result, console: Console) -> None:
    style = "" if result.verdict.converged else "bold red"
    for line in str(result.verdict).splitlines():
        doubtful = line.startswith("Prior-dominated")
        console.print(Text(line, style=style or ("yellow" if doubtful else "")))


# -- for programs ----------------------------------------------------------------------


def _show_csv(result: Result) -> None:
    result.summary.to_csv(sys.stdout)
    sys.stdout.flush()


def _show_json(result: Result) -> None:
    rows = result.summary.reset_index().to_dict(orient="records")
    document = {
        "title": result.posterior.release.attrs.get("title"),
        "command": result.command,
        "ci_prob": result.ci_prob,
        "summary": [{str(k): v for k, v in row.items()} for row in rows],
        "verdict": asdict(result.verdict),
        "doubts": [asdict(doubt) for doubt in doubts(result.posterior.release)],
        "files": {name: str(path) for name, path in result.files.items()},
        "attributes": dict(result.posterior.attrs),
    }
    print_json(document)


def print_json(document: Any) -> None:
    """Print strict JSON: what it does not know, NaN and infinities, is null."""
    text = json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)
    print(text, flush=True)


def _finite(value: Any) -> Any:
    """Replace what JSON does not know: NaN and infinities by null, NumPy scalars by Python's."""
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- for people ------------------------------------------------------------------------


def _show_table(result: Result) -> None:
    console = Console(highlight=False)
    title = result.posterior.release.attrs.get("title")
    if title:
        console.print(Text(str(title), style="bold"))
    if isinstance(result.posterior.release, HistogramRelease):
        _print_table(console, _cells(result))
        hidden = result.posterior.release.size - MOST_CELLS
        if hidden > 0:
            console.print(f"{hidden} more cells: --format csv lists all")
        _say_withheld(result, console)
    if "P.mean" in result.summary.index:
        _print_table(console, _functionals(result))
    console.print(
        Text(
            "True data: these very records. P: the distribution that they came from (the next "
            f"ones will too). Each with its posterior mean and {_level(result)} interval."
        )
    )


def _say_withheld(result: Result, console: Console) -> None:
    """Say what the released total leaves out."""
    withheld = int(np.isnan(result.posterior.release.values.values).sum())
    if 0 < withheld < result.posterior.release.size and "total" in result.summary.index:
        cells = plural(withheld, "suppressed cell")
        console.print(Text(f"The released total leaves out {cells}."))


def _print_table(console: Console, table: Table) -> None:
    """Print a table that is never narrower than its numbers; long labels are folded."""
    wide = Console(highlight=False, width=10_000)
    whole = Measurement.get(wide, wide.options, table).maximum
    labels = [str(cell) for cell in table.columns[0].cells]
    longest = max(map(cell_len, [str(table.columns[0].header), *labels]))
    least = whole - max(0, longest - LEAST_LABEL)
    Console(highlight=False, width=max(console.width, least)).print(table)


def _level(result: Result) -> str:
    return f"{100 * result.ci_prob:g} %"


def _new_table(result: Result, first: str, naive: str, process: str = "P") -> Table:
    level = _level(result)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(first, overflow="fold")
    for name in (naive, "true data", level, process, level):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _cells(result: Result) -> Table:
    release, rows = result.posterior.release, result.summary
    table = _new_table(result, ", ".join(map(str, release.dims)), "released", "P in %")
    released = release.values.values.reshape(-1)
    for i in range(min(release.size, MOST_CELLS)):
        label = release.short_label(i)
        shown = _released(float(released[i]))
        count, share = rows.loc[f"count[{label}]"], rows.loc[f"probability[{label}]"]
        table.add_row(Text(label), shown, *_estimate(count, _count), *_estimate(share, _share))
    if "total" in rows.index:
        table.add_section()
        total = rows.loc["total"]
        name = "total" if release.total is None else "total (public)"
        table.add_row(name, _released(total["naive"]), *_estimate(total, _count), "", "")
    return table


def _functionals(result: Result) -> Table:
    rows = result.summary
    unit = result.posterior.release.attrs.get("unit")
    histogram = isinstance(result.posterior.release, HistogramRelease)
    first = "of the values" if histogram or not unit else f"in {unit}"
    table = _new_table(result, first, "naive")
    for name in rows.index:
        if not name.startswith("P."):
            continue
        process, realised = rows.loc[name], rows.loc["table." + name.removeprefix("P.")]
        table.add_row(
            Text(_functional_name(name)),
            _value(process["naive"]),
            *_estimate(realised, _value),
            *_estimate(process, _value),
        )
    return table


def _functional_name(name: str) -> str:
    kind = name.removeprefix("P.")
    if kind.startswith("quantile["):
        return f"{100 * float(kind[len('quantile[') : -1]):g} % quantile"
    return {"sd": "standard deviation"}.get(kind, kind)


def _estimate(row: Any, write: Any) -> tuple[str, str]:
    return write(row["mean"]), f"{write(row['lower'])} to {write(row['upper'])}"


def _released(value: float) -> str:
    if math.isnan(value):
        return "suppressed"
    return f"{value:,.0f}" if value == round(value) else amount(value, 6)


def _count(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.2f}"


def _value(value: float) -> str:
    """Four significant digits, so that a column of them lines up."""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:#.4g}".rstrip(".")
