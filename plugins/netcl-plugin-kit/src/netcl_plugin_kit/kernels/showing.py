"""`netcl kernels show`: prints the sources of an op, in colour on a terminal, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Console
from rich.syntax import Syntax

from netcl_core import Spec, Tensor, default_device, dtype_name, get_device
from netcl_core.cli import print_json
from netcl_core.errors import ArgumentError, message
from netcl_plugin_kit.kernels.sources import PYTHON, OpSources, Source, sources_of
from netcl_plugin_kit.kernels.usual import usual_call
from netcl_plugin_kit.shapes import attribute, spec, specs


def show(
    op: str,
    *,
    dtype: str,
    device: str | None,
    backward: bool,
    shape: str | None,
    shapes: str | None,
    attrs: Sequence[str],
    as_json: bool,
) -> None:
    """Print the sources of an op; raises a NetclError that says what is wrong."""
    if shape is not None and shapes is not None:
        raise ArgumentError(message("kernels show", "--shape and --shapes", "one of them"))
    dtype = dtype_name(dtype, "--dtype")
    inputs: Spec | list[Spec] | None = None if shape is None else spec("kernels show", shape, dtype)
    if shapes is not None:
        inputs = specs("kernels show", shapes, dtype)
    given = dict(attribute("kernels show", attr) for attr in attrs)
    target = default_device() if device is None else get_device(device)
    notes: tuple[str, ...] = ()
    if inputs is None and (usual := usual_call(op, dtype)) is not None:
        inputs, given = usual.inputs, {**usual.attrs, **given}
        attributes = "".join(f", {name}={_told(value)}" for name, value in given.items())
        notes = (f"as in the conformance case {usual.case}{attributes}; --shapes gives others",)
    sources = sources_of(op, target, dtype, inputs, given, backward=backward)
    sources = replace(sources, notes=(*sources.notes, *notes))
    if as_json:
        print_json(_data(sources))
    else:
        _print(sources)


def _told(value: Any) -> str:
    """An attribute, or the shape of a tensor that stands among them."""
    return f"{_sizes(value.shape)}:{value.dtype}" if isinstance(value, Tensor) else repr(value)


def _data(sources: OpSources) -> dict[str, Any]:
    """`entry` and `source` hold all launches together, `sources` each alone."""
    return {
        **asdict(sources),
        "entry": ", ".join(source.entry for source in sources.sources),
        "source": "\n\n".join(source.text for source in sources.sources),
    }


def _print(sources: OpSources) -> None:
    """The sources under comments that say what they are, so that a file of them is a source."""
    console = Console(markup=False, highlight=False)
    python = any(source.language == PYTHON for source in sources.sources)
    for line in _heading(sources):
        _print_text(console, f"{'#' if python else '//'} {line}", python)
    for number, source in enumerate(sources.sources):
        comment = f"{'#' if python else '//'} {_title(source, number, len(sources.sources))}"
        _print_text(console, f"\n{comment}\n{source.text.strip()}", python)


def _heading(sources: OpSources) -> Iterator[str]:
    shapes = ", ".join(f"{_sizes(s.shape)}:{s.dtype}" for s in sources.inputs)
    yield f"{sources.op} ({sources.provider}), {sources.phase} of {shapes} on {sources.device}"
    yield from sources.why.splitlines()
    yield from sources.notes


def _title(source: Source, number: int, count: int) -> str:
    if source.global_size is None:
        return source.entry
    local = "the driver's choice" if source.local_size is None else _sizes(source.local_size)
    items = f"{_sizes(source.global_size)} work-items in groups of {local}"
    return f"launch {number + 1} of {count}: {source.entry}, {items}"


def _sizes(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers)) or "()"


def _print_text(console: Console, text: str, python: bool) -> None:
    if console.is_terminal:
        coloured = Syntax("", "python" if python else "c", theme="ansi_dark").highlight(text)
        coloured.rstrip()
        console.print(coloured, soft_wrap=True)
    else:
        print(text)
