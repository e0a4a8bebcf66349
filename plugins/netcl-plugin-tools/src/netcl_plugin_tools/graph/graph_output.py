"""`netcl graph`: what a function becomes or records, as text, JSON or a drawing."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from netcl_market.tables import print_text, waiting
from netcl_plugin_kit.writing import write_text

from netcl_core import Tensor, dtype_name
from netcl_core.autograd import Tape, jit_compile
from netcl_core.cli import print_json, print_table
from netcl_core.errors import FusionError, NetclError, message
from netcl_core.inspect.programs import Jitted, traced
from netcl_core.inspect.recorded import Target, target_of
from netcl_plugin_tools.graph import names
from netcl_plugin_tools.graph.dot import to_dot, to_svg
from netcl_plugin_tools.graph.graph import DrawnGraph, GraphNames, graph_of
from netcl_plugin_tools.graph.recorded import recorded_graph
from netcl_plugin_tools.graph.repeated import repeated
from netcl_plugin_tools.graph.tape_graph import TapeGraph, lines, tape_graph
from netcl_plugin_tools.graph.target import called, take_gradients, told
from netcl_plugin_tools.graph.times import StepTime, step_times


def show(
    target: str,
    *,
    shapes: str | None,
    dtype: str,
    device: str | None,
    recorded: bool,
    times: bool,
    svg: str | None,
    as_dot: bool,
    as_json: bool,
) -> None:
    """Print or draw the graph of a function: its kernels, or with `recorded` its tape.

    With `times` print what each kernel takes.

    Raises:
        ArgumentError, ShapeError, DtypeError: FILE:FUNC or the shapes are wrong.
        FusionError: the function raises, or cannot be traced.
    """
    dtype = dtype_name(dtype, "--dtype")
    with called("graph", target, shapes, dtype, device) as (function, name, given), _raising(name):
        if recorded or times:
            take_gradients(given, shapes is not None)
        if times:
            with waiting("timing each kernel ..."):
                measured = step_times(jit_compile(function), *given.args, **given.kwargs)
        else:
            text, graph = (_recorded if recorded else _traced)(function, name, given)
    if times:
        _print_times(measured, as_json)
        return
    drawn = repeated(graph) if isinstance(graph, TapeGraph) else graph
    if svg is not None:
        write_text("graph", Path(svg), lambda: to_svg(drawn), "--svg")
    if as_json:
        print_json(_data(graph))
    elif as_dot:
        print(to_dot(drawn), end="")
    elif svg is not None:
        print(f"{svg}: {' '.join(graph.summary)}")
    else:
        print_text(text)


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
) -> tuple[str, DrawnGraph]:
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
    known_as: dict[Target, str] = {}
    for path, value in _tensors(known):
        known_as.setdefault(value, path)
    results = [(path or "result", value) for path, value in _tensors(names.leaves_of("", returned))]
    graph = tape_graph(name, recorded_graph(tape.nodes), known_as, results)
    return "\n".join(lines(graph)), graph


def _codes_above() -> set[CodeType]:
    """The code that this one was called from: no line of it is the function's."""
    frame: FrameType | None = inspect.currentframe()
    codes = set()
    while frame is not None:
        codes.add(frame.f_code)
        frame = frame.f_back
    return codes


def _tensors(leaves: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Target]]:
    for path, value in leaves:
        if isinstance(value, Tensor):
            yield path, target_of(value)


def _print_times(times: Sequence[StepTime], as_json: bool) -> None:
    """A row per kernel, the slowest first, and the sum."""
    if as_json:
        print_json([asdict(each) for each in times])
        return
    total = sum(each.seconds for each in times)
    rows = [
        [f"{each.seconds / total:.0%}", *map(_micros, _seconds(each)), each.ops, each.place]
        for each in sorted(times, key=lambda each: -each.seconds)
    ]
    sums = [_micros(sum(column)) for column in zip(*map(_seconds, times), strict=True)]
    header = ["part", "forward", "gradients", "op by op", "kernel", "from"]
    print_table(header, [*rows, ["", *sums, "all", ""]], cut=["kernel", "from"])


def _seconds(each: StepTime) -> tuple[float, float, float]:
    return each.forward, each.gradients, each.apart


def _micros(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us"


def _data(graph: DrawnGraph | TapeGraph) -> dict[str, Any]:
    """The boxes are called nodes, as everywhere where graphs are JSON."""
    data = asdict(graph)
    data["nodes"], data["edges"] = data.pop("boxes"), data.pop("edges")
    return data
