"""``fit``: from a release to its posterior, by the engine that suits it."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpbayes.engines import exact, exchange
from dpbayes.errors import ParameterError, UnsupportedError, nearest_name
from dpbayes.posterior import Posterior, assemble
from dpbayes.priors import Dirichlet, ScaleMixture, Smooth
from dpbayes.releases import HistogramRelease, RecordRelease
from dpbayes.schema import CONCENTRATION, COUNT, PROBABILITY, RATE, SPIKE, TOTAL

__all__ = ["fit"]

_ENGINES = ("auto", "exact", "nuts")
#: Prior draws kept for comparison, and the number of cells times draws they may take.
_PRIOR_DRAWS, _PRIOR_ENTRIES = 1000, 4_000_000
_TUNE = 1000


def fit(
    release: HistogramRelease | RecordRelease | Sequence[HistogramRelease],
    prior: Any = None,
    draws: int = 1000,
    chains: int = 4,
    random_seed: int | None = None,
    engine: str = "auto",
    progressbar: bool = True,
    shared: str | None = None,
    *,
    tune: int | None = None,
    target_accept: float = 0.95,
) -> Posterior:
    """Draw from the posterior of a release.

    Parameters
    ----------
    release : HistogramRelease or RecordRelease, or list of HistogramRelease
        What was published, and how. A list needs `shared`.
    prior : ScaleMixture, Dirichlet or Smooth, optional
        Prior on P. By default `ScaleMixture` for histograms, which learns the law of the
        cells' rates from the table, and `Smooth` for records.
    draws : int
        Draws per chain.
    chains : int
        Number of chains. The exact engine's draws are independent, in chains as in draws.
    random_seed : int, optional
        Seed. It is combined with a digest of the release, so that two releases fitted with
        one seed do not share their random numbers. None: a fresh seed, kept in
        ``posterior.attrs["random_seed"]``.
    engine : {"auto", "exact", "nuts"}
        "auto" takes the exact engine where there is one (histograms), NUTS otherwise. Under
        a `ScaleMixture` the few weights of the mixture are sampled, the counts drawn exactly
        given them.
    progressbar : bool
        Show progress on long work.
    shared : {"data"}, optional
        What the releases of a list have in common. "data": the same records were released
        several times (say at two values of epsilon), so that there is one table of counts;
        the posterior's release is `HistogramRelease.with_repeat` of them.
    tune : int, optional
        Warm-up draws per chain, where a sampler runs: by default 1000 for NUTS on a model,
        300 for the weights of a `ScaleMixture`, whose posterior is whitened beforehand.
    target_accept : float
        Target acceptance rate (NUTS only).

    Returns
    -------
    Posterior
        Draws of P, of the true counts and of the total.

    Raises
    ------
    ParameterError
        If an argument is out of range.
    ImpossibleReleaseError
        If no true data could have led to the release.
    UnsupportedError
        If the engine asked for cannot fit this release with this prior.

    References
    ----------
    Wasserman & Zhou (2010), section 2: the release is data with a known conditional law.

    Examples
    --------
    >>> import dpbayes as dpb
    >>> law = dpb.DiscreteLaplace(scale=10)
    >>> release = dpb.HistogramRelease([12, -3, 40], mechanism=law)
    >>> dpb.fit(release, draws=500, random_seed=1, progressbar=False).count.sizes["draw"]
    500
    """
    draws, chains = _whole("draws", draws), _whole("chains", chains)
    tune = None if tune is None else _whole("tune", tune)
    if engine not in _ENGINES:
        raise ParameterError(
            f"engine must be one of {', '.join(_ENGINES)}, "
            f"got {engine!r}{nearest_name(engine, _ENGINES)}"
        )
    if not 0 < target_accept < 1:
        raise ParameterError(f"target_accept must be between 0 and 1, got {target_accept}")
    seed = _seed(random_seed)
    release = _one_release(release, shared)
    if isinstance(release, HistogramRelease):
        chosen, run = _histogram_runner(release, prior, engine)
    elif isinstance(release, RecordRelease):
        chosen = Smooth() if prior is None else prior
        if not isinstance(chosen, Smooth):
            raise UnsupportedError(f"records take a Smooth prior, got {chosen!r}")
        if engine == "exact":
            raise UnsupportedError('records have no exact engine: use engine="auto" or "nuts"')
        run = _records_nuts
    else:
        raise ParameterError(
            f"release must be a HistogramRelease or a RecordRelease, got {type(release).__name__}"
        )
    sequence = np.random.SeedSequence([seed, release.digest()])
    settings = {
        "draws": draws, "chains": chains, "target_accept": target_accept,
        "tune": tune or _WARM_UP.get(run, _TUNE),
        "progressbar": progressbar,
    }  # fmt: skip
    attrs = {"random_seed": seed, "prior": repr(chosen)}
    # Many small products: a second BLAS thread costs more than it brings, ten times more
    # where chains run side by side.
    with threadpool_limits(1, user_api="blas"):
        return run(release, chosen, sequence, settings, attrs)


def _one_release(release: Any, shared: str | None) -> Any:
    """Combine several releases of the same data into one."""
    if not isinstance(release, list | tuple):
        if shared is not None:
            raise ParameterError(f"shared={shared!r} needs a list of releases")
        return release
    if shared != "data":
        raise ParameterError(
            'a list of releases needs shared="data" (the same records released several times), '
            f"got shared={shared!r}; fit separate data separately"
        )
    if not release:
        raise ParameterError("release must hold at least one release, got an empty list")
    first, *others = release
    if not isinstance(first, HistogramRelease):
        raise UnsupportedError(f'shared="data" needs histograms, got {type(first).__name__}')
    for other in others:
        first = first.with_repeat(other)
    return first


def _histogram_runner(
    release: HistogramRelease, prior: Any, engine: str
) -> tuple[Any, Callable[..., Posterior]]:
    """Prior and engine of a histogram."""
    chosen = ScaleMixture() if prior is None else prior
    if isinstance(chosen, ScaleMixture):
        if exchange.crossing(release):
            raise UnsupportedError(
                "margins that cross each other (rows and columns of one table) need a Dirichlet "
                "prior: give prior=dpb.Dirichlet()"
            )
        if engine == "nuts":
            raise UnsupportedError(
                'engine="nuts" takes a Dirichlet prior; ScaleMixture has an engine of its own: '
                'use engine="auto"'
            )
        return chosen, _histogram_mixture
    if not isinstance(chosen, Dirichlet):
        raise UnsupportedError(
            f"a histogram takes a ScaleMixture or Dirichlet prior, got {chosen!r}"
        )
    chosen.check_size(release.size)
    if exchange.crossing(release):
        return chosen, _histogram_crossing
    return chosen, _histogram_nuts if engine == "nuts" else _histogram_exact


def _histogram_exact(
    release: HistogramRelease,
    prior: Dirichlet,
    sequence: np.random.SeedSequence,
    settings: dict[str, Any],
    attrs: dict[str, Any],
) -> Posterior:
    shape = (settings["chains"], settings["draws"])
    rng, rng_prior = (np.random.default_rng(s) for s in sequence.spawn(2))
    with _progress("Drawing exactly", release.size, settings["progressbar"]) as advance:
        drawn = exact.draw_posterior(release, prior, shape[0] * shape[1], rng, advance)
    arrays = {PROBABILITY: drawn.probability, COUNT: drawn.count, TOTAL: drawn.total}
    if drawn.rate is not None:
        arrays[RATE] = drawn.rate
    if drawn.concentration is not None:
        arrays[CONCENTRATION] = drawn.concentration
    posterior = {k: v.reshape(*shape, *v.shape[1:]) for k, v in arrays.items()}
    return assemble(
        release,
        posterior=posterior,
        prior=_prior_group(
            release, rng_prior, lambda n, rng: exact.draw_prior(release, prior, n, rng)
        ),
        attrs={**attrs, "engine": "exact", "log_evidence": drawn.log_evidence},
    )


def _histogram_crossing(
    release: HistogramRelease,
    prior: Dirichlet,
    sequence: np.random.SeedSequence,
    settings: dict[str, Any],
    attrs: dict[str, Any],
) -> Posterior:
    from dpbayes.engines.convergence import convergence

    seeds, seed_prior = sequence.spawn(2)
    draws, chains = settings["draws"], settings["chains"]
    with _progress("Drawing tables", draws * chains, settings["progressbar"]) as advance:
        drawn = exchange.draw_posterior(
            release, prior, draws, chains, settings["tune"], seeds, advance
        )
    arrays = {PROBABILITY: drawn.probability, COUNT: drawn.count, TOTAL: drawn.total}
    if drawn.rate is not None:
        arrays[RATE] = drawn.rate
    posterior = assemble(
        release,
        posterior=arrays,
        prior=_prior_group(
            release,
            np.random.default_rng(seed_prior),
            lambda n, rng: exact.draw_prior(release, prior, n, rng),
        ),
        attrs={**attrs, "engine": "exchange"},
    )
    posterior.data.attrs.update(_diagnostics(convergence(posterior.data, var_names=[COUNT, TOTAL])))
    return posterior


def _histogram_mixture(
    release: HistogramRelease,
    prior: ScaleMixture,
    sequence: np.random.SeedSequence,
    settings: dict[str, Any],
    attrs: dict[str, Any],
) -> Posterior:
    # Both load ArviZ, which a fit under a Dirichlet prior does without.
    from dpbayes.engines import mixture
    from dpbayes.engines.convergence import convergence

    seeds, seed_prior = sequence.spawn(2)
    with _progress("Drawing counts", release.size, settings["progressbar"]) as advance:
        drawn = mixture.draw_posterior(
            release, prior, settings["draws"], settings["chains"], settings["tune"], seeds, advance
        )
    rng_prior = np.random.default_rng(seed_prior)
    arrays = {PROBABILITY: drawn.probability, COUNT: drawn.count, TOTAL: drawn.total}
    arrays[SPIKE] = drawn.spike
    posterior = assemble(
        release,
        posterior=arrays,
        prior=_prior_group(
            release, rng_prior, lambda n, rng: mixture.draw_prior(release, prior, n, rng)
        ),
        attrs={**attrs, "engine": "mixture"},
    )  # fmt: skip
    found = convergence(posterior.data, var_names=[COUNT, TOTAL])
    posterior.data.attrs.update(_diagnostics(found))
    return posterior


def _prior_group(
    release: HistogramRelease,
    rng: np.random.Generator,
    draw: Callable[[int, np.random.Generator], dict[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Prior draws as one chain, fewer for large tables."""
    count = int(np.clip(_PRIOR_ENTRIES // release.size, 20, _PRIOR_DRAWS))
    return {k: v[None] for k, v in draw(count, rng).items()}


def _histogram_nuts(
    release: HistogramRelease,
    prior: Dirichlet,
    sequence: np.random.SeedSequence,
    settings: dict[str, Any],
    attrs: dict[str, Any],
) -> Posterior:
    from dpbayes.engines import nuts

    seed, rng_prior = sequence.spawn(2)
    drawn = nuts.fit_histogram(release, prior, random_seed=seed, **settings)
    return assemble(
        release,
        posterior=drawn.posterior,
        prior=_prior_group(
            release,
            np.random.default_rng(rng_prior),
            lambda n, rng: exact.draw_prior(release, prior, n, rng),
        ),
        attrs={**attrs, "engine": "nuts", **_diagnostics(drawn.convergence)},
        sample_stats=drawn.sample_stats,
    )


def _records_nuts(
    release: RecordRelease,
    prior: Smooth,
    sequence: np.random.SeedSequence,
    settings: dict[str, Any],
    attrs: dict[str, Any],
) -> Posterior:
    from dpbayes.engines.records import fit_records

    drawn = fit_records(release, prior, random_seed=sequence, **settings)
    return assemble(
        release,
        posterior=drawn.posterior,
        prior=drawn.prior,
        attrs={**attrs, "engine": "nuts", **drawn.attrs, **_diagnostics(drawn.convergence)},
        edges=drawn.edges,
        atoms=drawn.atoms,
        sample_stats=drawn.sample_stats,
    )


def _diagnostics(convergence: Any) -> dict[str, Any]:
    """Attributes that the verdict reads."""
    return {
        "problems": json.dumps(list(convergence.problems)),
        "max_rhat": float(convergence.max_rhat),
        "min_ess": float(convergence.min_ess),
        "divergences": int(convergence.divergences),
    }


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ParameterError(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(value)


def _seed(random_seed: Any) -> int:
    if random_seed is None:
        return secrets.randbits(31)
    if (
        isinstance(random_seed, bool)
        or not isinstance(random_seed, int | np.integer)
        or random_seed < 0
    ):
        raise ParameterError(
            f"random_seed must be a whole number of at least 0 or None, got {random_seed!r}"
        )
    return int(random_seed)


#: Warm-up where less than NUTS needs is enough.
_WARM_UP: dict[Any, int] = {_histogram_mixture: 300, _histogram_crossing: 200}


@contextlib.contextmanager
def _progress(label: str, units: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """Progress bar that vanishes when the work is done."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=units)
        yield lambda done: bar.advance(task, done)
