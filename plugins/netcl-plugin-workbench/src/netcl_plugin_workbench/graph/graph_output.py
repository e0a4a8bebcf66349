"""`netcl graph`: what a function becomes or records, as text, JSON or a drawing."""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from netcl_core.device.device_table import use_device
from netcl_core.dtypes import dtype_name
from netcl_core.errors import ArgumentError, FusionError, NetclError, message
from netcl_core.jit.jit import Jitted, jit_compile, traced
from netcl_core.tape.node import Target, target_of
from netcl_core.tape.recorded import recorded_graph
from netcl_core.tape.tape import Tape
from netcl_core.tensors.tensor import Operand
from netcl_plugin_workbench.graph import names
from netcl_plugin_workbench.graph.graph import Graph, GraphNames, graph_of
from netcl_plugin_workbench.graph.repeated import repeated
from netcl_plugin_workbench.graph.svg import to_svg
from netcl_plugin_workbench.graph.tape_graph import TapeGraph, lines, tape_graph
from netcl_plugin_workbench.graph.target import (
    function_of,
    inputs_of,
    load,
    path_of,
    take_gradients,
    told,
)


def show(
    target: str,
    *,
    shapes: str | None,
    dtype: str,
    device: str | None,
    recorded: bool,
    svg: str | None,
    as_json: bool,
) -> None:
    """Print or draw the graph of a function: its kernels, or with `recorded` its tape.

    Raises:
        ArgumentError, ShapeError, DtypeError: FILE:FUNC or the shapes are wrong.
        FusionError: the function raises, or cannot be traced.
    """
    dtype = dtype_name(dtype, "--dtype")
    scope = contextlib.nullcontext() if device is None else use_device(device)
    with scope, contextlib.redirect_stdout(sys.stderr), path_of(target) as (path, name):
        module = load(path)
        function = function_of(module, path, name)
        given = inputs_of(module, function, name, shapes, dtype)
        if recorded:
            take_gradients(given, shapes is not None)
        with _raising(name):
            shown = _recorded if recorded else _traced
            text, graph = shown(function, name, given)
    if svg is not None:
        drawn = repeated(graph) if isinstance(graph, TapeGraph) else graph
        _write(Path(svg), to_svg(drawn))
    if as_json:
        print(json.dumps(_data(graph), indent=2, ensure_ascii=False))
    elif svg is not None:
        print(f"{svg}: {' '.join(graph.summary)}")
    else:
        print(text)


@contextlib.contextmanager
def _raising(name: str) -> Iterator[None]:
    """Tell what the function raises; what an op says of its inputs or its device stays as it is."""
    try:
        yield
    except FusionError as error:
        lines = (line.strip() for line in str(error).splitlines())
        raise FusionError(": ".join(lines)) from None
    except NetclError:
        raise
    except Exception as error:
        raise FusionError(message(name, f"it raised {told(error)}")) from error


def _traced(
    function: Callable[..., Any], name: str, given: inspect.BoundArguments
) -> tuple[str, Graph]:
    """The text of `.explain()`, and the graph."""
    jitted: Jitted = jit_compile(function)
    args, kwargs = given.args, dict(sorted(given.kwargs.items()))
    program, structure = traced(jitted, args, kwargs)
    text = jitted.explain(*args, **kwargs)
    tensors, numbers = names.of_arguments(given)
    constants = names.of_constants(inspect.unwrap(function))
    results = names.of_results(structure)
    return text, graph_of(name, program, GraphNames(tensors, numbers, results, constants))


def _recorded(
    function: Callable[..., Any], name: str, given: inspect.BoundArguments
) -> tuple[str, TapeGraph]:
    """The ops line by line, and the graph."""
    above = _codes_above()
    with Tape() as tape:
        returned = function(*given.args, **given.kwargs)
    for node in tape.nodes:
        if node.frame is not None and node.frame[0] in above:
            node.frame = None
    known = [*names.leaves_of_arguments(given), *names.constants_of(inspect.unwrap(function))]
    called: dict[Target, str] = {}
    for path, value in _tensors(known):
        called.setdefault(value, path)
    results = [(path or "result", value) for path, value in _tensors(names.leaves_of("", returned))]
    graph = tape_graph(name, recorded_graph(tape.nodes), called, results)
    return "\n".join(lines(graph)), graph


def _codes_above() -> set[CodeType]:
    """The code that this one was called from: no line of it is the function's."""
    frame: FrameType | None = inspect.currentframe()
    found = set()
    while frame is not None:
        found.add(frame.f_code)
        frame = frame.f_back
    return found


def _tensors(leaves: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Target]]:
    for path, value in leaves:
        if isinstance(value, Operand):
            yield path, target_of(value)


def _data(graph: Graph | TapeGraph) -> dict[str, Any]:
    """The boxes are called nodes, as everywhere where graphs are JSON."""
    data = asdict(graph)
    data["nodes"], data["edges"] = data.pop("boxes"), data.pop("edges")
    return data


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(message("graph", f"--svg {path}: {error.strerror}")) from error
