"""Grad mode, per process and thread: what is recorded; and what watches backward passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from netcl_core.tape.held import held
from netcl_core.tape.state import Entries, process, thread


def is_grad_enabled() -> bool:
    """Whether ops are recorded in this thread.

    >>> with ag.no_grad():
    ...     ag.is_grad_enabled()
    False
    """
    override = thread.grad
    return process.grad if override is None else override


class set_grad_enabled:  # noqa: N801 - a function to its users, and a context manager
    """Set the grad mode of the whole process at once; used with `with`, restore it at the end.

    >>> with ag.set_grad_enabled(False):
    ...     ag.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self._mode = bool(mode)
        self._called: list[bool] = [process.grad]  # before the call, which the first block ends
        self._outer: list[bool] = []
        process.grad = self._mode

    def __enter__(self) -> None:
        self._outer.append(self._called.pop() if self._called else process.grad)
        process.grad = self._mode

    def __exit__(self, *exc: object) -> None:
        process.grad = self._outer.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator it holds inside the function alone, as `no_grad` or `enable_grad`."""
        if self._called:
            process.grad = self._called.pop()
        mode: Callable[..., Any] = enable_grad if self._mode else no_grad
        held_function: Callable[..., Any] = mode(function)
        return held_function


class _GradOverride:
    """A context manager and decorator (bare or called) that sets this thread's grad mode.

    As a decorator it holds while the function's own code runs, also that of a generator or
    coroutine, and not while that is suspended.
    """

    mode: bool
    _outer: Entries

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        if function is not None:
            return cls()(function)
        mode = super().__new__(cls)
        mode._outer = Entries()
        return mode

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return held(type(self), type(self).__name__, function)

    def __enter__(self) -> None:
        self._outer.push(thread.grad)
        thread.grad = self.mode

    def __exit__(self, *exc: object) -> None:
        thread.grad = self._outer.restored(thread.grad)


@final
class no_grad(_GradOverride):  # noqa: N801 - the name that users know
    """No recording in this thread: `with no_grad():`, `@no_grad` or `@no_grad()`.

    >>> x = ag.tensor([1.0], requires_grad=True)
    >>> with ag.no_grad():
    ...     (x * 2).requires_grad
    False

    Args:
        function: A function, if used as a decorator.
    """

    mode = False


@final
class enable_grad(_GradOverride):  # noqa: N801 - the name that users know
    """Recording in this thread, also inside `no_grad`.

    >>> with ag.no_grad(), ag.enable_grad():
    ...     ag.is_grad_enabled()
    True

    Args:
        function: A function, if used as a decorator.
    """

    mode = True


def anomaly_mode() -> Any:
    """What watches the backward passes of this thread; false: nothing does."""
    return process.anomaly if thread.anomaly is None else thread.anomaly
