"""Cell probabilities against high-precision references."""

import mpmath as mp
import numpy as np
import pytest

from dpbayes.errors import ParameterError
from dpbayes.kernels.cells import cell_probabilities
from dpbayes.kernels.families import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, GAUSSIAN, LAPLACE

INF = np.inf
# lower, upper, x_lower, x_upper in units of the scale: inside, across, far tails, narrow, wide,
# touching ends, open ends, points, and a cell a million scales from the origin.
CASES = [
    (0.3, 0.35, 0.0, 1.0),
    (-0.5, 0.5, 0.0, 1.0),
    (0.9, 1.2, 0.0, 1.0),
    (1.0, 1.05, 0.0, 1.0),
    (-0.05, 0.0, 0.0, 1.0),
    (10.0, 10.05, 0.0, 1.0),
    (-30.05, -30.0, 0.0, 1.0),
    (30.0, 31.0, 0.0, 0.001),
    (0.0005, 0.00051, 0.0, 0.001),
    (0.2, 0.2000001, 0.0, 1.0),
    (5.0, 25.0, -20.0, 4.0),
    (-40.0, 60.0, 0.0, 100.0),
    (100.0, 200.0, 0.0, 100.0),
    (112.0, 200.0, 0.0, 100.0),
    (-INF, -3.0, 0.0, 2.0),
    (2.5, INF, 0.0, 2.0),
    (-INF, 1.0, 0.0, 2.0),
    (0.7, INF, 0.0, 2.0),
    (-INF, INF, 0.0, 2.0),
    (0.3, 0.8, 0.5, 0.5),
    (7.0, 7.001, 0.5, 0.5),
    (-20.0, -10.0, 0.0, 0.0),
    (1e6, 1e6 + 0.05, 1e6 - 2.0, 1e6 - 1.0),
    (0.4, 0.4, 0.0, 1.0),
    (12.0, 12.0, 0.0, 1.0),
    (3.0, 3.0, 0.5, 0.5),
]


def _laplace_twice(t):
    """Second antiderivative of the standard Laplace density."""
    return (t if t > 0 else mp.mpf(0)) + mp.exp(-abs(t)) / 2


def _laplace_cdf(t):
    return mp.exp(t) / 2 if t < 0 else 1 - mp.exp(-t) / 2


def _normal_twice(t):
    return t * mp.ncdf(t) + mp.npdf(t)


REFERENCE = {
    LAPLACE: (_laplace_twice, _laplace_cdf, lambda t: mp.exp(-abs(t)) / 2),
    GAUSSIAN: (_normal_twice, mp.ncdf, mp.npdf),
}


def _reference(family, low, high, a, c):
    """The four-term formula with 700 digits, enough for any cancellation here."""
    twice, cdf, pdf = REFERENCE[family]
    low, high, a, c = (mp.mpf(float(v)) if abs(v) < INF else mp.mpf(v) for v in (low, high, a, c))
    if low == high:
        return pdf(low - a) if a == c else (cdf(low - a) - cdf(low - c)) / (c - a)
    big = mp.mpf(10) ** 4
    low, high = max(low, a - big), min(high, c + big)
    if a == c:
        return cdf(high - a) - cdf(low - a)
    return (twice(high - a) - twice(high - c) - twice(low - a) + twice(low - c)) / (c - a)


@pytest.mark.parametrize("family", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("case", CASES)
def test_continuous_laws_match_high_precision(family, case):
    low, high, a, c = case
    with mp.workdps(700):
        expected = float(_reference(family, low, high, a, c))
    got = cell_probabilities(family, 1.0, 0.0, [low], [high], [a], [c])[0, 0]
    if expected < 1e-300:
        assert got < 1e-290
    else:
        assert got == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("family", [LAPLACE, GAUSSIAN])
def test_scale_is_a_change_of_units(family):
    low, high, a, c = (np.array(v) for v in zip(*CASES[:22], strict=True))
    unit = cell_probabilities(family, 1.0, 0.0, low, high, a, c)
    scaled = cell_probabilities(family, 4.0, 0.0, 4 * low, 4 * high, 4 * a, 4 * c)
    np.testing.assert_allclose(scaled, unit, rtol=1e-13)


@pytest.mark.parametrize(
    ("family", "scale", "step"),
    [(LAPLACE, 0.3, 0.0), (GAUSSIAN, 0.3, 0.0), (DISCRETE_LAPLACE, 2.0, 0.5),
     (DISCRETE_GAUSSIAN, 1.7, 1.0)],
)  # fmt: skip
def test_a_partition_has_probability_one(family, scale, step):
    edges = np.r_[-INF, np.arange(-2.25, 3.0, 0.5), INF]
    x = np.array([-1.0, 0.0, 1.0, 2.0])
    width = 0.0 if step else 1.0
    table = cell_probabilities(family, scale, step, edges[:-1], edges[1:], x, x + width)
    np.testing.assert_allclose(table.sum(axis=0), 1.0, rtol=1e-13)
    assert np.all(table >= 0)


def _lattice_mass(family, scale, step, k):
    with mp.workdps(60):
        s, h = mp.mpf(scale), mp.mpf(step)
        if family == DISCRETE_LAPLACE:
            return mp.tanh(h / (2 * s)) * mp.exp(-abs(k) * h / s)
        norm = mp.nsum(lambda i: mp.exp(-((i * h) ** 2) / (2 * s * s)), [-mp.inf, mp.inf])
        return mp.exp(-((k * h) ** 2) / (2 * s * s)) / norm


@pytest.mark.parametrize("family", [DISCRETE_LAPLACE, DISCRETE_GAUSSIAN])
@pytest.mark.parametrize(("scale", "step"), [(0.4, 1.0), (3.0, 1.0), (2.0, 0.5), (5.0, 5.0)])
@pytest.mark.parametrize(("first", "last"), [(-2, 3), (4, 7), (-9, -9), (25, 40), (0, 0)])
def test_lattice_laws_match_summed_masses(family, scale, step, first, last):
    x = 3.0
    low, high = x + (first - 0.5) * step, x + (last + 0.5) * step
    expected = float(mp.fsum(_lattice_mass(family, scale, step, k) for k in range(first, last + 1)))
    got = cell_probabilities(family, scale, step, [low], [high], [x], [x])[0, 0]
    assert got == pytest.approx(expected, rel=1e-12, abs=1e-300)
    if first == last:
        point = x + first * step
        mass = cell_probabilities(family, scale, step, [point], [point], [x], [x])[0, 0]
        assert mass == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_a_point_off_the_lattice_is_impossible():
    table = cell_probabilities(DISCRETE_LAPLACE, 1.0, 1.0, [1.5], [1.5], [0.0], [0.0])
    assert table[0, 0] == 0.0


@pytest.mark.parametrize("family", [DISCRETE_LAPLACE, DISCRETE_GAUSSIAN])
def test_open_lattice_tails_keep_their_relative_accuracy(family):
    tail = cell_probabilities(family, 1.5, 1.0, [29.5], [INF], [0.0], [0.0])[0, 0]
    expected = float(mp.fsum(_lattice_mass(family, 1.5, 1.0, k) for k in range(30, 120)))
    assert tail == pytest.approx(expected, rel=1e-12)


def test_bad_input_is_named():
    with pytest.raises(ParameterError, match="must not exceed"):
        cell_probabilities(LAPLACE, 1.0, 0.0, [1.0], [0.0], [0.0], [1.0])
    with pytest.raises(ParameterError, match="`scale` must be a positive number, got -1"):
        cell_probabilities(LAPLACE, -1.0, 0.0, [0.0], [1.0], [0.0], [1.0])
    with pytest.raises(ParameterError, match="integer support"):
        cell_probabilities(DISCRETE_LAPLACE, 1.0, 1.0, [-0.5], [0.5], [0.0], [1.0])
    with pytest.raises(ParameterError, match="must be finite"):
        cell_probabilities(LAPLACE, 1.0, 0.0, [0.0], [1.0], [-INF], [1.0])
    with pytest.raises(ParameterError, match="must be a code"):
        cell_probabilities(17, 1.0, 0.0, [0.0], [1.0], [0.0], [1.0])
    with pytest.raises(ParameterError, match="`step` must be positive"):
        cell_probabilities(DISCRETE_LAPLACE, 1.0, 0.0, [-0.5], [0.5], [0.0], [0.0])
    with pytest.raises(ParameterError, match="of one length"):
        cell_probabilities(LAPLACE, 1.0, 0.0, [0.0, 1.0], [1.0], [0.0], [1.0])
