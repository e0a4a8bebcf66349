"""The bar of commands that take some seconds: on a terminal's stderr, never in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def progress_bar(console: Console | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar while the block runs, and yield the function that moves it.

    Call it with what is done, how much of it is done, and how much there is; 0 of 0 is a bar
    without an end. Print to stdout after the block: the bar leaves no trace. In a pipe nothing
    is shown.

        >>> from netcl_plugin_kit.bars import progress_bar
        >>> with progress_bar() as told:
        ...     told("halves", 1, 2)
    """
    shown = console or Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns,
        console=shown,
        transient=True,
        redirect_stdout=False,
        disable=not shown.is_terminal,
    ) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda what, done, total: bar.update(
            task, description=what, completed=done, total=total or None
        )
