"""Privacy loss of additive noise followed by monotone steps, exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpbayes.errors import UnsupportedError
from dpbayes.mechanism import Mechanism, Round, bounds_log_likelihood
from dpbayes.noise import (
    CustomNoise,
    DiscreteLaplace,
    Laplace,
    NoNoise,
    TruncatedDiscreteLaplace,
    TruncatedLaplace,
)
from dpbayes.privacy.result import Audit

__all__ = ["audit"]

_TRUNCATED = (TruncatedLaplace, TruncatedDiscreteLaplace)
_REASON = "exact: the likelihood ratio is monotone in the output"
_DISJOINT = "exact: some outputs of one are impossible for the other"
#: Relative tolerance of differences that must be multiples of the step of a lattice.
_LATTICE = 1e-9


def audit(
    mechanism: Mechanism,
    pairs: list[tuple[np.ndarray, np.ndarray]],
    claim: float | None,
    shared_noise: bool,
) -> Audit:
    """Largest loss over ordered pairs of statistics."""
    if isinstance(mechanism.noise, CustomNoise):
        raise UnsupportedError(
            "nothing is known about the shape of a CustomNoise: audit the function "
            "lambda x, z: noise.logpdf(z - x) with outputs=(lo, hi) and lipschitz="
        )
    best = Audit(-np.inf, -np.inf, None, None, claim, "")
    known: dict[tuple[Any, ...], tuple[float, Any, str]] = {}
    for x, y in pairs:
        one, other = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        if shared_noise:
            loss, output, reason = _shared(mechanism, one.reshape(-1), other.reshape(-1))
        else:
            loss, output, reason = _cells(mechanism, one, other, known)
        if loss > best.epsilon:
            best = Audit(loss, loss, (x, y), output, claim, reason)
    return best


def _cells(
    mechanism: Mechanism,
    one: np.ndarray,
    other: np.ndarray,
    known: dict[tuple[Any, ...], tuple[float, Any, str]],
) -> tuple[float, Any, str]:
    """Sum of the suprema of cells with independent noise: reached by one output of all."""
    shape = np.broadcast_shapes(one.shape, mechanism.noise.shape)
    first, second = (np.broadcast_to(a, shape).reshape(-1) for a in (one, other))
    varies = bool(mechanism.noise.shape)
    total, outputs, reason = 0.0, [], _REASON
    for i, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        if a == b:
            outputs.append("any")
            continue
        key = (i if varies else -1, a, b)
        if key not in known:
            single = Mechanism(mechanism.noise.at(i), mechanism.steps) if varies else mechanism
            known[key] = _supremum(single, a, b)
        loss, output, why = known[key]
        total += loss
        outputs.append(output)
        reason = why if why != _REASON else reason
    return total, outputs[0] if len(outputs) == 1 else outputs, reason


def _shared(mechanism: Mechanism, one: np.ndarray, other: np.ndarray) -> tuple[float, Any, str]:
    """Loss where one draw of noise was added to all cells.

    Differences between cells are then published as they are.
    """
    shift = one - other
    alike = np.ptp(shift) == 0
    if alike and shift[0] == 0:
        return 0.0, "any", _REASON
    if alike and (one.size == 1 or not mechanism.steps):
        return _supremum(mechanism, float(one[0]), float(other[0]))
    if any(isinstance(step, Round) for step in mechanism.steps) or alike:
        raise UnsupportedError(
            "noise shared between cells of a processed release: use audit_samples"
        )
    return np.inf, "any: differences between cells carry no noise", _DISJOINT


def _supremum(mechanism: Mechanism, a: float, b: float) -> tuple[float, Any, str]:
    r"""Supremum of log Q(z \| a) - log Q(z \| b) over outputs z.

    The noise is log-concave, so that the ratio is monotone in statistic + noise, and the
    steps are monotone, so that it stays monotone in the output: look at the end on a's side.
    """
    noise = mechanism.noise
    if noise.is_lattice:
        apart = (a - b) / noise.step
        rounded = any(isinstance(step, Round) for step in mechanism.steps)
        if abs(apart - round(apart)) > _LATTICE * max(1.0, abs(apart)):
            if rounded:
                raise UnsupportedError(
                    f"statistics {a:g} and {b:g} differ by no multiple of the step "
                    f"{noise.step:g} of the noise, and rounding follows: use audit_samples"
                )
            return np.inf, f"any multiple of {noise.step:g} from {a:g}", _DISJOINT
    if isinstance(noise, NoNoise):
        same = bool(mechanism.forward(np.array(a)) == mechanism.forward(np.array(b)))
        return (0.0, "any", _REASON) if same else (np.inf, a, _DISJOINT)
    reach = float(noise.bound) if isinstance(noise, _TRUNCATED) else np.inf
    end = a - reach if a < b else a + reach
    last = float(mechanism.forward(np.array(end)))
    if not np.isinf(last):
        loss = _loss_at(mechanism, last, a, b)
        output = "suppressed" if np.isnan(last) else last
        return loss, output, _REASON if np.isfinite(loss) else _DISJOINT
    where = "towards -infinity" if last < 0 else "towards +infinity"
    if isinstance(noise, Laplace | DiscreteLaplace):
        # The tail is exactly exponential, whatever interval is rounded to one output.
        return abs(a - b) / float(noise.scale), where, _REASON
    return np.inf, where, "exact: the likelihood ratio has no bound"


def _loss_at(mechanism: Mechanism, released: float, a: float, b: float) -> float:
    """Log ratio at the last output."""
    noise, found = mechanism.noise, mechanism.interval(np.array(released))
    # Both statistics lie on one lattice, which need not hold 0.
    shifted = replace(found, lower=found.lower - a, upper=found.upper - a)
    bounds = shifted.bounds(noise.step if noise.is_lattice else 0.0)
    first, second = (float(bounds_log_likelihood(noise, bounds, np.array(s))) for s in (0.0, b - a))
    return first - second
