"""Arguments: a call's tensors, numbers and everything else, told apart.

Tuples, lists and dicts are looked into. Tensors (host arrays become tensors) and Python
numbers are the varying part; the rest, with the structure, belongs to the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.autograd.tracing import TraceBreak
from netcl_core.tensors import Operand, Tensor

#: What stands in a key for a tensor, whose shape, dtype and device follow, and for a number.
_TENSOR: Final = "tensor"
_NUMBERS: Final = (int, float)
Structure: TypeAlias = Any


@final
class Arguments:
    """The arguments of one call: `key`, `tensors` in order, `numbers` in order, `objects`.

    `objects` are those arguments that are compared by identity although their contents
    could change.
    """

    __slots__ = ("key", "numbers", "objects", "structure", "tensors")

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.tensors: list[Any] = []
        self.numbers: list[Any] = []
        self.objects: list[Any] = []
        key: list[Any] = []
        for x in args:
            if isinstance(x, Operand):  # the usual case, without a detour
                self.tensors.append(x)
                key += (x.shape, x.dtype, x.device, x.requires_grad)
            else:
                self._add(x, key)
        for name in sorted(kwargs):
            key.append(name)
            self._add(kwargs[name], key)
        self.key = tuple(key)

    def _add(self, x: Any, key: list[Any]) -> None:
        if isinstance(x, np.generic) and x.dtype.kind in "biuf":
            x = x.item()
        kind = type(x)
        if isinstance(x, np.ndarray):
            x = Tensor.from_host(x)
        if isinstance(x, Operand):
            self.tensors.append(x)
            key += (x.shape, x.dtype, x.device, x.requires_grad)
        elif kind in _NUMBERS:
            self.numbers.append(x)
            key.append(kind)
        elif isinstance(x, (tuple, list)):
            key += (kind, len(x))
            for each in x:
                self._add(each, key)
        elif isinstance(x, dict):
            key += (kind, tuple(x))
            for each in x.values():
                self._add(each, key)
        else:
            self._static(x, key)

    def _static(self, x: Any, key: list[Any]) -> None:
        try:
            hash(x)
        except TypeError:
            raise TraceBreak(
                "jit_compile", f"an argument of type {type(x).__name__} cannot be part of a key"
            ) from None
        key += (type(x), x)
        if getattr(type(x), "__hash__", None) is object.__hash__:
            self.objects.append(x)


def replaced(value: Any, tensors: list[Any], numbers: list[Any]) -> Any:
    """Arguments with tensors and numbers, in order, replaced by those of two lists."""
    if isinstance(value, (Operand, np.ndarray)):
        return tensors.pop(0)
    if isinstance(value, np.generic) and value.dtype.kind in "iuf":
        return numbers.pop(0)
    if type(value) in _NUMBERS:
        return numbers.pop(0)
    if isinstance(value, (tuple, list)):
        parts = [replaced(each, tensors, numbers) for each in value]
        return _like(value, parts)
    if isinstance(value, dict):
        parts = [replaced(each, tensors, numbers) for each in value.values()]
        return type(value)(zip(value, parts, strict=True))
    return value


def _like(value: Any, parts: Sequence[Any]) -> Any:
    """A tuple, named tuple or list of the kind of `value`."""
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def results_of(value: Any, found: list[Any]) -> Structure:
    """The structure of what a function returned; its Operands are appended to `found`."""
    if isinstance(value, Operand):
        found.append(value)
        return _TENSOR, len(found) - 1
    if isinstance(value, (tuple, list)):
        return "sequence", value, [results_of(each, found) for each in value]
    if isinstance(value, dict):
        return "dict", type(value), {k: results_of(each, found) for k, each in value.items()}
    return "plain", value


def restored(structure: Structure, results: Sequence[Any]) -> Any:
    """What a function returns, made anew around its results."""
    kind = structure[0]
    if kind == _TENSOR:
        return results[structure[1]]
    if kind == "sequence":
        return _like(structure[1], [restored(each, results) for each in structure[2]])
    if kind == "dict":
        return structure[1]({k: restored(each, results) for k, each in structure[2].items()})
    return structure[1]
