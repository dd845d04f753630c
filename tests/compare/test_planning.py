import numpy as np
import pytest

import dpbayes as dpb
from dpbayes.compare import plan, privacy_cost
from dpbayes.errors import ParameterError

P = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
EDGES = np.array([0.0, 10.0, 20.0, 30.0, 40.0, 50.0])
MIDDLE = 0.5 * (EDGES[1:] + EDGES[:-1])


def test_the_three_ways_round_agree():
    first = plan(MIDDLE, P, records=2000, epsilon=0.2)
    assert plan(MIDDLE, P, half_width=first.half_width, records=2000).epsilon == pytest.approx(0.2)
    again = plan(MIDDLE, P, half_width=first.half_width, epsilon=0.2)
    assert again.records == 2000
    assert again.half_width <= first.half_width * (1 + 1e-9)
    assert plan(MIDDLE, P, records=2000, epsilon=0.2, sensitivity=1).half_width < first.half_width


def test_the_formula_is_the_variance_of_the_best_linear_estimate():
    n, b = 500.0, 2.0 / 0.1
    cov = n * (np.diag(P) - np.outer(P, P)) + 2 * b * b * np.eye(5)
    one, f = np.ones(5), MIDDLE
    best = (f @ cov @ f - (f @ cov @ one) ** 2 / (one @ cov @ one)) / n**2
    found = plan(MIDDLE, P, records=n, epsilon=0.1, level=0.9)
    assert found.half_width == pytest.approx(1.6448536 * np.sqrt(best), rel=1e-6)


def test_exact_posteriors_are_as_wide_as_planned():
    n, epsilon, rng = 4000, 0.05, np.random.default_rng(1)
    planned = plan(MIDDLE, P, records=n, epsilon=epsilon, level=0.9)
    law = dpb.Laplace.from_epsilon(epsilon=epsilon, sensitivity=2)
    widths = []
    for seed in range(12):
        noisy = rng.multinomial(n, P) + law.rvs(5, rng)
        release = dpb.HistogramRelease(noisy, mechanism=law, edges=EDGES, total=n)
        found = dpb.fit(release, dpb.Dirichlet(), draws=500, random_seed=seed, progressbar=False)
        widths.append(np.diff(np.quantile(found.P.mean(), [0.05, 0.95]))[0] / 2)
    # A posterior under Laplace noise is narrower than the best linear estimate, by a tenth here.
    assert np.mean(widths) == pytest.approx(planned.half_width, rel=0.2)
    assert planned.sampling_share < 0.2
    assert "variance is noise" in str(planned)
    share = privacy_cost(found).loc["P.mean"]
    assert share["ratio"] == pytest.approx(1 / np.sqrt(planned.sampling_share), rel=0.35)
    clean = np.sqrt(P @ (MIDDLE - P @ MIDDLE) ** 2 / n)
    assert share["sd_without"] == pytest.approx(clean, rel=0.3)


def test_bad_input():
    with pytest.raises(ParameterError, match=r"half_width must be above .* it takes over"):
        plan(MIDDLE, P, half_width=0.01, records=2000)
    with pytest.raises(ParameterError, match="leave out exactly one"):
        plan(MIDDLE, P, half_width=1)
    with pytest.raises(ParameterError, match="sum to 1"):
        plan(MIDDLE, 2 * P, records=10, epsilon=1)
    with pytest.raises(ParameterError, match="a constant needs no data"):
        plan(np.ones(5), P, records=10, epsilon=1)
    with pytest.raises(ParameterError, match="epsilon must be positive"):
        plan(MIDDLE, P, records=10, epsilon=0)
