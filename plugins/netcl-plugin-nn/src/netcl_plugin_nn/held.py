"""Listed and Keyed: modules that hold others, or parameters, as a list and as a dict do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import index as as_index
from typing import Any, ClassVar, TypeVar

from netcl_core.errors import ArgumentError, message
from netcl_plugin_nn.kinds import PARAMETER
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import Parameter, unwrapped

ListedT = TypeVar("ListedT", bound="Listed")


class _Holder(Module):
    """What is held is registered under its name; `kind` says what it is."""

    kind: ClassVar[str]

    def _put(self, name: str, value: Any) -> None:
        """Register one thing under a name; raises ArgumentError for what is of another kind."""
        self._register(self.kind, name, self._checked(value))

    def _checked(self, value: Any) -> Any:
        """A module, a parameter or None as it is; of a tensor or an array a parameter."""
        if value is None:
            return None
        if self.kind == PARAMETER:
            leaf = unwrapped(value)
            return leaf if isinstance(leaf, Parameter) else Parameter(value)
        if not isinstance(value, Module):
            given = f"a {type(value).__name__}"
            raise ArgumentError(message(type(self).__name__, given, "an nn.Module"))
        return value

    def _held(self) -> list[tuple[str, Any]]:
        return self._all(self.kind)

    def _hold(self, named: Iterable[tuple[str, Any]]) -> None:
        """Hold just these, in this order."""
        kept = list(named)
        for name, _ in self._held():
            delattr(self, name)
        for name, value in kept:
            self._register(self.kind, name, value)

    def __len__(self) -> int:
        return len(self._held())


class Listed(_Holder):
    """Things in order; their names are "0", "1" and so on."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.extend(values)

    def append(self: ListedT, value: Any) -> ListedT:
        """Add one at the end."""
        self._put(str(len(self)), value)
        return self

    def extend(self: ListedT, values: Iterable[Any]) -> ListedT:
        """Add several at the end."""
        for value in list(values):
            self.append(value)
        return self

    def insert(self: ListedT, index: int, value: Any) -> ListedT:
        """Add one before that at an index; all are numbered anew."""
        held = list(self)
        held.insert(index, self._checked(value))
        self._number(held)
        return self

    def pop(self, index: int = -1) -> Any:
        """Take one out, by default the last, and return it; all are numbered anew."""
        part = self[index]
        del self[index]
        return part

    def _number(self, values: Iterable[Any]) -> None:
        self._hold((str(i), value) for i, value in enumerate(values))

    def __iter__(self) -> Iterator[Any]:
        return iter([value for _, value in self._held()])

    def __contains__(self, value: Any) -> bool:
        return any(child is value for child in self)

    def __getitem__(self, index: Any) -> Any:
        entry = self._held()[index]
        return self._part(entry) if isinstance(index, slice) else entry[1]

    def _part(self: ListedT, named: Iterable[tuple[str, Any]]) -> ListedT:
        """The same kind of list with some of what is held."""
        part: ListedT = type(self).__new__(type(self))
        part._number(value for _, value in named)
        return part

    def __setitem__(self, index: int, value: Any) -> None:
        self._put(self._held()[as_index(index)][0], value)

    def __delitem__(self, index: int | slice) -> None:
        kept = list(self)
        del kept[index]
        self._number(kept)

    def __add__(self: ListedT, other: Iterable[Any]) -> ListedT:
        return self._part(self._held()).extend(other)

    def __iadd__(self: ListedT, other: Iterable[Any]) -> ListedT:
        return self.extend(other)


class Keyed(_Holder):
    """Things by name; it has a dict's methods."""

    def __init__(self, values: Any = None) -> None:
        if values is not None:
            self.update(values)

    def update(self, values: Any) -> None:
        """Add several: a mapping, another of the same kind, or pairs of names and values."""
        pairs = values.items() if isinstance(values, (Mapping, Keyed)) else values
        for name, value in pairs:
            self[name] = value

    def __getitem__(self, key: str) -> Any:
        return dict(self._held())[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._put(key, value)

    def __delitem__(self, key: str) -> None:
        self[key]  # KeyError for none
        delattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: Any) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        """The names."""
        return [name for name, _ in self._held()]

    def values(self) -> list[Any]:
        """What is held."""
        return [value for _, value in self._held()]

    def items(self) -> list[tuple[str, Any]]:
        """The names with what is held."""
        return self._held()

    def get(self, key: str, default: Any = None) -> Any:
        """What has a name, or the default."""
        return dict(self._held()).get(key, default)

    def pop(self, key: str) -> Any:
        """Take out what has a name, and return it."""
        part = self[key]
        del self[key]
        return part

    def clear(self) -> None:
        """Take everything out."""
        self._hold(())
