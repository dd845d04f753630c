"""Model of a released histogram: names, dims, prior and likelihood."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from dpbayes.engines import exact
from dpbayes.errors import UnsupportedError
from dpbayes.kernels import poisson as kernel
from dpbayes.mechanism import Clamp, Mechanism, Suppress
from dpbayes.models import histogram
from dpbayes.noise import DiscreteLaplace, Laplace
from dpbayes.priors import Dirichlet, Smooth
from dpbayes.releases import HistogramRelease

WITHHELD = Mechanism(DiscreteLaplace(scale=4.0), [Clamp(lower=0), Suppress(below=5)])


def test_public_total_keeps_dims_and_coords():
    release = HistogramRelease([31.2, 14.9], mechanism=Laplace(scale=4), edges=[0, 1, 5], total=50)
    model = histogram.build(release)
    assert model.named_vars_to_dims["probability"] == ("bin",)
    assert model.named_vars_to_dims["released"] == ("bin",)
    assert list(model.coords["bin"]) == ["[0, 1)", "[1, 5]"]
    assert [rv.name for rv in model.free_RVs] == ["probability"]


def test_tables_of_several_axes():
    grid = np.array([[31.0, np.nan], [8.0, 40.0], [12.0, 9.0]])
    coords = {"month": ["jan", "feb", "mar"], "region": ["n", "s"]}
    public = HistogramRelease(grid, mechanism=WITHHELD, coords=coords, total=110)
    for release in (public, HistogramRelease(grid, mechanism=WITHHELD, coords=coords)):
        model = histogram.build(release, Dirichlet(concentration=2.0))
        assert model.named_vars_to_dims["probability"] == ("month", "region")
        drawn = pm.draw(model["probability"], random_seed=1)
        assert drawn.shape == (3, 2)
        assert drawn.sum() == pytest.approx(1.0)


def test_likelihood_with_an_unknown_total_holds_suppressed_cells():
    release = HistogramRelease([np.nan, 20.0], mechanism=WITHHELD)
    model = histogram.build(release, Dirichlet(concentration=[1.5, 2.0], rate=0.1))
    point = {"intensity_log__": np.log([3.0, 25.0])}
    family = WITHHELD.noise.family
    expected = kernel.logp_array(family, [-np.inf, 20], [4.5, 20], [3.0, 25.0], 4.0)
    likelihood = model.compile_logp(vars=model["released"])(point)
    assert likelihood == pytest.approx(expected.sum(), rel=1e-10)
    prior = model.compile_logp(vars=model["intensity"], jacobian=False)(point)
    assert prior == pytest.approx(stats.gamma([1.5, 2.0], scale=10).logpdf([3.0, 25.0]).sum())


def test_range_of_an_open_rate_is_that_of_the_exact_engine():
    release = HistogramRelease([np.nan, 20.0, 7.0], mechanism=WITHHELD)
    prior = Dirichlet()
    low, high = histogram.rate_range(release, prior)
    totals = exact.expected_totals(release, prior)
    assert (3.0 / high, 3.0 / low) == pytest.approx(totals)
    names = {rv.name for rv in histogram.build(release, prior).free_RVs}
    assert names == {"log_rate", "intensity"}


def test_what_it_does_not_fit():
    release = HistogramRelease([3.0, 20.0], mechanism=DiscreteLaplace(scale=2.0))
    with pytest.raises(UnsupportedError, match="Dirichlet"):
        histogram.build(release, Smooth())
    for prior in (Dirichlet(concentration="learned"), Dirichlet(rate=0)):
        with pytest.raises(UnsupportedError, match="exact"):
            histogram.build(release, prior)
    with pytest.raises(UnsupportedError, match="exact"):
        histogram.build(release.with_margin(21, by=(), mechanism=DiscreteLaplace(scale=1.0)))
