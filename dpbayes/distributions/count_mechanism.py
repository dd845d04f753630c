"""The static part of a mechanism for counts, and its forward direction as a random graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar import ScalarOp, upgrade_to_float
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import geometric, laplace, normal, uniform

from dpbayes.distributions.scalar_ops import register
from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.kernels import preimage
from dpbayes.kernels.discrete_gaussian import quantile_scalar
from dpbayes.kernels.families import DISCRETE_LAPLACE, GAUSSIAN, LAPLACE
from dpbayes.mechanism import Clamp, Mechanism, Rescale, Round, Suppress

__all__ = ["CountMechanism"]

_MODES = {"nearest": preimage.NEAREST, "floor": preimage.FLOOR, "ceil": preimage.CEIL}


@dataclass(frozen=True)
class CountMechanism:
    """What of a mechanism cannot be a random variable: the noise family, its lattice, the steps.

    Parameters
    ----------
    family : int
        Code of the noise family.
    step : float
        Lattice of count + noise, 0 where it is continuous.
    steps : tuple of Step
        Post-processing, in order.
    """

    family: int
    step: float
    steps: tuple[Any, ...]

    @classmethod
    def of(cls, mechanism: Mechanism) -> CountMechanism:
        """Take the static part of a mechanism whose noise law has a compiled kernel."""
        noise = mechanism.noise
        if noise.family is None:
            raise UnsupportedError(
                "noise must be Laplace, DiscreteLaplace, Gaussian or DiscreteGaussian, "
                f"got {noise!r}"
            )
        if noise.family == DISCRETE_LAPLACE and noise.step > 1.0:
            raise UnsupportedError(
                f"the step of DiscreteLaplace must be 1 or less for counts, got {noise.step:g}"
            )
        return cls(noise.family, mechanism.integer_step(), mechanism.steps)

    @property
    def program(self) -> np.ndarray:
        """Steps as the numbers that `dpbayes.kernels.preimage.bounds` takes."""
        return np.array([_encode(step) for step in self.steps], dtype=float).reshape(-1, 3)

    @property
    def key(self) -> str:
        """Text that identifies the compiled code."""
        return repr((self.family, self.step, self.program.tolist()))

    def release(self, count: Any, scale: Any, size: Any, rng: Any) -> tuple[Any, Any]:
        """Publish counts symbolically: (next generator, released values).

        Suppressed values are minus infinity.
        """
        rng, noise = self._noise(scale, size, rng)
        return rng, self.forward(count + noise)

    def _noise(self, scale: Any, size: Any, rng: Any) -> tuple[Any, Any]:
        keep = {"size": size, "return_next_rng": True}
        if self.family == LAPLACE:
            return laplace(0.0, scale, rng=rng, **keep)
        if self.family == GAUSSIAN:
            return normal(0.0, scale, rng=rng, **keep)
        if self.family == DISCRETE_LAPLACE:
            p = -pt.expm1(-self.step / scale)
            rng, up = geometric(p, rng=rng, **keep)
            rng, down = geometric(p, rng=rng, **keep)
            return rng, (up - down).astype("float64") * self.step
        rng, u = uniform(0.0, pt.ones_like(scale), rng=rng, **keep)
        return rng, discrete_gaussian_quantile(u, scale)

    def forward(self, value: Any) -> Any:
        """Apply the steps symbolically."""
        hidden = pt.zeros_like(value, dtype=bool)
        for step in self.steps:
            if isinstance(step, Rescale):
                value = value * step.factor
            elif isinstance(step, Round):
                value = _ROUNDINGS[step.mode](value / step.step) * step.step
            elif isinstance(step, Clamp):
                low, high = step._ends
                value = pt.clip(value, low, high)
            else:
                below = pt.le if step.inclusive else pt.lt
                hidden = below(value, step.below)
        return pt.switch(hidden, -np.inf, value)

    def typical(self, value: Any) -> Any:
        """Return a value that can be published, near a typical count."""
        published = CountMechanism(
            self.family, self.step, tuple(s for s in self.steps if not isinstance(s, Suppress))
        ).forward(value)
        for step in self.steps:
            if isinstance(step, Suppress):
                published = pt.switch(pt.gt(published, step.below), published, -np.inf)
        return published


_ROUNDINGS = {
    "nearest": lambda x: pt.round(x, mode="half_to_even"),
    "floor": pt.floor,
    "ceil": pt.ceil,
}


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


class DiscreteGaussianQuantile(ScalarOp):
    """Discrete Gaussian draw of a uniform variate."""

    nin = 2

    def c_code(self, *args, **kwargs):
        """Refuse: the compiled version is numba's."""
        raise NotImplementedError("no C code")

    def impl(self, u, sigma):
        """Evaluate in Python."""
        return quantile_scalar(float(u), float(sigma))


register(DiscreteGaussianQuantile, lambda op: quantile_scalar, lambda op: "", inputs=2)

discrete_gaussian_quantile = Elemwise(
    DiscreteGaussianQuantile(upgrade_to_float, name="discrete_gaussian_quantile")
)
