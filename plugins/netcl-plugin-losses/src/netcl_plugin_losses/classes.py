"""Class indices: where the classes of an input stand, and which targets fit them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Spec, widened
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_losses.arguments import FLOATING

INDICES: Final = {
    name: DTYPES[name].storage for name in ("uint8", "int8", "int16", "int32", "int64")
}
#: Targets with ignored indices that were read and found fine: their version, the ignored index and
#: the number of classes; by identity, since targets compare element by element.
_fine: Final[dict[int, tuple[int, int, int]]] = {}
#: As many classes as indices may have where nothing says how many there are.
ANY_CLASS: Final = 2**62


def class_axis(shape: Sequence[int]) -> tuple[int, int, int]:
    """Outer size, classes and inner size of an input (C,), (N, C) or (N, C, d1, ...)."""
    if len(shape) == 1:
        return 1, shape[0], 1
    return shape[0], shape[1], math.prod(shape[2:])


def rows_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of the targets of an input of this shape."""
    return (shape[0], *shape[2:]) if len(shape) > 1 else ()


def check_specs(who: str, x: Spec, target: Spec, weight: Spec | None) -> None:
    """Raise ShapeError or DtypeError unless input, class indices and weights fit."""
    check_dtypes(who, x, target)
    if not x.ndim or target.shape != rows_shape(x.shape):
        given = f"input {x.shape} and target {target.shape}"
        expected = f"target of shape {rows_shape(x.shape)}" if x.ndim else "an input (C,) or (N, C)"
        raise ShapeError(message(who, given, expected, "The classes stand in dimension 1"))
    classes = class_axis(x.shape)[1]
    check_weight(who, weight, (classes,), x.dtype)


def check_dtypes(who: str, x: Spec, target: Spec) -> None:
    """Raise DtypeError unless there are floating numbers and class indices."""
    if x.dtype not in FLOATING or target.dtype not in INDICES:
        given = f"input {x.dtype} and target {target.dtype}"
        expected = "a floating input and integer class indices"
        raise DtypeError(message(who, given, expected, "Use astype on one of them"))


def check_weight(who: str, weight: Spec | None, shape: tuple[int, ...], dtype: str) -> None:
    """Raise ShapeError or DtypeError unless there are no weights or they fit the classes."""
    if weight is None:
        return
    if weight.shape != shape:
        given, expected = f"weight of shape {weight.shape}", f"{shape}, one number per class"
        raise ShapeError(message(who, given, expected))
    if weight.dtype != dtype:
        raise DtypeError(message(who, f"weight of dtype {weight.dtype}", dtype, "Use astype"))


def check_gradient(who: str, grad: Spec, total: Spec | None, x: Spec) -> None:
    """Raise ShapeError or DtypeError unless a gradient fits the rows of an input.

    It has a number per row, or one for all of them; by `total` it is divided.
    """
    rows = rows_shape(x.shape)
    if grad.shape not in (rows, ()) or grad.dtype != x.dtype:
        kind = DtypeError if grad.shape in (rows, ()) else ShapeError
        given = f"grad {grad.shape} {grad.dtype} for input {x.shape} {x.dtype}"
        raise kind(message(who, given, f"{rows} or () and {x.dtype}"))
    if total not in (None, Spec((), DTYPES[x.dtype].wide)):
        given = f"total {total} for input {x.dtype}"
        raise ShapeError(message(who, given, f"one number of {DTYPES[x.dtype].wide}"))


def check_indices(who: str) -> Callable[[Sequence[Any], Any], None]:
    """A check that raises AttributeValueError if a class index is neither in range nor ignored."""

    def check(inputs: Sequence[Any], attrs: Any) -> None:
        x, target = inputs[:2]
        classes, ignore = class_axis(x.shape)[1], attrs["ignore_index"]
        if not -(2**63) <= ignore < 2**63:
            raise AttributeValueError(message(who, f"ignore_index={ignore}", "an int64"))
        if not target.size:
            return
        low, high = target.int_range()
        if low >= 0 and high < classes:
            return
        fine = target.version, ignore, classes
        if _fine.get(id(target)) == fine:
            return
        values = target.to_host()
        wrong = values[(values != ignore) & ((values < 0) | (values >= classes))]
        if wrong.size:
            given = f"class index {int(wrong.flat[0])} in target"
            expected = f"0 to {classes - 1}, or ignore_index={ignore}"
            remedy = "Check the labels, or the number of outputs of the last layer"
            raise AttributeValueError(message(who, given, expected, remedy))
        if id(target) not in _fine:
            weakref.finalize(target, _fine.pop, id(target), None)
        _fine[id(target)] = fine

    return check


def picked(target: Any, ignore_index: int, classes: int) -> tuple[Any, Any]:
    """In NumPy: flat class indices with 0 for those that are not counted, and which rows are."""
    index = target.reshape(-1).astype(np.int64)
    counted = (index != ignore_index) & (index >= 0) & (index < classes)
    return np.where(counted, index, 0), counted


def divided(grad: Any, total: Any) -> Any:
    """The gradient of a row from that of a loss: divided by the total of a mean, if it is one."""
    return grad if total is None else ag.div(grad, total).astype(grad.dtype)


def gathered(rows: Any, grad: Any, total: Any) -> Any:
    """The other way round: what the rows give to the gradient of a loss that they all share."""
    return divided(rows if grad.shape == rows.shape else ag.sum(rows), total)


def counts(target: Any, weight: Any, ignore_index: int) -> Any:
    """In NumPy: the weight of each row's class, flat: 1 without weights, 0 if it does not count."""
    if weight is not None and not weight.size:
        return np.zeros(target.size)
    index, counted = picked(target, ignore_index, ANY_CLASS if weight is None else len(weight))
    return np.where(counted, 1 if weight is None else widened(weight)[index], 0)


def as_rows(x: Any) -> Any:
    """In NumPy: an input as (rows, classes)."""
    x = widened(x)
    return x.reshape(1, -1) if x.ndim == 1 else np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])


def slopes(grad: Any, total: Any) -> Any:
    """In NumPy: the gradients of rows as (rows,), or (1,) for all of them."""
    flat = widened(grad).reshape(-1)
    return flat if total is None else flat / total


def from_rows(rows: Any, shape: Sequence[int]) -> Any:
    """In NumPy: (rows, classes) as an input of this shape."""
    if len(shape) == 1:
        return rows.reshape(shape)
    return np.moveaxis(rows.reshape(*rows_shape(shape), shape[1]), -1, 1)
