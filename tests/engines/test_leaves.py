"""Tables of single cells: no mass is lost by their windows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from dpbayes.engines.leaves import GammaWeights, leaf_tables
from dpbayes.engines.likelihood import Likelihood
from dpbayes.errors import UnsupportedError
from dpbayes.mechanism import Clamp, Mechanism, Round, Suppress
from dpbayes.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoNoise,
    TruncatedDiscreteLaplace,
)
from dpbayes.releases import HistogramRelease

FULL = 20_000


def tabulate(values, mechanism, shapes, tilt, cap=None):
    release = HistogramRelease(values, mechanism=mechanism)
    likelihood = Likelihood(release.observations())
    return leaf_tables(GammaWeights(np.asarray(shapes, float)), likelihood, tilt, cap)


def full_tables(values, mechanism, shapes, tilt, cap=None):
    """Every count from 0 to the cap or far beyond all mass, through the mechanism itself."""
    m = np.arange(float(FULL if cap is None else cap + 1))
    rows = []
    for j, (value, a) in enumerate(zip(values, shapes, strict=True)):
        noise = mechanism.noise.at(j)
        q = Mechanism(noise, mechanism.steps).log_likelihood(
            np.array(np.nan if value is None else value, float), m
        )
        weight = special.gammaln(a + m) - special.gammaln(a) - special.gammaln(m + 1)
        rows.append(weight + tilt * m + q)
    return m, np.array(rows)


def check(values, mechanism, shapes, tilt, cap=None):
    tables = tabulate(values, mechanism, shapes, tilt, cap)
    m, logs = full_tables(values, mechanism, shapes, tilt, cap)
    for j, row in enumerate(logs):
        log_mass = special.logsumexp(row)
        assert tables.log_mass[j] == pytest.approx(log_mass, rel=1e-11, abs=1e-10)
        p = np.exp(row - log_mass)
        mean = p @ m
        assert tables.mean[j] == pytest.approx(mean, rel=1e-9, abs=1e-10)
        assert tables.variance[j] == pytest.approx(p @ (m - mean) ** 2, rel=1e-6, abs=1e-10)
        table = tables.tables[j]
        assert table.max() == 1.0
        first = tables.first[j]
        window = np.exp(row[first : first + table.size] - row.max())
        np.testing.assert_allclose(table, window, rtol=1e-8, atol=1e-17)
        # Little is kept that does not matter.
        assert np.mean(table > 0) > 0.3 or table.size < 200


MECHANISMS = {
    "laplace": Mechanism(Laplace(scale=8.0)),
    "discrete laplace": Mechanism(DiscreteLaplace(scale=3.0)),
    "gaussian": Mechanism(Gaussian(sd=12.0)),
    "discrete gaussian": Mechanism(DiscreteGaussian(sigma=0.4)),
    "clamped": Mechanism(DiscreteLaplace(scale=5.0), [Clamp(lower=0)]),
    "clamped above": Mechanism(DiscreteGaussian(sigma=5.0), [Clamp(upper=40)]),
    "rounded": Mechanism(Laplace(scale=2.0), [Round(step=50)]),
    "suppressed": Mechanism(DiscreteLaplace(scale=6.0), [Suppress(below=20)]),
    "a scale per cell": Mechanism(Laplace(scale=[0.05, 3.0, 60.0])),
    "truncated": Mechanism(TruncatedDiscreteLaplace(scale=4.0, bound=6)),
    "no noise": Mechanism(NoNoise(), [Round("floor", 10)]),
}
VALUES = {
    "clamped": [0, 3, 55],
    "clamped above": [40, -7, 12],
    "rounded": [0, 150, 1000],
    "suppressed": [None, 20, 400],
    "truncated": [-4, 0, 130],
    "no noise": [0, 10, 500],
}


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("shapes", [(1.0, 1.0, 1.0), (0.01, 0.01, 0.01), (0.3, 5.0, 60.0)])
@pytest.mark.parametrize("tilt", [-0.01, -0.3, -3.0])
def test_windows_lose_no_mass(name, shapes, tilt):
    check(VALUES.get(name, [-20, 7, 300]), MECHANISMS[name], shapes, tilt)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("tilt", [-0.5, 0.0, 0.05, 2.0])
def test_windows_under_a_cap(name, tilt):
    values = [v if v is None else min(v, 50) for v in VALUES.get(name, [-20, 7, 300])]
    check(values, MECHANISMS[name], (0.01, 1.0, 2.5), tilt, cap=60)


@settings(max_examples=60)
@given(
    value=st.integers(-300, 1500),
    scale=st.floats(0.02, 80),
    shape=st.floats(0.005, 80),
    rate=st.floats(-6, 3),
    laplace=st.booleans(),
)
def test_windows_of_any_cell(value, scale, shape, rate, laplace):
    law = DiscreteLaplace(scale=scale) if laplace else DiscreteGaussian(sigma=scale)
    tilt = -float(np.log1p(10.0**rate))
    check([value], Mechanism(law), [shape], tilt)


def test_a_cell_that_nothing_explains_has_no_mass():
    narrow = Mechanism(TruncatedDiscreteLaplace(scale=1.0, bound=2))
    tables = tabulate([-5, 4], narrow, [1.0, 1.0], -0.1)
    assert tables.log_mass[0] == -np.inf
    assert np.isfinite(tables.log_mass[1])
    assert tables.tables[0].sum() == 0.0


def test_an_undecided_count_is_an_error():
    # Clamped above, with a prior that is flat: any count from 10 upwards.
    with pytest.raises(UnsupportedError, match="leave a count undecided among"):
        tabulate([10], Mechanism(Laplace(scale=1.0), [Clamp(upper=10)]), [1.0], -1e-12)
