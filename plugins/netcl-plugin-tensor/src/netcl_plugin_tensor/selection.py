"""One element of each line by its rank, without a sort: kthvalue, median, nanmedian."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import Implementation, Operator, Request
from netcl_plugin_tensor.axes import reduced
from netcl_plugin_tensor.extremes_gpu import shape_along
from netcl_plugin_tensor.line_sort import plan_sort
from netcl_plugin_tensor.radix_sort import key_context
from netcl_plugin_tensor.ranking import extreme_backward
from netcl_plugin_tensor.selecting import ADD_AT_INDEX
from netcl_plugin_tensor.sorting import RESULTS, best

TEMPLATE: Final = "tensor/select.cl.j2"
#: Lines of fewer elements are sorted, and long ones of which there are too few for a GPU.
_SHORT: Final = 64
_LONG: Final = 1 << 14
#: Items of a group at most; so many digits there are.
_GROUP: Final = 256


def _group(request: Request, lines: int, size: int) -> int:
    """The items of a line; 0: it is sorted sooner."""
    device = request.device
    if size < _SHORT or size >= 1 << 32:
        return 0
    if device.kind == "cpu":
        return 1
    if size >= _LONG and lines < device.compute_units:
        return 0
    most = min(_GROUP, device.max_work_group_size, max(32, size // 4))
    return 1 << (most.bit_length() - 1)


def _plan(request: Request) -> Kernels:
    (x,), attrs = request.inputs, request.attrs
    outer, size, inner = shape_along(x, attrs["dim"])
    lines = outer * inner
    width = DTYPES[x.dtype].itemsize * 8
    context = {**key_context(request), "rule": attrs["rule"], "width": width}
    out: Any = (("out", 0), ("out", 1))
    numbers: Any = (("ulong", size), ("ulong", inner), ("ulong", attrs["rank"]))
    group = _group(request, lines, size)
    if group:
        args = (("in", 0), *out, *numbers)
        context["group"] = group
        kernel = Kernel(TEMPLATE, "select_rank", args, (lines * group,), (group,), context)
        return Kernels((kernel,))
    order = {"dim": attrs["dim"], "k": size, "largest": False, "nan_first": False}
    asked = Request("sort", request.device, (x,), (x, Spec(x.shape, "int64")), order)
    ranked: Any = (("scratch", 0), ("scratch", 1))
    moved = dict(zip(out, ranked, strict=True))
    pick = Kernel(TEMPLATE, "pick", (*ranked, *out, *numbers), (lines,), None, context)
    scratch = (x.size * width // 8, x.size * 8)
    return Kernels((), scratch).then(plan_sort(asked), moved).then(Kernels((pick,)), {})


def _bind(x: Any, rank: int, rule: str, dim: int, keepdim: bool) -> Any:
    return (x,), {"rank": rank, "rule": rule, "dim": dim, "keepdim": bool(keepdim)}


def _infer(x: Spec, rank: int, rule: str, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    shape = reduced(x.shape, (dim,), keepdim) if x.shape else ()
    return Spec(shape, x.dtype), Spec(shape, "int64")


def _reference(x: Any, rank: int, rule: str, dim: int, keepdim: bool) -> Any:
    lines = x if x.ndim else x.reshape(1)
    size = lines.shape[dim]
    ordered = best(lines, size, dim, False, False)
    known = (ordered[0] == ordered[0]).sum(dim, keepdims=True)
    at = np.full_like(known, rank)
    if rule == "median":
        at = np.where(known < size, size - 1, rank)
    if rule == "nanmedian":
        at = np.maximum(known - 1, 0) // 2
    picked = (np.take_along_axis(array, at, dim) for array in ordered)
    shape = reduced(x.shape, (dim,), keepdim) if x.ndim else ()
    return tuple(array.reshape(shape) for array in picked)


#: The element of `rank`, from 0 on; `rule` is kth, median or nanmedian.
SELECT: Final = Operator(
    name="select_rank",
    bind=_bind,
    infer=_infer,
    reference=_reference,
    backward=extreme_backward,
    saves=(),
    implementations=(Implementation("select_rank", "digits counted, or lines sorted", _plan),),
    results=RESULTS,
    parts=(ADD_AT_INDEX,),
    doc="select_rank(x, rank, rule, dim, keepdim): the element of a rank in each line, its place.",
)
