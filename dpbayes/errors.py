"""The error and warning classes of dpbayes.

Every class also derives from the builtin that a caller would expect, so
``except ValueError`` keeps working. Messages follow one form: what must hold, what was
given, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ConvergenceWarning",
    "DPBayesError",
    "DomainError",
    "ImpossibleReleaseError",
    "ParameterError",
    "ReleaseError",
    "ReleaseFileError",
    "UnsupportedError",
]


class DPBayesError(Exception):
    """Base class of all errors raised by dpbayes."""


class ParameterError(DPBayesError, ValueError):
    """A parameter of a noise law, step, prior or call is out of range."""


class ReleaseError(DPBayesError, ValueError):
    """The released values and their description do not fit together."""


class ImpossibleReleaseError(ReleaseError):
    """A released value has probability zero under the stated mechanism."""


class ReleaseFileError(DPBayesError, ValueError):
    """A release file is malformed.

    Parameters
    ----------
    message : str
        What is wrong and how to mend it.
    field : str, optional
        Path of the field inside the file, such as ``mechanism.steps[1].clamp.lower``.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        self.field = field
        super().__init__(f"{field}: {message}" if field else message)


class DomainError(DPBayesError, ValueError):
    """A functional is asked of a distribution for which it is not defined."""


class UnsupportedError(DPBayesError, NotImplementedError):
    """A combination that is well defined and has no engine here."""


class ConvergenceWarning(UserWarning):
    """The sampler's draws cannot be trusted yet."""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the nearest known name, or an empty string."""
    close = difflib.get_close_matches(str(name), [str(k) for k in known], n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""
