"""Posterior of one functional."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes.errors import ParameterError
from dpbayes.plots import style
from dpbayes.plots.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpbayes.posterior.posterior import Posterior

__all__ = ["functional", "functional_label"]

FIGURE_SIZE = (6.4, 3.2)
_MOST_BINS = 40


def functional(
    draws: Any,
    ci_prob: float = 0.9,
    ax: Axes | None = None,
    *,
    prior: Any = None,
    naive: float | None = None,
    reference: float | None = None,
    label: str | None = None,
    title: str | None = None,
) -> Axes:
    """Plot the posterior of a functional with its mean and credible interval.

    Parameters
    ----------
    draws : DataArray or array_like
        Posterior draws, such as ``posterior.P.mean()``; undefined (NaN) ones are left out.
    ci_prob : float
        Probability of the equal-tailed interval.
    ax : matplotlib Axes, optional
        Where to draw.
    prior : DataArray or array_like, optional
        Prior draws of the same functional, drawn in grey where they fall into the picture.
    naive, reference : float, optional
        Naive estimate, and a value to compare with (the truth, a target).
    label : str, optional
        Label of the axis; the name of the draws by default (`Posterior.plot_functional`
        adds what the release says of it, such as the unit).
    title : str, optional
        Title.

    Returns
    -------
    matplotlib Axes
    """
    values = _finite(draws, "draws")
    if values.size == 0:
        raise ParameterError("draws must hold at least one finite value, got none")
    lower, mean, upper = (float(v) for v in style.interval(values, ci_prob))
    marks = [m for m in (naive, reference) if m is not None and np.isfinite(m)]
    ax = style.axes_for(ax, FIGURE_SIZE)
    estimand = getattr(draws, "attrs", {}).get("estimand", "table")
    colour = COLOURS.get(estimand, COLOURS["table"])
    edges = _edges(values)
    whole = bool(np.array_equal(values, np.rint(values)))
    digits = 0 if whole else _decimals(upper - lower)
    heights = np.histogram(values, bins=edges, density=True)[0]
    ax.stairs(heights, edges, fill=True, color=colour, alpha=0.30, lw=0)
    ax.stairs(heights, edges, color=colour, lw=1.0, baseline=0)
    if prior is not None:
        _draw_prior(ax, _finite(prior, "prior"), edges, [*marks, lower, upper])
    top = 1.12 * float(heights.max())
    ax.set_ylim(0.0, top)
    ax.plot(
        [lower, upper], [0.0, 0.0], color=colour, lw=6, solid_capstyle="butt", clip_on=False,
        label=f"{100 * ci_prob:g}% interval {_number(lower, digits)} to {_number(upper, digits)}",
    )  # fmt: skip
    ax.axvline(mean, color=colour, lw=1.8, label=f"Mean {_number(mean, _decimals(upper - lower))}")
    for value, name, kind, dash in (
        (naive, "Naive", "naive", (0, (4, 2))),
        (reference, "Reference", "truth", ":"),
    ):
        if value is not None and np.isfinite(value):
            text = f"{name} {_number(value, digits)}"
            ax.axvline(value, color=COLOURS[kind], lw=1.5, ls=dash, label=text)
    ax.set_yticks([])
    ax.xaxis.set_major_formatter(style.thousands)
    ax.locator_params(axis="x", nbins=6)
    name = label or str(getattr(draws, "name", None) or "Value").capitalize()
    return style.finish(ax, xlabel=name, ylabel="Probability density", title=title, grid="x")


def functional_label(posterior: Posterior, draws: Any) -> str | None:
    """Name draws that a posterior made, with their unit; None for other draws.

    Parameters
    ----------
    posterior : Posterior
        Whose draws they may be.
    draws : DataArray
        Draws of a functional. Arithmetic keeps names, so values are compared as well.
    """
    name = getattr(draws, "name", None)
    if name == "total" and np.array_equal(draws, posterior.total):
        return f"Total, {style.count_label(posterior).lower()}"
    estimand = getattr(draws, "attrs", {}).get("estimand")
    if estimand not in ("P", "table") or posterior._support is None:
        return None
    source = posterior.P if estimand == "P" else posterior.table
    of = "P" if estimand == "P" else "the realised data"
    unit = style.axis_unit(posterior)
    if name == "mean":
        again, words = source.mean(), f"Mean of {of}{unit}"
    elif name == "variance":
        again, words = source.variance(), f"Variance of {of}"
    elif name == "quantile" and draws["quantile"].ndim == 0:
        level = float(draws["quantile"])
        again, words = source.quantile(level), f"{100 * level:g}% quantile of {of}{unit}"
    elif name == "cdf" and draws["x"].ndim == 0:
        at = float(draws["x"])
        again, words = source.cdf(at), f"Share of {of} at or below {at:g}{unit}"
    else:
        return None
    return words if np.array_equal(draws, again, equal_nan=True) else None


def _finite(draws: Any, name: str) -> np.ndarray:
    try:
        values = np.asarray(draws, dtype=float).reshape(-1)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be numbers, got {draws!r}") from None
    return values[np.isfinite(values)]


def _edges(values: np.ndarray) -> np.ndarray:
    """Edges of a histogram; between the numbers where these are whole."""
    low, high = float(values.min()), float(values.max())
    bins = int(np.clip(0.8 * np.sqrt(values.size), 15, _MOST_BINS))
    if np.array_equal(values, np.rint(values)):
        step = max(1.0, np.ceil((high - low + 1.0) / bins))
        return np.arange(low - 0.5, high + step, step)
    if high - low <= 1e-12 * max(abs(low), 1e-300):
        pad = max(abs(low), 1.0) * 1e-3
        return np.array([low - pad, high + pad])
    return np.linspace(low, high, bins + 1)


def _draw_prior(ax: Axes, prior: np.ndarray, edges: np.ndarray, marks: list[float]) -> None:
    """Prior density over the range of the picture, on the posterior's scale."""
    width = float(np.diff(edges)[0])
    low = edges[0] - width * np.ceil(max(0.0, edges[0] - min(marks)) / width + 4)
    high = edges[-1] + width * np.ceil(max(0.0, max(marks) - edges[-1]) / width + 4)
    wide = np.linspace(low, high, 33)
    inside = np.histogram(prior, bins=wide)[0] / (prior.size * np.diff(wide))
    if inside.max() < 0.1 * ax.dataLim.y1:
        return  # too flat to be seen beside the posterior
    ax.stairs(
        inside, wide, baseline=0, color=COLOURS["prior"], alpha=0.8, fill=True, zorder=0,
        label="Prior",
    )  # fmt: skip


def _decimals(width: float) -> int:
    if not width > 0:
        return 3
    return int(np.clip(1 - np.floor(np.log10(width)), 0, 8))


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}".replace("-", "−")
