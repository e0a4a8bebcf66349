"""torch.distributed on the device: collectives go through the host, by a backend such as gloo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from netcl_plugin_torch.tensor import NetclTensor, to_host


def through_host(func: Any) -> Callable[..., Any]:
    """An op of `torch.ops.c10d` for tensors on the device.

    The tensors are copied to the host, and back once the transfer has ended, which it waits for.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        hosts: dict[int, tuple[NetclTensor, torch.Tensor]] = {}

        def host(x: NetclTensor) -> torch.Tensor:
            return hosts.setdefault(id(x), (x, to_host(x)))[1]

        given = tree_map_only(NetclTensor, host, (args, kwargs))
        result = func(*given[0], **given[1])
        tree_map_only(torch.ScriptObject, lambda work: work.wait(), result)
        for x, copy in hosts.values():
            x.copy_(copy)
        back = {id(copy): x for x, copy in hosts.values()}
        result = tree_map_only(torch.Tensor, lambda x: back.get(id(x), x), result)
        return tree_map_only(torch.ScriptObject, lambda _: _ended(list(back.values())), result)

    return run


def _ended(value: list[NetclTensor]) -> Any:
    """A transfer that has ended: that of gloo may be waited for once only."""
    future: torch.futures.Future[list[NetclTensor]] = torch.futures.Future()
    future.set_result(value)
    return torch._C._distributed_c10d._create_work_from_future(future).boxed()
