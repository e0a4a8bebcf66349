"""max_unpool1d to 3d: the elements of max pooling put back where they were, zeros elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import composite
from netcl_core.errors import DtypeError, ShapeError, message
from netcl_plugin_conv.windows import countable, numbers, spatial


def max_unpool1d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """The elements of input (N, C, L) or (C, L) at their indices; as `max_unpool2d`.

    >>> values, places = ag.max_pool1d([[[1.0, 5.0, 2.0, 3.0]]], 2, return_indices=True)
    >>> ag.max_unpool1d(values, places, 2).tolist()
    [[[0.0, 5.0, 0.0, 3.0]]]

    Its arguments are as of `max_unpool2d`.
    """
    given = (kernel_size, stride, padding, output_size)
    return _max_unpool("max_unpool1d", 1, input, indices, *given)


def max_unpool2d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """The elements of input (N, C, H, W) or (C, H, W) where max pooling found them, else 0.

    >>> x = nc.tensor([[[1.0, 5.0], [2.0, 3.0]]])
    >>> ag.max_unpool2d(*ag.max_pool2d(x, 2, return_indices=True), 2).tolist()
    [[[0.0, 5.0], [0.0, 0.0]]]

    Args:
        input: What `max_pool2d` gave, floating.
        indices: Its indices, int64 of the same shape; of equal ones one element stays.
        kernel_size, stride, padding: As of `max_pool2d`.
        output_size: The height and width of the result, which pooling alone does not tell; default:
            the smallest.

    Raises:
        ShapeError: The shapes differ, or `output_size` does not pool to the shape of `input`.
        AttributeValueError: An index out of the result.
    """
    given = (kernel_size, stride, padding, output_size)
    return _max_unpool("max_unpool2d", 2, input, indices, *given)


def max_unpool3d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """The elements of input (N, C, D, H, W) at their indices; as `max_unpool2d`.

    >>> top, index = ag.max_pool3d(nc.arange(8.0).reshape(1, 2, 2, 2), 2, return_indices=True)
    >>> ag.max_unpool3d(top, index, 2).tolist()
    [[[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 7.0]]]]

    Its arguments are as of `max_unpool2d`.
    """
    given = (kernel_size, stride, padding, output_size)
    return _max_unpool("max_unpool3d", 3, input, indices, *given)


def _max_unpool(
    who: str, count: int, input: Any, indices: Any, kernel: Any, stride: Any, padding: Any,
    output_size: Any,
) -> Any:  # fmt: skip
    x = ag.as_operand(input)
    sizes = spatial(who, x, count)
    index = ag.as_operand(indices, x.device)
    if index.dtype != "int64":
        raise DtypeError(message(who, f"indices of dtype {index.dtype}", "int64"))
    if index.shape != x.shape:
        given = f"input of shape {x.shape} and indices of {index.shape}"
        raise ShapeError(message(who, given, "equal shapes"))
    extents = _sizes(who, sizes, kernel, stride, padding, output_size)
    lead, places = x.shape[:-count], math.prod(sizes)
    empty = Tensor.zeros((*lead, math.prod(extents)), x.dtype, x.device)
    values = ag.reshape(x, (*lead, places))
    result = ag.scatter(empty, -1, ag.reshape(index, (*lead, places)), values)
    return ag.reshape(result, (*lead, *extents))


def _sizes(
    who: str, sizes: Sequence[int], kernel: Any, stride: Any, padding: Any, output_size: Any
) -> tuple[int, ...]:
    count = len(sizes)
    kernels = numbers(who, "kernel_size", kernel, count, 1)
    strides = kernels if stride is None else numbers(who, "stride", stride, count, 1)
    paddings = numbers(who, "padding", padding, count, 0)
    least = tuple(
        (n - 1) * s + k - 2 * p
        for n, s, k, p in zip(sizes, strides, kernels, paddings, strict=True)
    )
    if output_size is None:
        extents = least
    else:
        given = output_size
        if isinstance(given, (tuple, list)) and len(given) == count + 2:
            given = given[2:]
        extents = numbers(who, "output_size", given, count, 0)
    for n, smallest, step in zip(extents, least, strides, strict=True):
        if not smallest - step < n < smallest + step or n < 0:
            expected = f"{smallest - step + 1} to {smallest + step - 1} on an axis"
            raise ShapeError(message(who, f"a result of size {extents}", expected))
    countable(who, extents)
    return extents


OPERATORS = tuple(
    composite(function, ("input", "indices"))
    for function in (max_unpool1d, max_unpool2d, max_unpool3d)
)
