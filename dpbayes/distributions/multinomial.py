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
from pymc.pytensorf import normalize_rng_param
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import DisconnectedType, grad_not_implemented
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.basic import register_funcify_and_cache_key
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.random.basic import multinomial
from pytensor.tensor.random.utils import normalize_size_param

from dpbayes.distributions.count_mechanism import CountMechanism, noise_parameters
from dpbayes.distributions.likelihood import is_fixed
from dpbayes.distributions.noisy import tensor
from dpbayes.distributions.observed import encode_released
from dpbayes.distributions.release_graph import release, typical
from dpbayes.distributions.scalar_ops import CACHE_VERSION
from dpbayes.errors import ParameterError
from dpbayes.kernels import preimage
from dpbayes.kernels.multinomial import NATIVE
from dpbayes.mechanism import as_mechanism

__all__ = ["NoisyMultinomial"]

_WEIGHT_TOLERANCE = 1e-6
_NO_SECOND = "second derivatives of NoisyMultinomial are not available"


def _compiled(mechanism: CountMechanism, want_scale: bool) -> Any:
    """Log-likelihood of one released table and its gradients, as a numba function."""
    family, lattice = mechanism.family, mechanism.step
    steps, table = mechanism.program, mechanism.table
    step = lattice if lattice > 0.0 else 1.0
    bounds = preimage.bounds
    NATIVE.prepare()
    kernel = NATIVE.call

    @njit(nogil=True)
    def released_logp(value, log_p, n, scale, bound):
        # Fresh arrays: the kernel takes one kind of array only.
        lower, upper, jacobian = np.empty(value.size), np.empty(value.size), np.empty(value.size)
        gradient, by_scale = np.empty(value.size), np.empty(value.size)
        for j in range(value.size):
            lower[j], upper[j], jacobian[j] = bounds(value[j], steps, lattice)
        logp = kernel(
            family, lower, upper, scale.copy(), bound.copy(), step, table, jacobian, log_p.copy(),
            n, want_scale, gradient, by_scale,
        )  # fmt: skip
        return logp, gradient, by_scale

    return released_logp


class NoisyMultinomialLogp(Op):
    """Log-likelihood of a released table given log p and the public total, and its gradients.

    Inputs are the released values, log p, n, and the scale and bound of the noise of each cell.
    The gradients in log p and in the scales are outputs too because they come out of the same
    solution for the tilt.
    """

    __props__ = ("mechanism", "want_scale")
    gufunc_signature = "(k),(k),(),(k),(k)->(),(k),(k)"

    def __init__(self, mechanism: CountMechanism, want_scale: bool) -> None:
        self.mechanism, self.want_scale = mechanism, want_scale
        self._function: Any = None

    def make_node(self, *inputs):
        """Five float inputs; a number and two vectors."""
        floats = [pt.as_tensor(x).astype("float64") for x in inputs]
        return Apply(self, floats, [pt.dscalar(), pt.dvector(), pt.dvector()])

    def infer_shape(self, node, shapes):
        """Shapes of the outputs."""
        return [(), shapes[1], shapes[1]]

    def perform(self, node, inputs, outputs):
        """Evaluate outside compiled graphs."""
        if self._function is None:
            self._function = _compiled(self.mechanism, self.want_scale)
        value, log_p, n, scale, bound = (np.ascontiguousarray(x) for x in inputs)
        logp, gradient, by_scale = self._function(value, log_p, n.item(), scale, bound)
        outputs[0][0], outputs[1][0], outputs[2][0] = np.asarray(logp), gradient, by_scale

    def pullback(self, inputs, outputs, output_gradients):
        """Chain rule in log p and the scales; everything else is data."""
        first, *others = output_gradients
        if any(not isinstance(gz.type, DisconnectedType) for gz in others):
            return [grad_not_implemented(self, i, x, _NO_SECOND) for i, x in enumerate(inputs)]
        result = [grad_not_implemented(self, i, x, "it is data") for i, x in enumerate(inputs)]
        result[1], result[3] = first * outputs[1], first * outputs[2]
        return result

    def __getstate__(self):
        return {**self.__dict__, "_function": None}


@register_funcify_and_cache_key(NoisyMultinomialLogp)
def _funcify(op: NoisyMultinomialLogp, node: Any = None, **kwargs: Any) -> tuple[Any, str]:
    all_of_them = _compiled(op.mechanism, op.want_scale)

    @numba_basic.numba_njit
    def compiled(value, log_p, n, scale, bound):
        logp, gradient, by_scale = all_of_them(value, log_p, n.item(), scale, bound)
        return np.asarray(logp), gradient, by_scale

    return compiled, f"{type(op).__name__} {op.mechanism.key} {op.want_scale} {CACHE_VERSION}"


class NoisyMultinomialRV(SymbolicRandomVariable):
    """Multinomial counts, plus noise, through the steps of the mechanism."""

    name = "noisy_multinomial"
    extended_signature = "[rng],[size],(),(k),(k),(k)->[rng],(k)"
    _print_name = ("NoisyMultinomial", "\\operatorname{NoisyMultinomial}")

    def __init__(self, *args: Any, mechanism: CountMechanism, **kwargs: Any) -> None:
        self.mechanism = mechanism
        super().__init__(*args, **kwargs)

    @classmethod
    def rv_op(cls, n, p, scale, bound, *, mechanism, size=None, rng=None):
        """Build the random graph."""
        n = pt.as_tensor(n, dtype="int64")
        p, scale, bound = (pt.as_tensor(x) for x in (p, scale, bound))
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        if rv_size_is_none(size):
            size = implicit_size_from_params(n, p, scale, bound, ndims_params=cls.ndims_params)
        next_rng, count = multinomial(n, p, size=size, rng=rng, return_next_rng=True)
        cells = pt.concatenate([size, [p.shape[-1]]])
        next_rng, draws = release(
            mechanism,
            count.astype("float64"),
            pt.broadcast_to(scale, cells),
            pt.broadcast_to(bound, cells),
            cells,
            next_rng,
        )
        op = cls([rng, size, n, p, scale, bound], [next_rng, draws], mechanism=mechanism)
        return op(rng, size, n, p, scale, bound)

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
    scale : tensor_like, optional
        Noise scale in place of that of `mechanism`, a number or of shape (k,).
    observed : array_like, shape (k,), optional
        Released values, NaN where one was suppressed (see `NoisyPoisson`).

    Raises
    ------
    ImpossibleReleaseError
        If a released value cannot come from the mechanism; names the cell.
    ParameterError
        If n is not a whole number of at least 0, or the shapes of p and of the released values
        differ.
    UnsupportedError
        If the noise lives on a lattice that holds no whole numbers, or a scale is given for a
        law that has none.

    Notes
    -----
    The likelihood conditions independent tilted counts on their sum. The probability of the sum
    is a saddlepoint with its first correction where the next term of its expansion shows that the
    log-likelihood is right to 0.001, and exact elsewhere (few cells, or noise so small that the
    counts are almost known). `log_likelihood` is one number per draw, that of the whole table.

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

    def __new__(cls, name, *, mechanism, p, observed=None, n, **kwargs):
        """Check the released values and register the variable."""
        if observed is not None:
            highest = np.inf if isinstance(n, Variable) else np.expand_dims(n, -1)
            observed = encode_released(observed, mechanism, name=name, highest=highest)
            cells = p.type.shape[-1] if isinstance(p, Variable) else np.shape(p)[-1]
            if not isinstance(observed, Variable) and cells not in (None, observed.shape[-1]):
                raise ParameterError(
                    f"p must have one entry per released value of {name}, got {cells} entries "
                    f"against released values of shape {observed.shape}"
                )
        return super().__new__(
            cls, name, mechanism=mechanism, observed=observed, n=n, p=p, **kwargs
        )

    @classmethod
    def dist(cls, *, n, p, mechanism, scale=None, **kwargs):
        """Build a variable outside a model."""
        mechanism = as_mechanism(mechanism)
        static = CountMechanism.of(mechanism)
        known = n.data if isinstance(n, Constant) else n
        if not isinstance(known, Variable):
            array = np.asarray(known, dtype=float)
            if np.any(array != np.round(array)) or np.any(array < 0):
                raise ParameterError(f"n must be a whole number of at least 0, got {n}")
        p = tensor(p)
        scale, bound = noise_parameters(mechanism.noise, scale)
        scale, bound = (_per_cell(tensor(x), p) for x in (scale, bound))
        return super().dist(
            [pt.as_tensor_variable(n, dtype="int64"), p, scale, bound],
            mechanism=static,
            **kwargs,
        )

    def support_point(rv, size, n, p, scale, bound):  # noqa: D102
        point = pt.floor(pt.shape_padright(n) * p)
        if not rv_size_is_none(size):
            point = pt.full(pt.concatenate([size, [p.shape[-1]]]), point)
        return typical(rv.owner.op.mechanism, point)


def _per_cell(x: Any, p: Any) -> Any:
    """Give a parameter of the noise one entry per cell."""
    return pt.broadcast_to(x, (p.shape[-1],)) if x.ndim == 0 else x


@_logprob.register(NoisyMultinomialRV)
def _noisy_multinomial_logprob(rv_op, values, rng, size, n, p, scale, bound, **kwargs):
    (value,) = values
    core = NoisyMultinomialLogp(rv_op.mechanism, not is_fixed(scale))
    batched = max(value.ndim - 1, p.ndim - 1, scale.ndim - 1, n.ndim) > 0
    op = Blockwise(core) if batched else core
    node = op.make_node(value, pt.log(p), n.astype("float64"), scale, bound)
    return check_parameters(
        node.outputs[0],
        pt.all(pt.ge(n, 0)),
        pt.all(pt.ge(p, 0)),
        pt.all(pt.abs(p.sum(axis=-1) - 1.0) < _WEIGHT_TOLERANCE),
        pt.all(pt.gt(scale, 0)),
        msg="n >= 0, p >= 0, sum(p) = 1, scale > 0",
    )
