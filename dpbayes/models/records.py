"""PyMC model of perturbed records under a smooth prior, in whitened coordinates."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from dpbayes.distributions.mixture import NoisyMixture
from dpbayes.distributions.smooth import SmoothCoordinates, smooth_weights
from dpbayes.models.record_plan import (
    Candidate,
    RecordPlan,
    default_cells,
    plan_records,
    prior_draws,
    split_elements,
    table_draws,
)
from dpbayes.priors import Smooth
from dpbayes.releases import RecordRelease
from dpbayes.schema import ATOM, ATOM_PROBABILITY, BIN, PROBABILITY, RELEASED, VALUE

__all__ = [
    "COORDINATES",
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

COORDINATES = "coordinates"
ELEMENT = "element"  # weights of all basis elements, cells first
SCALE = "walk_scale"  # τ, standard deviation of the log density of P over its range


def build(
    release: RecordRelease, prior: Smooth | None = None, *, plan: RecordPlan | None = None
) -> pm.Model:
    """Model of the release in coordinates in which its posterior is nearly standard normal.

    Prior predictive sampling draws from the prior exactly as stated in
    `dpbayes.models.smooth`; only the coordinates, the one free variable, depend on the
    release.

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
        frame = plan.whitening.frame
        weights, tau = smooth_weights(SmoothCoordinates(COORDINATES, frame), frame)
        element = pm.Deterministic(ELEMENT, weights)
        pm.Deterministic(SCALE, tau)
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


def _name_parts(plan: RecordPlan, element: TensorVariable, cell_dim: str) -> None:
    """Register probabilities of cells and of atoms under their public names."""
    cells = element[: plan.law.cells]
    if plan.integers:
        for i, atom in enumerate(plan.atoms):
            cells = pt.inc_subtensor(cells[int(atom - plan.lower[0])], element[plan.law.cells + i])
    elif plan.atoms.size:
        pm.Deterministic(ATOM_PROBABILITY, element[plan.law.cells :], dims=ATOM)
    pm.Deterministic(PROBABILITY, cells, dims=cell_dim)
