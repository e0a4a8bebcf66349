"""`netcl graph`: the kernels that a compiled function becomes, as text, JSON or a drawing."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import inspect
import json
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from netcl_core.cli.shapes import specs
from netcl_core.device.device_table import use_device
from netcl_core.dtypes import dtype_name
from netcl_core.errors import ArgumentError, FusionError, NetclError, message
from netcl_core.jit.jit import Jitted, jit_compile, traced
from netcl_core.tensors.tensor import Tensor
from netcl_plugin_workbench.graph import names
from netcl_plugin_workbench.graph.graph import Graph, GraphNames, graph_of
from netcl_plugin_workbench.graph.svg import summary, to_svg

#: The function, of a file or of another function, that gives the inputs of an example.
EXAMPLE = "example_inputs"


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
    with scope, contextlib.redirect_stdout(sys.stderr), _path_of(target) as (path, name):
        module = _load(path)
        function = _function(module, path, name)
        given = _inputs(module, function, name, shapes, dtype)
        text, graph = _traced(function, name, given)
    if svg is not None:
        _write(Path(svg), to_svg(graph))
    if as_json:
        print(json.dumps(_data(graph), indent=2, ensure_ascii=False))
    elif svg is not None:
        print(f"{svg}: {' '.join(summary(graph))}")
    else:
        print(text)


# -- the function ------------------------------------------------------------------------


@contextlib.contextmanager
def _path_of(target: str) -> Iterator[tuple[Path, str]]:
    """FILE:FUNC in parts; meanwhile the file's folder is where its imports are found."""
    file, colon, name = target.rpartition(":")
    path = Path(file)
    if not (colon and file and name):
        raise ArgumentError(message("graph", repr(target), "FILE:FUNC, as in model.py:forward"))
    if not path.is_file():
        raise ArgumentError(message("graph", f"there is no file {file!r}", "a Python file"))
    before = list(sys.path)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield path, name
    finally:
        sys.path[:] = before


def _load(path: Path) -> ModuleType:
    """The file as a module, under a name that no other module has."""
    name = f"_graph_of_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ArgumentError(message("graph", str(path), "a Python file"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ArgumentError(message("graph", f"importing {path} raised {_told(error)}")) from error
    return module


def _function(module: ModuleType, path: Path, name: str) -> Callable[..., Any]:
    try:
        found = operator.attrgetter(name)(module)
    except AttributeError:
        near = difflib.get_close_matches(name, vars(module), 1)
        remedy = f"Did you mean {near[0]}" if near else ""
        expected = "a function of the file"
        given = f"{path} has no {name!r}"
        raise ArgumentError(message("graph", given, expected, remedy)) from None
    if not callable(found) or inspect.isclass(found):
        given = f"{name} is of type {type(found).__name__}"
        raise ArgumentError(message("graph", given, "a function"))
    return found  # type: ignore[no-any-return]


# -- its inputs --------------------------------------------------------------------------


def _inputs(
    module: ModuleType, function: Callable[..., Any], name: str, shapes: str | None, dtype: str
) -> inspect.BoundArguments:
    """The arguments of the call to trace: zeros of some shapes, or the file's own example."""
    args: Any = ()
    kwargs: Mapping[str, Any] = {}
    signature = inspect.signature(function)
    if shapes is not None:
        args = [Tensor.zeros(one.shape, one.dtype) for one in specs("graph", shapes, dtype)]
    else:
        example = getattr(function, EXAMPLE, None) or getattr(module, EXAMPLE, None)
        if callable(example):
            args, kwargs = _example(example)
        elif _wanted(signature):
            wanted = "--shapes, or a function example_inputs() in the file"
            raise ArgumentError(message("graph", f"{name} has no inputs", wanted))
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        given = f"{len(args) + len(kwargs)} inputs for {name}{signature}: {error}"
        raise ArgumentError(message("graph", given)) from None


def _wanted(signature: inspect.Signature) -> bool:
    """Whether a function needs arguments."""
    try:
        signature.bind()
    except TypeError:
        return True
    return False


def _example(example: Callable[[], Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """What `example_inputs()` gives: a list or tuple by position, a dict by name."""
    try:
        found = example()
    except Exception as error:
        raise ArgumentError(message("graph", f"{EXAMPLE}() raised {_told(error)}")) from error
    if isinstance(found, Mapping):
        return (), found
    if isinstance(found, (list, tuple)):
        return tuple(found), {}
    given = f"{EXAMPLE}() returned {type(found).__name__}"
    raise ArgumentError(message("graph", given, "a list or tuple of inputs, or a dict by name"))


# -- its graph ---------------------------------------------------------------------------


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
        raise FusionError(message(name, f"it raised {_told(error)}")) from error
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


def _told(error: BaseException) -> str:
    """An error's class and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
