"""Released values beside posterior intervals, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes.errors import ParameterError
from dpbayes.plots import style
from dpbayes.plots.style import COLOURS
from dpbayes.posterior.naive import naive_counts
from dpbayes.posterior.tables import cell_names
from dpbayes.releases import HistogramRelease
from dpbayes.schema import ATOM_COUNT, COUNT, POSTERIOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpbayes.posterior.posterior import Posterior

__all__ = ["cells", "figure_size"]

MOST_ROWS = 60


@dataclass(frozen=True)
class _Cells:
    """What is drawn, one entry per cell: bins, then atoms."""

    names: list[str]
    naive: np.ndarray
    lower: np.ndarray
    mean: np.ndarray
    upper: np.ndarray
    bound: np.ndarray  # -1: released as "this or less", +1: "this or more", 0: a value


def cells(
    posterior: Posterior,
    estimand: str = "table",
    ci_prob: float = 0.9,
    ax: Axes | None = None,
    truth: Any = None,
    *,
    difference: bool = False,
) -> Axes:
    """Plot each cell's naive estimate beside its posterior mean and credible interval.

    Cells with numeric edges stand on a numeric axis, labelled cells in rows (above 60 of
    them, in columns with some of the labels); tables of more dims are flattened, with a line
    between the labels of the first dim.

    Parameters
    ----------
    posterior : Posterior
        What was fitted.
    estimand : {"table", "P"}
        True counts of this data set, or probabilities of the process.
    ci_prob : float
        Probability of the equal-tailed intervals.
    ax : matplotlib Axes, optional
        Where to draw.
    truth : array_like, optional
        Known true counts (for "P": probabilities), marked in black.
    difference : bool
        Draw everything less the naive estimate: shows intervals that are narrow beside the
        counts.

    Returns
    -------
    matplotlib Axes
    """
    shown = _collect(posterior, style.check_estimand(estimand), ci_prob)
    known = None if truth is None else _truth(truth, shown.mean.size)
    if difference:
        shown, known = _less_naive(shown, known)
    ax = style.axes_for(ax, figure_size(posterior))
    colour = COLOURS[estimand]
    if posterior._support is not None:
        _on_numeric_axis(ax, posterior, shown, colour, known)
        sideways = False
    elif shown.mean.size <= MOST_ROWS:
        _in_rows(ax, shown, colour, known)
        sideways = True
    else:
        _in_columns(ax, shown, colour, known)
        sideways = False
    if not sideways and not difference:
        ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    _separate_groups(ax, posterior, sideways)
    return _label(ax, posterior, estimand, ci_prob, shown, sideways, difference, known is not None)


def figure_size(posterior: Posterior) -> tuple[float, float]:
    """Size in inches that suits the number of cells."""
    if posterior._support is not None:
        return 6.4, 3.8
    number = len(cell_names(posterior))
    return (6.4, 1.3 + 0.21 * number) if number <= MOST_ROWS else (8.0, 4.4)


def _collect(posterior: Posterior, estimand: str, ci_prob: float) -> _Cells:
    release = posterior.release
    bound = np.zeros(len(cell_names(posterior)))
    if estimand == "P":
        draws, naive = posterior.P.weights.values, posterior.naive_weights.reshape(-1)
    elif isinstance(release, HistogramRelease):
        draws = posterior._weights(POSTERIOR, COUNT, ATOM_COUNT).values
        naive, bound = _released(release)
    else:
        draws = posterior._weights(POSTERIOR, COUNT, ATOM_COUNT).values
        naive = posterior.naive_weights.reshape(-1) * release.size
    lower, mean, upper = style.interval(draws.reshape(-1, draws.shape[-1]), ci_prob)
    return _Cells(cell_names(posterior), naive, lower, mean, upper, bound)


def _released(release: HistogramRelease) -> tuple[np.ndarray, np.ndarray]:
    """Released counts, and where they are mere bounds; a withheld one stands at its bound."""
    bounds = release.observations().bounds
    low, high = np.isinf(bounds.lower), np.isinf(bounds.upper)
    naive = naive_counts(release).reshape(-1)
    naive = np.where(np.isnan(naive), np.where(low, bounds.upper, bounds.lower), naive)
    return naive, np.where(low, -1.0, np.where(high, 1.0, 0.0))


def _truth(truth: Any, size: int) -> np.ndarray:
    array = np.asarray(truth, dtype=float).reshape(-1)
    if array.size != size:
        raise ParameterError(f"truth must have one value per cell ({size}), got {array.size}")
    return array


def _less_naive(shown: _Cells, known: np.ndarray | None) -> tuple[_Cells, np.ndarray | None]:
    n = shown.naive
    moved = _Cells(
        shown.names, n - n, shown.lower - n, shown.mean - n, shown.upper - n, shown.bound
    )
    return moved, None if known is None else known - n


def _marks(ax: Axes, x: np.ndarray, y: np.ndarray, bound: np.ndarray, sideways: bool) -> None:
    """Naive estimates: circles, or arrowheads where the release is only a bound."""
    below, above = ("<", ">") if sideways else ("v", "^")
    for sign, marker in ((0.0, "o"), (-1.0, below), (1.0, above)):
        at = bound == sign
        if at.any():
            ax.plot(
                x[at], y[at], marker, ms=4.5 if sign == 0 else 5.5, mfc="white",
                mec=COLOURS["naive"], mew=1.2, zorder=4, ls="none",
            )  # fmt: skip


def _in_rows(ax: Axes, shown: _Cells, colour: str, known: np.ndarray | None) -> None:
    at = np.arange(shown.mean.size, dtype=float)
    ax.hlines(at + 0.14, shown.lower, shown.upper, color=colour, lw=2.2, zorder=2, alpha=0.75)
    ax.plot(shown.mean, at + 0.14, "o", color=colour, ms=3.6, zorder=3)
    _marks(ax, shown.naive, at - 0.18, shown.bound, True)
    if known is not None:
        ax.plot(known, at, "x", color=COLOURS["truth"], ms=5, mew=1.3, zorder=5)
    ax.set_yticks(at, [style.shorten(n) for n in shown.names], parse_math=False)
    ax.set_ylim(at.size - 0.4, -0.6)


def _in_columns(ax: Axes, shown: _Cells, colour: str, known: np.ndarray | None) -> None:
    at = np.arange(shown.mean.size, dtype=float)
    width = float(np.clip(220.0 / at.size, 0.5, 2.2))
    ax.vlines(at, shown.lower, shown.upper, color=colour, lw=width, zorder=2, alpha=0.75)
    size = float(np.clip(300.0 / at.size, 1.0, 3.5))
    ax.plot(at, shown.mean, "o", color=colour, ms=size, zorder=3)
    if at.size <= 250:
        _marks(ax, at, shown.naive, shown.bound, False)
    else:
        ax.plot(at, shown.naive, ".", color=COLOURS["naive"], ms=2, zorder=1)
    if known is not None:
        ax.plot(at, known, "x", color=COLOURS["truth"], ms=3.5, mew=0.9, zorder=5)
    style.name_ticks(ax, shown.names)
    ax.set_xlim(-1.0, at.size)


def _on_numeric_axis(
    ax: Axes, posterior: Posterior, shown: _Cells, colour: str, known: np.ndarray | None
) -> None:
    edges, atoms = posterior._edges, posterior._atoms
    bins = 0 if edges is None else edges.size - 1
    if edges is not None:
        middle, width = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
        height = shown.upper[:bins] - shown.lower[:bins]
        ax.bar(
            middle, height, width, shown.lower[:bins], color=colour, alpha=0.28, zorder=2,
            edgecolor=colour, linewidth=0.6,
        )  # fmt: skip
        ax.hlines(shown.mean[:bins], edges[:-1], edges[1:], color=colour, lw=1.6, zorder=3)
    else:
        middle = np.empty(0)
    tail = slice(bins, None)
    ax.vlines(atoms, shown.lower[tail], shown.upper[tail], color=colour, lw=2.4, alpha=0.75)
    ax.plot(atoms, shown.mean[tail], "o", color=colour, ms=4, zorder=3)
    at = np.concatenate([middle, atoms])
    _marks(ax, at, shown.naive, shown.bound, False)
    if known is not None:
        ax.plot(at, known, "x", color=COLOURS["truth"], ms=5, mew=1.3, zorder=5)


def _separate_groups(ax: Axes, posterior: Posterior, sideways: bool) -> None:
    """Draw thin lines between the labels of the first dim of a table of several dims."""
    shape = posterior.probability.shape[2:]
    if len(shape) < 2 or posterior._support is not None:
        return
    step = int(np.prod(shape[1:]))
    for edge in np.arange(step, int(np.prod(shape)), step) - 0.5:
        line = ax.axhline if sideways else ax.axvline
        line(edge, color="#B4BBC1", lw=0.8, zorder=1)


def _label(
    ax: Axes,
    posterior: Posterior,
    estimand: str,
    ci_prob: float,
    shown: _Cells,
    sideways: bool,
    difference: bool,
    known: bool,
) -> Axes:
    from matplotlib.lines import Line2D

    values = "Probability" if estimand == "P" else style.count_label(posterior)
    if difference:
        values += ", less the naive"
        line = ax.axvline if sideways else ax.axhline
        line(0.0, color=COLOURS["naive"], lw=1.0, zorder=1)
    axis = ax.xaxis if sideways else ax.yaxis
    axis.set_major_formatter(style.percent if estimand == "P" else style.thousands)
    if posterior._support is not None:
        ax.xaxis.set_major_formatter(style.thousands)
    ax.locator_params(axis="x" if sideways else "y", nbins=6)
    colour = COLOURS[estimand]
    what = "P" if estimand == "P" else "True count"
    naive: dict[str, Any] = {
        "marker": "o",
        "ls": "none",
        "mfc": "white",
        "mec": COLOURS["naive"],
        "mew": 1.2,
    }
    released = estimand == "table" and isinstance(posterior.release, HistogramRelease)
    handles = [
        Line2D([], [], color=colour, lw=2.2, marker="o", ms=4,
               label=f"{what}: mean and {100 * ci_prob:g}% interval"),
        Line2D([], [], ms=4.5, label="Released (naive)" if released else "Naive", **naive),
    ]  # fmt: skip
    if np.any(shown.bound):
        arrow = "<" if sideways else "v"
        handles.append(
            Line2D([], [], ms=5.5, label="Released only as a bound", **naive | {"marker": arrow})
        )
    if known:
        handles.append(
            Line2D([], [], marker="x", ls="none", color=COLOURS["truth"], ms=5, label="Truth")
        )
    dims = ", ".join(map(str, posterior.probability.dims[2:]))
    other = dims if posterior._support is None else style.value_label(posterior)
    return style.finish(
        ax,
        xlabel=values if sideways else other,
        ylabel=other if sideways else values,
        title=posterior.release.attrs.get("title"),
        grid="x" if sideways else "y",
        handles=handles,
    )
