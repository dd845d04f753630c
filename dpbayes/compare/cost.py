"""What privacy cost: width of intervals with noise against that without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["privacy_cost"]


def privacy_cost(posterior: Any) -> pd.DataFrame:
    r"""How many times wider the posterior of each functional of P is because of the noise.

    With N the true counts, Var(f(P) \| y) is the sum of E[Var(f(P) \| N) \| y], which would
    remain if N were published, and Var(E[f(P) \| N] \| y), which is privacy noise. The ratio
    of widths is 1 / √(1 - share of the second).

    Parameters
    ----------
    posterior : Posterior
        Any posterior that `fit` returned.

    Returns
    -------
    pandas.DataFrame
        Indexed by quantity of P: ``sd`` (with noise), ``sd_without`` (had the true data been
        published), ``ratio``, ``noise_share``.
    """
    summary = posterior.summary()
    of_p = summary[summary["estimand"] == "P"]
    share = of_p["noise_share"].clip(upper=1.0)
    without = of_p["sd"] * np.sqrt(1.0 - share)
    with np.errstate(divide="ignore"):
        ratio = of_p["sd"] / without
    return of_p[["sd"]].assign(sd_without=without, ratio=ratio, noise_share=share)
