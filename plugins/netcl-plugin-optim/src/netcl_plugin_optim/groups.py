"""What an optimizer is given: parameters and groups, checked and made lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

from netcl_core import DTYPES, Tensor
from netcl_core.autograd import Node
from netcl_core.errors import ArgumentError, AttributeValueError, DtypeError, message

#: Settings by name, and under "params" a list of tensors.
Group: TypeAlias = dict[str, Any]


def parameter_groups(who: str, params: Iterable[Any], defaults: Mapping[str, Any]) -> list[Group]:
    """The groups of a list of tensors or of dicts, with the defaults filled in.

    Raises ArgumentError for no parameters, for one that is no leaf tensor or appears
    twice, and for an unknown setting; DtypeError for one that is not floating.
    """
    if isinstance(params, (Tensor, Node, Mapping)):
        raise ArgumentError(message(who, f"one {type(params).__name__}", "a list of tensors"))
    items: Sequence[Any] = list(params)
    if not items:
        raise ArgumentError(message(who, "no parameters", "at least one tensor"))
    given = items if all(isinstance(item, Mapping) for item in items) else [{"params": items}]
    groups = [_group(who, group, defaults) for group in given]
    seen: set[int] = set()
    for p in (p for group in groups for p in group["params"]):
        if id(p) in seen:
            raise ArgumentError(message(who, f"a parameter of shape {p.shape} twice", "each once"))
        seen.add(id(p))
    return groups


def _group(who: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Group:
    for name in given:
        if name != "params" and name not in defaults:
            known = "one of " + ", ".join(defaults)
            raise ArgumentError(message(who, f"the setting {name!r}", known))
    return {**defaults, **given, "params": _leaves(who, given.get("params", ()))}


def _leaves(who: str, params: Any) -> list[Tensor]:
    """The leaf tensors of some operands."""
    found = []
    for p in [params] if isinstance(params, (Tensor, Node)) else list(params):
        leaf = p.value if isinstance(p, Node) and p.is_leaf else p
        if not isinstance(leaf, Tensor):
            raise ArgumentError(message(who, f"a {type(p).__name__} to optimize", "leaf tensors"))
        if not DTYPES[leaf.dtype].floating:
            raise DtypeError(message(who, f"a {leaf.dtype} parameter", "a floating dtype"))
        found.append(leaf)
    return found


def non_negative(who: str, group: Group, *names: str) -> None:
    """Raise AttributeValueError if a setting is negative or no number."""
    for name in names:
        value = group[name]
        if not isinstance(value, Real) or not float(value) >= 0:
            raise AttributeValueError(message(who, f"{name}={value!r}", "a number >= 0"))
