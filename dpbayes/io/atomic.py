"""Writing files so that they are either whole or absent."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpbayes.errors import ParameterError

__all__ = ["atomic_path", "check_writable"]


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path that becomes `path` when the block ends without an error.

    The temporary file lies in the same folder, so that the final rename is one step, and
    keeps the suffix, which some writers look at. An error or Ctrl-C inside the block removes
    it and leaves what was at `path` before as it was.

    Parameters
    ----------
    path : str or PathLike
        Where the file shall be.

    Yields
    ------
    Path
        Where to write.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(4)}.tmp{target.suffix}")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def check_writable(path: str | os.PathLike[str], name: str) -> Path:
    """Check before a long computation that its result can be written.

    Parameters
    ----------
    path : str or PathLike
        Where the result shall be.
    name : str
        Name of the parameter, for the message.

    Raises
    ------
    ParameterError
        If the folder does not exist or cannot be written to, or a folder is in the way.
    """
    target = Path(path)
    folder = target.parent
    if not target.name or target.is_dir():
        raise ParameterError(f"{name} must be a file, got the folder {str(path)!r}")
    if not folder.is_dir():
        raise ParameterError(f"{name} must lie in an existing folder, got {str(path)!r}: make it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ParameterError(f"{name} must lie in a writable folder, got {str(folder)!r}")
    return target
