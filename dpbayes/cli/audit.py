"""``dpbayes audit``: the privacy loss that a release file's mechanism really has."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dpbayes.cli.failures import reporting
from dpbayes.errors import ParameterError

__all__ = ["audit"]

#: Status where the claim is wrong.
REFUTED = 1


class Convention(StrEnum):
    """Conventions of neighbouring data sets."""

    replace_one = "replace-one"
    add_remove = "add-remove"


def audit(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE.toml", help="Release file: what was published.")
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help="Claimed epsilon of the whole release; by default the file's."),
    ] = None,
    neighbours: Annotated[
        Convention | None,
        typer.Option(help="Which data sets must look alike; by default the file's."),
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the test whose power is bounded.")] = 0.05,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Hold the mechanism of a release against its claim; status 1 where the claim is wrong."""
    with reporting(debug, release):
        from dpbayes.io import read_release

        published = read_release(release)
        attrs = dict(published.attrs or {})
        kind = neighbours.value if neighbours else attrs.get("neighbours")
        claim = epsilon if epsilon is not None else attrs.get("epsilon")
        found = _audit(published, kind, claim)
        _print(found, kind, level, as_json)
    if found.holds is False:
        raise typer.Exit(REFUTED)


def _audit(release: Any, kind: str | None, claim: float | None) -> Any:
    """Audit one person's influence on all released values."""
    import numpy as np

    from dpbayes.mechanism import Mechanism
    from dpbayes.privacy import Neighbours
    from dpbayes.privacy import audit as find
    from dpbayes.releases import HistogramRelease, RecordRelease

    if isinstance(release, RecordRelease):
        return find(release.mechanism, [release.bounds], claim=claim)
    if not isinstance(release, HistogramRelease):
        raise ParameterError(f"audit takes histograms and records, got {release!r}")
    if kind is None:
        raise ParameterError(
            "say which data sets must look alike: --neighbours replace-one or add-remove"
        )
    if release.margins or release.repeats:
        raise ParameterError("audit takes one table: margins and repeats spend their own epsilon")
    noise = release.mechanism.noise.with_parameters(lambda p: np.asarray(p).reshape(-1))
    mechanism = Mechanism(noise, release.mechanism.steps)
    # Away from the ends of the steps the loss depends on the difference alone; with steps,
    # counts at the censoring points matter too.
    counts = sorted({1, 2, 10, *_ends(release)})
    pairs = []
    for base in counts:
        table = np.full(release.size, base)
        cells = range(release.size) if noise.shape else range(min(release.size, 2))
        differences = _differences(Neighbours(kind), release.size, cells)
        pairs += [(table, table + d) for d in differences if np.all(table + d >= 0)]
    return find(mechanism, pairs, claim=claim)


def _differences(kind: Any, size: int, cells: Any) -> Any:
    """Differences of neighbours that can differ in loss: all only where the noise varies."""
    import itertools

    import numpy as np

    from dpbayes.privacy import Neighbours

    unit = np.eye(size, dtype=int)
    for i in cells:
        if kind is Neighbours.ADD_REMOVE or size == 1:
            yield unit[i]
    if kind is Neighbours.REPLACE_ONE:
        for i, j in itertools.combinations(cells, 2):
            yield unit[j] - unit[i]
            yield unit[i] - unit[j]


def _ends(release: Any) -> list[int]:
    """Whole numbers at which the steps of the mechanism cut."""
    import math

    from dpbayes.mechanism import Clamp, Suppress

    found: list[float] = []
    for step in release.mechanism.steps:
        if isinstance(step, Clamp):
            found += [end for end in (step.lower, step.upper) if end is not None]
        if isinstance(step, Suppress):
            found.append(step.below)
    return [max(1, math.floor(end)) for end in found]


def _print(found: Any, kind: str | None, level: float, as_json: bool) -> None:
    power = found.power(level)
    if as_json:
        import math

        document = {
            "epsilon": found.epsilon if math.isfinite(found.epsilon) else None,
            "finite": math.isfinite(found.epsilon),
            "exact": found.exact,
            "claim": found.claim,
            "holds": found.holds,
            "neighbours": kind,
            "reason": found.reason,
            "level": level,
            "power": power,
        }
        print(json.dumps(document, indent=2))
        return
    print(found)
    print(f"a test of level {level:g} about one person has power {power:.4g} at most")
