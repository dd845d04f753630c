"""Perturbed records whose true values come from a mixture of cells and atoms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pymc.distributions.dist_math import check_parameters, factln
from pymc.distributions.distribution import Discrete, SymbolicRandomVariable
from pymc.distributions.shape_utils import implicit_size_from_params, rv_size_is_none
from pymc.pytensorf import floatX, normalize_rng_param
from pytensor.tensor.random.basic import multinomial
from pytensor.tensor.random.utils import normalize_size_param

from dpbayes.errors import ParameterError
from dpbayes.mechanism import as_mechanism
from dpbayes.releases.compression import CompressedRecords, compress, probability_table

__all__ = ["NoisyMixture", "mixture_cells"]

_WEIGHT_TOLERANCE = 1e-6


class NoisyMixtureRV(SymbolicRandomVariable):
    """Counts of released records by cell: multinomial with probabilities table @ weights."""

    name = "noisy_mixture"
    extended_signature = "[rng],[size],(),(k),(j,k)->[rng],(j)"
    _print_name = ("NoisyMixture", "\\operatorname{NoisyMixture}")

    @classmethod
    def rv_op(cls, n, weights, table, *, size=None, rng=None):
        """Build the random graph."""
        n = pt.as_tensor(n, dtype="int64")
        weights, table = pt.as_tensor(weights), pt.as_tensor(table)
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        if rv_size_is_none(size):
            size = implicit_size_from_params(n, weights, table, ndims_params=cls.ndims_params)
        p = pt.matvec(table, weights)
        p = p / p.sum(axis=-1, keepdims=True)
        next_rng, draws = multinomial(n, p, size=size, rng=rng, return_next_rng=True)
        return cls(inputs=[rng, size, n, weights, table], outputs=[next_rng, draws])(
            rng, size, n, weights, table
        )


class NoisyMixture(Discrete):
    r"""Records x_i + noise_i, x_i iid from a mixture of cells and atoms, noise of a known law.

    .. math::

        x_i \sim \sum_{k \le K} w_k \, U(e_{k-1}, e_k) + \sum_{a} w_{K+a} \, \delta_{x_a},
        \qquad z_i = \mathrm{post}(x_i + \varepsilon_i)

    The random variable is the vector of counts of released records by cell of the line,
    which `mixture_cells` returns: it is a sufficient summary up to the (stated) width of the
    cells, and one evaluation costs the same for any number of records. Its law is

    .. math:: c \sim \mathrm{Multinomial}(n, A w), \qquad A_{jk} = P(z \in \text{cell } j \mid k)

    ==========  ==================================================
    Support     non-negative whole numbers that sum to n
    Mean        :math:`n (A w)_j`
    Variance    :math:`n (A w)_j (1 - (A w)_j)`
    ==========  ==================================================

    Parameters
    ----------
    weights : tensor_like, shape (K + m,)
        Weights of the cells, then of the atoms; they sum to one.
    mechanism : Mechanism or NoiseLaw
        Noise and post-processing that each record went through.
    edges : array_like, shape (K + 1,), optional
        Increasing edges of the cells, in the units of the records. None: atoms only.
    atoms : array_like, shape (m,), optional
        Points with mass of their own. Whole-number data are atoms at lo..hi and no edges;
        noise on a lattice needs that form.
    observed : array_like or CompressedRecords, optional
        Released records (NaN where one was suppressed), compressed once when the model is
        built; or records that are compressed already.
    n : int, optional
        Number of records where nothing is observed.

    Raises
    ------
    ParameterError
        If edges or atoms are malformed, or neither `observed` nor `n` is given.
    ImpossibleReleaseError
        If a record cannot come from the mechanism.

    Notes
    -----
    Draws pass through the whole mechanism, since the cells are preimages of released values.
    `log_likelihood` is one number per draw, that of all records together.

    References
    ----------
    Wasserman & Zhou (2010), Example 2.1.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from dpbayes.noise import Laplace
    >>> with pm.Model():
    ...     w = pm.Dirichlet("w", np.ones(3))
    ...     z = NoisyMixture(
    ...         "z", weights=w, edges=[0, 1, 2, 3], mechanism=Laplace(scale=1), observed=[0.3, 2.9]
    ...     )
    """

    rv_type = NoisyMixtureRV
    rv_op = NoisyMixtureRV.rv_op

    def __new__(cls, name, *, observed=None, n=None, **kwargs):
        """Compress the records and register the variable."""
        if observed is None:
            if n is None:
                raise ParameterError("n must be given where no records are observed, got None")
            return super().__new__(cls, name, n=n, **kwargs)
        geometry = {key: kwargs.pop(key, None) for key in ("mechanism", "edges", "atoms")}
        records, table = mixture_cells(observed=observed, **geometry)
        if n is not None and int(n) != records.total:
            raise ParameterError(
                f"n must be the number of records ({records.total}) or left out, got {n}"
            )
        return super().__new__(
            cls, name, n=records.total, table=table, observed=records.counts, **kwargs
        )

    @classmethod
    def dist(cls, *, weights, n, mechanism=None, edges=None, atoms=None, table=None, **kwargs):
        """Build a variable outside a model; `table` replaces mechanism, edges and atoms."""
        if table is None:
            _, table = mixture_cells(mechanism=mechanism, edges=edges, atoms=atoms)
        weights = pt.as_tensor_variable(floatX(weights) if _is_array(weights) else weights)
        return super().dist(
            [pt.as_tensor_variable(n, dtype="int64"), weights, pt.as_tensor_variable(table)],
            **kwargs,
        )

    def support_point(rv, size, n, weights, table):  # noqa: D102
        # Whole parts of the means, the rest in the likeliest cell.
        mean = pt.shape_padright(n) * pt.matvec(table, weights)
        whole = pt.floor(mean)
        rest = pt.shape_padright(n) - whole.sum(axis=-1, keepdims=True)
        top = pt.argmax(mean, axis=-1, keepdims=True)
        point = pt.where(pt.eq(pt.arange(mean.shape[-1]), top), whole + rest, whole)
        if not rv_size_is_none(size):
            point = pt.full(pt.concatenate([size, [mean.shape[-1]]]), point)
        return point.astype(rv.dtype)

    def logp(value, n, weights, table):  # noqa: D102
        p = pt.matvec(table, weights)
        terms = pt.switch(pt.eq(value, 0), 0.0, value * pt.log(p))
        coefficient = factln(n) - factln(value).sum(axis=-1)
        possible = pt.and_(pt.all(pt.ge(value, 0), axis=-1), pt.eq(value.sum(axis=-1), n))
        return check_parameters(
            pt.switch(possible, coefficient + terms.sum(axis=-1), -np.inf),
            pt.all(pt.ge(weights, 0)),
            pt.all(pt.abs(weights.sum(axis=-1) - 1.0) < _WEIGHT_TOLERANCE),
            msg="weights >= 0, sum(weights) = 1",
        )


def _is_array(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


def mixture_cells(
    *,
    mechanism: Any,
    edges: ArrayLike | None = None,
    atoms: ArrayLike | None = None,
    observed: Any = None,
) -> tuple[CompressedRecords, np.ndarray]:
    """Cells of the released line, counts of records in them, and their probabilities.

    Parameters
    ----------
    mechanism : Mechanism or NoiseLaw
        Noise and post-processing that each record went through.
    edges : array_like, shape (K + 1,), optional
        Increasing edges of the cells of the true value.
    atoms : array_like, shape (m,), optional
        Points with mass of their own.
    observed : array_like or CompressedRecords, optional
        Released records; without them all counts are 0.

    Returns
    -------
    records : CompressedRecords
        Cells of value + noise and counts of records.
    table : numpy.ndarray, shape (J, K + m)
        A[j, k] = P(record in cell j | true value from element k).

    Raises
    ------
    ParameterError
        If edges or atoms are malformed.
    """
    mechanism = as_mechanism(mechanism)
    cuts = np.atleast_1d(np.asarray([] if edges is None else edges, dtype=float))
    points = np.atleast_1d(np.asarray([] if atoms is None else atoms, dtype=float))
    if cuts.size == 1 or not np.all(np.diff(cuts) > 0) or not np.all(np.isfinite(cuts)):
        raise ParameterError(f"edges must be at least two increasing numbers, got {cuts}")
    if not np.all(np.isfinite(points)):
        raise ParameterError(f"atoms must be finite, got {points}")
    if cuts.size + points.size == 0:
        raise ParameterError("edges or atoms must be given, got neither")
    lower, upper = np.r_[cuts[:-1], points], np.r_[cuts[1:], points]
    whole = cuts.size == 0 and np.all(points == np.round(points))
    if isinstance(observed, CompressedRecords):
        return probability_table(observed, mechanism, lower, upper)
    records = compress(
        [] if observed is None else observed,
        mechanism,
        (lower.min(), upper.max()),
        support="integers" if whole else "continuous",
    )
    return probability_table(records, mechanism, lower, upper)
