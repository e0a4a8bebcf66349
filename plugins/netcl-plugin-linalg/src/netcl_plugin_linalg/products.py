"""Products made of other ops: of vectors and matrices, with something added, and linear_relu."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message


def _of(who: str, ndims: tuple[int, ...], *given: Any, mixed: bool = False) -> list[Any]:
    """Operands with these numbers of dimensions, of one dtype unless they may be `mixed`.

    Raises ShapeError or DtypeError.
    """
    operands = ag.as_operands(*given)
    if tuple([operand.ndim for operand in operands]) != ndims:
        shapes = " and ".join(str(operand.shape) for operand in operands)
        expected = " and ".join(map(str, ndims)) + " dimensions"
        raise ShapeError(message(who, f"shapes {shapes}", expected))
    if not mixed and len({operand.dtype for operand in operands}) > 1:
        dtypes = " and ".join(operand.dtype for operand in operands)
        raise DtypeError(message(who, dtypes, "one dtype", "Convert one with astype"))
    return operands


def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices (n, k) and (k, m).

    >>> ag.mm([[1.0, 2.0], [3.0, 4.0]], [[1.0], [1.0]]).tolist()
    [[3.0], [7.0]]

    Args:
        mat2: The second matrix.
    """
    return ag.matmul(*_of("mm", (2, 2), input, mat2))


def mv(input: Any, vec: Any) -> Any:
    """The product of a matrix (n, k) and a vector (k,).

    >>> ag.mv([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).tolist()
    [3.0, 7.0]

    Args:
        vec: A vector.
    """
    return ag.matmul(*_of("mv", (2, 1), input, vec))


def outer(input: Any, vec2: Any) -> Any:
    """All products of an element of a vector (n,) and one of another (m,): a matrix (n, m).

    Of two dtypes the result has the one that they are promoted to, as with `mul`.

    >>> ag.outer([1.0, 2.0], [3.0, 4.0]).tolist()
    [[3.0, 4.0], [6.0, 8.0]]

    Args:
        vec2: A vector (m,).
    """
    first, second = _of("outer", (1, 1), input, vec2, mixed=True)
    return ag.mul(ag.unsqueeze(first, 1), second)


def dot(input: Any, tensor: Any) -> Any:
    """The sum of the products of two vectors of one size.

    >>> ag.dot([1.0, 2.0], [3.0, 4.0]).item()
    11.0

    Args:
        tensor: The second vector.

    Raises:
        ShapeError: Unless given one.
    """
    first, second = _of("dot", (1, 1), input, tensor)
    if first.shape != second.shape:
        raise ShapeError(message("dot", f"sizes {first.shape[0]} and {second.shape[0]}", "one"))
    return sum_of_products(first, second, (0,))


def sum_of_products(x: Any, y: Any, dims: tuple[int, ...]) -> Any:
    """x * y summed over axes in their dtype; 16-bit floats are multiplied and added in float32."""
    wide = DTYPES[x.dtype].wide
    return ag.sum(ag.mul(x.astype(wide), y), dims, dtype=wide).astype(x.dtype)


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2).

    >>> ag.addmm([[10.0]], [[1.0, 2.0]], [[3.0], [4.0]]).tolist()
    [[21.0]]

    Args:
        input: What broadcasts to (n, m).
        mat1: A matrix (n, k).
        mat2: A matrix (k, m).
        beta: A number; of 0 `input` does not count, whatever it holds.
        alpha: A number.

    Raises:
        ShapeError: The shapes do not fit.
    """
    first, second = _of("addmm", (2, 2), mat1, mat2)
    product = ag.matmul(first, second)
    added = ag.as_operands(first, input)[1]
    if len(added.shape) > 2:
        expected = f"what broadcasts to {product.shape}"
        raise ShapeError(message("addmm", f"input of shape {added.shape}", expected))
    if beta == 0:
        added = ag.expand(ag.full_like(added, 0), product.shape)
    elif beta != 1:
        added = ag.mul(added, beta)
    return ag.add(added, product) if alpha == 1 else ag.add(added, product, alpha=alpha)


def inner(input: Any, other: Any) -> Any:
    """The sums of products along the last axes: (..., n) and (..., n); numbers are multiplied.

    For any dtype of numbers.

    >>> ag.inner([1.0, 2.0], [3.0, 4.0]).item()
    11.0
    """
    x, y = ag.as_operands(input, other)
    if not x.ndim or not y.ndim:
        return ag.mul(x, y)
    return tensordot(x, y, ([-1], [-1]))


def vdot(input: Any, other: Any) -> Any:
    """The sum of the products of two vectors of one size: `dot`, of real numbers.

    For any dtype of numbers.

    >>> ag.vdot([1.0, 2.0], [3.0, 4.0]).item()
    11.0
    """
    return ag.dot(input, other)


def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """The sums of products over axes of two tensors.

    >>> ag.tensordot(nc.rand(2, 3, 4), nc.rand(4, 3), dims=1).shape
    (2, 3, 3)

    Args:
        a: A tensor.
        b: Another one of its dtype.
        dims: How many, the last of `a` with the first of `b`; or two lists of axes.

    Raises:
        ShapeError: Unless given axes of equal sizes, or of 1.
    """
    x, y = ag.as_operands(a, b)
    if isinstance(dims, int):
        dims = list(range(-dims, 0)), list(range(dims))
    first, second = _contracted(dims, x, y)
    sizes = [(x.shape[i], y.shape[k]) for i, k in zip(first, second, strict=True)]
    if any(n != m and 1 not in (n, m) for n, m in sizes):
        given = f"{x.shape} and {y.shape} over {dims}"
        raise ShapeError(message("tensordot", given, "axes of equal sizes, or of 1"))
    # Along an axis of 1 the other tensor is summed.
    for place, other, (n, m) in zip(first, second, sizes, strict=True):
        x = ag.sum(x, place, True) if m == 1 < n else x
        y = ag.sum(y, other, True) if n == 1 < m else y
    left = [i for i in range(x.ndim) if i not in first]
    right = [i for i in range(y.ndim) if i not in second]
    over = math.prod(x.shape[i] for i in first)
    rows = math.prod(x.shape[i] for i in left)
    product = ag.matmul(ag.reshape(ag.permute(x, (*left, *first)), (rows, over)),
                        ag.reshape(ag.permute(y, (*second, *right)), (over, -1 if over else
                                   math.prod(y.shape[i] for i in right))))  # fmt: skip
    return ag.reshape(product, (*[x.shape[i] for i in left], *[y.shape[i] for i in right]))


def _contracted(dims: Any, x: Any, y: Any) -> tuple[list[int], list[int]]:
    """The axes of two tensors that tensordot sums over."""
    try:
        pair = [[operator.index(d) for d in ([given] if isinstance(given, int) else given)]
                for given in dims]  # fmt: skip
        first, second = ([range(operand.ndim)[d] for d in given]
                         for operand, given in zip((x, y), pair, strict=True))  # fmt: skip
        if len(first) != len(second) or len({*first}) != len(first) or len({*second}) != len(first):
            raise ValueError(dims)
    except (TypeError, ValueError, IndexError):
        given = f"dims={dims!r} of {x.ndim} and {y.ndim} dimensions"
        expected = "a number, or two lists of as many axes, each once"
        raise AttributeValueError(message("tensordot", given, expected)) from None
    return first, second


def kron(input: Any, other: Any) -> Any:
    """The Kronecker product: each element of `input` times all of `other`, as a block.

    For tensors of any shape and of any dtype of numbers.

    >>> ag.kron([[1.0, 2.0]], [[1.0], [10.0]]).tolist()
    [[1.0, 2.0], [10.0, 20.0]]
    """
    x, y = ag.as_operands(input, other)
    ndim = max(x.ndim, y.ndim)
    first, second = ((1,) * (ndim - operand.ndim) + tuple(operand.shape) for operand in (x, y))
    wide = [size for n in first for size in (n, 1)], [size for n in second for size in (1, n)]
    product = ag.mul(ag.reshape(x, wide[0]), ag.reshape(y, wide[1]))
    return ag.reshape(product, [a * b for a, b in zip(first, second, strict=True)])


def _plus(input: Any, product: Any, beta: float, alpha: float) -> Any:
    """beta * input + alpha * product; of beta 0 the input does not count."""
    if not DTYPES[product.dtype].floating:
        beta, alpha = int(beta), int(alpha)
    scaled = product if alpha == 1 else ag.mul(product, alpha)
    if beta == 0:
        added = ag.as_operands(product, input)[1]
        shape = np.broadcast_shapes(added.shape, product.shape)
        return ag.expand(scaled, shape)
    total = ag.add(input if beta == 1 else ag.mul(input, beta), scaled)
    return total.astype("bool") if product.dtype == "bool" else total


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * (batch1 @ batch2), of batches of matrices; arguments as of `addmm`.

    For any dtype of numbers.

    >>> ag.baddbmm(nc.zeros(8, 2, 4), nc.rand(8, 2, 3), nc.rand(8, 3, 4)).shape
    (8, 2, 4)
    """
    return _plus(input, ag.bmm(*ag.as_operands(batch1, batch2)), beta, alpha)


def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * the sum of the products of batches; arguments as of `addmm`.

    For any dtype of numbers.

    >>> ag.addbmm(nc.zeros(2, 4), nc.rand(8, 2, 3), nc.rand(8, 3, 4)).shape
    (2, 4)

    Args:
        batch1: Matrices (B, n, m).
        batch2: Matrices (B, m, p).
    """
    return _plus(input, ag.sum(ag.bmm(*ag.as_operands(batch1, batch2)), 0), beta, alpha)


def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * (mat @ vec), of a matrix and a vector; arguments as of `addmm`.

    For any dtype of numbers.

    >>> ag.addmv([10.0], [[1.0, 2.0]], [3.0, 4.0]).tolist()
    [21.0]
    """
    return _plus(input, ag.mv(mat, vec), beta, alpha)


def addr(input: Any, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * the outer product of two vectors; arguments as of `addmm`.

    For any dtype of numbers.

    >>> ag.addr([[10.0, 10.0]], [1.0], [3.0, 4.0]).tolist()
    [[13.0, 14.0]]

    Args:
        vec1: A vector (n,).
        vec2: A vector (m,).
    """
    return _plus(input, ag.outer(vec1, vec2), beta, alpha)


def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """The cross product of vectors of three elements along an axis.

    For any dtype of numbers.

    >>> ag.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).tolist()
    [0.0, 0.0, 1.0]

    Args:
        input: Vectors.
        other: Others; they broadcast.
        dim: Their axis; None: the first of size 3.

    Raises:
        ShapeError: Unless given an axis of size 3.
        AttributeValueError: An argument has a value that cannot be used.
    """
    x, y = ag.as_operands(input, other)
    ndim = max(x.ndim, y.ndim)
    shapes = [(1,) * (ndim - operand.ndim) + operand.shape for operand in (x, y)]
    threes = [i for i in range(ndim) if shapes[0][i] == shapes[1][i] == 3]
    if dim is None and not threes:
        raise ShapeError(message("cross", f"{x.shape} and {y.shape}", "an axis of size 3"))
    place = threes[0] if dim is None else dim
    if isinstance(place, bool) or not isinstance(place, int) or not -ndim <= place < ndim:
        raise AttributeValueError(message("cross", f"dim={dim!r}", f"{-ndim} to {ndim - 1}"))
    if place % ndim not in threes:
        given = f"{x.shape} and {y.shape} along axis {place}"
        raise ShapeError(message("cross", given, "3 elements"))
    along = place % ndim - ndim
    first = ag.mul(ag.roll(x, -1, along), ag.roll(y, -2, along))
    return ag.sub(first, ag.mul(ag.roll(x, -2, along), ag.roll(y, -1, along)))


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariance of variables, a row of `input` each, over observations, its columns.

    >>> ag.cov([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]).tolist()
    [[1.0, 2.0], [2.0, 4.0]]

    Args:
        input: (variables, observations) or a vector, which is one variable.
        correction: What is subtracted from the number of observations.
        fweights: How often each observation was made: integers, or None.
        aweights: How much each observation counts, or None.

    Raises:
        ShapeError: Unless given at most two dimensions.
    """
    x = ag.as_operand(input)
    if x.ndim > 2:
        raise ShapeError(message("cov", f"shape {x.shape}", "at most two dimensions"))
    rows = ag.reshape(x, (-1, x.shape[-1])) if x.ndim else ag.reshape(x, (1, 1))
    rows = rows if DTYPES[rows.dtype].floating else rows.astype("float32")
    given = [ag.as_operand(w, x.device) for w in (fweights, aweights) if w is not None]
    weights = [w.astype(rows.dtype) for w in given]
    if not weights:
        count: Any = rows.shape[1]
        centered = ag.sub(rows, ag.mean(rows, 1, True))
        product, left = ag.matmul(centered, ag.t(centered)), max(count - correction, 0)
        covariance = ag.mul(product, 1 / left) if left else ag.div(product, 0.0)
    else:
        weight = weights[0] if len(weights) == 1 else ag.mul(*weights)
        total = ag.sum(weight)
        centered = ag.sub(rows, ag.div(ag.sum(ag.mul(rows, weight), 1, True), total))
        less: Any = correction
        if aweights is not None and correction:
            less = ag.mul(ag.div(ag.sum(ag.mul(weight, weights[-1])), total), correction)
        left = ag.clamp(ag.sub(total, less), 0)
        covariance = ag.div(ag.matmul(centered, ag.t(ag.mul(centered, weight))), left)
    return covariance if x.ndim == 2 and x.shape[0] != 1 else ag.squeeze(covariance)


def corrcoef(input: Any) -> Any:
    """The correlation coefficients of variables, a row of `input` each; between -1 and 1.

    For a matrix (variables, samples), or one row (samples,); integers become float32.

    >>> ag.corrcoef([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]).numpy().round(4)
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    covariance = cov(input)
    if not covariance.ndim:
        return ag.div(covariance, covariance)
    spread = ag.sqrt(ag.diag(covariance))
    return ag.clamp(ag.div(ag.div(covariance, ag.unsqueeze(spread, 1)), spread), -1, 1)


def linear_relu(input: Any, weight: Any, bias: Any = None) -> Any:
    """relu(linear(input, weight, bias)); compiled, both are one kernel.

    >>> ag.linear_relu(nc.rand(32, 64), nc.rand(10, 64), nc.zeros(10)).shape
    (32, 10)
    """
    return ag.relu(ag.linear(input, weight, bias))


def bias_add(input: Any, bias: Any, dim: int = -1) -> Any:
    """`input` with a number added for each place along an axis.

    >>> ag.bias_add([[1.0, 2.0], [3.0, 4.0]], [10.0, 20.0]).tolist()
    [[11.0, 22.0], [13.0, 24.0]]

    Args:
        input: A tensor.
        bias: A vector with as many elements as the axis has.
        dim: The axis.

    Raises:
        AttributeValueError: An argument has a value that cannot be used.
        ShapeError: The shapes do not fit.
    """
    x, vector = ag.as_operands(input, bias)
    ndim = x.ndim
    if isinstance(dim, bool) or not isinstance(dim, int) or not -ndim <= dim < ndim:
        raise AttributeValueError(message("bias_add", f"dim={dim!r}", f"{-ndim} to {ndim - 1}"))
    if vector.shape != (x.shape[dim],):
        given = f"bias of shape {vector.shape} for axis {dim} of {x.shape}"
        raise ShapeError(message("bias_add", given, f"{(x.shape[dim],)}"))
    return ag.add(x, ag.reshape(vector, (-1, *[1] * (ndim - 1 - dim % ndim))))


OPERATORS = (
    composite(mm, ("input", "mat2")),
    composite(mv, ("input", "vec")),
    composite(outer, ("input", "vec2")),
    composite(dot, ("input", "tensor")),
    composite(addmm, ("input", "mat1", "mat2")),
    composite(inner, ("input", "other")),
    composite(vdot, ("input", "other")),
    composite(tensordot, ("a", "b"), method=False),
    composite(kron, ("input", "other")),
    composite(baddbmm, ("input", "batch1", "batch2")),
    composite(addbmm, ("input", "batch1", "batch2")),
    composite(addmv, ("input", "mat", "vec")),
    composite(addr, ("input", "vec1", "vec2")),
    composite(cross, ("input", "other")),
    composite(cov, ("input",)),
    composite(corrcoef, ("input",)),
    composite(linear_relu, ("input", "weight", "bias")),
    composite(bias_add, ("input", "bias")),
)
