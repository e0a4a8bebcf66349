"""Selecting by index tensors: index_select, gather, embedding, one_hot, masked_fill.

All three gathers are one pair of kernels over lines: a line is what stays when
every axis but one is fixed. The gradient adds up along each line in order, so
that equal indices neither race nor change the result from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Kernel, Kernels, Operand, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request, Saved, composite
from netcl_core.errors import ArgumentError, AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import axis, plain_shape, shape_of
from netcl_plugin_tensor.strided import fill

TEMPLATE: Final = "tensor/lines.cl.j2"
_STORAGE: Final = {"bool": "uchar", "uint8": "uchar", "int32": "int", "int64": "long",
                   "float16": "half", "float32": "float", "float64": "double"}  # fmt: skip
_INDICES: Final = ("uint8", "int32", "int64")
#: More classes than any memory holds are a mistake.
_MOST_CLASSES: Final = 1 << 31


def _check(inputs: Sequence[Any], attrs: Any) -> None:
    """Raise AttributeValueError if an index is out of range."""
    _check_range(inputs[1], inputs[0].shape[attrs["dim"]], attrs)


def _check_range(index: Any, size: int, attrs: Any) -> None:
    if not index.size:
        return
    low, high = index.int_range()
    if low < 0 or high >= size:
        wrong = low if low < 0 else high
        raise AttributeValueError(
            message(attrs["who"], f"the index {wrong}", f"0 to {size - 1}", "Check the indices")
        )


def _bind_index_select(x: Any, dim: int, index: Any) -> Any:
    who = "index_select"
    return (x, index), {"dim": axis(who, dim, len(shape_of(x))), "who": who, "whole": True}


def _bind_gather(x: Any, dim: int, index: Any) -> Any:
    return (x, index), {"dim": axis("gather", dim, len(shape_of(x))), "who": "gather",
                        "whole": False}  # fmt: skip


def _infer(x: Spec, index: Spec, dim: int, who: str, whole: bool) -> Spec:
    if index.dtype not in _INDICES:
        raise DtypeError(message(who, f"an index of dtype {index.dtype}", "an integer dtype"))
    if whole and (index.ndim != 1 or not x.ndim):
        given = f"x of shape {x.shape} and an index of shape {index.shape}"
        raise ShapeError(message(who, given, "x with dimensions and an index with one"))
    if whole:
        return Spec((*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :]), x.dtype)
    fits = index.ndim == x.ndim and all(
        i == dim or size <= x.shape[i] for i, size in enumerate(index.shape)
    )
    if not fits:
        raise ShapeError(
            message(who, f"x {x.shape} and index {index.shape}",
                    f"index no larger than x except on axis {dim}")
        )  # fmt: skip
    return Spec(index.shape, x.dtype)


def _plan(entry: str) -> Callable[[Request], Kernels]:
    """Lines along `dim`: of the tensor with `size` elements, of the picked one with `picked`."""

    def plan(request: Request) -> Kernels:
        dim = request.attrs["dim"]
        back = entry == "add_lines"
        picked = request.inputs[0] if back else request.output
        full = request.output if back else request.inputs[0]
        whole = request.attrs["whole"]
        inner = math.prod(picked.shape[dim + 1 :])
        outer = math.prod(picked.shape[:dim])
        storage = _STORAGE[full.dtype]
        context = {
            "storage": storage,
            "compute": {"half": "float", "uchar": "int"}.get(storage, storage),
            "index": _STORAGE[request.inputs[1].dtype],
            "whole": whole,
            "dims": len(picked.shape) if not whole else 0,
            "dim": dim,
        }
        numbers = [outer, inner, picked.shape[dim], full.shape[dim],
                   math.prod(full.shape[dim + 1 :])]  # fmt: skip
        if not whole:
            for i, size in enumerate(picked.shape):
                numbers += [size, math.prod(full.shape[i + 1 :])]
        args = (("in", 0), ("in", 1), ("out", 0), *(("ulong", n) for n in numbers))
        kernel = Kernel(TEMPLATE, entry, args, (max(1, outer * inner),), None, context)
        if not back:
            return Kernels((kernel,))
        first = fill(request.output, "zeros", ("int", 0))
        return Kernels((first, kernel) if picked.size else (first,))

    return plan


def _reference(x: Any, index: Any, dim: int, who: str, whole: bool) -> Any:
    places = index.astype(np.int64)
    if whole:
        return np.take(x, places, dim)
    cut = tuple(slice(None) if i == dim else slice(n) for i, n in enumerate(index.shape))
    return np.take_along_axis(x[cut], places, dim)


def _reference_back(grad: Any, index: Any, dim: int, who: str, whole: bool,
                    shape: Sequence[int]) -> Any:  # fmt: skip
    wide = np.float32 if grad.dtype == np.float16 else grad.dtype
    out = np.zeros(shape, wide)
    if whole:
        np.add.at(out, (*[slice(None)] * dim, index.astype(np.int64)), grad)
        return out
    places = list(np.indices(index.shape))
    places[dim] = index.astype(np.int64)
    np.add.at(out, tuple(places), grad)
    return out


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, index = saved.inputs
    attrs = saved.attrs
    return [ADD_AT_INDEX(grad, index, attrs["dim"], attrs["who"], attrs["whole"], x.shape), None]


def _bind_back(grad: Any, index: Any, dim: int, who: str, whole: bool, shape: Any) -> Any:
    sizes = plain_shape("add_at_index", shape)
    dim = axis("add_at_index", dim, len(sizes))
    return (grad, index), {"dim": dim, "who": who, "whole": bool(whole), "shape": sizes}


def _infer_back(grad: Spec, index: Spec, dim: int, who: str, whole: bool,
                shape: tuple[int, ...]) -> Spec:  # fmt: skip
    full = Spec(shape, grad.dtype)
    picked = _infer(full, index, dim, "add_at_index", whole)
    if grad.shape != picked.shape:
        raise ShapeError(message("add_at_index", f"grad of shape {grad.shape}", f"{picked.shape}"))
    return full


def _taken_again(saved: Saved, grad: Tensor) -> Sequence[Any]:
    take = ag.index_select if saved.attrs["whole"] else ag.gather
    return [take(grad, saved.attrs["dim"], saved.inputs[1]), None]


ADD_AT_INDEX: Final = Operator(
    name="add_at_index",
    bind=_bind_back,
    infer=_infer_back,
    reference=_reference_back,
    backward=_taken_again,
    saves=(1,),
    check=lambda inputs, attrs: _check_range(inputs[1], attrs["shape"][attrs["dim"]], attrs),
    implementations=(Implementation("add_at_index", "line per item", _plan("add_lines")),),
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
        check=_check,
        implementations=(Implementation(name, "line per item", _plan("take_lines")),),
        parts=(ADD_AT_INDEX,),
        doc=doc,
    )


# -- composites ------------------------------------------------------------------------------


def embedding(input: Any, weight: Any) -> Any:
    """Rows of `weight` (count, features) picked by class indices of any shape."""
    shape = shape_of(input)
    if not isinstance(weight, Operand):
        raise ArgumentError(
            message(
                "embedding", f"weight is a {type(weight).__name__}", "a tensor (count, features)"
            )
        )
    index = ag.as_operand(input, weight.device)
    flat = ag.index_select(weight, 0, ag.reshape(index, (math.prod(shape),)))
    return ag.reshape(flat, (*shape, shape_of(weight)[1]))


def one_hot(x: Any, num_classes: int = -1) -> Any:
    """int64 of shape (*x.shape, num_classes) with 1 at the class index; -1: as many as needed.

    Raises AttributeValueError if an index is out of range.
    """
    index = x.value if hasattr(x, "value") else Tensor.from_host(x)
    if index.dtype not in _INDICES:
        raise DtypeError(message("one_hot", f"indices of dtype {index.dtype}", "an integer dtype"))
    classes = num_classes
    if classes == -1:
        classes = index.int_range()[1] + 1 if index.size else 0
    ag.check_data(_check_classes, (index,), classes)
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
        "index_select(x, dim, index): slices of x along an axis, picked by a 1-D index.",
    ),
    _operator(
        "gather", _bind_gather, "gather(x, dim, index): out[i] = x at i with i[dim] = index[i]."
    ),
    composite(embedding, ("input", "weight")),
    composite(one_hot),
    composite(masked_fill, ("x", "mask")),
)
