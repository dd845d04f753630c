"""Sums over many integers from fifteen values."""

import numpy as np
import pytest

from dpbayes.kernels.lattice_rule import COEFFICIENTS, NODES, fill_weights


def weights(count):
    out = np.empty(NODES.size)
    fill_weights(float(count), out)
    return out


@pytest.mark.parametrize("count", [20, 64, 257, 10_000])
def test_polynomials_up_to_degree_14_are_summed_exactly(count):
    m = (np.arange(count) - 0.5 * (count - 1)) / (0.5 * count)
    for degree in range(15):
        assert weights(count) @ NODES**degree == pytest.approx(
            (m**degree).sum(), rel=1e-10, abs=1e-10 * count
        )


def test_zero_integers_are_an_integral():
    for degree in range(0, 23, 2):
        assert weights(0) @ NODES**degree == pytest.approx(2.0 / (degree + 1), rel=1e-13)


def test_no_integral_rule_would_do():
    # Far fewer integers than an integral can stand for: the end terms are what makes it right.
    m = np.arange(64)
    exact = np.exp(-0.1 * m).sum()
    at_nodes = np.exp(-0.1 * (31.5 + 32.0 * NODES))
    assert weights(64) @ at_nodes == pytest.approx(exact, rel=1e-11)
    assert 32.0 * weights(0) @ at_nodes != pytest.approx(exact, rel=1e-4)


def test_coefficients_are_those_of_legendre_polynomials():
    for row, degree in enumerate(range(11, 15)):
        polynomial = np.polynomial.legendre.Legendre.basis(degree)
        assert COEFFICIENTS[row] @ polynomial(NODES) == pytest.approx(1.0, rel=1e-10)
        lower = np.polynomial.legendre.Legendre.basis(5)
        assert COEFFICIENTS[row] @ lower(NODES) == pytest.approx(0.0, abs=1e-12)
