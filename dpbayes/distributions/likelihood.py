"""Log-likelihood of a released statistic, with its derivatives, as one PyTensor operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit
from pytensor.gradient import DisconnectedType, grad_not_implemented
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.scalar import ScalarOp, upgrade_to_float
from pytensor.tensor.elemwise import Elemwise

from dpbayes.distributions.count_mechanism import CountMechanism
from dpbayes.distributions.scalar_ops import register
from dpbayes.kernels import noisy, poisson, preimage
from dpbayes.kernels.families import (
    BINOMIAL,
    DISCRETE_GAUSSIAN,
    NEGATIVE_BINOMIAL,
    NORMAL,
    POISSON,
)

__all__ = ["Law", "is_fixed", "log_likelihood", "log_probability_below"]


@dataclass(frozen=True)
class Law:
    """What is static in the law of a released statistic.

    Parameters
    ----------
    base : int
        Code of the law of the true statistic.
    mechanism : CountMechanism
        Noise family and steps.
    """

    base: int
    mechanism: CountMechanism

    @property
    def name(self) -> str:
        """Name of the distribution."""
        return _NAMES[self.base]

    @property
    def parameters(self) -> int:
        """Number of parameters of the true statistic's law."""
        return 1 if self.base == POISSON else 2


_NAMES = {
    POISSON: "NoisyPoisson",
    BINOMIAL: "NoisyBinomial",
    NEGATIVE_BINOMIAL: "NoisyNegativeBinomial",
    NORMAL: "NoisyNormal",
}
# Positions among (value, parameters..., scale, bound) in which there is a derivative.
_SLOTS = {POISSON: (1, 2), BINOMIAL: (2, 3), NEGATIVE_BINOMIAL: (1, 2, 3), NORMAL: (1, 2, 3)}


def _compiled(law: Law, below: bool, want: tuple[bool, bool]) -> Callable[..., Any]:
    """Log-likelihood of one released value and its derivatives, as a numba function."""
    mechanism = law.mechanism
    base, family, lattice = law.base, mechanism.family, mechanism.step
    steps, table, step = mechanism.program, mechanism.table, lattice if lattice > 0.0 else 1.0
    want_b, want_scale = want
    bounds = preimage.bounds_below if below else preimage.bounds
    if base == POISSON and family <= DISCRETE_GAUSSIAN:
        poisson.NATIVE.prepare()
        closed = poisson.NATIVE.call

        @njit(nogil=True)
        def closed_form(value, mu, scale, bound):
            lower, upper, jacobian = bounds(value, steps, lattice)
            logq, d_mu, d_scale = closed(family, lower, upper, mu, scale, step)
            return logq + jacobian, d_mu, d_scale

        return closed_form

    noisy.NATIVE.prepare()
    logp = noisy.NATIVE.call

    if base == POISSON:

        @njit(nogil=True)
        def one_parameter(value, mu, scale, bound):
            lower, upper, jacobian = bounds(value, steps, lattice)
            logq, d_mu, _, d_scale = logp(
                base, family, lower, upper, mu, 0.0, scale, bound, step, table, want_b, want_scale
            )
            return logq + jacobian, d_mu, d_scale

        return one_parameter

    if base == BINOMIAL:

        @njit(nogil=True)
        def binomial(value, n, p, scale, bound):
            lower, upper, jacobian = bounds(value, steps, lattice)
            logq, _, d_p, d_scale = logp(
                base, family, lower, upper, n, p, scale, bound, step, table, want_b, want_scale
            )
            return logq + jacobian, d_p, d_scale

        return binomial

    @njit(nogil=True)
    def two_parameters(value, a, b, scale, bound):
        lower, upper, jacobian = bounds(value, steps, lattice)
        logq, d_a, d_b, d_scale = logp(
            base, family, lower, upper, a, b, scale, bound, step, table, want_b, want_scale
        )
        return logq + jacobian, d_a, d_b, d_scale

    return two_parameters


class _Compiled(ScalarOp):
    """Scalar operation whose code is a numba function made from its static properties."""

    def __init__(self, law: Law, *static: Any, name: str) -> None:
        self.law, self.static = law, static
        self._function: Any = None
        self.nin = law.parameters + 3
        super().__init__(upgrade_to_float, name=name)

    @property
    def properties(self) -> tuple[Any, ...]:
        """What makes two operations equal."""
        return (self.law, *self.static)

    def compiled(self) -> Any:
        """Numba function of the inputs."""
        raise NotImplementedError

    def impl(self, *inputs):
        """Evaluate outside compiled graphs."""
        if self._function is None:
            self._function = self.compiled()
        return self._function(*(float(x) for x in inputs))

    def c_code(self, *args, **kwargs):
        """Refuse: the compiled version is numba's."""
        raise NotImplementedError("no C code")

    def __eq__(self, other):
        return type(self) is type(other) and self.properties == other.properties

    def __hash__(self):
        return hash((type(self), self.properties))

    def __getstate__(self):
        return {**self.__dict__, "_function": None}


class NoisyLogp(_Compiled):
    """Log-likelihood of a released value, then its derivatives.

    Inputs are the value, the parameters of the true statistic's law, the scale and the bound of
    the noise. The derivatives are outputs too because they come out of the same sums.

    Parameters
    ----------
    law : Law
        The law.
    below : bool
        Whether the probability of "at most the value" is wanted, not its density or mass.
    want : tuple of bool
        Whether the derivatives in the second parameter and in the scale are needed.
    """

    def __init__(self, law: Law, below: bool, want: tuple[bool, bool]) -> None:
        self.slots = _SLOTS[law.base]
        self.nout = 1 + len(self.slots)
        super().__init__(law, below, want, name=f"{law.name}_{'logcdf' if below else 'logp'}")

    def output_types(self, types):
        """All outputs are floats of one kind."""
        return [upgrade_to_float(*types)[0]] * self.nout

    def compiled(self) -> Any:
        """Numba function of the inputs."""
        return _compiled(self.law, *self.static)

    def pullback(self, inputs, outputs, output_gradients):
        """Chain rule: the derivatives are there, theirs are differences."""
        result = [grad_not_implemented(self, i, x, _reason(self, i)) for i, x in enumerate(inputs)]
        for slot, position in enumerate(self.slots):
            terms = []
            if not isinstance(output_gradients[0].type, DisconnectedType):
                terms.append(output_gradients[0] * outputs[1 + slot])
            for other in range(len(self.slots)):
                gz = output_gradients[1 + other]
                if not isinstance(gz.type, DisconnectedType):
                    op = SecondDerivative(self.law, self.static[0], 1 + other, position)
                    terms.append(gz * op(*inputs))
            if terms:
                result[position] = sum(terms[1:], terms[0])
        return result


def _reason(op: NoisyLogp, position: int) -> str:
    """Why there is no derivative in an input."""
    if position == 0:
        return "the released value is data"
    if position == op.nin - 1:
        return "the bound of the noise is a published constant"
    return "the number of trials is a whole number"


class SecondDerivative(_Compiled):
    """Derivative of a derivative of the log-likelihood, by a fourth-order difference.

    Parameters
    ----------
    law : Law
        The law.
    below : bool
        As in `NoisyLogp`.
    output : int
        Which output of `NoisyLogp` is differentiated.
    position : int
        In which of its inputs.
    """

    def __init__(self, law: Law, below: bool, output: int, position: int) -> None:
        super().__init__(law, below, output, position, name=f"{law.name}_second_derivative")

    def compiled(self) -> Any:
        """Numba function of the inputs."""
        below, output, position = self.static
        first = _compiled(self.law, below, noisy.EVERYTHING)
        base = self.law.base
        if base == POISSON:

            @njit(nogil=True)
            def difference(value, mu, scale, bound):
                h = 1e-3 * (min(mu, np.sqrt(mu)) if position == 1 else scale)
                total = 0.0
                for shift, weight in ((-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)):
                    if position == 1:
                        part = first(value, mu + shift * h, scale, bound)
                    else:
                        part = first(value, mu, scale + shift * h, bound)
                    total += weight * (part[1] if output == 1 else part[2])
                return total / (12.0 * h) if h > 0.0 else np.nan

            return difference

        third = min(3, len(_SLOTS[base]))

        @njit(nogil=True)
        def difference_of_two(value, a, b, scale, bound):
            h = b
            if position == 1 and base != NORMAL:
                h = min(a, np.sqrt(a))
            elif position == 2 and base == BINOMIAL:
                h = min(min(b, 1.0 - b), np.sqrt(b * (1.0 - b) / max(a, 1.0)))
            elif position == 3:
                h = scale
            h *= 1e-3
            total = 0.0
            for shift, weight in ((-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)):
                if position == 1:
                    part = first(value, a + shift * h, b, scale, bound)
                elif position == 2:
                    part = first(value, a, b + shift * h, scale, bound)
                else:
                    part = first(value, a, b, scale + shift * h, bound)
                if output == 1:
                    total += weight * part[1]
                elif output == 2:
                    total += weight * part[2]
                else:
                    total += weight * part[third]
            return total / (12.0 * h) if h > 0.0 else np.nan

        return difference_of_two

    def pullback(self, inputs, outputs, output_gradients):
        """Refuse third derivatives."""
        reason = f"third derivatives of {self.law.name} are not available"
        return [grad_not_implemented(self, i, x, reason) for i, x in enumerate(inputs)]


for _op in (NoisyLogp, SecondDerivative):
    register(
        _op,
        lambda op: op.compiled(),
        lambda op: repr((op.law.base, op.law.mechanism.key, op.static)),
    )


def log_likelihood(law: Law, value: Any, *inputs: Any) -> Any:
    """Log-likelihood of released values, elementwise.

    Parameters
    ----------
    law : Law
        The law.
    value : tensor_like
        Released values, minus infinity where suppressed.
    *inputs : tensor_like
        Parameters of the true statistic's law, noise scale, noise bound.
    """
    return _apply(law, False, value, inputs)


def log_probability_below(law: Law, value: Any, *inputs: Any) -> Any:
    """Log-probability that at most `value` is published, or nothing; as `log_likelihood`."""
    if not law.mechanism.has_order:
        raise NotImplementedError(
            "logcdf is not defined where values are suppressed and rescaled by a negative factor: "
            "suppressed values would come last"
        )
    return _apply(law, True, value, inputs)


def _apply(law: Law, below: bool, value: Any, inputs: tuple[Any, ...]) -> Any:
    want = (not is_fixed(inputs[1]), not is_fixed(inputs[-2]))
    op = Elemwise(NoisyLogp(law, below, want))
    return op.make_node(value, *(pt.as_tensor(x) for x in inputs)).outputs[0]


def is_fixed(variable: Any) -> bool:
    """Whether an input is made of constants only."""
    return all(isinstance(x, Constant) for x in graph_inputs([pt.as_tensor(variable)]))
