"""Rates from a noisy numerator and a noisy denominator, and what one rate gains on another."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import xarray as xr

from dpbayes.engines.rates import draw_rate
from dpbayes.errors import ParameterError
from dpbayes.posterior.naive import naive_counts
from dpbayes.posterior.rates import LiftPosterior, RatePosterior
from dpbayes.priors import Dirichlet
from dpbayes.releases.rate import RateRelease
from dpbayes.schema import (
    CHAIN,
    CONSTANT,
    CONTROL,
    DENOMINATOR,
    DIFFERENCE,
    DRAW,
    FORMAT,
    FORMAT_VERSION,
    LIFT,
    NUMERATOR,
    OBSERVED,
    POSTERIOR,
    PRIOR,
    RATE,
    RELEASED,
    TREATMENT,
)
from dpbayes.version import __version__

__all__ = ["lift", "rate"]

_PRIOR_DRAWS = 1000
_JEFFREYS = Dirichlet(concentration=(0.5, 0.5))


def rate(
    *,
    numerator: Any,
    denominator: Any,
    mechanism: Any = None,
    prior: Dirichlet | None = None,
    draws: int = 1000,
    chains: int = 4,
    random_seed: int | None = None,
) -> RatePosterior:
    r"""Posterior of rates whose numerators and denominators were released with noise.

    The rate lies in [0, 1] and the true numerator is part of the true denominator, however the
    two noisy values fall:

    .. math::

        p \sim \mathrm{Beta}(a, b), \quad C \sim \mathrm{Binomial}(N, p), \quad
        y_c = \mathrm{post}(C + \varepsilon), \quad y_n = \mathrm{post}(N + \varepsilon')

    Parameters
    ----------
    numerator, denominator : number, array_like, DataArray, Series or HistogramRelease
        Released counts (clicks and impressions), one pair per rate; NaN where suppressed.
    mechanism : Mechanism or NoiseLaw, optional
        How numbers and arrays were published; a `HistogramRelease` brings its own. Each value has
        noise of its own. A count that was published as it is has the mechanism ``NoNoise()``.
    prior : Dirichlet, optional
        ``Dirichlet(concentration=(a, b))`` for success and failure; Jeffreys' prior
        a = b = 1/2 by default. Denominators have prior weights 1 / (N + 1).
    draws, chains : int
        Draws per chain, and number of chains: all draws are independent.
    random_seed : int, optional
        Seed; it is combined with a digest of the release, so that two arms with one seed do not
        share their random numbers.

    Returns
    -------
    RatePosterior
        With `rate`, `numerator`, `denominator`, `summary()`, `to_frame()` and `verdict()`.

    Raises
    ------
    ReleaseError
        If numerator and denominator do not have the same cells.
    ImpossibleReleaseError
        If no true counts could have led to a pair of values; names it.
    UnsupportedError
        If a released denominator does not bound the true one from above.

    Notes
    -----
    Nothing is sampled by a Markov chain: the law of the true counts is summed out exactly over the
    counts that matter.

    References
    ----------
    Wasserman & Zhou (2010), section 2: the release is data with a known conditional law.

    Examples
    --------
    >>> import dpbayes as dpb
    >>> law = dpb.DiscreteLaplace(scale=10)
    >>> clicks = dpb.rate(numerator=118, denominator=2040, mechanism=law, random_seed=1)
    >>> clicks.rate.quantile([0.05, 0.95]).shape
    (2,)
    """
    release = RateRelease(numerator=numerator, denominator=denominator, mechanism=mechanism)
    for name, value in (("draws", draws), ("chains", chains)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ParameterError(f"{name} must be a whole number of at least 1, got {value!r}")
    pair = _beta(prior)
    seed = secrets.randbits(31) if random_seed is None else random_seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ParameterError(
            f"random_seed must be a whole number of at least 0 or None, got {random_seed!r}"
        )
    streams = np.random.SeedSequence([int(seed), release.digest()]).spawn(release.size + 1)
    seen = release.numerator.observations(), release.denominator.observations()
    found = [
        draw_rate(
            *seen, j, pair, draws * chains, np.random.default_rng(streams[j]),
            release.numerator.label(j) if release.dims else "the rate",
        )
        for j in range(release.size)
    ]  # fmt: skip
    shape = (chains, draws)
    posterior = {
        RATE: np.stack([d.rate for d in found], axis=-1),
        NUMERATOR: np.stack([d.numerator for d in found], axis=-1),
        DENOMINATOR: np.stack([d.denominator for d in found], axis=-1),
    }
    before = np.random.default_rng(streams[-1]).beta(*pair, (1, _PRIOR_DRAWS, release.size))
    groups = {
        POSTERIOR: {k: v.reshape(*shape, -1) for k, v in posterior.items()},
        PRIOR: {RATE: before},
    }
    tree = xr.DataTree.from_dict(
        {
            **{name: _labelled(release, arrays) for name, arrays in groups.items()},
            OBSERVED: xr.Dataset(
                {
                    RELEASED: release.numerator.values,
                    f"{RELEASED}_{DENOMINATOR}": release.denominator.values,
                }
            ),
            CONSTANT: xr.Dataset(),
        }
    )
    tree.attrs = {
        "format": FORMAT, "format_version": FORMAT_VERSION, "dpbayes_version": __version__,
        "random_seed": int(seed), "engine": "exact",
        "prior": repr(_JEFFREYS if prior is None else prior),
        "log_evidence": float(sum(d.log_evidence for d in found)),
    }  # fmt: skip
    return RatePosterior(tree, release)


def _beta(prior: Dirichlet | None) -> tuple[float, float]:
    """Parameters of the Beta prior."""
    prior = _JEFFREYS if prior is None else prior
    shapes = getattr(prior, "concentration", None)
    if not isinstance(prior, Dirichlet) or isinstance(shapes, str) or prior.rate is not None:
        raise ParameterError(
            "prior must be a Dirichlet(concentration=(a, b)) with numbers a, b for success and "
            f"failure, got {prior!r}"
        )
    a, b = prior.shapes(2)
    return float(a), float(b)


def _labelled(release: RateRelease, arrays: dict[str, np.ndarray]) -> xr.Dataset:
    """Attach chain, draw and the labels of the release."""
    template = release.values
    dims = release.dims
    labels = template.coords if dims else {}
    variables = {}
    for name, array in arrays.items():
        shaped = array.reshape(*array.shape[:2], *(template.shape if dims else ()))
        base = {CHAIN: np.arange(array.shape[0]), DRAW: np.arange(array.shape[1])}
        variables[name] = xr.DataArray(shaped, dims=(CHAIN, DRAW, *dims), coords={**base, **labels})
    return xr.Dataset(variables)


def lift(treatment: RatePosterior, control: RatePosterior) -> LiftPosterior:
    r"""Posterior of the difference and of the relative lift of two rates.

    .. math:: \text{difference} = p_t - p_c, \qquad \text{lift} = p_t / p_c - 1

    Parameters
    ----------
    treatment, control : RatePosterior
        Posteriors of the rates, from `dpbayes.rate`. A single control is compared with each
        of several treatments; several are compared label by label.

    Returns
    -------
    LiftPosterior
        With `difference`, `lift`, `chance(above=0)`, `summary()`, `to_frame()` and `verdict()`.

    Raises
    ------
    ParameterError
        If the two differ in their numbers of draws, or in their labels.

    Examples
    --------
    >>> import dpbayes as dpb
    >>> law = dpb.DiscreteLaplace(scale=10)
    >>> new = dpb.rate(numerator=160, denominator=2100, mechanism=law, random_seed=1)
    >>> old = dpb.rate(numerator=118, denominator=2040, mechanism=law, random_seed=1)
    >>> bool(dpb.lift(new, old).chance(above=0) > 0.9)
    True
    """
    arms = {TREATMENT: treatment, CONTROL: control}
    for name, arm in arms.items():
        if not isinstance(arm, RatePosterior):
            raise ParameterError(f"{name} must be what dpbayes.rate returns, got {arm!r}")
    sizes = [(arm.rate.sizes[CHAIN], arm.rate.sizes[DRAW]) for arm in arms.values()]
    if sizes[0] != sizes[1]:
        raise ParameterError(
            "treatment and control must have equal numbers of draws, got "
            f"{sizes[0][0]} x {sizes[0][1]} and {sizes[1][0]} x {sizes[1][1]}"
        )
    after = _compare(treatment.rate, control.rate)
    tree = xr.DataTree.from_dict(
        {
            POSTERIOR: xr.Dataset(after),
            PRIOR: xr.Dataset(_compare(_prior(treatment), _prior(control))),
            OBSERVED: xr.Dataset(),
            CONSTANT: xr.Dataset(),
        }
    )
    tree.attrs = {"engine": "exact", "dpbayes_version": __version__}
    with np.errstate(invalid="ignore", divide="ignore"):
        true = _compare(*(arm.numerator / arm.denominator for arm in arms.values()))
        naive = _compare(*(_naive(arm.release) for arm in arms.values()))
    inner = after[LIFT].dims[2:]
    reference = next(a.release for a in arms.values() if len(a.release.dims) == len(inner))
    labels = [reference.short_label(i) for i in range(reference.size)]
    return LiftPosterior(
        tree,
        (treatment.release, control.release),
        naive={k: np.atleast_1d(naive[k].values).reshape(-1) for k in (LIFT, DIFFERENCE)},
        realised={k: _rows(true[k].transpose(*after[LIFT].dims)) for k in (LIFT, DIFFERENCE)},
        labels=tuple(f"[{label}]" if label else "" for label in labels),
    )


def _compare(treatment: xr.DataArray, control: xr.DataArray) -> dict[str, xr.DataArray]:
    """Difference and relative lift of two arrays of rates."""
    try:
        treatment, control = xr.align(treatment, control, join="exact", copy=False)
    except ValueError as error:
        raise ParameterError(
            f"treatment and control must have the same labels, got different ones ({error})"
        ) from None
    return {
        LIFT: treatment / control - 1.0,
        DIFFERENCE: treatment - control,
        TREATMENT: treatment,
        CONTROL: control,
    }


def _prior(posterior: RatePosterior) -> xr.DataArray:
    """Prior draws, without labels of draws."""
    return posterior.data[PRIOR].dataset[RATE].drop_vars([CHAIN, DRAW], errors="ignore")


def _naive(release: RateRelease) -> xr.DataArray:
    """Rate as a naive reader would take it."""
    over, under = (naive_counts(part) for part in (release.numerator, release.denominator))
    ratio = release.values.copy(data=np.asarray(over / under, dtype=float))
    return ratio if release.dims else ratio[0].reset_coords(drop=True)


def _rows(array: xr.DataArray) -> np.ndarray:
    """Draws in rows."""
    return array.values.reshape(array.shape[0] * array.shape[1], -1)
