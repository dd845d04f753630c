"""The pictures of a report: inline SVG, or PNG where that is smaller."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from dpbayes import plots
from dpbayes.plots.cell_plot import MOST_ROWS
from dpbayes.posterior.tables import cell_names
from dpbayes.report.content import Content

__all__ = ["Picture", "pictures"]

WIDTH = 4.5  # inches: legible on a phone without scrolling
WIDE = 9.4
MOST_SVG = 150_000  # characters
_NARROW = 0.03  # intervals below this share of the axis are shown enlarged as well


@dataclass(frozen=True)
class Picture:
    """One picture.

    Parameters
    ----------
    title, caption, alt : str
        Words around it, and in place of it.
    markup : str
        SVG element, empty where `source` is used.
    source : str
        Data URI of a PNG.
    wide : bool
        Whether it needs the whole width of the page.
    """

    title: str
    caption: str
    alt: str
    markup: str = ""
    source: str = ""
    wide: bool = False


def pictures(content: Content) -> tuple[Picture, ...]:
    """Draw all pictures that suit the posterior."""
    found = []
    for key, (title, caption, alt, draw, size) in enumerate(_plans(content)):
        with warnings.catch_warnings():
            # Labels in scripts that Matplotlib's font lacks are drawn by the browser.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            markup, source = _render(draw, size, f"f{key}-")
        found.append(Picture(title, caption, alt, markup, source, size[0] > WIDTH))
    return tuple(found)


def _plans(content: Content) -> Iterator[tuple[str, str, str, Callable[[Any], Any], Any]]:
    posterior, level = content.posterior, content.ci_prob
    size = _cell_size(content)
    estimand = "table" if content.histogram else "P"
    what = "True counts" if content.histogram else "Distribution P"
    yield (
        f"{what} by cell",
        f"With {content.level} intervals; hollow marks are what was released, or a naive reading.",
        f"{what} of {content.check.pit.size} cells with {content.level} intervals beside the "
        f"naive estimates; the figures are in the table of cells.",
        lambda ax: plots.cells(posterior, estimand, level, ax),
        size,
    )
    if content.histogram and _narrow(content):
        yield (
            "The same, less the released value",
            "The intervals are narrow beside the counts; here they are enlarged.",
            "Intervals of the true counts less the released values.",
            lambda ax: plots.cells(posterior, "table", level, ax, difference=True),
            size,
        )
    if content.numeric:
        yield from _curves(content)
    yield _main_functional(content)
    yield _check(content)


def _curves(content: Content) -> Iterator[tuple[str, str, str, Callable[[Any], Any], Any]]:
    posterior, level = content.posterior, content.ci_prob
    yield (
        "Distribution function of P",
        f"The band holds with {content.level} probability at each single value.",
        "Share of P at or below each value, with a band of intervals; quantiles are in the table "
        "of key quantities.",
        lambda ax: plots.cdf(posterior, "P", level, ax=ax),
        (WIDTH, 3.3),
    )
    yield (
        "Density of P",
        "Points that carry probability of their own stand as stems on the right-hand scale."
        if posterior._atoms.size and posterior._edges is not None
        else "Where values concentrate.",
        "Density of P over its range, with a band of intervals.",
        lambda ax: plots.density(posterior, "P", level, ax=ax),
        (WIDTH, 3.3),
    )


def _main_functional(content: Content) -> tuple[str, str, str, Callable[[Any], Any], Any]:
    posterior, level = content.posterior, content.ci_prob
    options: dict[str, Any]
    if content.histogram and content.release.total is None:
        draws, name = posterior.total, "total"
        options = {"label": f"Total ({content.count_noun})"}
        title = f"Total number of {content.count_noun}"
    elif content.numeric:
        draws, name = posterior.P.mean(), "P.mean"
        options = {"label": f"Mean of P{content.value_unit and f' ({content.value_unit.strip()})'}"}
        options["prior"] = posterior.prior_P.mean()
        title = "Mean of P"
    else:
        at = cell_names(posterior).index(content.largest)
        draws, name = posterior.P.weights[..., at], f"probability[{content.largest}]"
        draws.attrs["estimand"] = "P"
        options = {"label": f"Share of {content.largest}"}
        title = "Share of the largest cell"
    naive = float(content.summary.loc[name, "naive"])
    return (
        title,
        "All that the release says about this number: the height is how probable a value is.",
        f"Posterior of a number, with its mean and {content.level} interval: {title}.",
        lambda ax: plots.functional(draws, level, ax, naive=naive, **options),
        (WIDTH, 3.0),
    )


def _check(content: Content) -> tuple[str, str, str, Callable[[Any], Any], Any]:
    posterior, found = content.posterior, content.check
    marked = int(found.outside.sum())
    verdict = f"p = {found.p_value:.2f}" if found.p_value >= 0.01 else "p < 0.01"
    if marked or found.resolves:
        verdict += f"; {f'{marked} stand' if marked > 1 else f'{marked or "none"} stands'} out"
    caption = (
        "Positions of the released values among values that the fitted model would release, from "
        "0 (below all) to 1 (above all). Points crowd the middle, as the model was fitted to them."
        if content.histogram
        else "Released records beside sets of records that the fitted model would release."
    )
    size = _cell_size(content) if content.histogram else (WIDTH, 3.3)
    if content.histogram and content.release.total is None:
        caption += (
            " The total is unknown and fitted as well: the check finds single values that the "
            "noise does not explain, not a wrong level of all counts."
        )
    return (
        "Does the model explain the release?",
        f"{caption} Overall {verdict}.",
        f"Posterior predictive check of {found.pit.size} cells: {verdict}.",
        lambda ax: plots.predictive(posterior, ci_prob=content.ci_prob, ax=ax, checked=found),
        (size[0], 3.3) if content.numeric else size,
    )


def _cell_size(content: Content) -> tuple[float, float]:
    if content.numeric:
        return WIDTH, 3.3
    number = len(cell_names(content.posterior))
    return (WIDTH, 1.25 + 0.2 * number) if number <= MOST_ROWS else (WIDE, 4.6)


def _narrow(content: Content) -> bool:
    """Whether the intervals of counts can hardly be seen on the scale of the counts."""
    rows = content.summary[content.summary.index.str.startswith("count[")]
    reach = float(rows["upper"].max() - min(0.0, rows["lower"].min()))
    return len(rows) > 1 and float((rows["upper"] - rows["lower"]).median()) < _NARROW * reach


def _render(draw: Callable[[Any], Any], size: tuple[float, float], prefix: str) -> tuple[str, str]:
    figure = Figure(figsize=size, layout="constrained")
    axes = draw(figure.add_subplot())
    axes.set_title("", loc="left")
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator"), None))
    markup = buffer.getvalue()
    if len(markup) <= MOST_SVG:
        return _inline(markup, prefix), ""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=160)
    return "", "data:image/png;base64," + base64.b64encode(image.getvalue()).decode("ascii")


def _inline(markup: str, prefix: str) -> str:
    """SVG element for a page that holds several: no header, own ids, size set by the page."""
    markup = markup[markup.index("<svg") :]
    markup = re.sub(r"<metadata>.*?</metadata>", "", markup, flags=re.DOTALL)
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', markup).groups()  # type: ignore[union-attr]
    head = f'<svg viewBox="0 0 {width} {height}" role="presentation" focusable="false"'
    markup = re.sub(r"<svg[^>]*>", f"{head}>", markup, count=1)
    markup = re.sub(r"<[^<>]*>", lambda tag: _own_ids(tag.group(), prefix), markup)
    return re.sub(r"\s*\n\s*", "\n", markup)


def _own_ids(tag: str, prefix: str) -> str:
    tag = tag.replace("xlink:href=", "href=")
    return re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}", tag)
