"""What surrounds the import of a plugin: whatever it raises or prints, the program is not harmed.

KeyboardInterrupt comes from the user's Ctrl-C or from the plugin; only the signal tells which.
What is printed goes to stderr: standard output belongs to the program.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, final

from netcl_core.plugins.failures import said


def import_object(value: str) -> Any:
    """Import what an entry point names: `module`, or `module:attribute`."""
    module, _, path = value.partition("[")[0].partition(":")
    target: Any = importlib.import_module(module.strip())
    for attribute in filter(None, path.strip().split(".")):
        target = getattr(target, attribute)
    return target


@contextmanager
def watched() -> Iterator[Callable[[], bool]]:
    """A block of a plugin's code; gives a function that says whether the user has interrupted."""
    pressed: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        pressed.append(number)
        if callable(before):
            before(number, frame)

    held = callable(before) and threading.current_thread() is threading.main_thread()
    if held:
        with suppress(ValueError):  # a subinterpreter, to which no signal comes
            signal.signal(signal.SIGINT, note)
    try:
        with _diverted():
            yield lambda: bool(pressed)
    finally:
        if held and signal.getsignal(signal.SIGINT) is note:  # else the plugin has set its own
            signal.signal(signal.SIGINT, before)


@final
class _Diverted:
    """Standard output, but for what one thread writes, which goes to stderr."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._thread: int | None = threading.get_ident()

    def _stream(self) -> Any:
        diverted = self._thread == threading.get_ident() and sys.stderr is not None
        return sys.stderr if diverted else self._real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream(), name)

    def end(self) -> None:
        """From now on all goes where it went before: somebody may have kept this object."""
        self._thread = None


@contextmanager
def _diverted() -> Iterator[None]:
    real = sys.stdout
    stream = _Diverted(real)
    sys.stdout = stream
    try:
        yield
    finally:
        stream.end()
        if sys.stdout is stream:
            sys.stdout = real


def traced(error: BaseException, note: str) -> str:
    """An exception's traceback with a note, whatever its own methods do."""
    try:
        BaseException.add_note(error, note)
        return "".join(traceback.format_exception(error))
    except BaseException as another:
        return f"Traceback (that raises {type(another).__name__}):\n{said(error)}\n{note}\n"
