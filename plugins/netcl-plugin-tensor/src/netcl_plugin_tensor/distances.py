"""Norms of vectors, and what is made of them: normalize, cosine_similarity and so on."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES
from netcl_core.autograd import AutogradPrimitive, composite
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import Dims, axes, axis, shape_of
from netcl_plugin_tensor.statistics import wide_dtype


@cache
def _last(name: str) -> AutogradPrimitive:
    """The last step of a norm."""
    return AutogradPrimitive.from_template(f"tensor/{name}.cl.j2")


def norm(
    input: Any, p: Any = "fro", dim: Dims = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """The p-norm of vectors along one, several or all axes: sum(|x|^p)^(1/p).

    >>> ag.norm([3.0, 4.0]).item()
    5.0

    Args:
        input: A floating tensor.
        p: A number; `'fro'` is 2. `inf` and `-inf` give the largest and smallest absolute value, 0
            the number of elements that are not 0.
        dim: The axes; None: all.
        keepdim: Whether the axes stay, with size 1.
        dtype: A floating dtype to compute in; default: the input's.

    Where a norm is 0 so is its gradient. Raises DtypeError for integers, AttributeValueError for
    any other p.
    """
    return _norm("norm", input, p, dim, keepdim, dtype)


def _norm(who: str, input: Any, p: Any, dim: Dims, keepdim: bool, dtype: Any = None) -> Any:
    x = ag.as_operand(input)
    kept = x.dtype if dtype is None else nc.dtype_name(dtype, who)
    if not (DTYPES[kept].floating and DTYPES[x.dtype].floating):
        given = f"a {x.dtype} tensor" if dtype is None else f"{x.dtype} as {kept}"
        raise DtypeError(message(who, given, "floating dtypes", "Use astype('float32')"))
    x = x.astype(kept)
    x = x.astype(wide_dtype(x) or kept)
    over = axes(who, dim, x.ndim)
    return _of_wide(x, _power(who, p), over, bool(keepdim)).astype(kept)


def _power(who: str, p: Any) -> float:
    if isinstance(p, str) and p == "fro":
        return 2.0
    if isinstance(p, bool) or not isinstance(p, (int, float)) or math.isnan(p):
        raise AttributeValueError(message(who, f"p={p!r}", "a number, or 'fro'"))
    return float(p)


def _of_wide(x: Any, p: float, over: tuple[int, ...], keepdim: bool) -> Any:
    if p == 2:
        return _last("norm_root")(ag.sum(ag.square(x), over, keepdim))
    sizes = ag.abs(x)
    if math.isinf(p):
        return (ag.amax if p > 0 else ag.amin)(sizes, over, keepdim)
    if p == 0:
        return ag.sum(ag.where(ag.ne(x, 0), 1.0, ag.sign(x)), over, keepdim)  # sign: no slope
    if p == 1:
        return ag.sum(sizes, over, keepdim)
    if p < 1:  # the slope at 0 is infinite, and counts as 0
        zero = ag.eq(x, 0)
        powers = ag.where(zero, 0.0 if p > 0 else math.inf, ag.pow(ag.where(zero, 1.0, sizes), p))
    else:
        powers = ag.pow(sizes, p)
    return _last("norm_power")(ag.sum(powers, over, keepdim), 1 / p)


def normalize(input: Any, p: float = 2.0, dim: Dims = 1, eps: float = 1e-12) -> Any:
    """Vectors divided by their p-norms: x / max(|x|_p, eps).

    >>> ag.normalize([[3.0, 4.0]]).numpy().round(4)
    array([[0.6, 0.8]], dtype=float32)

    Args:
        input: A floating tensor.
        p: As of `norm`.
        dim: The axis of the vectors, or several.
        eps: What a norm counts at least.
    """
    x = ag.as_operand(input)
    return ag.div(x, ag.clamp(_norm("normalize", x, p, dim, True), min=float(eps)))


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along an axis: x1 . x2 / (|x1| |x2|).

    >>> ag.cosine_similarity([[3.0, 4.0]], [[4.0, 3.0]]).numpy().round(4)
    array([0.96], dtype=float32)

    Args:
        x1: A floating tensor.
        x2: Another one; they broadcast, and the norms are taken of the broadcast vectors.
        dim: The axis of the vectors.
        eps: What a norm counts at least.
    """
    shape = _broadcast_shape("cosine_similarity", shape_of(x1), shape_of(x2))
    over = axis("cosine_similarity", dim, len(shape))
    pair = [x if shape_of(x) == shape else ag.broadcast_to(x, shape) for x in (x1, x2)]
    units = [
        ag.div(x, ag.clamp(_norm("cosine_similarity", x, 2, over, True), min=float(eps)))
        for x in pair
    ]
    return ag.sum(ag.mul(*units), over)


def _broadcast_shape(who: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        given = " and ".join(map(str, shapes))
        raise ShapeError(message(who, f"shapes {given}", "shapes that broadcast")) from None


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """The p-norm of x1 - x2 + eps along the last axis.

    >>> ag.pairwise_distance([[3.0, 4.0]], [[0.0, 0.0]]).numpy().round(3)
    array([5.], dtype=float32)

    Args:
        x1: A floating tensor (..., features).
        x2: Another one; they broadcast.
        p: As of `norm`.
        eps: What keeps the norm away from 0.
        keepdim: Whether the last axis stays, with size 1.
    """
    apart = ag.add(ag.sub(x1, x2), float(eps))
    return _norm("pairwise_distance", apart, p, -1, keepdim)


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    """The p-norm of the difference of each row of x1 (..., P, M) and each of x2 (..., R, M).

    >>> ag.cdist([[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0]]).tolist()
    [[5.0, 1.0]]

    Args:
        x1: A floating tensor.
        x2: Another one; the leading dimensions broadcast.
        p: As of `norm`.
        compute_mode: PyTorch's; the differences are always computed.

    Returns (..., P, R). Where a distance is 0 so is its gradient.

    Raises:
        ShapeError: Unless given rows of one length: (..., P, M), (..., R, M).
    """
    a, b = (ag.as_operand(x) for x in (x1, x2))
    if min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-1]:
        given = f"shapes {a.shape} and {b.shape}"
        raise ShapeError(message("cdist", given, "rows of one length: (..., P, M), (..., R, M)"))
    return _norm("cdist", ag.sub(ag.unsqueeze(a, -2), ag.unsqueeze(b, -3)), p, -1, False)


def pdist(input: Any, p: float = 2.0) -> Any:
    """The p-norms of the differences of all pairs of rows of input (N, M), (N * (N - 1) / 2,).

    >>> ag.pdist([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]).tolist()
    [5.0, 1.0, 4.242640495300293]

    The first row comes first with each other one, then the second with each after it, and so on.
    Where a distance is 0 so is its gradient.

    Args:
        input: A floating tensor.
        p: As of `norm`, not negative.

    Raises:
        ShapeError: Unless given rows (N, M).
        AttributeValueError: Unless given a number that is not negative.
    """
    x = ag.as_operand(input)
    if x.ndim != 2:
        raise ShapeError(message("pdist", f"input of shape {x.shape}", "rows (N, M)"))
    if not _power("pdist", p) >= 0:
        raise AttributeValueError(message("pdist", f"p={p!r}", "a number that is not negative"))
    pairs = np.triu_indices(x.shape[0], 1)
    first, second = (
        ag.index_select(x, 0, nc.Tensor.from_host(pair.astype("int64"), x.device)) for pair in pairs
    )
    return _norm("pdist", ag.sub(first, second), p, -1, False)


#: Both last steps: what norms alone are made of.
_PARTS = ("norm_root", "norm_power")


def records() -> tuple[Any, ...]:
    """The operators of this module, whose parts are read from templates."""
    parts = tuple(map(_last, _PARTS))
    return (
        composite(norm, ("input",), parts=parts),
        composite(normalize, ("input",), parts=parts),
        composite(cosine_similarity, ("x1", "x2"), parts=parts[:1]),
        composite(pairwise_distance, ("x1", "x2"), parts=parts),
        composite(cdist, ("x1", "x2"), parts=parts),
        composite(pdist, ("input",), parts=parts),
    )
