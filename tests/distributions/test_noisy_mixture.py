"""NoisyMixture: likelihood by brute force, draws through the mechanism, both samplers."""

import warnings

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from scipy import integrate, special, stats

from dpbayes.distributions.mixture import NoisyMixture, mixture_cells
from dpbayes.errors import ImpossibleReleaseError, ParameterError
from dpbayes.mechanism import Clamp, Mechanism, Round
from dpbayes.noise import DiscreteLaplace, Gaussian, Laplace

EDGES = np.array([0.0, 0.25, 0.5, 1.0])
WEIGHTS = np.array([0.5, 0.2, 0.2, 0.1])  # the last is an atom at 1


def _records(noise, n=3000, seed=1):
    rng = np.random.default_rng(seed)
    element = rng.choice(4, n, p=WEIGHTS)
    low, high = np.r_[EDGES[:-1], 1.0], np.r_[EDGES[1:], 1.0]
    x = low[element] + (high - low)[element] * rng.random(n)
    return x + noise.rvs(n, rng)


def _density(noise, z):
    """Density of value + noise, by adaptive quadrature over each cell."""
    total = WEIGHTS[-1] * np.exp(noise.logpdf(z - 1.0))
    for weight, low, high in zip(WEIGHTS, EDGES[:-1], EDGES[1:], strict=False):
        kinks = [z] if low < z < high else None
        area, _ = integrate.quad(lambda x: np.exp(noise.logpdf(z - x)), low, high, points=kinks)
        total += weight * area / (high - low)
    return float(total)


def _logp(counts, table, weights):
    return pm.logp(NoisyMixture.dist(weights=weights, n=counts.sum(), table=table), counts).eval()


@pytest.mark.parametrize("noise", [Laplace(scale=0.2), Gaussian(sd=0.2)])
def test_compression_hardly_moves_the_likelihood(noise):
    """Differences of log likelihoods against the sum of exact log densities, n = 3000."""
    z = _records(noise)
    records, table = mixture_cells(mechanism=noise, edges=EDGES, atoms=[1.0], observed=z)
    exact = np.column_stack([_element_density(noise, k, z) for k in range(4)])
    assert exact[0] @ WEIGHTS == pytest.approx(_density(noise, z[0]), rel=1e-8)
    others = np.random.default_rng(2).dirichlet(100 * WEIGHTS, 8)
    want = np.log(exact @ others.T).sum(axis=0) - np.log(exact @ WEIGHTS).sum()
    log_cells = np.log(table @ others.T) - np.log(table @ WEIGHTS)[:, None]
    assert np.ptp(want) > 5
    np.testing.assert_allclose(records.counts @ log_cells, want, atol=0.05, rtol=0.01)


def _element_density(noise, k, z):
    if k == 3:
        return np.exp(noise.logpdf(z - 1.0))
    low, high = EDGES[k], EDGES[k + 1]
    return np.exp(noise.log_interval(z - high, z - low)) / (high - low)


def test_logp_is_the_multinomial_one():
    z = _records(Laplace(scale=0.2), n=50)
    records, table = mixture_cells(
        mechanism=Laplace(scale=0.2), edges=EDGES, atoms=[1.0], observed=z
    )
    expected = stats.multinomial.logpmf(records.counts, 50, table @ WEIGHTS)
    assert _logp(records.counts, table, WEIGHTS) == pytest.approx(expected, rel=1e-12)
    wrong = records.counts.copy()
    wrong[0] += 1
    dist = NoisyMixture.dist(weights=WEIGHTS, n=50, table=table)
    assert pm.logp(dist, wrong).eval() == -np.inf


def test_weights_off_the_simplex_are_refused():
    dist = NoisyMixture.dist(weights=2 * WEIGHTS, n=5, edges=EDGES, atoms=[1.0],
                             mechanism=Laplace(scale=0.2))  # fmt: skip
    with pytest.raises(pm.logprob.utils.ParameterValueError, match="sum"):
        pm.logp(dist, np.zeros(dist.shape[0].eval(), dtype=int)).eval()


@pytest.mark.parametrize(
    "mechanism",
    [
        Mechanism(Laplace(scale=0.3)),
        Mechanism(Gaussian(sd=0.3), (Round(step=0.25), Clamp(lower=0, upper=1))),
    ],
)
def test_draws_pass_through_the_whole_mechanism(mechanism):
    n = 20_000
    z = mechanism.forward(_records(mechanism.noise, n=n, seed=7))
    records, _ = mixture_cells(mechanism=mechanism, edges=EDGES, atoms=[1.0], observed=z)
    dist = NoisyMixture.dist(weights=WEIGHTS, n=n, mechanism=mechanism, edges=EDGES, atoms=[1.0])
    draws = pm.draw(dist, 400, random_seed=3)
    assert draws.shape == (400, records.counts.size)
    assert np.all(draws.sum(axis=1) == n)
    mean = draws.mean(axis=0)
    thick = mean > 5
    chi2 = np.sum((records.counts - mean)[thick] ** 2 / mean[thick])
    assert stats.chi2.sf(chi2, thick.sum() - 1) > 1e-3


def test_integer_data_under_lattice_noise():
    rng = np.random.default_rng(4)
    noise = DiscreteLaplace(scale=2.0)
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    z = rng.choice(4, 500, p=weights) + noise.rvs(500, rng)
    records, table = mixture_cells(mechanism=noise, atoms=np.arange(4), observed=z)
    mass = np.exp(noise.logpdf(z[:, None] - np.arange(4.0)))
    # Beyond a bound all values are one cell: that factor is the same for every P.
    other = np.array([0.1, 0.2, 0.3, 0.4])
    want = np.log(mass @ weights).sum() - np.log(mass @ other).sum()
    got = records.counts @ (np.log(table @ weights) - np.log(table @ other))
    assert got == pytest.approx(want, rel=1e-10)


def test_bad_input_is_named():
    with pytest.raises(ParameterError, match="edges must be at least two increasing"):
        mixture_cells(mechanism=Laplace(scale=1.0), edges=[0, 2, 1])
    with pytest.raises(ParameterError, match="got neither"):
        mixture_cells(mechanism=Laplace(scale=1.0))
    with pytest.raises(ParameterError, match="atoms must be finite"):
        mixture_cells(mechanism=Laplace(scale=1.0), atoms=[np.inf])
    with pytest.raises(ImpossibleReleaseError, match="1 records cannot come"):
        mixture_cells(mechanism=DiscreteLaplace(scale=0.005), atoms=[0, 9], observed=[0, 5])
    with pm.Model(), pytest.raises(ParameterError, match="n must be given"):
        NoisyMixture("z", weights=WEIGHTS, edges=EDGES, atoms=[1.0], mechanism=Laplace(scale=1.0))
    with pm.Model(), pytest.raises(ParameterError, match=r"number of records \(1\)"):
        NoisyMixture("z", weights=[1.0], edges=[0, 1], mechanism=Laplace(scale=1.0),
                     observed=[0.5], n=7)  # fmt: skip


@pytest.fixture(scope="module")
def model():
    z = _records(Laplace(scale=0.2))
    with pm.Model() as built:
        w = pm.Dirichlet("w", np.ones(4))
        NoisyMixture(
            "z", weights=w, edges=EDGES, atoms=[1.0], mechanism=Laplace(scale=0.2), observed=z
        )
    return built


@pytest.mark.parametrize("sampler", ["pymc", "nutpie"])
def test_both_samplers_recover_the_weights(model, sampler):
    copy = cloudpickle.loads(cloudpickle.dumps(model))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*object mode.*")
        with copy:
            data = pm.sample(
                draws=300, tune=300, chains=2, cores=1, random_seed=1, nuts_sampler=sampler,
                progressbar=False, compute_convergence_checks=False,
            )  # fmt: skip
    draws = data.posterior["w"].values.reshape(-1, 4)
    z = (draws.mean(axis=0) - WEIGHTS) / draws.std(axis=0)
    assert np.all(np.abs(z) < 4)
    assert np.all(draws.std(axis=0) < 0.08)


def test_it_is_an_observed_variable(model):
    with model:
        prior = pm.sample_prior_predictive(draws=20, random_seed=2)
    assert prior.prior_predictive["z"].shape[-1] == model["z"].shape[0].eval()
    assert np.all(prior.prior_predictive["z"].sum("z_dim_0") == 3000)
    weights = special.softmax(np.zeros(4))
    point = {"w_simplex__": np.zeros(3)}
    observed = model.rvs_to_values[model["z"]].data
    assert np.isclose(
        model.compile_logp(vars=model["z"])(point),
        stats.multinomial.logpmf(observed, 3000, model["z"].owner.inputs[-1].data @ weights),
    )
