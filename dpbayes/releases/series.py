"""Coefficients of an orthogonal series, released with noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from dpbayes.errors import ReleaseError
from dpbayes.mechanism import as_mechanism
from dpbayes.releases.base import check_attrs, check_total, digest

__all__ = ["SeriesRelease", "cosine_amplitudes", "cosine_basis"]


def cosine_basis(x: np.ndarray, order: int) -> np.ndarray:
    """Cosine basis of [0, 1]^r at points, without the constant.

    ψ_j(x) = √2 cos(π j x) in one dimension; in two, products of ψ_j and ψ_k, j, k = 0, ...,
    order and not both 0, with ψ_0 = 1; the second index is the faster.

    Parameters
    ----------
    x : ndarray, shape (n,) or (n, r)
        Points in [0, 1]^r, r = 1 or 2.
    order : int
        Largest frequency.

    Returns
    -------
    ndarray, shape (n, order) or (n, (order + 1)² - 1)
    """
    points = np.asarray(x, float)
    points = points[:, None] if points.ndim == 1 else points
    waves = np.sqrt(2.0) * np.cos(np.pi * points[..., None] * np.arange(1, order + 1))
    if points.shape[1] == 1:
        return waves[:, 0]
    ones = np.ones((points.shape[0], 2, 1))
    full = np.concatenate([ones, waves], axis=-1)
    return np.einsum("nj,nk->njk", full[:, 0], full[:, 1]).reshape(points.shape[0], -1)[:, 1:]


def cosine_amplitudes(order: int, dimension: int) -> np.ndarray:
    """Largest absolute value of each function of the cosine basis.

    Parameters
    ----------
    order : int
        Largest frequency.
    dimension : {1, 2}
        Dimension r.
    """
    one = np.append(1.0, np.full(order, np.sqrt(2.0)))
    return one[1:] if dimension == 1 else np.outer(one, one).reshape(-1)[1:]


@dataclass(frozen=True, eq=False)
class SeriesRelease:
    """Noisy means of cosines, β̂_j = mean of ψ_j(X_i) + noise.

    Parameters
    ----------
    values : array_like
        Released coefficients, in the order of `cosine_basis`.
    mechanism : Mechanism or NoiseLaw
        How each coefficient was perturbed.
    total : int
        Public number of records n.
    bounds : sequence of pairs
        Bounds (lo, hi) of each coordinate, r = 1 or 2 of them; records are rescaled to
        [0, 1].
    attrs : mapping, optional
        Facts for reports: title, unit, source, neighbours, epsilon, sensitivity.

    Raises
    ------
    ReleaseError
        If the number of coefficients does not fit the dimension.

    References
    ----------
    Wasserman & Zhou (2010), section 6, orthogonal series.
    """

    values: Any
    _: KW_ONLY
    mechanism: Any
    total: int
    bounds: Any = ((0.0, 1.0),)
    attrs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=float)
        if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)):
            raise ReleaseError("values must be finite coefficients, one-dimensional and not empty")
        bounds = tuple((float(low), float(high)) for low, high in self.bounds)
        if len(bounds) not in (1, 2) or any(not low < high for low, high in bounds):
            raise ReleaseError(f"bounds must be one or two pairs (lo, hi), got {self.bounds!r}")
        total = check_total(self.total)
        if not total:
            raise ReleaseError(f"total must be the public number of records, got {self.total!r}")
        if len(bounds) == 2 and round(np.sqrt(values.size + 1)) ** 2 != values.size + 1:
            raise ReleaseError(
                f"a series in two dimensions has (order + 1)² - 1 coefficients, got {values.size}"
            )
        values.flags.writeable = False
        settle = {
            "values": values, "mechanism": as_mechanism(self.mechanism), "total": total,
            "bounds": bounds, "attrs": check_attrs(self.attrs),
        }  # fmt: skip
        for name, value in settle.items():
            object.__setattr__(self, name, value)

    @property
    def dimension(self) -> int:
        """Dimension r of the records."""
        return len(self.bounds)

    @property
    def order(self) -> int:
        """Largest frequency."""
        size = self.values.size
        return size if self.dimension == 1 else round(np.sqrt(size + 1)) - 1

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return int(self.values.size)

    def density(self, x: Any) -> np.ndarray:
        """Naive density 1 + Σ β̂_j ψ_j at points of the unit cube; it may be negative."""
        return 1.0 + cosine_basis(np.asarray(x, float), self.order) @ self.values

    def replicate(self, probability: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw fresh records from P over equal cells (r = 1), and from them the coefficients."""
        cells = probability.size
        counts = rng.multinomial(self.total, probability / probability.sum())
        points = (np.repeat(np.arange(cells), counts) + rng.random(self.total)) / cells
        return self.mechanism.sample(cosine_basis(points, self.order).mean(axis=0), rng)

    def digest(self) -> int:
        """Whole number that depends on all of the release."""
        return digest("series", self.values, self.mechanism, self.total, self.bounds)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SeriesRelease):
            return NotImplemented
        return (
            np.array_equal(self.values, other.values)
            and (self.mechanism, self.total) == (other.mechanism, other.total)
            and (self.bounds, self.attrs) == (other.bounds, other.attrs)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"<SeriesRelease ({self.size} cosine coefficients of {self.total} records, "
            f"r = {self.dimension}), {self.mechanism!r}>"
        )
