"""Names: what the values of a traced function are called in the user's code."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from netcl_core import Tensor

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def of_arguments(given: inspect.BoundArguments) -> tuple[list[str], list[str]]:
    """The names of a call's tensors and of its numbers, keyword arguments in order of name."""
    leaves = leaves_of_arguments(given)
    tensors = [path for path, x in leaves if isinstance(x, (Tensor, np.ndarray))]
    numbers = [path for path, x in leaves if type(x) in (int, float) or isinstance(x, np.generic)]
    return tensors, numbers


def leaves_of_arguments(given: inspect.BoundArguments) -> list[tuple[str, Any]]:
    """What a call is given, with its names there, keyword arguments in order of name."""
    parameters = given.signature.parameters.values()
    plain = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    rest = [
        parameter.name
        for parameter in parameters
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL
    ]
    names = plain + [f"{rest[0]}[{i}]" for i in range(len(given.args) - len(plain)) if rest]
    pairs = [*zip(names, given.args, strict=False), *sorted(given.kwargs.items())]
    return [leaf for name, value in pairs for leaf in leaves_of(name, value)]


def leaves_of(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What stands in tuples, lists and dicts, with its path."""
    if isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from leaves_of(f"{path}[{i}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves_of(f"{path}[{key!r}]", item)
    else:
        yield path, value


def of_results(structure: Any, path: str = "") -> list[str]:
    """The names of a function's results by what it returns: `result`, or a place in it."""
    kind = structure[0]
    if kind == "tensor":
        return [path or "result"]
    if kind == "sequence":
        parts = list(enumerate(structure[2]))
    elif kind == "dict":
        parts = list(structure[2].items())
    else:
        return []
    return [name for key, each in parts for name in of_results(each, f"{path}[{key!r}]")]


def of_constants(function: Callable[..., Any]) -> dict[int, str]:
    """The names of the tensors that a function reads from outside, by identity."""
    paths: dict[int, str] = {}
    for path, tensor in constants_of(function):
        paths.setdefault(id(tensor), path)
    return paths


def constants_of(function: Callable[..., Any]) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a function reads from outside, with their names there."""
    for name, value in _read(function):
        for path, leaf in leaves_of(name, value):
            if isinstance(leaf, Tensor):
                yield path, leaf
            elif callable(parameters := getattr(leaf, "named_parameters", None)):
                for own, tensor in parameters():
                    yield f"{path}.{own}".lstrip("."), tensor


def _read(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function's closure, globals and `self` hold, with the names there."""
    if isinstance(function, types.MethodType):
        yield "self", function.__self__
        function = function.__func__
    if not isinstance(function, types.FunctionType):
        yield "", function  # a module called as a function
        return
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if cell != types.CellType():
            yield name, cell.cell_contents
    for name in code.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
