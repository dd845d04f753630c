"""Compression of records: counts are right, cells respect the steps, little is lost."""

import numpy as np
import pytest

from dpbayes.errors import ImpossibleReleaseError, UnsupportedError
from dpbayes.kernels.cells import cell_probabilities
from dpbayes.mechanism import Clamp, Mechanism, Rescale, Round, Suppress
from dpbayes.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    TruncatedLaplace,
)
from dpbayes.releases.compression import compress, record_cells

STEPS = {
    "none": (),
    "coarse rounding": (Round(step=0.5),),
    "fine rounding": (Round(step=1e-3, mode="floor"),),
    "clamp": (Clamp(lower=0.1, upper=0.77),),
    "rounded then clamped": (Round(step=0.25), Clamp(lower=0, upper=1)),
    "clamped then rounded": (Clamp(lower=-0.3, upper=1.3), Round(step=0.25, mode="ceil")),
    "suppressed": (Suppress(below=0.333),),
    "negated": (Rescale(-3.0), Clamp(upper=0.5)),
}


def _simulate(mechanism, n=4000, seed=3):
    rng = np.random.default_rng(seed)
    truth = rng.beta(2, 5, n)
    noisy = truth + mechanism.noise.rvs(n, rng)
    return noisy, mechanism.forward(noisy)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("noise", [Laplace(scale=0.1), Gaussian(sd=0.1)])
def test_each_record_is_counted_where_its_noisy_value_was(name, noise):
    mechanism = Mechanism(noise, STEPS[name])
    noisy, released = _simulate(mechanism)
    got = compress(released, mechanism, (0, 1))
    # The curator's view: count the values before any step by the very same cells.
    expected = np.histogram(noisy, np.r_[-np.inf, got.upper])[0]
    np.testing.assert_array_equal(got.counts, expected)
    assert got.total == 4000
    assert got.lower[0] == -np.inf
    assert got.upper[-1] == np.inf
    np.testing.assert_array_equal(got.lower[1:], got.upper[:-1])


def test_cells_end_where_clamps_and_roundings_do():
    lower, _ = record_cells(Mechanism(Laplace(scale=0.1), (Clamp(0.1, 0.77),)), (0, 1))
    assert lower[1] == 0.1
    assert lower[-1] == 0.77
    lower, _ = record_cells(Mechanism(Laplace(scale=0.1), (Round(step=0.25),)), (0, 1))
    np.testing.assert_allclose(lower[1:], [-0.125, 0.125, 0.375, 0.625, 0.875, 1.125])


def test_lattice_records_keep_exact_points():
    rng = np.random.default_rng(5)
    for noise in (DiscreteLaplace(scale=2.0), DiscreteGaussian(sigma=2.0)):
        truth = rng.integers(0, 12, 3000)
        released = truth + noise.rvs(3000, rng)
        got = compress(released, Mechanism(noise), (0, 11), support="integers")
        inner = slice(1, -1)
        np.testing.assert_allclose(got.upper[inner] - got.lower[inner], 1.0)
        middle = 0.5 * (got.lower[inner] + got.upper[inner])
        np.testing.assert_array_equal(
            got.counts[inner], [(released == value).sum() for value in middle]
        )
        assert got.step == 1.0
        assert got.total == 3000


def test_lattice_finer_and_coarser_than_the_integers():
    rng = np.random.default_rng(8)
    for step in (0.5, 5.0):
        noise = DiscreteLaplace(scale=20.0, step=step)
        released = rng.integers(0, 30, 1000) + noise.rvs(1000, rng)
        got = compress(released, Mechanism(noise), (0, 29), support="integers")
        expected = np.histogram(released, np.r_[-np.inf, got.upper])[0]
        np.testing.assert_array_equal(got.counts, expected)
        x = np.arange(30.0)
        table = cell_probabilities(noise.family, 20.0, step, got.lower, got.upper, x, x)
        np.testing.assert_allclose(table.sum(axis=0), 1.0, rtol=1e-12)


def test_whole_numbers_fall_on_edges_under_laplace_noise():
    lower, _ = record_cells(Mechanism(Laplace(scale=3.0)), (0, 21), support="integers")
    assert np.isin(np.arange(22.0), np.round(lower, 9)).all()


@pytest.mark.parametrize("scale", [1e-4, 0.02, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("law", [Laplace, Gaussian])
def test_number_of_cells_is_bounded(law, scale):
    noise = law(scale=scale) if law is Laplace else law(sd=scale)
    lower, upper = record_cells(Mechanism(noise), (0.0, 1.0))
    assert lower.size <= 4096 + 300
    inner = (upper - lower)[1:-1]
    assert inner.max() <= max(scale / 20, 1 / 4096) * (1 + 1e-9)


@pytest.mark.parametrize(("noise", "lost"), [(Laplace(scale=0.1), 2e-3), (Gaussian(sd=0.1), 2e-3)])
def test_information_lost_is_small(noise, lost):
    """Fisher information about 20 cell weights, against cells 16 times finer."""
    lower, upper = record_cells(Mechanism(noise), (0.0, 1.0))
    edges = lower[1:]
    fine = np.unique(np.concatenate([edges[:-1] + s * np.diff(edges) for s in np.arange(16) / 16]))
    fine = np.r_[fine, edges[-1] + np.arange(0, 1.0, 1 / 3200)]
    fine = np.r_[-np.arange(1 / 3200, 1.0, 1 / 3200)[::-1] + edges[0], fine]
    x = np.linspace(0, 1, 21)
    weights = np.diff(x * x * (3 - 2 * x))
    info = []
    for low, high in ((lower, upper), (np.r_[-np.inf, fine], np.r_[fine, np.inf])):
        table = cell_probabilities(noise.family, noise.scale, 0.0, low, high, x[:-1], x[1:])
        info.append(table.T @ (table / (table @ weights)[:, None]))
    coarse, exact = (w * weights[:, None] * weights for w in info)
    prior = 1e-4 * np.eye(20)  # what 10 000 records are worth beside a unit prior
    sd_coarse = np.sqrt(np.diag(np.linalg.inv(coarse + prior)))
    sd_exact = np.sqrt(np.diag(np.linalg.inv(exact + prior)))
    assert np.all(sd_coarse >= sd_exact * (1 - 1e-9))
    assert np.max(sd_coarse / sd_exact - 1) < lost


def test_impossible_records_are_named():
    mechanism = Mechanism(Laplace(scale=0.1), (Clamp(0, 1),))
    with pytest.raises(ImpossibleReleaseError, match="row 3"):
        compress([0.5, 1.0, 1.5], mechanism, (0, 1))
    with pytest.raises(ImpossibleReleaseError, match="row 2"):
        compress([0.5, np.nan], Mechanism(Laplace(scale=0.1)), (0, 1))
    with pytest.raises(ImpossibleReleaseError, match="row 1"):
        compress([0.5], Mechanism(DiscreteLaplace(scale=2.0)), (0, 5), support="integers")


def test_noise_without_a_kernel_is_refused():
    with pytest.raises(UnsupportedError, match="TruncatedLaplace"):
        compress([0.5], Mechanism(TruncatedLaplace(scale=1.0, bound=3.0)), (0, 1))
    with pytest.raises(UnsupportedError, match="one noise scale"):
        compress([0.5], Mechanism(Laplace(scale=[1.0, 2.0])), (0, 1))
    with pytest.raises(UnsupportedError, match="integers"):
        compress([1.0], Mechanism(DiscreteLaplace(scale=2.0)), (0, 5))
