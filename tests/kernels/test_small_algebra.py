"""Small dense algebra against NumPy."""

import numpy as np
import pytest

from dpbayes.kernels.small_algebra import cholesky, inverse, pull_cholesky


@pytest.mark.parametrize("size", [1, 2, 5])
def test_inverse_with_pivots(size):
    rng = np.random.default_rng(size)
    for _ in range(5):
        matrix = rng.normal(size=(size, size))
        if size > 1:
            matrix[0, 0] = 0.0
        found = matrix.copy()
        determinant = inverse(found, np.empty(size))
        np.testing.assert_allclose(found @ matrix, np.eye(size), atol=1e-9)
        assert determinant == pytest.approx(np.linalg.det(matrix), rel=1e-9)


def test_cholesky_tells_when_there_is_none():
    factor = np.zeros((2, 2))
    assert not cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]), factor)
    assert cholesky(np.array([[4.0, 2.0], [2.0, 3.0]]), factor)
    np.testing.assert_allclose(factor, [[2.0, 0.0], [1.0, np.sqrt(2.0)]])


def test_pullback_of_a_cholesky_factor():
    rng = np.random.default_rng(0)
    root, d_factor = rng.normal(size=(4, 4)), np.tril(rng.normal(size=(4, 4)))
    matrix = np.eye(4) + root @ root.T
    found = d_factor.copy()
    pull_cholesky(np.linalg.cholesky(matrix), found, np.empty((4, 4)))
    for direction in rng.normal(size=(5, 4, 4)):
        change = 1e-6 * (direction + direction.T)
        up, down = (np.linalg.cholesky(matrix + s * change) for s in (1, -1))
        assert np.sum(found * change) == pytest.approx(
            0.5 * np.sum(d_factor * (up - down)), rel=1e-5
        )
