"""What an optimizer is given: parameters and groups, checked and made lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from netcl_core import DTYPES, Tensor
from netcl_core.errors import ArgumentError, DtypeError, message

#: Settings by name, and under "params" a list of tensors.
Group: TypeAlias = dict[str, Any]
#: From this share of equal letters on a name in a group is taken for a misspelt setting.
_ALIKE: Final = 0.85


def groups_of(who: str, params: Iterable[Any]) -> Sequence[Mapping[str, Any]]:
    """What an optimizer is given as groups: one of all, unless they are dicts.

    Raises ArgumentError for no parameters.
    """
    if isinstance(params, (Tensor, Mapping)):
        raise ArgumentError(message(who, f"one {type(params).__name__}", "a list of tensors"))
    items: Sequence[Any] = list(params)
    if not items:
        raise ArgumentError(message(who, "no parameters", "at least one tensor"))
    return items if all(isinstance(item, Mapping) for item in items) else [{"params": items}]


def add_group(who: str, others: Sequence[Group], given: Any, defaults: Mapping[str, Any]) -> Group:
    """A group with the defaults filled in; `param_names` if its parameters come with names.

    What else it has stays in it, as in PyTorch: programs keep numbers of their own there. Raises
    ArgumentError for a parameter that is no leaf tensor or appears twice, for names of only some,
    and for what is nearly a setting's name; DtypeError for a parameter that is not floating.
    """
    if not isinstance(given, Mapping):
        raise ArgumentError(message(who, f"a {type(given).__name__}", "a dict with params"))
    for name in given:  # "momentun" is no setting of a program's own
        meant = [] if name in defaults else get_close_matches(name, defaults, 1, _ALIKE)
        if meant:
            raise ArgumentError(message(who, f"the setting {name!r}", meant[0]))
    names, params = named(who, given.get("params", ()))
    group = {**defaults, **given, "params": leaves(who, params)}
    if names:
        group["param_names"] = names
    if others and ("param_names" in group) != ("param_names" in others[0]):
        raise ArgumentError(message(who, "parameters with and without names", "all or none"))
    seen = {id(p) for other in others for p in other["params"]}
    for p in group["params"]:
        if id(p) in seen:
            raise ArgumentError(message(who, f"a parameter of shape {p.shape} twice", "each once"))
        seen.add(id(p))
    return group


def named(who: str, params: Any) -> tuple[list[str], list[Any]]:
    """The names, if there are any, and the parameters."""
    items = [params] if isinstance(params, Tensor) else list(params)
    pairs = [item for item in items if isinstance(item, tuple) and len(item) == 2]
    if pairs and len(pairs) != len(items):
        raise ArgumentError(message(who, "parameters with and without names", "all or none"))
    return [name for name, _ in pairs], [p for _, p in pairs] or items


def leaves(who: str, params: Sequence[Any]) -> list[Tensor]:
    """The leaf tensors of some operands."""
    tensors = []
    for p in params:
        if not (isinstance(p, Tensor) and p.is_leaf):
            raise ArgumentError(message(who, f"a {type(p).__name__} to optimize", "leaf tensors"))
        leaf = p.value
        if not DTYPES[leaf.dtype].floating:
            raise DtypeError(message(who, f"a {leaf.dtype} parameter", "a floating dtype"))
        tensors.append(leaf)
    return tensors
