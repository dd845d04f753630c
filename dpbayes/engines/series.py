r"""Posterior of P from noisy coefficients of an orthogonal series (r = 1).

P is a Dirichlet law over fine cells. Given the counts N of the cells, the coefficients are
Σ_v N_v ψ̄_jv / n plus noise, with ψ̄ the means of the cosines over cells: what ψ varies
within a cell is left out, at most (π/8)²/12 = 1.3 % of the sampling variance with eight
cells per frequency. With P summed out, a Metropolis chain moves records between cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from dpbayes.engines.drawn import Drawn, Settings
from dpbayes.engines.progress import progress_bar
from dpbayes.engines.responses import dirichlet, named, prior_draws
from dpbayes.engines.separable import check_size
from dpbayes.errors import UnsupportedError
from dpbayes.kernels.series import move_counts
from dpbayes.noise import Gaussian, Laplace
from dpbayes.priors import Dirichlet
from dpbayes.releases import SeriesRelease
from dpbayes.schema import CHAIN, COUNT, DRAW

__all__ = ["cell_means", "draw_counts", "number_of_cells"]

#: Cells per frequency, and least number of cells.
_PER_FREQUENCY, _LEAST = 8, 32
#: Moves between draws and before the first, for each cell.
_THIN, _TUNE = 200, 10_000


def number_of_cells(release: SeriesRelease, prior: Dirichlet) -> int:
    """Return the number of fine cells: that of the prior where it names one for each."""
    if np.ndim(prior.concentration):
        return len(prior.concentration)
    return max(_LEAST, _PER_FREQUENCY * release.order)


def cell_means(order: int, cells: int) -> np.ndarray:
    """Means of the cosines over equal cells of [0, 1], one row per frequency."""
    j, edges = np.arange(1, order + 1)[:, None], np.linspace(0.0, 1.0, cells + 1)
    integral = np.sqrt(2.0) * np.sin(np.pi * j * edges) / (np.pi * j)
    return np.diff(integral, axis=1) * cells


def draw_counts(
    release: SeriesRelease,
    prior: Dirichlet,
    sequence: np.random.SeedSequence,
    settings: Settings,
) -> Drawn:
    """Chains of counts, and P given them."""
    noise = release.mechanism.noise
    if release.dimension != 1:
        raise UnsupportedError("a series in two dimensions can be simulated, but not fitted")
    if release.mechanism.steps or not isinstance(noise, Laplace | Gaussian) or noise.shape:
        raise UnsupportedError(
            "coefficients of a series need Laplace or Gaussian noise of one scale and no "
            f"post-processing, got {release.mechanism!r}"
        )
    cells = number_of_cells(release, prior)
    shapes, functions = prior.shapes(cells), cell_means(release.order, cells) / release.total
    scale = float(noise.scale if isinstance(noise, Laplace) else noise.sd)
    kinds, which = np.unique(shapes, return_inverse=True)
    check_size(kinds.size, release.total)
    m = np.arange(release.total + 1.0)
    weights = special.gammaln(kinds[:, None] + m) - special.gammaln(m + 1.0)
    seeds, seed_prior = sequence.spawn(2)
    counts = np.empty((settings.chains, settings.draws, cells), dtype=np.int64)
    p = np.empty(counts.shape)
    thin, tune = _THIN * cells, (settings.tune or _TUNE) * cells
    with progress_bar("Moving records", settings.chains, settings.progressbar) as advance:
        for chain, seed in enumerate(seeds.spawn(settings.chains)):
            rng = np.random.default_rng(seed)
            state = rng.multinomial(release.total, dirichlet(shapes, rng)).astype(np.int64)
            move_counts(
                state, weights, which, functions, release.values, scale,
                isinstance(noise, Laplace), tune, thin, int(rng.integers(2**31)), counts[chain],
            )  # fmt: skip
            p[chain] = dirichlet(shapes + counts[chain], rng)
            advance(1)
    posterior = named(p, counts, counts.shape[:2])
    before = prior_draws(release, shapes, np.random.default_rng(seed_prior))
    (low, high), edges = release.bounds[0], np.linspace(0.0, 1.0, cells + 1)
    return Drawn(posterior, before, convergence=_judge(posterior), edges=low + (high - low) * edges)


def _judge(posterior: dict[str, np.ndarray]) -> Any:
    """Verdict on sums of neighbouring counts, which functionals of P are made of."""
    import xarray as xr

    from dpbayes.engines.convergence import convergence

    below = np.cumsum(posterior[COUNT], axis=-1)[..., :-1]
    tree = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"count_below": ((CHAIN, DRAW, "edge"), below)})}
    )
    return convergence(tree, var_names=["count_below"])
