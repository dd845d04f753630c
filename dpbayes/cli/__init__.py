"""The command line: ``dpbayes fit`` and ``dpbayes describe``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; Ctrl-C ends it with status 130 and one line, at any point."""
    try:
        from dpbayes.cli.app import app

        app(prog_name="dpbayes")
    except KeyboardInterrupt:
        # Before or after a command; inside one, `reporting` says it.
        print("interrupted: nothing was written", file=sys.stderr)
        sys.exit(130)
