"""Poisson counts that were released with noise."""

from __future__ import annotations

from collections.abc import Callable
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
from pytensor.gradient import grad_not_implemented
from pytensor.scalar import ScalarOp, upgrade_to_float
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import poisson
from pytensor.tensor.random.utils import normalize_size_param

from dpbayes.distributions.count_mechanism import CountMechanism
from dpbayes.distributions.observed import encode_released
from dpbayes.distributions.scalar_ops import register
from dpbayes.errors import ParameterError
from dpbayes.kernels import poisson as kernel
from dpbayes.kernels import preimage
from dpbayes.mechanism import as_mechanism

__all__ = ["NoisyPoisson"]

VALUE, D_MU, D_SCALE = 0, 1, 2


def _compiled(mechanism: CountMechanism, part: int) -> Callable[[float, float, float], float]:
    """Log-likelihood of one released value (or a derivative) as a numba function."""
    family, lattice, steps = mechanism.family, mechanism.step, mechanism.program
    step = lattice if lattice > 0.0 else 1.0
    bounds, logp = preimage.bounds, kernel.logp

    @njit(nogil=True)
    def released_logp(value, mu, scale):
        lower, upper, jacobian = bounds(value, steps, lattice)
        triple = logp(family, lower, upper, mu, scale, step)
        if part == VALUE:
            return triple[VALUE] + jacobian
        return triple[D_MU] if part == D_MU else triple[D_SCALE]

    return released_logp


class NoisyPoissonPart(ScalarOp):
    """Log-likelihood of a released count given mu and scale, or one of its derivatives."""

    nin = 3

    def __init__(self, mechanism: CountMechanism, part: int) -> None:
        self.mechanism, self.part = mechanism, part
        self._function: Callable[[float, float, float], float] | None = None
        super().__init__(upgrade_to_float, name=f"noisy_poisson_{('logp', 'dmu', 'dscale')[part]}")

    def impl(self, value, mu, scale):
        """Evaluate outside compiled graphs."""
        if self._function is None:
            self._function = _compiled(self.mechanism, self.part)
        return self._function(float(value), float(mu), float(scale))

    def c_code(self, *args, **kwargs):
        """Refuse: the compiled version is numba's."""
        raise NotImplementedError("no C code")

    def pullback(self, inputs, outputs, output_gradients):
        """Chain rule in mu and scale; the released value is data."""
        (gz,) = output_gradients
        no_value = grad_not_implemented(self, 0, inputs[0], "the released value is data")
        if self.part != VALUE:
            return [no_value, *(grad_not_implemented(self, i, inputs[i]) for i in (1, 2))]
        return [
            no_value,
            gz * NoisyPoissonPart(self.mechanism, D_MU)(*inputs),
            gz * NoisyPoissonPart(self.mechanism, D_SCALE)(*inputs),
        ]

    def __eq__(self, other):
        same = type(self) is type(other)
        return same and (self.mechanism, self.part) == (other.mechanism, other.part)

    def __hash__(self):
        return hash((type(self), self.mechanism, self.part))

    def __getstate__(self):
        return {**self.__dict__, "_function": None}


register(
    NoisyPoissonPart,
    lambda op: _compiled(op.mechanism, op.part),
    lambda op: f"{op.mechanism.key} {op.part}",
    inputs=3,
)


class NoisyPoissonRV(SymbolicRandomVariable):
    """Poisson count, plus noise, through the steps of the mechanism."""

    name = "noisy_poisson"
    extended_signature = "[rng],[size],(),()->[rng],()"
    _print_name = ("NoisyPoisson", "\\operatorname{NoisyPoisson}")

    def __init__(self, *args: Any, mechanism: CountMechanism, **kwargs: Any) -> None:
        self.mechanism = mechanism
        super().__init__(*args, **kwargs)

    @classmethod
    def rv_op(cls, mu, scale, *, mechanism, size=None, rng=None):
        """Build the random graph."""
        mu, scale = pt.as_tensor(mu), pt.as_tensor(scale)
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        if rv_size_is_none(size):
            size = implicit_size_from_params(mu, scale, ndims_params=cls.ndims_params)
        # An explicit size: noise is independent from cell to cell even where scale is a scalar.
        next_rng, count = poisson(mu, size=size, rng=rng, return_next_rng=True)
        next_rng, draws = mechanism.release(count.astype("float64"), scale, size, next_rng)
        op = cls([rng, size, mu, scale], [next_rng, draws], mechanism=mechanism)
        return op(rng, size, mu, scale)

    def rebuild_rv(self, *args, **kwargs):
        """Rebuild with new inputs and the same mechanism."""
        return self.rv_op(*args, mechanism=self.mechanism, **kwargs)

    def __eq__(self, other):
        return OpFromGraph.__eq__(self, other) and self.mechanism == other.mechanism

    def __hash__(self):
        return hash((OpFromGraph.__hash__(self), self.mechanism))


class NoisyPoisson(Distribution):
    r"""A Poisson count that was released through a noise mechanism.

    .. math::

        N \sim \mathrm{Poisson}(\mu), \qquad y = \mathrm{post}(N + \varepsilon)

    The count and the noise are summed out, and rounding, clamping and suppression are part of
    the likelihood: a clamped value says "at the clamp or beyond", a suppressed one "below the
    threshold". Cost and accuracy do not depend on the size of the count.

    ==========  =====================================================================
    Support     what the mechanism can publish
    Mean        :math:`\mu` before post-processing
    Variance    :math:`\mu` + variance of the noise, before post-processing
    ==========  =====================================================================

    Parameters
    ----------
    mu : tensor_like
        Mean of the true count (mu >= 0).
    mechanism : Mechanism or NoiseLaw
        Noise and post-processing.
    scale : tensor_like, optional
        Noise scale in place of that of `mechanism` (b of the Laplace laws, sd or sigma of the
        Gaussian laws): a random variable where the scale was not published.
    observed : array_like, optional
        Released values, NaN where one was suppressed (the mechanism then has a `Suppress` step).
        Values in a ``pm.Data`` container have suppressed cells as minus infinity: see
        `encode_released`.

    Raises
    ------
    ImpossibleReleaseError
        If a released value cannot come from the mechanism; names the cell.
    UnsupportedError
        If the noise law has no compiled kernel.

    Notes
    -----
    The gradient uses :math:`\partial g(y) / \partial \mu = g(y - 1) - g(y)`, which holds for any
    noise. In posterior predictive draws suppressed cells are minus infinity.

    References
    ----------
    Wasserman & Zhou (2010), Lemma 2.6, for noisy counts.

    Examples
    --------
    >>> import pymc as pm
    >>> from dpbayes import Clamp, DiscreteLaplace, Mechanism
    >>> published = Mechanism(DiscreteLaplace(scale=10), steps=[Clamp(lower=0)])
    >>> with pm.Model():
    ...     mu = pm.Gamma("mu", 2, 0.1, shape=3)
    ...     y = NoisyPoisson("y", mu=mu, mechanism=published, observed=[0, 31, 12])
    """

    rv_type = NoisyPoissonRV
    rv_op = NoisyPoissonRV.rv_op

    def __new__(cls, name, *, mechanism, observed=None, **kwargs):
        """Check the released values and register the variable."""
        if observed is not None:
            observed = encode_released(observed, mechanism, name=name)
        return super().__new__(cls, name, mechanism=mechanism, observed=observed, **kwargs)

    @classmethod
    def dist(cls, *, mu, mechanism, scale=None, **kwargs):
        """Build a variable outside a model."""
        mechanism = as_mechanism(mechanism)
        scale = mechanism.noise.scale if scale is None else scale
        if scale is None:
            raise ParameterError(f"scale must be given for {mechanism.noise!r}, got None")
        params = [pt.as_tensor_variable(floatX(_plain(x))) for x in (mu, scale)]
        return super().dist(params, mechanism=CountMechanism.of(mechanism), **kwargs)

    def support_point(rv, size, mu, scale):  # noqa: D102
        point = pt.broadcast_arrays(pt.floor(mu), scale)[0]
        if not rv_size_is_none(size):
            point = pt.full(size, point)
        return rv.owner.op.mechanism.typical(point)


def _plain(x: Any) -> Any:
    """Arrays of labelled or nested data as floats; tensors as they are."""
    return x if hasattr(x, "owner") else np.asarray(x, dtype=float)


@_logprob.register(NoisyPoissonRV)
def _noisy_poisson_logprob(op, values, rng, size, mu, scale, **kwargs):
    (value,) = values
    logp = Elemwise(NoisyPoissonPart(op.mechanism, VALUE))(value, mu, scale)
    return check_parameters(logp, mu >= 0, scale > 0, msg="mu >= 0, scale > 0")
