"""Multinomial counts with a public total that were released with noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Distribution, SymbolicRandomVariable
from pymc.distributions.shape_utils import implicit_size_from_params, rv_size_is_none
from pymc.logprob.abstract import _logprob
from pymc.pytensorf import floatX, normalize_rng_param
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import DisconnectedType, grad_not_implemented
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.basic import register_funcify_and_cache_key
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.random.basic import multinomial
from pytensor.tensor.random.utils import normalize_size_param

from dpbayes.distributions.count_mechanism import CountMechanism
from dpbayes.distributions.observed import encode_released
from dpbayes.distributions.scalar_ops import CACHE_VERSION
from dpbayes.errors import ParameterError
from dpbayes.kernels import preimage
from dpbayes.kernels.multinomial import value_and_gradient
from dpbayes.mechanism import as_mechanism

__all__ = ["NoisyMultinomial"]

_WEIGHT_TOLERANCE = 1e-6


def _compiled(mechanism: CountMechanism) -> Any:
    """Log-likelihood and gradient in log p of one released table, as a numba function."""
    family, lattice, steps = mechanism.family, mechanism.step, mechanism.program
    step = lattice if lattice > 0.0 else 1.0
    bounds, kernel = preimage.bounds, value_and_gradient

    @njit(nogil=True)
    def released_logp(value, log_p, n, scale):
        # Fresh arrays, so that the kernel is compiled for one kind of array only.
        lower, upper, jacobian, gradient = np.empty((4, value.size))
        for j in range(value.size):
            lower[j], upper[j], jacobian[j] = bounds(value[j], steps, lattice)
        logp = kernel(family, lower, upper, jacobian, scale.copy(), step, log_p.copy(), n, gradient)
        return logp, gradient

    return released_logp


class NoisyMultinomialLogp(Op):
    """Log-likelihood of a released table given log p and the public total, and its gradient.

    Inputs are the released values, log p, n and the noise scale of each cell. The gradient is a
    second output because both need the same solution for the tilt.
    """

    __props__ = ("mechanism",)
    gufunc_signature = "(k),(k),(),(k)->(),(k)"

    def __init__(self, mechanism: CountMechanism) -> None:
        self.mechanism = mechanism
        self._function: Any = None

    def make_node(self, *inputs):
        """Four float inputs; a number and a vector."""
        floats = [pt.as_tensor(x).astype("float64") for x in inputs]
        return Apply(self, floats, [pt.dscalar(), pt.dvector()])

    def infer_shape(self, node, shapes):
        """Shapes of the outputs."""
        return [(), shapes[1]]

    def perform(self, node, inputs, outputs):
        """Evaluate outside compiled graphs."""
        if self._function is None:
            self._function = _compiled(self.mechanism)
        value, log_p, n, scale = (np.ascontiguousarray(x) for x in inputs)
        logp, gradient = self._function(value, log_p, n.item(), scale)
        outputs[0][0], outputs[1][0] = np.asarray(logp), gradient

    def pullback(self, inputs, outputs, output_gradients):
        """Chain rule in log p; everything else is data."""
        result = [grad_not_implemented(self, i, x, "it is data") for i, x in enumerate(inputs)]
        if isinstance(output_gradients[1].type, DisconnectedType):
            result[1] = output_gradients[0] * outputs[1]
        return result

    def __getstate__(self):
        return {**self.__dict__, "_function": None}


@register_funcify_and_cache_key(NoisyMultinomialLogp)
def _funcify(op: NoisyMultinomialLogp, node: Any = None, **kwargs: Any) -> tuple[Any, str]:
    both = _compiled(op.mechanism)

    @numba_basic.numba_njit
    def compiled(value, log_p, n, scale):
        logp, gradient = both(value, log_p, n.item(), scale)
        return np.asarray(logp), gradient

    return compiled, f"{type(op).__name__} {op.mechanism.key} {CACHE_VERSION}"


class NoisyMultinomialRV(SymbolicRandomVariable):
    """Multinomial counts, plus noise, through the steps of the mechanism."""

    name = "noisy_multinomial"
    extended_signature = "[rng],[size],(),(k),(k)->[rng],(k)"
    _print_name = ("NoisyMultinomial", "\\operatorname{NoisyMultinomial}")

    def __init__(self, *args: Any, mechanism: CountMechanism, **kwargs: Any) -> None:
        self.mechanism = mechanism
        super().__init__(*args, **kwargs)

    @classmethod
    def rv_op(cls, n, p, scale, *, mechanism, size=None, rng=None):
        """Build the random graph."""
        n, p, scale = pt.as_tensor(n, dtype="int64"), pt.as_tensor(p), pt.as_tensor(scale)
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        if rv_size_is_none(size):
            size = implicit_size_from_params(n, p, scale, ndims_params=cls.ndims_params)
        next_rng, count = multinomial(n, p, size=size, rng=rng, return_next_rng=True)
        cells = pt.concatenate([size, [p.shape[-1]]])
        next_rng, draws = mechanism.release(count.astype("float64"), scale, cells, next_rng)
        op = cls([rng, size, n, p, scale], [next_rng, draws], mechanism=mechanism)
        return op(rng, size, n, p, scale)

    def rebuild_rv(self, *args, **kwargs):
        """Rebuild with new inputs and the same mechanism."""
        return self.rv_op(*args, mechanism=self.mechanism, **kwargs)

    def __eq__(self, other):
        return OpFromGraph.__eq__(self, other) and self.mechanism == other.mechanism

    def __hash__(self):
        return hash((OpFromGraph.__hash__(self), self.mechanism))


class NoisyMultinomial(Distribution):
    r"""A table of counts with a public total that was released through a noise mechanism.

    .. math::

        N \sim \mathrm{Multinomial}(n, p), \qquad y_j = \mathrm{post}(N_j + \varepsilon_j)

    The counts and the noise are summed out, so nothing is sampled but p.

    ==========  =====================================================================
    Support     what the mechanism can publish in each cell
    Mean        :math:`n p_j` before post-processing
    Variance    :math:`n p_j (1 - p_j)` + variance of the noise, before post-processing
    ==========  =====================================================================

    Parameters
    ----------
    n : int
        Public total of the true counts.
    p : tensor_like, shape (k,)
        Probabilities of the cells; they sum to one.
    mechanism : Mechanism or NoiseLaw
        Noise and post-processing; a scale per cell is an array of shape (k,).
    observed : array_like, shape (k,), optional
        Released values, NaN where one was suppressed (see `NoisyPoisson`).

    Raises
    ------
    ImpossibleReleaseError
        If a released value cannot come from the mechanism; names the cell.
    UnsupportedError
        If the noise law has no compiled kernel.

    Notes
    -----
    The likelihood conditions independent tilted counts on their sum. The probability of the sum
    is a saddlepoint with its first correction (error of the log-likelihood below 0.005 for ten
    cells and less for more) and exact where the sum has a small variance. `log_likelihood` is one
    number per draw, that of the whole table.

    References
    ----------
    Wasserman & Zhou (2010), section 4, for histograms with a public total. Daniels (1954),
    Saddlepoint approximations in statistics, equation (2.6).

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from dpbayes import Laplace
    >>> with pm.Model():
    ...     p = pm.Dirichlet("p", np.ones(3))
    ...     y = NoisyMultinomial(
    ...         "y", n=60, p=p, mechanism=Laplace(scale=4), observed=[31.2, 14.9, 22.4]
    ...     )
    """

    rv_type = NoisyMultinomialRV
    rv_op = NoisyMultinomialRV.rv_op

    def __new__(cls, name, *, mechanism, observed=None, **kwargs):
        """Check the released values and register the variable."""
        if observed is not None:
            observed = encode_released(observed, mechanism, name=name)
        return super().__new__(cls, name, mechanism=mechanism, observed=observed, **kwargs)

    @classmethod
    def dist(cls, *, n, p, mechanism, **kwargs):
        """Build a variable outside a model."""
        mechanism = as_mechanism(mechanism)
        static = CountMechanism.of(mechanism)
        if not hasattr(n, "owner") and (np.any(np.asarray(n) != np.round(n)) or np.any(n < 0)):
            raise ParameterError(f"n must be a whole number of at least 0, got {n}")
        p = p if hasattr(p, "owner") else floatX(np.asarray(p, dtype=float))
        p = pt.as_tensor_variable(p)
        scale = pt.as_tensor_variable(floatX(np.asarray(mechanism.noise.scale, dtype=float)))
        scale = pt.broadcast_to(scale, (p.shape[-1],))
        return super().dist(
            [pt.as_tensor_variable(n, dtype="int64"), p, scale], mechanism=static, **kwargs
        )

    def support_point(rv, size, n, p, scale):  # noqa: D102
        point = pt.floor(pt.shape_padright(n) * p)
        if not rv_size_is_none(size):
            point = pt.full(pt.concatenate([size, [p.shape[-1]]]), point)
        return rv.owner.op.mechanism.typical(point)


@_logprob.register(NoisyMultinomialRV)
def _noisy_multinomial_logprob(rv_op, values, rng, size, n, p, scale, **kwargs):
    (value,) = values
    core = NoisyMultinomialLogp(rv_op.mechanism)
    batched = max(value.ndim - 1, p.ndim - 1, n.ndim) > 0
    op = Blockwise(core) if batched else core
    node = op.make_node(value, pt.log(p), n.astype("float64"), scale)
    logp = node.outputs[0]
    return check_parameters(
        logp,
        pt.all(pt.ge(p, 0)),
        pt.all(pt.abs(p.sum(axis=-1) - 1.0) < _WEIGHT_TOLERANCE),
        msg="p >= 0, sum(p) = 1",
    )
