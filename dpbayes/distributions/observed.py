"""Released values in the form that PyMC takes, and what can be checked before a model runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable

from dpbayes.errors import ImpossibleReleaseError, ParameterError
from dpbayes.mechanism import Mechanism, as_mechanism
from dpbayes.noise import NoNoise

__all__ = ["check_shapes", "encode_released"]


def encode_released(
    values: Any,
    mechanism: Any,
    name: str = "values",
    *,
    whole: bool = True,
    highest: Any = np.inf,
) -> Any:
    """Check released values and mark suppressed ones by minus infinity.

    PyMC takes NaN in `observed` for a value to be imputed, and ``pm.Data`` refuses it; a
    suppressed cell is neither: it says "below the threshold".

    Parameters
    ----------
    values : array_like or TensorVariable
        Released values, NaN where suppressed.
    mechanism : Mechanism or NoiseLaw
        How they were published.
    name : str
        Name for messages.
    whole : bool
        Whether the true values are counts.
    highest : array_like
        Largest possible count.

    Returns
    -------
    numpy.ndarray or TensorVariable
        The values as floats; a tensor is returned as it is, after a check of what it holds.

    Raises
    ------
    ImpossibleReleaseError
        If a value cannot come from the mechanism; names the cell.
    """
    mechanism = as_mechanism(mechanism)
    if isinstance(values, Variable):
        if isinstance(values, SharedVariable):
            _check(values.get_value(), mechanism, name, whole, highest)
        elif isinstance(values, Constant):
            _check(values.data, mechanism, name, whole, highest)
        return values
    array = np.asarray(
        values.filled(np.nan) if isinstance(values, np.ma.MaskedArray) else values, dtype=float
    )
    _check(array, mechanism, name, whole, highest)
    return np.where(np.isnan(array), -np.inf, array)


def _check(array: np.ndarray, mechanism: Mechanism, name: str, whole: bool, highest: Any) -> None:
    """Refuse values that the mechanism cannot have published."""
    array = np.asarray(array, dtype=float)
    array = np.where(array == -np.inf, np.nan, array)

    def label(index: int) -> str:
        where = ", ".join(str(int(i)) for i in np.unravel_index(index, array.shape))
        return f"{name}[{where}]" if array.ndim else name

    if not whole:
        mechanism.interval(array, label)
        return
    found = mechanism.integer_bounds(array, label)
    noise = mechanism.noise
    reach = 0.0 if isinstance(noise, NoNoise) else getattr(noise, "bound", np.inf)
    outside = _out_of_reach(found.lower, found.upper, np.asarray(reach, float), highest)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        value, largest = array.reshape(-1)[first], np.broadcast_to(highest, array.shape)
        limit = largest.reshape(-1)[first]
        counts = "of at least 0" if np.isinf(limit) else f"from 0 to {limit:g}"
        size = np.broadcast_to(reach, array.shape).reshape(-1)[first]
        raise ImpossibleReleaseError(
            f"{label(first)}: {'(suppressed)' if np.isnan(value) else f'{value:.15g}'} cannot come "
            f"from a count {counts} with noise of at most {size:g}: check the mechanism"
        )


def _out_of_reach(
    lower: np.ndarray, upper: np.ndarray, reach: np.ndarray, highest: Any
) -> np.ndarray:
    """Cells that no count within the range of counts can explain."""
    slack = 1e-9 * np.where(np.isinf(reach), 0.0, reach)
    limit = np.asarray(highest, dtype=float)
    return (upper + reach + slack < 0.0) | (lower - reach - slack > limit)


def check_shapes(name: str, shapes: Mapping[str, tuple[Any, ...]], target: Any) -> None:
    """Check that parameters broadcast to the shape of the released values.

    Parameters
    ----------
    name : str
        Name of the variable, for messages.
    shapes : mapping of str to tuple
        Shape of each parameter, None where a length is not known yet.
    target : tuple
        Shape of the released values.

    Raises
    ------
    ParameterError
        If a parameter does not fit; names both shapes.
    """
    for parameter, shape in shapes.items():
        tail = tuple(target)[len(target) - len(shape) :]
        fits = len(shape) <= len(target) and all(
            a in (None, 1, b) for a, b in zip(shape, tail, strict=True)
        )
        if not fits:
            raise ParameterError(
                f"{parameter} must broadcast to the released values of {name}, got shape "
                f"{tuple(shape)} against {tuple(target)}"
            )
