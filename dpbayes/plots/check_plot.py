"""Posterior predictive check of the released values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes.plots import style
from dpbayes.plots.cell_plot import MOST_ROWS, figure_size
from dpbayes.plots.style import COLOURS
from dpbayes.posterior.predictive import PredictiveCheck, check
from dpbayes.posterior.tables import cell_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpbayes.posterior.posterior import Posterior

__all__ = ["predictive"]

_MOST_NAMED = 4


def predictive(
    posterior: Posterior,
    rng: Any = None,
    ci_prob: float = 0.9,
    ax: Axes | None = None,
    *,
    checked: PredictiveCheck | None = None,
) -> Axes:
    """Plot where the released values lie among replicates that the fitted model releases.

    For histograms each cell shows its position, from 0 (below all replicates) to 1 (above
    all); for records the counts of released values stand beside the band of replicates.
    Values that are implausible even as the most extreme of all are red.

    Parameters
    ----------
    posterior : Posterior
        What was fitted.
    rng : Generator, int or None
        Source of the replicates.
    ci_prob : float
        Probability of the band.
    ax : matplotlib Axes, optional
        Where to draw.
    checked : PredictiveCheck, optional
        A check made before (`dpbayes.posterior.predictive.check`), in place of a new one.

    Returns
    -------
    matplotlib Axes
    """
    style.check_ci_prob(ci_prob)
    found = check(posterior, rng) if checked is None else checked
    ax = style.axes_for(ax, figure_size(posterior))
    if found.lower is None:
        return _positions(ax, posterior, found, ci_prob)
    return _bands(ax, posterior, found, ci_prob)


def _positions(ax: Axes, posterior: Posterior, found: PredictiveCheck, ci_prob: float) -> Axes:
    names = cell_names(posterior)
    at = np.arange(found.pit.size, dtype=float)
    sideways = posterior._support is None and at.size <= MOST_ROWS
    low, high = style.check_ci_prob(ci_prob)
    span, line, ranges = (
        (ax.axvspan, ax.axvline, ax.hlines) if sideways else (ax.axhspan, ax.axhline, ax.vlines)
    )
    span(low, high, color=COLOURS["P"], alpha=0.12, lw=0, zorder=0,
         label=f"{100 * ci_prob:g}% of the replicates")  # fmt: skip
    line(0.5, color=COLOURS["P"], lw=0.8, alpha=0.6)
    size = float(np.clip(400.0 / at.size, 2.0, 5.0))
    # Ties (clamped and withheld values above all) leave a range of positions.
    ranges(at, found.below, found.above, color=COLOURS["naive"], lw=size - 1, alpha=0.5)
    bad, middle = found.outside, 0.5 * (found.below + found.above)
    for mask, marker, colour, label in (
        (~bad, "o", "ink", "Released value"),
        (bad, "D", "alarm", "Implausible under the model"),
    ):
        if mask.any():
            x, y = (middle, at) if sideways else (at, middle)
            ax.plot(x[mask], y[mask], marker, color=COLOURS[colour], ms=size, label=label)
    if sideways:
        ax.set_yticks(at, [style.shorten(n) for n in names], parse_math=False)
        ax.set_ylim(at.size - 0.4, -0.6)
        ax.set_xlim(-0.03, 1.03)
    else:
        style.name_ticks(ax, names)
        ax.set_xlim(-0.7, at.size - 0.3)
        ax.set_ylim(-0.03, 1.03)
        if 0 < bad.sum() <= _MOST_NAMED:
            _name_points(ax, at[bad], middle[bad], [names[i] for i in np.flatnonzero(bad)])
    cells, position = (
        ", ".join(map(str, posterior.probability.dims[2:])),
        "Position among replicates",
    )
    return style.finish(
        ax,
        xlabel=position if sideways else cells,
        ylabel=cells if sideways else position,
        title=posterior.release.attrs.get("title"),
        grid="x" if sideways else "y",
    )


def _name_points(ax: Axes, x: np.ndarray, y: np.ndarray, names: list[str]) -> None:
    for a, b, name in zip(x, y, names, strict=True):
        right = a > 0.6 * ax.get_xlim()[1]
        ax.annotate(
            style.shorten(name, 20), (a, b), xytext=(-7 if right else 7, 0),
            textcoords="offset points", ha="right" if right else "left", va="center",
            fontsize=8.5, color=COLOURS["alarm"], parse_math=False,
        )  # fmt: skip


def _bands(ax: Axes, posterior: Posterior, found: PredictiveCheck, ci_prob: float) -> Axes:
    """Show counts per cell of record + noise; the open end cells get a finite width."""
    assert found.lower is not None
    assert found.upper is not None
    edges = np.append(found.lower, found.upper[-1])
    inner = edges[np.isfinite(edges)]
    width = float(np.median(np.diff(inner))) if inner.size > 1 else 1.0
    edges = np.concatenate([[inner[0] - width], inner, [inner[-1] + width]])
    lower, mean, upper = style.interval(found.replicated, ci_prob)
    ax.stairs(upper, edges, baseline=lower, fill=True, color=COLOURS["P"], alpha=0.3, lw=0,
              label=f"{100 * ci_prob:g}% of the replicates")  # fmt: skip
    ax.stairs(mean, edges, baseline=None, color=COLOURS["P"], lw=1.0)
    middle, bad = 0.5 * (edges[1:] + edges[:-1]), found.outside
    ax.plot(middle[~bad], found.observed[~bad], "o", color=COLOURS["ink"], ms=3,
            label="Released records")  # fmt: skip
    if bad.any():
        ax.plot(middle[bad], found.observed[bad], "D", color=COLOURS["alarm"], ms=4.5,
                label="Implausible under the model")  # fmt: skip
    ax.set_ylim(bottom=0.0)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(style.thousands)
    ax.locator_params(nbins=7)
    unit = posterior.release.attrs.get("unit")
    return style.finish(
        ax,
        xlabel="Record + noise" + (f" ({unit})" if unit else "") + "; the end cells are open",
        ylabel="Records",
        title=posterior.release.attrs.get("title"),
    )
