"""Ops that PyTorch has by other names, or of which nothing is left where numbers are real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import composite
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError, message
from netcl_plugin_tensor.axes import plain_shape, shape_of


def _itself(name: str, doc: str) -> Callable[[Any], Any]:
    def op(input: Any) -> Any:
        return ag.as_operand(input)

    op.__name__ = name
    op.__doc__ = (
        f"{doc}: the tensor itself, of any shape, as all numbers are real.\n\n"
        f">>> ag.{name}([1.0, -2.0]).tolist()\n[1.0, -2.0]"
    )
    return op


def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Pieces of the given sizes along an axis: `split`.

    >>> [each.tolist() for each in ag.split_with_sizes(nc.arange(4), [1, 3])]
    [[0], [1, 2, 3]]

    Args:
        split_sizes: The size of each part.
    """
    return ag.split(input, plain_shape("split_with_sizes", split_sizes), dim)  # type: ignore[no-any-return]


def unsafe_split(input: Any, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    """Pieces along an axis: `split`.

    >>> [each.tolist() for each in ag.unsafe_split(nc.arange(4), 3)]
    [[0, 1, 2], [3]]

    Args:
        split_size: The size of a part.
    """
    return ag.split(input, split_size, dim)  # type: ignore[no-any-return]


def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most `chunks` pieces along an axis: `chunk`.

    >>> [each.tolist() for each in ag.unsafe_chunk(nc.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    return ag.chunk(input, chunks, dim)  # type: ignore[no-any-return]


def fill(input: Any, value: Any) -> Any:
    """A tensor of the shape and dtype with one number everywhere, given as one or as a tensor.

    >>> ag.fill([1.0, 2.0], 7.0).tolist()
    [7.0, 7.0]

    Args:
        value: The number.

    Raises:
        ShapeError: Unless given a number.
    """
    x = ag.as_operand(input)
    if shape_of(value):
        raise ShapeError(message("fill", f"a value of shape {shape_of(value)}", "a number"))
    everywhere = Tensor.ones(x.shape, "bool", x.device)
    if hasattr(value, "dtype"):
        return ag.where(everywhere, ag.as_operand(value, x.device).astype(x.dtype), x)
    return ag.masked_fill(x, everywhere, value)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None,
                  requires_grad: bool = False) -> Any:  # fmt: skip
    """A tensor without dimensions, by default float32.

    >>> ag.scalar_tensor(3)
    Tensor(3., shape=(), dtype=float32, device=numpy)

    Args:
        s: The number.

    Raises:
        ShapeError: Unless given a number.
    """
    if shape_of(s):
        raise ShapeError(message("scalar_tensor", f"shape {shape_of(s)}", "a number"))
    kind = "float32" if dtype is None else dtype
    return nc.tensor(s, dtype=kind, device=device, requires_grad=requires_grad)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that tensors of the given shapes broadcast to.

    >>> nc.broadcast_shapes((3, 1), (4,))
    (3, 4)

    Raises:
        ArgumentError: Unless given at least one.
        ShapeError: The shapes do not fit.
    """
    if not shapes:
        raise ArgumentError(message("broadcast_shapes", "no shapes", "at least one"))
    given = [plain_shape("broadcast_shapes", shape) for shape in shapes]
    try:
        return tuple(np.broadcast_shapes(*given))
    except ValueError:
        expected = "sizes that are equal or 1"
        raise ShapeError(message("broadcast_shapes", f"shapes {given}", expected)) from None


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], *, dtype: Any = None,
                   device: Any = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """A tensor with any numbers, whose dimensions lie in memory in another order.

    >>> ag.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)

    Args:
        physical_layout: The order of the dimensions in memory.

    Raises:
        AttributeValueError: Unless given each dimension once.
    """
    shape = plain_shape("empty_permuted", size)
    order = plain_shape("empty_permuted", physical_layout)
    if sorted(order) != list(range(len(shape))):
        given = f"physical_layout={physical_layout!r} of {len(shape)} dimensions"
        raise AttributeValueError(message("empty_permuted", given, "each dimension once"))
    ordered = nc.empty([shape[i] for i in order], dtype=dtype, device=device)
    permuted = ag.permute(ordered, [order.index(i) for i in range(len(shape))])
    return permuted.requires_grad_(True) if requires_grad else permuted


def empty_strided(size: Sequence[int], stride: Sequence[int], *, dtype: Any = None,
                  device: Any = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """A tensor with any numbers, read by the given strides.

    >>> x = ag.empty_strided((2, 3), (1, 2))
    >>> x.shape, x.stride()
    ((2, 3), (1, 2))

    Raises:
        ShapeError: Unless given as many of one as of the other.
    """
    shape, steps = (plain_shape("empty_strided", numbers) for numbers in (size, stride))
    if len(shape) != len(steps):
        given = f"{len(shape)} sizes and {len(steps)} strides"
        raise ShapeError(message("empty_strided", given, "as many of one as of the other"))
    span = 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) if shape else 1
    flat = nc.empty(max(span, 1) if 0 not in shape else 0, dtype=dtype, device=device)
    strided = ag.as_strided(flat, shape, steps)
    return strided.requires_grad_(True) if requires_grad else strided


OPERATORS: Final = (
    *(composite(_itself(name, doc), ("input",)) for name, doc in (
        ("conj", "The complex conjugate"), ("conj_physical", "The complex conjugate"),
        ("resolve_conj", "Without a pending conjugation"),
        ("resolve_neg", "Without a pending negation"))),
    composite(split_with_sizes, ("input",)),
    composite(unsafe_split, ("input",)),
    composite(unsafe_chunk, ("input",)),
    composite(fill, method=False),
    composite(scalar_tensor, method=False),
    composite(broadcast_shapes, method=False),
    composite(empty_permuted, method=False),
    composite(empty_strided, method=False),
)  # fmt: skip
