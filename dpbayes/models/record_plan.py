"""From released records and a smooth prior to everything a sampler needs, as arrays."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.kernels.allocation import allocate
from dpbayes.models.smooth import Likelihood, ScaleFit, SmoothLaw, fit_scale
from dpbayes.models.whitening import Whitening, whiten
from dpbayes.priors import Smooth
from dpbayes.releases import RecordRelease
from dpbayes.releases.compression import CompressedRecords, compress, probability_table
from dpbayes.schema import ATOM_COUNT, ATOM_PROBABILITY, COUNT, PROBABILITY

__all__ = [
    "Candidate",
    "RecordPlan",
    "default_cells",
    "plan_forms",
    "plan_records",
    "prior_draws",
    "split_elements",
    "table_draws",
]

CELLS_PER_SCALE = 8
FEWEST_CELLS, MOST_CELLS = 60, 160
MOST_VALUES = 1000
_ENDS = {"none": (), "lower": (0,), "upper": (1,), "both": (0, 1)}


@dataclass(frozen=True)
class Candidate:
    """A form of the prior and what the release says for it.

    Parameters
    ----------
    order : int
        Order of the random walk.
    atoms : str
        Which bounds carry mass of their own.
    log_evidence : float
        Laplace approximation of log p(release | form), up to a constant that all share.
    weight : float
        Posterior probability among the candidates, which are equally likely beforehand.
    """

    order: int
    atoms: str
    log_evidence: float
    weight: float


@dataclass(frozen=True)
class RecordPlan:
    """Compressed records, their likelihood and the prior chosen for them.

    Parameters
    ----------
    release : RecordRelease
        What was published.
    records : CompressedRecords
        Counts by cell of value + noise.
    table : numpy.ndarray, shape (J, K + m)
        A[j, k] = P(cell j | basis element k): K cells (or whole numbers), then m atoms.
    lower, upper : numpy.ndarray, shape (K,)
        Ends of the cells of P, in the units of the records; equal for whole numbers.
    atoms : numpy.ndarray, shape (m,)
        Bounds that carry mass of their own.
    law : SmoothLaw
        Prior of the weights.
    fit : ScaleFit
        Laplace approximation of the posterior.
    form : Candidate
        Form of the prior.
    candidates : tuple of Candidate
        Forms compared, best first.
    """

    release: RecordRelease
    records: CompressedRecords
    table: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    atoms: np.ndarray
    law: SmoothLaw
    fit: ScaleFit
    form: Candidate
    candidates: tuple[Candidate, ...]

    @property
    def integers(self) -> bool:
        """Whether P lives on whole numbers."""
        return self.release.support == "integers"

    @property
    def edges(self) -> np.ndarray | None:
        """Edges of the cells of P; None for whole numbers."""
        return None if self.integers else np.r_[self.lower, self.upper[-1]]

    @property
    def atom_values(self) -> np.ndarray | None:
        """Points of P outside its cells: the atoms, or all whole numbers within the bounds."""
        if self.integers:
            return self.lower
        return self.atoms if self.atoms.size else None

    @property
    def likelihood(self) -> Likelihood:
        """Log likelihood of the weights and its derivatives."""
        return Likelihood(self.table, self.records.counts, self.law)

    @cached_property
    def whitening(self) -> Whitening:
        """Coordinates in which the posterior is nearly standard normal."""
        return whiten(self.likelihood, self.fit)


def default_cells(release: RecordRelease) -> int:
    """Return the number of cells of P: eight per noise scale, at least 60, at most 160.

    The prior does not depend on the number of cells, so more of them cost time and nothing
    else; fewer than a few per noise scale would hide shape that the release shows.

    Parameters
    ----------
    release : RecordRelease
        Records with continuous support.
    """
    low, high = release.bounds
    wanted = CELLS_PER_SCALE * (high - low) / float(release.mechanism.noise.scale)
    return int(np.clip(np.ceil(wanted), FEWEST_CELLS, MOST_CELLS))


def plan_records(release: RecordRelease, prior: Smooth | None = None) -> RecordPlan:
    """Compress the records and find the form of the prior with the highest evidence.

    Parameters
    ----------
    release : RecordRelease
        What was published.
    prior : Smooth, optional
        Prior on P; ``Smooth()`` by default.

    Returns
    -------
    RecordPlan

    Raises
    ------
    UnsupportedError
        If the prior or the noise has no engine for records.
    ParameterError
        If whole numbers within the bounds are too many.
    """
    return plan_forms(release, prior)[0]


def plan_forms(release: RecordRelease, prior: Smooth | None = None) -> tuple[RecordPlan, ...]:
    """Compress the records and fit every form of the prior that is open.

    Parameters
    ----------
    release, prior
        As in `plan_records`.

    Returns
    -------
    tuple of RecordPlan
        One a form, in the order of their evidence, which is the order of `candidates`.

    Raises
    ------
    UnsupportedError
        If the prior or the noise has no engine for records.
    ParameterError
        If whole numbers within the bounds are too many.
    """
    prior = Smooth() if prior is None else prior
    if not isinstance(prior, Smooth):
        raise UnsupportedError(f"records need a Smooth prior, got {prior!r}")
    low, high = release.bounds
    lower, upper = _basis(release, prior)
    compressed = compress(
        release.values, release.mechanism, release.bounds, support=release.support
    )
    ends = np.array([low, high])
    records, table = probability_table(
        compressed, release.mechanism, np.r_[lower, ends], np.r_[upper, ends]
    )
    orders = (1, 2) if prior.order == "auto" else (int(prior.order),)
    names = tuple(_ENDS) if prior.atoms == "auto" else (prior.atoms,)
    fits = {}
    for order, name in itertools.product(orders, names):
        law = SmoothLaw(lower.size, order, len(_ENDS[name]))
        part = np.ascontiguousarray(table[:, _columns(lower.size, name)])
        fits[order, name] = fit_scale(Likelihood(part, records.counts, law)), law, part
    keys = sorted(fits, key=lambda key: -fits[key][0].log_evidence)
    logs = np.array([fits[key][0].log_evidence for key in keys])
    candidates = tuple(
        Candidate(*key, float(log), float(weight))
        for key, log, weight in zip(keys, logs, special.softmax(logs), strict=True)
    )
    plans = []
    for form in candidates:
        fit, law, part = fits[form.order, form.atoms]
        atoms = ends[list(_ENDS[form.atoms])]
        plans.append(
            RecordPlan(release, records, part, lower, upper, atoms, law, fit, form, candidates)
        )
    return tuple(plans)


def _basis(release: RecordRelease, prior: Smooth) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the cells of P, or its whole numbers twice."""
    low, high = release.bounds
    if release.support == "continuous":
        cells = default_cells(release) if prior.cells is None else int(prior.cells)
        edges = np.linspace(low, high, cells + 1)
        return edges[:-1], edges[1:]
    values = np.arange(low, high + 0.5)
    if not 4 <= values.size <= MOST_VALUES:
        raise ParameterError(
            f"bounds of integer records must hold 4 to {MOST_VALUES} whole numbers, got "
            f'{values.size}: use support="continuous" with continuous noise for wider bounds'
        )
    if prior.cells not in (None, values.size):
        raise ParameterError(
            f"cells must be left out for integer records (there are {values.size} values), "
            f"got {prior.cells}"
        )
    return values, values


def _columns(cells: int, atoms: str) -> list[int]:
    """Columns of the full table that a choice of atoms keeps."""
    return [*range(cells), *(cells + end for end in _ENDS[atoms])]


def split_elements(
    plan: RecordPlan, elements: np.ndarray, names: tuple[str, str] = (PROBABILITY, ATOM_PROBABILITY)
) -> dict[str, np.ndarray]:
    """Arrays over basis elements (..., K + m) as named arrays over cells and over atoms.

    On whole numbers the mass of an atom is part of its number's mass, and there is one array.
    """
    cells, extra = np.split(elements, [plan.law.cells], axis=-1)
    if not plan.integers:
        return {names[0]: cells, names[1]: extra} if plan.atoms.size else {names[0]: cells}
    cells = cells.copy()
    for i, atom in enumerate(plan.atoms):
        cells[..., int(atom - plan.lower[0])] += extra[..., i]
    return {names[0]: cells}


def prior_draws(plan: RecordPlan, draws: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw P from its prior.

    Parameters
    ----------
    plan : RecordPlan
        Holds the form of the prior.
    draws : int
        Number of draws.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    dict of ndarray
        `probability` (draws, K) and, with atoms, `atom_probability` (draws, m).
    """
    weights, _ = plan.law.draw(draws, rng)
    return split_elements(plan, weights)


def table_draws(
    plan: RecordPlan, elements: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw the true counts of this data set, exactly, given draws of P.

    Parameters
    ----------
    plan : RecordPlan
        Holds the records.
    elements : numpy.ndarray, shape (chains, draws, K + m)
        Weights of the basis elements (variable `element` of the model).
    rng : numpy.random.Generator
        Source of randomness; each chain gets a child of it.

    Returns
    -------
    dict of ndarray
        `count` (chains, draws, K) and, with atoms, `atom_count` (chains, draws, m); they sum
        to the number of records in every draw.
    """
    weights = np.ascontiguousarray(elements, dtype=float)
    occupied = plan.records.counts > 0
    table = np.ascontiguousarray(plan.table[occupied])
    counts = plan.records.counts[occupied]

    def one(chain: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return allocate(table, counts, chain, generator)

    with ThreadPoolExecutor() as pool:
        placed = list(pool.map(one, weights, rng.spawn(len(weights))))
    return split_elements(plan, np.stack(placed), (COUNT, ATOM_COUNT))
