"""What a capture that is under way in a thread is told: the core's part of `ag.CompiledGraph`.

What must not be done again as it was, such as drawing the same random numbers, says so:
`on_replay` runs a function at its place and `before_replay` one that may refuse it, `check_data`
looks at new data, `uncaptured` does something once, and `refuse_in_capture` says that it cannot be.
The namespace `capture` enters a `Capture` with `captured_by`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import get_ident
from typing import Any, Final, Protocol, TypeAlias

from netcl_core.errors import ReplayError, message
from netcl_core.runtime.stream import Stream, use_stream

#: A check of data, its operands, and its settings.
Check: TypeAlias = tuple[Callable[[Sequence[Any], Any], None], Sequence[Any], Any]


class Capture(Protocol):
    """What takes down what a thread asks of a device.

    Attributes:
        inner: The stream that does it.
        conditions: What each replay has to pass first.
        checks: What was checked of data.
        changed: The tensors that were changed in place, by their identity.
        leaves: The leaves that got a gradient, with the one that they had before, likewise.
    """

    inner: Stream
    conditions: list[Callable[[], Any]]
    checks: list[Check]
    changed: dict[int, Any]
    leaves: dict[int, Any]

    def made(self, buffer: Any) -> bool:
        """Whether a buffer was allocated in the capture."""

    def call(self, function: Callable[[], Any]) -> None:
        """Take down that a function is to be called at this place."""


#: By thread. Empty almost always, which is all that a hot path asks.
captures: Final[dict[int, Capture]] = {}


def current_capture() -> Capture | None:
    """The capture that is under way in this thread; None: there is none."""
    return captures.get(get_ident()) if captures else None


@contextmanager
def captured_by(capture: Capture) -> Iterator[None]:
    """A block in which this thread tells a capture what it does."""
    captures[get_ident()] = capture
    try:
        yield
    finally:
        del captures[get_ident()]


def capturing() -> bool:
    """Whether a capture is under way in this thread.

    >>> seen = []
    >>> graph = ag.capture(lambda x: seen.append(nc.capturing()) or x * 2, nc.tensor([1.0]))
    >>> seen, nc.capturing()
    ([True], False)

    It is for what reads values to decide something and can let the device decide it instead.
    """
    return bool(captures) and get_ident() in captures


def made_before(buffer: Any) -> bool:
    """Whether a capture is under way in this thread, and a buffer is from before it."""
    capture = current_capture()
    return capture is not None and not capture.made(buffer)


def on_replay(function: Callable[[], Any]) -> None:
    """Let a capture that is under way in this thread call a function at each replay.

    >>> seen = []
    >>> x = nc.tensor([1.0, 2.0])
    >>> graph = ag.capture(lambda x: nc.on_replay(lambda: seen.append("again")) or x * 2, x)
    >>> graph(x).numpy(), seen
    (array([2., 4.], dtype=float32), ['again'])

    It is for what goes on with every step on the host, such as a count. The function runs at its
    place among the commands; what it asks of a device comes there too. Without a capture nothing
    happens.
    """
    capture = current_capture()
    if capture is not None:
        capture.call(function)


def before_replay(condition: Callable[[], Any]) -> None:
    """Let a capture that is under way in this thread call a function before each replay.

    >>> rates = {"lr": 0.1}
    >>> def unchanged():
    ...     if rates != {"lr": 0.1}:
    ...         raise ValueError("the rates are those of the capture no longer")
    >>> graph = ag.capture(lambda x: nc.before_replay(unchanged) or x * 0.1, nc.tensor([1.0]))
    >>> rates["lr"] = 0.2
    >>> graph([1.0])
    Traceback (most recent call last):
    ValueError: the rates are those of the capture no longer

    It is for what a step takes for granted on the host: what the function raises refuses the
    replay, before anything of it has been done. Without a capture nothing happens.

    Args:
        condition: A function without arguments.
    """
    capture = current_capture()
    if capture is not None:
        capture.conditions.append(condition)


@contextmanager
def uncaptured() -> Iterator[None]:
    """Do something once: a capture that is under way in this thread does not take it down.

    >>> def step(x):
    ...     with nc.uncaptured():
    ...         offset = nc.Tensor.full((2,), float(x.numpy().max()))
    ...     return x + offset
    >>> graph = ag.capture(step, nc.tensor([1.0, 2.0]))
    >>> graph(nc.tensor([10.0, 20.0])).numpy()  # the largest is that of the capture
    array([12., 22.], dtype=float32)

    It is for what must outlast a step and be there before the first, such as an optimizer's state,
    and for looking at values. Without a capture nothing changes.
    """
    thread = get_ident()
    capture = captures.pop(thread, None) if captures else None
    if capture is None:
        yield
        return
    with ExitStack() as stack:
        stack.callback(captures.__setitem__, thread, capture)
        stack.enter_context(use_stream(capture.inner))
        yield


@contextmanager
def captured_after_all(capture: Any) -> Iterator[None]:
    """A block of `uncaptured` of which a capture is told: it was asked for before that block."""
    if capture is None or capture is current_capture():
        yield
        return
    with captured_by(capture), use_stream(capture):
        yield


def check_data(
    check: Callable[[Sequence[Any], Any], None], operands: Sequence[Any], settings: Any
) -> None:
    """`check(operands, settings)` raises if it does not like data; a replay asks it again.

    >>> def positive(operands, least):
    ...     if operands[0].numpy().min() <= least:
    ...         raise ValueError("log: a number that is not positive")
    >>> def step(x):
    ...     ag.check_data(positive, [x], 0.0)
    ...     return ag.log(x)
    >>> graph = ag.capture(step, nc.tensor([1.0, 1.0]))
    >>> graph([1.0, -1.0])
    Traceback (most recent call last):
    ValueError: log: a number that is not positive

    A replay asks with the inputs of then, before anything else is done, and does not ask where no
    operand is an input. What a check reads is no reading inside a capture.
    """
    capture = current_capture()
    if capture is None:
        check(operands, settings)
        return
    capture.checks.append((check, tuple(operands), settings))
    with uncaptured():
        check(operands, settings)


def refuse_in_capture(who: str, given: str, remedy: str) -> None:
    """Raise ReplayError if a capture is under way in this thread."""
    if capturing():
        raise ReplayError(message(who, given, "what can be done again as it is", remedy))


def refuse_reading(given: str) -> None:
    """The same for the values of tensors."""
    if capturing():
        remedy = "Read them after the capture, or what shall stay as it is now with nc.uncaptured()"
        expected = "work for the device alone: values cannot be read in a capture"
        raise ReplayError(message("capture", given, expected, remedy))


def note_change(tensor: Any) -> None:
    """Let each replay count as a change of a tensor."""
    capture = captures.get(get_ident())
    if capture is not None:
        capture.changed[id(tensor)] = tensor


def note_gradient(leaf: Any) -> bool:
    """Note that a leaf gets a gradient; whether the one that it has is from before a capture.

    Then the capture begins without: a replay gives the gradient of one step.
    """
    capture = captures.get(get_ident())
    if capture is None:
        return False
    capture.leaves.setdefault(id(leaf), (leaf, leaf.grad))
    return leaf.grad is not None and not capture.made(leaf.grad.value.memory)
