"""PyTorch's ops of lists, `torch._foreach_add_` and its like, with which optimizers step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.optim.optimizer import _foreach_supported_types
from torch.utils import _foreach_utils

import netcl_core.autograd as ag
from netcl_core.errors import NetclError
from netcl_plugin_torch.dispatch import Unfit, family, made_of_others, name_of_op, raw_of
from netcl_plugin_torch.graph_rows import row_of
from netcl_plugin_torch.replaying import Replaying
from netcl_plugin_torch.tensor import NAMES, NetclTensor, wrap, write

#: What is enough for a result to have the dtype of the first operand.
_FLOATING: Final = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def _listed(func: Any, row: Callable[..., Any]) -> Callable[..., Any]:
    """An op of lists by its row, as a replay from its third call on; others by PyTorch's way."""
    in_place = func._schema.is_mutable

    def compute(args: Any, options: Any) -> list[Any]:
        with ag.no_grad():
            outputs = row(*[raw_of(x) for x in args], **dict(options))
        return [x.value for x in outputs]

    replaying, others = Replaying(compute), made_of_others(func)

    def run(*args: Any, **kwargs: Any) -> Any:
        options = list(kwargs.items())
        if not _are_alike((*args, *kwargs.values())):
            return others(*args, **kwargs)
        try:
            outputs = replaying(args, options)
        except (NetclError, Unfit):
            return others(*args, **kwargs)
        name = NAMES[args[0][0].dtype]
        if not in_place:
            return [wrap(x.astype(name) if x.dtype != name else x) for x in outputs]
        for target, new in zip(args[0], outputs, strict=True):
            write(target, new)
        return None

    return run


def _are_alike(args: Any) -> bool:
    """Whether all tensors of lists are on the device, of one floating dtype, and of one's sizes."""
    first = args[0]
    if not first or first[0].dtype not in _FLOATING:
        return False
    dtype = first[0].dtype
    for x in args:
        if isinstance(x, torch.Tensor):
            return False
        if type(x) is list and x and isinstance(x[0], torch.Tensor):
            for tensor, one in zip(x, first, strict=True):
                if (
                    type(tensor) is not NetclTensor
                    or tensor.dtype != dtype
                    or tensor.shape != one.shape
                ):
                    return False
    return True


def register(library: Any) -> None:
    """Let optimizers step by lists where nothing else is asked for, as they do on CUDA."""
    for types in (_foreach_utils._foreach_supported_types, _foreach_supported_types):
        if NetclTensor not in types:
            types.append(NetclTensor)


@family("_foreach_")
def of_lists(func: Any) -> Callable[..., Any]:
    """What computes an op of lists."""
    name = name_of_op(func).removeprefix("_foreach_")
    packet, _, kind = name.partition(".")
    plain = getattr(torch.ops.aten, f"_foreach_{packet.removesuffix('_')}", None)
    row = None if plain is None else row_of(getattr(plain, kind or "default", func))
    return made_of_others(func) if row is None else _listed(func, row)
