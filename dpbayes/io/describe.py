"""What a release says, in words and in the units of the data, and what may be wrong with it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dpbayes.errors import UnsupportedError
from dpbayes.io.doubts import Doubt, doubts
from dpbayes.io.words import amount, interval, plural, quoted, spread
from dpbayes.mechanism import Clamp, Preimage, Rescale, Round, Suppress
from dpbayes.noise import (
    CustomNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoiseLaw,
    NoNoise,
    TruncatedDiscreteLaplace,
    TruncatedLaplace,
)
from dpbayes.releases import HistogramRelease, RecordRelease

__all__ = ["Description", "describe"]

LEVEL = 0.95
_WRAP: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}

_LAWS: dict[type[NoiseLaw], str] = {
    Laplace: "Laplace noise",
    DiscreteLaplace: "integer Laplace (two-sided geometric) noise",
    Gaussian: "Gaussian noise",
    DiscreteGaussian: "integer (discrete) Gaussian noise",
    TruncatedLaplace: "truncated Laplace noise",
    TruncatedDiscreteLaplace: "truncated integer Laplace noise",
    CustomNoise: "noise of a density given as code",
    NoNoise: "no noise",
}


_PARAMETERS: dict[type[NoiseLaw], str] = {
    Gaussian: "standard deviation",
    DiscreteGaussian: "sigma",
}


_CONVENTIONS = {
    "replace-one": "is replaced by another (replace-one)",
    "add-remove": "is added or removed (add-remove)",
}


@dataclass(frozen=True)
class Description:
    """A release in words and figures.

    Parameters
    ----------
    title : str
        Title of the release, or a generic one.
    released : tuple of str
        What was published, one sentence each.
    mechanism : tuple of str
        What was done to it and how large the noise is.
    reading : tuple of str
        What follows for reading the values.
    doubts : tuple of Doubt
        Likely mistakes in the description of the release: code and text.
    figures : dict
        The figures in the text: ``noise_scale``, ``noise_sd``, ``noise_half_width`` (95 %)
        as pairs (least, largest over cells); ``sum_sd`` for histograms; ``margin_noise_sd``
        by name of the totals that were released on their own; ``suppressed``,
        ``negative``, ``censored`` as numbers of values.
    """

    title: str
    released: tuple[str, ...]
    mechanism: tuple[str, ...]
    reading: tuple[str, ...]
    doubts: tuple[Doubt, ...]
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Headings with their sentences, without the doubts; empty ones are left out."""
        found = (
            ("What was released", self.released),
            ("How it was made", self.mechanism),
            ("How to read it", self.reading),
        )
        return tuple((heading, lines) for heading, lines in found if lines)

    def text(self, width: int = 80) -> str:
        """Plain text, wrapped.

        Parameters
        ----------
        width : int
            Columns of the terminal.
        """
        blocks = [textwrap.fill(self.title, width, **_WRAP)]
        blocks += [_block(heading, lines, width) for heading, lines in self.sections]
        if self.doubts:
            blocks.append(_block("Check this", [d.text for d in self.doubts], width, "! "))
        return "\n\n".join(blocks)

    def to_dict(self) -> dict[str, Any]:
        """Everything as a dictionary that JSON can hold."""
        return asdict(self)


def _block(heading: str, lines: Any, width: int, mark: str = "- ") -> str:
    filled = [
        textwrap.fill(line, width, initial_indent=f"  {mark}", subsequent_indent="    ", **_WRAP)
        for line in lines
    ]
    return "\n".join([heading, *filled])


def describe(release: HistogramRelease | RecordRelease) -> Description:
    """Restate a release in words and in the units of the data, with likely mistakes.

    Parameters
    ----------
    release : HistogramRelease or RecordRelease
        What was published.

    Returns
    -------
    Description
        Its ``text()`` is what ``dpbayes describe`` prints.

    Examples
    --------
    >>> import dpbayes as dpb
    >>> law = dpb.DiscreteLaplace(scale=30)
    >>> release = dpb.HistogramRelease([812, 455], mechanism=law, coords={"arm": ["a", "b"]})
    >>> describe(release).figures["noise_sd"]
    (42.4, 42.4)
    """
    noun = "count" if isinstance(release, HistogramRelease) else "record"
    attrs = release.attrs or {}
    figures = _figures(release)
    released = _table(release) if isinstance(release, HistogramRelease) else _sample(release)
    return Description(
        title=str(attrs.get("title") or f"A release of {plural(release.size, noun)}"),
        released=(*released, *_totals(release), *_source(release)),
        mechanism=(
            *_noise(release, figures),
            *_steps(release),
            *_noise_of_totals(release),
            *_privacy(release),
        ),
        reading=(*_censored(release), *_rounded(release), *_bias(release)),
        doubts=tuple(doubts(release)),
        figures=figures,
    )


# -- figures ---------------------------------------------------------------------------


def _pair(values: Any) -> tuple[float, float]:
    return tuple(float(f"{float(v):.6g}") for v in (np.min(values), np.max(values)))  # type: ignore[return-value]


def _figures(release: Any) -> dict[str, Any]:
    noise = release.mechanism.noise
    values = np.asarray(release.values, dtype=float)
    sd = np.asarray(noise.sd, dtype=float)
    figures: dict[str, Any] = {"noise_sd": _pair(sd)}
    if not isinstance(noise, CustomNoise | NoNoise):
        figures["noise_scale"] = _pair(noise.scale)
        figures["noise_half_width"] = _pair(noise.half_width(LEVEL))
    if isinstance(release, HistogramRelease):
        spread_sd = np.sqrt(np.sum(np.broadcast_to(sd, values.shape) ** 2))
        figures["sum_sd"] = float(f"{spread_sd:.6g}")
        if release.margins:
            figures["margin_noise_sd"] = {
                m.name: _pair(m.mechanism.noise.sd) for m in release.margins
            }
    bounds, _ = statements(release)
    figures["suppressed"] = int(np.isnan(values).sum())
    figures["negative"] = int((values < 0).sum())
    figures["censored"] = int((np.isinf(bounds.lower) | np.isinf(bounds.upper)).sum())
    return figures


def statements(release: Any) -> tuple[Preimage, float]:
    """Canonical bounds of statistic + noise for each value, and their lattice."""
    if isinstance(release, HistogramRelease):
        observed = release.observations()
        return observed.bounds, observed.step
    mechanism = release.mechanism
    if mechanism.noise.is_lattice:
        return mechanism.integer_bounds(release.values), mechanism.integer_step()
    return mechanism.interval(release.values), 0.0


# -- what was released -----------------------------------------------------------------


def _unit(release: Any) -> str:
    unit = release.attrs.get("unit")
    return f" {unit}" if unit else ""


def _table(release: HistogramRelease) -> Iterator[str]:
    sizes = release.values.sizes
    cells = " x ".join(f"{n} {dim}" for dim, n in sizes.items())
    where = cells if len(sizes) > 1 else f"by {release.dims[0]}"
    of = f" of{_unit(release)}" if _unit(release) else ""
    if release.edges is not None:
        low, high = release.edges[[0, -1]]
        where = f"in adjoining bins from {amount(low)} to {amount(high)}"
    yield f"{plural(release.size, 'count')}{of}, {where}."
    if release.total is None:
        yield "The number of records is unknown: it is estimated with the counts."
    else:
        yield f"The number of records is public: {release.total:,}."
    values = release.values.values
    notes = [(np.isnan(values), "suppressed"), (values < 0, "negative (noise makes them so)")]
    for mask, word in notes:
        if mask.any():
            some = int(mask.sum())
            yield f"{some:,} of {values.size:,} values {'is' if some == 1 else 'are'} {word}."


def _totals(release: Any) -> Iterator[str]:
    """Say which totals were released beside the cells, and what was released again."""
    for margin in getattr(release, "margins", ()):
        if not margin.by:
            yield "The grand total was released on its own."
            continue
        by = " and ".join(margin.by)
        unsaid = int((~margin.published).sum())
        suppressed = int((np.isnan(margin.values.values.reshape(-1)) & margin.published).sum())
        some = [f"{suppressed:,} suppressed"] * bool(suppressed)
        some += [f"{unsaid:,} not released"] * bool(unsaid)
        but = f" ({', '.join(some)})" if some else ""
        yield f"{plural(margin.size, 'total')} by {by}, released on {_own(margin.size)}{but}."
    again = len(getattr(release, "repeats", ()))
    if again:
        yield (
            f"The same counts were released {plural(again, 'more time')}, each time with noise of "
            "its own: the fit combines them."
        )
    further = len(getattr(release, "samples", ()))
    if further:
        yield (
            f"{plural(further, 'further table')} of other records from the same process "
            "were released: the fit pools them for P."
        )


def _own(size: int) -> str:
    return "its own" if size == 1 else "their own"


def _sample(release: RecordRelease) -> Iterator[str]:
    low, high = release.bounds
    whole = "whole numbers" if release.support == "integers" else "values"
    yield (
        f"{plural(release.size, 'record')}, each perturbed on its own; the true {whole} lie "
        f"between {amount(low)} and {amount(high)}{_unit(release)}."
    )
    values = release.values
    shown = values[~np.isnan(values)]
    if shown.size < values.size:
        yield f"{plural(values.size - shown.size, 'record')} suppressed."
    outside = int(((shown < low) | (shown > high)).sum())
    if outside:
        yield (
            f"{outside / values.size:.0%} of the released values lie outside these bounds: "
            "noise puts them there, and they carry information (do not clip them)."
        )


def _source(release: Any) -> Iterator[str]:
    if release.attrs.get("source"):
        yield f"Source: {release.attrs['source']}."


# -- how it was made -------------------------------------------------------------------


def _noise(release: Any, figures: dict[str, Any]) -> Iterator[str]:
    noise = release.mechanism.noise
    each = "each count" if isinstance(release, HistogramRelease) else "each record"
    name = _LAWS.get(type(noise), type(noise).__name__)
    if isinstance(noise, NoNoise):
        yield f"No noise was added to {each}."
        return
    size = f" of {_parameter(noise)}" if "noise_scale" in figures else ""
    bound = getattr(noise, "bound", None)
    cut = "" if bound is None else f", never more than {spread(bound)} in either direction"
    varies = ", which differs by cell" if noise.shape and np.ptp(noise.sd) > 0 else ""
    yield f"{name[0].upper()}{name[1:]}{size}{varies} was added to {each}{cut}."
    unit = _unit(release)
    said = f"Standard deviation of the noise: {spread(noise.sd)}{unit}"
    if "noise_half_width" in figures:
        reach = spread(noise.half_width(LEVEL))
        said += f"; in 95 % of cases it is at most {reach}{unit} in either direction"
    yield f"{said}."
    if isinstance(release, HistogramRelease) and release.size > 1:
        yield (
            f"Noise in the sum of all {release.size} counts: standard deviation "
            f"{amount(figures['sum_sd'])}{unit}."
        )


def _noise_of_totals(release: Any) -> Iterator[str]:
    """Say how totals that were released on their own were made."""
    unit = _unit(release)
    for margin in getattr(release, "margins", ()):
        noise = margin.mechanism.noise
        what = f"The {margin.name}" if not margin.by else f"Each {margin.name}"
        if isinstance(noise, NoNoise):
            said = f"{what} has no noise"
        else:
            name = _LAWS.get(type(noise), type(noise).__name__)
            size = "" if isinstance(noise, CustomNoise) else f" of {_parameter(noise)}"
            said = (
                f"{what} has {name}{size} of its own, standard deviation {spread(noise.sd)}{unit}"
            )
        steps = "; then it was ".join(step.describe() for step in margin.mechanism.steps)
        yield f"{said}{'; then it was ' + steps if steps else ''}."
    if getattr(release, "margins", ()):
        yield (
            "Counts and totals that were released on their own do not add up as published; in the "
            "posterior they do."
        )


def _parameter(noise: Any) -> str:
    """Parameter that the law is known by, with its lattice."""
    name = _PARAMETERS.get(type(noise), "scale")
    lattice = f" on multiples of {noise.step:g}" if noise.is_lattice and noise.step != 1 else ""
    return f"{name} {spread(noise.scale)}{lattice}"


def _steps(release: Any) -> Iterator[str]:
    for step in release.mechanism.steps:
        yield f"After the noise, values were {step.describe()}."
        if isinstance(step, Rescale):
            sd = np.asarray(release.mechanism.noise.sd) * abs(step.factor)
            yield f"In the units after that the noise has standard deviation {spread(sd)}."


def _privacy(release: Any) -> Iterator[str]:
    """Say what privacy loss the noise means, and for which neighbours."""
    noise, attrs = release.mechanism.noise, release.attrs
    sensitivity, convention = attrs.get("sensitivity"), attrs.get("neighbours")
    epsilon = attrs.get("epsilon")
    if sensitivity is None:
        if epsilon is not None:
            yield f"Stated privacy loss: epsilon {epsilon:g} (the sensitivity is not stated)."
        return
    held = f"sensitivity {sensitivity:g}"
    if convention:
        held += f"; data sets are neighbours where one person {_CONVENTIONS[convention]}"
    gaussian = isinstance(noise, Gaussian | DiscreteGaussian)
    if gaussian:
        rho = noise.rho(sensitivity=sensitivity)
        loss = f"rho {spread(rho)} (zero-concentrated)"
        if epsilon is not None:
            delta = noise.delta(epsilon=epsilon, sensitivity=sensitivity)
            loss = f"epsilon {epsilon:g} with delta {delta:.2g}, or {loss}"
    else:
        try:
            loss = f"epsilon {spread(noise.epsilon(sensitivity=sensitivity))}"
        except UnsupportedError:
            return
    yield f"Privacy loss of this release: {loss} ({held})."
    # A stated epsilon belongs to the stated neighbours; one found from the scale needs saying.
    if isinstance(release, HistogramRelease) and convention and epsilon is None and not gaussian:
        other = "add-remove" if convention == "replace-one" else "replace-one"
        factor = 0.5 if convention == "replace-one" else 2.0
        yield (
            f"Where one person {_CONVENTIONS[other]}, counts usually change {amount(factor)} times "
            f"as much in all: the same noise then has epsilon "
            f"{spread(noise.epsilon(sensitivity=sensitivity * factor))}."
        )


# -- how to read it --------------------------------------------------------------------


def _censored(release: Any) -> Iterator[str]:
    """Say for each clamped or suppressed value what it stands for."""
    bounds, step = statements(release)
    values = np.asarray(release.values, dtype=float).reshape(-1)
    censored = np.isinf(bounds.lower) | np.isinf(bounds.upper)
    if not censored.any():
        if any(isinstance(s, Clamp | Suppress) for s in release.mechanism.steps):
            yield "No value reached a clamp or a suppression threshold."
        return
    what = "count + noise" if isinstance(release, HistogramRelease) else "value + noise"
    facts = np.column_stack([values, bounds.lower, bounds.upper])[censored]
    groups, sizes = np.unique(facts, axis=0, return_counts=True, equal_nan=False)
    merged: dict[tuple[str, str], int] = {}
    for (value, low, high), size in zip(groups, sizes, strict=True):
        name = "suppressed" if np.isnan(value) else f"exactly {quoted(value)}"
        key = (name, interval(low, high, step))
        merged[key] = merged.get(key, 0) + int(size)
    for (name, where), size in list(merged.items())[:6]:
        subject, each = ("is", "it") if size == 1 else ("are", "each")
        instead = ", not zero" if name in ("suppressed", "exactly 0") else ""
        yield (
            f"{size:,} of {values.size:,} values {subject} {name}: {each} means "
            f'"{what} was {where}"{instead}.'
        )


def _rounded(release: Any) -> Iterator[str]:
    for step in release.mechanism.steps:
        if isinstance(step, Round) and step.step > 0:
            yield (
                f"A value was {step.describe()}: it stands for everything that rounds to it, "
                "and the fit treats it so."
            )


def _bias(release: Any) -> Iterator[str]:
    """Name biases that happened before the noise and that no noise model undoes."""
    if isinstance(release, RecordRelease):
        low, high = release.bounds
        yield (
            f"If values were clipped to [{amount(low)}, {amount(high)}] before the noise, the "
            "result is about the clipped values: no model of the noise undoes clipping."
        )
        return
    sensitivity, convention = release.attrs.get("sensitivity"), release.attrs.get("neighbours")
    if sensitivity is None or isinstance(release.mechanism.noise, Gaussian | DiscreteGaussian):
        return
    cells = sensitivity / (2.0 if convention == "replace-one" else 1.0)
    if convention and cells > 1:
        yield (
            f"Sensitivity {sensitivity:g} for {convention} neighbours means that one person "
            f"counts in up to {amount(cells)} cells. If contributions beyond that were dropped, "
            "the result is about the counts after dropping: no model of the noise undoes that."
        )
