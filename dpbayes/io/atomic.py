"""Writing files so that they are either whole or absent."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpbayes.errors import ParameterError

__all__ = ["atomic_path", "check_writable"]

#: Temporary files that are being written.
_open: set[Path] = set()


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path that becomes `path` when the block ends without an error.

    The temporary file lies in the same folder, so that the final rename is one step, and
    keeps the suffix, which some writers look at. An error or Ctrl-C inside the block removes
    it and leaves what was at `path` before as it was. A temporary path of another block is
    yielded as it is.

    Parameters
    ----------
    path : str or PathLike
        Where the file shall be.

    Yields
    ------
    Path
        Where to write.

    Raises
    ------
    OSError
        If the file cannot be written; the error names `path`.
    """
    target = Path(os.path.realpath(path))
    if target in _open:
        yield target
        return
    temporary = _beside(target)
    _open.add(temporary)
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        if str(temporary) not in str(error):
            raise
        # Nobody knows the temporary name.
        why = os.strerror(error.errno) if error.errno else "the file cannot be made"
        number = error.errno or errno.EIO
        raise OSError(number, f"cannot write here: {why}", os.fspath(path)) from error
    finally:
        _open.discard(temporary)
        with suppress(FileNotFoundError):
            temporary.unlink()


def _beside(target: Path) -> Path:
    """Hidden name in the same folder."""
    return target.with_name(f".{target.stem}.{secrets.token_hex(4)}.tmp{target.suffix}")


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
    # Permissions do not tell: some folders take no files from anybody.
    probe = _beside(Path(os.path.realpath(path)))
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError:
        raise ParameterError(
            f"{name} must lie in a folder that can be written, got {str(path)!r}: choose another"
        ) from None
    finally:
        with suppress(OSError):
            probe.unlink()
    return target
