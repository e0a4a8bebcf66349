"""Statistics made of other ops: prod, var, std, logsumexp, l2_normalize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved, composite
from netcl_plugin_tensor.axes import Dims, axes, ndim_of, reduced, shape_of
from netcl_plugin_tensor.reducing import Combine, reduction_kernels
from netcl_plugin_tensor.reductions import converted, widest
from netcl_plugin_tensor.strided import fill

PRODUCT: Final = Combine(
    "prod", "a * b", dict.fromkeys(("float", "double", "int", "long"), "1"), True
)


# -- prod ------------------------------------------------------------------------------


def _bind_prod(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = x if dtype is None else converted(x, widest("prod", dtype))
    return (x,), {"dim": axes("prod", dim, ndim_of(x)), "keepdim": bool(keepdim)}


def _infer_prod(x: Spec, dim: Sequence[int], keepdim: bool) -> Spec:
    dtype = x.dtype if DTYPES[x.dtype].floating else "int64"
    return Spec(reduced(x.shape, dim, keepdim), dtype)


def _plan_prod(request: Request) -> Kernels:
    (source,), out = request.inputs, request.output
    if not source.size:
        return Kernels((fill(request.device, out, "empty", ("int", 1)),))
    dim = request.attrs["dim"]
    return reduction_kernels(PRODUCT, request.device, source, dim, out.dtype)


def _reference_prod(x: Any, dim: Sequence[int], keepdim: bool) -> Any:
    x = widened(x)
    wide = x.dtype if x.dtype.kind == "f" else np.int64
    return x.prod(axis=tuple(dim), keepdims=keepdim, dtype=wide)


def _prod_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The product of the others: with one zero only that element has a gradient.

    What is to be differentiated again is not told apart by zeros: it is the gradient of a tree.
    """
    x, dim = saved.inputs[0], saved.attrs["dim"]
    if ag.is_grad_enabled():
        return ag.grad(_tree_product(x, dim, grad.shape), x, grad, create_graph=True)
    zero = ag.eq(x, 0)
    others = ag.where(zero, 1, x)
    product = ag.prod(others, dim, True)
    zeros = ag.sum(zero, dim, True)
    upstream = ag.mul(ag.reshape(grad, product.shape), product)
    rest = ag.where(ag.eq(zeros, 0), ag.div(upstream, others), 0.0)
    return [ag.where(ag.eq(ag.mul(zeros, zero.astype("int64")), 1), upstream, rest)]


def _tree_product(x: Any, dim: Sequence[int], shape: Sequence[int]) -> Any:
    """The product as a polynomial: halves multiplied with each other until one number is left."""
    kept = [i for i in range(x.ndim) if i not in dim]
    count = math.prod(x.shape[i] for i in dim)
    rows = math.prod(x.shape[i] for i in kept)
    lines = ag.reshape(ag.permute(x, (*kept, *dim)), (rows, count))
    while count > 1:
        half = count // 2
        product = ag.mul(lines[:, :half], lines[:, half : 2 * half])
        lines = ag.cat([product, lines[:, 2 * half :]], 1) if count % 2 else product
        count -= half
    return ag.reshape(lines, shape)


# -- composites --------------------------------------------------------------------------


def var(
    x: Any,
    dim: Dims = None,
    correction: float | None = 1,
    keepdim: bool = False,
    *,
    unbiased: bool | None = None,
) -> Any:
    """The variance over one, several or all axes: sum((x - mean)^2) / max(0, n - correction).

    >>> ag.var([1.0, 2.0, 3.0]).item()
    1.0

    Args:
        x: A floating tensor.
        dim: The axes; None: all. A bool: `unbiased`, over all axes.
        correction: What is subtracted from the number of elements.
        keepdim: Whether the axes stay, with size 1.
        unbiased: The older way to say it: `correction` 1 (True) or 0 (False).
    """
    return _as_given(x, variance("var", x, dim, correction, keepdim, unbiased))


def variance(
    who: str,
    x: Any,
    dim: Any,
    correction: float | None = 1,
    keepdim: bool = False,
    unbiased: bool | None = None,
) -> Any:
    """The variance in the dtype in which x is added up: float32 for 16-bit floats."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = int(bool(unbiased))
    correction = 1 if correction is None else correction
    shape = shape_of(x)
    over = axes(who, dim, len(shape))
    count = math.prod(shape[i] for i in over)
    centered = ag.sub(x, ag.mean(x, over, True, dtype=wide_dtype(x)))
    return ag.mul(ag.sum(ag.square(centered), over, keepdim), _inverse(count - correction))


def wide_dtype(x: Any) -> str | None:
    """float32 for 16-bit floats, in which squares and sums overflow or lose digits; None: x's own.

    An op of such a tensor and a float32 one computes in float32, so that x is read as it is.
    """
    own = str(getattr(x, "dtype", "float32"))
    wide = DTYPES[own].wide
    return None if wide == own else wide


def _as_given(x: Any, result: Any) -> Any:
    """A result in the dtype of x, if that is narrower."""
    return result.astype(x.dtype) if wide_dtype(x) else result


def _inverse(count: float) -> float:
    return 1.0 / count if count > 0 else math.inf


def std(
    x: Any,
    dim: Dims = None,
    correction: float | None = 1,
    keepdim: bool = False,
    *,
    unbiased: bool | None = None,
) -> Any:
    """The standard deviation: the square root of `var`, with the same arguments.

    For floating dtypes; others raise DtypeError.

    >>> ag.std([1.0, 2.0, 3.0]).item()
    1.0

    Args:
        correction: What is subtracted from the count in the divisor.
        unbiased: False is a correction of 0.
    """
    return _as_given(x, ag.sqrt(variance("std", x, dim, correction, keepdim, unbiased)))


def logsumexp(x: Any, dim: Dims, keepdim: bool = False) -> Any:
    """log(sum(exp(x))) over one or several axes, without overflow; of no elements -inf.

    >>> ag.logsumexp([[0.0, 0.0]], dim=1).numpy().round(4)
    array([0.6931], dtype=float32)
    """
    shape = shape_of(x)
    over = axes("logsumexp", dim, len(shape))
    if not math.prod(shape[i] for i in over):
        return ag.log(ag.sum(x, over, keepdim))
    top = ag.amax(x, over, True).detach()
    top = ag.where(ag.eq(ag.abs(top), math.inf), 0.0, top)
    terms = ag.sum(ag.exp(ag.sub(x, top)), over, True, dtype=wide_dtype(x))
    total = _as_given(x, ag.add(ag.log(terms), top))
    return total if keepdim else ag.reshape(total, reduced(shape, over, False))


def l2_normalize(x: Any, dim: Dims = -1, eps: float = 1e-12) -> Any:
    """`x / max(sqrt(sum(x^2)), eps)` along one or several axes.

    >>> ag.l2_normalize([[3.0, 4.0]]).numpy().round(4)
    array([[0.6, 0.8]], dtype=float32)
    """
    over = axes("l2_normalize", dim, ndim_of(x))
    wide = ag.astype(x, wide_dtype(x)) if wide_dtype(x) else x
    norm = ag.sqrt(ag.sum(ag.square(wide), over, True))
    return _as_given(x, ag.div(x, ag.clamp(norm, min=eps)))


OPERATORS = (
    Operator(
        name="prod",
        bind=_bind_prod,
        infer=_infer_prod,
        reference=_reference_prod,
        backward=_prod_backward,
        implementations=(Implementation("prod", "tree reduction", _plan_prod),),
        doc=(
            "prod(x, dim=None, keepdim=False, dtype=None): the product over one, several or all "
            "axes, of x in `dtype` if one is given."
            "\n\n"
            ">>> ag.prod([[1.0, 2.0], [3.0, 4.0]], dim=1).tolist()\n"
            "[2.0, 12.0]"
        ),
    ),
    *(composite(function, ("x",)) for function in (var, std, logsumexp, l2_normalize)),
)
