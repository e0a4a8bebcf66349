"""Workers: the processes of a loader, seen from its own: their start, their batches, their end."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final, final

from netcl_core.errors import ArgumentError, NetclError, message
from netcl_plugin_data.worker import BATCH, END, ERROR, Fetching, work

_WHO: Final = "DataLoader"
#: Seconds that workers have to end by themselves, and then after SIGTERM.
_GRACE: Final = 2.0
#: Seconds between two looks whether the workers live.
_LOOK: Final = 1.0
#: What `Pass.next` gives in place of a batch.
WAITING: Final = object()
DONE: Final = object()


class WorkerError(NetclError, RuntimeError):
    """A worker process of a loader failed, died, or took too long.

    >>> issubclass(data.WorkerError, RuntimeError)
    True
    """


@final
class Workers:
    """Some processes that make batches, each with a pipe of its own.

    A pipe has no lock, so that a worker which is killed blocks nobody.
    """

    def __init__(
        self,
        fetching: Fetching,
        count: int,
        worker_init_fn: Callable[[int], Any] | None,
        context: str,
    ) -> None:
        if multiprocessing.current_process().daemon:
            given = f"num_workers={count} in a worker, which can have none"
            raise ArgumentError(message(_WHO, given, "num_workers=0"))
        self.connections: list[Connection] = []
        self._processes: list[Any] = []
        #: What workers told when they failed outside a task.
        self.failed: dict[int, Any] = {}
        self.gone: set[int] = set()
        self.turn = 0
        packed = _packed((fetching, worker_init_fn))
        start = multiprocessing.get_context(context)
        try:
            for number in range(count):
                self._start(start, number, count)
            for number in range(count):
                self.send(number, packed)
        except BaseException:
            self.end()
            raise

    def _start(self, start: Any, number: int, count: int) -> None:
        ours, theirs = start.Pipe()
        self.connections.append(ours)
        try:
            process = start.Process(
                target=work, args=(theirs, number, count), name=f"netcl-data-{number}", daemon=True
            )
            process.start()
        finally:
            theirs.close()
        self._processes.append(process)

    def send(self, number: int, what: Any) -> None:
        """Tell a worker something; one that is gone is noted."""
        connection = self.connections[number]
        try:
            connection.send_bytes(what) if isinstance(what, bytes) else connection.send(what)
        except OSError:
            self.gone.add(number)

    def receive(self, seconds: float | None) -> list[tuple[int, int, Any, str, Any]]:
        """Messages of workers, each with its number; none after some time (None: any)."""
        alive = [c for k, c in enumerate(self.connections) if k not in self.gone]
        batches = []
        for connection in wait(alive, seconds):
            number = self.connections.index(connection)  # type: ignore[arg-type]
            try:
                batches.append((number, *self._one(connection)))  # type: ignore[arg-type]
            except (EOFError, OSError):
                self.gone.add(number)
        return batches

    def _one(self, connection: Connection) -> tuple[int, Any, str, Any]:
        turn, task, kind, content = connection.recv()
        if kind == BATCH:
            packed, count = content
            content = packed, [connection.recv_bytes() for _ in range(count)]
        return turn, task, kind, content

    def look(self) -> None:
        """Note the workers that have ended."""
        for number, process in enumerate(self._processes):
            if not process.is_alive() and not self.connections[number].poll():
                self.gone.add(number)

    def died(self, number: int) -> WorkerError:
        """The error for a worker that is gone."""
        process = self._processes[number]
        process.join(_GRACE)
        code, remedy = process.exitcode, "Look at what it printed"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
            remedy = "If memory ran out, use fewer workers or smaller batches"
        else:
            how = "ended by itself"
            if code == 1:
                remedy = 'A script that uses workers needs `if __name__ == "__main__":` around them'
        given = f"worker {number} (process {process.pid}) {how}, exit code {code}"
        return WorkerError(message(_WHO, given, "a worker that lives", remedy))

    def end(self) -> None:
        """End all processes: at their next message, or by force."""
        for connection in self.connections:
            connection.close()  # whoever reads or writes at the other end ends
        until = time.monotonic() + _GRACE
        for stop in (None, "terminate", "kill"):
            for process in self._processes:
                if stop is not None and process.is_alive():
                    getattr(process, stop)()
            for process in self._processes:
                process.join(max(0.0, until - time.monotonic()))
            until = time.monotonic() + _GRACE
        self._processes = []


@final
class Pass:
    """One pass over a data set: its tasks, given to the workers in turn, and their batches.

    Args:
        workers: An earlier pass of theirs ends.
        tasks: What each batch is made of.
        seed: Of the first worker; each of the others has one more.
        ahead: How many tasks each worker has at most.
        timeout: How many seconds a batch may take; 0: any.
    """

    def __init__(
        self, workers: Workers, tasks: Iterator[Any], seed: int, ahead: int, timeout: float
    ) -> None:
        self._workers = workers
        self._tasks = tasks
        self._timeout = timeout
        self._active = list(range(len(workers.connections)))
        self._owners: dict[int, int] = {}
        self._made: dict[int, tuple[str, Any]] = {}
        self._asked = self._taken = 0
        workers.turn += 1
        self._turn = workers.turn
        for number in self._active:
            workers.send(number, (self._turn, None, seed + number))
        for _ in range(ahead * len(self._active)):
            self._ask()

    def _ask(self) -> None:
        """Give the next task to the worker whose turn it is."""
        if not self._active:
            return
        for wanted in self._tasks:
            number = self._active[self._asked % len(self._active)]
            self._owners[self._asked] = number
            self._workers.send(number, (self._turn, self._asked, wanted))
            self._asked += 1
            return

    def next(self, wait_for_it: bool) -> Any:
        """The next batch; WAITING if it is not there and nobody waits; DONE after the last.

        Raises what its making raised, or WorkerError, to those who wait.
        """
        while self._taken in self._owners:
            number = self._owners[self._taken]
            if self._taken not in self._made:
                self._take_in(0.0)
            if wait_for_it:
                self._wait(number)
            kind, content = self._made.get(self._taken, (ERROR, None))
            if kind == ERROR and not wait_for_it:
                return WAITING
            del self._made[self._taken], self._owners[self._taken]
            self._taken += 1
            if kind == END:
                self._active = [worker for worker in self._active if worker != number]
                self._ask()
                continue
            self._ask()
            if kind == ERROR:
                _raise(number, *content)
            packed, buffers = content
            return pickle.loads(packed, buffers=buffers)
        return DONE

    def _wait(self, number: int) -> None:
        """Until the batch that is due, which a worker makes, is there."""
        workers, begun = self._workers, time.monotonic()
        while self._taken not in self._made:
            if self._turn != workers.turn:
                given = "an iterator of an earlier pass, while another pass has begun"
                remedy = "Use persistent_workers=False to have several at once"
                raise WorkerError(message(_WHO, given, "one pass at a time", remedy))
            if number in workers.failed:
                _raise(number, *workers.failed[number])
            if number in workers.gone:
                raise workers.died(number)
            left = self._timeout - (time.monotonic() - begun) if self._timeout else _LOOK
            if left <= 0:
                given = f"no batch of worker {number} within {self._timeout:g} s"
                remedy = "Give a longer timeout, or see what its samples wait for"
                raise WorkerError(message(_WHO, given, "one by then", remedy))
            self._take_in(min(left, _LOOK))

    def _take_in(self, seconds: float) -> None:
        """Take in what the workers tell; after some time without see whether they live."""
        messages = self._workers.receive(seconds)
        for number, turn, task, kind, content in messages:
            if task is None:
                self._workers.failed[number] = content
            elif turn == self._turn:
                self._made[task] = kind, content
        if not messages and seconds:
            self._workers.look()


def _raise(number: int, packed: bytes | None, text: str) -> None:
    """Raise what a worker's code raised, with its traceback."""
    cause = WorkerError(message(_WHO, f"an error in worker {number}\n\n{text.rstrip()}\n"))
    if packed is None:
        raise cause
    raise pickle.loads(packed) from cause


def _packed(what: Any) -> bytes:
    """Something for all workers; raises ArgumentError if it cannot be sent."""
    try:
        return bytes(ForkingPickler.dumps(what))
    except Exception as error:  # whatever the user's classes raise
        given = f"a data set or function that cannot be sent to workers: {error}"
        expected = "classes and functions at the top of a module"
        raise ArgumentError(message(_WHO, given, expected, "Use num_workers=0 else")) from error
