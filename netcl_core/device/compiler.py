"""Calls a driver's compiler: a bare program from source, built, or its log."""

from __future__ import annotations

from typing import Any


def from_source(cl: Any, context: Any, source: str, options: str = "") -> Any:
    """The built `pyopencl._cl._Program` of a source.

    It goes past `pyopencl.Program`, whose cache on disk has no bound and one lock for all
    processes, and which warns of whatever a compiler says of a program that it takes.

    Raises the driver's `pyopencl.Error`, with the compiler's log in its text.
    """
    program = cl._cl._Program(context, source)
    try:
        program._build(options=options.encode(), devices=None)
    except cl.Error as error:
        logs = "".join(f"\n\nBuild on {device}:\n\n{log}" for device, log in _logs(cl, program))
        text = f"{error}{logs}"
        record = cl._cl._ErrorRecord(msg=text, code=error.code, routine=error.routine)
        raise cl.RuntimeError(record) from error
    return program


def _logs(cl: Any, program: Any) -> Any:
    """What the compiler says for each device."""
    try:
        return program._get_build_logs()
    except cl.Error:  # some drivers have none for what they did not even begin
        return []
