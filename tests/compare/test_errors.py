import numpy as np
import pytest
from scipy import integrate, stats

from dpbayes.compare import BetaMixture, Tuning, expected_error, simulate_errors, tuning
from dpbayes.compare.errors import _ks
from dpbayes.errors import ParameterError, UnsupportedError

SMOOTH = BetaMixture((10.0,), (10.0,))
HILLS = BetaMixture((10.0, 3.0), (3.0, 10.0))


@pytest.mark.parametrize("target", [SMOOTH, HILLS, BetaMixture((2, 5), (4, 1), (1, 3))])
def test_targets(target):
    def density(x):
        parts = zip(target.weights, target.first, target.second, strict=True)
        return sum(w * stats.beta.pdf(x, a, b) for w, a, b in parts)

    assert target.square_integral() == pytest.approx(
        integrate.quad(lambda x: density(x) ** 2, 0, 1)[0], rel=1e-8
    )
    masses = target.masses(4)
    assert masses[1] == pytest.approx(integrate.quad(density, 0.25, 0.5)[0], rel=1e-8)
    np.testing.assert_allclose(target.masses(4, 2), np.outer(masses, masses))
    drawn = target.sample(4000, np.random.default_rng(1))
    assert stats.kstest(drawn, target.cdf).pvalue > 1e-3


def test_bad_targets():
    with pytest.raises(ParameterError, match="above 1/2"):
        BetaMixture((0.5,), (1.0,))
    with pytest.raises(ParameterError, match="one length"):
        BetaMixture((1.0, 2.0), (1.0,))


@pytest.mark.parametrize("target", [SMOOTH, HILLS])
@pytest.mark.parametrize(
    ("mechanism", "alpha", "chosen", "dimension"),
    [
        ("none", 1.0, Tuning(bins=10), 1),
        ("none", 1.0, Tuning(bins=10, draws=50), 1),
        ("perturbed", 0.3, Tuning(bins=12), 1),
        ("perturbed", 0.3, Tuning(bins=5), 2),
        ("smoothed", 1.0, Tuning(bins=7, draws=40, delta=0.4), 1),
        ("smoothed", 1.0, Tuning(bins=4, draws=40, delta=0.2), 2),
    ],
)
def test_closed_forms_against_simulation(mechanism, alpha, chosen, dimension, target):
    options = {"dimension": dimension, "clamp": False}
    exact = expected_error(mechanism, target, 200, alpha, chosen, **options)
    errors = simulate_errors(
        mechanism, "l2", target, 200, alpha, chosen, simulations=3000, rng=5, **options
    )
    assert abs(errors.mean() - exact) < 4 * errors.std() / np.sqrt(3000)


def test_the_noise_term_is_the_published_one():
    found = [
        expected_error("perturbed", SMOOTH, 500, alpha, Tuning(bins=9), clamp=False)
        for alpha in (0.2, np.inf)
    ]
    assert found[0] - found[1] == pytest.approx(8 * 81 / (500 * 0.2) ** 2, rel=1e-12)


def test_some_cells_of_the_table_of_errors():
    # Clamped and normalised, 10 000 simulations, three digits.
    for n, alpha, bins, published, unit in (
        (100, 1.0, 10, 0.203, 0.001), (1000, 0.1, 15, 0.164, 0.001), (1000, 0.01, 50, 3.76, 0.01),
    ):  # fmt: skip
        errors = simulate_errors(
            "perturbed", "l2", SMOOTH, n, alpha, Tuning(bins=bins), simulations=2500, rng=8
        )
        both = np.hypot(errors.std() / 50, errors.std() / 100)
        assert abs(errors.mean() - published) < 3 * both + unit / 2


def test_squared_distances_are_integrals():
    """One simulated error against numerical integration of the squared difference."""
    rng = np.random.default_rng(3)
    error = simulate_errors("none", "l2", HILLS, 50, 1.0, Tuning(bins=4), simulations=1, rng=3)
    p = HILLS.masses(4)
    q = rng.multinomial(50, p / p.sum(), size=1)[0] / 50
    x = (np.arange(40_000) + 0.5) / 40_000
    f = 0.5 * (stats.beta.pdf(x, 10, 3) + stats.beta.pdf(x, 3, 10))
    assert error[0] == pytest.approx(np.mean((4 * q[(4 * x).astype(int)] - f) ** 2), rel=1e-6)


def test_ks_distances():
    q = np.array([[0.1, 0.4, 0.3, 0.2]])
    x = np.linspace(0, 1, 100_001)
    heights = np.interp(x, np.linspace(0, 1, 5), np.concatenate([[0], np.cumsum(q)]))
    dense = np.abs(heights - SMOOTH.cdf(x)).max()
    found = _ks(q, SMOOTH, 4)[0]
    assert 0 <= dense - found < 0.02
    plane = np.outer([0.5, 0.5], [0.2, 0.8])[None]
    corners = SMOOTH.cdf(np.array([0.5, 1.0]))
    sums = np.cumsum(np.cumsum(plane[0], axis=0), axis=1)
    assert _ks(plane, SMOOTH, 2)[0] == np.abs(sums - np.outer(corners, corners)).max()


def test_exponential_mechanism():
    chosen = tuning("exponential", "ks", 300, 1.0)
    assert chosen.draws == 45
    errors = simulate_errors("exponential", "ks", SMOOTH, 300, 1.0, chosen, simulations=4, rng=1)
    assert np.all((errors > 1 / 90) & (errors < 0.3))
    with pytest.raises(UnsupportedError, match="for KS in one dimension"):
        simulate_errors("exponential", "l2", SMOOTH, 300, 1.0, chosen)
    with pytest.raises(UnsupportedError, match="too long"):
        simulate_errors("exponential", "ks", SMOOTH, 10**7, 1.0, chosen)


def test_rows_add_their_own_error():
    few, many = (
        simulate_errors(
            "perturbed", "ks", SMOOTH, 10_000, 1.0, Tuning(bins=20, draws=k), simulations=200, rng=2
        ).mean()
        for k in (100, 10**8)
    )
    none = simulate_errors(
        "perturbed", "ks", SMOOTH, 10_000, 1.0, Tuning(bins=20), simulations=200, rng=2
    ).mean()
    assert many == pytest.approx(none, rel=0.05)
    assert few > 3 * none
    with pytest.raises(ParameterError, match="negative shares"):
        simulate_errors("perturbed", "ks", SMOOTH, 100, 0.1, Tuning(bins=9, draws=5), clamp=False)
