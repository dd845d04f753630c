"""Bands of the distribution function and of the density."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes.errors import DomainError, ParameterError
from dpbayes.plots import style
from dpbayes.plots.style import COLOURS
from dpbayes.posterior.estimand import Estimand, Support
from dpbayes.posterior.tables import _one_draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpbayes.posterior.posterior import Posterior

__all__ = ["cdf", "density"]

FIGURE_SIZE = (6.4, 3.8)
_POINTS = 200


def cdf(
    posterior: Posterior,
    estimand: str = "P",
    ci_prob: float = 0.9,
    truth: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the distribution function with pointwise credible intervals.

    Parameters
    ----------
    posterior : Posterior
        What was fitted; it needs a numeric axis.
    estimand : {"P", "table"}
        The process, or the data set itself.
    ci_prob : float
        Probability of the intervals, which hold at each point and not for the whole curve.
    truth : callable or pair of array_like, optional
        True distribution function: a function of x, or points (x, F(x)).
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    DomainError
        If the release has no numeric axis.
    """
    support = _support(posterior)
    law = _estimand(posterior, estimand)
    at = _grid(support)
    lower, mean, upper = style.interval(_flat(law.cdf(at)), ci_prob)
    ax = style.axes_for(ax, FIGURE_SIZE)
    colour = COLOURS[estimand]
    label = f"{_name(estimand)}: {100 * ci_prob:g}% interval at each value"
    steps: dict[str, Any] = {"step": "post"} if not support.bins else {}
    ax.fill_between(at, lower, upper, color=colour, alpha=0.28, lw=0, label=label, **steps)
    draw: dict[str, Any] = {"drawstyle": "steps-post"} if steps else {}
    ax.plot(at, mean, color=colour, lw=1.6, label="Posterior mean", **draw)
    naive = Estimand("naive", _one_draw(posterior), support).cdf(at).values.reshape(-1)
    if np.isfinite(naive).all():
        ax.plot(at, naive, color=COLOURS["naive"], lw=1.2, ls=(0, (4, 2)), label="Naive", **draw)
    _draw_truth(ax, truth, at)
    ax.set_ylim(-0.02, 1.02)
    ax.margins(x=0.01)
    ax.yaxis.set_major_formatter(style.percent)
    ax.xaxis.set_major_formatter(style.thousands)
    ax.locator_params(axis="x", nbins=7)
    title = posterior.release.attrs.get("title")
    return style.finish(
        ax,
        xlabel=style.value_label(posterior),
        ylabel="Share at or below the value",
        title=title,
        grid="both",
    )


def density(
    posterior: Posterior,
    estimand: str = "P",
    ci_prob: float = 0.9,
    truth: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the density of the bins with credible intervals, and single points as stems.

    Parameters
    ----------
    posterior : Posterior
        What was fitted; it needs a numeric axis.
    estimand : {"P", "table"}
        The process, or the data set itself.
    ci_prob : float
        Probability of the pointwise intervals.
    truth : callable or pair of array_like, optional
        True density: a function of x, or points (x, f(x)).
    ax : matplotlib Axes, optional
        Where to draw. Points with mass of their own get a second scale on the right.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    DomainError
        If the release has no numeric axis.
    """
    support = _support(posterior)
    law = _estimand(posterior, estimand)
    ax = style.axes_for(ax, FIGURE_SIZE)
    if support.bins:
        edges = posterior._edges
        assert edges is not None
        _density_of_bins(ax, posterior, law, ci_prob, edges)
        _draw_truth(ax, truth, np.linspace(edges[0], edges[-1], _POINTS))
        if posterior._atoms.size:
            _stems(ax.twinx(), posterior, law, ci_prob, beside=True)
    else:
        _stems(ax, posterior, law, ci_prob, beside=False)
        _draw_truth(ax, truth, posterior._atoms)
    ax.set_ylim(bottom=0.0)
    ax.xaxis.set_major_formatter(style.thousands)
    ax.locator_params(axis="x", nbins=7)
    ax.yaxis.set_major_formatter(style.thousands if support.bins else style.percent)
    unit = style.value_label(posterior).removeprefix("Value").strip(" ()") or "unit"
    return style.finish(
        ax,
        xlabel=style.value_label(posterior),
        ylabel=f"Density (share per {unit})" if support.bins else "Probability",
        title=posterior.release.attrs.get("title"),
    )


def _density_of_bins(
    ax: Axes, posterior: Posterior, law: Estimand, ci_prob: float, edges: np.ndarray
) -> None:
    colour, bins = COLOURS[law.name], edges.size - 1
    width = np.diff(edges)
    lower, mean, upper = style.interval(_flat(law.weights)[:, :bins] / width, ci_prob)
    ax.stairs(
        upper, edges, baseline=lower, fill=True, color=colour, alpha=0.28, lw=0,
        label=f"{_name(law.name)}: {100 * ci_prob:g}% interval in each bin",
    )  # fmt: skip
    ax.stairs(mean, edges, baseline=None, color=colour, lw=1.6, label="Posterior mean")
    naive = posterior.naive_weights.reshape(-1)[:bins] / width
    if np.isfinite(naive).all():
        ax.stairs(
            naive, edges, baseline=None, color=COLOURS["naive"], lw=1.2, ls=(0, (4, 2)),
            label="Naive",
        )  # fmt: skip


def _stems(ax: Axes, posterior: Posterior, law: Estimand, ci_prob: float, beside: bool) -> None:
    """Probabilities of single points, on a scale of their own where there are bins too."""
    atoms = posterior._atoms
    bins = _support(posterior).bins
    weights = _flat(law.weights)[:, bins:]
    naive = posterior.naive_weights.reshape(-1)[bins:]
    lower, mean, upper = style.interval(weights, ci_prob)
    colour = COLOURS[law.name]
    wide = float(np.clip(240.0 / max(atoms.size, 1), 1.5, 5.0))
    ax.vlines(atoms, 0.0, mean, color=colour, lw=1.0, zorder=2)
    ax.vlines(
        atoms, lower, upper, color=colour, lw=wide, alpha=0.5, zorder=2,
        label=f"{_name(law.name)}: {100 * ci_prob:g}% interval",
    )  # fmt: skip
    ax.plot(atoms, mean, "o", color=colour, ms=4, zorder=3, label="Posterior mean")
    ax.plot(
        atoms, naive, "o", mfc="white", mec=COLOURS["naive"], mew=1.2, ms=4.5, zorder=3,
        label="Naive",
    )  # fmt: skip
    top = float(max(upper.max(), np.nanmax(naive, initial=0.0)))
    ax.set_ylim(0.0, 1.15 * top if top > 0 else 1.0)
    if beside:
        ax.yaxis.set_major_formatter(style.percent)
        ax.set_ylabel("Probability of a single point", color=COLOURS["ink"])
        ax.tick_params(labelsize=9, length=3, color="#8A9299", labelcolor=COLOURS["ink"])
        ax.spines["right"].set_color("#8A9299")
        for side in ("top", "left", "bottom"):
            ax.spines[side].set_visible(False)


def _support(posterior: Posterior) -> Support:
    if posterior._support is None:
        raise DomainError(
            "this plot needs a numeric axis: give HistogramRelease(edges=[...]); "
            "plot_cells shows labelled cells"
        )
    return posterior._support


def _estimand(posterior: Posterior, estimand: str) -> Estimand:
    return posterior.P if style.check_estimand(estimand) == "P" else posterior.table


def _name(estimand: str) -> str:
    return "P" if estimand == "P" else "Realised data"


def _flat(draws: Any) -> np.ndarray:
    values = draws.values
    return values.reshape(-1, values.shape[-1])


def _grid(support: Support) -> np.ndarray:
    """Values at which the curve is drawn: ends of pieces, both sides of jumps, points between."""
    ends = np.unique(np.concatenate([support.lower, support.upper]))
    inner = np.linspace(ends[0], ends[-1], _POINTS) if support.bins else np.empty(0)
    atoms = support.lower[support.width == 0]
    before = np.nextafter(atoms, -np.inf) if support.bins else np.empty(0)
    return np.unique(np.concatenate([ends, inner, before]))


def _draw_truth(ax: Axes, truth: Any, at: np.ndarray) -> None:
    if truth is None:
        return
    if callable(truth):
        x, y = at, np.asarray(truth(at), dtype=float)
    else:
        try:
            x, y = (np.asarray(part, dtype=float) for part in truth)
        except (TypeError, ValueError):
            raise ParameterError(
                f"truth must be a function or a pair (x, y) of arrays, got {truth!r}"
            ) from None
        if x.shape != y.shape:
            raise ParameterError(
                f"truth must be a pair of arrays of one length, got {x.shape} and {y.shape}"
            )
    ax.plot(x, y, color=COLOURS["truth"], lw=1.2, ls=":", label="Truth", zorder=4)
