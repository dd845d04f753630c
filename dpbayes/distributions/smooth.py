"""Smooth distributions in whitened coordinates as PyMC variables."""

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

from dpbayes.kernels import smooth as kernels

__all__ = ["SmoothCoordinates", "smooth_weights"]

_CACHE_VERSION = 1  # raise when a kernel changes: PyTensor caches what calls it on disk
_VECTOR, _SCALAR = pt.TensorType("float64", (None,)), pt.TensorType("float64", ())
_CONSTANTS = 9  # of `dpbayes.kernels.smooth`, the number of cells first


class _SmoothOp(Op):
    """Operator with a compiled kernel."""

    __props__ = ()
    outputs: tuple = ()

    def make_node(self, *inputs):
        variables = [pt.as_tensor_variable(x).astype("float64") for x in inputs]
        return Apply(self, variables, [kind() for kind in self.outputs])

    def evaluate(self, *inputs):
        """Call the kernel."""
        raise NotImplementedError

    def perform(self, node, inputs, output_storage):
        plain = [np.ascontiguousarray(x) if np.ndim(x) else float(x) for x in inputs]
        for store, value in zip(output_storage, self.evaluate(*plain), strict=True):
            store[0] = np.asarray(value)


class _Weights(_SmoothOp):
    """Log prior density, weights and τ of coordinates."""

    outputs = (_SCALAR, _VECTOR, _SCALAR)

    def evaluate(self, x, cells, *constants):
        return kernels.prior_and_weights(x, (int(cells), *constants))

    def pullback(self, inputs, outputs, cotangents):
        d = [
            pt.zeros_like(output) if isinstance(cotangent.type, DisconnectedType) else cotangent
            for output, cotangent in zip(outputs, cotangents, strict=True)
        ]
        found: Any = _WeightsPullback()(*inputs, *d)
        return [found, *(DisconnectedType()() for _ in inputs[1:])]

    def connection_pattern(self, node):
        return [[True] * 3] + [[False] * 3] * _CONSTANTS


class _WeightsPullback(_SmoothOp):
    """Derivatives of `_Weights`."""

    outputs = (_VECTOR,)

    def evaluate(self, x, cells, *rest):
        constants, d = rest[: _CONSTANTS - 1], rest[_CONSTANTS - 1 :]
        return (kernels.prior_and_weights_pullback(x, (int(cells), *constants), *d),)


class _Coordinates(_SmoothOp):
    """Coordinates of log τ and of standard normal directions."""

    outputs = (_VECTOR,)

    def evaluate(self, log_tau, standard, cells, *constants):
        free = constants[3].shape[0]
        frame = (int(cells), *constants)
        return (kernels.coordinates(log_tau, standard[:free], standard[free:], frame),)


@register_funcify_default_op_cache_key(_Weights)
def _(op, node, **kwargs):
    kernel = kernels.prior_and_weights

    @numba_basic.numba_njit
    def weights(x, cells, scale, law, level, loose, tight, functionals, target, grid):
        frame = (int(cells.item()), scale, law, level, loose, tight, functionals, target, grid)
        log_prior, found, tau = kernel(np.ascontiguousarray(x), frame)
        return np.asarray(log_prior), found, np.asarray(tau)

    return weights, _CACHE_VERSION


@register_funcify_default_op_cache_key(_WeightsPullback)
def _(op, node, **kwargs):
    kernel = kernels.prior_and_weights_pullback

    @numba_basic.numba_njit
    def pull_weights(
        x, cells, scale, law, level, loose, tight, functionals, target, grid,
        d_prior, d_weights, d_tau,
    ):  # fmt: skip
        frame = (int(cells.item()), scale, law, level, loose, tight, functionals, target, grid)
        return kernel(
            np.ascontiguousarray(x), frame, d_prior.item(), np.ascontiguousarray(d_weights),
            d_tau.item(),
        )  # fmt: skip

    return pull_weights, _CACHE_VERSION


@register_funcify_default_op_cache_key(_Coordinates)
def _(op, node, **kwargs):
    kernel = kernels.coordinates

    @numba_basic.numba_njit
    def to_coordinates(
        log_tau, standard, cells, scale, law, level, loose, tight, functionals, target, grid
    ):
        frame = (int(cells.item()), scale, law, level, loose, tight, functionals, target, grid)
        both, free = np.ascontiguousarray(standard), loose.shape[0]
        return kernel(log_tau.item(), both[:free], both[free:], frame)

    return to_coordinates, _CACHE_VERSION


def smooth_weights(x: Any, frame: tuple) -> tuple[Any, Any]:
    """Weights of all basis elements, and τ, of coordinates.

    Parameters
    ----------
    x : tensor_like, shape (K + m,)
        Coordinates.
    frame : tuple
        Constants, ``Whitening.frame``.

    Returns
    -------
    weights : TensorVariable, shape (K + m,)
    tau : TensorVariable
    """
    found: Any = _Weights()(x, *frame)
    return found[1], found[2]


class SmoothCoordinatesRV(SymbolicRandomVariable):
    """Coordinates of a smooth distribution drawn from its prior."""

    name = "smooth_coordinates"
    extended_signature = "[rng],[size],(),(a),(b),(k),(l,k),(r,k),(r,k),(r),(c,g,l)->[rng],(k)"
    _print_name = ("SmoothCoordinates", "\\operatorname{SmoothCoordinates}")

    @classmethod
    def rv_op(cls, cells, scale, law, level, loose, tight, functionals, target, grid, *, size=None,
              rng=None):  # fmt: skip
        """Draw τ and the directions, and standardise them."""
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        frame = [
            pt.as_tensor_variable(x).astype("float64")
            for x in (cells, scale, law, level, loose, tight, functionals, target, grid)
        ]
        law, level = frame[2], frame[3]
        next_rng, tau = pt.random.gamma(law[0], scale=1.0 / law[1], rng=rng, return_next_rng=True)
        next_rng, standard = pt.random.normal(
            0.0, 1.0, size=(level.shape[0] - 1,), rng=next_rng, return_next_rng=True
        )
        x = _Coordinates()(pt.log(tau), standard, *frame)
        inputs = [rng, size, *frame]
        return cls(inputs=inputs, outputs=[next_rng, x])(*inputs)


class SmoothCoordinates(Continuous):
    r"""Coordinates of log weights and log odds whose prior is a smooth distribution's.

    .. math:: p(x) = p(\tau) \, N(\alpha; 0, I) \, N(\beta; 0, I) \,
        |\partial(\log\tau, \alpha, \beta) / \partial x|

    The coordinates depend on the release, so that their posterior is close to standard
    normal; the law of what they stand for does not.

    Parameters
    ----------
    frame : tuple
        Constants, ``Whitening.frame``.
    """

    rv_type = SmoothCoordinatesRV
    rv_op = SmoothCoordinatesRV.rv_op

    @classmethod
    def dist(cls, frame, **kwargs):
        """Build a variable outside a model."""
        return super().dist(list(frame), **kwargs)

    def support_point(rv, size, cells, scale, law, level, *constants):
        """Centre of the posterior, where the coordinates are 0."""
        return pt.zeros_like(level)

    def logp(value, *frame):
        """Log density of the coordinates."""
        found: Any = _Weights()(value, *frame)
        return found[0]
