"""Elements in order: sort and argsort, by a stable merge sort of lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved, composite
from netcl_plugin_tensor.axes import axis, shape_of
from netcl_plugin_tensor.selecting import ADD_AT_INDEX

TEMPLATE: Final = "tensor/sort.cl.j2"
RESULTS: Final = ("values", "indices")
#: Elements that an item orders by insertion.
_BLOCK: Final = 32
#: Elements that an item merges at once, and that it has to do at least.
_CHUNK: Final = {"cpu": 2048, "gpu": 16}
_LEAST: Final = {"cpu": 4096, "gpu": 1}
Buffers = tuple[tuple[str, int], tuple[str, int]]


def best(x: Any, k: int, dim: int, largest: bool, nan_first: bool) -> tuple[Any, Any]:
    """In NumPy: the k best along an axis, of equal ones the first."""
    given = x if x.ndim else x.reshape(1)
    lines = widened(given)
    if largest:  # NumPy sorts NaN to the end
        last = lines.shape[dim] - 1
        order = np.flip(last - np.argsort(np.flip(lines, dim), dim, kind="stable"), dim)
    else:
        order = np.argsort(lines, dim, kind="stable")
        if nan_first:
            is_nan = np.take_along_axis(lines != lines, order, dim)
            order = np.take_along_axis(order, np.argsort(~is_nan, dim, kind="stable"), dim)
    places = np.take(order, np.arange(k), dim)
    values = np.take_along_axis(given, places, dim)
    return (values, places) if x.ndim else (values.reshape(()), places.reshape(()))


def order_of(request: Request) -> dict[str, Any]:
    """What the templates are told of dtype and order."""
    dtype, attrs = DTYPES[request.inputs[0].dtype], request.attrs
    return {
        "storage": dtype.storage,
        "compute": dtype.compute,
        "floating": dtype.floating,
        "largest": attrs["largest"],
        "nan_first": attrs["nan_first"],
    }


def plan_sort(request: Request) -> Kernels:
    """Blocks in order, then runs of twice the size until one is left; the last writes results.

    The runs lie in turn in two pairs of buffers, of which the results are one if they hold whole
    lines.
    """
    (x,), dim, k = request.inputs, request.attrs["dim"], request.attrs["k"]
    size = x.shape[dim] if x.shape else 1
    inner = math.prod(x.shape[dim + 1 :])
    lines = x.size // max(size, 1)
    kind = "cpu" if request.device.kind == "cpu" else "gpu"
    merges = max(0, math.ceil(size / _BLOCK) - 1).bit_length()
    out: Buffers = (("out", 0), ("out", 1))
    scratch: list[Buffers] = [(("scratch", i), ("scratch", i + 1)) for i in (0, 2)]
    pairs = [out, scratch[0]] if k == size else scratch
    targets = [pairs[(merges - i) % 2] for i in range(merges)] + [out]
    context = {**order_of(request), "block": _BLOCK}

    def launch(entry: str, buffers: Sequence[Any], last: bool, step: int, *rest: Any) -> Kernel:
        kept = k if last else size
        parts = -(-kept // step) if entry == "merge_runs" else -(-size // step)
        per_item = max(1, _LEAST[kind] // min(step, size))
        near = inner if entry == "sort_blocks" else 1
        apart = inner if last else 1
        numbers = [size, kept, near, apart, parts, lines * parts, per_item, *rest]
        args = (*buffers, *(("ulong", number) for number in numbers))
        items = (-(-lines * parts // per_item),)
        return Kernel(TEMPLATE, entry, args, items, None, context)

    launches = [launch("sort_blocks", (("in", 0), *targets[0]), not merges, _BLOCK)]
    for i in range(merges):
        run = _BLOCK << i
        chunk = min(_CHUNK[kind], 2 * run)
        buffers = (*targets[i], *targets[i + 1])
        launches.append(launch("merge_runs", buffers, i + 1 == merges, chunk, run, chunk))
    sizes = (x.size * DTYPES[x.dtype].itemsize, x.size * 8)
    needed = sizes * (2 if k != size else 1) if merges else ()
    return Kernels(tuple(launches), needed)


def _bind_sort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    shape = shape_of(x)
    place = axis("sort", dim, len(shape))
    down = bool(descending)
    count = shape[place] if shape else 1
    return (x,), {"k": count, "dim": place, "largest": down, "nan_first": down}


def ranked_backward(saved: Saved, grad: Tensor, _: Any) -> Sequence[Any]:
    """Each gradient goes back to the place that its element came from."""
    x, dim = saved.inputs[0], saved.attrs["dim"]
    if not x.ndim:
        return [grad]
    return [ADD_AT_INDEX(grad, saved.outputs[1], dim, "sort", False, False, x.shape)]


def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The indices (int64) that put a tensor in order along an axis; arguments as of `sort`."""
    return ag.sort(input, dim, descending, stable).indices


OPERATORS = (
    Operator(
        name="sort",
        bind=_bind_sort,
        infer=lambda x, k, dim, largest, nan_first: (x, Spec(x.shape, "int64")),
        reference=best,
        backward=ranked_backward,
        saves=(),
        implementations=(Implementation("sort", "merge sort of lines", plan_sort),),
        results=RESULTS,
        parts=(ADD_AT_INDEX,),
        doc="sort(x, dim=-1, descending=False, stable=False): a named tuple of the `values` in "
        "order along an axis and their `indices`; equal ones always keep their order, and NaN "
        "counts as the largest.",
    ),
    composite(argsort, ("input",)),
)
