"""Where an op writes its result: `add(x, y, out=z)`, `relu(x, inplace=True)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from netcl_core.errors import ArgumentError, message
from netcl_core.ops.in_place import change_in_place
from netcl_core.tape.modes import is_grad_enabled
from netcl_core.tensors.arguments import offers_inplace
from netcl_core.tensors.operand import Operand

#: With these arguments the result of an op is written to a tensor that is there.
TARGETS: Final = frozenset({"inplace", "out"})


def into(op: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an op, written into the tensor (or the tuple of them) given as `out`.

    With `inplace=True` it is written into the op's first operand, as `x.relu_()` does.
    Raises ArgumentError, as PyTorch does, where an op does not offer `inplace`, and where a result
    for `out` has a gradient.
    """
    if "inplace" in kwargs and not offers_inplace(op.__name__):
        given, remedy = f"inplace={kwargs['inplace']}", f"x.copy_({op.__name__}(x)) changes x"
        raise ArgumentError(message(op.__name__, given, "no inplace", remedy))
    if kwargs.pop("inplace", False):
        return _onto_first(op, args, kwargs)
    out = kwargs.pop("out", None)
    result = op(*args, **kwargs)
    if out is None:
        return result
    several = isinstance(out, (tuple, list))
    for target, value in zip(out, result, strict=True) if several else [(out, result)]:
        if value.requires_grad or (target.requires_grad and is_grad_enabled()):
            given = "out= for a result that needs a gradient"
            remedy = "Leave out= away, or compute under nc.no_grad()"
            raise ArgumentError(message(op.__name__, given, "values without gradients", remedy))
        target.value.overwrite(value)
    return out


def _onto_first(op: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    name = None if args else next((name for name in ("input", "x") if name in kwargs), None)
    x = args[0] if args else kwargs.get(name or "")
    if not isinstance(x, Operand):
        return op(*args, **kwargs)
    if name is None:
        return change_in_place(x, f"{op.__name__}_", lambda old: op(old, *args[1:], **kwargs))
    return change_in_place(x, f"{op.__name__}_", lambda old: op(**{**kwargs, name: old}))
