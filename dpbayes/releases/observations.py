"""Released numbers as statements about count + noise, in the form that engines take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dpbayes.errors import ReleaseError, UnsupportedError
from dpbayes.mechanism import Mechanism, Preimage
from dpbayes.noise import NoiseLaw

__all__ = ["Observations", "fit_parameters", "observe"]


@dataclass(frozen=True)
class Observations:
    """Released cells in the form that engines take, flattened in C order.

    Parameters
    ----------
    bounds : Preimage
        Canonical bounds of true count + noise (see `Preimage.bounds`).
    noise : NoiseLaw
        Law of the noise; its parameters are scalars or have one value per cell.
    step : float
        Lattice of count + noise, 0 where it is continuous.
    """

    bounds: Preimage
    noise: NoiseLaw
    step: float

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.bounds.lower.size


def observe(
    values: np.ndarray,
    mechanism: Mechanism,
    label: Callable[[int], str],
    published: np.ndarray | None = None,
) -> Observations:
    """Flatten released counts and find their bounds; impossible ones are an error.

    Cells about which nothing was published may be anything at all.
    """
    if mechanism.noise.is_lattice and mechanism.noise.step > 1.0:
        raise UnsupportedError(
            f"noise on multiples of {mechanism.noise.step:g} does not reach all whole numbers: "
            "added to counts, its step must be one over a whole number (1, 0.5, 0.1, ...)"
        )
    noise = mechanism.noise.with_parameters(lambda p: np.asarray(p).reshape(-1))
    flat = replace(mechanism, noise=noise)
    array = np.asarray(values, float).reshape(-1)
    if published is None or published.all():
        return Observations(flat.integer_bounds(array, label), noise, flat.integer_step())
    known = np.flatnonzero(published)
    found = replace(mechanism, noise=noise.at(known)).integer_bounds(
        array[known], lambda i: label(int(known[i]))
    )
    ends = np.full(array.size, -np.inf), np.full(array.size, np.inf)
    closed = np.zeros(array.size, dtype=bool), np.zeros(array.size, dtype=bool)
    bounds = Preimage(*ends, *closed, np.zeros(array.size))
    for name in ("lower", "upper", "lower_closed", "upper_closed", "log_jacobian"):
        getattr(bounds, name)[known] = getattr(found, name)
    return Observations(bounds, noise, flat.integer_step())


def fit_parameters(noise: NoiseLaw, values: xr.DataArray) -> NoiseLaw:
    """Give every parameter that is an array the shape of the released values."""

    def fit(parameter: Any) -> np.ndarray:
        if isinstance(parameter, xr.DataArray):
            foreign = set(parameter.dims) - set(values.dims)
            if foreign:
                raise ReleaseError(
                    f"a parameter of the noise has dims {parameter.dims}, "
                    f"the release has {values.dims}"
                )
            template = values.reset_coords(drop=True)
            try:
                aligned, _ = xr.align(parameter, template, join="right")
            except ValueError as error:
                raise ReleaseError(f"a parameter of the noise does not fit: {error}") from None
            spread = aligned.broadcast_like(template).transpose(*values.dims).values
            if np.isnan(spread).any():
                raise ReleaseError("a parameter of the noise lacks some labels of the release")
            return spread
        try:
            return np.broadcast_to(parameter, values.shape)
        except ValueError:
            raise ReleaseError(
                f"a parameter of the noise has shape {np.shape(parameter)}, "
                f"the released values have {values.shape}"
            ) from None

    return noise.with_parameters(fit)
