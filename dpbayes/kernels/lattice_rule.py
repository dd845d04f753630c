r"""Sums of smooth functions over many consecutive integers from fifteen values.

The function is interpolated at the nodes of the Gauss-Kronrod rule on the interval that reaches
half a unit beyond the first and last integer, and its sum is the integral plus the terms of the
Euler-Maclaurin formula about midpoints,

.. math:: \sum_{m=a}^{b} h(m) = \int_{a - 1/2}^{b + 1/2} h + \sum_{j \ge 1}
          \frac{B_{2j}(1/2)}{(2j)!} \Bigl[h^{(2j-1)}\Bigr]_{a-1/2}^{b+1/2},

which for a polynomial of degree 14 ends after seven terms. Each is a fixed combination of the
fifteen values times a power of the number of integers, so the weights are polynomials in that
number, prepared once. No derivative of h is needed.

The size of the last Legendre coefficients of the interpolant tells how far to trust the sum.

References
----------
.. [1] NIST Digital Library of Mathematical Functions, 2.10.1 (Euler-Maclaurin) and 3.5(v).
.. [2] Piessens et al. (1983), QUADPACK, table of the 15-point Kronrod rule.
"""

import math
from fractions import Fraction

import numpy as np
from numba import njit

__all__ = ["COEFFICIENTS", "NODES", "fill_weights"]

_HALF_NODES = [
    0.991455371120812639206854697526329, 0.949107912342758524526189684047851,
    0.864864423359769072789712788640926, 0.741531185599394439863864773280788,
    0.586087235467691130294144691693, 0.405845151377397166906606412076961,
    0.207784955007898467600689403773245,
]  # fmt: skip
_HALF_WEIGHTS = [
    0.022935322010529224963732008058970, 0.063092092629978553290700663189204,
    0.104790010322250183839876322541518, 0.140653259715525918745189590510238,
    0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
    0.204432940075298892414161999234649,
]  # fmt: skip
NODES = np.array([*(-x for x in _HALF_NODES), 0.0, *reversed(_HALF_NODES)])
_WEIGHTS = np.array([*_HALF_WEIGHTS, 0.209482141084727828012999174891714, *reversed(_HALF_WEIGHTS)])
_BERNOULLI = [
    Fraction(1, 6), Fraction(-1, 30), Fraction(1, 42), Fraction(-1, 30), Fraction(5, 66),
    Fraction(-691, 2730), Fraction(7, 6),
]  # fmt: skip


def _end_terms() -> np.ndarray:
    """Row j: the (j+1)-th Euler-Maclaurin term as a combination of values at the nodes."""
    to_legendre = np.linalg.inv(np.polynomial.legendre.legvander(NODES, NODES.size - 1))
    rows = np.zeros((len(_BERNOULLI), NODES.size))
    for j, bernoulli in enumerate(_BERNOULLI, start=1):
        order = 2 * j - 1
        factor = -(1 - Fraction(1, 2**order)) * bernoulli / math.factorial(2 * j)
        for k in range(order + 1, NODES.size, 2):  # odd derivatives of even polynomials
            slope = Fraction(math.factorial(k + order), 2**order * math.factorial(order))
            slope /= math.factorial(k - order)
            rows[j - 1] += float(2 * factor * slope) * to_legendre[k]
    return rows


_END_TERMS = _end_terms()

#: Rows that take values at the nodes to the Legendre coefficients of degrees 11 to 14.
COEFFICIENTS = np.ascontiguousarray(
    np.linalg.inv(np.polynomial.legendre.legvander(NODES, NODES.size - 1))[11:]
)


@njit(cache=True, nogil=True)
def fill_weights(count, out):
    """Weights of the nodes for a sum over `count` integers; 0 for an integral over (-1, 1)."""
    if count == 0.0:
        out[:] = _WEIGHTS
        return
    square = (2.0 / count) ** 2
    for i in range(out.size):
        correction = 0.0
        for j in range(_END_TERMS.shape[0] - 1, -1, -1):
            correction = square * (_END_TERMS[j, i] + correction)
        out[i] = 0.5 * count * (_WEIGHTS[i] + correction)
