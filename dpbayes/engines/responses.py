r"""Posterior of P from randomised answers, under a Dirichlet prior.

Reports c_v are multinomial with probabilities Σ_x M[x, v] p_x. Where all that happened is
that a share λ of answers was given at random, the answers t_v that tell the truth, with what
is left at random, have the weights C(c_v, t_v) (1-λ)^{t_v} (λ/k)^{c_v-t_v} Γ(a_v+t_v)/Γ(a_v),
a product over categories but for Γ(A)/Γ(A+Σt): draws are exact and independent. Any other
matrix takes data augmentation: truths given reports and p, p given truths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from dpbayes.engines.drawn import Drawn, Settings
from dpbayes.engines.progress import progress_bar
from dpbayes.engines.separable import SeparableCounts, check_size
from dpbayes.priors import Dirichlet
from dpbayes.releases import ResponseRelease
from dpbayes.schema import CHAIN, COUNT, DRAW, PROBABILITY, TOTAL

__all__ = [
    "dirichlet",
    "draw_augmented",
    "draw_exactly",
    "log_evidence",
    "named",
    "prior_draws",
]

_PRIOR_DRAWS = 1000
#: Sweeps between draws: from the matrix's smallest singular value, within these bounds.
_MOST_THIN, _TUNE = 2000, 300
#: Walkers per chain.
_BESIDE = 50


def draw_exactly(
    release: ResponseRelease,
    prior: Dirichlet,
    sequence: np.random.SeedSequence,
    settings: Settings,
) -> Drawn:
    """Independent draws where a share of the answers was given at random."""
    rng, rng_prior = (np.random.default_rng(s) for s in sequence.spawn(2))
    shapes, size = prior.shapes(release.size), settings.chains * settings.draws
    with progress_bar("Drawing exactly", release.size, settings.progressbar) as advance:
        truthful = _truthful(release, shapes)
        told = truthful.draw(size, rng)
        advance(release.size)
    p = dirichlet(shapes + told, rng)
    # Those who answered at random had a truth too, of which the answer says nothing.
    counts = told + rng.multinomial(release.total - told.sum(axis=1), p)
    return Drawn(
        named(p, counts, (settings.chains, settings.draws)),
        prior_draws(release, shapes, rng_prior),
        {"log_evidence": _evidence(release, shapes, truthful)},
    )


def log_evidence(release: ResponseRelease, prior: Dirichlet) -> float:
    """Log probability of the reports, counted by category, where ε was stated."""
    shapes = prior.shapes(release.size)
    return _evidence(release, shapes, _truthful(release, shapes))


def _truthful(release: ResponseRelease, shapes: np.ndarray) -> SeparableCounts:
    """Law of the numbers of true answers by category."""
    share = release.uniform_share
    assert share is not None
    counts = release.values.values.astype(np.int64)
    check_size(release.size, int(counts.max()))
    mass, n, k = float(shapes.sum()), release.total, release.size
    tables = []
    for a, c in zip(shapes, counts, strict=True):
        t = np.arange(c + 1.0)
        choose = special.gammaln(c + 1.0) - special.gammaln(t + 1.0) - special.gammaln(c - t + 1.0)
        log = choose + special.gammaln(a + t) - special.gammaln(a)
        tables.append(log + special.xlogy(t, 1.0 - share) + special.xlogy(c - t, share / k))

    def root(totals: np.ndarray) -> np.ndarray:
        return special.gammaln(mass) - special.gammaln(mass + totals)

    return SeparableCounts(tables, root=root, centre=(1.0 - share) * n)


def _evidence(release: ResponseRelease, shapes: np.ndarray, law: SeparableCounts) -> float:
    counts = release.values.values
    arranged = special.gammaln(release.total + 1.0) - special.gammaln(counts + 1.0).sum()
    return float(law.log_mass + arranged)


def draw_augmented(
    release: ResponseRelease,
    prior: Dirichlet,
    sequence: np.random.SeedSequence,
    settings: Settings,
) -> Drawn:
    """Chains that alternate between the truths behind the reports and P.

    Each chain is made of several that run side by side, each long enough to forget its
    start; their draws take turns.
    """
    shapes, matrix = prior.shapes(release.size), release.responses
    counts = release.values.values.astype(np.int64)
    thin = _thinning(matrix)
    tune = settings.tune or max(_TUNE, 10 * thin)
    seed, seed_prior = sequence.spawn(2)
    rng = np.random.default_rng(seed)
    beside = min(_BESIDE, settings.draws)
    rounds = -(-settings.draws // beside)
    walkers = settings.chains * beside
    kept_p = np.empty((rounds, walkers, release.size))
    kept_truths = np.empty(kept_p.shape, dtype=np.int64)
    state = dirichlet(np.broadcast_to(shapes, (walkers, release.size)), rng)
    seen = np.flatnonzero(counts)
    likely, reports = matrix.T[seen], counts[seen]
    with progress_bar("Drawing truths", rounds, settings.progressbar) as advance:
        for turn in range(rounds):
            for _ in range(thin + (0 if turn else tune)):
                weights = likely * state[:, None, :]
                weights /= weights.sum(axis=-1, keepdims=True)
                found = rng.multinomial(reports, weights).sum(axis=1)
                state = dirichlet(shapes + found, rng)
            kept_p[turn], kept_truths[turn] = state, found
            advance(1)
    p, truths = (
        kept.reshape(rounds, settings.chains, beside, -1).swapaxes(0, 1).reshape(
            settings.chains, rounds * beside, -1
        )[:, : settings.draws]
        for kept in (kept_p, kept_truths)
    )  # fmt: skip
    posterior = named(p, truths, p.shape[:2])
    before = prior_draws(release, shapes, np.random.default_rng(seed_prior))
    return Drawn(posterior, before, {"thin": thin}, convergence=_judge(posterior))


def _thinning(matrix: np.ndarray) -> int:
    """Sweeps after which a chain has mostly forgotten.

    Near uniform p, one sweep shrinks the direction of the smallest singular value σ by a
    factor of 1 - σ².
    """
    least = float(np.linalg.svd(matrix, compute_uv=False).min())
    return int(np.clip(np.ceil(2.0 / max(least**2, 1e-9)), 1, _MOST_THIN))


def dirichlet(shapes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw from Dirichlet laws, one per row; tiny shapes do not underflow to 0/0."""
    with np.errstate(divide="ignore"):
        logs = np.log(rng.gamma(shapes + 1.0)) + np.log(rng.random(shapes.shape)) / shapes
    p = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def named(p: np.ndarray, counts: np.ndarray, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """Draws under their public names, by chain and draw."""
    counts = counts.reshape(*shape, -1)
    return {PROBABILITY: p.reshape(*shape, -1), COUNT: counts, TOTAL: counts.sum(axis=-1)}


def prior_draws(
    release: Any, shapes: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Prior draws as one chain."""
    p = dirichlet(np.broadcast_to(shapes, (_PRIOR_DRAWS, shapes.size)), rng)
    return named(p, rng.multinomial(release.total, p), (1, _PRIOR_DRAWS))


def _judge(posterior: dict[str, np.ndarray]) -> Any:
    """Verdict on P."""
    # Loads ArviZ, which exact draws do without.
    import xarray as xr

    from dpbayes.engines.convergence import convergence

    variables = {PROBABILITY: ((CHAIN, DRAW, "category"), posterior[PROBABILITY])}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})
    return convergence(tree, var_names=[PROBABILITY])
