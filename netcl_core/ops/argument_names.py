"""Further names of arguments, for all ops alike: NumPy's axis, PyTorch's input and other."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

from netcl_core.errors import ArgumentError, message

#: What a caller may say -> what the parameter may be called.
_NAMES: Final = {
    "axis": ("dim", "dims"),
    "keepdims": ("keepdim",),
    "input": ("x", "a"),
    "other": ("y", "b"),
}
#: Keyword arguments under the names of an op's parameters.
Renaming: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def renaming(who: str, parameters: Collection[str]) -> Renaming:
    """What gives an op's keyword arguments the names of its parameters.

    `ag.add(input=x, other=y)` is `ag.add(x=x, y=y)`, and `ag.sum(x, axis=0)` is `ag.sum(x, dim=0)`.
    The function raises ArgumentError where an argument comes under two names.
    """
    known = {
        said: name
        for said, names in _NAMES.items()
        if said not in parameters
        for name in names
        if name in parameters
    }

    def renamed(given: dict[str, Any]) -> dict[str, Any]:
        found = {known.get(name, name): value for name, value in given.items()}
        if len(found) < len(given):
            twice = next(name for name in given if known.get(name, name) in {*given} - {name})
            text = f"{twice} and {known.get(twice, twice)} were given"
            raise ArgumentError(message(who, text, "one of them"))
        return found

    return renamed
