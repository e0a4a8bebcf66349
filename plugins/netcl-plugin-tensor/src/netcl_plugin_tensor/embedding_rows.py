"""Rows of embeddings that are shortened in place, or have gradients by how often they are named."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_core import Tensor


def renormalized(weight: Any, index: Any, max_norm: Any, norm_type: Any) -> None:
    """Scale the rows that are named and longer than `max_norm` to that length, in place."""
    if not index.size:
        return
    with ag.no_grad():
        table = weight.detach()
        lengths = ag.norm(table, float(norm_type), 1, True)
        names = ag.reshape(index, (-1,)).astype("int64")
        named = ag.scatter(
            Tensor.zeros((weight.shape[0],), "bool", weight.device), 0, names, value=True
        )
        long = ag.logical_and(ag.unsqueeze(named, 1), ag.gt(lengths, float(max_norm)))
        scale = ag.where(long, ag.div(float(max_norm), ag.add(lengths, 1e-7)), 1.0)
        weight.copy_(ag.mul(table, scale.astype(table.dtype)))


def by_frequency(rows: Any, index: Any, there: Any, count: int) -> Any:
    """The rows as they are, each with its gradient over how often its index comes."""
    names = ag.reshape(index, (-1,)).astype("int64")
    one = Tensor.ones(names.shape, rows.dtype, rows.device)
    if there is not None:
        one = ag.mul(one, Tensor.from_host(there.reshape(-1).astype("float32"), rows.device))
    often = ag.scatter_add(Tensor.zeros((count,), rows.dtype, rows.device), 0, names, one)
    share = ag.div(1.0, ag.clamp(ag.reshape(ag.gather(often, 0, names), (*index.shape, 1)), min=1))
    moving = ag.mul(rows, share)
    return ag.add(moving, ag.sub(rows, moving).detach())
