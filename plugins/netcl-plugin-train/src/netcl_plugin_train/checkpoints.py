"""A run's checkpoint: rank 0 writes it after each epoch, and any number of processes goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

from netcl_core import distributed, load, save, tensor
from netcl_core.errors import message
from netcl_plugin_train.loop import History, TrainingError, Watcher


@final
class Checkpoint:
    """A watcher that keeps model, optimizer and history, and then tells the next watcher.

    Args:
        path: The file. All processes must see it to go on.
        model: As one process knows it.
        optimizer: Holds the model's parameters.
        settings: Numbers that a run must have to go on.
        watcher: The next one.
    """

    def __init__(
        self,
        path: Path,
        model: Any,
        optimizer: Any,
        settings: Mapping[str, float],
        watcher: Watcher | None = None,
    ) -> None:
        self.path = path
        self._parts = {"model": model, "optimizer": optimizer}
        self._settings = dict(settings)
        self._next = watcher

    def step(self, steps: int, loss: float) -> None:
        """Tell the next watcher."""
        if self._next is not None:
            self._next.step(steps, loss)

    def epoch(self, epochs: int, history: History) -> None:
        """Write the file."""
        if distributed.get_rank() == 0:
            states = {name: part.state_dict() for name, part in self._parts.items()}
            save({"settings": self._settings, "history": asdict(history), **states}, self.path)
        if self._next is not None:
            self._next.epoch(epochs, history)

    def load(self) -> History:
        """Take over what the file has; without one, an empty history and no change.

        Raises TrainingError if the settings differ, or the processes see different files.
        """
        known = load(self.path) if self.path.exists() else {"history": asdict(History())}
        history = History(**known["history"])
        self._same(len(history.seconds))
        if history.seconds:
            for name, value in self._settings.items():
                before = known["settings"].get(name)
                if before != value:
                    option = f"--{name.replace('_', '-')}"
                    raise TrainingError(
                        message(
                            "netcl train --resume",
                            f"{option} {value}",
                            f"{before}, as in {self.path}",
                            f"Give {option} {before}, or begin anew without --resume",
                        )
                    )
            for name, part in self._parts.items():
                part.load_state_dict(known[name])
        return history

    def _same(self, epochs: int) -> None:
        if distributed.get_world_size() == 1:
            return
        counts = distributed.all_gather(tensor([epochs], device="numpy")).tolist()
        if len({*counts}) > 1:
            given = f"{self.path} has {counts[0]} epochs for rank 0, of all ranks {counts}"
            remedy = "Choose an --out on a file system that all hosts share"
            raise TrainingError(message("netcl train --resume", given, "one file", remedy))
