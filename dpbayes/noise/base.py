"""What every noise law shares: named parameters, equality by value, sampling conventions."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbayes.errors import ParameterError, UnsupportedError

__all__ = ["NoiseLaw", "Parameter", "check_level", "elementwise", "positive", "solve_scale"]

#: A scalar, or one value per released cell (an array, or a labelled xarray.DataArray).
Parameter = Any

_NO_NUMBERS = (str, bytes, bool, np.bool_, complex, np.complexfloating)


def positive(name: str, value: Any, *, allow_inf: bool = False) -> Parameter:
    """Check that a parameter is a positive finite number, or an array of such, and freeze it."""
    labelled = hasattr(value, "dims")
    numeric = getattr(value, "dtype", None) is not None and value.dtype.kind in "iuf"
    given = () if numeric else np.asarray(value, dtype=object).ravel()
    # NumPy would read "10", True and 1+2j as numbers.
    if any(isinstance(entry, _NO_NUMBERS) for entry in given):
        raise ParameterError(f"{name} must be a positive number or an array of them, got {value!r}")
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{name} must be a positive number or an array of them, got {value!r}"
        ) from None
    bad = ~(array > 0) | (np.isinf(array) & (not allow_inf))
    if array.size == 0:
        raise ParameterError(f"{name} must not be empty")
    if bad.any():
        where = "" if array.ndim == 0 else f" at index {_first(bad)}"
        raise ParameterError(f"{name} must be positive and finite, got {array[bad].flat[0]}{where}")
    if labelled:
        return value.astype(float)
    if array.ndim == 0:
        return float(array)
    array = array.copy()
    array.flags.writeable = False
    return array


def _first(mask: np.ndarray) -> Any:
    index = tuple(int(i) for i in np.argwhere(mask)[0])
    return index[0] if len(index) == 1 else index


def solve_scale(target: Callable[[float], float], guess: float) -> float:
    """Root of an increasing function of the scale, bracketed outwards from a guess."""
    low = high = float(guess)
    while target(low) > 0:
        low /= 4.0
        if low < 1e-300:
            raise ParameterError("no positive scale fits the stated spread: it is too small")
    while target(high) < 0:
        high *= 4.0
        if high > 1e300:
            raise ParameterError("no finite scale fits the stated spread: it is too large")
    from scipy import optimize  # slow to import, and only needed here

    return float(optimize.brentq(target, low, high, xtol=1e-14 * high, rtol=8.9e-16))


def elementwise(function: Callable[[float], float], value: Parameter) -> Parameter:
    """Apply a scalar function to a parameter, keeping its shape and labels."""
    if np.ndim(value) == 0:
        return function(float(value))
    data = np.vectorize(function, otypes=[float])(np.asarray(value))
    return value.copy(data=data) if hasattr(value, "dims") else data


class NoiseLaw:
    """A known law of additive noise.

    Laws are frozen dataclasses whose fields are given by name. Each field may be an array
    with one value per released cell. `family` is the code under which the kernels know the
    law (None where they do not), `step` the distance of its lattice (0 for a continuous
    law), `scale` the parameter that the kernels take.
    """

    family: ClassVar[int | None] = None
    is_lattice: ClassVar[bool] = False
    step: float = 0.0
    # Fields of some laws and properties of others, hence declared and not defined here.
    scale: Parameter
    sd: Parameter

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse parameters that are not named."""
        if args:
            fields = ", ".join(f"{f.name}=" for f in dataclasses.fields(cls))  # type: ignore[arg-type]
            raise TypeError(
                f"{cls.__name__} takes its parameters by name, {cls.__name__}({fields}): a bare "
                f"number could be a scale, a rate, a standard deviation or an epsilon"
            )
        for name in kwargs:
            if name not in {f.name for f in dataclasses.fields(cls)}:  # type: ignore[arg-type]
                raise TypeError(f"{cls.__name__} has no parameter {name!r}: {_ways(cls, name)}")
        return super().__new__(cls)

    # -- identity ----------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, Any]:
        """Fields by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.parameters, other.parameters
        return all(_same(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash((type(self).__name__, *(_frozen(v) for v in self.parameters.values())))

    @property
    def shape(self) -> tuple[int, ...]:
        """Broadcast shape of the parameters (empty when all are scalars)."""
        return np.broadcast_shapes(*(np.shape(v) for v in self._arrays().values()))

    def _arrays(self) -> dict[str, Any]:
        """Fields that may vary from cell to cell."""
        return {k: v for k, v in self.parameters.items() if not callable(v) and k != "step"}

    def at(self, index: Any) -> Self:
        """Law of the cells `index` of the flattened parameters; scalars stay scalars."""
        if self.shape == ():
            return self
        shape = self.shape
        changed = {
            name: np.broadcast_to(np.asarray(value, float), shape).reshape(-1)[index]
            for name, value in self._arrays().items()
            if np.ndim(value)
        }
        return dataclasses.replace(self, **changed)  # type: ignore[type-var]

    def with_parameters(self, convert: Callable[[Any], Any]) -> Self:
        """Law with `convert` applied to every parameter that is an array."""
        changed = {k: convert(v) for k, v in self._arrays().items() if np.ndim(v)}
        return dataclasses.replace(self, **changed) if changed else self  # type: ignore[type-var]

    # -- what each law defines ---------------------------------------------------------

    def logpdf(self, x: ArrayLike) -> np.ndarray:
        """Log density (log mass on a lattice) at `x`."""
        raise UnsupportedError(f"{type(self).__name__} has no density")

    def log_interval(self, lower: ArrayLike, upper: ArrayLike) -> np.ndarray:
        """Log P(lower < noise <= upper); the ends may be infinite."""
        raise UnsupportedError(f"{type(self).__name__} has no distribution function")

    def ppf(self, q: ArrayLike) -> np.ndarray:
        """Quantile: the least x with P(noise <= x) >= q."""
        raise UnsupportedError(f"{type(self).__name__} has no quantile function")

    def rvs(self, size: Any = None, rng: Any = None) -> np.ndarray:
        """Draw noise; `size` defaults to the shape of the parameters."""
        raise UnsupportedError(f"{type(self).__name__} cannot be sampled")

    # -- what follows from that --------------------------------------------------------

    def logcdf(self, x: ArrayLike) -> np.ndarray:
        """Log P(noise <= x)."""
        return self.log_interval(-np.inf, x)

    def logsf(self, x: ArrayLike) -> np.ndarray:
        """Log P(noise > x)."""
        return self.log_interval(x, np.inf)

    def half_width(self, level: float = 0.95) -> Parameter:
        r"""Half-width h of the central interval: P(\|noise\| <= h) >= `level`."""
        check_level(level)
        return self.ppf(0.5 + 0.5 * level)

    def epsilon(self, *, sensitivity: float) -> Parameter:
        """Pure-DP epsilon that the law gives to a statistic of this sensitivity.

        Raises
        ------
        UnsupportedError
            Where no finite pure epsilon exists (Gaussian and truncated noise).
        """
        raise UnsupportedError(
            f"{type(self).__name__} noise gives no finite pure epsilon; "
            "Gaussian laws have .rho(sensitivity=) and .delta(epsilon=, sensitivity=)"
        )

    def _size(self, size: Any) -> tuple[int, ...]:
        if size is None:
            return self.shape
        return (int(size),) if np.ndim(size) == 0 else tuple(int(s) for s in size)


def _ways(cls: type[NoiseLaw], name: str) -> str:
    """Ways to make a law, those first that take a parameter."""
    ways = {cls.__name__: [f.name for f in dataclasses.fields(cls)]}  # type: ignore[arg-type]
    for method in dir(cls):
        if method.startswith("from_"):
            parameters = inspect.signature(getattr(cls, method)).parameters
            ways[f"{cls.__name__}.{method}"] = [
                p for p in parameters if p not in ("level", "other")
            ]
    fitting = {way: given for way, given in ways.items() if name in given} or ways
    return "use " + " or ".join(
        f"{way}({', '.join(f'{p}=' for p in given)})" for way, given in fitting.items()
    )


def check_level(level: float) -> None:
    """Check that a probability level lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ParameterError(f"level must be between 0 and 1, got {level}")


def _same(a: Any, b: Any) -> bool:
    if callable(a) or callable(b):
        return a is b
    if hasattr(a, "dims") or hasattr(b, "dims"):  # labels are part of the value
        return type(a) is type(b) and a.equals(b)
    return bool(np.array_equal(np.asarray(a), np.asarray(b)))


def _frozen(value: Any) -> Any:
    return value if callable(value) or np.ndim(value) == 0 else np.asarray(value).tobytes()
