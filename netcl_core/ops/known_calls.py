"""KnownCalls: an op's calls by the arguments as they are given, so that a later one binds nothing.

Binding gives arguments their names, defaults and checks, and is the same for all arguments of one
key: shapes, dtypes and devices of tensors, and plain values as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from netcl_core.plugins.registry import registry
from netcl_core.tape.node import Node
from netcl_core.tape.state import thread
from netcl_core.tensors.operand import times_told
from netcl_core.tensors.tensor import Tensor

#: The types of what is a part of a key as it is, and with its type.
_PLAIN: Final = frozenset({int, str, type(None), type(Ellipsis)})
_TYPED: Final = frozenset({bool, float, type})


def _add(values: Sequence[Any], key: list[Any], tensors: list[Any]) -> bool:
    """Add to a key what a call depends on of some values; False: there is something else."""
    for value in values:
        kind = value.__class__
        if kind in _PLAIN:
            key.append(value)
        elif isinstance(value, Tensor):
            x = value.value if value.__class__ is Node else value
            key += x.shape, x.dtype, x.device
            tensors.append(value)
        elif kind in _TYPED:
            key += kind, value or repr(value)  # 0.0 is not -0.0
        elif kind is tuple or kind is list:
            key += kind, len(value)
            if not _add(value, key, tensors):
                return False
        elif kind is slice:
            key.append(kind)
            if not _add((value.start, value.stop, value.step), key, tensors):
                return False
        else:
            return False
    return True


@final
class Given:
    """The arguments of a call: their key, and the tensors among them in order."""

    __slots__ = ("_before", "_tensors", "key", "version")

    def __init__(self, key: tuple[Any, ...], tensors: list[Any]) -> None:
        self.key = key
        self.version = registry.version
        self._tensors = tensors
        self._before = times_told()

    def places(self, operands: Sequence[Any]) -> tuple[int, ...] | None:
        """Which of the tensors the operands are; None: that follows from more than the key.

        So it is where `bind` made an operand, or looked at data, and without any tensor, where
        the default device counts.
        """
        numbers = {id(tensor): i for i, tensor in enumerate(self._tensors)}
        places = [numbers.get(id(operand), -1) for operand in operands]
        whole = 0 < len(numbers) == len(self._tensors) and self._before == times_told()
        return tuple(places) if whole and -1 not in places else None

    def all_in(self, places: tuple[int, ...]) -> bool:
        """Whether these are all tensors in order."""
        return places == tuple(range(len(self._tensors)))


@final
class KnownCalls:
    """Calls of an op; when there are too many, or another registry serves, it begins anew."""

    __slots__ = ("_calls", "_most", "_version")

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._version = -1
        self._calls: dict[Any, tuple[Any, tuple[int, ...] | None]] = {}

    def find(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, list[Any], Given | None]:
        """The call for such arguments with its operands; None: it is to be noted.

        Nothing is given back to note either for arguments that are no key.
        """
        key: list[Any] = [thread.chosen]
        tensors: list[Any] = []
        if not _add(args, key, tensors):
            return None, tensors, None
        for name in kwargs:
            key.append(name)
            if not _add((kwargs[name],), key, tensors):
                return None, tensors, None
        whole = tuple(key)
        known = self._calls.get(whole) if self._version == registry.version else None
        if known is None:
            return None, tensors, Given(whole, tensors)
        call, places = known
        return call, tensors if places is None else [tensors[i] for i in places], None

    def note(self, given: Given, call: Any, operands: Sequence[Any]) -> None:
        """Keep the call that was prepared for such arguments."""
        places = given.places(operands)
        if places is None or given.version != registry.version:
            return
        if self._version != given.version or len(self._calls) >= self._most:
            self._calls = {}
            self._version = given.version
        self._calls[given.key] = call, None if given.all_in(places) else places
