"""Checks side by side: so many at once, and what is timed by itself when the others are done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Final, TypeVar, final

_T = TypeVar("_T")
_R = TypeVar("_R")


@final
class Turns:
    """When each of several checks may run.

    Args:
        jobs: How many may run at once.
        checks: How many there are in all. Each runs `beside` others once.
    """

    def __init__(self, jobs: int, checks: int) -> None:
        self._slots = threading.BoundedSemaphore(jobs)
        self._left = checks
        self._news = threading.Condition()
        self._alone: Final = threading.Lock()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Wait for a free slot, and hold it while the block runs."""
        with self._slots:
            try:
                yield
            finally:
                with self._news:
                    self._left -= 1
                    self._news.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until every check has run beside others, and run the block without any."""
        with self._news:
            self._news.wait_for(lambda: not self._left)
        with self._alone:
            yield


def side_by_side(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """What a function returns for each item, each in a thread of its own.

    Raises the first error at once, and waits for no thread then: Ctrl-C ends the program, and
    with it the processes that its threads have started.
    """
    done: SimpleQueue[tuple[int, _R | None, BaseException | None]] = SimpleQueue()

    def run(number: int) -> None:
        try:
            done.put((number, function(items[number]), None))
        except BaseException as error:  # raised again where the results are taken
            done.put((number, None, error))

    for number in range(len(items)):
        threading.Thread(target=run, args=(number,), daemon=True).start()
    results: dict[int, _R] = {}
    while len(results) < len(items):
        number, result, error = done.get()
        if error is not None:
            raise error
        results[number] = result  # type: ignore[assignment]  # there is one without an error
    return [results[number] for number in range(len(items))]
