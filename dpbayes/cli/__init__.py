"""The command line: ``dpbayes fit`` and ``dpbayes describe``."""

from __future__ import annotations

import sys

__all__ = ["main"]

#: Status after Ctrl-C: 128 + the number of the signal.
INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C ends it with status 130 and one line, at any point."""
    try:
        from dpbayes.cli.app import app

        app(prog_name="dpbayes")
    except KeyboardInterrupt:
        _interrupted()
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:
            _interrupted()
        raise


def _interrupted() -> None:
    print("interrupted: nothing was written", file=sys.stderr, flush=True)
    sys.exit(INTERRUPTED)
