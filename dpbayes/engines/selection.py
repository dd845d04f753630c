"""Posterior of P from one outcome of the exponential mechanism, by rejection.

True counts drawn from their prior are kept with the probability that the outcome is chosen
given them: what is kept are independent draws of the posterior.
"""

from __future__ import annotations

import numpy as np

from dpbayes.engines.drawn import Drawn, Settings
from dpbayes.engines.progress import progress_bar
from dpbayes.engines.responses import dirichlet, named, prior_draws
from dpbayes.errors import UnsupportedError
from dpbayes.priors import Dirichlet
from dpbayes.releases import SelectionRelease

__all__ = ["draw_exactly"]

#: Entries drawn at a time, and proposals after which an outcome is too unlikely.
_BATCH, _MOST = 2_000_000, 50_000_000


def draw_exactly(
    release: SelectionRelease,
    prior: Dirichlet,
    sequence: np.random.SeedSequence,
    settings: Settings,
) -> Drawn:
    """Independent draws of the true counts and of P."""
    rng, rng_prior = (np.random.default_rng(s) for s in sequence.spawn(2))
    shapes, size = prior.shapes(release.size), settings.chains * settings.draws
    kept_p, kept_counts = [], []
    found = tried = 0
    batch = max(100, min(_BATCH // release.size, 4 * size))
    with progress_bar("Drawing exactly", size, settings.progressbar) as advance:
        while found < size:
            if tried > _MOST:
                raise UnsupportedError(
                    f"the outcome {release.value!r} is too unlikely under this prior: {found} of "
                    f"{tried} tables drawn from it led to it"
                )
            p = dirichlet(np.broadcast_to(shapes, (batch, release.size)), rng)
            counts = rng.multinomial(release.total, p)
            chance = np.exp(release.log_probabilities(counts)[:, release.chosen])
            keep = rng.random(batch) < chance
            kept_p.append(p[keep])
            kept_counts.append(counts[keep])
            found, tried = found + int(keep.sum()), tried + batch
            advance(int(keep.sum()))
    shape = (settings.chains, settings.draws)
    p, counts = (np.concatenate(kept)[:size] for kept in (kept_p, kept_counts))
    evidence = float(np.log(found / tried))
    before = prior_draws(release, shapes, rng_prior)
    return Drawn(named(p, counts, shape), before, {"log_evidence": evidence})
