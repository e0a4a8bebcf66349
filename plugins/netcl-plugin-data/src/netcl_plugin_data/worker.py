"""What a worker process does: it fetches the batches that it is asked for, and tells of errors.

A worker shares nothing with its parent but a pipe. It begins in a fresh interpreter, since an
OpenCL context does not survive a fork; its tensors lie on the NumPy path.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, final

import numpy as np

from netcl_core import manual_seed, use_device
from netcl_plugin_data.collate import host_collate, host_convert
from netcl_plugin_data.datasets import IterableDataset, collated

#: What a message from a worker is.
BATCH: Final = "batch"
END: Final = "end"
ERROR: Final = "error"
#: Seconds that a sample may go on when nobody wants it any more.
_PATIENCE: Final = 0.5


@final
@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Which worker this is: what `get_worker_info` says.

    >>> data.WorkerInfo(id=0, num_workers=2, seed=1, dataset=[]).id
    0

    Attributes:
        id: Its number, from 0.
        num_workers: How many there are.
        seed: The seed of Python's, NumPy's and netcl's random numbers in it.
        dataset: Its copy of the data set.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Process:
    """What this process is a worker of."""

    info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process who it is; elsewhere None.

    >>> class Shared(data.IterableDataset):
    ...     def __iter__(self):
    ...         info = data.get_worker_info()
    ...         first, step = (0, 1) if info is None else (info.id, info.num_workers)
    ...         return iter(range(first, 10, step))
    >>> [batch.tolist() for batch in data.DataLoader(Shared(), 5)]
    [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    """
    return _Process.info


@final
@dataclass(frozen=True, slots=True)
class Fetching:
    """How batches are made: in the loader's process as in a worker.

    Attributes:
        collate_fn: Makes a batch of samples; None: `default_collate`.
        batched: Whether samples are put together; else each is a batch.
        batch_size: How many of an iterable data set.
        drop_last: Of an iterable data set, whether a smaller batch is left out.
    """

    dataset: Any
    collate_fn: Callable[[Any], Any] | None
    batched: bool
    batch_size: int
    drop_last: bool

    @property
    def iterable(self) -> bool:
        """Whether samples come one after the other."""
        return isinstance(self.dataset, IterableDataset)

    def one_after_the_other(self) -> Iterator[Any]:
        """The batches of an iterable data set."""
        samples = iter(self.dataset)
        if not self.batched:
            for sample in samples:
                yield self._converted(sample)
            return
        batch = []
        for sample in samples:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self._collated(batch)
                batch = []
        if batch and not self.drop_last:
            yield self._collated(batch)

    def of(self, indices: Any) -> Any:
        """The batch of some samples (of one, if each sample is a batch)."""
        if not self.batched:
            return self._converted(self.dataset[indices])
        if self.collate_fn is None:
            batch = collated(self.dataset, indices)
            if batch is not None:
                return batch
        several = getattr(self.dataset, "__getitems__", None)
        return self._collated(
            several(list(indices)) if several else [self.dataset[index] for index in indices]
        )

    def _collated(self, samples: Sequence[Any]) -> Any:
        return host_collate(samples) if self.collate_fn is None else self.collate_fn(samples)

    def _converted(self, sample: Any) -> Any:
        return sample if self.collate_fn is None else self.collate_fn(sample)


def work(connection: Connection, number: int, count: int) -> None:
    """A worker's whole life: until its parent says so, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends its workers
    use_device("numpy")
    tasks: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_read, args=(connection, tasks), daemon=True).start()
    with suppress(_Gone):
        _serve(connection, tasks, number, count)


class _Gone(BaseException):
    """The parent has ended, or wants no more."""


def _read(connection: Connection, tasks: SimpleQueue[Any]) -> None:
    """Take in tasks as they come, so that a parent never waits for a worker that waits for it.

    When the parent is gone, a worker that does not end by itself is ended, whatever it does.
    """
    try:
        while True:
            tasks.put(connection.recv_bytes())
    except (EOFError, OSError):
        tasks.put(None)
        time.sleep(_PATIENCE)
        os._exit(1)


def _next(tasks: SimpleQueue[Any]) -> Any:
    packed = tasks.get()
    if packed is None:
        raise _Gone
    return pickle.loads(packed)


def _tell(connection: Connection, *parts: Any) -> None:
    """Send a message, and what follows it as it lies in memory."""
    message, *buffers = parts
    try:
        connection.send(message)
        for buffer in buffers:
            connection.send_bytes(buffer)
    except OSError:
        raise _Gone from None


def _serve(connection: Connection, tasks: SimpleQueue[Any], number: int, count: int) -> None:
    try:
        fetching, worker_init_fn = _next(tasks)
    except Exception as error:  # whatever the user's classes raise
        _tell(connection, (0, None, ERROR, _told(error)))
        return
    batches: Iterator[Any] | None = None
    while True:
        turn, task, wanted = _next(tasks)
        try:
            if task is None:  # a pass begins
                _begin(WorkerInfo(number, count, wanted, fetching.dataset), worker_init_fn)
                worker_init_fn = None
                batches = fetching.one_after_the_other() if fetching.iterable else None
                continue
            batch = fetching.of(wanted) if batches is None else next(batches, END)
            parts = [(turn, task, END, None)] if batch is END else _packed(turn, task, batch)
        except Exception as error:  # whatever the user's code raises goes to the parent
            parts = [(turn, task, ERROR, _told(error))]
        _tell(connection, *parts)


def _begin(info: WorkerInfo, worker_init_fn: Callable[[int], Any] | None) -> None:
    _Process.info = info
    random.seed(info.seed)
    np.random.seed(info.seed % 2**32)
    manual_seed(info.seed)
    if worker_init_fn is not None:
        worker_init_fn(info.id)


def _packed(turn: int, task: int, batch: Any) -> list[Any]:
    """A batch as a message and the arrays that follow it."""
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(host_convert(batch), protocol=5, buffer_callback=buffers.append)
    return [(turn, task, BATCH, (packed, len(buffers))), *(buffer.raw() for buffer in buffers)]


def _told(error: Exception) -> tuple[bytes | None, str]:
    """An error for the parent: itself, if it can be sent, and its traceback."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)
    except Exception:  # an error's own code decides whether it can be made anew
        return None, text
    return packed, text
