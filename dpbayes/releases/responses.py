"""Answers that were randomised one by one, category by category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import xarray as xr

from dpbayes.errors import ReleaseError
from dpbayes.mechanism import Mechanism
from dpbayes.noise import NoNoise
from dpbayes.releases.base import check_attrs, digest
from dpbayes.releases.cells import CellTable, check_number

__all__ = ["ResponseRelease", "flip_matrix", "response_matrix", "response_probability"]

_NAME = "category"


def response_probability(categories: int, epsilon: float) -> float:
    """Probability p = k / (k - 1 + e^ε) that k-ary randomised response answers at random.

    With probability 1 - p the true category is reported, with probability p one of all k,
    the true one among them.

    Parameters
    ----------
    categories : int
        Number of categories k.
    epsilon : float
        Privacy loss ε.
    """
    check_number("epsilon", epsilon, 0.0, np.inf)
    if categories < 2:
        raise ReleaseError(f"categories must be at least 2, got {categories}")
    # In this form e^ε may overflow: p is then 0 to machine precision.
    shrunk = np.exp(-epsilon)
    return float(categories * shrunk / ((categories - 1) * shrunk + 1.0))


def response_matrix(categories: int, epsilon: float) -> np.ndarray:
    """Matrix P(report = v | truth = x) of k-ary randomised response, truths in rows.

    Its loss is ε exactly: P(report = v) is (1 + (e^ε - 1) 1{v = x}) / (k + e^ε - 1).

    Parameters
    ----------
    categories : int
        Number of categories k.
    epsilon : float
        Privacy loss ε.
    """
    p = response_probability(categories, epsilon)
    return np.full((categories, categories), p / categories) + (1.0 - p) * np.eye(categories)


def flip_matrix(*probabilities: float) -> np.ndarray:
    """Response matrix of bits that are flipped independently, a Kronecker product.

    Categories run 0...0, 0...1, ..., 1...1: the last bit is the fastest. Its privacy loss is
    the sum of log((1 - q)/q) over bits.

    Parameters
    ----------
    *probabilities : float
        Probability q of flipping each bit, in (0, 1/2].
    """
    matrix = np.ones((1, 1))
    for q in probabilities:
        check_number("probability of a flip", q, 0.0, 0.5)
        matrix = np.kron(matrix, np.array([[1.0 - q, q], [q, 1.0 - q]]))
    return matrix


@dataclass(frozen=True, eq=False)
class ResponseRelease(CellTable):
    r"""Categories reported by n people, each randomised by a known matrix.

    P(report = v) = Σ_x matrix[x, v] P(x); the true counts are multinomial given P.

    Parameters
    ----------
    values : sequence or mapping
        Reports, one category per person; or how often each category was reported, as a
        mapping from category to count or as one number per category, in their order.
    categories : sequence
        All categories, reported or not.
    epsilon : float, optional
        Loss ε of k-ary randomised response: the true category is reported with probability
        e^ε / (k + e^ε - 1), each other one with probability 1 / (k + e^ε - 1).
    matrix : array_like, optional
        Response matrix, truths in rows, reports in columns, each row adding up to 1. Exactly
        one of `epsilon` and `matrix` must be given.
    attrs : mapping, optional
        Facts for reports: title, unit, source, neighbours, epsilon, sensitivity.

    Raises
    ------
    ReleaseError
        If a report is no category, counts are not whole, or the matrix is no response matrix.

    References
    ----------
    Warner (1965), Randomized response, for two categories; Kairouz, Bonawitz & Ramage (2016),
    Discrete distribution estimation under local privacy, equation (4), for k.

    Examples
    --------
    >>> import dpbayes as dpb
    >>> answers = {"yes": 61, "no": 39}
    >>> dpb.ResponseRelease(answers, categories=["yes", "no"], epsilon=1.0).total
    100
    """

    values: Any
    _: KW_ONLY
    categories: Any
    epsilon: float | None = None
    matrix: Any = None
    attrs: Mapping[str, Any] | None = None
    edges = None

    def __post_init__(self) -> None:
        labels = _labels(self.categories)
        counts = _counts(self.values, labels)
        if (self.epsilon is None) == (self.matrix is None):
            raise ReleaseError("give either epsilon= (k-ary randomised response) or matrix=")
        if self.epsilon is not None:
            epsilon = check_number("epsilon", self.epsilon, 0.0, np.inf)
            matrix = None
        else:
            matrix = _matrix(self.matrix, len(labels))
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(matrix)
                spans = np.where(
                    np.isneginf(logs.max(axis=0)), 0.0, logs.max(axis=0) - logs.min(axis=0)
                )
            epsilon = float(spans.max())
        table = xr.DataArray(counts, dims=(_NAME,), coords={_NAME: labels}, name="released")
        settle = {
            "values": table,
            "categories": tuple(labels),
            "epsilon": epsilon,
            "matrix": matrix,
            "attrs": check_attrs(self.attrs),
        }
        for name, value in settle.items():
            object.__setattr__(self, name, value)

    @property
    def total(self) -> int:
        """Number of people n."""
        return int(self.values.sum())

    @property
    def mechanism(self) -> Mechanism:
        """No noise is added to counts: the randomness is in each answer."""
        return Mechanism(NoNoise())

    @property
    def uniform_share(self) -> float | None:
        """Share p of answers given at random, where that is all that happened; else None."""
        if self.matrix is not None or self.epsilon is None:
            return None
        return response_probability(len(self.categories), self.epsilon)

    @property
    def responses(self) -> np.ndarray:
        """Response matrix, truths in rows."""
        if self.matrix is not None:
            return self.matrix
        assert self.epsilon is not None
        return response_matrix(len(self.categories), self.epsilon)

    def naive_counts(self) -> np.ndarray:
        """Unbiased estimates of the true counts, as far as the matrix can be undone."""
        share = self.uniform_share
        counts = self.values.values
        if share is not None:
            return (counts - self.total * share / counts.size) / (1.0 - share)
        return np.linalg.lstsq(self.responses.T, counts, rcond=None)[0]

    def replicate(self, probability: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw answers of as many people from P, counted by category."""
        p = probability @ self.responses
        return rng.multinomial(self.total, p / p.sum())

    def digest(self) -> int:
        """Whole number that depends on all of the release."""
        matrix = None if self.matrix is None else self.matrix.tolist()
        facts = (self.epsilon, matrix, self.categories)
        return digest("responses", self.values.values, self.mechanism, *facts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ResponseRelease):
            return NotImplemented
        return (
            self.values.identical(other.values)
            and self.epsilon == other.epsilon
            and (self.matrix is None) == (other.matrix is None)
            and (self.matrix is None or np.array_equal(self.matrix, other.matrix))
            and self.attrs == other.attrs
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        how = f"epsilon {self.epsilon:g}"
        return f"<ResponseRelease ({self.total} answers in {self.size} categories), {how}>"


def _labels(categories: Any) -> list[Any]:
    if isinstance(categories, str) or not hasattr(categories, "__iter__"):
        raise ReleaseError(f"categories must be a sequence of labels, got {categories!r}")
    labels = [c.item() if isinstance(c, np.generic) else c for c in categories]
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise ReleaseError(f"categories must be at least two distinct labels, got {labels[:6]}")
    return labels


def _counts(values: Any, labels: list[Any]) -> np.ndarray:
    """How often each category was reported."""
    where = {label: i for i, label in enumerate(labels)}
    if isinstance(values, Mapping):
        unknown = [key for key in values if key not in where]
        if unknown:
            raise ReleaseError(f"values: {unknown[0]!r} is none of the categories")
        return _whole(np.array([values.get(label, 0) for label in labels]))
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0:
        raise ReleaseError(f"values must be one-dimensional and not empty, got {array.shape}")
    entries: Sequence[Any] = array.tolist()
    reports = [entry in where for entry in entries]
    numbers = array.dtype.kind in "iuf" and array.size == len(labels)
    if all(reports) and numbers:
        raise ReleaseError(
            "values could be reports or counts: give counts as a mapping from category to count, "
            "or reports as text"
        )
    if all(reports):
        found = np.array([where[entry] for entry in entries])
        return np.bincount(found, minlength=len(labels)).astype(float)
    if numbers:
        return _whole(array)
    first = reports.index(False)
    raise ReleaseError(
        f"values: report {first + 1}, {entries[first]!r}, is none of the {len(labels)} categories; "
        "counts need one whole number per category"
    )


def _whole(counts: np.ndarray) -> np.ndarray:
    try:
        array = counts.astype(float)
    except (TypeError, ValueError):
        raise ReleaseError(f"counts must be numbers, got {counts.tolist()}") from None
    bad = ~np.isfinite(array) | (array < 0) | (array != np.floor(array))
    if bad.any():
        raise ReleaseError(f"counts must be whole numbers of at least 0, got {array[bad][0]:g}")
    if array.sum() == 0:
        raise ReleaseError("values must hold at least one report, got none")
    return array


def _matrix(matrix: Any, size: int) -> np.ndarray:
    array = np.array(matrix, dtype=float)
    if array.shape != (size, size):
        raise ReleaseError(
            f"matrix must be {size} x {size} (truths in rows, reports in columns), "
            f"got {array.shape}"
        )
    if np.isnan(array).any() or (array < 0).any():
        raise ReleaseError("matrix must hold probabilities, got negative ones or NaN")
    sums = array.sum(axis=1)
    if not np.allclose(sums, 1.0, rtol=0, atol=1e-9):
        hint = ": its columns do, transpose it" if np.allclose(array.sum(axis=0), 1.0) else ""
        worst = sums[np.argmax(np.abs(sums - 1.0))]
        raise ReleaseError(f"rows of matrix must add up to 1, got {worst:g}{hint}")
    array.flags.writeable = False
    return array
