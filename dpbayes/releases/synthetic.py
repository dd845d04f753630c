"""Synthetic rows drawn from a private histogram, and the laws that drew them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from dpbayes.errors import ReleaseError
from dpbayes.mechanism import Mechanism, as_mechanism
from dpbayes.noise import NoNoise
from dpbayes.noise.base import positive
from dpbayes.releases.base import check_attrs, check_total, digest
from dpbayes.releases.cells import CellTable, check_number, labelled_cells, whole_counts

__all__ = ["DirichletSampling", "PerturbedSampling", "Smoothing", "SyntheticRelease"]


@dataclass(frozen=True, kw_only=True)
class Smoothing:
    """Rows drawn independently from (1 - δ) × the true shares of cells + δ × uniform.

    Parameters
    ----------
    delta : float
        Share δ of the uniform law, in (0, 1].

    References
    ----------
    Wasserman & Zhou (2010), section 4, equation (17).
    """

    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_number("delta", self.delta, 0.0, 1.0))

    def sample(self, counts: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows, counted by cell."""
        flat = np.asarray(counts, float).reshape(-1)
        p = (1.0 - self.delta) * flat / flat.sum() + self.delta / flat.size
        return rng.multinomial(draws, p / p.sum()).reshape(np.shape(counts))


@dataclass(frozen=True, kw_only=True)
class DirichletSampling:
    """Rows drawn from one draw of Dirichlet(concentration + true counts).

    Parameters
    ----------
    concentration : float or array
        Pseudo-counts a_j (> 0) of the cells; a scalar holds for all.

    References
    ----------
    Machanavajjhala, Kifer, Abowd, Gehrke & Vilhuber (2008), Privacy: theory meets practice on
    the map, section 3.
    """

    concentration: Any

    def __post_init__(self) -> None:
        value = positive("concentration", self.concentration)
        if np.ndim(value):
            value = tuple(np.asarray(value, float).reshape(-1).tolist())
        object.__setattr__(self, "concentration", value)

    def shapes(self, size: int) -> np.ndarray:
        """Pseudo-count of each of `size` cells."""
        array = np.asarray(self.concentration, float)
        if array.ndim and array.size != size:
            raise ReleaseError(
                f"concentration must have one entry per cell ({size}), got {array.size}"
            )
        return np.broadcast_to(array, (size,))

    def sample(self, counts: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows, counted by cell."""
        flat = np.asarray(counts, float).reshape(-1)
        q = rng.dirichlet(self.shapes(flat.size) + flat)
        return rng.multinomial(draws, q).reshape(np.shape(counts))


@dataclass(frozen=True, kw_only=True)
class PerturbedSampling:
    """Rows drawn from q ∝ max(noisy count, 0), the perturbed histogram.

    Where all noisy counts are at most 0, q is uniform.

    Parameters
    ----------
    mechanism : Mechanism or NoiseLaw
        How the counts were perturbed before they were clamped at 0 and normalised.

    References
    ----------
    Wasserman & Zhou (2010), section 4, perturbed histogram; Lemma 2.6 (2) for the rows.
    """

    mechanism: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "mechanism", as_mechanism(self.mechanism))

    def proportions(self, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw the clamped, normalised histogram."""
        noisy = np.maximum(self.mechanism.sample(np.asarray(counts, float), rng), 0.0)
        total = noisy.sum()
        return noisy / total if total > 0 else np.full(noisy.shape, 1.0 / noisy.size)

    def sample(self, counts: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows, counted by cell."""
        q = self.proportions(counts, rng)
        return rng.multinomial(draws, q.reshape(-1)).reshape(np.shape(counts))


_LAWS = (Smoothing, DirichletSampling, PerturbedSampling)


@dataclass(frozen=True, eq=False)
class SyntheticRelease(CellTable):
    """Synthetic rows, counted by cell, that were drawn from a private histogram of n records.

    The rows are no data: however many there are, they know no more than the histogram from
    which they came. They are analysed through the whole chain, P to true counts to private
    histogram to rows.

    Parameters
    ----------
    values : array_like or DataArray
        Number of synthetic rows in each cell.
    sampling : Smoothing, DirichletSampling or PerturbedSampling
        How the rows were drawn.
    total : int
        Public number of true records n.
    edges : array_like, optional
        Numeric bin edges of a one-dimensional table.
    coords : mapping, optional
        Labels of each dim of the table.
    attrs : mapping, optional
        Facts for reports: title, unit, source, neighbours, epsilon, sensitivity.

    Raises
    ------
    ReleaseError
        If values are not whole counts, or the sampling law does not fit the cells.
    """

    values: Any
    _: KW_ONLY
    sampling: Any
    total: int
    edges: Any = None
    coords: Mapping[str, Any] | None = None
    attrs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        labelled, edges = labelled_cells(self.values, self.edges, self.coords)
        whole_counts(labelled)
        if not isinstance(self.sampling, _LAWS):
            names = ", ".join(law.__name__ for law in _LAWS)
            raise ReleaseError(f"sampling must be one of {names}, got {self.sampling!r}")
        if isinstance(self.sampling, DirichletSampling):
            self.sampling.shapes(labelled.size)
        total = check_total(self.total)
        if total is None:
            raise ReleaseError("total must be the public number of true records, got None")
        settle = {
            "values": labelled, "edges": edges, "coords": None, "total": total,
            "attrs": check_attrs(self.attrs),
        }  # fmt: skip
        for name, value in settle.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_rows(cls, rows: Any, *, edges: Any, sampling: Any, total: int, **other: Any) -> Self:
        """Count numeric synthetic rows by bin.

        Parameters
        ----------
        rows : array_like
            Synthetic rows, one number each, within the edges.
        edges : array_like
            Edges of the bins of the private histogram.
        sampling, total, **other
            As in the constructor.
        """
        array, bins = np.asarray(rows, float).reshape(-1), np.asarray(edges, float)
        outside = ~((array >= bins[0]) & (array <= bins[-1]))
        if outside.any():
            raise ReleaseError(f"rows must lie within the edges, got {array[outside][0]:g}")
        counts = np.histogram(array, bins)[0]
        return cls(counts, sampling=sampling, total=total, edges=bins, **other)

    @property
    def mechanism(self) -> Mechanism:
        """Noise on the counts before rows were drawn, if that is what happened."""
        if isinstance(self.sampling, PerturbedSampling):
            return self.sampling.mechanism
        return Mechanism(NoNoise())

    @property
    def rows(self) -> int:
        """Number of synthetic rows k."""
        return int(self.values.sum())

    def naive_counts(self) -> np.ndarray:
        """Return the true counts if the rows were the data: their shares times n."""
        rows = self.values.values
        return rows * (self.total / rows.sum()) if rows.sum() else np.full(rows.shape, np.nan)

    def replicate(self, probability: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw records from P and synthetic rows from their private histogram."""
        counts = rng.multinomial(self.total, probability / probability.sum())
        return self.sampling.sample(counts, self.rows, rng)

    def digest(self) -> int:
        """Whole number that depends on all of the release."""
        facts = (repr(self.sampling), self.total, *self.cell_facts())
        return digest("synthetic", self.values.values, self.mechanism, *facts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SyntheticRelease):
            return NotImplemented
        return (
            self.values.identical(other.values)
            and (self.sampling, self.total) == (other.sampling, other.total)
            and self.cell_facts() == other.cell_facts()
            and self.attrs == other.attrs
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"<SyntheticRelease ({self.rows} rows in {self.size} cells, of {self.total} records), "
            f"{self.sampling!r}>"
        )
