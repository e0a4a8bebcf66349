"""How a run is shown: a progress bar on a terminal, a few lines elsewhere, a table at the end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from netcl_core.cli import print_table
from netcl_plugin_train.loop import History

_LINES = 10  # that a run prints where there is no terminal


def console(stderr: bool) -> Console:
    """As wide as the terminal; 80 columns in a pipe."""
    return Console(highlight=False, markup=False, stderr=stderr)


@final
class Display:
    """Watches a run; a context manager."""

    def __init__(self, shown: Console, title: str, epochs: int) -> None:
        self._console = shown
        self._epochs = epochs
        self._every = max(1, epochs // _LINES)
        self._since = (0, time.perf_counter())
        self._accuracy = ""
        columns = [TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()]
        facts = TextColumn("{task.fields[facts]}")
        self._bar = Progress(*columns, facts, console=shown, disable=not shown.is_terminal)
        self._task = self._bar.add_task(title, total=epochs, facts="")

    def step(self, steps: int, loss: float, rate: float) -> None:
        """Show the newest loss and the speed."""
        begin, moment = self._since
        speed = (steps - begin) / (time.perf_counter() - moment)
        facts = f"loss {loss:.4f}{self._accuracy}  {speed:,.0f} steps/s"
        self._bar.update(self._task, facts=facts)

    def epoch(self, epochs: int, history: History) -> None:
        """Move the bar and note the accuracy; without a terminal, print a line now and then."""
        self._accuracy = f"  accuracy {history.accuracies[-1]:.4f}"
        self._bar.update(self._task, completed=epochs)
        if epochs == 1:  # which built the kernels
            self._since = (len(history.losses), time.perf_counter())
        last = epochs == self._epochs
        if not self._console.is_terminal and (epochs % self._every == 0 or last):
            rate = f"{history.steps_per_second:,.0f} steps/s"
            facts = f"loss {history.losses[-1]:.4f}{self._accuracy}  {rate}"
            self._console.print(f"epoch {epochs}/{self._epochs}  {facts}")

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


def print_facts(rows: Iterable[tuple[str, Any]]) -> None:
    """The facts of a run, below an empty line."""
    print()
    print_table(("", ""), [(name, str(value)) for name, value in rows], ("",))
