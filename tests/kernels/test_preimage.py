"""Compiled preimages against those of `dpbayes.mechanism`."""

import numpy as np
import pytest

from dpbayes.distributions.count_mechanism import CountMechanism
from dpbayes.kernels import preimage
from dpbayes.mechanism import Clamp, Mechanism, Rescale, Round, Suppress
from dpbayes.noise import DiscreteLaplace, Laplace

CONTINUOUS = Laplace(scale=2.0)
MECHANISMS = [
    Mechanism(CONTINUOUS),
    Mechanism(CONTINUOUS, [Rescale(-0.5)]),
    Mechanism(CONTINUOUS, [Round()]),
    Mechanism(CONTINUOUS, [Round("floor", 5.0), Clamp(lower=0)]),
    Mechanism(CONTINUOUS, [Clamp(lower=0, upper=20), Round("ceil", 2.0)]),
    Mechanism(CONTINUOUS, [Round(step=2.0), Suppress(below=6, inclusive=True), Rescale(10)]),
    Mechanism(CONTINUOUS, [Clamp(lower=3.5), Suppress(below=4)]),
    Mechanism(DiscreteLaplace(scale=2.0)),
    Mechanism(DiscreteLaplace(scale=2.0), [Clamp(lower=0), Suppress(below=5)]),
    Mechanism(DiscreteLaplace(scale=2.0), [Round(step=10.0)]),
    Mechanism(DiscreteLaplace(scale=2.0, step=0.5), [Round("floor"), Suppress(below=2)]),
    Mechanism(DiscreteLaplace(scale=2.0), [Rescale(0.1), Clamp(upper=3.0)]),
]


def compiled(mechanism, value):
    static = CountMechanism.of(mechanism)
    return preimage.bounds(value, static.program, static.step)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_published_values(mechanism):
    noisy = np.round(np.linspace(-25.0, 60.0, 171) * 2) / 2
    if mechanism.noise.is_lattice:
        noisy = np.unique(np.round(noisy))
    released = np.unique(mechanism.forward(noisy))
    expected = mechanism.integer_bounds(released)
    for i, value in enumerate(released):
        found = compiled(mechanism, -np.inf if np.isnan(value) else value)
        np.testing.assert_allclose(
            found, [expected.lower[i], expected.upper[i], expected.log_jacobian[i]], atol=1e-12
        )


@pytest.mark.parametrize(
    ("mechanism", "value"),
    [
        (MECHANISMS[0], -np.inf),
        (MECHANISMS[2], 3.4),
        (MECHANISMS[3], -5.0),
        (MECHANISMS[4], 22.0),
        (MECHANISMS[5], 60.0),
        (MECHANISMS[7], 2.5),
        (MECHANISMS[8], 4.0),
        (MECHANISMS[11], 3.1),
    ],
)
def test_impossible_values(mechanism, value):
    lower, upper, _ = compiled(mechanism, value)
    assert lower > upper


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_published_at_most_a_value(mechanism):
    # Which noisy values are published at or below v, or withheld?
    step = mechanism.noise.step or 0.173
    noisy = step * np.arange(-150, 400)
    released = mechanism.forward(noisy)
    shown = released[np.isfinite(released)]
    for v in [*np.unique(shown)[::7], shown.min() - 1.0, 13.3, -np.inf]:
        v += 1e-9  # off the ends, which belong to one side or the other
        low = np.isnan(released) | (released <= v)
        static = CountMechanism.of(mechanism)
        lower, upper, _ = preimage.bounds_below(v, static.program, static.step)
        np.testing.assert_array_equal((noisy > lower) & (noisy <= upper), low)
