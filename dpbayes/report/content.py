"""What a report says: key figures, status, tables, provenance, as plain data."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpbayes.io.describe import Description, describe
from dpbayes.posterior.naive import naive_counts
from dpbayes.posterior.predictive import PredictiveCheck, check
from dpbayes.posterior.tables import QUANTILES, cell_names
from dpbayes.posterior.verdict import Verdict
from dpbayes.releases import HistogramRelease
from dpbayes.report.numbers import MISSING, decimals, number, percent, span
from dpbayes.report.status import Status, calculation, check_finds

if TYPE_CHECKING:
    from dpbayes.posterior.posterior import Posterior

__all__ = ["Content", "KeyFigure"]

#: Probability of a predictive check below which the report objects.
SUSPICIOUS = 0.01


@dataclass(frozen=True)
class KeyFigure:
    """One of the answers at the head of the report.

    Parameters
    ----------
    label, value, interval, naive : str
        What it is, and how it is written.
    note : str
        Objection, where there is one.
    """

    label: str
    value: str
    interval: str
    naive: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table of text: heads, rows of cells, and the kind of each column."""

    heads: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Content:
    """Everything that a report shows, computed once.

    Parameters
    ----------
    posterior : Posterior
        What was fitted.
    ci_prob : float
        Probability of the intervals.
    command : str or None
        Command that made the posterior.
    """

    def __init__(self, posterior: Posterior, ci_prob: float, command: str | None) -> None:
        self.posterior = posterior
        self.release = posterior.release
        self.ci_prob = ci_prob
        self.command = command
        self.level = f"{100 * ci_prob:g}%"
        self.histogram = isinstance(self.release, HistogramRelease)
        self.numeric = posterior._support is not None

    @cached_property
    def description(self) -> Description:
        """The release in words."""
        return describe(self.release)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Posterior summary."""
        return self.posterior.summary(self.ci_prob)

    @cached_property
    def verdict(self) -> Verdict:
        """Judgement on the posterior."""
        return self.posterior.verdict()

    @cached_property
    def check(self) -> PredictiveCheck:
        """Posterior predictive check, with draws that depend on the release alone."""
        return check(self.posterior, np.random.default_rng(self.release.digest()))

    @cached_property
    def unit(self) -> str:
        """Unit of the counts of a histogram, or of the values of records."""
        return str(self.release.attrs.get("unit") or "")

    @property
    def value_unit(self) -> str:
        """Unit of the numeric axis, with a space before it."""
        name = "axis_unit" if self.histogram else "unit"
        unit = str(self.release.attrs.get(name) or "")
        return f" {unit}" if unit else ""

    @property
    def count_noun(self) -> str:
        """What is counted."""
        return (self.unit or "records") if self.histogram else "records"

    # -- answers -----------------------------------------------------------------------

    @cached_property
    def figures(self) -> tuple[KeyFigure, ...]:
        """Answers that head the report."""
        found = []
        if self.histogram and self.release.total is None:
            label = f"Total number of {self.count_noun}"
            found.append(self._figure("total", label, whole=True))
        if self.numeric:
            for name, label in (("P.mean", "Mean"), ("P.quantile[0.5]", "Median")):
                found.append(self._figure(name, f"{label} of P, the process", self.value_unit))
        elif self.release.size > 1:
            name = f"probability[{self.largest}]"
            label = f"Largest share of P: {self._named(self.largest)}"
            found.append(self._figure(name, label, share=True))
        return tuple(found)

    @cached_property
    def largest(self) -> str:
        """Cell with the largest posterior mean."""
        means = self.posterior.P.weights.mean(["chain", "draw"]).values
        return cell_names(self.posterior)[int(means.argmax())]

    def _figure(
        self, name: str, label: str, unit: str = "", *, whole: bool = False, share: bool = False
    ) -> KeyFigure:
        row = self.summary.loc[name]
        factor = 100.0 if share else 1.0
        digits = 0 if whole and row["sd"] >= 2 else decimals(factor * row["sd"])
        ends = 0 if whole else digits
        write = percent if share else number
        note = ""
        if name in self.verdict.prior_dominated:
            note = "The release says little about this: the interval mostly repeats the prior."
        return KeyFigure(
            label,
            write(row["mean"], digits) + unit,
            span(row["lower"], row["upper"], ends, share) + unit,
            write(row["naive"], ends) + (unit if np.isfinite(row["naive"]) else ""),
            note,
        )

    @cached_property
    def headline(self) -> str:
        """What was released and the answer, in two or three sentences."""
        said = [f"Published with noise: {_uncapitalised(self.description.released[0])}"]
        total = [f for f in self.figures if f.label.startswith("Total")]
        if total:
            held = f"The data hold about {total[0].value} {self.count_noun} in all"
            said.append(f"{held} ({self.level} interval {total[0].interval}).")
        rest = [f for f in self.figures if f not in total]
        if self.numeric:
            mean, median = rest
            said.append(
                f"In the process behind them (P) the mean is {mean.value} ({self.level} interval "
                f"{mean.interval}) and the median {median.value} ({median.interval})."
            )
        elif self.release.size > 1:
            said.append(
                "The largest share of the process behind them (P) is that of "
                f"{self._named(self.largest)}: "
                f"{rest[0].value} ({self.level} interval {rest[0].interval})."
            )
        return " ".join(said)

    # -- verdict -----------------------------------------------------------------------

    @cached_property
    def status(self) -> Status:
        """Verdict, predictive check and doubts about the description, in one."""
        lines = [
            calculation(self.verdict),
            self._prior_in_words,
            *self.verdict.notes,
            *self._objections,
        ]
        details = self.verdict.problems or (self.verdict.sampling(),)
        if not self.verdict.converged:
            return Status("stop", "Do not use", tuple(lines), details)
        if self.verdict.prior_dominated or self._objections or self.description.doubts:
            return Status("caution", "Use with caution", tuple(lines), details)
        return Status("ok", "OK", tuple(lines), details)

    @property
    def _prior_in_words(self) -> str:
        """Name the quantities that the release says little about."""
        found = self.verdict.prior_dominated
        if not found:
            return "No quantity rests mainly on the prior (what was assumed before the release)."
        words = ", ".join(map(self._in_words, found[:8]))
        more = f" and {len(found) - 8} more" if len(found) > 8 else ""
        return (
            f"The release says little about {words}{more}: their intervals mostly repeat the prior "
            "(what was assumed before the release)."
        )

    def _in_words(self, name: str) -> str:
        """Name of a quantity of the summary, for readers without Python."""
        head, _, rest = name.partition("[")
        label = rest.removesuffix("]")
        if head in ("count", "probability"):
            return f"{'count' if head == 'count' else 'share'} of {self._named(label)}"
        if head == "total":
            return "total"
        whose, _, what = head.partition(".")
        of = "P" if whose == "P" else "the realised data"
        return f"{100 * float(label):g}% quantile of {of}" if label else f"{what} of {of}"

    def _named(self, label: str) -> str:
        """Label of a cell inside a sentence, where a bare number would puzzle."""
        bare = label.replace(",", "").replace(" ", "").isdigit()
        dims = ", ".join(map(str, self.posterior.probability.dims[2:]))
        return f"{dims} {label}" if bare else label

    @property
    def withheld(self) -> bool:
        """Whether some released counts were withheld."""
        return self.histogram and bool(np.isnan(self.release.values.values).any())

    @property
    def check_finds(self) -> str:
        """What the predictive check can find and what it cannot."""
        return check_finds(not self.histogram or self.release.total is not None)

    @cached_property
    def _objections(self) -> list[str]:
        """What the predictive check finds wrong."""
        found = []
        if self.check.p_value < SUSPICIOUS:
            found.append(
                "The released values do not look like values that the fitted model would release "
                f"(p = {self.check.p_value:.3g}): check the mechanism, total, bounds and prior."
            )
        low = self.check.sum_above < SUSPICIOUS / 2
        if low or self.check.sum_below > 1 - SUSPICIOUS / 2:
            side = "smaller" if low else "larger"
            found.append(
                f"The sum of the released values is {side} than the fitted model would release: "
                "the total, the noise or the prior does not fit the data."
            )
        marked = np.flatnonzero(self.check.outside)
        if marked.size:
            where = f"{marked.size} of {self.check.pit.size} cells"
            if self.histogram and marked.size <= 5:
                names = cell_names(self.posterior)
                where = ", ".join(self._named(names[i]) for i in marked)
            found.append(f"Released values that the fitted model does not explain: {where}.")
        return found

    # -- tables ------------------------------------------------------------------------

    @cached_property
    def cells(self) -> Table:
        """Naive and posterior estimates, one row per cell."""
        names = cell_names(self.posterior)
        counts = self.summary.reindex([f"count[{n}]" for n in names])
        shares = self.summary.loc[[f"probability[{n}]" for n in names]]
        columns = [("Cell", "cell", names)]
        columns += self._naive_columns(counts)
        if self.histogram or counts["mean"].notna().any():
            digits = min(decimals(counts["sd"].to_numpy()), 1)
            columns += [
                ("True count", "number strong table", _each(number, counts["mean"], digits)),
                (f"{self.level} interval", "number table", _spans(counts, 0)),
            ]
        digits = decimals(100 * shares["sd"].to_numpy(), 3)
        columns += [
            ("Naive share", "number naive", _each(percent, shares["naive"], digits)),
            ("P", "number strong process", _each(percent, shares["mean"], digits)),
            (f"{self.level} interval", "number process", _spans(shares, digits, share=True)),
            ("Noise", "number bar", _each(percent, shares["noise_share"], 0)),
        ]
        weak = set(self.verdict.prior_dominated)
        flags = [
            "prior" if {a, b} & weak else ""
            for a, b in zip(counts.index, shares.index, strict=True)
        ]
        if any(flags):
            columns.append(("Flag", "flag", flags))
        return _table(columns)

    def _naive_columns(self, counts: pd.DataFrame) -> list[tuple[str, str, Any]]:
        """Values as published, and as counts where a rescaling makes these differ."""
        if not self.histogram:
            return []
        published = self.release.values.values.reshape(-1)
        bounds = self.release.observations().bounds
        digits = 0 if np.all(np.isnan(published) | (published == np.rint(published))) else 1
        shown = []
        for value, low, high in zip(published, bounds.lower, bounds.upper, strict=True):
            mark = "≤ " if np.isinf(low) else "≥ " if np.isinf(high) else ""
            shown.append("withheld" if np.isnan(value) else mark + number(value, digits))
        columns: list[tuple[str, str, Any]] = [("Released", "number naive", shown)]
        naive = naive_counts(self.release).reshape(-1)
        if not np.allclose(naive, published, equal_nan=True):
            columns.append(("Naive count", "number naive", _each(number, counts["naive"], 1)))
        return columns

    @cached_property
    def functionals(self) -> Table | None:
        """Total, mean, standard deviation and quantiles of both estimands."""
        names = [("mean", "Mean"), ("sd", "Standard deviation")]
        quantiles = {0.5: "Median"}
        names += [
            (f"quantile[{q:g}]", quantiles.get(q, f"{100 * q:g}% quantile")) for q in QUANTILES
        ]
        if not self.numeric:
            return None
        rows = [self._total_row()] if self.histogram else []
        for key, label in names:
            process, table = self.summary.loc[f"P.{key}"], self.summary.loc[f"table.{key}"]
            digits = decimals([process["sd"]])
            flag = "prior" if f"P.{key}" in self.verdict.prior_dominated else ""
            rows.append(
                (
                    label,
                    number(process["naive"], digits),
                    number(table["mean"], digits),
                    span(table["lower"], table["upper"], digits),
                    number(process["mean"], digits),
                    span(process["lower"], process["upper"], digits),
                    percent(process["noise_share"], 0),
                    flag,
                )
            )
        heads = (
            "Quantity", "Naive", "Realised data", f"{self.level} interval", "P",
            f"{self.level} interval", "Noise", "Flag",
        )  # fmt: skip
        kinds = (
            "cell", "number naive", "number strong table", "number table",
            "number strong process", "number process", "number bar", "flag",
        )  # fmt: skip
        keep = [i for i in range(len(heads)) if i < 7 or any(row[7] for row in rows)]
        return Table(
            tuple(heads[i] for i in keep),
            tuple(kinds[i] for i in keep),
            tuple(tuple(row[i] for i in keep) for row in rows),
        )

    def _total_row(self) -> tuple[str, ...]:
        row = self.summary.loc["total"]
        label = f"Total ({self.count_noun})"
        naive = number(row["naive"], 0)
        if self.release.total is not None:
            public = number(self.release.total, 0)
            return (label, naive, public, "public", MISSING, MISSING, MISSING, "")
        flag = "prior" if "total" in self.verdict.prior_dominated else ""
        ends = span(row["lower"], row["upper"], 0)
        mean = number(row["mean"], min(decimals(row["sd"]), 1))
        return (label, naive, mean, ends, MISSING, MISSING, MISSING, flag)

    @cached_property
    def within_bin(self) -> str:
        """How far the mean could move if values were not uniform inside bins."""
        if not self.numeric:
            return ""
        mean = self.posterior.P.mean()
        bound = float(mean.attrs["within_bin_bound"])
        if bound == 0:
            return ""
        spread = float(np.nanstd(mean.values))
        return f"{number(bound, decimals([bound, spread]))}{self.value_unit}"

    # -- provenance --------------------------------------------------------------------

    @cached_property
    def provenance(self) -> tuple[tuple[str, str], ...]:
        """How the report was made: pairs of what and how."""
        attrs = dict(self.posterior.attrs)
        sizes = self.posterior.total.sizes
        engine = attrs.get("engine")
        packages = ["numpy", "scipy", "xarray"]
        packages += {"nuts": ["pymc", "nutpie"], "mixture": ["nutpie"]}.get(str(engine), [])
        rows = [
            ("Command", self.command or "posterior.report(...), called from Python"),
            ("Date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
            ("dpbayes", str(attrs.get("dpbayes_version", ""))),
            ("Python", platform.python_version()),
            *((name, _version(name)) for name in packages),
            ("Engine", str(engine)),
            ("Prior", str(attrs.get("prior", ""))),
            ("Seed", str(attrs.get("random_seed", ""))),
            ("Draws", f"{sizes['chain']} × {sizes['draw']:,}"),
            ("Log evidence", _maybe(attrs.get("log_evidence"), 4)),
            ("Largest R-hat", _maybe(attrs.get("max_rhat"), 4)),
            ("Least effective sample size", _maybe(attrs.get("min_ess"), 0)),
            ("Divergences", _maybe(attrs.get("divergences"), 0)),
            ("Digest of the release", f"{self.release.digest():016x}"),
        ]
        return tuple((name, value) for name, value in rows if value)


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]


def _each(write: Any, values: Any, digits: int) -> list[str]:
    return [write(value, digits) for value in values]


def _spans(frame: pd.DataFrame, digits: int, share: bool = False) -> list[str]:
    pairs = zip(frame["lower"], frame["upper"], strict=True)
    return [span(low, high, digits, share) for low, high in pairs]


def _table(columns: list[tuple[str, str, Any]]) -> Table:
    heads, kinds, values = zip(*columns, strict=True)
    return Table(heads, kinds, tuple(zip(*values, strict=True)))


def _maybe(value: Any, digits: int) -> str:
    return "" if value is None else number(float(value), digits)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
