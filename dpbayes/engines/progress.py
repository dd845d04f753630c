"""Progress bar of long work."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

__all__ = ["progress_bar"]


@contextlib.contextmanager
def progress_bar(label: str, units: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error that vanishes when the work is done.

    Parameters
    ----------
    label : str
        What is being done.
    units : int
        Size of the work.
    shown : bool
        Whether to show anything.

    Yields
    ------
    callable
        Takes the units done since the last call.
    """
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=units)
        yield lambda done: bar.advance(task, done)
