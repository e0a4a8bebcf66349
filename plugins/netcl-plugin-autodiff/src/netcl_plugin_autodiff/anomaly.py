"""Anomaly mode: a look for NaN and infinity among values and gradients, and at their numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, final

import numpy as np

import netcl_core as nc
from netcl_core import DTYPES, Tensor
from netcl_core.errors import AnomalyError, message
from netcl_core.inspect.recorded import Entries, MetaTensor, anomaly, process, thread, trace_of


@contextmanager
def watched(nodes: Iterable[Any]) -> Iterator[None]:
    """Around the backward pass through some nodes: where NaN or infinity came from, if any did.

    An AnomalyError of the pass gets a note of it; if there is none, this raises one.
    """
    try:
        yield
    except AnomalyError as error:
        if origin := _first_unfinite(nodes):
            error.add_note(origin)
        raise
    if origin := _first_unfinite(nodes):
        raise AnomalyError(origin)


def _first_unfinite(nodes: Iterable[Any]) -> str:
    """What the first call is that made NaN or infinity of finite inputs; empty: none did."""
    for node in sorted(nodes, key=attrgetter("number")):
        numbers = (*node.scalars, *getattr(node.call, "attrs", {}).values())
        if all(map(_is_finite, (*node.inputs, *numbers))):
            bad = sum(_unfinite(result) for result in node.results())
            if bad:
                given = f"{bad} NaN or infinite values of finite inputs"
                text = message(f"forward of {node.op_name}", given, "", f"Made at {node.made_at}")
                return text + trace_of(node)
    return ""


def _is_finite(value: Any) -> bool:
    """Whether a value is known to be: not where the graph has let go of it."""
    if isinstance(value, Tensor) and isinstance(value.value, MetaTensor):
        return False
    if isinstance(value, Tensor):
        return not _unfinite(value)
    return not isinstance(value, float) or math.isfinite(value)


def _unfinite(x: Tensor) -> int:
    if not DTYPES[x.dtype].floating:
        return 0
    return int((~np.isfinite(x.value.to_host())).sum())


def check_finite(node: Any, gradients: Sequence[Tensor | None]) -> None:
    """Raise AnomalyError if one of a node's gradients is NaN or infinite."""
    for index, gradient in enumerate(gradients):
        if gradient is None:
            continue
        bad = ~np.isfinite(gradient.to_host())
        if bad.any():
            given = f"{int(bad.sum())} NaN or infinite gradient values for input {index}"
            raise anomaly(node, given, "finite gradients")


@final
class _Watch:
    """What the reverse pass asks while the mode is on, see `netcl_core.inspect.recorded.thread`."""

    def __init__(self, numerics: Callable[..., None] | None) -> None:
        self.numerics = numerics

    def __repr__(self) -> str:
        return "<detect_anomaly>" if self.numerics is None else repr(self.numerics)

    around = staticmethod(watched)

    def check(self, node: Any, grads: Sequence[Any], gradients: Sequence[Tensor | None]) -> None:
        """Raise AnomalyError if a gradient of a node's inputs cannot be right."""
        check_finite(node, gradients)
        if self.numerics is not None:
            self.numerics(node, grads, gradients)


def _mode(who: str, enable: bool, check_numerics: bool) -> _Watch | bool:
    """What watches; False: nothing."""
    if not (enable and check_numerics):
        return enable and _Watch(None)
    return _Watch(nc.plugins.namespace("numerics", f"{who}(check_numerics=True)").Sample())


def set_detect_anomaly(enable: bool, check_numerics: bool = False) -> None:
    """Switch anomaly detection of the whole process on or off; see `detect_anomaly`.

    >>> ag.set_detect_anomaly(True)
    >>> ag.set_detect_anomaly(False)

    Args:
        enable: Whether it is on.
        check_numerics: Whether gradients are compared with finite differences too.
    """
    process.anomaly = _mode("set_detect_anomaly", enable, check_numerics)


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
        self._mode = _mode("detect_anomaly", enable is not False, check_numerics)
        self._outer = Entries()
        self._called: list[Any] = []
        if enable is not None:  # it holds at once, until the first block ends
            self._called.append(thread.anomaly)
            thread.anomaly = self._mode if enable else None

    def __repr__(self) -> str:
        return repr(self._mode or _Watch(None))

    def __enter__(self) -> detect_anomaly:
        self._outer.push(self._called.pop() if self._called else thread.anomaly)
        thread.anomaly = self._mode
        return self

    def __exit__(self, *exc: object) -> None:
        thread.anomaly = self._outer.restored(thread.anomaly)
