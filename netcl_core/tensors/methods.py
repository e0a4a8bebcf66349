"""PyTorch's methods of a tensor that are no op's name: casts, moves, shapes, and read-outs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from netcl_core.dtypes import DTYPES
from netcl_core.errors import ArgumentError, ShapeError, message
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import get_device
from netcl_core.runtime.geometry import Geometry, dense
from netcl_core.tensors.arguments import lenient
from netcl_core.tensors.functions import functions


def _cast(dtype: str) -> Callable[[Any], Any]:
    def cast(x: Any) -> Any:
        return x.astype(dtype)

    cast.__doc__ = f"The values as {dtype}."
    return cast


@lenient
def device_and_dtype(
    *given: Any, device: Any = None, dtype: Any = None, memory_format: Any = None
) -> tuple[Any, Any]:
    """The device and the dtype (or None) that `x.to(...)` was asked for.

    Raises ArgumentError for anything else.
    """
    for operand in given:
        if hasattr(operand, "requires_grad"):  # another tensor
            device, dtype = operand.device, operand.dtype
        elif isinstance(operand, Device) or (isinstance(operand, str) and operand not in DTYPES):
            device = operand
        elif operand is not None and not isinstance(operand, bool):  # PyTorch's non_blocking
            dtype = operand
    if device is None and dtype is None and memory_format is None:
        expected = "a device, a dtype or another tensor"
        raise ArgumentError(message("to", "neither a device nor a dtype", expected))
    return None if device is None else get_device(device), dtype


def _view(x: Any, *shape: Any, size: Any = ()) -> Any:
    """The same memory in another shape: `view(2, 3)`, `view((2, 3))`; or of a dtype: refused.

    Raises ShapeError where the elements cannot stay where they are.
    """
    if len(shape) == 1 and isinstance(shape[0], str):
        remedy = "Use astype to convert the values"
        raise ArgumentError(message("view", f"the dtype {shape[0]!r}", "sizes", remedy))
    viewed = x.reshape(*shape, shape=size)
    own = x.value.geometry
    if own is not None and viewed.value.geometry is None and own.reshaped(viewed.shape) is None:
        given = f"{viewed.shape} for shape {x.shape} and strides {own.strides}"
        expected = "a shape whose elements lie at equal distances"
        raise ShapeError(message("view", given, expected, "Use reshape(...), which copies"))
    return viewed


def _geometry(x: Any) -> Geometry:
    return x.value.geometry or dense(tuple(x.shape))


def _stride(x: Any, dim: int | None = None) -> Any:
    """The distance in memory from one element to the next, along each or one dimension."""
    strides = _geometry(x).strides
    return strides if dim is None else strides[dim]


def _is_contiguous(x: Any, memory_format: Any = None) -> bool:
    """Whether the elements lie next to each other in C order."""
    return x.value.geometry is None or _geometry(x).is_contiguous


@lenient
def _contiguous(x: Any, memory_format: Any = None) -> Any:
    """Itself if its elements lie next to each other in C order, else a copy."""
    return x if _is_contiguous(x) else _clone(x)


@lenient
def _clone(x: Any) -> Any:
    """A copy with a buffer of its own, through which gradients flow."""
    return functions["clone"](x)


def _tolist(x: Any) -> Any:
    """The elements as Python numbers, in nested lists."""
    return x.to_host().tolist()


def _where(x: Any, condition: Any, other: Any) -> Any:
    """These elements where a condition holds, else the other's."""
    return functions["where"](condition, x, other)


def _fill(x: Any, value: Any) -> Any:
    """Set all elements to a number, in place."""
    return functions["change in place"](x, "fill_", lambda old: functions["full_like"](old, value))


def _zero(x: Any) -> Any:
    """Set all elements to 0, in place."""
    return _fill(x, 0)


@lenient
def _bernoulli(x: Any, p: Any = 0.5, generator: Any = None) -> Any:
    """Fill with 1 of a probability, or of one for each element, else 0, in place.

    The op `bernoulli` takes the probabilities from the tensor itself.
    """

    def drawn(old: Any) -> Any:
        uniform = functions["rand"](x.shape, device=x.device, generator=generator)
        return (uniform < p).astype(x.dtype)

    return functions["change in place"](x, "bernoulli_", drawn)


def _sizes(x: Any) -> Sequence[int]:
    sizes: Sequence[int] = x.shape
    return sizes


#: Name -> `(tensor, ...)`.
METHODS: Final[dict[str, Callable[..., Any]]] = {
    **{
        name: _cast(dtype)
        for name, dtype in {
            "half": "float16",
            "bfloat16": "bfloat16",
            "float": "float32",
            "double": "float64",
            "int": "int32",
            "long": "int64",
            "bool": "bool",
        }.items()
    },
    "bernoulli_": _bernoulli,
    "clone": _clone,
    "contiguous": _contiguous,
    "cpu": lambda x: x.to("cpu"),
    "dim": lambda x: len(_sizes(x)),
    "fill_": _fill,
    "is_contiguous": lenient(_is_contiguous),
    "is_floating_point": lambda x: DTYPES[x.dtype].floating,
    "numel": lambda x: int(x.size),
    "storage_offset": lambda x: (x.value.memory, _geometry(x).offset)[1],
    "stride": _stride,
    "tolist": _tolist,
    "unfold": lambda x, dimension, size, step: functions["windows"](x, dimension, size, step),
    "untyped_storage": lambda x: x.value.storage,
    "view": _view,
    "where": _where,
    "zero_": _zero,
}
