"""Calls a driver's compiler: a bare program from source or binary, built, or its log."""

from __future__ import annotations

from typing import Any


def built(cl: Any, program: Any, options: str = "") -> Any:
    """A `pyopencl._cl._Program`, built.

    It goes past `pyopencl.Program`, whose cache on disk has no bound and one lock for all
    processes, and which warns of whatever a compiler says of a program that it takes.

    Raises the driver's `pyopencl.Error`, with the compiler's log in its text.
    """
    try:
        program._build(options=options.encode(), devices=None)
    except cl.Error as error:
        logs = "".join(f"\n\nBuild on {device}:\n\n{log}" for device, log in _logs(cl, program))
        text = f"{error}{logs}"
        record = cl._cl._ErrorRecord(msg=text, code=error.code, routine=error.routine)
        raise cl.RuntimeError(record) from error
    return program


def from_source(cl: Any, context: Any, source: str, options: str = "") -> Any:
    """The built program of a source; raises as `built` does."""
    return built(cl, cl._cl._Program(context, source), options)


def from_binary(cl: Any, context: Any, device: Any, binary: bytes) -> Any:
    """The built program of a binary; raises as `built` does."""
    return built(cl, cl._cl._Program(context, [device], [binary]))


def _logs(cl: Any, program: Any) -> Any:
    """What the compiler says for each device."""
    try:
        return program._get_build_logs()
    except cl.Error:  # some drivers have none for what they did not even begin
        return []
