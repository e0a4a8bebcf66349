"""Counts the calls by which a thread waits for an OpenCL device.

They are all that the bindings have: a queue's `finish`, waiting for events, and copies and
mappings of the host's memory that are told to block, as they are by default.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from netcl_core.hardware.device import opencl_module

#: What waits always, by the class that has it; and what waits unless it is told not to.
_WAITS = (("CommandQueue", "finish"), ("Event", "wait"))
_TRANSFERS = (
    "_enqueue_read_buffer",
    "_enqueue_read_buffer_rect",
    "_enqueue_read_image",
    "_enqueue_write_buffer",
    "_enqueue_write_buffer_rect",
    "_enqueue_write_image",
)
_FREE = ("wait_for_events", "enqueue_map_buffer", "enqueue_map_image")


@contextmanager
def blocking_calls() -> Iterator[list[str]]:
    """The calls that wait, each with the lines that led to it; those of all threads."""
    cl, calls = opencl_module(), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in _WAITS:
            place = getattr(cl, owner)
            patch.setattr(place, name, _noting(getattr(place, name), name, calls))
        for name in _TRANSFERS:
            patch.setattr(cl._cl, name, _noting(getattr(cl._cl, name), name, calls))
        for name in _FREE:
            patch.setattr(cl, name, _noting(getattr(cl, name), name, calls))
        yield calls


def _noting(call: Callable[..., Any], name: str, calls: list[str]) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("is_blocking", True):
            lines = traceback.format_list(traceback.extract_stack()[-8:-1])
            calls.append(f"{name}\n{''.join(lines)}")
        return call(*args, **kwargs)

    return noted
