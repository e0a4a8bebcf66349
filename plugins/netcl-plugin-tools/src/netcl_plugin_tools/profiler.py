"""The namespace `netcl_core.profiler`: what a block asks of a device, and how long it takes.

Times of kernels are those of OpenCL's events, which the device takes itself.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from netcl_core import Device, capturing, default_device, get_device
from netcl_core.errors import ArgumentError, message
from netcl_core.files import write_whole
from netcl_core.inspect.data import Dtype
from netcl_core.inspect.streams import Launch, OpenCLStream, StreamWrapper, stream_of, use_stream
from netcl_core.plugins import absent

__all__ = ["KernelTime", "profile"]

#: The threads of a trace.
_HOST, _DEVICE = 1, 2
_NANO: Final = 1e-9


@final
@dataclass(frozen=True, slots=True)
class KernelTime:
    """All runs of a kernel, or of a kind of copy.

    Attributes:
        name: Of the kernel; of other commands `upload`, `download`, `copy` or `fill`.
        count: How often it ran.
        seconds: What it took in all.
        share: Of the time of all kernels and copies, 0 to 1.
    """

    name: str
    count: int
    seconds: float
    share: float


@final
@dataclass(slots=True)
class _Span:
    """A command: when the host asked for it, and when it ran, in seconds of the host's clock."""

    name: str
    asked: float
    begin: float
    end: float
    event: Any = None


@final
class profile:  # noqa: N801 - a function to its users, and a context manager
    """Time what this thread asks of a device in a block.

    >>> x = nc.rand(64, 64)
    >>> with nc.profile() as seen:
    ...     y = ag.gelu(ag.gelu(x))
    >>> [(each.name, each.count) for each in seen.kernels]
    [('gelu_forward', 2)]

    `print(seen)` shows a table, `seen.save_trace("trace.json")` writes what Perfetto
    (ui.perfetto.dev) and chrome://tracing show.

    Args:
        device: A device or its name; default: the default device when the block begins.

    Attributes:
        seconds: What the block took on the host, until the device was done.
        memory: (seconds since the block began, bytes in use) at each change.

    The block's kernels go to a queue of their own, so other threads must leave the device alone
    meanwhile. Raises ArgumentError inside a capture, where nothing may be timed.
    """

    def __init__(self, device: str | Device | None = None) -> None:
        self._device = device
        self._scope = ExitStack()
        self._spans: list[_Span] = []
        self._begin = self.seconds = 0.0
        self.device: Device | None = None
        self.memory: list[tuple[float, int]] = []

    def __enter__(self) -> profile:
        if capturing():
            given, remedy = "a profile inside a capture", "Profile the replays"
            raise ArgumentError(message("profile", given, "one around it", remedy))
        device = self.device = get_device(
            default_device() if self._device is None else self._device
        )
        stream_of(device).finish()
        self._spans, self.memory = [], []
        seen = _WatchedStream(device, self._spans, self._remember)
        self._scope.enter_context(use_stream(seen))
        self._begin = time.perf_counter()
        self._remember()
        return self

    def __exit__(self, *exc: object) -> None:
        assert self.device is not None  # it was entered
        stream_of(self.device).finish()
        self._remember()
        self.seconds = time.perf_counter() - self._begin
        self._scope.close()
        _settle(self._spans)

    def _remember(self) -> None:
        assert self.device is not None
        if self.device.has_kernels:
            used = self.device.memory_stats()["allocated"]
            if not self.memory or self.memory[-1][1] != used:
                self.memory.append((time.perf_counter() - self._begin, used))

    @property
    def kernels(self) -> list[KernelTime]:
        """The kernels and copies, the one with the most time first."""
        times: dict[str, list[float]] = defaultdict(list)
        for span in self._spans:
            times[span.name].append(span.end - span.begin)
        total = sum(map(sum, times.values())) or 1.0
        rows = [KernelTime(name, len(x), sum(x), sum(x) / total) for name, x in times.items()]
        return sorted(rows, key=lambda row: -row.seconds)

    def __str__(self) -> str:
        rows = self.kernels
        total = sum(row.seconds for row in rows)
        peak = max((used for _, used in self.memory), default=0)
        lines = [
            f"{row.share:6.1%} {row.seconds * 1e3:10.3f} ms {row.count:6} x "
            f"{row.seconds / row.count * 1e6:10.1f} us  {row.name}"
            for row in rows
        ]
        busy = f"{self.device}: {total * 1e3:.3f} ms of {self.seconds * 1e3:.3f} ms busy"
        return "\n".join([*lines, f"{busy}, at most {peak / 2**20:.1f} MiB in use"])

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace of Chrome's format: the host's calls, the device's work, the memory.

        (Source: "Trace Event Format", Google; `X` are durations, `C` counters, `M` names, in
        microseconds.)
        """
        events: list[dict[str, Any]] = [
            _event("M", 0, thread, "thread_name", args={"name": name})
            for thread, name in ((_HOST, "host"), (_DEVICE, str(self.device)))
        ]
        for span in self._spans:
            asked, begin, end = (self._micros(x) for x in (span.asked, span.begin, span.end))
            events.append(_event("X", begin, _DEVICE, span.name, dur=end - begin))
            events.append(_event("i", asked, _HOST, span.name, s="t"))
        for moment, used in self.memory:
            events.append(_event("C", moment * 1e6, _HOST, "memory", args={"bytes": used}))
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
        write_whole(Path(path), text.encode())

    def _micros(self, moment: float) -> float:
        return max(moment - self._begin, 0.0) * 1e6


def _event(phase: str, moment: float, thread: int, name: str, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "ts": round(moment, 3), "pid": 1, "tid": thread, "name": name, **more}


def _settle(spans: Sequence[_Span]) -> None:
    """Take over the events' times; the first command ties the device's clock to the host's."""
    timed = [span for span in spans if span.event is not None]
    if timed:
        offset = timed[0].asked - timed[0].event.profile.queued * _NANO
        for command in timed:
            times, command.event = command.event.profile, None
            command.begin, command.end = offset + times.start * _NANO, offset + times.end * _NANO


@final
class _WatchedStream(StreamWrapper):
    """A stream that takes down what it is asked for, with OpenCL's events."""

    def __init__(self, device: Device, spans: list[_Span], remember: Callable[[], None]) -> None:
        inner = stream_of(device)
        if device.has_kernels:
            inner = OpenCLStream(device, told=self._told)
        super().__init__(inner)
        self._spans = spans
        self._remember = remember
        self._doing = ("", 0.0)

    def _told(self, event: Any) -> None:
        name, asked = self._doing
        self._spans.append(_Span(name, asked, asked, asked, event))

    def _does(self, name: str) -> None:
        self._doing = (name, time.perf_counter())

    def allocate(self, size: int, dtype: Dtype) -> Any:
        buffer = self.inner.allocate(size, dtype)
        self._remember()
        return buffer

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        self._does(launch.entry)
        self.inner.launch(launch, buffers, scalars)

    def upload(self, array: Any, dtype: Dtype) -> Any:
        self._does("upload")
        return self.inner.upload(array, dtype)

    def write(self, buffer: Any, array: Any, dtype: Dtype) -> None:
        self._does("upload")
        self.inner.write(buffer, array, dtype)

    def download(self, buffer: Any, size: int, dtype: Dtype) -> Any:
        self._does("download")
        return self.inner.download(buffer, size, dtype)

    def copy(self, target: Any, source: Any, size: int, dtype: Dtype) -> None:
        self._does("copy")
        self.inner.copy(target, source, size, dtype)

    def fill(self, buffer: Any, size: int, dtype: Dtype, value: Any) -> None:
        self._does("fill")
        self.inner.fill(buffer, size, dtype, value)

    def host_call(
        self,
        run: Callable[..., None],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        forms: Sequence[tuple[tuple[int, ...], Any]],
    ) -> None:
        """The host does it, by the host's clock."""
        self.inner.finish()
        begin = time.perf_counter()
        self.inner.host_call(run, inputs, outputs, forms)
        self._spans.append(_Span(f"host: {_name(run)}", begin, begin, time.perf_counter()))


def _name(run: Callable[..., None]) -> str:
    """The op that a function of the host computes, else the function's name."""
    (call, *_) = getattr(run, "args", None) or [None]
    function = getattr(run, "func", run)
    plan = getattr(getattr(function, "__self__", None), "plan", None)
    named = getattr(call, "operator", None) or getattr(plan, "region", None)
    return str(getattr(named, "name", None) or getattr(function, "__name__", "call"))


def __getattr__(name: str) -> Any:
    return absent("profiler", name, __all__)
