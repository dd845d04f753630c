import numpy as np

import dpbayes as dpb


def test_a_share_far_from_its_prior_is_not_called_prior_dominated():
    values = np.full(60, 15)
    values[7] = 400
    law = dpb.DiscreteLaplace(scale=12)
    release = dpb.HistogramRelease(values, mechanism=law)
    prior = dpb.Dirichlet(concentration=1.0)
    posterior = dpb.fit(release, prior, draws=500, random_seed=1, progressbar=False)
    row = posterior.summary().loc["probability[7]"]
    assert row["learned"] < 0.3  # by spread alone it would be
    assert row["lower"] > 0.15
    assert "probability[7]" not in posterior.verdict().prior_dominated


def test_cells_hidden_by_the_noise_are_prior_dominated():
    release = dpb.HistogramRelease([3, -40, 25], mechanism=dpb.DiscreteLaplace(scale=200), total=20)
    prior = dpb.Dirichlet(concentration=1.0)
    posterior = dpb.fit(release, prior, draws=500, random_seed=1, progressbar=False)
    names = posterior.verdict().prior_dominated
    assert {"probability[0]", "probability[1]", "probability[2]"} <= set(names)
    assert not posterior.verdict().ok
