"""A run's checkpoint: rank 0 writes it, and any number of processes goes on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

from netcl_core import distributed, get_rng_state, load, save, set_rng_state, tensor
from netcl_core.errors import message
from netcl_plugin_train.loop import History, Stop, TrainingError

#: Seconds between checkpoints in an epoch.
_EVERY = 60.0


@final
class Checkpoint:
    """A watcher that keeps all that a run has: after each epoch, every minute, and at a stop.

    Args:
        path: The file. All processes must see it to go on.
        parts: Model, optimizer and loader, as one process knows them, and what else has a state.
        settings: What a run must be told again to go on.
        stop: Whether the run is to end.

    Attributes:
        history: What is written with them; the run adds to it.
    """

    def __init__(
        self, path: Path, parts: Mapping[str, Any], settings: Mapping[str, Any], stop: Stop | None
    ) -> None:
        self.path = path
        self._parts = dict(parts)
        self._settings = dict(settings)
        self._stop = stop
        self.history = History()
        self._written = time.monotonic()

    def step(self, steps: int, loss: float, rate: float) -> None:
        """Write the file now and then."""
        ends = self._stop is not None and self._stop.agreed
        if ends or time.monotonic() - self._written > _EVERY:
            self._write()

    def epoch(self, epochs: int, history: History) -> None:
        """Write the file."""
        self._write()

    def _write(self) -> None:
        if distributed.get_rank() == 0:
            states = {name: part.state_dict() for name, part in self._parts.items()}
            state = {"settings": self._settings, "history": asdict(self.history), **states}
            save({**state, "random": get_rng_state()}, self.path)
        self._written = time.monotonic()

    def load(self) -> History:
        """Take over what the file has; without one, an empty history and no change.

        Raises TrainingError if the settings differ, or the processes see different files.
        """
        known = load(self.path) if self.path.exists() else {"history": asdict(History())}
        history = self.history = History(**known["history"])
        self._same(len(history.losses))
        if history.losses:
            for name, value in self._settings.items():
                before = _option(name, known["settings"].get(name))
                if before != _option(name, value):
                    expected = f"{before}, as in {self.path}"
                    remedy = f"Give {before}, or begin anew without --resume"
                    given = _option(name, value)
                    raise TrainingError(message("netcl train --resume", given, expected, remedy))
            set_rng_state(known["random"])
            for name, part in self._parts.items():
                part.load_state_dict(known[name])
        return history

    def _same(self, steps: int) -> None:
        if distributed.get_world_size() == 1:
            return
        counts = distributed.all_gather(tensor([steps], device="numpy")).tolist()
        if len({*counts}) > 1:
            given = f"{self.path} has {counts[0]} steps for rank 0, of all ranks {counts}"
            remedy = "Choose an --out on a file system that all hosts share"
            raise TrainingError(message("netcl train --resume", given, "one file", remedy))


def steps_of(path: Path) -> int:
    """How many steps a checkpoint has; 0 without one."""
    return len(load(path, "numpy")["history"]["losses"]) if path.exists() else 0


def _option(name: str, value: Any) -> str:
    """How a setting is given to the command."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"no --{name}"
    return f"the task {value!r}" if name == "task" else f"--{name.replace('_', '-')} {value}"
