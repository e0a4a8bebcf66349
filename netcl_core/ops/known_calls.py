"""KnownCalls: an op's calls by the arguments as they are given, so that a later one binds nothing.

Binding gives arguments their names, defaults and checks, and is the same for all arguments of one
key: shapes, dtypes and devices of tensors, and plain values as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

from netcl_core.plugins.registry import registry
from netcl_core.tape.node import Node
from netcl_core.tape.state import thread
from netcl_core.tensors.operand import times_told
from netcl_core.tensors.tensor import Tensor

#: The types of what is a part of a key as it is, and with its type.
_PLAIN: Final = frozenset({int, str, type(None), type(Ellipsis)})
_TYPED: Final = frozenset({bool, float, type})


def _add(values: Iterable[Any], key: list[Any], tensors: list[Any]) -> bool:
    """Add to a key what a call depends on of some values; False: there is something else."""
    for value in values:
        kind = value.__class__
        if kind in _PLAIN:
            key.append(value)
        elif isinstance(value, Tensor):
            x = value.value if kind is Node else value
            key += x.shape, x.dtype, x.device
            tensors.append(value)
        elif kind in _TYPED:
            key += kind, value or repr(value)  # 0.0 is not -0.0
        elif kind is tuple or kind is list or kind is slice:
            parts = (value.start, value.stop, value.step) if kind is slice else tuple(value)
            plain = _PLAIN.issuperset(map(type, parts))
            key += kind, parts if plain else len(parts)
            if not plain and not _add(parts, key, tensors):
                return False
        else:
            return False
    return True


#: The key of arguments, the tensors among them, and what must not have changed until it is noted.
Given: TypeAlias = tuple[tuple[Any, ...], list[Any], tuple[int, int]]


@final
class KnownCalls:
    """Calls of an op; when there are too many, or another registry serves, it begins anew."""

    __slots__ = ("_calls", "_most", "_version")

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._version = -1
        self._calls: dict[Any, tuple[Any, tuple[int, ...] | None]] = {}

    def find(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], amp: Any = None
    ) -> tuple[Any, list[Any], Given | None]:
        """The call for such arguments with its operands; None: it is to be noted.

        Nothing is given back to note either for arguments that are no key. With `amp` the call is
        for operands that this has cast.
        """
        key: list[Any] = [thread.chosen] if amp is None else [thread.chosen, amp.policy]
        tensors: list[Any] = []
        if kwargs:
            key.append(tuple(kwargs))
        if not (_add(args, key, tensors) and (not kwargs or _add(kwargs.values(), key, tensors))):
            return None, tensors, None
        whole = tuple(key)
        known = self._calls.get(whole) if self._version == registry.version else None
        if known is None:
            return None, tensors, (whole, tensors, (registry.version, times_told()))
        call, places = known
        return call, tensors if places is None else [tensors[i] for i in places], None

    def note(self, given: Given, call: Any, operands: Sequence[Any]) -> None:
        """Keep the call that was prepared for such arguments.

        Not where `bind` made an operand, or looked at data, nor without any tensor, where the
        default device counts: then the call follows from more than the key.
        """
        key, tensors, state = given
        numbers = {id(tensor): i for i, tensor in enumerate(tensors)}
        places = tuple([numbers.get(id(operand), -1) for operand in operands])
        same = state == (registry.version, times_told())
        if not (same and 0 < len(numbers) == len(tensors)) or -1 in places:
            return
        if self._version != state[0] or len(self._calls) >= self._most:
            self._calls, self._version = {}, state[0]
        self._calls[key] = call, None if places == tuple(range(len(tensors))) else places
