"""From an engine's arrays to the labelled groups of a posterior."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from dpbayes.posterior.posterior import Posterior
from dpbayes.releases import CellTable, HistogramRelease
from dpbayes.schema import (
    ATOM,
    ATOM_COUNT,
    ATOM_PROBABILITY,
    BIN,
    CHAIN,
    CONSTANT,
    COUNT,
    DRAW,
    EDGE,
    EDGES,
    FORMAT,
    FORMAT_VERSION,
    LOWER,
    OBSERVED,
    POSTERIOR,
    PRIOR,
    PROBABILITY,
    RELEASED,
    SAMPLE,
    SAMPLE_COUNT,
    SAMPLE_STATS,
    UPPER,
    VALUE,
)
from dpbayes.version import __version__

__all__ = ["assemble"]


def assemble(
    release: Any,
    *,
    posterior: Mapping[str, np.ndarray],
    prior: Mapping[str, np.ndarray],
    attrs: Mapping[str, Any],
    edges: np.ndarray | None = None,
    atoms: np.ndarray | None = None,
    sample_stats: xr.Dataset | None = None,
) -> Posterior:
    """Label an engine's draws.

    Parameters
    ----------
    release : HistogramRelease or RecordRelease
        What was published.
    posterior, prior : mapping of str to ndarray
        Draws with chain and draw axes first, named as in `dpbayes.schema`.
    attrs : mapping
        How the draws were made (engine, seed, ...): numbers and strings.
    edges : ndarray, optional
        Edges of the bins of P for records (a histogram knows its own).
    atoms : ndarray, optional
        Points with mass of their own.
    sample_stats : Dataset, optional
        Statistics of the sampler.
    """
    if isinstance(release, HistogramRelease | CellTable):
        edges = release.edges
    template = _cells(release, edges, atoms)
    groups = {
        POSTERIOR: _labelled(posterior, template, atoms),
        PRIOR: _labelled(prior, template, atoms),
        OBSERVED: _observed(release),
        CONSTANT: xr.Dataset({} if edges is None else {EDGES: (EDGE, edges)}),
    }
    if sample_stats is not None:
        groups[SAMPLE_STATS] = sample_stats
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "dpbayes_version": __version__,
        **attrs,
    }
    return Posterior(tree, release)


def _cells(release: Any, edges: np.ndarray | None, atoms: np.ndarray | None) -> xr.DataArray:
    """Empty array that carries the dims and coords of one draw of `probability`."""
    if isinstance(release, HistogramRelease | CellTable):
        return release.values
    if edges is None:
        assert atoms is not None
        return xr.DataArray(np.zeros(len(atoms)), dims=(VALUE,), coords={VALUE: atoms.astype(int)})
    names = [f"[{a:g}, {b:g})" for a, b in itertools.pairwise(edges)]
    names[-1] = names[-1][:-1] + "]"
    ends = {BIN: names, LOWER: (BIN, edges[:-1]), UPPER: (BIN, edges[1:])}
    return xr.DataArray(np.zeros(len(names)), dims=(BIN,), coords=ends)


def _labelled(
    arrays: Mapping[str, np.ndarray], template: xr.DataArray, atoms: np.ndarray | None
) -> xr.Dataset:
    """Attach chain, draw and cell labels to draws."""
    chains, draws = next(iter(arrays.values())).shape[:2]
    base = {CHAIN: np.arange(chains), DRAW: np.arange(draws)}
    variables = {}
    for name, array in arrays.items():
        if name in (PROBABILITY, COUNT):
            shaped = array.reshape(chains, draws, *template.shape)
            variables[name] = xr.DataArray(
                shaped, dims=(CHAIN, DRAW, *template.dims), coords={**base, **template.coords}
            )
        elif name == SAMPLE_COUNT:
            samples = array.shape[2]
            shaped = array.reshape(chains, draws, samples, *template.shape)
            variables[name] = xr.DataArray(
                shaped,
                dims=(CHAIN, DRAW, SAMPLE, *template.dims),
                coords={**base, SAMPLE: np.arange(1, samples + 1), **template.coords},
            )
        elif name in (ATOM_PROBABILITY, ATOM_COUNT):
            variables[name] = xr.DataArray(
                array, dims=(CHAIN, DRAW, ATOM), coords={**base, ATOM: atoms}
            )
        else:
            variables[name] = xr.DataArray(array, dims=(CHAIN, DRAW), coords=base)
    return xr.Dataset(variables)


def _observed(release: Any) -> xr.Dataset:
    if isinstance(release, HistogramRelease | CellTable):
        return xr.Dataset({RELEASED: release.values})
    return xr.Dataset({RELEASED: ("record", np.asarray(release.values))})
