import numpy as np
import pytest
from scipy import stats

import dpbayes as dpb
from dpbayes.errors import ParameterError, UnsupportedError
from dpbayes.privacy import Neighbours, audit, audit_samples, law_gap

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE


def brute(mechanism, x, y, outputs):
    with np.errstate(invalid="ignore"):
        return np.nanmax(
            mechanism.log_likelihood(outputs, x) - mechanism.log_likelihood(outputs, y)
        )


# -- wrong claims ----------------------------------------------------------------------


def test_half_of_the_scale_needed_is_caught():
    for scale, loss, holds in ((1.0, 2.0, False), (2.0, 1.0, True)):
        found = audit(dpb.Laplace(scale=scale), REPLACE.tables(3, 3), claim=1.0)
        assert found.epsilon == pytest.approx(loss, rel=1e-12)
        assert (found.exact, found.holds) == (True, holds)


def test_add_remove_sold_as_replace_one_is_caught():
    law = dpb.DiscreteLaplace.from_epsilon(epsilon=0.5, sensitivity=1)
    assert audit(law, ADD.tables(3, 2), claim=0.5).holds is True
    wrong = audit(law, REPLACE.tables(3, 2), claim=0.5)
    assert wrong.epsilon == pytest.approx(1.0, rel=1e-12)
    assert wrong.holds is False
    assert "the claim of 0.5 is wrong" in str(wrong)


@pytest.mark.parametrize(
    "law",
    [
        dpb.Gaussian(sd=3), dpb.DiscreteGaussian(sigma=3),
        dpb.TruncatedLaplace(scale=1, bound=20), dpb.TruncatedDiscreteLaplace(scale=1, bound=20),
    ],
    ids=lambda law: type(law).__name__,
)  # fmt: skip
def test_laws_without_a_pure_alpha(law):
    found = audit(law, [(3, 4)], claim=10.0)
    assert found.epsilon == np.inf
    assert found.holds is False


def test_noise_shared_between_cells_is_caught():
    law = dpb.Laplace(scale=2)
    assert audit(law, REPLACE.tables(2, 2), claim=1.0, shared_noise=True).epsilon == np.inf

    def shared(x, size, rng):
        return np.asarray(x) + rng.laplace(0, 2, (size, 1))

    def own(x, size, rng):
        return np.asarray(x) + rng.laplace(0, 2, (size, 2))

    x, y = np.array([3, 4]), np.array([2, 5])
    caught = audit_samples(shared, x, y, claim=1.0, draws=20_000)
    assert caught.holds is False
    assert caught.epsilon > 7
    honest = audit_samples(own, x, y, claim=1.0, draws=20_000)
    assert honest.holds is None
    assert 0.4 < honest.epsilon <= 1.0


def test_floored_noise_on_real_values_leaks_and_is_no_discrete_laplace():
    def leaking(x, size, rng):  # floors the noise, not the sum
        return x + np.floor(rng.laplace(0, 10, size))

    assert audit_samples(leaking, 0.25, 0.75, claim=0.1, draws=20_000).holds is False
    floored = dpb.Mechanism(dpb.Laplace(scale=2), [dpb.Round(mode="floor")])
    # Flooring count + noise costs no privacy ...
    found = audit(floored, [(3, 4)], claim=0.5)
    assert found.epsilon == pytest.approx(0.5, rel=1e-12)
    assert found.holds
    # ... but its law is not the discrete Laplace law that it is taken for.
    assert law_gap(floored, dpb.DiscreteLaplace(scale=2), 5.0) > 0.2
    assert law_gap(floored, floored, 5.0) == 0.0


def test_lattice_noise_on_values_off_the_lattice():
    assert audit(dpb.DiscreteLaplace(scale=5), [(0.25, 0.5)]).epsilon == np.inf
    assert audit(dpb.DiscreteLaplace(scale=5, step=0.25), [(0.25, 0.5)]).epsilon == pytest.approx(
        0.05, rel=1e-12
    )
    rounded = dpb.Mechanism(dpb.DiscreteLaplace(scale=5), [dpb.Round(step=10)])
    with pytest.raises(UnsupportedError, match="audit_samples"):
        audit(rounded, [(0.25, 0.5)])


# -- steps -----------------------------------------------------------------------------

STEPS = {
    "clamped": [dpb.Clamp(lower=0)],
    "clamped twice": [dpb.Clamp(lower=0, upper=8)],
    "suppressed": [dpb.Suppress(below=5)],
    "rounded, suppressed": [dpb.Round(step=3), dpb.Suppress(below=5)],
    "mirrored, clamped": [dpb.Rescale(-1), dpb.Clamp(lower=-7, upper=0)],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=list(STEPS))
@pytest.mark.parametrize("law", [dpb.DiscreteLaplace(scale=3), dpb.DiscreteGaussian(sigma=3)])
def test_steps_against_enumeration(law, steps):
    mechanism = dpb.Mechanism(law, steps)
    outputs = np.unique(mechanism.forward(np.arange(-60.0, 61.0)))
    for x, y in ((3, 4), (4, 3), (0, 5), (9, 2)):
        found = audit(mechanism, [(x, y)]).epsilon
        least = max(brute(mechanism, x, y, outputs), brute(mechanism, y, x, outputs))
        if np.isinf(found):
            assert least > 1.5  # grows without bound on the side that is not clamped
        else:
            assert found == pytest.approx(least, rel=1e-9)


def test_clamping_a_gaussian_on_both_sides_makes_the_loss_finite():
    mechanism = dpb.Mechanism(dpb.Gaussian(sd=2), [dpb.Clamp(lower=0, upper=10)])
    expected = stats.norm.logcdf(0, 3, 2) - stats.norm.logcdf(0, 4, 2)
    other = stats.norm.logsf(10, 4, 2) - stats.norm.logsf(10, 3, 2)
    assert audit(mechanism, [(3, 4)]).epsilon == pytest.approx(max(expected, other), rel=1e-9)


def test_no_noise():
    assert audit(dpb.NoNoise(), [(3, 4)]).epsilon == np.inf
    coarse = dpb.Mechanism(dpb.NoNoise(), [dpb.Round(step=10)])
    assert audit(coarse, [(3, 4)]).epsilon == 0.0
    assert audit(coarse, [(3, 9)]).epsilon == np.inf


# -- functions -------------------------------------------------------------------------


def test_finite_outputs():
    p = 0.25
    law = lambda x: [1 - p, p] if x == 0 else [p, 1 - p]  # noqa: E731
    found = audit(law, [(0, 1)], claim=np.log(3))
    assert found.epsilon == pytest.approx(np.log(3), rel=1e-14)
    assert found.holds
    assert found.power(0.05) == pytest.approx(0.15)
    with pytest.raises(ParameterError, match="sum to 1"):
        audit(lambda _: [0.5, 0.4], [(0, 1)])
    with pytest.raises(ParameterError, match="at least one pair"):
        audit(law, [])


def test_an_impossible_output_of_one_neighbour():
    assert audit(lambda x: [1.0, 0.0] if x == 0 else [0.5, 0.5], [(0, 1)]).epsilon == np.inf


def test_branch_and_bound_proves_its_answer():
    def log_density(x, z):  # Laplace noise renormalised on [0, 1]: costs more than 1/b
        b = 0.5
        mass = stats.laplace.cdf(1, x, b) - stats.laplace.cdf(0, x, b)
        return stats.laplace.logpdf(z, x, b) - np.log(mass)

    found = audit(log_density, [(0.0, 0.5)], claim=1.0, outputs=(0, 1), lipschitz=2.0)
    z = np.linspace(0, 1, 100_001)
    dense = np.max(np.abs(log_density(0.0, z) - log_density(0.5, z)))
    assert found.epsilon - 1e-9 <= dense <= found.upper
    assert found.upper - found.epsilon < 1.1e-4
    assert found.holds is False
    unproved = audit(log_density, [(0.0, 0.5)], claim=5.0, outputs=(0, 1))
    assert unproved.holds is None


def test_custom_noise_asks_for_a_function():
    noise = dpb.CustomNoise(logpdf=stats.cauchy.logpdf, sd=1.0)
    with pytest.raises(UnsupportedError, match="outputs="):
        audit(noise, [(0, 1)])
    # The Cauchy law: slope of the log density at most 1, loss log of ((3+√5)/2) at unit shift.
    found = audit(
        lambda x, z: stats.cauchy.logpdf(z - x), [(0, 1)], outputs=(-20, 20), lipschitz=1.0,
        tolerance=1e-5,
    )  # fmt: skip
    assert found.epsilon == pytest.approx(np.log((3 + np.sqrt(5)) / 2), abs=2e-5)
    assert found.exact is False
