"""Histograms and tables of counts, released with noise."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np

from dpbayes.errors import ReleaseError, nearest_name
from dpbayes.mechanism import Mechanism, as_mechanism
from dpbayes.releases.base import check_attrs, check_total, digest
from dpbayes.releases.frames import (
    as_frame,
    edges_from_columns,
    from_pandas,
    labels,
    numbers,
)
from dpbayes.releases.labelling import (
    check_edges,
    check_names,
    check_size,
    count_array,
    groupings,
    label_table,
    pivot,
)
from dpbayes.releases.margins import Margin, build_margin, codes
from dpbayes.releases.observations import Observations, fit_parameters, observe

__all__ = ["HistogramRelease"]


@dataclass(frozen=True, eq=False)
class HistogramRelease:
    """Counts by cell, each released with noise of a known law.

    The true counts are multinomial given the distribution P where the number of records is
    public, and independent Poisson counts where it is not.

    Parameters
    ----------
    values : array_like, xarray.DataArray, pandas.Series or pandas.DataFrame
        Released counts. NaN or None marks a suppressed cell (the mechanism then needs a
        `Suppress` step). The index of a series and the named axes of a data frame label the
        cells; for one row per cell see `from_frame`.
    mechanism : Mechanism or NoiseLaw
        How the counts were published. Parameters of the noise may vary by cell: an array
        that broadcasts to the shape of `values`, or a DataArray over some of its dims.
    edges : array_like, optional
        Numeric bin edges of a one-dimensional histogram, one more than there are values.
        Without them the distribution has no mean, quantiles or CDF.
    coords : mapping, optional
        Labels of each dim of the table, in the order of the axes: ``{"month": [...]}``.
        Entries of the form ``"region": ("shop", [...])`` group the labels of another dim.
    total : int, optional
        Public number of records n; None where it is unknown.
    attrs : mapping, optional
        Facts for reports: title, unit (of what is counted), axis_unit (of the edges), source,
        neighbours, epsilon, sensitivity.

    Raises
    ------
    ReleaseError
        If values, edges, coords and parameters of the noise do not fit together.
    ImpossibleReleaseError
        If a value cannot come from the mechanism (the message names the cell).

    References
    ----------
    Wasserman & Zhou (2010), section 4, for the setting (they release the histogram of a
    bounded variable); here any table of counts and any known noise.

    Examples
    --------
    >>> import dpbayes as dpb
    >>> law = dpb.DiscreteLaplace(scale=10)
    >>> release = dpb.HistogramRelease([12, -3, 40], mechanism=law, edges=[0, 10, 20, 30])
    >>> release.dims
    ('bin',)
    """

    values: Any
    _: KW_ONLY
    mechanism: Any
    edges: Any = None
    coords: Mapping[str, Any] | None = None
    total: int | None = None
    attrs: Mapping[str, Any] | None = None
    margins: tuple[Margin, ...] = field(default=(), init=False)
    repeats: tuple[HistogramRelease, ...] = field(default=(), init=False)
    samples: tuple[HistogramRelease, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        given = from_pandas(self.values, self.coords, self.edges)
        array = count_array(given)
        edges = None if self.edges is None else check_edges(self.edges, array.shape)
        if edges is not None and self.coords is not None:
            raise ReleaseError("give edges (a numeric axis) or coords (labels), not both")
        labelled = label_table(given, array, edges, self.coords)
        check_names(labelled)
        mechanism = as_mechanism(self.mechanism)
        mechanism = Mechanism(fit_parameters(mechanism.noise, labelled), mechanism.steps)
        settle = {
            "values": labelled,
            "mechanism": mechanism,
            "edges": edges,
            "coords": None,
            "total": check_total(self.total),
            "attrs": check_attrs(self.attrs),
        }
        for name, value in settle.items():
            object.__setattr__(self, name, value)
        check_size(labelled.values, self.label)
        self.observations()  # refuse impossible values now, before any sampling

    # -- ways in -----------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        value: str,
        dims: Sequence[str] | str | None = None,
        groups: Sequence[str] = (),
        edges: Sequence[str] | None = None,
        mechanism: Any,
        coords: Mapping[str, Any] | None = None,
        total: int | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Self:
        """Release from a data frame with one row per cell.

        Parameters
        ----------
        frame : pandas, polars, pyarrow, ... data frame
            Anything that narwhals reads.
        value : str
            Column of released counts.
        dims : list of str, optional
            Columns that label the cells; the table has one axis for each.
        groups : list of str
            Columns that group the labels of a single dim (region and country of a shop),
            for `with_margin`; groups may differ in size.
        edges : pair of str, optional
            Columns of lower and upper bin edges, in place of `dims`.
        mechanism : Mechanism or NoiseLaw
            How the counts were published.
        coords : mapping, optional
            Declared domain of a dim: labels that have no row count as suppressed.
        total, attrs
            As in the constructor.
        """
        table = as_frame(frame)
        if len(table) == 0:
            raise ReleaseError("the data frame has no rows")
        counts = numbers(table, value, "value")
        if (dims is None) == (edges is None):
            raise ReleaseError("give dims (label columns) or edges (two numeric columns)")
        if edges is not None:
            bins = edges_from_columns(table, edges)
            return cls(counts, mechanism=mechanism, edges=bins, total=total, attrs=attrs)
        names = [dims] if isinstance(dims, str) else list(dims or [])
        if not names or len(set(names)) < len(names):
            raise ReleaseError(f"dims must name distinct columns, got {names}")
        columns = [labels(table, name, f"dims[{i}]") for i, name in enumerate(names)]
        for key in coords or {}:
            if key not in names:
                raise ReleaseError(
                    f"coords: {key!r} is none of the dims{nearest_name(key, names)}; "
                    f"dims: {', '.join(names)}"
                )
        domain = {
            name: list((coords or {}).get(name, dict.fromkeys(column)))
            for name, column in zip(names, columns, strict=True)
        }
        grid = pivot(counts, columns, domain)
        named = domain | groupings(table, names, columns, domain, groups)
        return cls(grid, mechanism=mechanism, coords=named, total=total, attrs=attrs)

    def with_margin(self, values: Any, *, by: Sequence[str] | str, mechanism: Any) -> Self:
        """Return the release together with noisy totals that were released on their own.

        Parameters
        ----------
        values : array_like, DataArray or mapping of label to total
            Released totals, one per group; NaN or None where suppressed. A group that a
            mapping leaves out was not released: nothing is known about its total.
        by : str or sequence of str
            Dims of the table that are kept, or non-index coordinates that group the labels
            of a dim (as in xarray's groupby); ``()`` is the grand total.
        mechanism : Mechanism or NoiseLaw
            How the totals were published; their noise is independent of the cells'.

        Raises
        ------
        ReleaseError
            If `by` does not partition the cells, the totals do not match the groups, or the
            margin was given before.

        Examples
        --------
        >>> import dpbayes as dpb
        >>> law = dpb.DiscreteLaplace(scale=10)
        >>> shops = {"shop": ["a", "b", "c"], "region": ("shop", ["north", "north", "south"])}
        >>> release = dpb.HistogramRelease([12, -3, 40], mechanism=law, coords=shops)
        >>> release = release.with_margin({"north": 31, "south": 22}, by="region", mechanism=law)
        >>> [margin.by for margin in release.margins]
        [('region',)]
        """
        margin = build_margin(self.values, values, by, mechanism)
        if any(m.by == margin.by for m in self.margins):
            raise ReleaseError(f"the margin by={margin.by} was given before")
        extended = copy.copy(self)
        object.__setattr__(extended, "margins", (*self.margins, margin))
        return extended

    def with_repeat(self, other: HistogramRelease) -> Self:
        """Return the release together with another one of the same records.

        The same table of true counts was published twice, each time with noise of its own
        (say at two values of epsilon): one table of counts, two likelihoods.

        Parameters
        ----------
        other : HistogramRelease
            Second release, with the same cells in the same order.

        Raises
        ------
        ReleaseError
            If the cells or the public totals differ.
        """
        self._same_cells(other, "two releases of the same data need")
        totals = {total for total in (self.total, other.total) if total is not None}
        if len(totals) > 1:
            raise ReleaseError(f"two releases of the same data state totals {sorted(totals)}")
        extended = copy.copy(self)
        object.__setattr__(extended, "total", totals.pop() if totals else None)
        object.__setattr__(extended, "repeats", (*self.repeats, other))
        return extended

    def with_sample(self, other: HistogramRelease) -> Self:
        """Return the release together with one of other records from the same process.

        The two tables hold different people (say two weeks), drawn from one distribution P:
        each has true counts of its own, and P is learned from both.

        Parameters
        ----------
        other : HistogramRelease
            Release of the other sample, with the same cells in the same order.

        Raises
        ------
        ReleaseError
            If the cells differ, or if either has noisy totals of groups.
        """
        self._same_cells(other, "two samples of one process need")
        for release in (self, other):
            if release.margins or release.repeats or (release.samples and release is other):
                raise ReleaseError(
                    "samples of one process are plain tables: "
                    "margins and repeats are not pooled, leave them out"
                )
        extended = copy.copy(self)
        object.__setattr__(extended, "samples", (*self.samples, other))
        return extended

    def _same_cells(self, other: Any, need: str) -> None:
        """Refuse another release whose cells are not those of this one."""
        if not isinstance(other, HistogramRelease):
            raise ReleaseError(f"{need} two HistogramRelease, got {other!r}")
        mine, theirs = (r.values.copy(data=np.zeros(r.values.shape)) for r in (self, other))
        if not mine.identical(theirs):
            raise ReleaseError(
                f"{need} the same cells in the same order, got {_shape(self)} and {_shape(other)}"
            )

    # -- what engines and reports read -------------------------------------------------

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes."""
        return self.values.dims

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.values.size

    def label(self, index: int) -> str:
        """Name of the cell at a flat index, for messages and tables."""
        return f"cell {self.short_label(index)}"

    def short_label(self, index: int) -> str:
        """Labels of the cell at a flat index, joined."""
        where = np.unravel_index(index, self.values.shape)
        parts = [
            str(self.values[dim].values[i]) if dim in self.values.coords else str(i)
            for dim, i in zip(self.dims, where, strict=True)
        ]
        return ", ".join(parts)

    def observations(self) -> Observations:
        """Cells as bounds of count + noise, flattened in C order."""
        return observe(self.values.values, self.mechanism, self.label)

    def group_labels(self, name: str) -> list[Any]:
        """Labels of a dim or grouping coordinate, in the order of its groups."""
        return codes(self.values, name)[1]

    def margin(self, by: Sequence[str] | str) -> Margin:
        """Return the noisy totals that were released by these dims or groupings."""
        names = (by,) if isinstance(by, str) else tuple(by)
        for margin in self.margins:
            if margin.by == names:
                return margin
        known = ", ".join(str(m.by) for m in self.margins) or "none"
        raise ReleaseError(f"no margin by={names}; released margins: {known}")

    def digest(self) -> int:
        """Whole number that depends on all of the release."""
        named = [
            (str(name), coord.dims, coord.values.tolist())
            for name, coord in sorted(self.values.coords.items(), key=lambda item: str(item[0]))
        ]
        edges = None if self.edges is None else self.edges.tolist()
        facts = (self.total, dict(self.values.sizes), named, edges)
        extra = (
            digest(m.name, m.values.values, m.mechanism, m.published.tolist()) for m in self.margins
        )
        again = [other.digest() for other in self.repeats]
        again += [other.digest() + 1 for other in self.samples]
        return digest("histogram", self.values.values, self.mechanism, *facts, *extra, *again)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HistogramRelease):
            return NotImplemented
        return (
            self.values.identical(other.values)
            and self.mechanism == other.mechanism
            and np.array_equal(
                [] if self.edges is None else self.edges,
                [] if other.edges is None else other.edges,
            )
            and self.total == other.total
            and self.margins == other.margins
            and self.repeats == other.repeats
            and self.samples == other.samples
            and self.attrs == other.attrs
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{d}: {n}" for d, n in self.values.sizes.items())
        total = "unknown total" if self.total is None else f"public total {self.total}"
        margins = "".join(f", noisy {m.name}" for m in self.margins)
        margins += f", released {1 + len(self.repeats)} times" if self.repeats else ""
        margins += f", pooled with {len(self.samples)} more" if self.samples else ""
        return f"<HistogramRelease ({sizes}), {total}{margins}, {self.mechanism!r}>"


def _shape(release: HistogramRelease) -> str:
    return "(" + ", ".join(f"{d}: {n}" for d, n in release.values.sizes.items()) + ")"
