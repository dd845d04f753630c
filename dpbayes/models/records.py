"""PyMC model of perturbed records under a smooth prior, in whitened coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from dpbayes.distributions.atoms import AtomCoordinates, atom_log_odds
from dpbayes.distributions.mixture import NoisyMixture
from dpbayes.distributions.straighten import Straightened, straighten
from dpbayes.models.record_plan import (
    Candidate,
    RecordPlan,
    default_cells,
    plan_records,
    prior_draws,
    split_elements,
    table_draws,
)
from dpbayes.models.smooth import ATOM_MEAN, ATOM_SD, LOG_TAU_MEAN, LOG_TAU_SD, Whitening
from dpbayes.priors import Smooth
from dpbayes.releases import RecordRelease
from dpbayes.schema import ATOM, ATOM_PROBABILITY, BIN, PROBABILITY, RELEASED, VALUE

__all__ = [
    "ELEMENT",
    "SCALE",
    "Candidate",
    "RecordPlan",
    "build",
    "default_cells",
    "plan_records",
    "prior_draws",
    "split_elements",
    "table_draws",
]

ELEMENT = "element"  # weights of all basis elements, cells first
SCALE = "walk_scale"  # τ, standard deviation of the log density of P over its range


def build(
    release: RecordRelease, prior: Smooth | None = None, *, plan: RecordPlan | None = None
) -> pm.Model:
    """Model of the release in coordinates in which its posterior is nearly standard normal.

    Every free variable is normal given those before it, so that prior predictive sampling
    draws from the prior exactly as stated in `dpbayes.models.smooth`; only the coordinates
    depend on the release.

    Parameters
    ----------
    release : RecordRelease
        What was published.
    prior : Smooth, optional
        Prior on P; ``Smooth()`` by default.
    plan : RecordPlan, optional
        Result of `plan_records(release, prior)` where that is at hand.

    Returns
    -------
    pymc.Model
        With `probability` (dim bin, or value for whole numbers), `atom_probability` (dim
        atom) where there are atoms, `element` (both in one vector), `walk_scale`, and the
        observed counts of released records by cell, `released`.
    """
    plan = plan_records(release, prior) if plan is None else plan
    cell_dim = VALUE if plan.integers else BIN
    coords = {cell_dim: plan.lower.astype(int) if plan.integers else plan.lower}
    if plan.atoms.size and not plan.integers:
        coords[ATOM] = plan.atoms
    with pm.Model(coords=coords) as model:
        element = pm.Deterministic(ELEMENT, _weights(plan))
        _name_parts(plan, element, cell_dim)
        NoisyMixture(
            RELEASED,
            weights=element,
            mechanism=release.mechanism,
            edges=plan.edges,
            atoms=np.r_[plan.lower, plan.atoms] if plan.integers else plan.atoms,
            observed=plan.records,
        )
    return model


def _weights(plan: RecordPlan) -> TensorVariable:
    """Weights of cells and atoms from whitened variables."""
    white = plan.whitening
    standard = pm.Normal(
        "scale_coordinate",
        (LOG_TAU_MEAN - white.log_tau_mean) / white.log_tau_sd,
        LOG_TAU_SD / white.log_tau_sd,
    )
    tau = pm.Deterministic(SCALE, pt.exp(white.log_tau_mean + white.log_tau_sd * standard))
    atoms, rest = _atom_masses(white)
    spread = (white.information + tau**-2) ** -0.5
    center = white.mode * spread / white.spread
    xi = pm.Normal("loose_coordinates", -center / spread, tau / spread, shape=center.shape)
    theta = pt.dot(white.loose, center + spread * xi)
    if white.target.size:
        theta = theta + pt.dot(white.tight, _tight_directions(white, theta, atoms, rest, tau))
    cells = rest * pt.special.softmax(theta)
    return cells if atoms is None else pt.concatenate([cells, atoms])


def _atom_masses(white: Whitening) -> tuple[TensorVariable | None, Any]:
    """Masses of the atoms and what they leave for the cells."""
    if not white.center.size:
        return None, 1.0
    coordinates = AtomCoordinates(
        "atom_coordinates", white.center, white.factor, ATOM_MEAN, ATOM_SD
    )
    odds = pt.exp(atom_log_odds(coordinates, white.center, white.factor))
    rest = 1.0 / (1.0 + odds.sum())
    return odds * rest, rest


def _tight_directions(
    white: Whitening, loose: TensorVariable, atoms: TensorVariable | None, rest: Any, tau: Any
) -> TensorVariable:
    """Well-informed directions: centred and scaled given all variables before them."""
    cells, extra = np.split(white.functionals, [white.tight.shape[0]], axis=1)
    target: Any = white.target
    if atoms is not None:
        target = target - pt.dot(extra, atoms)
    constants = (white.tight, np.ascontiguousarray(cells), white.tight_mode)
    params = (loose, target, rest, tau**-2, *constants)
    return straighten(Straightened("tight_coordinates", *params), *params)


def _name_parts(plan: RecordPlan, element: TensorVariable, cell_dim: str) -> None:
    """Register probabilities of cells and of atoms under their public names."""
    cells = element[: plan.law.cells]
    if plan.integers:
        for i, atom in enumerate(plan.atoms):
            cells = pt.inc_subtensor(cells[int(atom - plan.lower[0])], element[plan.law.cells + i])
    elif plan.atoms.size:
        pm.Deterministic(ATOM_PROBABILITY, element[plan.law.cells :], dims=ATOM)
    pm.Deterministic(PROBABILITY, cells, dims=cell_dim)
