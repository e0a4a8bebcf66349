"""Ops that the host computes: on copies of the operands, counted and told once."""

from __future__ import annotations

import os
import warnings
from typing import Any, Final

import torch
from torch.utils._pytree import tree_map

from netcl_core.errors import DeviceError
from netcl_plugin_torch.device import FALLBACKS
from netcl_plugin_torch.tensor import NetclTensor, to_device, to_host, write

_HOST: Final = torch.device("cpu")


def by_host(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an op that the table lacks on the host, and count that."""
    return by_host_instead(func, args, kwargs, None)


def by_host_instead(func: Any, args: Any, kwargs: Any, error: BaseException | None) -> Any:
    """The same where netcl's function does not do this; `error` says why."""
    if isinstance(error, DeviceError) and type(error) is DeviceError:
        raise RuntimeError(str(error)) from error
    schema = func._schema
    if any(x.alias_info and not x.alias_info.is_write for x in schema.returns):
        text = f"netcl: {func.name()} gives a view, which is not supported. Use a clone() of it"
        raise NotImplementedError(f"{text}. {error or ''}".strip())
    refuses = os.environ.get("NETCL_TORCH_FALLBACK") == "error"
    if refuses and error is None:
        raise NotImplementedError(_refusal(func))
    results, written = _on_host(func, args, kwargs)
    if refuses:
        raise NotImplementedError(f"{_refusal(func)} {error}") from error
    _count(func, error)
    for x, copy in written:
        if copy.shape != x.shape:
            x.resize_(copy.shape)
        write(x, to_device(copy.contiguous()).raw)
    return results


def _refusal(func: Any) -> str:
    text = f"The operator '{func.name()}' is not computed on the netcl device"
    remedy = "Unset it, or move the operands with x.cpu()."
    return f"{text}, and NETCL_TORCH_FALLBACK=error refuses the host. {remedy}"


def _count(func: Any, error: BaseException | None) -> None:
    name = func.name()
    FALLBACKS[name] += 1
    if FALLBACKS[name] == 1:
        why = f" ({error})" if error is not None and str(error) else ""
        text = f"netcl: the host computes {name}{why}; torch.netcl.fallbacks() counts how often."
        warnings.warn(text, UserWarning, stacklevel=2)


def _on_host(func: Any, args: Any, kwargs: Any) -> tuple[Any, list[Any]]:
    """The results, and `(tensor, what the host has written for it)` pairs."""
    copies: dict[int, tuple[NetclTensor, torch.Tensor]] = {}
    wanted = kwargs.get("device")

    def down(x: Any) -> Any:
        if isinstance(x, torch.device):
            return _HOST if x.type == "netcl" else x
        if type(x) is not NetclTensor:
            return x
        return copies.setdefault(id(x), (x, to_host(x)))[1]

    def up(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        for target, copy in copies.values():
            if copy is x:
                return target
        return x if wanted is not None and torch.device(wanted).type == "cpu" else to_device(x)

    results = func(*tree_map(down, args), **tree_map(down, kwargs))
    written = []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[i] if i < len(args) else kwargs.get(argument.name)
            for x in given if isinstance(given, (list, tuple)) else [given]:
                if type(x) is NetclTensor:
                    written.append(copies[id(x)])
    return tree_map(up, results), written
