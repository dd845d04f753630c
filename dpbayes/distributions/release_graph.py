"""The forward direction of a mechanism as a random graph: noise, then the steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar import ScalarOp, upgrade_to_float
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import geometric, laplace, normal, uniform

from dpbayes.distributions.count_mechanism import CountMechanism
from dpbayes.distributions.scalar_ops import register
from dpbayes.kernels import families
from dpbayes.kernels.discrete_gaussian import quantile_scalar
from dpbayes.kernels.tabulated import table_quantile
from dpbayes.mechanism import Clamp, Rescale, Round, Suppress

__all__ = ["forward", "release", "typical"]


def release(
    static: CountMechanism, statistic: Any, scale: Any, bound: Any, size: Any, rng: Any
) -> tuple[Any, Any]:
    """Publish a statistic symbolically.

    Returns
    -------
    tuple
        Next generator and released values; suppressed ones are minus infinity.
    """
    if static.family == families.NO_NOISE:
        return rng, forward(static, statistic)
    rng, noise = _noise(static, scale, bound, size, rng)
    return rng, forward(static, statistic + noise)


def _noise(static: CountMechanism, scale: Any, bound: Any, size: Any, rng: Any) -> tuple[Any, Any]:
    """Independent noise for each of `size` cells."""
    keep = {"size": size, "return_next_rng": True}
    family, step = static.family, static.step
    if family == families.LAPLACE:
        return laplace(0.0, scale, rng=rng, **keep)
    if family == families.GAUSSIAN:
        return normal(0.0, scale, rng=rng, **keep)
    if family == families.DISCRETE_LAPLACE:
        p = -pt.expm1(-step / scale)
        rng, up = geometric(p, rng=rng, **keep)
        rng, down = geometric(p, rng=rng, **keep)
        return rng, (up - down).astype("float64") * step
    # The other laws by inversion of a uniform variate, one for each cell.
    rng, u = uniform(pt.zeros_like(scale), 1.0, rng=rng, **keep)
    if family == families.DISCRETE_GAUSSIAN:
        return rng, discrete_gaussian_quantile(u, scale)
    if family == families.TABULATED:
        return rng, Elemwise(TabulatedQuantile(static))(u)
    if family == families.TRUNCATED_LAPLACE:
        side = 2.0 * u - 1.0
        size_of = -scale * pt.log1p(pt.abs(side) * pt.expm1(-bound / scale))
        return rng, pt.sign(side) * size_of
    return rng, _truncated_lattice(u, scale, bound, step)


def _truncated_lattice(u: Any, scale: Any, bound: Any, step: float) -> Any:
    """Draw truncated discrete Laplace noise: a side, then a truncated geometric distance."""
    rate = step / scale
    last = pt.floor(bound / step + 1e-6)
    upper = -pt.expm1(-(last + 1.0) * rate)  # weight of 0, 1, ..., last
    lower = -pt.exp(-rate) * pt.expm1(-last * rate)  # weight of -1, ..., -last
    level = u * (upper + lower)
    rising = level < upper
    share = pt.switch(rising, level / upper, (level - upper) / pt.maximum(lower, 1e-300))
    kept = pt.switch(rising, upper, -pt.expm1(-last * rate))
    distance = pt.floor(-pt.log1p(-share * kept) / rate)
    distance = pt.minimum(distance, pt.switch(rising, last, last - 1.0))
    return step * pt.switch(rising, distance, -1.0 - distance)


def forward(static: CountMechanism, value: Any) -> Any:
    """Apply the steps symbolically."""
    hidden = pt.zeros_like(value, dtype=bool)
    for step in static.steps:
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


def typical(static: CountMechanism, value: Any) -> Any:
    """Return a value that can be published, near a typical statistic."""
    shown = tuple(s for s in static.steps if not isinstance(s, Suppress))
    published = forward(CountMechanism(static.family, static.step, shown), value)
    for step in static.steps:
        if isinstance(step, Suppress):
            published = pt.switch(pt.gt(published, step.below), published, -np.inf)
    return published


_ROUNDINGS = {
    "nearest": lambda x: pt.round(x, mode="half_to_even"),
    "floor": pt.floor,
    "ceil": pt.ceil,
}


class _Quantile(ScalarOp):
    """A quantile function that numba compiles."""

    def c_code(self, *args, **kwargs):
        """Refuse: the compiled version is numba's."""
        raise NotImplementedError("no C code")


class DiscreteGaussianQuantile(_Quantile):
    """Discrete Gaussian draw of a uniform variate."""

    nin = 2

    def impl(self, u, sigma):
        """Evaluate in Python."""
        return quantile_scalar(float(u), float(sigma))


class TabulatedQuantile(_Quantile):
    """Draw from a tabulated law of a uniform variate."""

    nin = 1

    def __init__(self, static: CountMechanism) -> None:
        self.static = static
        super().__init__(upgrade_to_float, name="tabulated_quantile")

    def impl(self, u):
        """Evaluate in Python."""
        return table_quantile(float(u), self.static.table)

    def __eq__(self, other):
        return type(self) is type(other) and self.static == other.static

    def __hash__(self):
        return hash((type(self), self.static))


def _compiled_quantile(op: TabulatedQuantile) -> Any:
    """Quantile function of the op's table."""
    from numba import njit

    table, quantile = op.static.table, table_quantile

    @njit(nogil=True)
    def compiled(u):
        return quantile(u, table)

    return compiled


register(DiscreteGaussianQuantile, lambda op: quantile_scalar, lambda op: "", inputs=2)
register(TabulatedQuantile, _compiled_quantile, lambda op: op.static.key, inputs=1)

discrete_gaussian_quantile = Elemwise(
    DiscreteGaussianQuantile(upgrade_to_float, name="discrete_gaussian_quantile")
)
