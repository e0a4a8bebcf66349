"""Numbers of a run while it goes on: JSON lines, TensorBoard's events, and a profile."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Final, final

from netcl_core import default_device
from netcl_core.errors import MissingExtraError, message
from netcl_core.files import write_whole
from netcl_plugin_train.loop import History

#: The steps that a profile sees: after those that build kernels, and in one epoch.
_FROM, _TO = 10, 30


def extra(module: str, option: str, name: str) -> Any:
    """An optional module; raises MissingExtraError with what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        remedy = f"pip install 'netcl-plugin-train[{name}]'"
        given = f"{option} without {module.partition('.')[0]}"
        raise MissingExtraError(message("netcl train", given, "that package", remedy)) from error


class _Numbers(ABC):
    """A watcher to which each row of numbers is one call."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()

    def step(self, steps: int, loss: float, rate: float) -> None:
        """Write the loss."""
        seconds = round(time.perf_counter() - self._begin, 4)
        self.write(steps, loss=loss, lr=rate, seconds=seconds)

    def epoch(self, epochs: int, history: History) -> None:
        """Write the accuracy and the memory."""
        numbers = {"epoch": epochs, "accuracy": history.accuracies[-1]}
        numbers["steps_per_second"] = round(history.steps_per_second, 2)
        if default_device().has_kernels:
            numbers["peak_bytes"] = default_device().memory_stats()["peak"]
        self.write(len(history.losses), **numbers)

    @abstractmethod
    def write(self, steps: int, **numbers: float) -> None:
        """Take a row."""


@final
class JsonLines(_Numbers):
    """A file of JSON objects, one a line; of an earlier run it keeps the rows up to `steps`."""

    def __init__(self, folder: Path, steps: int) -> None:
        super().__init__()
        self.path = folder / "metrics.jsonl"
        kept = (
            self.path.read_bytes().splitlines(keepends=True) if steps and self.path.exists() else ()
        )
        write_whole(self.path, *(line for line in kept if _step(line) <= steps))

    def write(self, steps: int, **numbers: float) -> None:
        """Add a line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": steps, **numbers}) + "\n")


def _step(line: bytes) -> float:
    """The step of a line; infinite for one that a killed run left half."""
    try:
        return float(json.loads(line)["step"]) if line.endswith(b"\n") else float("inf")
    except ValueError:
        return float("inf")


@final
class TensorBoard(_Numbers):
    """Event files in the folder `tensorboard`; rows of an earlier run after `steps` are void."""

    def __init__(self, folder: Path, steps: int) -> None:
        super().__init__()
        writer = extra("tensorboardX", "--log tensorboard", "log").SummaryWriter
        self.path = folder / "tensorboard"
        self._writer = writer(str(self.path), purge_step=steps + 1 if steps else None)

    def write(self, steps: int, **numbers: float) -> None:
        """Add a point to each curve."""
        for name, number in numbers.items():
            self._writer.add_scalar(name, number, steps)
        self._writer.flush()


LOGS: Final = {"json": JsonLines, "tensorboard": TensorBoard}


@final
class Profile:
    """Batches of a run, twenty of whose steps are profiled; then trace and table are written.

    Attributes:
        batches: What it hands on; set before the run.
    """

    def __init__(self, folder: Path) -> None:
        self.trace, self.table = folder / "trace.json", folder / "profile.txt"
        self._make = extra("netcl_plugin_tools.profiler", "--profile", "profile").profile
        self._given = 0
        self.batches: Any = None

    @property
    def sampler(self) -> Any:
        """That of the batches."""
        return self.batches.sampler

    def __iter__(self) -> Iterator[Any]:
        seen = None
        with ExitStack() as scope:
            for batch in self.batches:
                if self._given == _FROM:
                    seen = scope.enter_context(self._make())
                elif self._given == _TO:
                    scope.close()
                self._given += 1
                yield batch
        if seen is not None:
            seen.save_trace(self.trace)
            write_whole(self.table, f"{seen}\n".encode())
