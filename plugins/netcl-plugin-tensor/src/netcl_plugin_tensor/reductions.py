"""Reductions over any axes: sum, mean, amax, amin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import axes, ndim_of, reduced
from netcl_plugin_tensor.reducing import (
    SUM,
    Combine,
    reduction_kernels,
    reduction_reads,
    reduction_stretch,
    tree_sum,
)
from netcl_plugin_tensor.strided import fill

_LOWEST = {"float": "-INFINITY", "double": "-INFINITY", "int": "INT_MIN", "long": "LONG_MIN"}
_HIGHEST = {"float": "INFINITY", "double": "INFINITY", "int": "INT_MAX", "long": "LONG_MAX"}
MAX: Final = Combine("max", "(a > b || a != a) ? a : b", _LOWEST)
MIN: Final = Combine("min", "(a < b || a != a) ? a : b", _HIGHEST)
_INTEGERS: Final = ("bool", "uint8", "int8", "int16", "int32", "int64")


def _bind(name: str) -> Callable[..., Any]:
    def bind(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return (x,), {"dim": axes(name, dim, ndim_of(x)), "keepdim": bool(keepdim)}

    return bind


def _bind_sum(name: str) -> Callable[..., Any]:
    bind = _bind(name)

    def bind_sum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        wanted = None if dtype is None else _summed_in(name, dtype)
        if wanted is not None and not DTYPES[wanted].floating:
            x = converted(x, wanted)
        (x,), attrs = bind(x, dim, keepdim)
        return (x,), attrs | {"dtype": wanted}

    return bind_sum


def _summed_in(who: str, given: Any) -> str:
    """The dtype in which something is added up; raises DtypeError unless it can be."""
    name = nc.dtype_name(given, who)
    if DTYPES[name].floating or (who == "sum" and name != "bool"):
        return name
    raise DtypeError(message(who, f"dtype={given!r}", "a dtype in which numbers are added up"))


def widest(who: str, given: Any) -> str:
    """A dtype that products and running sums have: a floating one or int64; raises DtypeError."""
    name = nc.dtype_name(given, who)
    if DTYPES[name].floating or name == "int64":
        return name
    raise DtypeError(message(who, f"dtype={given!r}", "a floating dtype or int64"))


def converted(x: Any, dtype: str) -> Any:
    """An operand or host data in another dtype."""
    return ag.as_operand(x).astype(dtype)


def _over(x: Spec, dim: Sequence[int]) -> int:
    """The number of elements that one result is made of."""
    return math.prod(x.shape[i] for i in dim)


def _infer_sum(x: Spec, dim: Sequence[int], keepdim: bool, dtype: str | None) -> Spec:
    given = "int64" if x.dtype in _INTEGERS else x.dtype
    return Spec(reduced(x.shape, dim, keepdim), dtype or given)


def _infer_mean(x: Spec, dim: Sequence[int], keepdim: bool, dtype: str | None) -> Spec:
    if x.dtype in _INTEGERS and dtype is None:
        raise DtypeError(
            message("mean", f"a {x.dtype} tensor", "a floating dtype", "Use astype('float32')")
        )
    return Spec(reduced(x.shape, dim, keepdim), dtype or x.dtype)


def _infer_extreme(name: str) -> Callable[..., Spec]:
    def infer(x: Spec, dim: Sequence[int], keepdim: bool) -> Spec:
        out = Spec(reduced(x.shape, dim, keepdim), x.dtype)
        if out.size and not _over(x, dim):
            raise ShapeError(message(name, f"no elements in {x.shape} over {dim}", "at least one"))
        return out

    return infer


def _plan(combine: Combine, mean: bool = False) -> Callable[[Request], Kernels]:
    def plan(request: Request) -> Kernels:
        (source,), out = request.inputs, request.output
        if not source.size:
            return Kernels(
                (fill(request.device, out, "empty", ("float", math.nan if mean else 0.0)),)
            )
        dim = request.attrs["dim"]
        scale = 1.0 / _over(source, dim) if mean else 1.0
        device, slots = request.device, request.slots
        layout = request.layout(0)
        return reduction_kernels(combine, device, source, dim, out.dtype, scale, slots, layout)

    return plan


def _stretch(request: Request) -> int:
    return reduction_stretch(request.inputs[0].shape, request.attrs["dim"])


def _implementation(name: str, plan: Callable[[Request], Kernels]) -> Implementation:
    return Implementation(
        name, "tree reduction", plan, prologue=True, epilogue=True, stretch=_stretch, reads=_reads
    )


def _reads(request: Request) -> Sequence[bool]:
    return [reduction_reads(request.layout(0), request.attrs["dim"])]


def _expanded(grad: Tensor, saved: Saved) -> Any:
    """The gradient of the result, with 1 in the places of the reduced axes."""
    x, dim = saved.inputs[0], saved.attrs["dim"]
    return ag.reshape(grad, reduced(x.shape, dim, True))


def _sum_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x = saved.inputs[0]
    return [ag.Spread(_expanded(grad, saved).astype(x.dtype), x.shape)]


def _mean_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x = saved.inputs[0]
    count = math.prod(x.shape[i] for i in saved.attrs["dim"])
    each = ag.mul(_expanded(grad, saved), 1.0 / max(count, 1))
    return [ag.Spread(each.astype(x.dtype), x.shape)]


def _extreme_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """Elements that tie share the gradient evenly, as in PyTorch's amax."""
    x, dim = saved.inputs[0], saved.attrs["dim"]
    best = ag.eq(x, _expanded(saved.output, saved))
    count = ag.sum(best, dim, True, dtype=DTYPES[x.dtype].wide)
    share = ag.div(_expanded(grad, saved), count).astype(x.dtype)
    return [ag.where(best, share, 0.0)]


def _reference_sum(x: Any, dim: Sequence[int], keepdim: bool, dtype: str | None) -> Any:
    return tree_sum(x, dim, _accumulator(x, dtype), keepdim)


def _reference_mean(x: Any, dim: Sequence[int], keepdim: bool, dtype: str | None) -> Any:
    total = _reference_sum(x, dim, keepdim, dtype)
    return total / total.dtype.type(math.prod(x.shape[i] for i in dim))


def _accumulator(x: Any, dtype: str | None) -> str:
    """16-bit floats are added up in float32, as the kernels do; whole numbers in int64."""
    out = dtype or ("int64" if x.dtype.name in _INTEGERS else x.dtype.name)
    return DTYPES[out].wide


def _extreme(name: str, combine: Combine, numpy: Callable[..., Any]) -> Operator:
    return Operator(
        name=name,
        bind=_bind(name),
        infer=_infer_extreme(name),
        reference=lambda x, dim, keepdim: numpy(widened(x), tuple(dim), keepdims=keepdim),
        backward=_extreme_backward,
        implementations=(_implementation(name, _plan(combine)),),
        doc=f"{name}(x, dim=None, keepdim=False): the {name[1:]}imum over one, several or all "
        "axes; NaN propagates, ties share the gradient.\n\n"
        f">>> ag.{name}([[1.0, 2.0], [2.0, 2.0]], dim=1).tolist()\n"
        f"[{numpy([1.0, 2.0])}, 2.0]",
    )


OPERATORS = (
    Operator(
        name="sum",
        bind=_bind_sum("sum"),
        infer=_infer_sum,
        reference=_reference_sum,
        backward=_sum_backward,
        saves=(),
        implementations=(_implementation("sum", _plan(SUM)),),
        doc=(
            "sum(x, dim=None, keepdim=False, dtype=None): the sum over one, several or all axes, "
            "in `dtype` if one is given; else integers and bools are summed in int64."
            "\n\n"
            ">>> ag.sum([[1.0, 2.0], [3.0, 4.0]], dim=1).tolist()\n"
            "[3.0, 7.0]"
        ),
    ),
    Operator(
        name="mean",
        bind=_bind_sum("mean"),
        infer=_infer_mean,
        reference=_reference_mean,
        backward=_mean_backward,
        saves=(),
        implementations=(_implementation("mean", _plan(SUM, mean=True)),),
        doc=(
            "mean(x, dim=None, keepdim=False, dtype=None): the mean over one, several or all axes, "
            "in a floating dtype if one is given."
            "\n\n"
            ">>> ag.mean([[1.0, 2.0], [3.0, 4.0]], dim=0).tolist()\n"
            "[2.0, 3.0]"
        ),
    ),
    _extreme("amax", MAX, np.max),
    _extreme("amin", MIN, np.min),
)
