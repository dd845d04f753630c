"""R-hat and effective sample sizes against ArviZ; what they say of bad chains."""

import numpy as np
import pytest
import xarray as xr
from arviz_stats.base import array_stats

from dpbayes.engines.convergence import TAILS, convergence, diagnostics


def chains_of(kind, chains=4, draws=400):
    """Draws with chain and draw axes."""
    rng = np.random.default_rng(7)
    white = rng.standard_normal((chains, draws))
    slow = np.empty_like(white)
    slow[:, 0] = white[:, 0]
    for t in range(1, draws):
        slow[:, t] = 0.9 * slow[:, t - 1] + white[:, t]
    return {
        "white": white,
        "autocorrelated": slow,
        "antithetic": white + np.array([1.5, -1.5])[np.arange(draws) % 2],
        "heavy tails": rng.standard_cauchy((chains, draws)),
        "chains apart": white + np.arange(chains)[:, None],
        "scales apart": white * (1.0 + np.arange(chains)[:, None]),
        "counts": rng.poisson(np.exp(0.5 * slow)).astype(float),
        "few values": rng.poisson(0.03, (chains, draws)).astype(float),
        "large counts": rng.poisson(1e7, (chains, draws)).astype(float),
        "half-whole median": rng.integers(0, 2, (chains, draws)) + 3.0,
        "drift": white + np.linspace(0, 3, draws),
        "one chain stuck": np.where(np.arange(chains)[:, None] == 1, 5.0, white),
    }[kind]


KINDS = [
    "white", "autocorrelated", "antithetic", "heavy tails", "chains apart", "scales apart",
    "counts", "few values", "large counts", "half-whole median", "drift", "one chain stuck",
]  # fmt: skip


@pytest.mark.parametrize("shape", [(4, 400), (2, 101), (3, 9), (8, 64)])
def test_agrees_with_arviz(shape):
    draws = np.stack([chains_of(kind, *shape) for kind in KINDS], axis=-1)
    found = diagnostics(draws)
    for k, kind in enumerate(KINDS):
        x = draws[..., k]
        if np.ptp(x) == 0:
            assert np.isnan(found[k]).all()
            continue
        expected = [
            array_stats.rhat(x, chain_axis=0, draw_axis=1),
            array_stats.ess(x, chain_axis=0, draw_axis=1, method="bulk"),
            array_stats.ess(x, chain_axis=0, draw_axis=1, method="tail", prob=TAILS),
        ]
        np.testing.assert_allclose(found[k], expected, rtol=1e-10, err_msg=kind)


def tree_of(**variables):
    dims = ("chain", "draw", "cell")
    arrays = {
        name: xr.DataArray(
            x, dims=dims[: x.ndim], coords={"cell": list("abcdefgh"[: x.shape[2]])} if x.ndim > 2
            else None,
        )
        for name, x in variables.items()
    }  # fmt: skip
    return xr.DataTree.from_dict({"posterior": xr.Dataset(arrays)})


def test_the_worst_quantity_is_named():
    good, bad = chains_of("white", 4, 1000), chains_of("chains apart", 4, 1000)
    found = convergence(tree_of(count=np.stack([good, bad, 0 * good], axis=-1), total=good))
    assert found.worst_rhat == "count[b]"
    assert found.worst_bulk == "count[b]"
    assert not found.converged
    assert "R-hat of count[b]" in found.problems[0]
    fine = convergence(tree_of(count=np.stack([good, 0 * good], axis=-1), total=good))
    assert fine.converged
    assert fine.max_rhat < 1.01


def test_what_does_not_vary_has_converged():
    found = convergence(tree_of(total=np.full((4, 250), 3.0)))
    assert found.converged
    assert (found.max_rhat, found.min_ess) == (1.0, 1000.0)


def test_divergences_from_outside_count():
    found = convergence(tree_of(total=chains_of("white", 4, 1000)), divergences=2)
    assert found.divergences == 2
    assert "2 divergent transitions" in found.problems[0]


@pytest.mark.parametrize("bad", ["not finite", "too short", "one chain"])
def test_what_cannot_be_judged_has_not_converged(bad):
    x = chains_of("white", 4, 1000)
    if bad == "not finite":
        x[0, 0] = np.nan
    elif bad == "too short":
        x = x[:, :3]
    else:
        x = x[:1]
    found = convergence(tree_of(total=x))
    assert not found.converged
    assert found.max_rhat == np.inf
