"""Builder processes: where a driver compiles one program at a time in a process, others build too.

Also the line that says that kernels are being built: on a terminal, in a notebook, or where asked.

A builder reads sources from its standard input and keeps each binary on disk, where the process
that asked for it finds it. It ends after some seconds without work, and with whoever started it.
What a builder has not built, because it was killed, say, the asker builds itself.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any, Final, final

from netcl_core import config
from netcl_core.errors import BuildError
from netcl_core.hardware.device import Device

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


#: The most builders on the platforms of which it was measured that a first step takes half the
#: time. On a GPU each of them has a context in its memory.
_PLATFORMS: Final = {"Intel(R) OpenCL": 8, "Portable Computing Language": 8, "NVIDIA CUDA": 4}
#: Programs that wait for each builder before another one is started.
_WAITING: Final = 2
#: Seconds after which a builder without work ends.
_IDLE: Final = 10.0
_CHILD: Final = """
import json, sys
sys.path[:], device = json.loads(sys.argv[1])
from netcl_core.hardware import programs
programs.serve(device)
"""


def of_device(device: Device) -> list[str]:
    """What a builder finds a device by."""
    return [device.platform, device.name, device.driver_version]


def help_with(device: Device) -> bool:
    """Whether builders are of use for a device now."""
    return (
        device.platform in _PLATFORMS
        and _processors() > 1
        and config.get("cache")
        and not config.under_test()
    )


def _processors() -> int:
    """Those that this process may run on."""
    own = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if own is None else len(own(0))


@final
class _Job:
    """A program that somebody is to build."""

    __slots__ = ("done", "here", "text")

    def __init__(self, text: bytes, here: Callable[[], Any]) -> None:
        self.text = text
        self.here = here  # builds it in this process
        self.done = threading.Event()


@final
class Builders:
    """The programs that were asked for by their names on disk, and who builds them for a device."""

    def __init__(self, device: Device) -> None:
        self._most = min(_PLATFORMS.get(device.platform, 1), _processors() - 1)
        self._facts = json.dumps([sys.path, of_device(device)])
        self._jobs: dict[str, _Job] = {}
        self._waiting: deque[str] = deque()
        self._change = threading.Condition()
        self._workers = 0
        self._processes: set[subprocess.Popen[bytes]] = set()
        atexit.register(self._end)

    def ask(self, name: str, source: str, options: str, here: Callable[[], Any]) -> None:
        """Have a program built; `here` builds it in this process."""
        job = _Job(json.dumps([source, options]).encode() + b"\n", here)
        with self._change:
            if self._jobs.setdefault(name, job) is not job:
                return
            self._waiting.append(name)
            self._change.notify()
            if self._workers < self._most and len(self._waiting) > 1 + _WAITING * self._workers:
                self._workers += 1
                threading.Thread(target=self._work, daemon=True).start()

    def busy(self, name: str) -> bool:
        """Whether a program was asked for and is not built yet."""
        job = self._jobs.get(name)
        return job is not None and not job.done.is_set()

    def settle(self, name: str) -> None:
        """Return once nobody builds a program any more; meanwhile this process builds others."""
        job = self._jobs.get(name)
        while job is not None and not self._take(name) and not job.done.is_set():
            with self._change:
                other = self._jobs[self._waiting[0]] if self._waiting else None
            if other is None:
                with told():
                    job.done.wait()
            else:
                with suppress(BuildError):  # raised when its turn comes
                    other.here()
        with self._change:
            self._jobs.pop(name, None)

    def _take(self, name: str) -> bool:
        """Whether a program was still waiting for a builder: then it waits no more."""
        with self._change, suppress(ValueError):
            self._waiting.remove(name)
            return True
        return False

    def _next(self) -> _Job | None:
        with self._change:
            if not self._change.wait_for(lambda: self._waiting, _IDLE):
                return None
            return self._jobs[self._waiting.popleft()]

    def _work(self) -> None:
        """What the thread of a builder does."""
        process = None
        try:
            while (job := self._next()) is not None:
                try:
                    process = process or self._started()
                    _built_by(process, job)
                finally:
                    job.done.set()
        except OSError:  # it was killed, or none can be started
            pass
        finally:
            with self._change:
                self._workers -= 1
            if process is not None:
                self._processes.discard(process)
                _kill(process)
                for pipe in (process.stdin, process.stdout):
                    with suppress(OSError):  # what was not written
                        pipe.close()  # type: ignore[union-attr]  # they are there

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _CHILD, self._facts],
            env={**config.environment(), "PYOPENCL_NO_CACHE": "true"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._processes.add(process)
        return process

    def _end(self) -> None:
        for process in list(self._processes):
            _kill(process)


def _built_by(process: subprocess.Popen[bytes], job: _Job) -> None:
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018 - of one call
    process.stdin.write(job.text)
    process.stdin.flush()
    if not process.stdout.readline():
        raise BrokenPipeError


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


#: Of the devices for which a program was asked for.
asked: Final[dict[Device, Builders]] = {}


def builders_of(device: Device) -> Builders:
    """The builders of a device."""
    return asked.get(device) or asked.setdefault(device, Builders(device))
