"""The static part of a mechanism, as compiled code takes it."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.kernels import families, preimage
from dpbayes.kernels.tabulated import EMPTY, tabulate
from dpbayes.mechanism import Clamp, Mechanism, Rescale, Round, Suppress
from dpbayes.noise import (
    CustomNoise,
    NoiseLaw,
    NoNoise,
    TruncatedDiscreteLaplace,
    TruncatedLaplace,
)

__all__ = ["CountMechanism", "noise_parameters"]

_MODES = {"nearest": preimage.NEAREST, "floor": preimage.FLOOR, "ceil": preimage.CEIL}
_CODES = {
    TruncatedLaplace: families.TRUNCATED_LAPLACE,
    TruncatedDiscreteLaplace: families.TRUNCATED_DISCRETE_LAPLACE,
    NoNoise: families.NO_NOISE,
    CustomNoise: families.TABULATED,
}


@dataclass(frozen=True)
class CountMechanism:
    """What of a mechanism cannot be a random variable: the noise family, its lattice, the steps.

    Parameters
    ----------
    family : int
        Code of the noise family.
    step : float
        Lattice of statistic + noise, 0 where it is continuous.
    steps : tuple of Step
        Post-processing, in order.
    table : ndarray
        Table of a custom density, empty for the other laws.
    """

    family: int
    step: float
    steps: tuple[Any, ...]
    table: np.ndarray = field(default_factory=lambda: EMPTY, compare=False, repr=False)
    digest: str = ""

    @classmethod
    def of(cls, mechanism: Mechanism, *, whole: bool = True) -> CountMechanism:
        """Take the static part of a mechanism.

        Parameters
        ----------
        mechanism : Mechanism
            Noise and post-processing.
        whole : bool
            Whether the statistic is a count, which lattice noise needs.
        """
        noise = mechanism.noise
        family = noise.family if noise.family is not None else _CODES.get(type(noise))
        if family is None:
            raise UnsupportedError(f"noise must be one of the laws of dpbayes.noise, got {noise!r}")
        if not whole:
            if noise.is_lattice and not isinstance(noise, NoNoise):
                raise UnsupportedError(
                    f"noise must be continuous where the statistic is, got {noise!r}: noise on a "
                    "lattice is added to counts"
                )
            return cls._with_table(family, 0.0, mechanism)
        if noise.is_lattice and noise.step > 1.0:
            raise UnsupportedError(
                f"the step of {type(noise).__name__} must be 1 or less for counts, "
                f"got {noise.step:g}"
            )
        return cls._with_table(family, mechanism.integer_step(), mechanism)

    @classmethod
    def _with_table(cls, family: int, step: float, mechanism: Mechanism) -> CountMechanism:
        noise = mechanism.noise
        if not isinstance(noise, CustomNoise):
            return cls(family, step, mechanism.steps)
        if np.ndim(noise.sd) != 0:
            raise UnsupportedError(
                f"sd of CustomNoise must be one number here, got shape {np.shape(noise.sd)}"
            )
        table = _tabulated(noise.logpdf, float(noise.sd))
        return cls(
            family, step, mechanism.steps, table, hashlib.sha256(table.tobytes()).hexdigest()
        )

    @property
    def program(self) -> np.ndarray:
        """Steps as the numbers that `dpbayes.kernels.preimage.bounds` takes."""
        return np.array([_encode(step) for step in self.steps], dtype=float).reshape(-1, 3)

    @property
    def key(self) -> str:
        """Text that identifies the compiled code."""
        return repr((self.family, self.step, self.program.tolist(), self.digest))

    @property
    def has_order(self) -> bool:
        """Whether "published at most v, or suppressed" says one interval for the noisy value."""
        falling = any(isinstance(s, Rescale) and s.factor < 0 for s in self.steps)
        return not (falling and any(isinstance(s, Suppress) for s in self.steps))


@functools.lru_cache(maxsize=64)
def _tabulated(logpdf: Any, sd: float) -> np.ndarray:
    """Tables are made once per law."""
    return tabulate(logpdf, sd)


def _encode(step: Any) -> tuple[float, float, float]:
    """One row of the numeric program."""
    if isinstance(step, Rescale):
        return preimage.RESCALE, step.factor, 0.0
    if isinstance(step, Round):
        return preimage.ROUND, step.step, _MODES[step.mode]
    if isinstance(step, Clamp):
        return preimage.CLAMP, *step._ends
    if isinstance(step, Suppress):
        return preimage.SUPPRESS, step.below, float(step.inclusive)
    raise ParameterError(f"steps must be Rescale, Round, Clamp or Suppress, got {step!r}")


def noise_parameters(noise: NoiseLaw, scale: Any = None) -> tuple[Any, Any]:
    """Scale and bound of a law as the kernels take them, 1 and 0 where it has none.

    Parameters
    ----------
    noise : NoiseLaw
        The law.
    scale : tensor_like, optional
        Scale in place of the law's own.

    Raises
    ------
    UnsupportedError
        If a scale is given for a law that has none.
    """
    if isinstance(noise, NoNoise | CustomNoise):
        if scale is not None:
            raise UnsupportedError(
                f"scale must be left out for {type(noise).__name__}, which has no scale, "
                f"got {scale!r}"
            )
        return 1.0, 0.0
    return (noise.scale if scale is None else scale), getattr(noise, "bound", 0.0)
