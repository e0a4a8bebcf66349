"""Operands as ops want them: the powers of pow, the slopes of prelu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_core import DTYPES, Spec, Tensor
from netcl_core.autograd import Operator, Saved
from netcl_core.errors import AttributeValueError, ShapeError, message


def powers(x: Any, y: Any) -> tuple[Any, Any]:
    """x and y as they are; raises AttributeValueError for integers x to a negative integer y.

    That is for y as a number. A tensor y stays on its device and is not looked at: there a
    negative power of an integer is 0, as integer division would give, but that of 1 or -1.
    """
    if isinstance(y, int) and _is_whole(x) and y < 0:
        given = f"Integers to negative integer powers are not allowed: the power {y}"
        remedy = "Use a float such as -1.0 or astype('float32')"
        raise AttributeValueError(message("pow", given, "0 or more", remedy))
    return x, y


def _is_whole(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not DTYPES[value.dtype].floating
    return isinstance(value, int)


def no_zero(x: Any, y: Any) -> tuple[Any, Any]:
    """x and y as they are; raises AttributeValueError for integers x by the number 0.

    A tensor y stays on its device and is not looked at: there an integer by 0 gives 0.
    """
    if isinstance(y, int) and y == 0 and _is_whole(x):
        raise AttributeValueError(message("//, %, fmod", "integers by 0", "another divisor"))
    return x, y


def numbers(x: Any) -> tuple[Any]:
    """x, or int64 in the place of bools, as PyTorch's power has it."""
    return (x.astype("int64") if isinstance(x, Tensor) and x.dtype == "bool" else x,)


def slopes_per_channel(x: Any, weight: Any) -> tuple[Any, Any]:
    """x, and prelu's weight as it broadcasts against x: several slopes stand along axis 1.

    The weight is a number or a tensor of no or one dimension; as in PyTorch, x of fewer than two
    dimensions has one channel. Raises ShapeError for any other weight.
    """
    shape, slopes = _shape(x), _shape(weight)
    channels = shape[1] if len(shape) > 1 else 1
    if len(slopes) > 1 or (slopes and slopes[0] not in {1, channels}):
        given = f"a weight of shape {slopes} for x of shape {shape}"
        expected = "one slope, or shape (1,)"
        if channels != 1:
            expected = f"one slope, or shape ({channels},), one for each channel (axis 1)"
        raise ShapeError(message("prelu", given, expected))
    aligned = (slopes[0], *[1] * (len(shape) - 2)) if slopes and shape else ()
    if slopes in {(), aligned} or (shape and channels == 1):
        return x, weight
    return x, ALONG_CHANNELS(weight, aligned)


def _bind(weight: Any, shape: tuple[int, ...]) -> tuple[Sequence[Any], dict[str, Any]]:
    return (weight,), {"shape": shape}


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    return [ALONG_CHANNELS(grad, saved.inputs[0].shape)]


#: A view of prelu's slopes in another shape: (C,) as (C, 1, 1) and, for the gradient, back.
ALONG_CHANNELS = Operator(
    name="prelu_slopes_along_channels",
    bind=_bind,
    infer=lambda weight, shape: Spec(shape, weight.dtype),
    reference=lambda weight, shape: weight.reshape(shape),
    backward=_backward,
    saves=(),
    view=lambda weight, shape: weight.reshaped(shape),
)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, Tensor) else ()
