"""Pictures of comparisons of mechanisms and of what privacy cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes.compare import privacy_cost, rate
from dpbayes.errors import ParameterError
from dpbayes.plots import style
from dpbayes.plots.style import COLOURS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["convergence", "cost"]

_COLOURS = {
    "none": COLOURS["naive"], "perturbed": COLOURS["P"], "smoothed": COLOURS["table"],
    "exponential": COLOURS["alarm"],
}  # fmt: skip
_MARKS = ("o", "s", "^", "D", "v", "P")
_NAMES = {"l2": "Squared L2 error", "ks": "KS distance"}
_MOST_ROWS = 30


def convergence(table: pd.DataFrame, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Plot expected errors against the number of records, with the slopes of the theory.

    Parameters
    ----------
    table : pandas.DataFrame
        Result of `dpbayes.compare.compare`, for one distance.
    ax : matplotlib Axes, optional
        Where to draw.
    title : str, optional
        Title.

    Returns
    -------
    matplotlib Axes
    """
    distances = table["distance"].unique()
    if len(distances) != 1:
        raise ParameterError(f"table must hold one distance, got {', '.join(distances)}")
    ax = style.axes_for(ax, (6.4, 4.0))
    alphas = list(table["alpha"].unique())
    for key, part in table.groupby(["mechanism", "alpha", "dimension"], sort=False):
        mechanism, alpha, dimension = str(key[0]), float(key[1]), int(key[2])
        best = part.loc[part.groupby("records")["error"].idxmin()].sort_values("records")
        n, error = best["records"].to_numpy(float), best["error"].to_numpy()
        colour = _COLOURS[mechanism]
        label = (
            mechanism if mechanism == "none" or len(alphas) == 1 else f"{mechanism}, α = {alpha:g}"
        )
        ax.errorbar(
            n, error, yerr=2.0 * best["standard_error"].fillna(0.0).to_numpy(), color=colour,
            marker=_MARKS[alphas.index(alpha) % len(_MARKS)], ms=4, lw=1.4, label=label,
        )  # fmt: skip
        slope = rate(mechanism, str(distances[0]), dimension)
        ax.plot(n, error[-1] * (n / n[-1]) ** slope, color=colour, lw=0.9, ls=(0, (4, 3)))
    ax.set_xscale("log")
    ax.set_yscale("log")
    handles = [*ax.get_legend_handles_labels()[0], *_theory()]
    return style.finish(
        ax, xlabel="Records n", ylabel=_NAMES[distances[0]], title=title, grid="both",
        handles=handles,
    )  # fmt: skip


def _theory() -> list[Any]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=COLOURS["ink"], lw=0.9, ls=(0, (4, 3)), label="theory")]


def cost(posterior: Any, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Plot how many times wider each functional of P is because of privacy noise.

    Parameters
    ----------
    posterior : Posterior
        Any posterior that `fit` returned.
    ax : matplotlib Axes, optional
        Where to draw.
    title : str, optional
        Title.

    Returns
    -------
    matplotlib Axes
    """
    found = privacy_cost(posterior)
    found = found[np.isfinite(found["ratio"])]
    if found.empty:
        raise ParameterError("posterior must have a functional of P with a share of noise")
    rows = found.iloc[:_MOST_ROWS]
    ax = style.axes_for(ax, (6.4, 0.6 + 0.24 * len(rows)))
    at = np.arange(len(rows))[::-1]
    ax.barh(at, rows["ratio"] - 1.0, left=1.0, color=COLOURS["P"], height=0.6)
    ax.set_yticks(at, [style.shorten(str(name)) for name in rows.index], parse_math=False)
    for y, ratio in zip(at, rows["ratio"], strict=True):
        ax.annotate(f"{ratio:.2f}", (ratio, y), (4, 0), textcoords="offset points", va="center",
                    fontsize=8, color=COLOURS["ink"])  # fmt: skip
    ax.set_xlim(1.0, 1.0 + 1.12 * max(float(rows["ratio"].max()) - 1.0, 0.05))
    label = "Width of the interval, in widths without privacy noise"
    return style.finish(ax, xlabel=label, title=title, grid="x")
