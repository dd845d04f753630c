"""What may be trusted: convergence of the draws, and what the data said little about."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes.posterior import tables

if TYPE_CHECKING:
    from dpbayes.posterior.posterior import Posterior

__all__ = ["PRIOR_DOMINATED", "Verdict", "judge"]

#: A quantity is prior-dominated when its posterior sd is above this share of its prior sd
#: and its posterior mean less than one prior sd from its prior mean.
PRIOR_DOMINATED = 0.7
#: Draws of all chains below which there is no interval to speak of.
LEAST_DRAWS = 100


@dataclass(frozen=True)
class Verdict:
    """Judgement on a posterior, in words (``str``) and as data.

    Parameters
    ----------
    converged : bool
        Whether the draws can be trusted: always so for independent exact draws.
    problems : tuple of str
        What is wrong with the draws, one sentence each.
    prior_dominated : tuple of str
        Names of quantities on which the data said little.
    notes : tuple of str
        What else a reader must know.
    diagnostics : dict
        Figures behind the judgement.
    """

    converged: bool
    problems: tuple[str, ...] = ()
    prior_dominated: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    diagnostics: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is nothing to object to."""
        return self.converged and not self.prior_dominated

    def __str__(self) -> str:
        lines = list(self.problems) if self.problems else [self.sampling()]
        if self.prior_dominated:
            shown = ", ".join(self.prior_dominated[:8])
            more = len(self.prior_dominated) - 8
            lines.append(
                f"Prior-dominated (the release says little about them; their intervals mostly "
                f"repeat the prior): {shown}{f' and {more} more' if more > 0 else ''}."
            )
        else:
            lines.append("No quantity is dominated by the prior.")
        return "\n".join([*lines, *self.notes])

    def sampling(self) -> str:
        """Say how the draws were made, where there is no problem with them."""
        if self.diagnostics.get("engine") == "exact":
            return "The draws are exact and independent."
        d = self.diagnostics
        return (
            f"The sampler converged (R-hat at most {d['max_rhat']:.3f}, effective sample size at "
            f"least {d['min_ess']:.0f}, {d['divergences']} divergences)."
        )


def judge(posterior: Posterior) -> Verdict:
    """Judge a posterior (see `Posterior.verdict`)."""
    attrs = posterior.attrs
    problems = tuple(json.loads(attrs.get("problems", "[]"))) + _few_draws(posterior)
    names, scores = [], {}
    undecided = _undecided(posterior)
    for quantity in tables.quantities(posterior):
        score = tables.learned(quantity)
        scores[quantity.name] = score
        little = np.isfinite(score) and score < 1.0 - PRIOR_DOMINATED and not _moved(quantity)
        if little or quantity.name in undecided:
            names.append(quantity.name)
    diagnostics = {"engine": attrs.get("engine"), "learned": scores}
    for key in ("max_rhat", "min_ess", "divergences"):
        if key in attrs:
            diagnostics[key] = attrs[key]
    notes = tuple(json.loads(attrs.get("notes", "[]"))) + _notes(posterior)
    return Verdict(not problems, problems, tuple(names), notes, diagnostics)


def _undecided(posterior: Posterior) -> set[str]:
    """Find counts of which the engine says that the prior decides (`engines.scale_doubts`)."""
    cells = json.loads(posterior.attrs.get("undecided", "[]"))
    labels = tables.cell_names(posterior) if cells else []
    return {f"count[{labels[j]}]" for j in cells}


def _few_draws(posterior: Posterior) -> tuple[str, ...]:
    """Object to so few draws, even independent ones, that the ends of intervals mean nothing."""
    draws = posterior.total.values.size
    if draws >= LEAST_DRAWS:
        return ()
    return (
        f"{draws} draw{'s' * (draws > 1)} in all: an interval takes at least {LEAST_DRAWS}; draw "
        "more (draws=, --draws)",
    )


def _moved(quantity: tables.Quantity) -> bool:
    """Whether the data took the quantity away from where the prior had put it.

    A large cell among many has a share with a small prior sd; its posterior sd can be larger,
    and yet the data said a lot.
    """
    assert quantity.prior is not None
    distance = np.nanmean(quantity.values) - np.nanmean(quantity.prior)
    return bool(abs(distance) >= np.nanstd(quantity.prior))


def _notes(posterior: Posterior) -> tuple[str, ...]:
    """Facts about the posterior that a reader could miss."""
    empty = int((posterior.total.values == 0).sum())
    if not empty:
        return ()
    share = empty / posterior.total.values.size
    return (
        f"In {share:.1%} of the draws the table is empty: shares of the realised table are "
        "undefined there and left out.",
    )
