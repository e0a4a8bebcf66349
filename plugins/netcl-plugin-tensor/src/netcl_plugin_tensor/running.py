"""Running results along an axis, by one scan: cumsum, cumprod, logcumsumexp, cummax, cummin.

`scans_gpu` has the launches for GPUs; what is joined is a table in `joins.cl.j2`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import ShapeError, message
from netcl_plugin_tensor import scans_gpu
from netcl_plugin_tensor.axes import axis, ndim_of
from netcl_plugin_tensor.extremes_gpu import shape_along
from netcl_plugin_tensor.reductions import converted, widest
from netcl_plugin_tensor.selecting import GATHER
from netcl_plugin_tensor.sorting import RESULTS

TEMPLATE: Final = "tensor/scan.cl.j2"
#: What takes two values of the type that elements are read as.
_TWOFOLD: Final = ("largest", "smallest", "linear", "discounted", "logsumexp", "runs")


def _scan(name: str, kind: str) -> Implementation:
    def plan(request: Request) -> Kernels:
        x, *others = request.inputs
        join = "discounted" if request.attrs.get("logs") else kind
        shape = shape_along(x, request.attrs["dim"])
        given, out = DTYPES[x.dtype], DTYPES[request.output.dtype]
        acc = _read_as(request, join)
        pair = join == "sum" and acc == "float"
        context = {
            "join": join,
            "storage": given.storage,
            "second": DTYPES[others[0].dtype].storage if others else "",
            "out_storage": out.storage,
            "out_compute": out.compute,
            "acc": acc,
            "pair": pair,
            "reverse": bool(request.attrs.get("reverse")),
            "lag": bool(request.attrs.get("lag")),
        }
        outer, size, inner = shape
        sources = tuple(("in", i) for i in range(len(request.inputs)))
        targets = (("out", 0), ("out", 1)) if join in ("largest", "smallest") else (("out", 0),)
        if scans_gpu.is_divided(request, outer * inner, size, inner):
            width = (8 if acc in ("double", "long") else 4) * (2 if pair or join in _TWOFOLD else 1)
            return scans_gpu.plan(request, shape, width, sources, targets, context)
        args = (*sources, *targets, ("ulong", size), ("ulong", inner))
        return Kernels((Kernel(TEMPLATE, "scan", args, (outer * inner,), None, context),))

    return Implementation(name, "line per item, or in blocks", plan)


def _read_as(request: Request, join: str) -> str:
    """The C type of elements: floats are summed and multiplied in double where there is one."""
    given, out = (DTYPES[spec.dtype] for spec in (request.inputs[0], request.output))
    if join in ("largest", "smallest"):
        wide = shape_along(request.inputs[0], request.attrs["dim"])[1] >= 1 << 32
        return {"float": "double", "int": "long"}.get(given.compute, given.compute) if wide else (
            given.compute)  # fmt: skip
    costly = join in ("logsumexp", "discounted") and request.device.kind != "cpu"
    exact = out.floating and request.device.supports_fp64 and not costly
    return "double" if exact else out.compute


def _shifted(x: Any, dim: int, first: float, back: bool = False) -> Any:
    """What stands one before each element along an axis, or one after; `first` where none does."""
    rest = ag.narrow(x, dim, int(back), x.shape[dim] - 1)
    return ag.constant_pad_nd(rest, (*(0, 0) * (x.ndim - 1 - dim), not back, back), first)


# -- what gradients are made of --------------------------------------------------------------


def _bind_linear(x: Any, added: Any, dim: int, reverse: bool = False, lag: bool = False,
                 logs: bool = False) -> Any:  # fmt: skip
    return (x, added), {"dim": dim, "reverse": reverse, "lag": lag, "logs": logs}


def _infer_linear(x: Spec, added: Spec, dim: int, reverse: bool, lag: bool, logs: bool) -> Spec:
    if x != added:
        raise ShapeError(
            message("linear_recurrence", f"{x} and {added}", "equal shapes and dtypes")
        )
    return x


def _reference_linear(x: Any, added: Any, dim: int, reverse: bool, lag: bool, logs: bool) -> Any:
    order = slice(None, None, -1 if reverse else None)
    factors, sums = (np.moveaxis(operand, dim, -1)[..., order].astype(np.float64)
                     for operand in (x, added))  # fmt: skip
    factors = np.exp(factors) if logs else factors
    factors, step = np.roll(factors, 1, -1) if lag else factors, 1
    factors[..., :1] = 0
    while step < sums.shape[-1]:  # steps that double (Hillis, Steele 1986)
        sums[..., step:] += factors[..., step:] * sums[..., :-step]
        factors[..., step:] = factors[..., step:] * factors[..., :-step]
        step *= 2
    return np.moveaxis(sums[..., order], -1, dim).astype(widened(x).dtype)


def _linear_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, result = saved.inputs[0], saved.outputs[0]
    dim, reverse, lag, logs = (saved.attrs[name] for name in ("dim", "reverse", "lag", "logs"))
    added = RECURRENCE(x, grad, dim, not reverse, not lag, logs)
    if lag:
        factors = ag.mul(_shifted(added, dim, 0.0, not reverse), result)
    else:
        factors = ag.mul(added, _shifted(result, dim, 0.0, reverse))
    return [ag.mul(factors, ag.exp(x)) if logs else factors, added]


#: h[k] = x[k] h[k - 1] + added[k] along an axis, with nothing before the first; `lag`: x[k - 1];
#: `logs`: exp(x) for x, since a factor near 1, once rounded, is off a million times in a long line.
RECURRENCE: Final = Operator(
    name="linear_recurrence",
    bind=_bind_linear,
    infer=_infer_linear,
    reference=_reference_linear,
    backward=_linear_backward,
    saves=(0,),
    implementations=(_scan("linear_recurrence", "linear"),),
    doc="linear_recurrence(x, added, dim, reverse, lag, logs): h[k] = x[k] h[k-1] + added[k].",
)


def _bind_runs(x: Any, places: Any, dim: int) -> Any:
    return (x, places), {"dim": dim, "reverse": True}


def _reference_runs(x: Any, places: Any, dim: int, reverse: bool) -> Any:
    x = widened(x)
    at = list(np.indices(x.shape, sparse=True))
    at[dim] = places
    out = np.zeros(x.shape, np.float64)
    np.add.at(out, tuple(at), x)
    return out.astype(x.dtype)


#: The sums of neighbours that have the same place, each at this place, which is its first one's.
RUN_SUMS: Final = Operator(
    name="run_sums",
    bind=_bind_runs,
    infer=lambda x, places, dim, reverse: x,
    reference=_reference_runs,
    backward=lambda saved, grad: [GATHER(grad, saved.attrs["dim"], saved.inputs[1]), None],
    saves=(1,),
    implementations=(_scan("run_sums", "runs"),),
    doc="run_sums(x, places, dim): the sums of neighbours of one place, each at its place.",
)


# -- running sums and products ---------------------------------------------------------------


def _bind_cumsum(x: Any, dim: int, reverse: bool = False, *, dtype: Any = None) -> Any:
    x = x if dtype is None else converted(x, widest("cumsum", dtype))
    return (x,), {"dim": axis("cumsum", dim, ndim_of(x)), "reverse": reverse}


def _bind_cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    x = input if dtype is None else converted(input, widest("cumprod", dtype))
    return (x,), {"dim": axis("cumprod", dim, ndim_of(x))}


def _infer_sum(x: Spec, dim: int, reverse: bool = False) -> Spec:
    return x if DTYPES[x.dtype].floating else Spec(x.shape, "int64")


def _reference(numpy: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: Any, dim: int, reverse: bool = False) -> Any:
        wide = widened(x)
        wide = wide if wide.dtype.kind == "f" else wide.astype(np.int64)
        if not x.ndim:
            return wide
        ordered = np.flip(wide, dim) if reverse else wide
        exact = np.float64 if wide.dtype == np.float32 else wide.dtype
        total = numpy(ordered, dim, dtype=exact).astype(wide.dtype, copy=False)
        return np.flip(total, dim) if reverse else total

    return reference


def _cumsum_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    return [ag.cumsum(grad, saved.attrs["dim"], not saved.attrs["reverse"])]


def _cumprod_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """What stands before an element, times what follows it: nothing is divided by a 0."""
    x, dim = saved.inputs[0], saved.attrs["dim"]
    if not x.ndim or not x.size:
        return [grad]
    after = RECURRENCE(x, grad, dim, True, True)
    return [ag.mul(_shifted(saved.outputs[0], dim, 1.0), after)]


# -- running logarithms of sums --------------------------------------------------------------


def _bind_exponents(input: Any, dim: int) -> Any:
    x = ag.as_operand(input)
    x = x if DTYPES[x.dtype].floating else x.astype("float32")
    return (x,), {"dim": axis("logcumsumexp", dim, x.ndim)}


def _reference_exponents(x: Any, dim: int) -> Any:
    wide = widened(x)
    total = np.logaddexp.accumulate(wide.astype(np.float64), dim) if x.ndim else wide
    return total.astype(wide.dtype)


def _exponents_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The sum of grad[i] exp(x[k] - y[i]) over i >= k, by factors of at most 1.

    Neighbours y[k - 1] and y[k] that are infinite have the factor exp(0).
    """
    x, result, dim = saved.inputs[0], saved.outputs[0], saved.attrs["dim"]
    if not x.ndim or not x.size:
        return [grad]
    before = _shifted(result, dim, 0.0)
    logs = ag.where(ag.eq(before, result), 0.0, ag.sub(before, result))
    return [ag.mul(ag.exp(ag.sub(x, result)), RECURRENCE(logs, grad, dim, True, True, True))]


# -- running extremes ------------------------------------------------------------------------


def _extremes(name: str, largest: bool) -> Operator:
    numpy = np.maximum if largest else np.minimum

    def bind(input: Any, dim: int) -> Any:
        return (input,), {"dim": axis(name, dim, ndim_of(input))}

    def reference(x: Any, dim: int) -> Any:
        if not x.ndim:
            return x, np.zeros((), np.int64)
        wide = widened(x)
        values = numpy.accumulate(wide, dim)
        along = np.indices(x.shape, sparse=True)[dim]
        places = np.maximum.accumulate(np.where((wide == values) | (wide != wide), along, 0), dim)
        return np.take_along_axis(x, places, dim), places

    def backward(saved: Saved, grad: Tensor, _: Any) -> Sequence[Any]:
        return [RUN_SUMS(grad, saved.outputs[1], saved.attrs["dim"]) if grad.ndim else grad]

    word, given, values, places = (
        ("maxima", [1.0, 3.0, 2.0], [1.0, 3.0, 3.0], [0, 1, 1]) if largest else
        ("minima", [3.0, 1.0, 2.0], [3.0, 1.0, 1.0], [0, 1, 1])
    )  # fmt: skip
    return Operator(
        name=name,
        bind=bind,
        infer=lambda x, dim: (x, Spec(x.shape, "int64")),
        reference=reference,
        backward=backward,
        saves=(),
        implementations=(_scan(name, "largest" if largest else "smallest"),),
        results=RESULTS,
        parts=(RUN_SUMS,),
        doc=f"{name}(input, dim): a named tuple of the running {word} along an axis, `values`, and "
        "their last `indices`; NaN counts as the extreme.\n\n"
        f">>> values, places = ag.{name}({given}, 0)\n"
        f">>> values.tolist(), places.tolist()\n({values}, {places})",
    )


OPERATORS = (
    Operator(
        name="cumsum",
        bind=_bind_cumsum,
        infer=_infer_sum,
        reference=_reference(np.cumsum),
        backward=_cumsum_backward,
        saves=(),
        implementations=(_scan("cumsum", "sum"),),
        doc=(
            "cumsum(x, dim, reverse=False, dtype=None): running sums along an axis, of x in "
            "`dtype` if one is given; else integers in int64."
            "\n\n"
            ">>> ag.cumsum([1.0, 2.0, 3.0], dim=0).tolist()\n"
            "[1.0, 3.0, 6.0]"
        ),
    ),
    Operator(
        name="cumprod",
        bind=_bind_cumprod,
        infer=_infer_sum,
        reference=_reference(np.cumprod),
        backward=_cumprod_backward,
        saves=(0,),
        implementations=(_scan("cumprod", "product"),),
        parts=(RECURRENCE,),
        doc=(
            "cumprod(input, dim, dtype=None): running products along an axis, of the input in "
            "`dtype` if one is given; else integers in int64. Gradients are right where elements "
            "are 0."
            "\n\n"
            ">>> nc.tensor([1.0, 2.0, 0.0, 4.0]).cumprod(0).tolist()\n"
            "[1.0, 2.0, 0.0, 0.0]"
        ),
    ),
    Operator(
        name="logcumsumexp",
        bind=_bind_exponents,
        infer=lambda x, dim: x,
        reference=_reference_exponents,
        backward=_exponents_backward,
        saves=(0,),
        implementations=(_scan("logcumsumexp", "logsumexp"),),
        parts=(RECURRENCE,),
        doc=(
            "logcumsumexp(input, dim): the logarithm of running sums of exp(x) along an axis, "
            "without overflow; integers become float32."
            "\n\n"
            ">>> ag.logcumsumexp([0.0, 0.0], 0).numpy().round(4)\n"
            "array([0.    , 0.6931], dtype=float32)"
        ),
    ),
    _extremes("cummax", True),
    _extremes("cummin", False),
)
