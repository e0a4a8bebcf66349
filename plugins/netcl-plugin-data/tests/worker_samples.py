"""Data sets that worker processes import."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any, NamedTuple

import numpy as np
from netcl_plugin_data import api as data  # `netcl_core.data` imports all plugins, in each worker


class Squares(data.Dataset[Any]):
    """A number, its square and what is random about it; something happens at one of them."""

    def __init__(self, count: int = 100, at: int | None = None, then: str = "") -> None:
        self.count, self.at, self.then = count, at, then

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index == self.at:
            self.happen()
        return np.full(3, index, np.float32), float(index) ** 2

    def happen(self) -> None:
        if self.then == "raise":
            raise KeyError("broken sample")
        if self.then == "odd":
            raise OddError("one", "two")
        if self.then == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.then == "exit":
            os._exit(3)
        if self.then == "sleep":
            time.sleep(600)
        if self.then == "nest":
            list(data.DataLoader(Squares(4), num_workers=1))


class OddError(Exception):
    """An error that cannot be made anew from its arguments."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


class Unloadable:
    """A data set that a worker cannot make anew."""

    def __len__(self) -> int:
        return 4

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise OSError("no such place here")


class Pair(NamedTuple):
    x: Any
    name: str


class Who(data.Dataset[Any]):
    """Says which worker made a sample, and what it drew."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> dict[str, Any]:
        info = data.get_worker_info()
        number = (-1, 0) if info is None else (info.id, info.num_workers)
        return {"worker": number, "pair": Pair(index, f"{index}"), "drawn": random.random(),
                "begun": os.environ.get("BEGUN", "")}  # fmt: skip


def begin(number: int) -> None:
    os.environ["BEGUN"] = f"worker {number}"


class Shares(data.IterableDataset[int]):
    """Each worker has its share of the numbers below 10."""

    def __iter__(self) -> Any:
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 10, step))


def total(samples: list[Any]) -> Any:
    """A collate_fn."""
    return data.default_collate([sum(sample[0]) for sample in samples]), len(samples)
