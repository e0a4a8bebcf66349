"""Decorators of scopes: they hold while a function's own code runs, not while it is suspended."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from netcl_core import plugins
from netcl_core.errors import ArgumentError, message

#: Makes the context manager for one stretch of a function's code.
Scope: TypeAlias = Callable[[], AbstractContextManager[Any]]


def held(scope: Scope, who: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose code runs within a scope: a plain one, a generator, a coroutine, or both.

    Raises ArgumentError for a class and for what cannot be called, MissingNamespaceError for what
    can be suspended where nothing leaves the scope meanwhile.
    """
    if inspect.isclass(function) or not callable(function):
        given = f"{function!r} to decorate"
        raise ArgumentError(message(who, given, "a function", "Decorate a class's methods"))

    def call(*args: Any, **kwargs: Any) -> Any:
        with scope():
            return function(*args, **kwargs)

    kinds = inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction
    if any(is_one(function) for is_one in kinds):
        autodiff = plugins.namespace("autodiff", f"{who} of a generator or a coroutine")
        call = autodiff.held_while_running(scope, function)
    return functools.wraps(function)(call)
