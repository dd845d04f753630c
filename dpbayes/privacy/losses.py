"""Privacy losses of mechanisms that draw rows, in closed form."""

from __future__ import annotations

import numpy as np

from dpbayes.errors import ParameterError
from dpbayes.noise.base import positive
from dpbayes.privacy.neighbours import whole

__all__ = ["dirichlet_sampling_alpha", "smoothing_alpha", "smoothing_delta"]


def smoothing_alpha(*, delta: float, draws: int, records: int, cells: int) -> float:
    r"""Alpha of k independent rows from (1 - δ) × shares + δ × uniform, exactly.

    A record that is replaced moves the probability of a cell by at most (1 - δ)/n, from at
    least δ/m: the loss of k rows is k log(1 + (1 - δ) m / (n δ)), and it is reached by k
    rows in a cell that one of the neighbours leaves empty.

    Parameters
    ----------
    delta : float
        Share δ of the uniform law, in (0, 1].
    draws, records, cells : int
        Rows k, records n and cells m.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 4.1.
    """
    if not 0 < delta <= 1:
        raise ParameterError(f"delta must be in (0, 1], got {delta}")
    k, n, m = whole("draws", draws, 1), whole("records", records, 1), whole("cells", cells, 2)
    return float(k * np.log1p((1.0 - delta) * m / (n * delta)))


def smoothing_delta(*, alpha: float, draws: int, records: int, cells: int) -> float:
    r"""Least δ at which k rows of a smoothed histogram are α-DP: 1 / (1 + n (e^{α/k} - 1) / m).

    Parameters
    ----------
    alpha : float
        Privacy loss wanted.
    draws, records, cells : int
        Rows k, records n and cells m.
    """
    k, n, m = whole("draws", draws, 1), whole("records", records, 1), whole("cells", cells, 2)
    with np.errstate(over="ignore"):
        return float(1.0 / (1.0 + n * np.expm1(positive("alpha", alpha) / k) / m))


def dirichlet_sampling_alpha(*, concentration: float, draws: int) -> float:
    """Alpha of k rows from one draw of Dirichlet(a + counts): log(1 + k / min a), exactly.

    The Dirichlet-multinomial probability of the rows z has the factor
    Γ(a_j + N_j + z_j) / Γ(a_j + N_j) for each cell. Replacing a record in cell i multiplies
    it by (a_i + N_i - 1 + z_i) / (a_i + N_i - 1), largest at N_i = 1, z_i = k.

    Parameters
    ----------
    concentration : float or array
        Pseudo-counts a.
    draws : int
        Rows k.

    References
    ----------
    Machanavajjhala, Kifer, Abowd, Gehrke & Vilhuber (2008), Privacy: theory meets practice on
    the map, section 3.
    """
    least = float(np.min(positive("concentration", concentration)))
    return float(np.log1p(whole("draws", draws, 1) / least))
