"""Whether a sampler's draws may be trusted.

nutpie checks nothing about its draws: `convergence` does, and every fit carries its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy import special

from dpbayes.kernels import diagnostics as kernel
from dpbayes.schema import CHAIN, DRAW, POSTERIOR, SAMPLE_STATS

__all__ = ["Convergence", "convergence", "diagnostics"]

MAX_RHAT = 1.01
MIN_ESS_PER_CHAIN = 100
#: Quantiles of the tail effective sample size.
TAILS = (0.05, 0.95)
#: Entries worked on at a time, and threads.
_BATCH, _THREADS = 1 << 21, 2
_MORE = "draw more, after a longer warm-up (draws= and tune=, --draws and --tune)"


@dataclass(frozen=True)
class Convergence:
    """Whether a sampler's draws may be trusted.

    Parameters
    ----------
    max_rhat : float
        Largest rank-normalised split R-hat, at `worst_rhat`.
    min_ess_bulk, min_ess_tail : float
        Smallest effective sample sizes, at `worst_bulk` and `worst_tail`.
    divergences : int
        Divergent transitions after warm-up.
    worst_rhat, worst_bulk, worst_tail : str
        Variable and cell.
    problems : tuple of str
        One sentence per problem, empty where there is none.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Rank-normalization, folding, and
    localization: an improved R-hat, section 4.
    """

    max_rhat: float
    min_ess_bulk: float
    min_ess_tail: float
    divergences: int
    worst_rhat: str
    worst_bulk: str
    worst_tail: str
    problems: tuple[str, ...]

    @property
    def converged(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    @property
    def min_ess(self) -> float:
        """Smaller of the two effective sample sizes."""
        return min(self.min_ess_bulk, self.min_ess_tail)


def convergence(
    tree: xr.DataTree, *, var_names: Sequence[str] | None = None, divergences: int = 0
) -> Convergence:
    """Judge the draws of a sampler.

    Parameters
    ----------
    tree : DataTree
        With groups posterior and, for divergences, sample_stats.
    var_names : sequence of str, optional
        Variables to judge; all by default.
    divergences : int
        Divergent transitions that the tree does not tell of.

    Returns
    -------
    Convergence
        R-hat must be below 1.01, the bulk and tail effective sample sizes at least 100 per
        chain, and no transition divergent.
    """
    posterior = tree[POSTERIOR].to_dataset()
    if var_names is not None:
        posterior = posterior[list(var_names)]
    chains = posterior.sizes[CHAIN]
    found = [_judge(str(name), array) for name, array in posterior.items()]
    size = chains * posterior.sizes[DRAW]
    max_rhat, worst_rhat = max((f[0] for f in found if f[0]), default=(1.0, "no quantity"))
    bulk, worst_bulk = min((f[1] for f in found if f[1]), default=(float(size), "no quantity"))
    tail, worst_tail = min((f[2] for f in found if f[2]), default=(float(size), "no quantity"))
    if SAMPLE_STATS in tree.children and "diverging" in tree[SAMPLE_STATS]:
        divergences += int(tree[SAMPLE_STATS]["diverging"].sum())
    needed = MIN_ESS_PER_CHAIN * chains
    problems = []
    if chains < 2:
        problems.append(
            "one chain cannot show whether chains agree: sample at least two (chains=, --chains)"
        )
    elif not max_rhat < MAX_RHAT:
        problems.append(
            f"chains disagree: R-hat of {worst_rhat} is {max_rhat:.3f}, it should be below "
            f"{MAX_RHAT}; {_MORE}"
        )
    for kind, value, worst in (("bulk", bulk, worst_bulk), ("tail", tail, worst_tail)):
        if not value >= needed:
            problems.append(
                f"too few effective draws: the {kind} ESS of {worst} is {value:.0f}, it should be "
                f"at least {needed}; {_MORE}"
            )
    if divergences:
        problems.append(
            f"{divergences} divergent transition{'s' * (divergences > 1)}: the sampler may have "
            "missed part of the posterior; take smaller steps (target_accept=0.99, "
            "--target-accept 0.99)"
        )
    return Convergence(
        max_rhat, bulk, tail, divergences, worst_rhat, worst_bulk, worst_tail, tuple(problems)
    )


def diagnostics(draws: np.ndarray) -> np.ndarray:
    """R-hat, bulk and tail effective sample size of many quantities.

    Parameters
    ----------
    draws : ndarray, shape (chains, draws, quantities)
        Draws.

    Returns
    -------
    ndarray, shape (quantities, 3)
        NaN for quantities that do not vary. R-hat is infinite and the sizes are 0 for
        quantities that are not finite throughout, or with fewer than 4 draws per chain;
        R-hat is infinite for a single chain.
    """
    chains, length, size = draws.shape
    out = np.empty((size, 3))
    ranks = np.arange(1.0, 2 * chains * (length // 2) + 0.5, 0.5)
    scores = special.ndtri((ranks - 0.375) / (ranks[-1] + 0.25)) if length > 1 else ranks

    def work(part: np.ndarray) -> None:
        some = np.ascontiguousarray(np.moveaxis(draws[..., part], -1, 0), dtype=float)
        good = np.isfinite(some).all(axis=(1, 2)) & (length >= 4)
        found = np.full((part.size, 3), [np.inf, 0.0, 0.0])
        if good.any():
            found[good] = _diagnose(some[good], scores)
        out[part] = found

    parts = np.array_split(np.arange(size), max(_THREADS * 4, draws.size // _BATCH))
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(work, [p for p in parts if p.size]))
    if chains < 2:
        out[np.isfinite(out[:, 0]), 0] = np.inf
    return out


def _diagnose(draws: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """R-hat, bulk and tail effective sample size of finite draws, (quantities, chains, draws)."""
    split = _halves(draws)
    flat = split.reshape(split.shape[0], -1)
    order = np.argsort(flat, axis=1)
    inner = flat.shape[1] // 2  # the size is even
    middle = np.take_along_axis(flat, order[:, inner - 1 : inner + 1], axis=1).sum(axis=1)
    folded = np.abs(2.0 * flat - middle[:, None])
    bulk, tail = np.empty(len(flat)), np.empty(len(flat))
    sizes = np.empty((3, len(flat)))
    z = np.empty(split.shape)
    kernel.normal_scores(flat, order, scores, z.reshape(flat.shape))
    kernel.effective_sizes(z.copy(), sizes[0])
    kernel.rhats(z, bulk)
    kernel.normal_scores(folded, np.argsort(folded, axis=1), scores, z.reshape(flat.shape))
    kernel.rhats(z, tail)
    ordered = np.sort(draws.reshape(len(flat), -1), axis=1)
    for size, prob in zip(sizes[1:], TAILS, strict=True):
        below = draws <= _quantile(ordered, prob)[:, None, None]
        kernel.effective_sizes(_halves(below.astype(float)), size)
    found = np.stack([np.fmax(bulk, tail), sizes[0], sizes[1:].min(axis=0)], axis=1)
    found[ordered[:, 0] == ordered[:, -1]] = np.nan
    return found


def _quantile(ordered: np.ndarray, prob: float) -> np.ndarray:
    """Quantile of sorted rows, interpolated as NumPy does: ties with a draw fall alike."""
    at = prob * (ordered.shape[1] - 1)
    i = min(int(at), ordered.shape[1] - 2)
    low, high, share = ordered[:, i], ordered[:, i + 1], at - i
    if share >= 0.5:
        return high - (high - low) * (1.0 - share)
    return low + (high - low) * share


def _halves(draws: np.ndarray) -> np.ndarray:
    """Halves of the chains, first halves first."""
    half = draws.shape[-1] // 2
    return np.concatenate([draws[..., :half], draws[..., draws.shape[-1] - half :]], axis=1)


def _judge(name: str, array: xr.DataArray) -> list[tuple[float, str] | None]:
    """Worst R-hat, bulk and tail size of a variable's entries, and where they are.

    Entries that do not vary (a probability that is one by construction) are left out.
    """
    cells = array.dims[2:]
    values = array.transpose(CHAIN, DRAW, ...).values
    found = diagnostics(values.reshape(*values.shape[:2], -1))
    moving = ~np.isnan(found).all(axis=1)
    if not moving.any():
        return [None, None, None]
    worst: list[tuple[float, str] | None] = []
    for column, sign in zip(found.T, (-1.0, 1.0, 1.0), strict=True):
        ranked = np.where(np.isnan(column), -np.inf, sign * column)
        ranked[~moving] = np.inf
        at = int(np.argmin(ranked))
        where = np.unravel_index(at, values.shape[2:])
        labels = [
            str(array[d].values[i]) if d in array.coords else str(i)
            for d, i in zip(cells, where, strict=True)
        ]
        value = float(sign * ranked[at])
        worst.append((value, f"{name}[{', '.join(labels)}]" if labels else name))
    return worst
