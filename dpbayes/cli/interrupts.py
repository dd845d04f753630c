"""Ctrl-C at any moment: noticed even where other code swallows the exception.

A ``KeyboardInterrupt`` raised while Numba or LLVM calls back into Python is printed and
dropped there, and samplers take it as a wish to stop early and go on with half of the draws.
So the signal is remembered and raised again every other second until the command ends. If
one long call of compiled code keeps Python from seeing it at all, the process is ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

__all__ = ["INTERRUPTED", "check", "message", "seen", "settle", "watch", "writing", "wrote"]

#: Status after Ctrl-C: 128 + the number of the signal.
INTERRUPTED = 130

#: Seconds after which a swallowed Ctrl-C is raised again, and how often that is tried.
PATIENCE, TRIES = 2.0, 4

_signals: list[int] = []
_settled = threading.Event()
_writing = threading.Event()
_files: list[str] = []


def watch() -> None:
    """Remember Ctrl-C from now on; where it is ignored or handled already, leave it so."""
    _signals.clear()
    _files.clear()
    _settled.clear()
    _writing.clear()
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


def writing() -> None:
    """Remember that temporary files exist from now on, which must be removed."""
    check()
    _writing.set()


def message() -> str:
    """One line that says how the interrupted run leaves the disk."""
    return f"interrupted: {', '.join(_files) or 'nothing'} was written"


def settle() -> None:
    """Stop raising: the command is ending because of it."""
    _settled.set()


def _interrupt(number: int, frame: Any) -> None:
    if _settled.is_set():
        return
    _signals.append(number)
    if len(_signals) == 1:
        threading.Thread(target=_insist, args=(number,), daemon=True).start()
    raise KeyboardInterrupt


def _insist(number: int) -> None:
    """Raise the signal again until the command ends, and end it in the end."""
    for _ in range(TRIES):
        time.sleep(PATIENCE)
        if _settled.is_set():
            return
        signal.raise_signal(number)
    time.sleep(PATIENCE)
    # While files are written, Python must come back to remove the temporary ones.
    if not (_settled.is_set() or _writing.is_set()):
        print(message(), file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)


def _drop(unraisable: Any) -> None:
    """Say nothing about a swallowed Ctrl-C, and what is usual about everything else."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
