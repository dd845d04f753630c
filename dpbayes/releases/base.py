"""What all releases share: metadata, a digest for seeding, checks of parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpbayes.errors import ReleaseError, nearest_name
from dpbayes.mechanism import Mechanism

__all__ = ["ATTRIBUTES", "check_attrs", "check_total", "digest"]

#: Free-text facts about a release that reports repeat.
#: `unit` is that of the released values (counts, or records), `axis_unit` that of the edges.
ATTRIBUTES = ("title", "unit", "axis_unit", "source", "neighbours", "epsilon", "sensitivity")


def check_attrs(attrs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Check the names of free-text attributes."""
    found = dict(attrs or {})
    for key in found:
        if key not in ATTRIBUTES:
            raise ReleaseError(
                f"unknown attribute {key!r}{nearest_name(key, ATTRIBUTES)}; "
                f"known: {', '.join(ATTRIBUTES)}"
            )
    return found


def check_total(total: Any) -> int | None:
    """Check a public number of records."""
    if total is None:
        return None
    if isinstance(total, bool | np.bool_) or np.ndim(total) != 0 or not np.isreal(total):
        raise ReleaseError(f"total must be a whole number of records or None, got {total!r}")
    number = float(total)
    if not np.isfinite(number) or number < 0 or number != np.floor(number):
        raise ReleaseError(
            f"total must be a whole number of records, 0 or more, got {total}; "
            "a total that was itself released with noise is not public"
        )
    return int(number)


def digest(kind: str, values: np.ndarray, mechanism: Mechanism, *facts: Any) -> int:
    """Whole number that depends on all of a release, for seeding.

    Two releases fitted with one seed must not share their random numbers: differences
    between them would come out too narrow or too wide.
    """
    sha = hashlib.sha256(kind.encode())
    sha.update(np.ascontiguousarray(values, dtype=float).tobytes())
    sha.update(repr(mechanism.steps).encode())
    sha.update(type(mechanism.noise).__name__.encode())
    for value in mechanism.noise.parameters.values():
        if callable(value):
            sha.update(getattr(value, "__qualname__", type(value).__qualname__).encode())
        else:
            sha.update(np.asarray(value, dtype=float).tobytes())
    for fact in facts:
        sha.update(repr(fact).encode())
    return int.from_bytes(sha.digest()[:8], "little")
