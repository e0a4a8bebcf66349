"""Prepared ops: from its third call with alike arguments on, an op is the commands that it was.

What an op makes of its arguments (operands bound, an implementation chosen, kernels planned) is
the same for the same shapes, strides, dtypes and settings. So what it asks of the device is taken
down once, and then enqueued with the memory of other tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, final

import torch
from netcl_plugin_capture.recording import recording

from netcl_core import config
from netcl_core.errors import NetclError, ReplayError
from netcl_core.inspect.captures import captures
from netcl_core.inspect.streams import own_stream, stream_of
from netcl_plugin_torch.line import Line, Unprepared
from netcl_plugin_torch.records import RecordAgain
from netcl_plugin_torch.tensor import NetclTensor

#: So many keys of an op are kept at a time.
_MOST: Final = 512
#: What a key has that was met once, and one whose op is no line.
_MET: Final = ""
_NONE: Final = ()


def is_preparable(func: Any) -> bool:
    """Whether an op gives tensors of its own by its arguments, and does nothing else."""
    schema = func._schema
    return (
        func.namespace == "aten"
        and not schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in func.tags
        and all(str(x.type) in _TENSORS and x.alias_info is None for x in schema.returns)
        and bool(schema.returns)
        and any("Tensor" in str(x.type) for x in schema.arguments)
    )


_TENSORS: Final = ("Tensor", "List[Tensor]")


@final
class Prepared:
    """An op's kernel, which is asked what to do as long as that is not known.

    Args:
        kernel: Takes and gives PyTorch's tensors, and changes none.
        depends: Gives what the op depends on beside its arguments.
    """

    __slots__ = ("_depends", "_lines", "kernel")

    def __init__(
        self, kernel: Callable[..., Any], depends: Callable[..., Any] | None = None
    ) -> None:
        self.kernel, self._depends = kernel, depends
        self._lines: dict[Any, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        operands: list[Any] = []
        parts: list[Any] = [*kwargs]
        for x in (*args, *kwargs.values()) if kwargs else args:  # every op passes here
            kind = type(x)
            if kind is NetclTensor:
                own = x.__dict__
                if "record" not in own:
                    raw = own["raw"]
                    parts += (raw.shape, raw.dtype, raw.geometry)
                    operands.append(raw)
                    continue
            elif kind is not list and kind is not tuple and kind is not float:
                if isinstance(x, torch.Tensor):
                    return self.kernel(*args, **kwargs)
                parts += (kind, x)
                continue
            if not _add(x, parts, operands):
                return self.kernel(*args, **kwargs)
        if not operands or captures:
            return self.kernel(*args, **kwargs)
        if self._depends is not None:
            parts.append(self._depends(*args, **kwargs))
        memory = [x.memory for x in operands]
        if len(memory) > 1:
            numbers = [*map(id, memory)]
            if len({*numbers}) < len(numbers):
                parts.append(tuple(map(numbers.index, numbers)))
        key = tuple(parts)
        try:
            line = self._lines.get(key)
        except TypeError:  # of what has no hash
            return self.kernel(*args, **kwargs)
        if line.__class__ is Line:
            if line.serves(operands):
                try:
                    return line.run(operands, memory)
                except NetclError:  # of which the op's code makes one of PyTorch's
                    return self.kernel(*args, **kwargs)
            line = self._lines[key] = _MET
        if line is _NONE:
            return self.kernel(*args, **kwargs)
        if line is None:
            if len(self._lines) >= _MOST:
                self._lines.clear()
            self._lines[key] = _MET
            return self.kernel(*args, **kwargs)
        return self._taken(key, operands, memory, args, kwargs)

    def _taken(
        self, key: Any, operands: Sequence[Any], memory: Sequence[Any], args: Any, kwargs: Any
    ) -> Any:
        """Do the op, and take down what it asks of the device."""
        self._lines[key] = _NONE  # where that cannot be
        device = operands[0].device
        if (
            not device.has_kernels or stream_of(device) is not own_stream(device)
            or config.get("tuning") != "off" or any(x is None for x in memory)
        ):  # fmt: skip
            return self.kernel(*args, **kwargs)
        try:
            with recording(device, "netcl_torch") as taken:
                results = self.kernel(*args, **kwargs)
        except ReplayError:
            return self.kernel(*args, **kwargs)
        with suppress(Unprepared):
            self._lines[key] = Line(taken, operands, memory, results)
        return results


def _add(x: Any, parts: list[Any], operands: list[Any]) -> bool:
    """Add to a key what an op depends on of an argument; False: that is not known."""
    kind = type(x)
    if kind is float:
        parts += (kind, x or str(x))  # 0.0 is not -0.0
        return True
    if kind is NetclTensor:  # one with a record
        record = x.__dict__["record"]
        if type(record) is not RecordAgain or record.walked:
            return False
        form = record.form
        if len(parts) < 2 or parts[-2] is not form:  # as of the statistic before this one
            operands += record.tensors()
        parts += (form, x.place)
        return True
    parts += (kind, len(x))
    for item in x:
        kind = type(item)
        if kind is NetclTensor and "record" not in item.__dict__:
            raw = item.raw
            parts += (raw.shape, raw.dtype, raw.geometry)
            operands.append(raw)
        elif kind is int or kind is bool or item is None:
            parts.append(item)
        else:
            return False
    return True
