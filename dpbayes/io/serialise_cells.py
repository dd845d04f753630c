"""Responses, synthetic rows and selections as dictionaries that JSON can hold, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from dpbayes.errors import UnsupportedError
from dpbayes.releases import (
    CellTable,
    DirichletSampling,
    PerturbedSampling,
    QuantileLoss,
    ResponseRelease,
    SelectionRelease,
    SeriesRelease,
    Smoothing,
    SyntheticRelease,
    WinnerLoss,
)

__all__ = ["KINDS", "cells_from_dict", "cells_to_dict"]

KINDS = ("responses", "synthetic", "selection", "series")
_Convert = Callable[[Any], Any]


def cells_to_dict(release: CellTable | SeriesRelease, to_mechanism: _Convert) -> dict[str, Any]:
    """Return what is needed to make the release again, but for values and attributes.

    Parameters
    ----------
    release : CellTable or SeriesRelease
        The release.
    to_mechanism : callable
        Turns a mechanism into a dictionary.

    Raises
    ------
    UnsupportedError
        If the loss of a selection is code of the user's.
    """
    if isinstance(release, SeriesRelease):
        return {
            "kind": "series", "total": release.total, "bounds": [list(b) for b in release.bounds],
            "mechanism": to_mechanism(release.mechanism),
        }  # fmt: skip
    if isinstance(release, ResponseRelease):
        matrix = None if release.matrix is None else release.matrix.tolist()
        epsilon = release.epsilon if matrix is None else None
        return {
            "kind": "responses", "categories": list(release.categories), "epsilon": epsilon,
            "matrix": matrix,
        }  # fmt: skip
    if isinstance(release, SyntheticRelease):
        sampling = _sampling_to_dict(release.sampling, to_mechanism)
        return {"kind": "synthetic", "total": release.total, "sampling": sampling} | _named(release)
    assert isinstance(release, SelectionRelease)
    if isinstance(release.loss, WinnerLoss):
        loss: dict[str, Any] = {"winner": True}
    elif isinstance(release.loss, QuantileLoss):
        loss = {"quantile": release.loss.q}
    else:
        raise UnsupportedError(
            f"the loss {release.loss!r} cannot be stored: it is code, not data; "
            "keep the code that makes the release beside the file"
        )
    return {
        "kind": "selection", "value": release.chosen, "outcomes": list(release.outcomes),
        "loss": loss, "alpha": release.alpha, "sensitivity": release.sensitivity,
        "total": release.total,
    } | _named(release)  # fmt: skip


def cells_from_dict(
    stored: Mapping[str, Any], values: np.ndarray, attrs: Any, from_mechanism: _Convert
) -> CellTable | SeriesRelease:
    """Return the release that `cells_to_dict` stored.

    Parameters
    ----------
    stored : mapping
        Dictionary from `cells_to_dict`.
    values : ndarray
        Released values by cell.
    attrs : mapping
        Attributes.
    from_mechanism : callable
        Turns a dictionary into a mechanism.
    """
    if stored["kind"] == "series":
        return SeriesRelease(
            values, mechanism=from_mechanism(stored["mechanism"]), total=stored["total"],
            bounds=stored["bounds"], attrs=attrs,
        )  # fmt: skip
    if stored["kind"] == "responses":
        labels = stored["categories"]
        return ResponseRelease(
            dict(zip(labels, values.tolist(), strict=True)), categories=labels,
            epsilon=stored["epsilon"], matrix=stored["matrix"], attrs=attrs,
        )  # fmt: skip
    edges, dims = stored["edges"], stored["dims"]
    coords = {k: (c["dims"], c["labels"]) for k, c in (stored["coords"] or {}).items()}
    if stored["kind"] == "synthetic":
        table = values if edges is not None else xr.DataArray(values, dims=dims, coords=coords)
        return SyntheticRelease(
            table, sampling=_sampling_from_dict(stored["sampling"], from_mechanism),
            total=stored["total"], edges=edges, attrs=attrs,
        )  # fmt: skip
    loss = WinnerLoss() if "winner" in stored["loss"] else QuantileLoss(stored["loss"]["quantile"])
    cells = None
    if edges is None and dims[0] != "outcome":
        cells = coords[dims[0]][1] if dims[0] in coords else int(values.size)
    outcomes = stored["outcomes"]
    return SelectionRelease(
        outcomes[stored["value"]], outcomes=outcomes, loss=loss, alpha=stored["alpha"],
        sensitivity=stored["sensitivity"], total=stored["total"], cells=cells, edges=edges,
        attrs=attrs,
    )  # fmt: skip


def _named(release: CellTable) -> dict[str, Any]:
    """Names of the cells: edges, or dims and coords."""
    if release.edges is not None:
        return {"edges": release.edges.tolist(), "dims": None, "coords": None}
    coords = {
        str(name): {"dims": [str(d) for d in coord.dims], "labels": coord.values.tolist()}
        for name, coord in release.values.coords.items()
    }
    return {"edges": None, "dims": list(release.dims), "coords": coords}


def _sampling_to_dict(sampling: Any, to_mechanism: _Convert) -> dict[str, Any]:
    if isinstance(sampling, Smoothing):
        return {"delta": sampling.delta}
    if isinstance(sampling, DirichletSampling):
        return {"concentration": np.asarray(sampling.concentration).tolist()}
    return {"mechanism": to_mechanism(sampling.mechanism)}


def _sampling_from_dict(stored: Mapping[str, Any], from_mechanism: _Convert) -> Any:
    if "delta" in stored:
        return Smoothing(delta=stored["delta"])
    if "concentration" in stored:
        return DirichletSampling(concentration=stored["concentration"])
    return PerturbedSampling(mechanism=from_mechanism(stored["mechanism"]))
