"""Rows of products, norms, losses and their gradients, on netcl's fused ops."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import torch
from netcl_plugin_linalg.linear import PARAMETER_GRADIENTS
from netcl_plugin_tensor.norm_runs import NORM_RUNS

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_torch.dispatch import (
    Unfit,
    by_row,
    decompositions,
    direct,
    overload,
    raw_of,
    row,
)  # fmt: skip
from netcl_plugin_torch.prepared import Prepared
from netcl_plugin_torch.records import NetclRecord, Record, recorded
from netcl_plugin_torch.tensor import record_of, wrap, wrap_later, write

aten = torch.ops.aten

# -- products ------------------------------------------------------------------------------------


def _stored(x: Any) -> tuple[Any, bool]:
    """A matrix as it is stored, and whether that is its transpose."""
    geometry = x.geometry
    if geometry is None or x.ndim < 2 or geometry.is_contiguous:
        return x, False
    *lead, rows, columns = geometry.shape
    other = ag.Geometry(
        (*lead, columns, rows),
        (*geometry.strides[:-2], geometry.strides[-1], geometry.strides[-2]),
        geometry.offset,
    )
    return (x.viewed(other), True) if other.is_contiguous else (x, False)


@row("mm", "bmm")
def product(a: Any, b: Any) -> Any:
    if a.dtype != b.dtype:
        raise Unfit("operands of two dtypes")
    if a.shape[-1] != b.shape[-2]:
        shapes = f"({'x'.join(map(str, a.shape))} and {'x'.join(map(str, b.shape))})"
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied {shapes}")
    (a, first), (b, second) = _stored(a), _stored(b)
    return ag.matmul(a, b, trans_a=first, trans_b=second)


@row("addmm", "baddbmm")
def addmm(bias: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    multiplied = product(a, b)
    if not nc.DTYPES[multiplied.dtype].floating:
        beta, alpha = int(beta), int(alpha)
    if alpha != 1:
        multiplied = multiplied * alpha
    if beta == 0:
        return multiplied
    return multiplied + (bias if beta == 1 else bias * beta)


@row("addmv")
def addmv(bias: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = vector_product(a, b)
    if not nc.DTYPES[product.dtype].floating:  # which PyTorch multiplies by whole numbers
        beta, alpha = int(beta), int(alpha)
    product = product * alpha
    return product if beta == 0 else product + bias * beta


@row("mv", "dot")
def vector_product(a: Any, b: Any) -> Any:
    if a.dtype != b.dtype:
        raise Unfit("operands of two dtypes")
    return ag.matmul(a, b)


def _is_linear(x: Any, weight: Any, bias: Any) -> bool:
    """Whether netcl's op takes these operands; others PyTorch makes of products and sums."""
    if x.dim() == 0 or weight.dim() != 2 or x.dtype != weight.dtype:
        return False
    sizes, dtype = weight.shape, weight.dtype
    if x.shape[-1] != sizes[1]:
        return False
    return bias is None or (bias.dim() == 1 and bias.shape[0] == sizes[0] and bias.dtype == dtype)


@direct("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    if _is_linear(x, weight, bias):
        return _LINEAR(x, weight, bias)
    return aten.linear.default.decompose(x, weight, bias)


@row("linear_backward")
def linear_backward(x: Any, grad: Any, weight: Any, mask: Sequence[bool]) -> Any:
    gradients: list[Any] = [None, None, None]
    if mask[0]:
        gradients[0] = ag.matmul(grad, weight)
    if grad.ndim != 2:
        grad, x = (_lines(operand) for operand in (grad, x))
    if mask[1] and mask[2]:
        gradients[1:] = PARAMETER_GRADIENTS(grad, x)
    elif mask[1]:
        gradients[1] = ag.matmul(grad, x, True)
    elif mask[2]:
        gradients[2] = ag.sum(grad, 0)
    return gradients


def _lines(x: Any) -> Any:
    """A tensor as a matrix, whose rows are its last dimension."""
    shape = (math.prod(x.shape[:-1]), x.shape[-1])
    return x.alias(shape) if type(x) is nc.Tensor and x.geometry is None else ag.reshape(x, shape)


# -- what an op keeps for its gradient ---------------------------------------------------------


def needs_record(*tensors: Any) -> bool:
    """Whether PyTorch may ask for a gradient of these."""
    if getattr(_GRAPH, "records", False):
        return True
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


@contextlib.contextmanager
def recording(records: bool) -> Iterator[None]:
    """Whether ops in here are a compiled forward pass, in which no tensor says that it needs a
    gradient.
    """
    before = getattr(_GRAPH, "records", False)
    _GRAPH.records = records
    try:
        yield
    finally:
        _GRAPH.records = before


_GRAPH: Final = threading.local()


def _plain(*tensors: Any) -> list[Any]:
    return [None if x is None else raw_of(x) for x in tensors]


def forward_of(
    function: Callable[..., Any], tensors: Sequence[Any], statistics: Callable[..., Any],
    shapes: Sequence[Any], wanted: Sequence[bool] | None = None, dtype: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """The result of an op, and statistics of its operands, the first with netcl's record.

    `wanted` says of which tensors there will be gradients; None: of all, if of any. `dtype` is
    that of the statistics; None: float32, or float64.
    """
    raws = _plain(*tensors)
    records = needs_record(*tensors) if wanted is None else any(wanted)
    (value, *_), record = called(function, raws, statistics, records, wanted)
    return given(value, record, shapes, dtype)


def called(
    function: Callable[..., Any], raws: Sequence[Any], statistics: Callable[..., Any],
    records: bool, wanted: Sequence[bool] | None = None,
) -> tuple[Sequence[Any], Record]:  # fmt: skip
    """The results of a function as values, and its record."""
    if records:
        output, leaves = recorded(function, raws, wanted)
    else:
        with ag.no_grad():
            output, leaves = function(*raws), [*raws]
    outputs = output if isinstance(output, tuple) else (output,)
    return [x.value for x in outputs], NetclRecord(
        outputs[0] if records else None, leaves, statistics
    )


def given(value: Any, record: Record, shapes: Sequence[Any], dtype: Any = None) -> tuple[Any, ...]:
    """A result, and the statistics that a record has, as PyTorch's tensors."""
    # on its memory without its version: no gradient here reads the result
    raw = nc.Tensor(value.buffer, value.shape, value.dtype, value.device)
    dtype = dtype or (torch.float64 if value.dtype == "float64" else torch.float32)
    return wrap(raw), *[wrap_later(shape, dtype, record, i) for i, shape in enumerate(shapes)]


def backward_of(
    statistic: Any, function: Callable[..., Any], tensors: Sequence[Any], grad: Any,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    """The gradients by the kept record; without one the op is computed again."""
    record = record_of(statistic)
    if record is None:
        output, leaves = recorded(function, _plain(*tensors), wanted)
        record = NetclRecord(output, leaves, lambda *_: ())
    gradients = record.gradients(grad.raw, wanted)
    return tuple(
        [None if gradients[i] is None or not want else wrap(gradients[i])
         for i, want in enumerate(wanted)]
    )  # fmt: skip


# -- norms -----------------------------------------------------------------------------------------


def _moments(dims: Sequence[int], eps: float, keep: bool, x: Any, *_: Any) -> tuple[Any, Any]:
    """The mean, and one by the standard deviation."""
    wide = x if x.dtype == "float64" else x.astype("float32")
    return ag.mean(wide, tuple(dims), keep), ag.rsqrt(ag.var(wide, tuple(dims), 0, keep) + eps)


def _norm_records(x: Any, weight: Any, bias: Any, *_: Any) -> bool:
    return needs_record(x, weight, bias)


def _layer_norm_records(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> bool:
    return needs_record(x, weight, bias)


def _layer_norm(shape: Sequence[int], eps: float) -> Callable[..., Any]:
    return lambda x, weight, bias: ag.layer_norm(x, tuple(shape), weight, bias, eps)


@direct("native_layer_norm", depends=_layer_norm_records)
def native_layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    lead = x.dim() - len(shape)
    if tuple(x.shape[lead:]) != tuple(shape):
        text = f"Given normalized_shape={list(shape)}, expected input with shape [*, "
        raise RuntimeError(
            f"{text}{', '.join(map(str, shape))}], but got input of size{list(x.shape)}"
        )
    statistics = partial(_moments, range(lead, x.dim()), eps, True)
    sizes = (*x.shape[:lead], *(1,) * len(shape))
    function = _layer_norm(shape, eps)
    return forward_of(function, (x, weight, bias), statistics, [sizes, sizes])


@direct("native_layer_norm_backward")
def native_layer_norm_backward(grad: Any, x: Any, shape: Any, mean: Any, rstd: Any, weight: Any,
                               bias: Any, mask: Any) -> Any:  # fmt: skip
    # any eps: without a record the operand is normalized by what rstd says
    eps = 1e-5 if record_of(mean) is not None else _eps_of(x, rstd, len(shape))
    return backward_of(mean, _layer_norm(shape, eps), (x, weight, bias), grad, mask)


def _eps_of(x: Any, rstd: Any, dims: int) -> float:
    """The eps with which one by a standard deviation was computed."""
    if not x.numel():
        return 1e-5
    variance = x.var(tuple(range(-dims, 0)), correction=0, keepdim=True)
    return max(0.0, float((rstd.pow(-2) - variance).reshape(-1)[0]))


@direct("native_group_norm", depends=_norm_records)
def native_group_norm(x: Any, weight: Any, bias: Any, n: int, c: int, hw: int, groups: int,
                      eps: float) -> Any:  # fmt: skip
    def statistics(raw: Any, *_: Any) -> Any:
        return _moments((2,), eps, False, ag.reshape(raw, (n, groups, c // groups * hw)))

    function, shape = _group_norm(groups, eps), (n, groups)
    return forward_of(function, (x, weight, bias), statistics, [shape, shape])


def _group_norm(groups: int, eps: float) -> Callable[..., Any]:
    return lambda x, weight, bias: ag.group_norm(x, groups, weight, bias, eps)


@direct("native_group_norm_backward")
def native_group_norm_backward(grad: Any, x: Any, mean: Any, rstd: Any, weight: Any, n: int,
                               c: int, hw: int, groups: int, mask: Any) -> Any:  # fmt: skip
    if record_of(mean) is None:
        return by_decomposition("native_group_norm_backward")(
            grad, x, mean, rstd, weight, n, c, hw, groups, mask
        )
    return backward_of(mean, _group_norm(groups, 0.0), (x, weight, None), grad, mask)


def by_decomposition(name: str) -> Callable[..., Any]:
    """PyTorch's Python code for an op."""
    return decompositions()[overload(name)]


def _batch_norm(
    mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Callable[..., Any]:
    return lambda x, weight, bias: ag.batch_norm(
        x, mean, var, weight, bias, training, momentum, eps
    )


@direct("native_batch_norm", "_native_batch_norm_legit", depends=_norm_records)
def native_batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool,
                      momentum: float, eps: float) -> Any:  # fmt: skip
    running = _plain(mean, var)
    dims = [i for i in range(x.dim()) if i != 1]
    if not training:
        function = _batch_norm(running[0], running[1], training, momentum, eps)
        statistics: Any = lambda *_: (nc.zeros(0), nc.zeros(0))  # noqa: E731 - short
        return forward_of(function, (x, weight, bias), statistics, [(0,), (0,)])
    shapes, statistics = [(x.shape[1],)] * 2, partial(_moments, dims, eps, False)
    if None in running or x.numel() < 2 * x.shape[1] or not eps > 0:
        function = _batch_norm(running[0], running[1], training, momentum, eps)
        return forward_of(function, (x, weight, bias), statistics, shapes)
    *results, new_mean, new_var = _BATCH_NORM(x, weight, bias, mean, var, momentum, eps)
    for statistic, moved in ((mean, new_mean), (var, new_var)):
        write(statistic, moved.__dict__.pop("raw"))
    return tuple(results)


def _of_batch(x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float,
              eps: float) -> Any:  # fmt: skip
    """The norm, the records of its statistics, and the running ones after it."""
    dims, shape = [i for i in range(x.dim()) if i != 1], (x.shape[1],)

    def norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any) -> Any:
        return NORM_RUNS(x, weight, bias, 0, eps, mean, var, momentum)

    operands, statistics = _plain(x, weight, bias, mean, var), partial(_moments, dims, eps, False)
    records = needs_record(x, weight, bias)
    results, record = called(norm, operands, statistics, records, (True, True, True))
    return *given(results[0], record, [shape, shape]), *map(wrap, results[3:])


_BATCH_NORM: Final = Prepared(_of_batch, _norm_records)


@direct("_native_batch_norm_legit.no_stats")
def batch_norm_without_running(x: Any, weight: Any, bias: Any, training: bool, momentum: float,
                               eps: float) -> Any:  # fmt: skip
    return native_batch_norm(x, weight, bias, None, None, training, momentum, eps)


@direct("native_batch_norm_backward")
def native_batch_norm_backward(
    grad: Any, x: Any, weight: Any, mean: Any, var: Any, save_mean: Any, save_invstd: Any,
    training: bool, eps: float, mask: Any,
) -> Any:  # fmt: skip
    running = [None, None] if training else _plain(mean, var)
    function = _batch_norm(running[0], running[1], training, 0.0, eps)
    bias = None  # of which a record knows
    if weight is not None and record_of(save_mean) is None:
        bias = torch.zeros_like(weight)
    gradients = backward_of(save_mean, function, (x, weight, bias), grad, mask)
    if mask[2] and gradients[2] is None:
        dims = [i for i in range(x.dim()) if i != 1]
        return *gradients[:2], grad.sum(dims)
    return gradients


# -- softmax, losses, embedding -----------------------------------------------------------------


def _softmaxes(name: str, function: Callable[..., Any]) -> None:
    @row(name)
    def forward(x: Any, dim: int, half_to_float: bool) -> Any:
        if x.ndim == 0:
            return function(ag.reshape(x, (1,)), dim).reshape(())
        return function(x, dim)


_softmaxes("_softmax", ag.softmax)
_softmaxes("_log_softmax", ag.log_softmax)


@row("_softmax_backward_data")
def softmax_backward(grad: Any, out: Any, dim: int, dtype: Any) -> Any:
    if out.ndim == 0:
        return grad * 0
    return _SOFTMAX_GRADIENT(grad, out, dim)


@row("_log_softmax_backward_data")
def log_softmax_backward(grad: Any, out: Any, dim: int, dtype: Any) -> Any:
    if out.ndim == 0:
        return grad * 0
    return _LOG_SOFTMAX_GRADIENT(grad, out, dim)


_SOFTMAX_GRADIENT = ag.jit_compile(
    lambda grad, out, dim: out * (grad - ag.sum(grad * out, dim=dim, keepdim=True))
)
_LOG_SOFTMAX_GRADIENT = ag.jit_compile(
    lambda grad, out, dim: grad - ag.exp(out) * ag.sum(grad, dim=dim, keepdim=True)
)
_REDUCTIONS = ("none", "mean", "sum")


def _nll(reduction: int, ignore: int) -> Callable[..., Any]:
    return lambda x, target, weight: ag.nll_loss(x, target, weight, ignore, _REDUCTIONS[reduction])


def _total_weight(reduction: int, ignore: int, x: Any, target: Any, weight: Any) -> Any:
    if reduction == 0:
        return (nc.zeros((), dtype=x.dtype),)
    counts = ag.ne(target, ignore)
    if weight is not None:
        counts = ag.where(counts, ag.index_select(weight, 0, _safe(target, counts)), 0.0)
    return (ag.sum(counts.astype("float32")).astype(x.dtype),)


def _safe(target: Any, counts: Any) -> Any:
    return ag.reshape(ag.where(counts, target, 0), (-1,))


@direct("nll_loss_forward", "nll_loss2d_forward", depends=lambda x, *_: needs_record(x))
def nll_loss_forward(x: Any, target: Any, weight: Any, reduction: int, ignore: int) -> Any:
    operands, statistics = (x, target, weight), partial(_total_weight, reduction, ignore)
    return forward_of(_nll(reduction, ignore), operands, statistics, [()], None, x.dtype)


@direct("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(grad: Any, x: Any, target: Any, weight: Any, reduction: int, ignore: int,
                      total_weight: Any) -> Any:  # fmt: skip
    operands, wanted = (x, target, weight), (True, False, False)
    return backward_of(total_weight, _nll(reduction, ignore), operands, grad, wanted)[0]


@row("embedding")
def embedding(weight: Any, indices: Any, *_: Any) -> Any:
    if type(indices) is not nc.Tensor or indices.geometry is not None or not indices.size:
        return ag.embedding(indices, weight)
    rows = ag.index_select(weight, 0, indices.alias((indices.size,)))
    return nc.Tensor(rows.memory, (*indices.shape, weight.shape[1]), rows.dtype, rows.device)


@row("embedding_dense_backward")
def embedding_dense_backward(grad: Any, indices: Any, count: int, padding: int,
                             scale: bool) -> Any:  # fmt: skip
    if scale:
        raise Unfit("scale_grad_by_freq")
    width = grad.shape[-1]
    zeros = nc.zeros((count, width), dtype=grad.dtype)
    flat, rows = ag.reshape(indices, (-1,)), ag.reshape(grad, (-1, width))
    if padding >= 0:
        rows = ag.where(ag.reshape(ag.ne(flat, padding), (-1, 1)), rows, 0.0)
    return ag.index_add(zeros, 0, flat, rows)


_LINEAR: Final = by_row(aten.linear.default, ag.linear)


def register(library: Any) -> None:
    """Let PyTorch take `linear` for one op, whose gradient is one as well."""
    library.impl("linear", linear, "PrivateUse1")
