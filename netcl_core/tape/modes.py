"""Grad mode and anomaly mode: what is recorded and what is checked, per process and thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

from netcl_core import plugins
from netcl_core.tape.held import held
from netcl_core.tape.state import Entries, process, thread

#: The namespace whose `Sample()` checks some nodes: `(node, upstream, gradients)`.
NUMERICS: Final = "numerics"


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


#: Whether gradients are checked for NaN and infinity; who holds them against finite differences.
AnomalyMode: TypeAlias = tuple[bool, Callable[..., None] | None]


def anomaly_mode() -> AnomalyMode:
    """What is checked in this thread."""
    return thread.anomaly or process.anomaly


def _anomaly_mode(who: str, enable: bool, check_numerics: bool) -> AnomalyMode:
    if not (enable and check_numerics):
        return bool(enable), None
    return True, plugins.namespace(NUMERICS, f"{who}(check_numerics=True)").Sample()


def set_detect_anomaly(enable: bool, check_numerics: bool = False) -> None:
    """Switch anomaly detection of the whole process on or off; see `detect_anomaly`.

    >>> ag.set_detect_anomaly(True)
    >>> ag.set_detect_anomaly(False)

    Args:
        enable: Whether it is on.
        check_numerics: Whether gradients are compared with finite differences too.
    """
    process.anomaly = _anomaly_mode("set_detect_anomaly", enable, check_numerics)


@final
class detect_anomaly:  # noqa: N801 - the name that users know
    """Check every gradient of this thread's backward passes.

    >>> x = ag.tensor([0.0], requires_grad=True)
    >>> with ag.detect_anomaly():
    ...     ag.sqrt(x).backward()
    Traceback (most recent call last):
    netcl_core.errors.AnomalyError: backward of sqrt: ...

    A NaN or infinite gradient raises AnomalyError, which names the op and shows
    the user's line that called it. With `check_numerics=True` the gradients of each op are also
    held against finite differences of its forward in float64 on the host, by the plugin that
    has the namespace `numerics`; docs/errors.md says what that sees and costs. What a block gives,
    `with ag.detect_anomaly(check_numerics=True) as check:`, prints how many it compared. A plain
    call, `ag.detect_anomaly(True)`, holds for this thread until `ag.detect_anomaly(False)`.

    Raises MissingNamespaceError for `check_numerics` where no plugin has it.

    Args:
        enable: Whether it is on.
    """

    def __init__(self, enable: bool | None = None, check_numerics: bool = False) -> None:
        self._mode = _anomaly_mode("detect_anomaly", enable is not False, check_numerics)
        self._outer = Entries()
        self._called: list[Any] = []
        if enable is not None:  # it holds at once, until the first block ends
            self._called.append(thread.anomaly)
            thread.anomaly = self._mode if enable else None

    def __repr__(self) -> str:
        sample = self._mode[1]
        return "<detect_anomaly>" if sample is None else repr(sample)

    def __enter__(self) -> detect_anomaly:
        self._outer.push(self._called.pop() if self._called else thread.anomaly)
        thread.anomaly = self._mode
        return self

    def __exit__(self, *exc: object) -> None:
        thread.anomaly = self._outer.restored(thread.anomaly)
