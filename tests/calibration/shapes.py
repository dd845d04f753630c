"""True tables of the calibration runs: shapes that published tables of counts have."""

from collections.abc import Callable

import numpy as np

__all__ = ["SHAPES"]


def _few_thousands(size: int, rng: np.random.Generator) -> np.ndarray:
    """One cell in a hundred holds some thousands, all others nothing."""
    table = np.zeros(size, dtype=np.int64)
    some = max(1, size // 100)
    table[rng.choice(size, some, replace=False)] = rng.integers(1000, 9000, some)
    return table


def _zipf(size: int, rng: np.random.Generator) -> np.ndarray:
    """Sizes fall as a power of their rank, in no order."""
    return rng.permutation(np.floor(4000.0 / np.arange(1, size + 1) ** 1.1)).astype(np.int64)


def _log_normal_blocks(size: int, rng: np.random.Generator) -> np.ndarray:
    """Blocks of eight cells share a mean; means are log-normal."""
    means = np.exp(rng.normal(3.0, 1.5, -(-size // 8)))
    return rng.poisson(np.repeat(means, 8)[:size])


def _bump(size: int, _: np.random.Generator) -> np.ndarray:
    """A smooth hill in the middle of empty cells."""
    x = (np.arange(size) + 0.5) / size
    return np.rint(300.0 * np.exp(-0.5 * ((x - 0.5) / 0.12) ** 2)).astype(np.int64)


#: Name of the shape -> function of the number of cells and a generator.
SHAPES: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "all zero": lambda size, _: np.zeros(size, dtype=np.int64),
    "99 % zero, a few thousands": _few_thousands,
    "Zipf": _zipf,
    "log-normal blocks": _log_normal_blocks,
    "near-constant (5 to 7)": lambda size, rng: rng.integers(5, 8, size),
    "integers around 50": lambda size, rng: rng.poisson(50.0, size),
    "two scales (3 and 500)": lambda size, rng: rng.poisson(
        rng.permutation(np.where(np.arange(size) % 2, 500.0, 3.0))
    ),
    "smooth bump": _bump,
}
