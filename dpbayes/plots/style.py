"""Colours, axes, legends and labels that all pictures share."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpbayes.posterior.posterior import Posterior

__all__ = [
    "COLOURS",
    "axes_for",
    "check_ci_prob",
    "check_estimand",
    "finish",
    "interval",
    "name_ticks",
    "shorten",
]

#: Okabe and Ito's palette, safe for colour-blind readers; each colour keeps its meaning.
COLOURS = {
    "P": "#0072B2",
    "table": "#D55E00",
    "naive": "#6E757C",
    "prior": "#AEB6BD",
    "truth": "#000000",
    "alarm": "#B3261E",
    "grid": "#E4E7EA",
    "ink": "#24292E",
}
LEGEND_ROW = 15.0  # points
_MOST_LABEL = 34


def axes_for(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the given Axes, or those of a new pyplot figure, so that notebooks show it."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained").add_subplot()


def check_ci_prob(ci_prob: float) -> tuple[float, float]:
    """Levels of the ends of an equal-tailed interval."""
    if not 0 < ci_prob < 1:
        raise ParameterError(f"ci_prob must be between 0 and 1, got {ci_prob}")
    return 0.5 * (1.0 - ci_prob), 0.5 * (1.0 + ci_prob)


def check_estimand(estimand: str) -> str:
    """Refuse anything but the two estimands."""
    if estimand not in ("P", "table"):
        raise ParameterError(
            f"estimand must be 'P' (the process) or 'table' (the realised data), got {estimand!r}"
        )
    return estimand


def interval(draws: np.ndarray, ci_prob: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower end, mean and upper end over the first axis; undefined draws are left out."""
    levels = check_ci_prob(ci_prob)
    if np.isnan(draws).any():
        lower, upper = np.nanquantile(draws, levels, axis=0)
        return lower, np.nanmean(draws, axis=0), upper
    lower, upper = np.quantile(draws, levels, axis=0)
    return lower, draws.mean(axis=0), upper


def shorten(label: str, most: int = _MOST_LABEL) -> str:
    """Cut the middle out of a long label: both ends tell labels apart."""
    if len(label) <= most:
        return label
    tail = (most - 1) // 3
    return f"{label[: most - 1 - tail].rstrip()}…{label[-tail:].lstrip()}"


def percent(value: float, _: Any = None) -> str:
    """Write a share for an axis."""
    return f"{100.0 * value:.6g}%".replace("-", "−")


def thousands(value: float, _: Any = None) -> str:
    """Write a number for an axis."""
    if abs(value) >= 1e12 or (value != 0 and abs(value) < 1e-4):
        return f"{value:.3g}".replace("-", "−")
    return f"{value:,.10g}".replace("-", "−")


def _columns(ax: Axes, labels: list[str]) -> int:
    """Columns of a legend that fit above the axes, at a cautious width of its letters."""
    # Labels of rows take their part of the width.
    names = [text.get_text() for text in ax.get_yticklabels()]
    room = 0.95 * ax.get_position().width * ax.figure.get_size_inches()[0]  # type: ignore[union-attr]
    room -= 0.075 * max(0, max(map(len, names), default=0) - 6)
    widths = [0.06 * len(label) + 0.5 for label in labels]
    for columns in range(min(3, len(labels)), 1, -1):
        parts = np.array_split(widths, columns)  # as Matplotlib fills them
        if sum(part.max() for part in parts) <= room:
            return columns
    return 1


def name_ticks(ax: Axes, names: list[str], most: int = 14) -> None:
    """Label positions 0, 1, ... on the x axis, as many of them as stay legible."""
    step = next(s for s in _nice_steps() if s * most >= len(names))
    at = np.arange(0, len(names), step)
    labels = [shorten(names[i], 22) for i in at]
    longest = max(map(len, labels))
    turn = 0 if longest <= 4 or len(labels) * longest <= 48 else 40 if longest <= 12 else 90
    ax.set_xticks(
        at, labels, rotation=turn, ha="right" if turn == 40 else "center",
        rotation_mode="anchor" if turn == 40 else "default", parse_math=False,
    )  # fmt: skip


def _nice_steps() -> Iterator[int]:
    scale = 1
    while True:
        yield from (scale, 2 * scale, 5 * scale)
        scale *= 10


def value_label(posterior: Posterior) -> str:
    """Label of the axis on which records live."""
    return f"Value{axis_unit(posterior)}"


def axis_unit(posterior: Posterior) -> str:
    """Return the unit of the axis on which records live, in brackets after a space."""
    from dpbayes.releases import RecordRelease

    records = isinstance(posterior.release, RecordRelease)
    unit = posterior.release.attrs.get("unit" if records else "axis_unit")
    return f" ({unit})" if unit else ""


def count_label(posterior: Posterior) -> str:
    """Label of an axis of counts."""
    from dpbayes.releases import HistogramRelease

    unit = posterior.release.attrs.get("unit")
    if unit and isinstance(posterior.release, HistogramRelease):
        return f"Count ({unit})"
    return "Count" if isinstance(posterior.release, HistogramRelease) else "Records"


def finish(
    ax: Axes,
    *,
    xlabel: str,
    ylabel: str = "",
    title: str | None = None,
    grid: str = "y",
    handles: list[Any] | None = None,
) -> Axes:
    """Set labels (as plain text: a dollar sign is no formula), grid, legend above the data."""
    ink = COLOURS["ink"]
    ax.set_xlabel(xlabel, color=ink, parse_math=False)
    ax.set_ylabel(ylabel, color=ink, parse_math=False)
    ax.set_axisbelow(True)
    ax.grid(visible=False)
    ax.grid(visible=True, axis=grid, color=COLOURS["grid"], linewidth=0.8)  # type: ignore[arg-type]
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color("#8A9299")
    ax.tick_params(colors=ink, labelsize=9, length=3, color="#8A9299")
    entries = handles if handles is not None else ax.get_legend_handles_labels()[0]
    rows = 0
    if entries:
        columns = _columns(ax, [str(entry.get_label()) for entry in entries])
        rows = -(-len(entries) // columns)
        ax.legend(
            handles=entries,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=columns,
            frameon=False,
            fontsize=8.5,
            borderpad=0.2,
            borderaxespad=0.2,
            handlelength=1.6,
            columnspacing=1.4,
        )
    if title:
        ax.set_title(
            textwrap.fill(title, 64),
            loc="left",
            fontsize=11,
            fontweight="bold",
            color=ink,
            pad=6.0 + LEGEND_ROW * rows,
            parse_math=False,
        )
    return ax
