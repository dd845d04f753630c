"""Compiled noise terms against the noise laws."""

import numpy as np
import pytest
from scipy.stats import norm

from dpbayes.distributions.count_mechanism import CountMechanism, noise_parameters
from dpbayes.kernels.noise_terms import noise_term, reach
from dpbayes.mechanism import Mechanism
from dpbayes.noise import (
    CustomNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoNoise,
    TruncatedDiscreteLaplace,
    TruncatedLaplace,
)

SD = 2.5
LAWS = [
    Laplace(scale=2.5),
    DiscreteLaplace(scale=2.5, step=0.5),
    DiscreteLaplace(scale=0.01),
    Gaussian(sd=2.5),
    DiscreteGaussian(sigma=2.5),
    DiscreteGaussian(sigma=30.0),
    TruncatedLaplace(scale=2.5, bound=4.0),
    TruncatedDiscreteLaplace(scale=2.5, bound=4.3, step=0.5),
    NoNoise(),
    CustomNoise(
        logpdf=lambda x: -0.5 * (x / SD) ** 2 - np.log(SD * np.sqrt(2 * np.pi)),
        cdf=lambda x: norm.cdf(x, scale=SD),
        sd=SD,
    ),
]


def term(law, low, high, scale=None):
    static = CountMechanism.of(Mechanism(law))
    own, bound = noise_parameters(law)
    step = static.step or 1.0
    return noise_term(
        static.family, low, high, own if scale is None else scale, bound, step, static.table
    )


def ends(law):
    """Points and intervals with one or two finite ends, on the lattice where there is one."""
    step = (law.step or 0.37) if not isinstance(law, NoNoise) else 1.0
    points = step * np.array([-40.0, -9.0, -8.0, -1.0, 0.0, 1.0, 5.0, 8.0, 9.0, 90.0])
    for x in points:
        yield x, x
        yield -np.inf, x
        yield x, np.inf
        for width in (1.0, 6.0, 80.0):
            yield x, x + width * step


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_values(law):
    # The difference of a user's distribution function has no tails: take the law it is.
    known = Gaussian(sd=SD) if isinstance(law, CustomNoise) else law
    for low, high in ends(law):
        with np.errstate(divide="ignore"):
            expected = known.logpdf(low) if low == high else known.log_interval(low, high)
        value = term(law, low, high)[0]
        assert value == pytest.approx(float(expected), rel=1e-9, abs=1e-9), (low, high)
    assert term(law, 1.0, 0.0)[0] == -np.inf
    assert term(law, -np.inf, np.inf) == (0.0, 0.0)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_slopes_in_the_scale(law):
    scale, _ = noise_parameters(law)
    h = 1e-3 * float(scale)
    for low, high in ends(law):
        value, slope = term(law, low, high)
        if value < -300.0:
            continue
        difference = 0.0
        for shift, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
            difference += weight * term(law, low, high, scale + shift * h)[0] / (12 * h)
        if isinstance(law, NoNoise | CustomNoise):
            difference = 0.0
        error = abs(slope - difference) * float(scale)
        assert error < 1e-7 * max(1.0, abs(difference) * float(scale)), (low, high)


def test_reach():
    static = CountMechanism.of(Mechanism(LAWS[6]))
    assert reach(static.family, 4.0, 1.0, static.table) == pytest.approx(4.0, rel=1e-8)
    static = CountMechanism.of(Mechanism(LAWS[7]))
    assert reach(static.family, 4.3, 0.5, static.table) == pytest.approx(4.0, rel=1e-8)
    static = CountMechanism.of(Mechanism(NoNoise()))
    assert reach(static.family, 0.0, 1.0, static.table) == 0.0
    static = CountMechanism.of(Mechanism(Laplace(scale=1.0)))
    assert reach(static.family, 0.0, 1.0, static.table) == np.inf
