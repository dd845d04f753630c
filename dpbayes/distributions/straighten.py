"""Directions that released functionals determine, in straightened coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Continuous, SymbolicRandomVariable
from pymc.pytensorf import normalize_rng_param
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
from pytensor.tensor.random.utils import normalize_size_param

from dpbayes.kernels import straighten as kernels

__all__ = ["Straightened", "straighten"]

_CACHE_VERSION = 6  # raise when a kernel changes: PyTensor caches what calls it on disk
_VECTOR, _SCALAR, _MATRIX = (pt.TensorType("float64", (None,) * n) for n in (1, 0, 2))


class _Straighten(Op):
    """Compiled map from coordinates to directions (see `dpbayes.kernels.straighten`)."""

    __props__ = ()

    def make_node(self, *inputs):
        variables = [pt.as_tensor_variable(x).astype("float64") for x in inputs]
        return Apply(self, variables, [_VECTOR(), _SCALAR(), _MATRIX()])

    def perform(self, node, inputs, output_storage):
        for store, value in zip(output_storage, kernels.straighten(*_plain(inputs)), strict=True):
            store[0] = np.asarray(value)

    def pullback(self, inputs, outputs, cotangents):
        d_beta, d_log_det, d_factor = cotangents
        if not isinstance(d_factor.type, DisconnectedType):
            raise NotImplementedError("the factor of the straightened directions has no gradient")
        if isinstance(d_beta.type, DisconnectedType):
            d_beta = pt.zeros_like(inputs[0])
        if isinstance(d_log_det.type, DisconnectedType):
            d_log_det = pt.constant(0.0, dtype="float64")
        found: Any = _StraightenPullback()(*inputs, d_beta, d_log_det)
        # Directions, functionals and the start are constants of the model.
        return [*found, *(DisconnectedType()() for _ in inputs[5:])]

    def connection_pattern(self, node):
        differentiable = [[True, True, False]] * 5
        return differentiable + [[False, False, False]] * (len(node.inputs) - 5)


def _straighten(*inputs: Any) -> Any:
    """Directions, log det C and C."""
    return _Straighten()(*inputs)


class _StraightenPullback(Op):
    """Derivatives of `_Straighten`."""

    __props__ = ()

    def make_node(self, *inputs):
        variables = [pt.as_tensor_variable(x).astype("float64") for x in inputs]
        kinds = [_VECTOR, _VECTOR, _VECTOR, _SCALAR, _SCALAR]
        return Apply(self, variables, [kind() for kind in kinds])

    def perform(self, node, inputs, output_storage):
        found = kernels.straighten_pullback(*_plain(inputs))
        for store, value in zip(output_storage, found, strict=True):
            store[0] = np.asarray(value)


def _plain(inputs):
    """Contiguous arrays and Python floats, as the kernels take them."""
    return [np.ascontiguousarray(x) if np.ndim(x) else float(x) for x in inputs]


@register_funcify_default_op_cache_key(_Straighten)
def _(op, node, **kwargs):
    kernel = kernels.straighten

    @numba_basic.numba_njit
    def straighten_directions(xi, theta, target, rest, inverse, tight, functionals, start):
        beta, log_det, factor = kernel(
            np.ascontiguousarray(xi),
            np.ascontiguousarray(theta),
            np.ascontiguousarray(target),
            rest.item(),
            inverse.item(),
            np.ascontiguousarray(tight),
            np.ascontiguousarray(functionals),
            np.ascontiguousarray(start),
        )
        return beta, np.asarray(log_det), factor

    return straighten_directions, _CACHE_VERSION


@register_funcify_default_op_cache_key(_StraightenPullback)
def _(op, node, **kwargs):
    kernel = kernels.straighten_pullback

    @numba_basic.numba_njit
    def pull_directions(
        xi, theta, target, rest, inverse, tight, functionals, start, d_beta, d_log_det
    ):
        d_xi, d_theta, d_target, d_rest, d_inverse = kernel(
            np.ascontiguousarray(xi),
            np.ascontiguousarray(theta),
            np.ascontiguousarray(target),
            rest.item(),
            inverse.item(),
            np.ascontiguousarray(tight),
            np.ascontiguousarray(functionals),
            np.ascontiguousarray(start),
            np.ascontiguousarray(d_beta),
            d_log_det.item(),
        )
        return d_xi, d_theta, d_target, np.asarray(d_rest), np.asarray(d_inverse)

    return pull_directions, _CACHE_VERSION


def straighten(xi: Any, *params: Any) -> Any:
    """Directions β of coordinates ξ; parameters as those of `Straightened`."""
    return _straighten(xi, *params)[0]


class StraightenedRV(SymbolicRandomVariable):
    """Coordinates ξ of directions β ~ N(0, τ²)."""

    name = "straightened"
    extended_signature = "[rng],[size],(k),(r),(),(),(k,r),(r,k),(r)->[rng],(r)"
    _print_name = ("Straightened", "\\operatorname{Straightened}")

    @classmethod
    def rv_op(cls, theta, target, rest, inverse, tight, functionals, start, *, size=None, rng=None):
        """Draw β from its prior and standardise it."""
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        params = [
            pt.as_tensor_variable(x).astype("float64")
            for x in (theta, target, rest, inverse, tight, functionals, start)
        ]
        center, _, factor = _straighten(pt.zeros_like(params[-1]), *params)
        next_rng, normal = pt.random.normal(
            0.0, params[3] ** -0.5, size=params[-1].shape, rng=rng, return_next_rng=True
        )
        xi = pt.dot(factor.T, normal - center)
        return cls(inputs=[rng, size, *params], outputs=[next_rng, xi])(rng, size, *params)


class Straightened(Continuous):
    r"""Coordinates ξ with β = center + C'⁻¹ ξ, where β ~ N(0, τ² I).

    .. math:: p(\xi) = N(\beta(\xi); 0, \tau^2 I) / \det C

    The centre and C depend on the parameters, so that the posterior of ξ is close to
    standard normal whatever they are; the law of β does not.

    Parameters
    ----------
    theta : tensor_like, shape (K,)
        Log weights without these directions.
    target : tensor_like, shape (r,)
        Released values of the functionals.
    rest : tensor_like
        Mass of all cells (1 without atoms).
    inverse : tensor_like
        1 / τ².
    tight, functionals, start : array
        Directions (K, r), functionals (r, K), start of Gauss-Newton (r,): constants.
    """

    rv_type = StraightenedRV
    rv_op = StraightenedRV.rv_op

    @classmethod
    def dist(cls, *params, **kwargs):
        """Build a variable outside a model."""
        return super().dist(list(params), **kwargs)

    def support_point(rv, size, *params):
        """Centre of the posterior, where the coordinates are 0."""
        return pt.zeros_like(params[-1])

    def logp(value, *params):
        """Log density of the coordinates."""
        beta, log_det, _ = _straighten(value, *params)
        inverse = params[3]
        normal = 0.5 * pt.log(inverse / (2.0 * np.pi)) - 0.5 * inverse * beta**2
        return normal.sum() - log_det
