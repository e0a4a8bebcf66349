"""PyTorch's ops of lists, `torch._foreach_add_` and its like, with which optimizers step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch.optim.optimizer import _foreach_supported_types
from torch.utils import _foreach_utils

import netcl_core as nc
from netcl_plugin_torch.dispatch import family, made_of_others, name_of_op, raw_of
from netcl_plugin_torch.lists import Rows
from netcl_plugin_torch.tensor import NetclTensor, wrap

#: The ops that `lists.cl.j2` has a formula for; it has `s` for a number and `a`, `b` for lists.
_FORMULAS: Final = frozenset(
    ["add", "sub", "mul", "div", "addcmul", "addcdiv", "lerp", "sqrt", "neg", "abs", "reciprocal"]
)


def _listed(func: Any, op: str) -> Callable[..., Any]:
    """An op of lists in few launches; by PyTorch's way where the tensors are not alike."""
    in_place, others = func._schema.is_mutable, made_of_others(func)
    kinds = [str(x.type) for x in func._schema.arguments]

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            rows, options = _rows(op, args, kinds)
            if kwargs.get("alpha", 1) != 1:
                options["scalars"]["alpha"] = kwargs["alpha"]
            if op.startswith("addc") and "each" not in options:
                options["scalars"].setdefault("s", kwargs.get("value", 1))
            if in_place:
                rows.run(op, ("x",), **options)
                return None
            names, outputs = rows.names, rows.new("y")
            rows.run(op, ("y",), read=names, **options)
        except TypeError:  # nothing is written yet
            return others(*args, **kwargs)
        return [wrap(x) for x in outputs]

    return run


def _rows(op: str, args: Any, kinds: Any) -> tuple[Rows, dict[str, Any]]:
    """The tensors of a call, and its numbers; raises TypeError where that cannot be."""
    columns: dict[str, Any] = {"x": args[0]}
    options: dict[str, Any] = {"scalars": {}}
    for x, kind in zip(args[1:], kinds[1:], strict=False):
        if kind == "List[Tensor]":
            columns["b" if "a" in columns else "a"] = x
        elif kind == "Tensor":
            if x.dtype != args[0][0].dtype or x.dim():
                raise TypeError("a number of another dtype")
            raw = raw_of(x)
            if type(x) is NetclTensor:
                if nc.DTYPES[raw.dtype].wide != raw.dtype:
                    raise TypeError("a number that kernels do not read")
                options["pointers"] = {"other": raw}
            else:
                options["scalars"]["s"] = raw
        elif isinstance(x, list):
            options["each"] = {"s": x}
        elif isinstance(x, (int, float)):
            options["scalars"]["s"] = x
        else:
            raise TypeError(f"a {type(x).__name__}")
    if op == "lerp" and "b" in columns:
        raise TypeError("weights that are tensors")
    return Rows(columns), options


def register(library: Any) -> None:
    """Let optimizers step by lists where nothing else is asked for, as they do on CUDA."""
    for types in (_foreach_utils._foreach_supported_types, _foreach_supported_types):
        if NetclTensor not in types:
            types.append(NetclTensor)


@family("_foreach_")
def of_lists(func: Any) -> Callable[..., Any]:
    """What computes an op of lists."""
    packet = name_of_op(func).removeprefix("_foreach_").partition(".")[0].removesuffix("_")
    writes_out = any(x.kwarg_only and x.alias_info for x in func._schema.arguments)
    return made_of_others(func) if writes_out or packet not in _FORMULAS else _listed(func, packet)
