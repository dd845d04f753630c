"""Ctrl-C at any moment: noticed even where compiled code swallows the exception.

A ``KeyboardInterrupt`` raised while Numba or LLVM calls back into Python is printed and
dropped there, and the work goes on or fails later for a reason that says nothing. So the
signal itself is remembered.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

__all__ = ["INTERRUPTED", "check", "message", "seen", "watch", "wrote"]

#: Status after Ctrl-C: 128 + the number of the signal.
INTERRUPTED = 130

_signals: list[int] = []
_files: list[str] = []


def watch() -> None:
    """Remember Ctrl-C from now on; where it is ignored or handled already, leave it so."""
    _signals.clear()
    _files.clear()
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _drop


def seen() -> bool:
    """Whether Ctrl-C was pressed."""
    return bool(_signals)


def check() -> None:
    """Stop if Ctrl-C was pressed and swallowed."""
    if _signals:
        raise KeyboardInterrupt


def wrote(*files: Any) -> None:
    """Remember that files are complete."""
    _files.extend(map(str, files))


def message() -> str:
    """One line that says how the interrupted run leaves the disk."""
    return f"interrupted: {', '.join(_files) or 'nothing'} was written"


def _interrupt(number: int, frame: Any) -> None:
    _signals.append(number)
    raise KeyboardInterrupt


def _drop(unraisable: Any) -> None:
    """Say nothing about a swallowed Ctrl-C, and what is usual about everything else."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
