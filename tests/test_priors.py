import numpy as np
import pytest

from dpbayes.errors import ParameterError
from dpbayes.priors import Dirichlet, Smooth


def test_dirichlet_shapes():
    np.testing.assert_array_equal(Dirichlet().shapes(3), [1, 1, 1])
    np.testing.assert_array_equal(Dirichlet(concentration=0.5).shapes(2), [0.5, 0.5])
    np.testing.assert_array_equal(Dirichlet(concentration=[1, 2]).shapes(2), [1, 2])
    # A table of concentrations is flattened in the order of the released cells.
    np.testing.assert_array_equal(Dirichlet(concentration=[[1, 2], [3, 4]]).shapes(4), [1, 2, 3, 4])
    with pytest.raises(ParameterError, match=r"one entry per cell \(3\), got 2"):
        Dirichlet(concentration=[1, 2]).shapes(3)


@pytest.mark.parametrize("bad", [0, -1, np.nan, np.inf, [1, 0]])
def test_dirichlet_parameters_are_positive(bad):
    with pytest.raises(ParameterError, match="concentration must be positive and finite, got"):
        Dirichlet(concentration=bad)
    if np.ndim(bad) == 0 and bad != 0:  # a rate of 0 is the improper prior
        with pytest.raises(ParameterError, match="rate must be positive and finite, got"):
            Dirichlet(rate=bad)


def test_a_learned_concentration_has_no_shapes_of_its_own():
    learned = Dirichlet(concentration="learned")
    learned.check_size(17)
    with pytest.raises(ParameterError, match="learned concentration has no fixed shapes"):
        learned.shapes(17)
    with pytest.raises(
        ParameterError, match="must be a number, an array or 'learned', got 'lerned'"
    ):
        Dirichlet(concentration="lerned")


def test_priors_are_values():
    assert Dirichlet(concentration=np.array([1.0, 2.0])) == Dirichlet(concentration=[1, 2])
    assert hash(Dirichlet(concentration=[1, 2])) == hash(Dirichlet(concentration=(1.0, 2.0)))
    assert Dirichlet(concentration=1) != Dirichlet(concentration=1, rate=0.5)
    assert Smooth() == Smooth(order="auto")
    assert len({Smooth(), Smooth(order=1), Smooth(atoms="both"), Smooth(cells=20)}) == 4
    for cls in (Dirichlet, Smooth):
        with pytest.raises(TypeError):
            cls(1.0)
    assert eval(repr(Dirichlet(concentration=[1, 2], rate=3.0))) == Dirichlet(
        concentration=[1, 2], rate=3.0
    )


@pytest.mark.parametrize("concentration", [0.2, 1.0, [1.0, 4.0, 0.5]])
def test_the_range_of_rates_covers_every_plausible_total(concentration):
    values, sd = np.array([120.0, np.nan, -30.0]), np.array([5.0, 50.0, 5.0])
    prior = Dirichlet(concentration=concentration)
    low, high = prior.rate_range(values, sd)
    total = prior.shapes(3).sum() / np.array([low, high])
    assert total[1] == pytest.approx(0.5)
    # Far above the sum of the values and all their noise; negatives do not count.
    assert total[0] == pytest.approx(4 * (120 + 4 * np.sqrt(50 + 2500) + 10))
    assert prior.rate_range(values, 5.0)[0] > low


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": 3}, "order must be 1, 2 or 'auto', got 3"),
        ({"atoms": "left"}, "atoms must be .* got 'left'"),
        ({"cells": 3}, "cells must be a whole number of at least 4, got 3"),
        ({"cells": 10.5}, "cells must be a whole number of at least 4, got 10.5"),
    ],
)
def test_smooth_parameters(arguments, message):
    with pytest.raises(ParameterError, match=message):
        Smooth(**arguments)
