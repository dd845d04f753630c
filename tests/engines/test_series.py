"""Calibration of the posterior from noisy cosine coefficients."""

import numpy as np
import pytest
from scipy import stats

import dpbayes as dpb
from dpbayes import simulate

CELLS, N, DATA_SETS = 16, 200, 300


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dpbayes.errors.ConvergenceWarning")  # short chains
def test_ranks_are_uniform():
    rng, shapes = np.random.default_rng(5), np.full(CELLS, 0.5)
    prior = dpb.Dirichlet(concentration=shapes)
    middle = (np.arange(CELLS) + 0.5) / CELLS
    ranks, covered = {"mean": [], "half": []}, []
    for seed in range(DATA_SETS):
        p = rng.dirichlet(shapes)
        counts = rng.multinomial(N, p)
        x = (np.repeat(np.arange(CELLS), counts) + rng.random(N)) / CELLS
        release = simulate.orthogonal_series(x, order=2, alpha=2.0, rng=rng)
        found = dpb.fit(release, prior, draws=100, chains=1, random_seed=seed, progressbar=False)
        draws = found.probability.values[0]
        for name, f in (("mean", middle), ("half", (middle < 0.5).astype(float))):
            ranks[name].append(np.sum(draws @ f < p @ f) / 101 + rng.uniform() / 101)
        low, high = np.quantile(draws @ middle, [0.05, 0.95])
        covered.append(low <= p @ middle <= high)
    for values in ranks.values():
        assert stats.chisquare(np.histogram(values, 10, (0, 1))[0]).pvalue > 1e-3
    assert abs(np.mean(covered) - 0.9) < 0.055  # 3.2 standard errors
