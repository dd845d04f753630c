"""How a command ends when something goes wrong: one line on stderr and a status."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from dpbayes.cli import interrupts
from dpbayes.errors import ConvergenceWarning, DPBayesError

__all__ = ["USER_ERROR", "reporting"]

#: Status after an error that the user can mend.
USER_ERROR = 2


@contextmanager
def reporting(debug: bool, subject: Any = None) -> Iterator[None]:
    """Turn errors into one line on stderr and a status.

    Parameters
    ----------
    debug : bool
        Let errors through, with their traceback.
    subject : object, optional
        File that the command reads, said before a message that names one of its fields.
    """
    try:
        with warnings.catch_warnings():
            # The verdict that follows says the same in more detail.
            warnings.simplefilter("ignore", ConvergenceWarning)
            yield
    except KeyboardInterrupt:
        interrupts.settle()
        raise typer.Exit(interrupts.INTERRUPTED) from None  # `main` says so
    except BrokenPipeError:
        # The reader of the output is gone (as in "| head"): nobody is left to tell.
        sys.stdout = None
        raise typer.Exit(0) from None
    except (DPBayesError, OSError) as error:
        interrupts.check()
        if debug:
            raise
        message = " ".join(str(error).split())
        where = f"{subject}: " if getattr(error, "field", None) else ""
        print(f"error: {where}{message}", file=sys.stderr, flush=True)
        raise typer.Exit(USER_ERROR) from None
