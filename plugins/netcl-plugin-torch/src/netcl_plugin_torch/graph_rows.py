"""Rows of the ops in a compiled graph: those of single calls, and views, as functions of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_plugin_torch.dispatch import ROWS, name_of_op
from netcl_plugin_torch.registration import load

#: Rows that look at data, or that differentiate.
_NEEDS_DATA: Final = (
    "nonzero", "masked_select", "_unique2", "index_fill.int_Scalar", "gelu_backward",
    "silu_backward", "mish_backward", "leaky_relu_backward", "hardsigmoid_backward",
    "hardswish_backward", "avg_pool1d_backward", "avg_pool2d_backward", "avg_pool3d_backward",
)  # fmt: skip
#: The names under which ops of lists of tensors have a row for one.
_KINDS: Final = (".Tensor", "", ".Tensor_Scalar", ".Scalar")


def _graph_row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        _VIEWS.update(dict.fromkeys(names, function))
        return function

    return enter


_VIEWS: Final[dict[str, Callable[..., Any]]] = {}


@cache
def row_of(func: Any) -> Callable[..., Any] | None:
    """The function of an op in a graph; None: it has none, and runs on its own."""
    load()
    name = name_of_op(func)
    if name in _VIEWS:
        return _VIEWS[name]
    if name.startswith("_foreach_"):
        return _for_each(name.removeprefix("_foreach_").partition(".")[0])
    if name in _NEEDS_DATA or (name.endswith("_backward") and "upsample" in name):
        return None
    packet, _, kind = name.partition(".")
    return ROWS.get(name) or (ROWS.get(f"{packet}.Tensor") if kind == "Scalar" else None)


def _for_each(packet: str) -> Callable[..., Any] | None:
    """The row of an op of lists, by that of one tensor."""
    rows = [ROWS[packet + kind] for kind in _KINDS if packet + kind in ROWS]
    if not rows or packet.endswith("_"):
        return None

    def run(*args: Any, **kwargs: Any) -> list[Any]:
        count = len(args[0])
        columns = [x if isinstance(x, (list, tuple)) else [x] * count for x in args]
        return [rows[0](*row, **kwargs) for row in zip(*columns, strict=True)]

    return run


@_graph_row("view", "_unsafe_view", "reshape")
def view(x: Any, size: Sequence[int]) -> Any:
    return ag.reshape(x, tuple(size))


@_graph_row("permute")
def permute(x: Any, dims: Sequence[int]) -> Any:
    return ag.permute(x, tuple(dims))


@_graph_row("t")
def t(x: Any) -> Any:
    return ag.transpose(x, 0, 1) if x.ndim == 2 else x


@_graph_row("transpose.int")
def transpose(x: Any, dim0: int, dim1: int) -> Any:
    return ag.transpose(x, dim0, dim1)


@_graph_row("unsqueeze")
def unsqueeze(x: Any, dim: int) -> Any:
    return ag.unsqueeze(x, dim)


@_graph_row("squeeze.dims", "squeeze.dim")
def squeeze(x: Any, dims: Any) -> Any:
    return ag.squeeze(x, tuple(dims) if isinstance(dims, (list, tuple)) else dims)


@_graph_row("expand")
def expand(x: Any, size: Sequence[int], implicit: bool = False) -> Any:
    lead = len(size) - x.ndim
    wanted = [x.shape[i - lead] if n == -1 else n for i, n in enumerate(size)]
    return ag.broadcast_to(x, tuple(wanted))


@_graph_row("slice.Tensor")
def slice_(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    lead = dim + x.ndim if dim < 0 else dim
    return x[(*(slice(None),) * lead, slice(start, end, step))]


@_graph_row("select.int")
def select(x: Any, dim: int, index: int) -> Any:
    lead = dim + x.ndim if dim < 0 else dim
    return x[(*(slice(None),) * lead, index)]


@_graph_row("split_with_sizes")
def split(x: Any, sizes: Sequence[int], dim: int = 0) -> list[Any]:
    return list(ag.split(x, tuple(sizes), dim))


@_graph_row("alias", "detach", "clone", "lift_fresh_copy")
def alias(x: Any, memory_format: Any = None) -> Any:
    return x


@_graph_row("_to_copy")
def to_copy(x: Any, **options: Any) -> Any:
    return x  # to the dtype that the graph says
