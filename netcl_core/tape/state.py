"""What belongs to one thread: its grad and anomaly overrides, its tape, its tracer.

One object, so that an op finds everything that concerns it in one place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Final, final

from netcl_core.plugins.registry import registry


@final
class ThreadState(threading.local):
    """The state of the current thread.

    Attributes:
        grad: The override of the process's grad mode; None: as the process.
        anomaly: What watches backward passes: all in `around(nodes)`, and each call's gradients by
            `check(node, grads, gradients)`. False: nothing does; None: as in the process.
        tape: The current tape; None until the thread's implicit tape is made.
        implicit: The thread's implicit tape; None until it is needed.
        differentiated: The op whose gradient is being recorded; None: none is.
        ones: The seeds of the reverse passes under way that are the number 1.
        seeds: Those that the thread has made, by shape, dtype and device, to be used again.
        tracer: The tracing context that takes the ops instead of running them.
        amp: The amp policy in force, an `ops.casting.CastingState`; None: there is none.
        ending: What is called when the `backward` under way has ended; None: none is under way.
        chosen: The explicit choices of `prefer` in force, the innermost first.
    """

    grad: bool | None = None
    anomaly: Any = None
    tape: Any = None
    implicit: Any = None
    differentiated: str | None = None
    ones: tuple[Any, ...] = ()
    seeds: dict[Any, Any]
    tracer: Any = None
    amp: Any = None
    ending: list[Callable[[], None]] | None = None
    chosen: tuple[tuple[str, str], ...] = ()

    def __init__(self) -> None:  # called in each thread
        self.seeds = {}


@final
class ProcessState:
    """The defaults of the process, and the reverse passes of all threads.

    Attributes:
        least: From how many bytes on a graph lets go of what no gradient reads: it takes 5 us.
        passes: The thread of each pass under way, and the number of the first node made since.
        moving: Held while a record of the graph moves to another node, and while a pass begins.
    """

    __slots__ = ("anomaly", "grad", "least", "moving", "passes")

    def __init__(self) -> None:
        self.grad = True
        self.anomaly: Any = False
        self.least = 1 << 18
        self.passes: list[tuple[int, int]] = []
        self.moving = threading.RLock()


@final
class Entries(dict[int, list[Any]]):
    """What stood before each entry of one scope, the innermost last, by thread.

    So a scope can be entered again before and after it was left, and by several threads.
    """

    def push(self, before: Any) -> None:
        """Note what stood before this thread entered."""
        number = get_ident()
        if number in self:
            self[number].append(before)
        else:
            self[number] = [before]

    def restored(self, now: Any) -> Any:
        """What stood before the last entry of this thread; `now` if another thread entered."""
        entries = self.get(get_ident())
        return entries.pop() if entries else now


thread: Final = ThreadState()


@contextmanager
def casting_by(amp: Any) -> Iterator[None]:
    """A block in which an amp policy is in force; None: ops compute in what they are given."""
    outer, thread.amp = thread.amp, amp
    try:
        yield
    finally:
        thread.amp = outer


@contextmanager
def apart() -> Iterator[None]:
    """A block in which this thread traces, casts and chooses nothing, as when it began."""
    state = vars(thread)
    before = dict(state)
    state.clear()
    state["seeds"] = before["seeds"]
    try:
        yield
    finally:
        state.clear()
        state.update(before)


registry.demand.load_within(apart)
process: Final = ProcessState()


@contextmanager
def reverse_pass(first: int) -> Iterator[None]:
    """A block in which the records of nodes with lower numbers stay where they are."""
    own = get_ident(), first
    with process.moving:
        process.passes.append(own)
    try:
        yield
    finally:
        process.passes.remove(own)
