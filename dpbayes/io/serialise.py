"""Mechanisms and releases as plain dictionaries that JSON can hold, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from dpbayes import noise as laws
from dpbayes.errors import ReleaseFileError, UnsupportedError
from dpbayes.io.mechanism_table import STEPS
from dpbayes.io.serialise_cells import KINDS, cells_from_dict, cells_to_dict
from dpbayes.mechanism import Mechanism
from dpbayes.noise import CustomNoise, NoiseLaw
from dpbayes.releases import (
    CellTable,
    HistogramRelease,
    Margin,
    RateRelease,
    RecordRelease,
    SeriesRelease,
)

__all__ = ["mechanism_from_dict", "mechanism_to_dict", "release_from_dict", "release_to_dict"]

_LAWS: dict[str, type[NoiseLaw]] = {
    name: getattr(laws, name) for name in laws.__all__ if name not in ("CustomNoise", "NoiseLaw")
}
_STEP_NAMES = {cls: name for name, (cls, _) in STEPS.items()}


def mechanism_to_dict(mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism as a dictionary that JSON can hold.

    Parameters
    ----------
    mechanism : Mechanism
        Noise and steps.

    Raises
    ------
    UnsupportedError
        If the noise is a `CustomNoise` (its functions cannot be stored) or a step is not
        one of this package.
    """
    noise = mechanism.noise
    name = type(noise).__name__
    if isinstance(noise, CustomNoise) or _LAWS.get(name) is not type(noise):
        raise UnsupportedError(
            f"{name} cannot be stored: its functions are code, not data; "
            "keep the code that makes the release beside the file"
        )
    return {
        "noise": {
            "law": name,
            "parameters": {key: _plain(value) for key, value in noise.parameters.items()},
        },
        "steps": [_step_to_dict(step) for step in mechanism.steps],
    }


def mechanism_from_dict(stored: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism that `mechanism_to_dict` stored.

    Raises
    ------
    ReleaseFileError
        If the dictionary does not describe a mechanism.
    """
    with _Described("mechanism"):
        law = _LAWS[stored["noise"]["law"]]
        parameters = {k: _unplain(v) for k, v in stored["noise"]["parameters"].items()}
        steps = [STEPS[name][0](**raw) for step in stored["steps"] for name, raw in step.items()]
        return Mechanism(law(**parameters), tuple(steps))


def release_to_dict(
    release: HistogramRelease | RecordRelease | RateRelease | CellTable | SeriesRelease,
    *,
    values: bool = True,
) -> dict[str, Any]:
    """Return a release as a dictionary that JSON can hold.

    Parameters
    ----------
    release : HistogramRelease or RecordRelease
        What was published.
    values : bool
        Whether to include the released values; without them `release_from_dict` needs them.

    Raises
    ------
    UnsupportedError
        If the mechanism, a label or an attribute cannot be stored.
    """
    if isinstance(release, RateRelease):
        parts = {"numerator": release.numerator, "denominator": release.denominator}
        whole = {name: release_to_dict(part) for name, part in parts.items()}
        return {"kind": "rate", "single": not release.dims, **whole}
    if isinstance(release, CellTable | SeriesRelease):
        facts = {key: _scalar(value, key) for key, value in (release.attrs or {}).items()}
        stored_cells = cells_to_dict(release, mechanism_to_dict) | {"attrs": facts}
        return stored_cells | ({"values": _plain(np.asarray(release.values))} if values else {})
    common: dict[str, Any] = {
        "mechanism": mechanism_to_dict(release.mechanism),
        "attrs": {key: _scalar(value, key) for key, value in (release.attrs or {}).items()},
    }
    if isinstance(release, RecordRelease):
        records = {
            "kind": "records",
            "bounds": [float(end) for end in release.bounds],
            "support": release.support,
            **common,
        }
        return records | ({"values": _plain(release.values)} if values else {})
    stored: dict[str, Any] = {"kind": "histogram", "total": release.total, **common}
    if values:
        stored["values"] = _plain(release.values.values)
    if release.margins:
        stored["margins"] = [_margin_to_dict(margin) for margin in release.margins]
    if release.repeats:
        stored["repeats"] = [release_to_dict(other) for other in release.repeats]
    if release.samples:
        stored["samples"] = [release_to_dict(other) for other in release.samples]
    if release.edges is not None:
        return stored | {"edges": _plain(release.edges)}
    coords = {
        str(name): {"dims": [str(d) for d in coord.dims], "labels": _labels(coord.values, name)}
        for name, coord in release.values.coords.items()
    }
    return stored | {"dims": [str(d) for d in release.dims], "coords": coords}


def release_from_dict(
    stored: Mapping[str, Any], values: Any = None
) -> HistogramRelease | RecordRelease | RateRelease | CellTable | SeriesRelease:
    """Return the release that `release_to_dict` stored.

    Parameters
    ----------
    stored : mapping
        Dictionary from `release_to_dict`.
    values : array_like, optional
        Released values, where the dictionary was made without them.

    Raises
    ------
    ReleaseFileError
        If the dictionary does not describe a release.
    """
    with _Described("release"):
        if stored["kind"] == "rate":
            parts = [release_from_dict(stored[name]) for name in ("numerator", "denominator")]
            return RateRelease.of(parts[0], parts[1], bool(stored["single"]))
        array = _unplain(stored["values"]) if values is None else np.asarray(values, float)
        if stored["kind"] in KINDS:
            return cells_from_dict(stored, array, stored["attrs"], mechanism_from_dict)
        mechanism = mechanism_from_dict(stored["mechanism"])
        common = {"mechanism": mechanism, "attrs": stored["attrs"]}
        if stored["kind"] == "records":
            return RecordRelease(
                array, bounds=tuple(stored["bounds"]), support=stored["support"], **common
            )
        common["total"] = stored["total"]
        if "edges" in stored:
            release = HistogramRelease(array, edges=_unplain(stored["edges"]), **common)
        else:
            coords = {k: (c["dims"], _unlabels(c["labels"])) for k, c in stored["coords"].items()}
            labelled = xr.DataArray(array, dims=stored["dims"], coords=coords, name="released")
            release = HistogramRelease(labelled, **common)
        for margin in stored.get("margins", ()):
            release = _with_stored_margin(release, margin)
        for kind, join in (("repeats", "with_repeat"), ("samples", "with_sample")):
            for other in stored.get(kind, ()):
                release = getattr(release, join)(release_from_dict(other))
        return release


def _margin_to_dict(margin: Margin) -> dict[str, Any]:
    return {
        "by": list(margin.by),
        "values": _plain(margin.values.values),
        "published": margin.published.tolist(),
        "mechanism": mechanism_to_dict(margin.mechanism),
    }


def _with_stored_margin(release: HistogramRelease, stored: Mapping[str, Any]) -> HistogramRelease:
    values: Any = _unplain(stored["values"])
    if not all(stored["published"]):  # groups left out are told by a mapping
        labels = release.group_labels(stored["by"][0])
        values = {
            label: value
            for label, value, known in zip(labels, values, stored["published"], strict=True)
            if known
        }
    mechanism = mechanism_from_dict(stored["mechanism"])
    return release.with_margin(values, by=tuple(stored["by"]), mechanism=mechanism)


class _Described:
    """Turn failures to read a stored dictionary into one clear error."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, KeyError | TypeError | AttributeError):
            raise ReleaseFileError(
                f"does not describe a {self.what} ({type(error).__name__}: {error})", self.what
            ) from error


def _step_to_dict(step: Any) -> dict[str, Any]:
    name = _STEP_NAMES.get(type(step))
    if name is None:
        raise UnsupportedError(f"the step {step!r} cannot be stored: it is not one of dpbayes")
    return {name: {field: getattr(step, field) for field in STEPS[name][1]}}


def _plain(value: Any) -> Any:
    """Scalar as a float, array as nested lists (NaN as None), a labelled array with labels."""
    if isinstance(value, xr.DataArray):
        coords = {str(k): _labels(c.values, k) for k, c in value.coords.items() if c.dims == (k,)}
        return {"dims": list(value.dims), "coords": coords, "data": _plain(value.values)}
    array = np.asarray(value, dtype=float)
    return np.where(np.isnan(array), np.array(None), array).tolist()


def _unplain(value: Any) -> Any:
    if isinstance(value, Mapping):
        coords = {k: _unlabels(v) for k, v in value["coords"].items()}
        return xr.DataArray(_unplain(value["data"]), dims=value["dims"], coords=coords)
    array = np.array(value, dtype=float)
    return float(array) if array.ndim == 0 else array


def _labels(values: np.ndarray, name: Any) -> dict[str, Any]:
    """Labels of a dim with their type; dates as text."""
    if values.dtype.kind in "mM":
        return {"dtype": values.dtype.str, "data": values.astype("int64").tolist()}
    if values.dtype.kind == "O":
        return {"dtype": "O", "data": [_scalar(v, name) for v in values.tolist()]}
    if values.dtype.kind not in "iufbUT":
        raise UnsupportedError(f"labels of {name!r} of type {values.dtype} cannot be stored")
    dtype = "T" if values.dtype.kind == "T" else values.dtype.str
    return {"dtype": dtype, "data": values.tolist()}


def _unlabels(stored: Mapping[str, Any]) -> np.ndarray:
    if np.dtype(stored["dtype"]).kind in "mM":
        return np.array(stored["data"], dtype="int64").astype(stored["dtype"])
    return np.array(stored["data"], dtype=stored["dtype"])


def _scalar(value: Any, name: Any) -> Any:
    """Return a value that JSON can hold."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is not None and not isinstance(plain, str | int | float | bool):
        raise UnsupportedError(
            f"{name!r} holds {value!r}, which cannot be stored: use text or numbers"
        )
    return plain
