"""What the distributions of a single noisy statistic share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Distribution, SymbolicRandomVariable, _support_point
from pymc.distributions.shape_utils import implicit_size_from_params, rv_size_is_none
from pymc.logprob.abstract import _logcdf, _logprob
from pymc.pytensorf import floatX, normalize_rng_param
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Variable
from pytensor.tensor.random.utils import normalize_size_param

from dpbayes.distributions.count_mechanism import CountMechanism, noise_parameters
from dpbayes.distributions.likelihood import Law, log_likelihood, log_probability_below
from dpbayes.distributions.observed import check_shapes, encode_released
from dpbayes.distributions.release_graph import release, typical
from dpbayes.kernels.families import NORMAL
from dpbayes.mechanism import as_mechanism

__all__ = ["NoisyDistribution", "NoisyRV", "tensor"]


class NoisyRV(SymbolicRandomVariable):
    """A random statistic, plus noise, through the steps of the mechanism.

    The inputs after the generator and the size are the parameters of the statistic's law, then
    the scale and the bound of the noise. Subclasses say how the statistic is drawn.
    """

    base: int
    #: Takes the parameters, `size` and `rng`; next generator and true statistic.
    draw_statistic: ClassVar[Callable[..., tuple[Any, Any]]]
    #: Conditions that the parameters must meet, and how to say so.
    conditions: ClassVar[Callable[..., tuple[list[Any], str]]]
    #: A typical value of the statistic.
    middle: ClassVar[Callable[..., Any]]

    def __init__(self, *args: Any, mechanism: CountMechanism, **kwargs: Any) -> None:
        self.mechanism = mechanism
        super().__init__(*args, **kwargs)

    @property
    def law(self) -> Law:
        """What is static in the law of the released value."""
        return Law(self.base, self.mechanism)

    @classmethod
    def rv_op(cls, *params, mechanism, size=None, rng=None):
        """Build the random graph."""
        tensors = [pt.as_tensor(x) for x in params]
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        if rv_size_is_none(size):
            size = implicit_size_from_params(*tensors, ndims_params=cls.ndims_params)
        # An explicit size: noise is independent from cell to cell even where scale is a scalar.
        *inner, scale, bound = (pt.broadcast_to(x, size) for x in tensors)
        next_rng, statistic = cls.draw_statistic(*inner, size=size, rng=rng)
        next_rng, draws = release(
            mechanism, statistic.astype("float64"), scale, bound, size, next_rng
        )
        op = cls([rng, size, *tensors], [next_rng, draws], mechanism=mechanism)
        return op(rng, size, *tensors)

    def rebuild_rv(self, *args, **kwargs):
        """Rebuild with new inputs and the same mechanism."""
        return self.rv_op(*args, mechanism=self.mechanism, **kwargs)

    def __eq__(self, other):
        return OpFromGraph.__eq__(self, other) and self.mechanism == other.mechanism

    def __hash__(self):
        return hash((OpFromGraph.__hash__(self), self.mechanism))


class NoisyDistribution(Distribution):
    """A PyMC distribution of a released statistic; subclasses add their parameters."""

    _whole = True

    def __new__(cls, name, *, mechanism, observed=None, **kwargs):
        """Check the released values and register the variable."""
        mechanism = as_mechanism(mechanism)
        if observed is not None:
            observed = encode_released(
                observed, mechanism, name=name, whole=cls._whole, highest=cls._highest(kwargs)
            )
            cls._check_shapes(name, kwargs, mechanism, observed)
        return super().__new__(cls, name, mechanism=mechanism, observed=observed, **kwargs)

    @classmethod
    def _highest(cls, parameters: dict[str, Any]) -> Any:
        """Largest possible statistic, where it is a constant."""
        return np.inf

    @classmethod
    def _check_shapes(cls, name: str, kwargs: Any, mechanism: Any, observed: Any) -> None:
        """Compare the shapes of parameters and released values."""
        given = {k: v for k, v in kwargs.items() if k in (*cls._names, "scale") and v is not None}
        shapes = {k: _shape(v) for k, v in given.items()}
        if "scale" not in given:
            shapes["the noise"] = mechanism.noise.shape
        if not isinstance(observed, Variable):
            check_shapes(name, shapes, observed.shape)

    _names: tuple[str, ...] = ()

    @classmethod
    def _dist(cls, params, *, mechanism, scale=None, **kwargs):
        """Build a variable outside a model from the parameters of the statistic's law."""
        mechanism = as_mechanism(mechanism)
        scale, bound = noise_parameters(mechanism.noise, scale)
        static = CountMechanism.of(mechanism, whole=cls._whole)
        inputs = [tensor(x) for x in (*params, scale, bound)]
        return super().dist(inputs, mechanism=static, **kwargs)


def tensor(x: Any) -> Any:
    """Arrays of labelled or nested data as floats of PyMC's kind; tensors as they are."""
    if hasattr(x, "owner"):
        return pt.as_tensor_variable(x)
    return pt.as_tensor_variable(floatX(np.asarray(x, dtype=float)))


def _shape(x: Any) -> tuple[Any, ...]:
    """Shape as far as it is known before the model runs."""
    if isinstance(x, Variable):
        return tuple(x.type.shape)
    return np.shape(x)


@_logprob.register(NoisyRV)
def _noisy_logprob(op, values, rng, size, *params, **kwargs):
    (value,) = values
    return _checked(op, log_likelihood(op.law, value, *params), params)


@_logcdf.register(NoisyRV)
def _noisy_logcdf(op, value, rng, size, *params, **kwargs):
    return _checked(op, log_probability_below(op.law, value, *params), params)


def _checked(op: NoisyRV, expression: Any, params: Any) -> Any:
    *inner, scale, _ = params
    conditions, message = op.conditions(*inner)
    return check_parameters(expression, *conditions, scale > 0, msg=f"{message}, scale > 0")


@_support_point.register(NoisyRV)
def _noisy_support_point(op, rv, rng, size, *params):
    *inner, scale, _ = params
    middle = op.middle(*inner)
    if op.base != NORMAL:
        middle = pt.floor(middle)
    point = pt.broadcast_arrays(middle, scale)[0]
    if not rv_size_is_none(size):
        point = pt.full(size, point)
    return typical(op.mechanism, point)
