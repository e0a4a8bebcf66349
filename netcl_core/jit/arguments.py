"""Arguments: a call's tensors, numbers and everything else, told apart.

Tuples, lists and dicts are looked into. Tensors (host arrays become tensors) and Python
numbers are the varying part; the rest, with the structure, belongs to the key.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import MethodType
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.jit.guarded_values import PLAIN
from netcl_core.ops.host_operands import is_number
from netcl_core.tape.trace_node import TraceBreak
from netcl_core.tape.traced_number import TracedNumber
from netcl_core.tensors.tensor import Tensor

#: What stands in a key for a tensor, whose shape, dtype and device follow, and for a number.
_TENSOR: Final = "tensor"
_NUMBERS: Final = (int, float)
Structure: TypeAlias = Any


@final
class Arguments:
    """The arguments of one call: `key`, `tensors` in order, `numbers` in order, `objects`.

    `objects` are those arguments that are compared by identity although their contents
    could change, and the classes of tuples, lists and dicts.
    """

    __slots__ = ("_places", "key", "numbers", "objects", "tensors")

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.tensors: list[Any] = []
        self.numbers: list[Any] = []
        self.objects: list[Any] = []
        self._places: list[int] = []  # of the shapes in the key
        key: list[Any] = []
        try:
            for x in args:
                if isinstance(x, Tensor):  # the usual case, without a detour
                    self.tensors.append(x)
                    self._places.append(len(key))
                    key += (x.shape, x.dtype, x.device, x.requires_grad)
                else:
                    self._add(x, key)
            for name, x in kwargs.items():
                key.append(name)
                self._add(x, key)
        except RecursionError:
            raise TraceBreak("jit_compile", "an argument that contains itself") from None
        self.key = tuple(key)

    def _add(self, x: Any, key: list[Any]) -> None:
        if is_number(x):
            x = x.item()
        kind = type(x)
        if isinstance(x, np.ndarray):
            x = Tensor.from_host(x)
        if isinstance(x, Tensor):
            self.tensors.append(x)
            self._places.append(len(key))
            key += (x.shape, x.dtype, x.device, x.requires_grad)
        elif kind in _NUMBERS:
            self.numbers.append(x)
            key.append(kind)
        elif isinstance(x, (tuple, list, dict)):
            self._container(x, key)
        else:
            self._static(x, key)

    def _container(self, x: Any, key: list[Any]) -> None:
        kind = type(x)
        key += (kind, len(x))
        if kind not in _CONTAINERS:
            if not _is_rebuilt(x):
                reason = f"an argument of type {kind.__name__} cannot be made anew"
                raise TraceBreak("jit_compile", reason)
            self.objects.append(kind)
        if isinstance(x, dict):
            for name in x:
                self._static(name, key)
            if isinstance(x, defaultdict):
                self._static(x.default_factory, key)
            x = x.values()
        for item in x:
            self._add(item, key)

    def signature(self) -> tuple[Any, tuple[int, ...]]:
        """The key with a letter for each size above 1, and these sizes.

        Calls of one signature are broadcast alike.
        """
        letters: dict[int, int] = {0: 0, 1: 1}
        key = list(self.key)
        for place in self._places:
            key[place] = tuple([letters.setdefault(size, -len(letters)) for size in key[place]])
        return tuple(key), tuple(letters)[2:]

    def facts(self) -> list[Any]:
        """What a trace may depend on besides the key: the numbers, and how elements lie."""
        places = [x.value.geometry for x in self.tensors]
        return [*self.numbers, [place and place.layout for place in places]]

    def _static(self, x: Any, key: list[Any]) -> None:
        try:
            hash(x)
        except TypeError:
            raise TraceBreak(
                "jit_compile", f"an argument of type {type(x).__name__} cannot be part of a key"
            ) from None
        kind = type(x)
        if isinstance(x, frozenset):
            key += (kind, frozenset([(type(item), item) for item in x]))
        elif kind in PLAIN:
            key += (kind, x)
        else:
            self.objects.append(x)
            key += (kind, x if _compares_all(x) else _Same(x))


@final
class _Same:
    """An object in a key that equals itself alone, whatever its class calls equal."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __hash__(self) -> int:
        return id(self.of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.of is self.of


def _compares_all(x: Any) -> bool:
    """Whether equal objects of this kind are alike in everything that a function may read."""
    if getattr(type(x), "__hash__", None) is object.__hash__ or isinstance(
        x, (MethodType, np.dtype)
    ):
        return True
    parameters = getattr(type(x), "__dataclass_params__", None)
    return (parameters is not None and parameters.frozen) or not hasattr(x, "__dict__")


def replaced(value: Any, tensors: list[Any], numbers: list[Any]) -> Any:
    """Arguments with tensors and numbers, in order, replaced by those of two lists."""
    if is_number(value):
        value = value.item()
    if isinstance(value, (Tensor, np.ndarray)):
        return tensors.pop(0)
    if type(value) in _NUMBERS:
        return numbers.pop(0)
    if isinstance(value, (tuple, list)):
        return _like(type(value), [replaced(item, tensors, numbers) for item in value])
    if isinstance(value, dict):
        parts = [replaced(item, tensors, numbers) for item in value.values()]
        return _like_dict(value, zip(value, parts, strict=True))
    return value


_CONTAINERS: Final = frozenset({tuple, list, dict, OrderedDict, defaultdict, Counter})
_MAKERS: Final = ("__new__", "__init__", "__setitem__", "__iter__", "values", "__reduce_ex__")


def _is_rebuilt(x: Any) -> bool:
    """Whether a tuple, list or dict of a class of its own can be made from its items alone."""
    kind = type(x)
    if getattr(x, "__dict__", None) or any(
        vars(class_).get("__slots__") for class_ in kind.__mro__
    ):
        return False
    base = next(class_ for class_ in (tuple, list, dict) if isinstance(x, class_))
    if hasattr(kind, "_fields"):
        return kind.__iter__ is tuple.__iter__
    own = (getattr(kind, name, None) is getattr(base, name, None) for name in _MAKERS)
    return all(own)


def _like(kind: Any, parts: Sequence[Any]) -> Any:
    """A tuple, named tuple or list of a type."""
    return kind._make(parts) if hasattr(kind, "_fields") else kind(parts)


def _like_dict(old: dict[Any, Any], pairs: Iterable[tuple[Any, Any]]) -> Any:
    """A dict of the type of another one."""
    kind: Any = type(old)
    if kind is Counter:  # whose constructor counts, and whose `update` adds
        counter: Counter[Any] = Counter()
        dict.update(counter, pairs)
        return counter
    return defaultdict(old.default_factory, pairs) if isinstance(old, defaultdict) else kind(pairs)


def results_of(value: Any, operands: list[Any]) -> Structure:
    """The structure of what a function returned; its Operands are appended to `found`.

    Raises TraceBreak for what cannot be made anew at each call.
    """
    kind = type(value)
    if kind is TracedNumber:
        return "plain", value.read()
    if isinstance(value, Tensor):
        operands.append(value)
        return _TENSOR, len(operands) - 1
    if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return "sequence", kind, [results_of(item, operands) for item in value]
    if kind in (dict, OrderedDict):
        return "dict", kind, {k: results_of(item, operands) for k, item in value.items()}
    if kind in PLAIN or isinstance(value, (Enum, type, np.dtype, np.generic)):
        return "plain", value
    raise TraceBreak("return", f"a result of type {kind.__name__} cannot be made anew at each call")


def restored(structure: Structure, results: Sequence[Any]) -> Any:
    """What a function returns, made anew around its results."""
    kind = structure[0]
    if kind == _TENSOR:
        return results[structure[1]]
    if kind == "sequence":
        return _like(structure[1], [restored(item, results) for item in structure[2]])
    if kind == "dict":
        return structure[1]({k: restored(item, results) for k, item in structure[2].items()})
    return structure[1]
