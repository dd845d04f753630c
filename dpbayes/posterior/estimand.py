"""Functionals of a distribution on the line, one value per posterior draw."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from dpbayes.errors import DomainError, ParameterError
from dpbayes.schema import CHAIN, DRAW

__all__ = ["Estimand", "Support"]

# Nodes per bin for expectations of arbitrary functions.
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)


class Support:
    """Where a distribution puts its mass: bins with a uniform law inside, and points.

    Parameters
    ----------
    edges : ndarray or None
        Increasing bin edges; None where there are no bins.
    atoms : ndarray
        Points that carry mass of their own.
    """

    def __init__(self, edges: np.ndarray | None, atoms: np.ndarray | None = None) -> None:
        bins = np.empty((0, 2)) if edges is None else np.stack([edges[:-1], edges[1:]], axis=1)
        points = np.asarray([] if atoms is None else atoms, dtype=float)
        self.bins = bins.shape[0]
        ends = np.concatenate([bins, np.stack([points, points], axis=1)])
        pieces, self.source, self.share = _cut_at_atoms(ends, points)
        # A point sorts before the bin that starts at it and after the bin that ends at it.
        order = np.lexsort((pieces[:, 1], pieces[:, 0]))
        self.lower, self.upper = pieces[order].T
        self.source, self.share = self.source[order], self.share[order]
        self.width = self.upper - self.lower
        self.middle = 0.5 * (self.lower + self.upper)

    def spread(self, weights: np.ndarray) -> np.ndarray:
        """Weights of the sorted pieces, from those of bins followed by atoms."""
        return weights[..., self.source] * self.share


def _cut_at_atoms(
    ends: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split bins at atoms inside them, so that pieces can be put in order."""
    pieces, source, share = [], [], []
    for index, (low, high) in enumerate(ends):
        inner = np.unique(points[(points > low) & (points < high)])
        cuts = np.concatenate([[low], inner, [high]])
        for a, b in itertools.pairwise(cuts):
            pieces.append((a, b))
            source.append(index)
            share.append((b - a) / (high - low) if high > low else 1.0)
    return np.array(pieces, dtype=float).reshape(-1, 2), np.array(source, int), np.array(share)


class Estimand:
    """One of the two distributions that a release speaks of, draw by draw.

    ``posterior.P`` is the distribution from which the records came (the process),
    ``posterior.table`` the distribution of the records in this data set (the realised table).

    Every method returns draws: a DataArray over chain and draw. The law inside a bin is
    taken as uniform; the attribute ``within_bin_bound`` of the result says by how much the
    value could move at most, on average over draws, if it is not.

    Parameters
    ----------
    name : str
        "P" or "table".
    weights : DataArray
        Mass of bins, then atoms, over chain, draw and one last dim; each draw sums to 1.
    support : Support or None
        Where the mass lies; None where the release has no numeric axis.
    """

    def __init__(self, name: str, weights: xr.DataArray, support: Support | None) -> None:
        self.name = name
        self.weights = weights
        self._support = support

    def _pieces(self, what: str) -> tuple[Support, np.ndarray]:
        if self._support is None:
            raise DomainError(
                f"{what} needs a numeric axis: give HistogramRelease(edges=[...]), one more "
                "edge than there are cells (or a one-dimensional release)"
            )
        return self._support, self._support.spread(self.weights.values)

    def _draws(self, values: np.ndarray, what: str, bound: Any, **extra: Any) -> xr.DataArray:
        # Without labels on chain and draw, arithmetic between posteriors with unequal numbers
        # of draws is an error; with labels xarray would quietly keep the common ones.
        dims = [CHAIN, DRAW, *extra]
        known = np.asarray(bound)[~np.isnan(bound)]
        attrs = {
            "estimand": self.name,
            "within_bin_bound": float(known.mean()) if known.size else np.nan,
        }
        return xr.DataArray(values, dims=dims, coords=extra, name=what, attrs=attrs)

    def mean(self) -> xr.DataArray:
        """Mean ∫ x dP(x)."""
        support, w = self._pieces("mean")
        return self._draws(w @ support.middle, "mean", w @ support.width / 2.0)

    def variance(self) -> xr.DataArray:
        """Variance ∫ (x - mean)² dP(x)."""
        support, w = self._pieces("variance")
        centre = (w @ support.middle)[..., None]
        distance = support.middle - centre
        within = support.width**2
        values = np.sum(w * (distance**2 + within / 12.0), axis=-1)
        bound = np.sum(w * (support.width * np.abs(distance) + within / 4.0), axis=-1)
        return self._draws(values, "variance", bound)

    def cdf(self, x: Any) -> xr.DataArray:
        """Distribution function P(X <= x), at a number or an array of them (dim ``x``)."""
        support, w = self._pieces("cdf")
        at = np.atleast_1d(np.asarray(x, dtype=float))
        if at.ndim != 1 or not np.all(np.isfinite(at)):
            raise ParameterError(f"x must be a finite number or a list of them, got {x!r}")
        safe = np.where(support.width > 0, support.width, 1.0)
        inside = (at[:, None] - support.lower) / safe
        share = np.where(support.width > 0, np.clip(inside, 0.0, 1.0), at[:, None] >= support.lower)
        cut = (share > 0) & (share < 1)  # the bin that holds x: its mass is the doubt
        result = self._draws(w @ share.T, "cdf", w @ cut.T, x=at)
        return result if np.ndim(x) else result.isel(x=0)

    def quantile(self, q: Any) -> xr.DataArray:
        """Quantile, the least x with P(X <= x) >= q, for q in [0, 1] (dim ``quantile``)."""
        support, w = self._pieces("quantile")
        level = np.atleast_1d(np.asarray(q, dtype=float))
        if level.ndim != 1 or not np.all((level >= 0) & (level <= 1)):
            raise ParameterError(f"q must be a number in [0, 1] or a list of them, got {q!r}")
        cumulative = np.cumsum(w, axis=-1)
        cumulative /= cumulative[..., -1:]
        values = np.empty((*w.shape[:-1], level.size))
        bound = np.empty_like(values)
        for i, p in enumerate(level):
            # The first piece with mass that reaches the level.
            index = np.argmax((cumulative >= p - 1e-12) & (w > 0), axis=-1)[..., None]
            reached = np.take_along_axis(cumulative, index, -1)[..., 0]
            mass = np.take_along_axis(w, index, -1)[..., 0]
            width, index = support.width[index[..., 0]], index[..., 0]
            with np.errstate(invalid="ignore", divide="ignore"):
                part = np.clip(1.0 - (reached - p) / mass, 0.0, 1.0)
            values[..., i] = np.where(
                np.isnan(reached), np.nan, support.lower[index] + part * width
            )
            bound[..., i] = width
        result = self._draws(values, "quantile", bound, quantile=level)
        return result if np.ndim(q) else result.isel(quantile=0)

    def density(self, x: Any) -> xr.DataArray:
        """Density at x (dim ``x``), the mass of the bin over its width; atoms have none."""
        support, w = self._pieces("density")
        at = np.atleast_1d(np.asarray(x, dtype=float))
        if at.ndim != 1 or not np.all(np.isfinite(at)):
            raise ParameterError(f"x must be a finite number or a list of them, got {x!r}")
        last = support.upper == support.upper.max()
        inside = (at[:, None] >= support.lower) & (
            (at[:, None] < support.upper) | (last & (at[:, None] == support.upper))
        )
        safe = np.where(support.width > 0, support.width, np.inf)
        values = w @ (inside / safe).T
        result = self._draws(values, "density", values, x=at)
        return result if np.ndim(x) else result.isel(x=0)

    def expect(self, func: Callable[[np.ndarray], Any]) -> xr.DataArray:
        """Integrate func(x) dP(x), by 8-point Gauss-Legendre quadrature in each bin.

        Parameters
        ----------
        func : callable
            Vectorised function of x.
        """
        support, w = self._pieces("expect")
        # The ends of the bins count for the bound only.
        places = np.concatenate([[-1.0], _NODES, [1.0]])
        nodes = support.middle[:, None] + 0.5 * support.width[:, None] * places
        with np.errstate(all="ignore"):
            values = np.asarray(func(nodes), dtype=float)
        if values.shape != nodes.shape:
            values = np.broadcast_to(values, nodes.shape)
        average = values[:, 1:-1] @ (0.5 * _NODE_WEIGHTS)
        bound = w @ (values.max(axis=1) - values.min(axis=1))
        return self._draws(w @ average, "expect", bound)
