"""What all laws share, against brute-force sums and numerical integrals."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from dpbayes.errors import ParameterError, UnsupportedError
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


def _logistic_rvs(size, rng):
    return np.random.default_rng(rng).logistic(0.0, 2.0, size)


CONTINUOUS = {
    "laplace": Laplace(scale=2.5),
    "laplace, small": Laplace(scale=1e-3),
    "gaussian": Gaussian(sd=7.0),
    "truncated": TruncatedLaplace(scale=3.0, bound=5.0),
    "truncated, nearly uniform": TruncatedLaplace(scale=500.0, bound=1.5),
    "custom": CustomNoise(
        logpdf=stats.logistic(scale=2.0).logpdf,
        cdf=stats.logistic(scale=2.0).cdf,
        rvs=_logistic_rvs,
        sd=2.0 * np.pi / np.sqrt(3.0),
    ),
}
LATTICE = {
    "discrete laplace": DiscreteLaplace(scale=3.3),
    "discrete laplace, tiny": DiscreteLaplace(scale=0.05),
    "discrete laplace, step 5": DiscreteLaplace(scale=12.0, step=5),
    "discrete laplace, step 0.1": DiscreteLaplace(scale=0.7, step=0.1),
    "discrete gaussian": DiscreteGaussian(sigma=4.2),
    "discrete gaussian, small": DiscreteGaussian(sigma=0.3),
    "truncated": TruncatedDiscreteLaplace(scale=3.0, bound=5),
    "truncated, off the lattice": TruncatedDiscreteLaplace(scale=3.0, bound=5.5),
    "truncated, step 2": TruncatedDiscreteLaplace(scale=9.0, bound=8, step=2),
    "truncated at one step": TruncatedDiscreteLaplace(scale=2.0, bound=1),
    "none": NoNoise(),
}
ALL = {**{f"{k} (continuous)": v for k, v in CONTINUOUS.items()}, **LATTICE}


def support(law, reach=60.0):
    """Every lattice point that carries mass worth counting."""
    far = np.ceil(reach * max(float(law.sd), 0.2) / law.step)
    return law.step * np.arange(-far, far + 1)


@pytest.mark.parametrize("law", CONTINUOUS.values(), ids=CONTINUOUS)
def test_density_has_mass_one_and_the_stated_sd(law):
    reach = float(getattr(law, "bound", 45.0 * law.sd))

    def moment(power):
        # Symmetric laws with a kink at zero: twice one side.
        cuts = [0.0, 0.1 * reach, 0.4 * reach, reach]
        parts = [
            integrate.quad(lambda x: x**power * np.exp(law.logpdf(x)), a, b, epsabs=0, epsrel=1e-12)
            for a, b in itertools.pairwise(cuts)
        ]
        return 2.0 * sum(value for value, _ in parts)

    assert moment(0) == pytest.approx(1.0, rel=1e-9)
    assert np.sqrt(moment(2)) == pytest.approx(float(law.sd), rel=1e-8)


@pytest.mark.parametrize("law", LATTICE.values(), ids=LATTICE)
def test_masses_sum_to_one_and_have_the_stated_sd(law):
    k = support(law)
    mass = np.exp(law.logpdf(k))
    assert mass.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.sqrt(np.sum(mass * k**2)) == pytest.approx(float(law.sd), rel=1e-10, abs=1e-300)
    assert np.all(np.isneginf(law.logpdf(k + 0.5 * law.step)))


@pytest.mark.parametrize("law", LATTICE.values(), ids=LATTICE)
def test_intervals_of_lattice_laws_are_sums_of_masses(law):
    k = support(law, 12.0)
    mass = np.exp(law.logpdf(support(law)))
    everywhere = support(law)
    rng = np.random.default_rng(4)
    for low, high in rng.choice(k, (60, 2)):
        # The lower end is open, the upper closed; the same on and half a step off the lattice.
        inside = (everywhere > low + 0.25 * law.step) & (everywhere <= high + 0.25 * law.step)
        for shift in (0.0, 0.5 * law.step):
            got = np.exp(law.log_interval(low + shift, high + shift))
            assert got == pytest.approx(mass[inside].sum(), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("law", CONTINUOUS.values(), ids=CONTINUOUS)
def test_intervals_of_continuous_laws_are_integrals(law):
    edge = float(getattr(law, "bound", 6.0 * law.sd))
    for low, high in edge * np.array(
        [(-0.9, -0.2), (-0.3, 0.05), (0.0, 0.6), (0.7, 0.75), (-2, 2)]
    ):
        # quad wants the kink and the ends of the support as break points.
        breaks = [b for b in (-edge, 0.0, edge) if low < b < high]
        value, _ = integrate.quad(
            lambda x: np.exp(law.logpdf(x)), low, high, points=breaks or None, epsabs=0, limit=200
        )
        assert np.exp(law.log_interval(low, high)) == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("law", ALL.values(), ids=ALL)
def test_intervals_of_no_width_or_reversed_are_impossible(law):
    assert np.all(np.isneginf(law.log_interval([1.0, 2.0], [1.0, -2.0])))


@pytest.mark.parametrize("law", ALL.values(), ids=ALL)
def test_tails_add_up(law):
    x = law.step * np.rint(np.linspace(-3, 3, 13) * max(float(law.sd), 0.3) / (law.step or 1e-12))
    x = x if law.is_lattice else np.linspace(-2, 2, 13) * float(law.sd)
    total = np.exp(law.logcdf(x)) + np.exp(law.logsf(x))
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)
    np.testing.assert_allclose(law.log_interval(-np.inf, np.inf), 0.0, atol=1e-12)


QUANTILES = {k: v for k, v in ALL.items() if not isinstance(v, CustomNoise)}


@pytest.mark.parametrize("law", QUANTILES.values(), ids=QUANTILES)
def test_quantiles_are_the_least_points_that_reach_the_level(law):
    q = np.concatenate([[1e-12, 1e-6, 0.5], np.random.default_rng(1).random(200), [1 - 1e-9]])
    x = law.ppf(q)
    if law.is_lattice:
        np.testing.assert_allclose(x / law.step, np.rint(x / law.step), atol=1e-9)
        assert np.all(np.exp(law.logcdf(x)) >= q * (1 - 1e-9))
        assert np.all(np.exp(law.logcdf(x - law.step)) < q * (1 + 1e-9))
    else:
        # Beside a bound of the support a quantile is known to one rounding of the bound.
        noise_floor = 5e-14 if hasattr(law, "bound") else 0.0
        np.testing.assert_allclose(np.exp(law.logcdf(x)), q, rtol=1e-9, atol=noise_floor)


@pytest.mark.parametrize("law", ALL.values(), ids=ALL)
def test_random_draws_follow_the_law(law):
    draws = law.rvs(20_000, np.random.default_rng(11))
    assert draws.shape == (20_000,)
    if not law.is_lattice:
        assert stats.kstest(draws, lambda x: np.exp(law.logcdf(x))).pvalue > 1e-3
        return
    k, seen = np.unique(np.rint(draws / law.step), return_counts=True)
    np.testing.assert_allclose(draws / law.step, np.rint(draws / law.step), atol=1e-9)
    grid = np.rint(support(law) / law.step)
    expected = 20_000 * np.exp(law.logpdf(grid * law.step))
    observed = np.zeros(grid.size)
    observed[np.searchsorted(grid, k)] = seen
    big = expected >= 5
    rest = expected[~big].sum()
    table = np.array(
        [*zip(observed[big], expected[big], strict=True), (observed[~big].sum(), rest)]
    )
    table = table[table[:, 1] > 0]
    if len(table) > 1:
        statistic = np.sum((table[:, 0] - table[:, 1]) ** 2 / np.maximum(table[:, 1], 0.5))
        assert stats.chi2.sf(statistic, len(table) - 1) > 1e-3
    else:
        assert observed.sum() == 20_000


@pytest.mark.parametrize("law", ALL.values(), ids=ALL)
def test_draws_repeat_with_the_seed_and_take_any_shape(law):
    np.testing.assert_array_equal(law.rvs((3, 2), 5), law.rvs((3, 2), 5))
    assert law.rvs((3, 2), 5).shape == (3, 2)
    assert law.rvs((), 5).shape == ()


@pytest.mark.parametrize(
    "make",
    [
        lambda s: Laplace(scale=s),
        lambda s: DiscreteLaplace(scale=s),
        lambda s: Gaussian(sd=s),
        lambda s: DiscreteGaussian(sigma=s),
        lambda s: TruncatedLaplace(scale=s, bound=4.0),
        lambda s: TruncatedDiscreteLaplace(scale=s, bound=4),
    ],
    ids=["Laplace", "DiscreteLaplace", "Gaussian", "DiscreteGaussian", "TruncatedLaplace", "TDL"],
)
def test_array_parameters_act_elementwise(make):
    scales = np.array([0.5, 2.0, 11.0])
    law, each = make(scales), [make(s) for s in scales]
    x, low, high, q = np.array([1.0, -2.0, 3.0]), -1.0, np.array([0.0, 2.0, 4.0]), 0.83
    assert law.shape == (3,)
    np.testing.assert_allclose(law.sd, [float(e.sd) for e in each])
    np.testing.assert_allclose(law.logpdf(x), [e.logpdf(v) for e, v in zip(each, x, strict=True)])
    np.testing.assert_allclose(
        law.log_interval(low, high),
        [e.log_interval(low, h) for e, h in zip(each, high, strict=True)],
    )
    np.testing.assert_allclose(law.ppf(q), [e.ppf(q) for e in each])
    np.testing.assert_allclose(law.half_width(0.9), [e.half_width(0.9) for e in each])
    draws = law.rvs((40_000, 3), np.random.default_rng(2))
    np.testing.assert_allclose(draws.std(axis=0), law.sd, rtol=0.05)
    assert law.rvs(rng=1).shape == (3,)
    assert law.at(1) == each[1]
    assert law.at(np.array([2, 0])) == make(scales[[2, 0]])


@pytest.mark.parametrize("law", ALL.values(), ids=ALL)
def test_half_width_is_the_least_that_holds_the_level(law):
    if isinstance(law, CustomNoise):
        with pytest.raises(UnsupportedError, match="quantile"):
            law.half_width(0.9)
        return
    for level in (0.5, 0.95, 0.999):
        h = float(law.half_width(level))
        edge = h + (0.5 * law.step if law.is_lattice else 0.0)
        assert np.exp(law.log_interval(-edge, edge)) >= level * (1 - 1e-9)
        if law.is_lattice and h > 0:
            inner = edge - law.step
            assert np.exp(law.log_interval(-inner, inner)) < level
    for level in (0.0, 1.0, 1.5, float("nan")):
        with pytest.raises(ParameterError, match="level must be between 0 and 1"):
            law.half_width(level)


# -- identity --------------------------------------------------------------------------


@pytest.mark.parametrize("law", [v for v in ALL.values() if not isinstance(v, CustomNoise)])
def test_laws_are_values(law):
    twin = pickle.loads(pickle.dumps(law))
    assert twin == law
    assert hash(twin) == hash(law)
    assert copy.deepcopy(law) == law
    assert eval(repr(law), globals()) == law


def test_laws_differ_by_type_and_value():
    laws = [
        *ALL.values(),
        Laplace(scale=7.0),
        DiscreteLaplace(scale=7.0),
        Laplace(scale=[1.0, 2.0]),
    ]
    for i, a in enumerate(laws):
        assert [a == b for b in laws] == [i == j for j in range(len(laws))]
        assert a != 3
    assert len(set(laws)) == len(laws)


def test_equality_of_arrays_is_by_value_shape_and_labels():
    assert Laplace(scale=[1, 2]) == Laplace(scale=np.array([1.0, 2.0]))
    assert hash(Laplace(scale=[1, 2])) == hash(Laplace(scale=np.array([1.0, 2.0])))
    assert Laplace(scale=[1, 2]) != Laplace(scale=[[1, 2]])
    assert Laplace(scale=[2, 2]) != Laplace(scale=2)
    labelled = xr.DataArray([1.0, 2.0], dims="month", coords={"month": ["jan", "feb"]})
    turned = labelled.assign_coords(month=["feb", "jan"])
    assert Laplace(scale=labelled) == Laplace(scale=labelled.copy())
    assert Laplace(scale=labelled) != Laplace(scale=turned)
    assert Laplace(scale=labelled) != Laplace(scale=[1.0, 2.0])


def test_laws_are_frozen():
    law = Laplace(scale=[1.0, 2.0])
    with pytest.raises(AttributeError):
        law.scale = 3.0
    with pytest.raises(ValueError, match="read-only"):
        law.scale[0] = 3.0
    given_array = np.array([1.0, 2.0])
    law = DiscreteLaplace(scale=given_array)
    given_array[0] = 9.0
    assert law.scale[0] == 1.0


@pytest.mark.parametrize(
    ("cls", "field"),
    [
        (Laplace, "scale"),
        (DiscreteLaplace, "scale"),
        (Gaussian, "sd"),
        (DiscreteGaussian, "sigma"),
        (TruncatedLaplace, "scale"),
        (TruncatedDiscreteLaplace, "scale"),
    ],
)
def test_a_bare_number_is_refused(cls, field):
    with pytest.raises(TypeError, match=rf"{cls.__name__}\({field}="):
        cls(2.0)


BAD_NUMBERS = [0, -1.5, np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("bad", BAD_NUMBERS)
@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("scale", lambda v: Laplace(scale=v)),
        ("scale", lambda v: DiscreteLaplace(scale=v)),
        ("step", lambda v: DiscreteLaplace(scale=1.0, step=v)),
        ("sd", lambda v: Gaussian(sd=v)),
        ("sigma", lambda v: DiscreteGaussian(sigma=v)),
        ("bound", lambda v: TruncatedLaplace(scale=1.0, bound=v)),
        ("bound", lambda v: TruncatedDiscreteLaplace(scale=1.0, bound=v)),
        ("sd", lambda v: CustomNoise(logpdf=np.abs, sd=v)),
        ("epsilon", lambda v: Laplace.from_epsilon(epsilon=v, sensitivity=1)),
        ("sensitivity", lambda v: DiscreteLaplace.from_epsilon(epsilon=1, sensitivity=v)),
        ("rho", lambda v: Gaussian.from_rho(rho=v, sensitivity=1)),
        ("sd", lambda v: DiscreteGaussian.from_sd(sd=v)),
        ("sd", lambda v: TruncatedLaplace.from_sd(sd=v, bound=3)),
        ("variance", lambda v: Laplace.from_variance(variance=v)),
        ("variance", lambda v: DiscreteGaussian.from_variance(variance=v)),
        ("half_width", lambda v: DiscreteLaplace.from_half_width(half_width=v)),
        ("epsilon", lambda v: Gaussian.from_epsilon_delta(epsilon=v, delta=1e-6, sensitivity=1)),
    ],
)
def test_errors_name_the_field_and_the_value(field, make, bad):
    with pytest.raises(ParameterError, match=rf"^{field} must be positive and finite, got {bad}"):
        make(bad)


def test_errors_name_the_index_in_an_array():
    with pytest.raises(
        ParameterError, match=r"scale must be positive and finite, got -3.0 at index 1"
    ):
        Laplace(scale=[1, -3])
    with pytest.raises(ParameterError, match=r"got nan at index \(1, 0\)"):
        Gaussian(sd=[[1, 2], [np.nan, 4]])
    with pytest.raises(ParameterError, match="scale must not be empty"):
        Laplace(scale=[])


@pytest.mark.parametrize("bad", ["three", None, [1, "x"], {}])
def test_a_parameter_must_be_a_number(bad):
    with pytest.raises(ParameterError, match="scale must be"):
        Laplace(scale=bad)


def test_one_lattice_for_all_cells():
    with pytest.raises(ParameterError, match="step must be one number"):
        DiscreteLaplace(scale=1.0, step=[1, 2])


@given(st.floats(1e-4, 1e6))
def test_the_epsilon_of_a_laplace_law_inverts_the_way_in(epsilon):
    for cls in (Laplace, DiscreteLaplace):
        law = cls.from_epsilon(epsilon=epsilon, sensitivity=3)
        assert law.scale == pytest.approx(3 / epsilon)
        assert law.epsilon(sensitivity=3) == pytest.approx(epsilon)


@pytest.mark.parametrize("sensitivity", [1, 3])
def test_epsilon_bounds_the_ratio_of_masses_between_neighbours(sensitivity):
    law = DiscreteLaplace.from_epsilon(epsilon=0.7, sensitivity=sensitivity)
    k = np.arange(-40, 41)
    ratio = law.logpdf(k) - law.logpdf(k - sensitivity)
    assert np.abs(ratio).max() == pytest.approx(0.7)


@pytest.mark.parametrize(
    "law",
    [
        Gaussian(sd=1.0),
        DiscreteGaussian(sigma=1.0),
        TruncatedLaplace(scale=1, bound=2),
        TruncatedDiscreteLaplace(scale=1, bound=2),
        NoNoise(),
    ],
)
def test_no_finite_epsilon_where_there_is_none(law):
    with pytest.raises(UnsupportedError, match=r"no\w* finite pure epsilon|gives no finite"):
        law.epsilon(sensitivity=1)


@pytest.mark.parametrize(
    "value", ["10", True, 1 + 0j, [1.0, "2"], np.array([True]), np.array(["2"])]
)
def test_parameters_are_numbers(value):
    with pytest.raises(ParameterError, match="scale must be a positive number or an array"):
        Laplace(scale=value)


@pytest.mark.parametrize(
    ("law", "name", "words"),
    [
        (
            DiscreteLaplace,
            "epsilon",
            r"use DiscreteLaplace\.from_epsilon\(epsilon=, sens",
        ),
        (Gaussian, "rho", r"use Gaussian\.from_rho\(rho=, sensitivity=\)"),
        (Laplace, "half_width", r"use Laplace\.from_half_width\(half_width=\)"),
        (Gaussian, "scale", r"no parameter 'scale': use Gaussian\(sd=\) or"),
    ],
)
def test_ways_in_are_named(law, name, words):
    with pytest.raises(TypeError, match=words):
        law(**{name: 1.0})
