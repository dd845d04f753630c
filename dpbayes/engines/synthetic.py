r"""Posterior of P from synthetic rows, through the whole chain P → N → histogram → rows.

With z_j rows in cell j and true counts N_j, the probability of the rows given N is a product
over cells, up to constants:

* smoothing: Π ((1-δ) N_j/n + δ/m)^{z_j};
* Dirichlet sampling: Π Γ(a_j + N_j + z_j) / Γ(a_j + N_j);
* perturbed histogram, S = Σ max(D_j, 0): since S^{-k} = ∫ u^{k-1} e^{-uS} du / Γ(k), it is
  ∫ u^{k-1}/Γ(k) Π_j E[max(D_j, 0)^{z_j} e^{-u max(D_j, 0)} | N_j] du, a product for every u,
  plus m^{-k} Π P(D_j <= 0 | N_j), where all are clamped and q is uniform.

Under a Dirichlet prior the counts are drawn exactly given u, and u on a grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from dpbayes.engines.drawn import Drawn, Settings
from dpbayes.engines.grid import adaptive_grid
from dpbayes.engines.progress import progress_bar
from dpbayes.engines.responses import dirichlet, named, prior_draws
from dpbayes.engines.separable import SeparableCounts, check_size
from dpbayes.errors import UnsupportedError
from dpbayes.priors import Dirichlet
from dpbayes.releases import DirichletSampling, PerturbedSampling, Smoothing, SyntheticRelease

__all__ = ["draw_exactly"]

#: Nodes of equal probability for expectations over rows or noise.
_NODES = 160
#: Half-width of the range of log u in standard deviations.
_REACH = 9.0


@dataclass(frozen=True)
class _Part:
    """One term of the mixture over u, with its log weight."""

    counts: SeparableCounts
    log_weight: float


def draw_exactly(
    release: SyntheticRelease,
    prior: Dirichlet,
    sequence: np.random.SeedSequence,
    settings: Settings,
) -> Drawn:
    """Independent draws of the true counts and of P."""
    rng, rng_prior = (np.random.default_rng(s) for s in sequence.spawn(2))
    shapes, size = prior.shapes(release.size), settings.chains * settings.draws
    check_size(release.size, release.total)
    with progress_bar("Drawing exactly", size, settings.progressbar) as advance:
        parts = _parts(release, shapes)
        logs = np.array([part.log_weight for part in parts])
        chosen = rng.choice(len(parts), size=size, p=_normalised(logs))
        counts = np.empty((size, release.size), dtype=np.int64)
        for which in np.unique(chosen):
            rows = np.flatnonzero(chosen == which)
            counts[rows] = parts[which].counts.draw(rows.size, rng)
            advance(rows.size)
    p = dirichlet(shapes + counts, rng)
    return Drawn(
        named(p, counts, (settings.chains, settings.draws)),
        prior_draws(release, shapes, rng_prior),
    )


def _normalised(logs: np.ndarray) -> np.ndarray:
    p = np.exp(logs - logs.max())
    return p / p.sum()


def _parts(release: SyntheticRelease, shapes: np.ndarray) -> list[_Part]:
    """Terms of the posterior of the counts."""
    m = np.arange(release.total + 1.0)
    prior = [special.gammaln(a + m) - special.gammaln(m + 1.0) for a in shapes]
    rows, law = release.values.values.reshape(-1), release.sampling
    if isinstance(law, Smoothing):
        share = (1.0 - law.delta) * m / max(release.total, 1) + law.delta / release.size
        tables = [w + special.xlogy(z, share) for w, z in zip(prior, rows, strict=True)]
    elif isinstance(law, DirichletSampling):
        extra = law.shapes(release.size)
        tables = [
            w + special.gammaln(a + m + z) - special.gammaln(a + m)
            for w, z, a in zip(prior, rows, extra, strict=True)
        ]
    else:
        assert isinstance(law, PerturbedSampling)
        return _perturbed(release, prior)
    return [_Part(SeparableCounts(tables, total=release.total), 0.0)]


def _perturbed(release: SyntheticRelease, prior: list[np.ndarray]) -> list[_Part]:
    """Terms for a grid of u, and for the uniform histogram."""
    noise = release.mechanism.noise
    if release.mechanism.steps and any(
        step.__class__.__name__ != "Clamp" for step in release.mechanism.steps
    ):
        raise UnsupportedError("rows of a histogram that was rounded or rescaled are not supported")
    if noise.is_lattice or noise.shape:
        raise UnsupportedError(
            f"rows of a perturbed histogram need continuous noise of one scale, got {noise!r}"
        )
    k, n = release.rows, max(release.total, 1)
    known: dict[float, _Part] = {}

    def part(log_u: float) -> _Part:
        if log_u not in known:
            logs = _clamped_moments(release, float(np.exp(log_u)))
            tables = [w + extra for w, extra in zip(prior, logs, strict=True)]
            counts = SeparableCounts(tables, total=release.total)
            known[log_u] = _Part(counts, counts.log_mass + k * log_u - float(special.gammaln(k)))
        return known[log_u]

    # u is Gamma(k, S): S is near n + what clamping adds, at most all positive noise.
    spread = np.sqrt(release.size) * float(noise.sd)
    least = max(n - 4.0 * spread, 0.02 * n, 0.05 * float(noise.sd))
    most = n + 4.0 * spread + release.size * float(noise.sd)
    reach = _REACH / np.sqrt(k)
    box = (np.log(k / most) - reach, np.log(k / least) + reach)
    grid = adaptive_grid(lambda x: part(float(x[0])).log_weight, [box])
    total = float(np.log(box[1] - box[0])) + grid.log_integral
    good = grid.weights > 1e-12
    found = [
        _Part(part(float(x[0])).counts, float(np.log(w) + total))
        for x, w in zip(grid.points[good], grid.weights[good], strict=True)
    ]
    below = noise.logcdf(-np.arange(release.total + 1.0))
    uniform = SeparableCounts([w + below for w in prior], total=release.total)
    return [*found, _Part(uniform, uniform.log_mass - k * np.log(release.size))]


def _clamped_moments(release: SyntheticRelease, u: float) -> list[np.ndarray]:
    r"""Log E[max(D, 0)^z e^{-u max(D, 0)} | N = m] for each cell and all m.

    d^z e^{-ud} is Γ(z+1)/u^{z+1} times a Gamma density. The expectation is taken over nodes
    of equal probability of whichever of that density and the noise is the narrower.
    """
    noise, m = release.mechanism.noise, np.arange(release.total + 1.0)
    middles = (np.arange(_NODES) + 0.5) / _NODES
    below = np.exp(noise.logcdf(-m))
    found: dict[float, np.ndarray] = {}
    for z in np.unique(release.values.values):
        constant = special.gammaln(z + 1.0) - (z + 1.0) * np.log(u)
        if np.sqrt(z + 1.0) / u > float(noise.sd):
            at = m[:, None] + noise.ppf(middles)
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.where(at > 0, special.xlogy(z, at) - u * at, -np.inf)
            log = special.logsumexp(logs, axis=1) - np.log(_NODES)
        else:
            at = special.gammaincinv(z + 1.0, middles) / u
            log = constant + special.logsumexp(noise.logpdf(at - m[:, None]), axis=1)
            log -= np.log(_NODES)
        found[float(z)] = np.logaddexp(log, np.log(below)) if z == 0 else log
    return [found[float(z)] for z in release.values.values.reshape(-1)]
