"""The line that says that kernels are being built: on a terminal, in a notebook, or where asked."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any, Final, final

from netcl_core import config

#: Seconds of building that go by without a word.
_QUIET: Final = 1.0


@final
class _Count:
    """How many programs this process has built from their sources, and how long that took."""

    def __init__(self) -> None:
        self.built = 0
        self.seconds = 0.0
        self.lock = threading.Lock()


count: Final = _Count()


@contextmanager
def told() -> Iterator[None]:
    """Around a build: once they have taken a second, a line counts them while they go on."""
    stream: Any = None
    if count.seconds > _QUIET:
        stream = _shown_on()
        _write(stream, f"\rnetcl: building kernel {count.built + 1}, {count.seconds:.0f} s so far "
                       "(kept for the next time)")  # fmt: skip
    begin = perf_counter()
    try:
        yield
    finally:
        with count.lock:
            count.built += 1
            count.seconds += perf_counter() - begin
        _write(stream, "\r" + " " * 79 + "\r")


def _shown_on() -> Any:
    """Where the line goes; None: nowhere."""
    wanted, stream = config.get("build-progress"), sys.stderr
    if wanted == "off" or stream is None:
        return None
    notebook = type(stream).__module__.partition(".")[0] == "ipykernel"
    return stream if wanted == "on" or notebook or stream.isatty() else None


def _write(stream: Any, text: str) -> None:
    if stream is not None:
        with suppress(OSError, ValueError):  # it was closed
            stream.write(text)
            stream.flush()
