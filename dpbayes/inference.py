"""``fit``: from a release to its posterior, by the engine that suits it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpbayes.engines import histograms, responses, selection, series, synthetic
from dpbayes.engines.drawn import Drawn, Settings
from dpbayes.engines.exchange import crossing
from dpbayes.errors import ParameterError, UnsupportedError, nearest_name
from dpbayes.posterior import Posterior, assemble
from dpbayes.priors import Dirichlet, ScaleMixture, Smooth
from dpbayes.releases import (
    CellTable,
    HistogramRelease,
    RecordRelease,
    ResponseRelease,
    SelectionRelease,
    SeriesRelease,
)

__all__ = ["fit"]

_ENGINES = ("auto", "exact", "nuts")
_TUNE_RECORDS = 1000
_Run = Callable[[Any, Any, np.random.SeedSequence, Settings], Drawn]


def fit(
    release: HistogramRelease | RecordRelease | Sequence[HistogramRelease],
    prior: Any = None,
    draws: int = 1000,
    chains: int = 4,
    random_seed: int | np.random.Generator | None = None,
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
    random_seed : int or numpy.random.Generator, optional
        Seed, or a generator that one is drawn from. It is combined with a digest of the
        release, so that two releases fitted with one seed do not share their random numbers.
        None: a fresh seed. It is kept in ``posterior.attrs["random_seed"]``.
    engine : {"auto", "exact", "nuts"}
        "auto" takes the exact engine where there is one (histograms), NUTS otherwise. Under
        a `ScaleMixture` the few weights of the mixture are sampled, the counts drawn exactly
        given them.
    progressbar : bool
        Show progress on long work.
    shared : {"data", "P"}, optional
        What the releases of a list have in common. "data": the same records were released
        several times (say at two values of epsilon), so that there is one table of counts;
        the posterior's release is `HistogramRelease.with_repeat` of them. "P": each is of
        other records drawn from one distribution (say several weeks), under a `Dirichlet`
        prior (by default with concentration 1), sampled by NUTS; the release is
        `HistogramRelease.with_sample` of them, ``count`` and ``table`` are those of the
        first, and ``data["posterior"]["sample_count"]`` holds the true counts of the others.
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
    _check_prior(prior)
    seed = _seed(random_seed)
    only: Any = _one_release(release, shared)
    chosen, engine_name, run = _choose(only, prior, engine)
    settings = Settings(draws, chains, tune, target_accept, progressbar)
    # Many small products: a second BLAS thread costs more than it brings, ten times more
    # where chains run side by side.
    with threadpool_limits(1, user_api="blas"):
        drawn = run(only, chosen, np.random.SeedSequence([seed, only.digest()]), settings)
    attrs = {"random_seed": seed, "prior": repr(chosen), "engine": engine_name, **drawn.attrs}
    if drawn.convergence is not None:
        attrs |= _diagnostics(drawn.convergence)
    return assemble(
        only,
        posterior=drawn.posterior,
        prior=drawn.prior,
        attrs=attrs,
        edges=drawn.edges,
        atoms=drawn.atoms,
        sample_stats=drawn.sample_stats,
    )


def _one_release(release: Any, shared: str | None) -> Any:
    """Combine several releases of the same data into one."""
    if not isinstance(release, list | tuple):
        if shared is not None:
            raise ParameterError(f"shared={shared!r} needs a list of releases")
        return release
    if shared not in ("data", "P"):
        raise ParameterError(
            'a list of releases needs shared="data" (the same records released several times) or '
            f'shared="P" (other records of the same process), got shared={shared!r}'
        )
    if not release:
        raise ParameterError("release must hold at least one release, got an empty list")
    first, *others = release
    if not isinstance(first, HistogramRelease):
        raise UnsupportedError(f'shared="{shared}" needs histograms, got {type(first).__name__}')
    for other in others:
        first = first.with_repeat(other) if shared == "data" else first.with_sample(other)
    return first


def _choose(release: Any, prior: Any, engine: str) -> tuple[Any, str, _Run]:
    """Prior, name of the engine and engine for a release."""
    if isinstance(release, HistogramRelease):
        return _choose_for_histogram(release, prior, engine)
    if isinstance(release, CellTable | SeriesRelease):
        return _choose_for_cells(release, prior, engine)
    if not isinstance(release, RecordRelease):
        raise ParameterError(
            "release must be a HistogramRelease, RecordRelease, ResponseRelease, SyntheticRelease, "
            f"SelectionRelease or SeriesRelease, got {type(release).__name__}"
        )
    chosen = Smooth() if prior is None else prior
    if not isinstance(chosen, Smooth):
        raise UnsupportedError(f"records take a Smooth prior, got {chosen!r}")
    if engine == "exact":
        raise UnsupportedError('records have no exact engine: use engine="auto" or "nuts"')
    return chosen, "nuts", _draw_records


def _draw_records(
    release: RecordRelease, prior: Smooth, sequence: np.random.SeedSequence, settings: Settings
) -> Drawn:
    """NUTS on the compressed likelihood."""
    # Loads ArviZ, which a histogram under a Dirichlet prior does without.
    from dpbayes.engines.records import fit_records

    drawn = fit_records(
        release, prior, draws=settings.draws, tune=settings.tune or _TUNE_RECORDS,
        chains=settings.chains, random_seed=sequence, target_accept=settings.target_accept,
        progressbar=settings.progressbar,
    )  # fmt: skip
    return Drawn(
        drawn.posterior, drawn.prior, drawn.attrs, drawn.convergence, drawn.sample_stats,
        drawn.edges, drawn.atoms,
    )  # fmt: skip


def _choose_for_cells(
    release: CellTable | SeriesRelease, prior: Any, engine: str
) -> tuple[Any, str, _Run]:
    """Engines of tables about which something other than noisy counts was published."""
    chosen = Dirichlet() if prior is None else prior
    name = type(release).__name__
    if not isinstance(chosen, Dirichlet) or isinstance(chosen.concentration, str):
        raise UnsupportedError(f"a {name} takes a Dirichlet prior of known concentration")
    if not isinstance(release, SeriesRelease):
        chosen.check_size(release.size)
    if engine == "nuts":
        raise UnsupportedError(f'a {name} has engines of its own: use engine="auto"')
    if isinstance(release, SeriesRelease):
        if engine == "exact":
            raise UnsupportedError('a SeriesRelease has no exact engine: use engine="auto"')
        return chosen, "moves", series.draw_counts
    if isinstance(release, SelectionRelease):
        return chosen, "exact", selection.draw_exactly
    if not isinstance(release, ResponseRelease):
        return chosen, "exact", synthetic.draw_exactly
    if release.uniform_share is not None:
        return chosen, "exact", responses.draw_exactly
    if engine == "exact":
        raise UnsupportedError(
            'answers under any matrix have no exact engine: use engine="auto", or state epsilon='
        )
    return chosen, "augmentation", responses.draw_augmented


def _choose_for_histogram(
    release: HistogramRelease, prior: Any, engine: str
) -> tuple[Any, str, _Run]:
    default: Any = Dirichlet() if release.samples else ScaleMixture()
    chosen = default if prior is None else prior
    if isinstance(chosen, ScaleMixture):
        if release.samples:
            raise UnsupportedError('shared="P" takes a Dirichlet prior: give prior=dpb.Dirichlet()')
        if crossing(release):
            raise UnsupportedError(
                "margins that cross each other (rows and columns of one table) need a Dirichlet "
                "prior: give prior=dpb.Dirichlet()"
            )
        if engine == "nuts":
            raise UnsupportedError(
                'engine="nuts" takes a Dirichlet prior; ScaleMixture has an engine of its own: '
                'use engine="auto"'
            )
        return chosen, "mixture", histograms.draw_mixture
    if not isinstance(chosen, Dirichlet):
        raise UnsupportedError(
            f"a histogram takes a ScaleMixture or Dirichlet prior, got {chosen!r}"
        )
    chosen.check_size(release.size)
    if release.samples:
        if engine == "exact":
            raise UnsupportedError(
                'samples that share P have no exact engine: use engine="auto" or "nuts"'
            )
        return chosen, "nuts", histograms.draw_nuts
    if crossing(release):
        return chosen, "exchange", histograms.draw_crossing
    if engine == "nuts":
        return chosen, "nuts", histograms.draw_nuts
    return chosen, "exact", histograms.draw_exactly


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


def _check_prior(prior: Any) -> None:
    """Refuse a prior that is named and not made."""
    known: dict[str, type] = {
        cls.__name__.lower(): cls for cls in (ScaleMixture, Dirichlet, Smooth)
    }
    if isinstance(prior, type) and prior in known.values():
        raise ParameterError(f"prior must be dpb.{prior.__name__}(), got the class: call it")
    if isinstance(prior, str):
        named = known.get(prior.lower().replace("-", "").replace("_", ""), Dirichlet)
        raise ParameterError(
            f"prior must be an object such as dpb.{named.__name__}(), got the text {prior!r}"
        )


def _seed(random_seed: Any) -> int:
    if random_seed is None:
        return secrets.randbits(31)
    if isinstance(random_seed, np.random.Generator):
        return int(random_seed.integers(2**31))
    if (
        isinstance(random_seed, bool)
        or not isinstance(random_seed, int | np.integer)
        or random_seed < 0
    ):
        raise ParameterError(
            "random_seed must be a whole number of at least 0, a numpy.random.Generator or None, "
            f"got {random_seed!r}"
        )
    return int(random_seed)
