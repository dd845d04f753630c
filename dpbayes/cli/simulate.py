"""``dpbayes simulate``: make a release of a column of numbers, for study."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dpbayes.cli.failures import reporting
from dpbayes.errors import ParameterError

__all__ = ["simulate"]


class Kind(StrEnum):
    """Mechanisms whose release has a release file."""

    histogram = "histogram"
    records = "records"


def simulate(
    data: Annotated[Path, typer.Argument(metavar="DATA.csv", help="CSV or Parquet file.")],
    column: Annotated[str, typer.Option(help="Column of numbers, one per person.")],
    bounds: Annotated[str, typer.Option(help="Bounds of the numbers: lower,upper.")],
    alpha: Annotated[float, typer.Option(help="Privacy loss, one record replaced.")],
    out: Annotated[
        Path, typer.Option(metavar="RELEASE.toml", help="Release file; its CSV lies beside it.")
    ],
    kind: Annotated[Kind, typer.Option(help="What is released.")] = Kind.histogram,
    bins: Annotated[int, typer.Option(min=2, help="Equal bins of a histogram.")] = 20,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Release a column with noise, as a file that fit, describe and audit read.

    For study and planning: real releases should be made with a vetted library.
    """
    with reporting(debug):
        from dpbayes.io.atomic import atomic_path, check_writable

        toml = check_writable(out, "--out")
        if toml.suffix.lower() != ".toml":
            raise ParameterError(f"--out must end in .toml, got {str(out)!r}")
        table = check_writable(toml.with_suffix(".csv"), "--out")
        if table.exists() or toml.exists():
            raise ParameterError(f"--out and its CSV must not exist yet, got {str(out)!r}")
        ends = _pair(bounds)
        rows, text = _release(data, column, ends, alpha, kind.value, bins, seed, table.name)
        with atomic_path(table) as first, atomic_path(toml) as second:
            rows.to_csv(first, index=False)
            Path(second).write_text(text, encoding="utf-8")
    print(f"Wrote {toml} and {table}")


def _pair(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(f"--bounds must be lower,upper, got {text!r}") from None
    return low, high


def _release(
    data: Path, column: str, bounds: tuple[float, float], alpha: float, kind: str, bins: int,
    seed: int | None, name: str,
) -> tuple[Any, str]:  # fmt: skip
    """Return the released rows, and the text of the release file."""
    import pandas as pd

    from dpbayes import simulate as curator

    if not data.is_file():
        raise ParameterError(f"no such file: {data}")
    frame = pd.read_parquet(data) if data.suffix in (".parquet", ".pq") else pd.read_csv(data)
    if column not in frame:
        raise ParameterError(f"{data} has no column {column!r}; it has {', '.join(frame.columns)}")
    x = frame[column].to_numpy(float)
    facts: dict[str, Any] = {"kind": kind, "file": name}
    if kind == "records":
        records = curator.perturbed_records(x, bounds=bounds, alpha=alpha, rng=seed)
        rows = pd.DataFrame({column: records.values})
        facts |= {"column": column, "bounds": list(bounds)}
        noise = records.mechanism.noise
    else:
        table = curator.perturbed_histogram(x, bins=bins, alpha=alpha, bounds=bounds, rng=seed)
        assert table.edges is not None
        rows = pd.DataFrame(
            {"lower": table.edges[:-1], "upper": table.edges[1:], "count": table.values.values}
        )
        facts |= {"value": "count", "edges": ["lower", "upper"], "total": table.total}
        noise = table.mechanism.noise
    lines = ["version = 1", "", "[release]"]
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in facts.items()]
    lines += ["", "[mechanism]", 'noise = "laplace"', f"epsilon = {alpha!r}"]
    lines += [f"sensitivity = {float(noise.scale * alpha)!r}"]
    lines += ['neighbours = "replace-one"', ""]
    return rows, "\n".join(lines)
