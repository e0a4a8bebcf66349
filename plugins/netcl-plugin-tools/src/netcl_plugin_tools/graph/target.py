"""FILE:FUNC, the target of a command: the file as a module, its function, and its inputs.

`who` is the command, for errors.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from netcl_plugin_kit.shapes import specs

from netcl_core import DTYPES, Tensor, use_device
from netcl_core.errors import ArgumentError, message

#: The function, of a file or of another function, that gives the inputs of an example.
EXAMPLE = "example_inputs"


@contextlib.contextmanager
def called(
    who: str, target: str, shapes: str | None, dtype: str, device: str | None = None
) -> Iterator[tuple[Callable[..., Any], str, inspect.BoundArguments]]:
    """The function of FILE:FUNC, its name and its inputs; what it prints goes to stderr."""
    scope = contextlib.nullcontext() if device is None else use_device(device)
    with scope, contextlib.redirect_stdout(sys.stderr), _path_of(who, target) as (path, name):
        module = _load(who, path)
        function = _function_of(who, module, path, name)
        yield function, name, _inputs_of(who, module, function, name, shapes, dtype)


# -- the function ------------------------------------------------------------------------


@contextlib.contextmanager
def _path_of(who: str, target: str) -> Iterator[tuple[Path, str]]:
    """FILE:FUNC in parts; meanwhile the file's folder is where its imports are found."""
    file, colon, name = target.rpartition(":")
    path = Path(file)
    if not (colon and file and name):
        raise ArgumentError(message(who, repr(target), "FILE:FUNC, as in model.py:forward"))
    if not path.is_file():
        raise ArgumentError(message(who, f"there is no file {file!r}", "a Python file"))
    before = list(sys.path)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield path, name
    finally:
        sys.path[:] = before


def _load(who: str, path: Path) -> ModuleType:
    """The file as a module, under a name that no other module has."""
    name = f"_{who}_of_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ArgumentError(message(who, str(path), "a Python file"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ArgumentError(message(who, f"importing {path} raised {told(error)}")) from error
    return module


def _function_of(who: str, module: ModuleType, path: Path, name: str) -> Callable[..., Any]:
    """What the file has under that name, a dotted one too."""
    try:
        function = operator.attrgetter(name)(module)
    except AttributeError:
        near = difflib.get_close_matches(name, vars(module), 1)
        remedy = f"Did you mean {near[0]}" if near else ""
        expected = "a function of the file"
        given = f"{path} has no {name!r}"
        raise ArgumentError(message(who, given, expected, remedy)) from None
    if not callable(function) or inspect.isclass(function):
        given = f"{name} is of type {type(function).__name__}"
        raise ArgumentError(message(who, given, "a function"))
    return function  # type: ignore[no-any-return]


# -- its inputs --------------------------------------------------------------------------


def _inputs_of(
    who: str,
    module: ModuleType,
    function: Callable[..., Any],
    name: str,
    shapes: str | None,
    dtype: str,
) -> inspect.BoundArguments:
    """The arguments of the call: zeros of some shapes, or the file's own example."""
    args: Any = ()
    kwargs: Mapping[str, Any] = {}
    signature = inspect.signature(function)
    if shapes is not None:
        args = [Tensor.zeros(one.shape, one.dtype) for one in specs(who, shapes, dtype)]
    else:
        example = getattr(function, EXAMPLE, None) or getattr(module, EXAMPLE, None)
        if callable(example):
            args, kwargs = _example(who, example)
        elif _wanted(signature):
            wanted = "--shapes, or a function example_inputs() in the file"
            raise ArgumentError(message(who, f"{name} has no inputs", wanted))
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        given = f"{len(args) + len(kwargs)} inputs for {name}{signature}: {error}"
        raise ArgumentError(message(who, given)) from None


def take_gradients(given: inspect.BoundArguments, tensors: bool) -> None:
    """Make leaves of a call's floating arrays that take a gradient; also of its tensors.

    Arrays are made tensors as a compiled function would.
    """
    for name, value in given.arguments.items():
        given.arguments[name] = _with_gradients(value, tensors)


def _with_gradients(value: Any, tensors: bool) -> Any:
    if isinstance(value, np.ndarray):
        return _with_gradients(Tensor.from_host(value), True)
    if isinstance(value, Tensor):
        floating = tensors and DTYPES[value.dtype].floating
        return value.requires_grad_() if floating else value
    if type(value) in (list, tuple):
        return type(value)(_with_gradients(item, tensors) for item in value)
    if type(value) is dict:
        return {key: _with_gradients(item, tensors) for key, item in value.items()}
    return value


def _wanted(signature: inspect.Signature) -> bool:
    """Whether a function needs arguments."""
    try:
        signature.bind()
    except TypeError:
        return True
    return False


def _example(who: str, example: Callable[[], Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """What `example_inputs()` gives: a list or tuple by position, a dict by name."""
    try:
        value = example()
    except Exception as error:
        raise ArgumentError(message(who, f"{EXAMPLE}() raised {told(error)}")) from error
    if isinstance(value, Mapping):
        return (), value
    if isinstance(value, (list, tuple)):
        return tuple(value), {}
    given = f"{EXAMPLE}() returned {type(value).__name__}"
    raise ArgumentError(message(who, given, "a list or tuple of inputs, or a dict by name"))


def told(error: BaseException) -> str:
    """An error's class and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
