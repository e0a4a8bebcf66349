"""Generators and coroutines within a scope, which holds while they run and not in between."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

#: Makes the context manager for one stretch of a function's code.
Scope: TypeAlias = Callable[[], AbstractContextManager[Any]]


def held_while_running(scope: Scope, function: Callable[..., Any]) -> Callable[..., Any]:
    """A generator function, a coroutine function or both as one whose code runs within a scope.

    The scope is left while that is suspended.
    """
    if inspect.isgeneratorfunction(function):
        return _generator(scope, function)
    form = _coroutine if inspect.iscoroutinefunction(function) else _async_generator
    return form(scope, function)


def _generator(scope: Scope, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return (yield from _driven(scope, function(*args, **kwargs)))

    return call


def _coroutine(scope: Scope, function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await _driven(scope, function(*args, **kwargs))

    return call


def _async_generator(scope: Scope, function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        run = function(*args, **kwargs)
        step = run.asend(None)
        while True:
            try:
                value = await _driven(scope, step)
            except StopAsyncIteration:
                return
            try:
                sent = yield value
            except GeneratorExit:
                await _driven(scope, run.aclose())
                raise
            except BaseException as error:  # whatever was thrown in is the function's own affair
                step = run.athrow(error)
            else:
                step = run.asend(sent)

    return call


@types.coroutine
def _driven(scope: Scope, run: Any) -> Generator[Any, Any, Any]:
    """Run a generator or an awaitable, each stretch up to its next yield within the scope."""
    advance: Callable[[], Any] = functools.partial(run.send, None)
    while True:
        try:
            with scope():
                value = advance()
        except StopIteration as end:
            return end.value
        try:
            sent = yield value
        except GeneratorExit:
            with scope():
                run.close()
            raise
        except BaseException as error:  # whatever was thrown in is the function's own affair
            advance = functools.partial(run.throw, error)
        else:
            advance = functools.partial(run.send, sent)
