"""The table ``[mechanism]`` of a release file: noise, its size, and the steps after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpbayes.errors import DPBayesError, ReleaseFileError, nearest_name
from dpbayes.io.data_file import DataFile
from dpbayes.io.fields import (
    Field,
    boolean,
    join,
    list_of,
    number,
    one_of,
    read_fields,
    shown,
    table,
    text,
)
from dpbayes.mechanism import Clamp, Mechanism, Rescale, Round, Step, Suppress
from dpbayes.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoiseLaw,
    NoNoise,
    TruncatedDiscreteLaplace,
    TruncatedLaplace,
)

__all__ = [
    "LAWS",
    "NEIGHBOURS",
    "STEPS",
    "SUPPRESS",
    "Law",
    "MechanismTable",
    "Way",
    "check_mechanism",
]

NEIGHBOURS = ("replace-one", "add-remove")

#: Suffix of a key that names a column with one value per cell.
COLUMN = "_column"


@dataclass(frozen=True)
class Way:
    """One way of saying how large the noise is.

    Parameters
    ----------
    keys : tuple of str
        Parameters that must be given together.
    constructor : str, optional
        Name of the class method that takes them; None for the class itself.
    optional : tuple of str
        Parameters that may be added.
    columns : bool
        Whether a parameter may vary by cell, in a column of the data file.
    """

    keys: tuple[str, ...]
    constructor: str | None = None
    optional: tuple[str, ...] = ()
    columns: bool = True

    def __str__(self) -> str:
        return " and ".join(self.keys)


@dataclass(frozen=True)
class Law:
    """A noise law as a release file names it."""

    cls: type[NoiseLaw]
    ways: tuple[Way, ...]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def extras(self) -> tuple[str, ...]:
        """Parameters other than the size of the noise."""
        return self.required + self.optional

    def fields(self) -> dict[str, Field]:
        """Known keys."""
        fields = {name: Field(number, required=name in self.required) for name in self.extras}
        for way in self.ways:
            fields |= {key: Field(number) for key in way.keys + way.optional}
            fields |= {key + COLUMN: Field(text) for key in way.keys if way.columns}
        return fields


_SPREAD = (
    Way(("sd",), "from_sd"),
    Way(("variance",), "from_variance"),
    Way(("half_width",), "from_half_width", optional=("level",)),
)
_LAPLACE = (Way(("scale",)), Way(("epsilon", "sensitivity"), "from_epsilon"), *_SPREAD)
_GAUSSIAN = (
    *_SPREAD,
    Way(("rho", "sensitivity"), "from_rho"),
    Way(("epsilon", "delta", "sensitivity"), "from_epsilon_delta", columns=False),
)

LAWS: dict[str, Law] = {
    "laplace": Law(Laplace, _LAPLACE),
    "discrete-laplace": Law(DiscreteLaplace, _LAPLACE, optional=("step",)),
    "gaussian": Law(Gaussian, _GAUSSIAN),
    "discrete-gaussian": Law(DiscreteGaussian, (Way(("sigma",)), *_GAUSSIAN)),
    "truncated-laplace": Law(TruncatedLaplace, _LAPLACE, required=("bound",)),
    "truncated-discrete-laplace": Law(
        TruncatedDiscreteLaplace, _LAPLACE, required=("bound",), optional=("step",)
    ),
    "none": Law(NoNoise, (Way(()),)),
}

STEPS: dict[str, tuple[type[Step], dict[str, Field]]] = {
    "rescale": (Rescale, {"factor": Field(number, required=True)}),
    "round": (
        Round,
        {"mode": Field(one_of("nearest", "floor", "ceil")), "step": Field(number)},
    ),
    "clamp": (Clamp, {"lower": Field(number), "upper": Field(number)}),
    "suppress": (Suppress, {"below": Field(number, required=True), "inclusive": Field(boolean)}),
}


_NOISE = Field(
    one_of(
        *LAWS,
        note="; a density of your own (dpb.CustomNoise) is for Python only",
    ),
    required=True,
    example='the noise law, such as noise = "discrete-laplace"',
)

#: What a release file states where values are missing.
SUPPRESS = "steps = [{ suppress = { below = 50 } }]"


@dataclass(frozen=True)
class MechanismTable:
    """The checked table, before any column of the data file has been read.

    Parameters
    ----------
    law, way : Law, Way
        Which noise, and how its size is stated.
    parameters : dict
        Numbers by parameter.
    columns : dict
        Names of columns by parameter, for parameters that vary by cell.
    steps : tuple of Step
        Steps after the noise.
    facts : dict
        What reports repeat: neighbours, epsilon, sensitivity.
    path : str
        Path of the table, for messages.
    """

    law: Law
    way: Way
    parameters: dict[str, float]
    columns: dict[str, str]
    steps: tuple[Step, ...]
    facts: dict[str, Any]
    path: str

    def check_missing(self, frame: pd.DataFrame, name: str, field: str, data: DataFile) -> None:
        """Refuse missing values where no step withholds any.

        Raises
        ------
        ReleaseFileError
            With the line of the first one, and the step that is probably missing.
        """
        gaps = np.flatnonzero(np.isnan(frame[name].to_numpy(dtype=float)))
        if not gaps.size or any(isinstance(step, Suppress) for step in self.steps):
            return
        others = gaps.size - 1
        more = f" and {others} more row{'s' * (others > 1)}" if others else ""
        raise ReleaseFileError(
            f"column {name!r} has no value in {data.row(int(gaps[0]))}{more}, but the mechanism "
            f"withholds nothing: give the value or, where values below a threshold (say 50) were "
            f"suppressed, state {SUPPRESS} in {self.path}",
            field,
        )

    def build(self, arrays: Mapping[str, Any]) -> Mechanism:
        """Build the mechanism, given the values of the parameters that vary by cell."""
        constructor = self.way.constructor
        make = getattr(self.law.cls, constructor) if constructor else self.law.cls
        parameters = {**self.parameters, **arrays}
        noise = guarded(lambda: make(**parameters), self.path, parameters)
        return guarded(lambda: Mechanism(noise, self.steps), self.path, ("steps",))


def guarded[T](build: Callable[[], T], path: str, known: Any) -> T:
    """Run a constructor; give its error the path of the parameter that its message begins with."""
    try:
        return build()
    except DPBayesError as error:
        message = str(error)
        name, _, rest = message.partition(" ")
        field = join(path, name) if name in known else path
        raise ReleaseFileError(rest if name in known else message, field) from error


def check_mechanism(raw: Mapping[str, Any], path: str = "mechanism") -> MechanismTable:
    """Check the table ``[mechanism]``.

    Parameters
    ----------
    raw : mapping
        Table as parsed.
    path : str
        Its path, for messages.

    Raises
    ------
    ReleaseFileError
        If the noise is unknown, its size is not stated in exactly one way, or a step is wrong.
    """
    name = read_fields(
        {k: v for k, v in raw.items() if k == "noise"},
        {"noise": _NOISE},
        path,
    )["noise"]
    law = LAWS[name]
    sizes = law.fields()
    common = {
        "noise": Field(text),
        "neighbours": Field(one_of(*NEIGHBOURS)),
        "steps": Field(_steps),
    }
    found = read_fields(raw, common | sizes, path, f' for noise = "{name}"')
    given = {k: v for k, v in found.items() if k in sizes and k not in law.extras}
    columns = {k.removesuffix(COLUMN): v for k, v in given.items() if k.endswith(COLUMN)}
    numbers = {k: v for k, v in given.items() if not k.endswith(COLUMN)}
    for key in columns:
        if key in numbers:
            raise ReleaseFileError(
                f"`{key}` is given too: one number or a column, not both", join(path, key + COLUMN)
            )
    way = _way(law, name, [*numbers, *columns], path)
    facts = {k: v for k, v in found.items() if k == "neighbours"}
    facts |= {k: v for k, v in numbers.items() if k in ("epsilon", "sensitivity")}
    parameters = numbers | {k: found[k] for k in law.extras if k in found}
    checked = MechanismTable(law, way, parameters, columns, found.get("steps", ()), facts, path)
    if not columns:
        checked.build({})
    return checked


def _way(law: Law, name: str, given: list[str], path: str) -> Way:
    """Return the one way in that the given parameters spell."""
    complete = [way for way in law.ways if set(way.keys) <= set(given)]
    # A longer way holds the keys of no other, but epsilon and sensitivity are part of two.
    for way in complete:
        if set(given) <= {*way.keys, *way.optional}:
            return way
    options = "; ".join(str(way) for way in law.ways)
    if not given:
        raise ReleaseFileError(
            f'must say how large the "{name}" noise is, by one of: {options}', path
        )
    if not complete:
        nearest = max(law.ways, key=lambda way: len(set(way.keys) & set(given)))
        if not set(nearest.keys) & set(given):
            nearest = next(way for way in law.ways if set(way.optional) & set(given))
        missing = next(key for key in nearest.keys if key not in given)
        also = ", ".join(f"`{key}`" for key in given)
        ways = "; ".join(str(way) for way in law.ways if not set(way.keys) & set(given))
        others = f", or say how large the noise is in another way: {ways}" if ways else ""
        raise ReleaseFileError(f"must be given beside {also}{others}", join(path, missing))
    raise ReleaseFileError(
        f"must say how large the noise is in one way only, got {', '.join(given)}; "
        f"ways: {options} (epsilon and sensitivity that reports should repeat beside another "
        "way go into the table [release])",
        path,
    )


def _steps(value: Any, path: str) -> tuple[Step, ...]:
    """Return the steps after the noise, in order."""
    if isinstance(value, list) and not value:
        return ()
    return tuple(list_of(_step, "steps")(value, path))


def _step(value: Any, path: str) -> Step:
    options = ", ".join(STEPS)
    if not isinstance(value, dict) or len(value) != 1:
        raise ReleaseFileError(
            f"must be a table with one key out of {options}, such as "
            f"{{ clamp = {{ lower = 0 }} }}, got {_keys(value)}",
            path,
        )
    [(name, raw)] = value.items()
    if name not in STEPS:
        raise ReleaseFileError(
            f"unknown step{nearest_name(name, STEPS)}; known: {options}", join(path, name)
        )
    cls, fields = STEPS[name]
    inner = join(path, name)
    parameters = read_fields(table(raw, inner), fields, inner)
    return guarded(lambda: cls(**parameters), inner, fields)


def _keys(value: Any) -> str:
    if isinstance(value, dict):
        return f"the keys {', '.join(value)}" if value else "an empty table"
    return shown(value)
