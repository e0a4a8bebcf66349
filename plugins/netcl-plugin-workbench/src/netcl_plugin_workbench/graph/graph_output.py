"""`netcl graph`: the kernels that a compiled function becomes, as text, JSON or a drawing."""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from netcl_core.device.device_table import use_device
from netcl_core.dtypes import dtype_name
from netcl_core.errors import ArgumentError, FusionError, NetclError, message
from netcl_core.jit.jit import Jitted, jit_compile, traced
from netcl_plugin_workbench.graph import names
from netcl_plugin_workbench.graph.graph import Graph, GraphNames, graph_of
from netcl_plugin_workbench.graph.svg import to_svg
from netcl_plugin_workbench.graph.target import function_of, inputs_of, load, path_of, told


def show(
    target: str,
    *,
    shapes: str | None,
    dtype: str,
    device: str | None,
    svg: str | None,
    as_json: bool,
) -> None:
    """Print or draw the graph of a function.

    Raises:
        ArgumentError, ShapeError, DtypeError: FILE:FUNC or the shapes are wrong.
        FusionError: the function cannot be traced.
    """
    dtype = dtype_name(dtype, "--dtype")
    scope = contextlib.nullcontext() if device is None else use_device(device)
    with scope, contextlib.redirect_stdout(sys.stderr), path_of(target) as (path, name):
        module = load(path)
        function = function_of(module, path, name)
        given = inputs_of(module, function, name, shapes, dtype)
        text, graph = _traced(function, name, given)
    if svg is not None:
        _write(Path(svg), to_svg(graph))
    if as_json:
        print(json.dumps(_data(graph), indent=2, ensure_ascii=False))
    elif svg is not None:
        print(f"{svg}: {' '.join(graph.summary)}")
    else:
        print(text)


def _traced(
    function: Callable[..., Any], name: str, given: inspect.BoundArguments
) -> tuple[str, Graph]:
    """The text of `.explain()`, and the graph."""
    jitted: Jitted = jit_compile(function)
    args, kwargs = given.args, dict(sorted(given.kwargs.items()))
    try:
        program, structure = traced(jitted, args, kwargs)
        text = jitted.explain(*args, **kwargs)
    except FusionError as error:
        lines = (line.strip() for line in str(error).splitlines())
        raise FusionError(": ".join(lines)) from None
    except NetclError:  # an op says what is wrong with the inputs, or with the device
        raise
    except Exception as error:
        raise FusionError(message(name, f"it raised {told(error)}")) from error
    tensors, numbers = names.of_arguments(given)
    constants = names.of_constants(inspect.unwrap(function))
    results = names.of_results(structure)
    return text, graph_of(name, program, GraphNames(tensors, numbers, results, constants))


def _data(graph: Graph) -> dict[str, Any]:
    """The boxes are called nodes, as everywhere where graphs are JSON."""
    data = asdict(graph)
    data["nodes"], data["edges"] = data.pop("boxes"), data.pop("edges")
    return data


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(message("graph", f"--svg {path}: {error.strerror}")) from error
