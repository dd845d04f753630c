"""Released values in the form that PyMC takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable

from dpbayes.mechanism import as_mechanism

__all__ = ["encode_released"]


def encode_released(values: Any, mechanism: Any, name: str = "values") -> Any:
    """Check released counts and mark suppressed ones by minus infinity.

    PyMC takes NaN in `observed` for a value to be imputed, and ``pm.Data`` refuses it; a
    suppressed cell is neither: it says "below the threshold".

    Parameters
    ----------
    values : array_like or TensorVariable
        Released counts, NaN where suppressed.
    mechanism : Mechanism or NoiseLaw
        How the counts were published.
    name : str
        Name for messages.

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
            _check(values.get_value(), mechanism, name)
        elif isinstance(values, Constant):
            _check(values.data, mechanism, name)
        return values
    array = np.asarray(
        values.filled(np.nan) if isinstance(values, np.ma.MaskedArray) else values, dtype=float
    )
    _check(array, mechanism, name)
    return np.where(np.isnan(array), -np.inf, array)


def _check(array: np.ndarray, mechanism: Any, name: str) -> None:
    """Refuse values that the mechanism cannot have published."""
    array = np.asarray(array, dtype=float)
    array = np.where(array == -np.inf, np.nan, array)

    def label(index: int) -> str:
        where = ", ".join(str(int(i)) for i in np.unravel_index(index, array.shape))
        return f"{name}[{where}]" if array.ndim else name

    mechanism.integer_bounds(array, label)
