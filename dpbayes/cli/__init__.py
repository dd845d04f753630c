"""The command line: ``dpbayes fit`` and ``dpbayes describe``."""

from __future__ import annotations

import sys

from dpbayes.cli import interrupts

__all__ = ["main"]


def main() -> None:
    """Run the command line; Ctrl-C ends it with status 130 and one line, at any point."""
    interrupts.watch()
    try:
        from dpbayes.cli.app import app

        app(prog_name="dpbayes")
    except SystemExit as leaving:
        if leaving.code != interrupts.INTERRUPTED:
            raise
    except BaseException:
        interrupts.settle()
        # After Ctrl-C any error is its consequence.
        if not interrupts.seen():
            raise
    else:
        return
    print(interrupts.message(), file=sys.stderr, flush=True)
    sys.exit(interrupts.INTERRUPTED)
