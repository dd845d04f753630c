"""Masses of atoms in coordinates that suit a posterior near zero as well as far from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Continuous, SymbolicRandomVariable
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

__all__ = ["AtomCoordinates", "atom_log_odds"]

_SHARPNESS = 2.5  # how fast the map turns from odds to log odds


def atom_log_odds(xi: Any, center: Any, factor: Any) -> Any:
    """Log odds η of the atoms: linear in the odds above about half their mode, in η below.

    η = center + log(softplus(s (1 + L ξ)) / softplus(s))

    Parameters
    ----------
    xi : tensor_like, shape (m,)
        Coordinates.
    center : array, shape (m,)
        Mode of η.
    factor : array, shape (m, m)
        Lower triangle L.
    """
    inner = pt.softplus(_SHARPNESS * (1.0 + pt.dot(factor, xi)))
    return center + pt.log(inner) - np.log(np.logaddexp(0.0, _SHARPNESS))


class AtomCoordinatesRV(SymbolicRandomVariable):
    """Coordinates ξ of log odds η ~ N(mean, sd²)."""

    name = "atom_coordinates"
    extended_signature = "[rng],[size],(m),(m,m),(),()->[rng],(m)"
    _print_name = ("AtomCoordinates", "\\operatorname{AtomCoordinates}")

    @classmethod
    def rv_op(cls, center, factor, mean, sd, *, size=None, rng=None):
        """Draw η from its prior and invert the map."""
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        center, factor, mean, sd = (
            pt.as_tensor_variable(x).astype("float64") for x in (center, factor, mean, sd)
        )
        next_rng, eta = pt.random.normal(mean, sd, size=center.shape, rng=rng, return_next_rng=True)
        inner = pt.exp(eta - center) * np.logaddexp(0.0, _SHARPNESS)
        # The inverse of softplus, for large arguments too.
        moved = (inner + pt.log(-pt.expm1(-inner))) / _SHARPNESS - 1.0
        xi = pt.linalg.solve_triangular(factor, moved, lower=True)
        return cls(inputs=[rng, size, center, factor, mean, sd], outputs=[next_rng, xi])(
            rng, size, center, factor, mean, sd
        )


class AtomCoordinates(Continuous):
    r"""Coordinates ξ of the masses of atoms, whose log odds η against the cells are normal.

    .. math:: p(\xi) = N(\eta(\xi); \mu, \sigma^2) \, |d\eta / d\xi|

    A posterior of the mass that is nearly normal far from zero is so in ξ, and one that
    reaches down to zero has an ordinary tail there.

    Parameters
    ----------
    center : array, shape (m,)
        Mode of η.
    factor : array, shape (m, m)
        Lower triangle that scales the coordinates (see `atom_log_odds`).
    mean, sd : float
        Prior mean and standard deviation of η.
    """

    rv_type = AtomCoordinatesRV
    rv_op = AtomCoordinatesRV.rv_op

    @classmethod
    def dist(cls, center, factor, mean, sd, **kwargs):
        """Build a variable outside a model."""
        return super().dist([center, factor, mean, sd], **kwargs)

    def support_point(rv, size, center, factor, mean, sd):
        """Mode of the posterior."""
        return pt.zeros_like(center)

    def logp(value, center, factor, mean, sd):
        """Log density of the coordinates."""
        argument = _SHARPNESS * (1.0 + pt.dot(factor, value))
        eta = atom_log_odds(value, center, factor)
        normal = -0.5 * ((eta - mean) / sd) ** 2 - pt.log(sd) - 0.5 * np.log(2.0 * np.pi)
        slope = np.log(_SHARPNESS) - pt.softplus(-argument) - pt.log(pt.softplus(argument))
        return (normal + slope + pt.log(pt.diagonal(factor))).sum()
