"""Noisy Poisson counts against 40-digit references, identities and finite differences."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpbayes.kernels import families, poisson
from dpbayes.kernels.discrete_gaussian import logcdf, logpmf

DATA = Path(__file__).parents[1] / "data"
FAMILIES = {
    "laplace": families.LAPLACE,
    "discrete_laplace": families.DISCRETE_LAPLACE,
    "gaussian": families.GAUSSIAN,
    "discrete_gaussian": families.DISCRETE_GAUSSIAN,
}
SETTINGS = [
    (0.3, 0.2),
    (6.0, 0.7),
    (40.0, 3.0),
    (150.0, 12.0),
    (2000.0, 20.0),
    (2000.0, 300.0),
    (3e4, 10.0),
]
ALL = list(FAMILIES.values())


def oracle():
    """Columns family, lower, upper, mu, scale, log of the Poisson rows."""
    rows = []
    for case in json.loads((DATA / "noisy_counts.json").read_text())["cases"]:
        if case["base"] == "poisson":
            ends = case.get("interval", [case.get("value")] * 2)
            rows.append(
                [FAMILIES[case["noise"]], *ends, case["params"]["mu"], case["scale"], case["log"]]
            )
    return columns(rows)


def extremes():
    """Columns of the references with means up to 1e7 and scales from 0.05 to 1e6."""
    return columns(json.loads((DATA / "noisy_poisson_extremes.json").read_text())["rows"])


def columns(rows):
    family, lower, upper, mu, scale, log = zip(*rows, strict=True)
    lower = [-np.inf if x is None else x for x in lower]
    upper = [np.inf if x is None else x for x in upper]
    return np.array(family), *(np.array(x, dtype=float) for x in (lower, upper, mu, scale, log))


def released(family, mu, scale):
    """Points from one far tail to the other, on the lattice where there is one."""
    sd = np.sqrt(mu + 2 * scale**2)
    y = mu + sd * np.array([-12.0, -3.0, -0.7, 0.1, 1.3, 4.0, 15.0])
    return np.round(y) if family in (families.DISCRETE_LAPLACE, families.DISCRETE_GAUSSIAN) else y


def intervals(family, mu, scale):
    """Half-lines, narrow, middling and wide intervals."""
    y = released(family, mu, scale)
    half = 0.5 if family in (families.DISCRETE_LAPLACE, families.DISCRETE_GAUSSIAN) else 0.0
    wide = np.round(3 * np.sqrt(mu + scale**2)) + 70.0
    lower = np.concatenate([np.full(7, -np.inf), y - half, y - half, y - half, y - half])
    upper = np.concatenate(
        [y + half, np.full(7, np.inf), y + 1 + half, y + 9 + half, y + wide + half]
    )
    return lower, upper


@pytest.mark.parametrize("table", [oracle, extremes])
def test_references(table):
    family, lower, upper, mu, scale, log = table()
    assert family.size >= 100
    value = poisson.logp_array(family, lower, upper, mu, scale)
    error = np.abs(value - log) / np.maximum(1.0, np.abs(log))
    assert error.max() < 1e-10, (np.argmax(error), error.max())


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize(("mu", "scale"), SETTINGS)
def test_gradients_are_central_differences(family, mu, scale):
    y = released(family, mu, scale)
    lower, upper = (
        np.concatenate(pair) for pair in zip((y, y), intervals(family, mu, scale), strict=True)
    )
    _, d_mu, d_scale = poisson.gradient_array(family, lower, upper, mu, scale)
    for index, analytic in enumerate((d_mu, d_scale)):
        at, width = ((mu, min(mu, np.sqrt(mu))), (scale, scale))[index]
        h = 1e-3 * width
        difference = 0.0
        for shift, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
            moved = (at + shift * h, scale) if index == 0 else (mu, at + shift * h)
            difference += weight * poisson.logp_array(family, lower, upper, *moved) / (12 * h)
        np.testing.assert_allclose(analytic, difference, rtol=1e-6, atol=1e-6 / width)


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize(("mu", "scale"), SETTINGS)
def test_gradient_in_mu_is_the_shift_identity(family, mu, scale):
    y = released(family, mu, scale)
    lower, upper = (
        np.concatenate(pair) for pair in zip((y, y), intervals(family, mu, scale), strict=True)
    )
    value, d_mu, _ = poisson.gradient_array(family, lower, upper, mu, scale)
    shifted = poisson.logp_array(family, lower - 1, upper - 1, mu, scale)
    floor = 1e-12 * np.exp(np.maximum(shifted - value, 0.0))
    assert np.all(np.abs(np.expm1(shifted - value) - d_mu) <= 1e-9 * np.abs(d_mu) + 10 * floor)


@pytest.mark.parametrize("family", ALL)
def test_zero_mean_is_noise_alone(family):
    y = np.array([-3.0, 0.0, 2.0])
    value, d_mu, d_scale = poisson.gradient_array(family, y, y, 0.0, 1.7)
    near, near_mu, near_scale = poisson.gradient_array(family, y, y, 1e-13, 1.7)
    np.testing.assert_allclose(value, near, rtol=1e-10)
    np.testing.assert_allclose(d_mu, near_mu, rtol=1e-9)
    np.testing.assert_allclose(d_scale, near_scale, rtol=1e-8, atol=1e-10)
    for ends in ((-np.inf, 2.5), (-4.5, np.inf), (-2.5, 3.5), (1.5, 7.5), (-9.5, -2.5)):
        value, d_mu, _ = poisson.gradient_array(family, *ends, 0.0, 1.7)
        near, near_mu, _ = poisson.gradient_array(family, *ends, 1e-13, 1.7)
        np.testing.assert_allclose([value, d_mu], [near, near_mu], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", ALL)
def test_noise_far_below_one_leaves_the_count(family):
    counts = np.array([0.0, 3.0, 11.0])
    value = poisson.logp_array(family, counts - 0.5, counts + 0.5, 4.0, 0.01)
    expected = counts * np.log(4.0) - 4.0 - np.log([1.0, 6.0, 39916800.0])
    np.testing.assert_allclose(value, expected, rtol=1e-12)


@pytest.mark.parametrize("step", [0.5, 0.25])
def test_discrete_laplace_on_a_finer_lattice(step):
    mu, scale = 2.5, 0.8
    y = np.arange(-40.0, 60.0 + step / 2, step)
    mass = poisson.logp_array(families.DISCRETE_LAPLACE, y, y, mu, scale, step)
    counts = np.arange(60.0)
    weights = np.exp(poisson.logp_array(families.DISCRETE_GAUSSIAN, counts, counts, mu, 0.01))
    noise = np.tanh(step / (2 * scale)) * np.exp(-np.abs(y[:, None] - counts) / scale)
    np.testing.assert_allclose(mass, np.log(noise @ weights), rtol=1e-12)
    np.testing.assert_allclose(np.exp(mass).sum(), 1.0, rtol=1e-12)
    inside = (y > -1.3) & (y <= 4.6)
    value = poisson.logp_array(families.DISCRETE_LAPLACE, -1.3, 4.6, mu, scale, step)
    np.testing.assert_allclose(value, np.log(np.exp(mass[inside]).sum()), rtol=1e-12)
    h = 1e-4
    for ends in ((1.5, 1.5), (-np.inf, 1.5), (0.5, np.inf), (-0.5, 4.0)):
        _, _, slope = poisson.gradient_array(families.DISCRETE_LAPLACE, *ends, mu, scale, step)
        up, down = (
            poisson.logp_array(families.DISCRETE_LAPLACE, *ends, mu, scale + s, step)
            for s in (h, -h)
        )
        np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize("family", [families.DISCRETE_LAPLACE, families.DISCRETE_GAUSSIAN])
def test_lattice_ends_are_floored(family):
    exact = poisson.logp_array(family, 4.0, 7.0, 6.0, 2.0)
    assert poisson.logp_array(family, 4.5, 7.5, 6.0, 2.0) == exact
    assert poisson.logp_array(family, 4.0 + 1e-9, 7.0 - 1e-9, 6.0, 2.0) == exact
    assert poisson.logp_array(family, 4.2, 4.8, 6.0, 2.0) == -np.inf
    assert poisson.logp_array(family, 4.3, 4.3, 6.0, 2.0) == -np.inf


def test_discrete_gaussian_noise_alone():
    family = families.DISCRETE_GAUSSIAN
    assert poisson.logp_array(family, 3.0, 3.0, 0.0, 2.0) == logpmf(3.0, 2.0)
    np.testing.assert_allclose(
        poisson.logp_array(family, -np.inf, -4.5, 0.0, 2.0), logcdf(-5.0, 2.0), rtol=1e-14
    )


@pytest.mark.parametrize("family", ALL)
def test_bad_parameters_have_no_likelihood(family):
    for mu, scale in ((-1.0, 1.0), (np.nan, 1.0), (2.0, 0.0), (2.0, np.nan), (np.inf, 1.0)):
        value, d_mu, d_scale = poisson.gradient_array(family, 1.0, 1.0, mu, scale)
        assert (value, d_mu, d_scale) == (-np.inf, 0.0, 0.0)
