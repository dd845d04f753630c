"""What a release cannot tell under a learned mixture of scales."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from dpbayes.engines.mixture import MixtureDraws
from dpbayes.priors import ScaleMixture
from dpbayes.releases import HistogramRelease

__all__ = ["undecided"]

#: The division of small cells into zeros and small counts is the prior's when the coordinate
#: it stands for (standard normal under the prior) keeps this sd and stays within one sd.
_UNLEARNED, _UNMOVED = 0.7, 1.0
#: Cells of which it matters: the posterior probability of no record at all is between these,
#: and the expected count below this share of the noise's sd.
_OPEN, _SMALL = (0.05, 0.95), 0.5


def undecided(
    drawn: MixtureDraws, release: HistogramRelease, prior: ScaleMixture
) -> dict[str, Any]:
    """Cells whose division into zeros and small counts is the prior's word.

    Many cells far below the noise tell how large they are on average, but not whether all
    are small or some are empty.

    Parameters
    ----------
    drawn : MixtureDraws
        Draws from the posterior.
    release, prior : HistogramRelease, ScaleMixture
        What they were drawn for.

    Returns
    -------
    dict
        Attributes of the posterior: cells as a list in JSON, and a sentence about them;
        empty where the release decides.
    """
    centre, sd, _, _ = prior.walk(drawn.means)
    with np.errstate(divide="ignore"):
        ratio = np.log(drawn.spike) - np.log(drawn.weights[..., 0])
    coordinate = (ratio - centre) / sd
    if not (coordinate.std() > _UNLEARNED and abs(coordinate.mean()) < _UNMOVED):
        return {}
    count = drawn.count.reshape(-1, release.size)
    noise = np.broadcast_to(np.asarray(release.observations().noise.sd, float), release.size)
    empty = np.mean(count == 0, axis=0)
    open_ = (empty > _OPEN[0]) & (empty < _OPEN[1]) & (count.mean(axis=0) < _SMALL * noise)
    if not open_.any():
        return {}
    note = (
        f"The release does not tell how {int(open_.sum())} of {release.size} counts, which the "
        "noise hides, divide into zeros and small counts: there the prior speaks."
    )
    return {
        "undecided": json.dumps(np.flatnonzero(open_).tolist()),
        "notes": json.dumps([note]),
    }
