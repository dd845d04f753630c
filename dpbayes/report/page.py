"""From a posterior to one self-contained HTML file."""

from __future__ import annotations

import os
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from dpbayes.errors import ParameterError
from dpbayes.io.atomic import atomic_path
from dpbayes.report.content import Content
from dpbayes.report.pictures import pictures

if TYPE_CHECKING:
    from dpbayes.posterior.posterior import Posterior

__all__ = ["render", "write"]

_TEMPLATES = files("dpbayes.report") / "templates"


def write(
    posterior: Posterior,
    path: str | os.PathLike[str],
    ci_prob: float = 0.9,
    command: str | None = None,
) -> None:
    """Write a report; the file appears under its name only when complete.

    Parameters
    ----------
    posterior : Posterior
        What was fitted.
    path : path
        HTML file to write.
    ci_prob : float
        Probability of the credible intervals.
    command : str, optional
        Command that made the posterior, repeated in the report.

    Raises
    ------
    ParameterError
        If `ci_prob` is not between 0 and 1.
    """
    page = render(posterior, ci_prob, command)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def render(posterior: Posterior, ci_prob: float = 0.9, command: str | None = None) -> str:
    """Return the report as HTML that needs no other file (see `write`)."""
    if not 0 < ci_prob < 1:
        raise ParameterError(f"ci_prob must be between 0 and 1, got {ci_prob}")
    content = Content(posterior, ci_prob, command)
    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = Markup(_read("report.css"))
    template = environment.get_template("report.html.j2")
    # Matplotlib escapes text in the SVG that it writes.
    drawn = [(p, Markup(p.markup)) for p in pictures(content)]
    return template.render(content=content, style=style, drawn=drawn)


def _read(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
