"""Selecting by index tensors: index_select, gather, embedding, one_hot, masked_fill.

All three gathers are one pair of kernels over lines on CPUs: a line is what stays when
every axis but one is fixed; `lines_gpu` has those for other devices. The gradient adds
up along each line in order, so that equal indices neither race nor change the result
from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Requirements, Saved, composite
from netcl_core.errors import ArgumentError, AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_tensor import geometry, lines_gpu
from netcl_plugin_tensor.axes import axis, ndim_of, plain_shape, shape_of
from netcl_plugin_tensor.embedding_rows import by_frequency, renormalized
from netcl_plugin_tensor.line_sums import (
    MOST,
    add_lines,
    line_context,
    line_numbers,
    neighbours,
    places_of_index,
    reads_views,
    rows_of,
)
from netcl_plugin_tensor.strided import fill
from netcl_plugin_tensor.views import BITS

TEMPLATE: Final = "tensor/lines.cl.j2"
_INDICES: Final = ("uint8", "int8", "int16", "int32", "int64")
#: Ops that found the places themselves: none is out of range, and no device is asked for them.
_FOUND: Final = ("max", "sort", "found")
#: Picked elements of an item on a CPU, and bytes that it copies at once.
_CHUNK: Final = 2048
_LINE: Final = 64
#: More classes than any memory holds are a mistake.
_MOST_CLASSES: Final = 1 << 31


def check_index(inputs: Sequence[Any], attrs: Any) -> None:
    """Raise AttributeValueError if an index is out of range."""
    if attrs["who"] in _FOUND:
        return
    _check_range(inputs[1], inputs[0].shape[attrs["dim"]], attrs)


def _check_added(inputs: Sequence[Any], attrs: Any) -> None:
    if attrs["who"] not in _FOUND:
        _check_range(inputs[1], attrs["shape"][attrs["dim"]], attrs)


def _check_range(index: Any, size: int, attrs: Any) -> None:
    if not index.size:
        return
    least = -size if attrs["wraps"] else 0
    low, high = index.int_range(True)
    if low < least or high >= size:  # perhaps only beside what a view shows
        low, high = index.int_range()
    if low < least or high >= size:
        wrong = low if low < least else high
        expected = f"{least} to {size - 1}"
        if attrs["wraps"]:  # as NumPy has it
            raise IndexError(message(attrs["who"], f"the index {wrong}", expected))
        raise AttributeValueError(
            message(attrs["who"], f"the index {wrong}", expected, "Check the indices")
        )


def _bind_index_select(x: Any, dim: int, index: Any) -> Any:
    who = "index_select"
    attrs = {"dim": axis(who, dim, ndim_of(x)), "who": who, "whole": True, "wraps": False}
    return (x, index), attrs


def _bind_take(x: Any, dim: int, index: Any, who: str = "getitem") -> Any:
    return (x, index), {"dim": dim, "who": who, "whole": True, "wraps": True}


def _bind_found(x: Any, dim: int, index: Any) -> Any:
    attrs = {"dim": axis("gather", dim, ndim_of(x)), "who": "found"}
    return (x, index), {**attrs, "whole": False, "wraps": False}


def _bind_gather(x: Any, dim: int, index: Any) -> Any:
    return (x, index), {"dim": axis("gather", dim, ndim_of(x)), "who": "gather",
                        "whole": False, "wraps": False}  # fmt: skip


def _infer(x: Spec, index: Spec, dim: int, who: str, whole: bool, wraps: bool = False) -> Spec:
    if index.dtype not in _INDICES:
        raise DtypeError(message(who, f"an index of dtype {index.dtype}", "an integer dtype"))
    if whole and (index.ndim != 1 or not x.ndim):
        given = f"x of shape {x.shape} and an index of shape {index.shape}"
        raise ShapeError(message(who, given, "x with dimensions and an index with one"))
    if whole:
        return Spec((*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :]), x.dtype)
    fits = 0 < index.ndim == x.ndim and all(
        i == dim or size <= x.shape[i] for i, size in enumerate(index.shape)
    )
    if not fits:
        raise ShapeError(
            message(who, f"x {x.shape} and index {index.shape}",
                    f"index no larger than x except on axis {dim}")
        )  # fmt: skip
    return Spec(index.shape, x.dtype)


def _take(request: Request) -> Kernels:
    items = -(-request.output.size // _CHUNK)
    return Kernels((_lines("take_lines", request, 0, request.output, request.inputs[0], items),))


def _add(request: Request) -> Kernels:
    first = fill(request.device, request.output, "zeros", ("int", 0))
    return collected(request, "add", first, 0)


def _implementations(
    operator: str,
    cpu: Callable[[Request], Kernels],
    others: Callable[[Request], Kernels],
    reads: Callable[[Request], Sequence[bool]],
) -> tuple[Implementation, ...]:
    own, kinds = (Requirements(device_kinds=of) for of in (("cpu",), ("gpu", "accelerator")))
    return (
        Implementation(operator, "line per item", cpu, own, reads=reads),
        Implementation(operator, "element per item", others, kinds, reads=reads),
    )


def _reads_index(request: Request) -> Sequence[bool]:
    """One number per slice may lie anywhere."""
    return False, request.attrs["whole"]


def _reads_rows(request: Request) -> Sequence[bool]:
    """The same, and rows without gaps, where sums are found so."""
    picked, full = request.inputs[0], request.output
    own = request.device.kind == "cpu" or lines_gpu.is_line_per_item(
        request, lines_gpu.lines_of(request, picked, full)
    )
    reads = (reads_views if own else lines_gpu.reads_views)(request, picked, full)
    return reads and rows_of(request, picked) is not None, reads


def collected(request: Request, entry: str, first: Kernel, source: int) -> Kernels:
    """A launch that fills the output, and those that add or put input `source` at the index 1."""
    picked, full = request.inputs[source], request.output
    if not picked.size:
        return Kernels((first,))
    along = lines_gpu.lines_of(request, picked, full)
    if request.device.kind == "cpu" or lines_gpu.is_line_per_item(request, along):
        if entry == "add":
            return add_lines(request, picked, full)
        return Kernels((first, _put(request, picked, full, source)))
    exact = lines_gpu.by_atomics(request, picked, full) if entry == "add" else None
    if exact is not None:
        return exact
    return Kernels((first,)).then(lines_gpu.collect(request, entry, picked, full, source), {})


def _put(request: Request, picked: Spec, full: Spec, source: int) -> Kernel:
    width = neighbours(request, picked) if request.attrs["whole"] else 1
    lines = picked.size // picked.shape[request.attrs["dim"]]
    return _lines("put_lines", request, source, picked, full, lines // width, width)


def _lines(
    entry: str, request: Request, source: int, picked: Spec, full: Spec, items: int, width: int = 0
) -> Kernel:
    """A launch that goes along the lines of `picked` and of `full`, of which it holds parts."""
    numbers = (*line_numbers(request, picked, full), *places_of_index(request))
    args = (("in", source), ("in", 1), ("out", 0), *numbers)
    size, whole = DTYPES[full.dtype].itemsize, request.attrs["whole"]
    inner = math.prod(picked.shape[request.attrs["dim"] + 1 :])
    context = {**line_context(request, picked, full), "bits": BITS[size], "chunk": _CHUNK,
               "width": width or min(16, _LINE // size), "slices": whole and inner > 1,
               "apart": bool(request.layouts)}  # fmt: skip
    on_cpu = request.device.kind == "cpu"
    sizes = ((items,), (1,)) if on_cpu else geometry.groups(request.device, items)
    return Kernel(TEMPLATE, entry, args, *sizes, context)


def _reference(x: Any, index: Any, dim: int, who: str, whole: bool, wraps: bool) -> Any:
    places = index.astype(np.int64)
    if whole:
        return np.take(x, places, dim)
    cut = tuple(slice(None) if i == dim else slice(n) for i, n in enumerate(index.shape))
    return np.take_along_axis(x[cut], places, dim)


def _reference_back(grad: Any, index: Any, dim: int, who: str, whole: bool, wraps: bool,
                    shape: Sequence[int]) -> Any:  # fmt: skip
    grad = widened(grad)
    places: list[Any] = [slice(None)] * dim if whole else list(np.indices(index.shape))
    places[dim:] = [index.astype(np.int64), *places[dim + 1 :]]
    wide = grad.dtype == np.float32 and _is_crowded(places[dim], dim, whole, shape)
    out = np.zeros(shape, np.float64 if wide else grad.dtype)
    np.add.at(out, tuple(places), grad.astype(out.dtype, copy=False))
    return out.astype(grad.dtype, copy=False)


def _is_crowded(index: Any, dim: int, whole: bool, shape: Sequence[int]) -> bool:
    """Whether some place is named so often that a sum of floats would lose digits there."""
    if index.shape[0 if whole else dim] <= MOST:
        return False
    lines = index if whole else np.moveaxis(index, dim, -1).reshape(-1, index.shape[dim])
    first = 0 if whole else shape[dim] * np.arange(len(lines))[:, None]
    return bool(np.bincount((lines % shape[dim] + first).reshape(-1)).max() > MOST)


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, index = saved.inputs
    found = {**saved.attrs, "who": "found"}  # it is as it was when its range was looked at
    return [ADD_AT_INDEX(grad, index, **found, shape=x.shape), None]


def _bind_back(
    grad: Any, index: Any, dim: int, who: str, whole: bool, wraps: bool, shape: Any
) -> Any:
    sizes = plain_shape("add_at_index", shape)
    dim = axis("add_at_index", dim, len(sizes))
    flags = {"whole": bool(whole), "wraps": bool(wraps)}
    return (grad, index), {"dim": dim, "who": who, **flags, "shape": sizes}


def _infer_back(grad: Spec, index: Spec, dim: int, who: str, whole: bool, wraps: bool,
                shape: tuple[int, ...]) -> Spec:  # fmt: skip
    full = Spec(shape, grad.dtype)
    picked = _infer(full, index, dim, "add_at_index", whole)
    if grad.shape != picked.shape:
        raise ShapeError(message("add_at_index", f"grad of shape {grad.shape}", f"{picked.shape}"))
    return full


def _taken_again(saved: Saved, grad: Tensor) -> Sequence[Any]:
    whole = TAKE if saved.attrs["wraps"] else ag.index_select
    take = whole if saved.attrs["whole"] else ag.gather
    return [take(grad, saved.attrs["dim"], saved.inputs[1]), None]


ADD_AT_INDEX: Final = Operator(
    name="add_at_index",
    bind=_bind_back,
    infer=_infer_back,
    reference=_reference_back,
    backward=_taken_again,
    saves=(1,),
    saves_results=(),
    check=_check_added,
    implementations=_implementations("add_at_index", _add, _add, _reads_rows),
    doc="add_at_index(grad, index, dim, ...): zeros with grad added up at the indices.",
)


def _operator(name: str, bind: Any, doc: str) -> Operator:
    return Operator(
        name=name,
        bind=bind,
        infer=_infer,
        reference=_reference,
        backward=_backward,
        saves=(1,),
        saves_results=(),
        check=check_index,
        implementations=_implementations(name, _take, lines_gpu.take, _reads_index),
        parts=(ADD_AT_INDEX,),
        doc=doc,
    )


#: What `x[..., index, ...]` is: a negative index counts from the end.
TAKE: Final = _operator(
    "take_along", _bind_take, "take_along(x, dim, index): index_select that counts back from 0."
)

#: `gather` at places that an op found itself, of which none is out of range.
GATHER: Final = _operator(
    "gather_found", _bind_found, "gather_found(x, dim, index): gather without a look at the index."
)

# -- composites ------------------------------------------------------------------------------


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
) -> Any:
    """Rows of `weight` (count, features) picked by class indices of any shape.

    >>> ag.embedding(nc.tensor([[1, 0]]), nc.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[[3.0, 4.0], [1.0, 2.0]]]

    Args:
        input: Integers of any shape.
        weight: The rows.
        padding_idx: The index (negative: from the end) of a row that gets no gradient.
        max_norm: Rows that are named and longer are scaled to this length first, in place.
        norm_type: The p of that length.
        scale_grad_by_freq: Whether gradients of rows are divided by how often the row is named.

    Raises AttributeValueError for an index out of range, ShapeError for a weight that is no matrix.
    """
    shape = shape_of(input)
    if not isinstance(weight, Tensor):
        raise ArgumentError(
            message(
                "embedding", f"weight is a {type(weight).__name__}", "a tensor (count, features)"
            )
        )
    if weight.ndim != 2:
        given = f"weight of shape {weight.shape}"
        raise ShapeError(message("embedding", given, "(count, features)"))
    index = ag.as_operand(input, weight.device)
    if max_norm is not None:
        renormalized(weight, index, max_norm, norm_type)
    if len(shape) == 1:
        rows = ag.index_select(weight, 0, index)
    else:
        flat = ag.index_select(weight, 0, ag.reshape(index, (math.prod(shape),)))
        rows = ag.reshape(flat, (*shape, weight.shape[1]))
    if scale_grad_by_freq and index.size:
        rows = by_frequency(rows, index, None, weight.shape[0])
    if padding_idx is None:
        return rows
    padding = axis("embedding", padding_idx, weight.shape[0])
    return ag.where(ag.unsqueeze(ag.eq(index, padding), -1), rows.detach(), rows)


def one_hot(x: Any, num_classes: int = -1) -> Any:
    """int64 of shape (*x.shape, num_classes) with 1 at the class index; -1: as many as needed.

    Raises AttributeValueError if an index is out of range.

    >>> ag.one_hot([0, 2], 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    index = ag.as_operand(x)
    if index.dtype not in _INDICES:
        raise DtypeError(message("one_hot", f"indices of dtype {index.dtype}", "an integer dtype"))
    classes = num_classes
    if classes == -1:
        classes = index.value.int_range()[1] + 1 if index.size else 0
    ag.check_data(_check_classes, (index.value,), classes)
    if classes > _MOST_CLASSES:
        expected = f"at most {_MOST_CLASSES} classes"
        raise AttributeValueError(message("one_hot", f"num_classes={num_classes}", expected))
    names = Tensor.from_host(np.arange(classes, dtype=np.int64), index.device)
    return ag.eq(ag.unsqueeze(index, -1), names).astype("int64")


def _check_classes(operands: Sequence[Any], classes: Any) -> None:
    low, high = operands[0].int_range() if operands[0].size else (0, -1)
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise AttributeValueError(message("one_hot", f"the index {wrong}", f"0 to {classes - 1}"))


def masked_fill(x: Any, mask: Any, value: float) -> Any:
    """`x` with `value`, in x's dtype, wherever the bool `mask` (broadcast to x) is set.

    Raises AttributeValueError for a value that is not whole where x is.

    >>> ag.masked_fill([1.0, 2.0], [True, False], 0.0).tolist()
    [0.0, 2.0]
    """
    dtype = str(getattr(x, "dtype", ""))
    if isinstance(value, (int, float)) and dtype in ("bool", *_INDICES):
        if not float(value).is_integer():
            expected = f"a whole number for a {dtype} tensor"
            raise AttributeValueError(message("masked_fill", f"value={value!r}", expected))
        value = bool(value) if dtype == "bool" else int(value)
    return ag.where(mask, value, x)


OPERATORS = (
    _operator(
        "index_select",
        _bind_index_select,
        (
            "index_select(x, dim, index): slices of x along an axis, picked by a 1-D index."
            "\n\n"
            ">>> ag.index_select([[1.0, 2.0], [3.0, 4.0]], 0, [1, 1]).tolist()\n"
            "[[3.0, 4.0], [3.0, 4.0]]"
        ),
    ),
    _operator(
        "gather",
        _bind_gather,
        (
            "gather(x, dim, index): out[i] = x at i with i[dim] = index[i]."
            "\n\n"
            ">>> ag.gather([[1.0, 2.0], [3.0, 4.0]], 1, [[1], [0]]).tolist()\n"
            "[[2.0], [3.0]]"
        ),
    ),
    composite(embedding, ("input", "weight")),
    composite(one_hot),
    composite(masked_fill, ("x", "mask")),
)
