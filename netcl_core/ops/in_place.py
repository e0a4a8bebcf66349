"""Changes in place: `x.add_(y)`, `x += y`, `x[index] = y`, `add(x, y, out=z)`.

A value without a graph is overwritten where it lies, so that views of it change too and graphs
that read it notice. A recorded value that no other op has used becomes the result of the change:
its old self stays behind in the graph, with its data, so that all gradients can be computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from netcl_core.dtypes import DTYPES
from netcl_core.errors import ArgumentError, DtypeError, GradientError, ShapeError, message
from netcl_core.tape.hooks import has_hooks
from netcl_core.tape.modes import is_grad_enabled
from netcl_core.tape.node import Node
from netcl_core.tape.tape import get_current_tape
from netcl_core.tensors.functions import functions
from netcl_core.tensors.operand import told


def change_in_place(x: Any, name: str, make: Callable[[Any], Any]) -> Any:
    """Let `x` become `make(x)`, and return `x`.

    Args:
        x: A Tensor or Node.
        name: What the user wrote, for errors.
        make: Gives the new value, of the same shape and of a dtype that x's can hold.

    Raises:
        GradientError: `x` is a leaf that needs a gradient, a view, was used by a recorded op, or
            holds no graph though the new value has one.
        ShapeError, DtypeError: the new value does not fit.
    """
    told()
    why = _refusal(x)
    if why:
        raise _refused(name, *why)
    return _changed(x, name, make)


def assign_in_place(x: Any, op: str, other: Any) -> Any:
    """What `x <op>= other` leaves under the name: `x`, changed in place where that can be.

    A Tensor that is to hold a graph, and a recorded value that other ops have used, are left as
    they are, and the name stands for a new value.
    """
    recorded = isinstance(x, Node) and x.call is not None and is_grad_enabled()
    if recorded and (x.used or _shared(x)) and not _is_view(x):
        return functions[op](x, other)
    graphs = getattr(other, "requires_grad", False) and is_grad_enabled()
    if type(x) is not Node and graphs and not x.requires_grad:
        return functions[op](x, other)
    return change_in_place(x, f"{op}_", lambda old: functions[op](old, other))


def into(op: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an op, written into the tensor (or the tuple of them) given as `out`.

    Raises ArgumentError where it has a gradient, as PyTorch does.
    """
    out = kwargs.pop("out")
    found = op(*args, **kwargs)
    if out is None:
        return found
    several = isinstance(out, (tuple, list))
    for target, value in zip(out, found, strict=True) if several else [(out, found)]:
        if value.requires_grad or (target.requires_grad and is_grad_enabled()):
            given = "out= for a result that needs a gradient"
            remedy = "Leave out= away, or compute under nc.no_grad()"
            raise ArgumentError(message(op.__name__, given, "values without gradients", remedy))
        target.value.copy_(value.value)
    return out


def _changed(x: Any, name: str, make: Callable[[Any], Any]) -> Any:
    recorded = isinstance(x, Node) and x.call is not None and is_grad_enabled()
    old = x.former() if recorded else x
    found = _fitting(x, name, make(old))
    if isinstance(found, Node) and found.call is not None:
        if not isinstance(x, Node) or _stands_for_a_leaf(x):
            text = "a Tensor, which holds no graph, is to become a value with one"
            raise _refused(name, text, "Write x = x + y, or make it with an op")
        _replace_in_tape(x, old)
        _become(x, found)
    elif recorded:
        _replace_in_tape(x, old)
        x.become_constant(found.value)
    else:
        x.value.copy_(found.value)
    return x


def _become(x: Node, found: Node) -> None:
    """Let `x` be a recorded value; one of several results stays with the others."""
    if found.source is not None or found.results()[1:] or found.used:
        x.value = found.value
        x.share(found)
    else:
        x.take_over(found)
        _replace_in_tape(found, x)


def _fitting(x: Any, name: str, found: Any) -> Any:
    """A new value in x's dtype; raises unless it fits."""
    if found.shape != x.shape:
        raise ShapeError(message(name, f"a value of shape {found.shape}", f"{x.shape}, as x has"))
    if found.dtype == x.dtype:
        return found
    if DTYPES[found.dtype].category > DTYPES[x.dtype].category:
        remedy = "Convert x first with astype"
        raise DtypeError(message(name, f"a {found.dtype} value into {x.dtype}", x.dtype, remedy))
    return found.astype(x.dtype)


def _refusal(x: Any) -> tuple[str, str] | None:
    """Why a value cannot be changed in place, and what to do; None: it can be."""
    if not is_grad_enabled():
        return None
    if not isinstance(x, Node) or x.call is None:
        if not x.requires_grad:
            return None
        return "a leaf that needs a gradient", "Change it in a block of `with nc.no_grad():`"
    if _is_view(x):
        return "a recorded view of another value", "Change that value, or a clone() of this one"
    if x.used or _shared(x):
        given = f"the result of {x.op_name}, which was used since"
        return given, "Change a clone() of it, or write x = x + y"
    return None


def _shared(x: Node) -> bool:
    """Whether more than this node depends on which call made its value."""
    return bool(x.source is None and x.results()[1:]) or has_hooks(x)


def _is_view(x: Node) -> bool:
    return bool(x.value.is_alias)


def _stands_for_a_leaf(x: Node) -> bool:
    """Whether a node is the one of a Tensor that somebody may hold."""
    held = x.value.leaf_node
    return held is not None and held() is x


def _refused(name: str, given: str, remedy: str) -> GradientError:
    return GradientError(message(name, given, "a value that may change in place", remedy))


def _replace_in_tape(x: Node, old: Node) -> None:
    """Let the old self of a value stand in its place on a tape that keeps a list."""
    tape = get_current_tape()
    if not tape.implicit:
        tape.replace(x, old)
