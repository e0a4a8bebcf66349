"""matmul by NumPy's rules, and bmm."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import HostCall, Spec, Tensor, widened
from netcl_core.autograd import Geometry, Implementation, Operator, Request, Requirements, Saved
from netcl_core.errors import DtypeError, ShapeError, message
from netcl_plugin_linalg.gemm import Product, batches, on_cpus, places_of
from netcl_plugin_linalg.gemm_gpu import on_gpus


def _matrices(a: Spec, b: Spec) -> tuple[Spec, Spec]:
    """Both operands with at least two dimensions: a vector is a row or a column."""
    first = Spec((1, *a.shape), a.dtype) if a.ndim == 1 else a
    second = Spec((*b.shape, 1), b.dtype) if b.ndim == 1 else b
    return first, second


def _bind(a: Any, b: Any, trans_a: bool = False, trans_b: bool = False) -> Any:
    return (a, b), {"trans_a": trans_a, "trans_b": trans_b}


def _bind_bmm(input: Any, mat2: Any) -> Any:
    if np.ndim(input) != 3 or np.ndim(mat2) != 3:
        given = f"{np.ndim(input)} and {np.ndim(mat2)} dimensions"
        raise ShapeError(message("bmm", given, "3 and 3"))
    return _bind(input, mat2)


def _sizes(shape: Sequence[int], transposed: bool) -> tuple[int, int]:
    """The last two sizes, or strides, as a product has them."""
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


def _infer(name: str, a: Spec, b: Spec, trans_a: bool, trans_b: bool) -> Spec:
    if a.dtype != b.dtype:
        raise DtypeError(
            message(name, f"{a.dtype} and {b.dtype}", "one dtype", "Convert one with astype")
        )
    if not a.ndim or not b.ndim:
        raise ShapeError(message(name, f"shapes {a.shape} and {b.shape}", "no 0-d operand"))
    first, second = _matrices(a, b)
    rows, inner = _sizes(first.shape, trans_a)
    other, columns = _sizes(second.shape, trans_b)
    if inner != other:
        raise ShapeError(
            message(
                name,
                f"shapes {a.shape} and {b.shape}",
                f"equal inner sizes, not {inner} and {other}",
            )
        )
    try:
        lead = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    except ValueError:
        given = f"batch dimensions {first.shape[:-2]} and {second.shape[:-2]}"
        raise ShapeError(message(name, given, "sizes that are equal or 1")) from None
    tail = (rows,) * (a.ndim > 1) + (columns,) * (b.ndim > 1)
    return Spec((*lead, *tail), a.dtype)


def product_of(request: Request) -> Product:
    a, b = places_of(request, 0), places_of(request, 1)
    if len(a.shape) == 1:
        a = Geometry((1, *a.shape), (a.shape[0], *a.strides), a.offset)
    if len(b.shape) == 1:
        b = Geometry((*b.shape, 1), (*b.strides, 1), b.offset)
    trans_a, trans_b = request.attrs["trans_a"], request.attrs["trans_b"]
    rows, inner = _sizes(a.shape, trans_a)
    columns = _sizes(b.shape, trans_b)[1]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a_strides = _sizes(a.strides, trans_a)
    b_strides = _sizes(b.strides, trans_b)
    starts = a.offset, b.offset
    return Product(rows, columns, inner, *a_strides, *b_strides, batches(a, b, lead), *starts)


def _reference(a: Any, b: Any, trans_a: bool, trans_b: bool) -> Any:
    first = np.swapaxes(a, -1, -2) if trans_a else a
    second = np.swapaxes(b, -1, -2) if trans_b else b
    if a.dtype == np.bool_:
        return np.matmul(first.astype(np.int32), second.astype(np.int32))
    return np.matmul(widened(first), widened(second))


def _host_product(request: Request) -> HostCall:
    trans_a, trans_b = request.attrs["trans_a"], request.attrs["trans_b"]

    def run(inputs: Sequence[Any], output: Any) -> None:
        a, b = inputs
        first = np.swapaxes(a, -1, -2) if trans_a else a
        second = np.swapaxes(b, -1, -2) if trans_b else b
        np.matmul(first, second, out=output)

    return HostCall(run)


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """dA = G B^T and dB = A^T G, summed over broadcast batches; transposes by flag."""
    a, b = saved.inputs
    first = ag.reshape(a, (1, *a.shape)) if a.ndim == 1 else a
    second = ag.reshape(b, (*b.shape, 1)) if b.ndim == 1 else b
    lead = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    trans_a, trans_b = saved.attrs["trans_a"], saved.attrs["trans_b"]
    rows, columns = _sizes(first.shape, trans_a)[0], _sizes(second.shape, trans_b)[1]
    outer = ag.reshape(grad, (*lead, rows, columns))
    gradients: list[Any] = [None, None]
    if saved.needs[0]:
        part = (
            ag.matmul(second, outer, trans_b, True)
            if trans_a
            else ag.matmul(outer, second, False, not trans_b)
        )
        gradients[0] = ag.reshape(_unbroadcast(part, first.shape), a.shape)
    if saved.needs[1]:
        part = (
            ag.matmul(outer, first, True, trans_a)
            if trans_b
            else ag.matmul(first, outer, not trans_a, False)
        )
        gradients[1] = ag.reshape(_unbroadcast(part, second.shape), b.shape)
    return gradients


def _unbroadcast(part: Any, shape: Sequence[int]) -> Any:
    lead = part.ndim - len(shape)
    over = [
        i for i in range(part.ndim - 2)
        if i < lead or (shape[i - lead] == 1 and part.shape[i] != 1)
    ]  # fmt: skip
    return ag.reshape(ag.sum(part, over), shape) if over else part


#: Lower than the tiles: benchmarks/matmul.py finds it slower or equal, and it waits for the queue.
HOST_PRIORITY = -1
_HOST = Requirements(device_kinds=("cpu",), dtypes=("float32", "float64"))


def _operator(name: str, bind: Any, doc: str) -> Operator:
    return Operator(
        name=name,
        bind=bind,
        infer=partial(_infer, name),
        reference=_reference,
        backward=_backward,
        saves_results=(),
        implementations=(
            on_cpus(name, "packed register tiles", product_of),
            on_gpus(name, product_of),
            Implementation(name, "host BLAS", _host_product, _HOST, priority=HOST_PRIORITY),
        ),
        doc=doc,
    )


MATMUL: Final = _operator(
    "matmul",
    _bind,
    (
        "matmul(a, b, trans_a=False, trans_b=False): the matrix product by NumPy's rules for "
        "vectors, matrices and broadcast batches; the flags transpose the last two dimensions."
        "\n\nBoth have one dtype of any kind; different ones raise DtypeError."
        "\n\n"
        ">>> ag.matmul(nc.rand(8, 2, 3), nc.rand(3, 4)).shape\n"
        "(8, 2, 4)"
    ),
)
BMM: Final = _operator(
    "bmm",
    _bind_bmm,
    (
        "bmm(input, mat2): the products of two batches (B, M, K), (B, K, N)."
        "\n\nOther shapes raise ShapeError, different dtypes DtypeError."
        "\n\n"
        ">>> ag.bmm(nc.rand(8, 2, 3), nc.rand(8, 3, 4)).shape\n"
        "(8, 2, 4)"
    ),
)

OPERATORS: Final = (MATMUL, BMM)
