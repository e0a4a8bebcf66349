"""PyTorch's methods of a tensor that are no op's name: casts, moves, shapes, and read-outs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from netcl_core.arguments import lenient
from netcl_core.dtypes import DTYPES
from netcl_core.errors import ArgumentError, ShapeError, message
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import get_device
from netcl_core.runtime.geometry import Geometry, dense
from netcl_core.tensors.functions import functions
from netcl_core.tensors.samplers import SAMPLERS


def _cast(dtype: str) -> Callable[[Any], Any]:
    def cast(x: Any) -> Any:
        return x.astype(dtype)

    cast.__doc__ = f"The values as {dtype}."
    return cast


@lenient
def device_and_dtype(*given: Any, device: Any = None, dtype: Any = None) -> tuple[Any, Any]:
    """The device and the dtype (or None) that `x.to(...)` was asked for.

    Raises ArgumentError for anything else.
    """
    for each in given:
        if hasattr(each, "requires_grad"):  # another tensor
            device, dtype = each.device, each.dtype
        elif isinstance(each, Device) or (isinstance(each, str) and each not in DTYPES):
            device = each
        elif each is not None and not isinstance(each, bool):  # PyTorch's non_blocking
            dtype = each
    if device is None and dtype is None:
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
    made = x.reshape(*shape, shape=size)
    own = x.value.geometry
    if own is not None and made.value.geometry is None and own.reshaped(made.shape) is None:
        given = f"{made.shape} for shape {x.shape} and strides {own.strides}"
        expected = "a shape whose elements lie at equal distances"
        raise ShapeError(message("view", given, expected, "Use reshape(...), which copies"))
    return made


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


def _data_ptr(x: Any) -> int:
    """A number that tells where the elements begin: equal for tensors on one place of memory."""
    memory = x.value.storage.memory  # whose elements stay where they are from now on
    start = getattr(memory, "int_ptr", None)
    if start is None:
        start = 0 if memory is None else memory.ctypes.data
    return int(start + _geometry(x).offset * DTYPES[x.dtype].itemsize)


@lenient
def _clone(x: Any) -> Any:
    """A copy with a buffer of its own, through which gradients flow."""
    return functions["clone"](x)


def _tolist(x: Any) -> Any:
    """The elements as Python numbers, in nested lists."""
    return x.to_host().tolist()


def _new(name: str) -> Callable[..., Any]:
    def make(x: Any, *size: Any, **options: Any) -> Any:
        made = getattr(type(x.value), name)
        return made(*size, **{"dtype": x.dtype, "device": x.device, **options})

    make.__doc__ = f"`{name}` of this tensor's dtype and device."
    return make


def _shaped_as(op: str) -> Callable[[Any, Any], Any]:
    def call(x: Any, other: Any) -> Any:
        return functions[op](x, other.shape)

    call.__doc__ = f"`{op}` to the shape of another tensor."
    return call


def _where(x: Any, condition: Any, other: Any) -> Any:
    """These elements where a condition holds, else the other's."""
    return functions["where"](condition, x, other)


def _fill(x: Any, value: Any) -> Any:
    """Set all elements to a number, in place."""
    return functions["change in place"](x, "fill_", lambda old: functions["full_like"](old, value))


def _zero(x: Any) -> Any:
    """Set all elements to 0, in place."""
    return _fill(x, 0)


def _sizes(x: Any) -> Sequence[int]:
    found: Sequence[int] = x.shape
    return found


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
    "byte": _cast("uint8"),
    "char": _cast("int8"),
    "short": _cast("int16"),
    "clone": _clone,
    "contiguous": _contiguous,
    "data_ptr": _data_ptr,
    "cpu": lambda x: x.to("cpu"),
    "dim": lambda x: len(_sizes(x)),
    "element_size": lambda x: DTYPES[x.dtype].itemsize,
    "expand_as": _shaped_as("expand"),
    "fill_": _fill,
    "is_contiguous": lenient(_is_contiguous),
    "is_floating_point": lambda x: DTYPES[x.dtype].floating,
    "nelement": lambda x: int(x.size),
    "numel": lambda x: int(x.size),
    "new_empty": _new("empty"),
    "new_full": _new("full"),
    "new_ones": _new("ones"),
    "new_zeros": _new("zeros"),
    "reshape_as": _shaped_as("reshape"),
    "storage_offset": lambda x: _geometry(x).offset,
    "stride": _stride,
    "tolist": _tolist,
    "type_as": lambda x, other: x.astype(other.dtype),
    "unfold": lambda x, dimension, size, step: functions["windows"](x, dimension, size, step),
    "untyped_storage": lambda x: x.value.storage,
    "view": _view,
    "view_as": _shaped_as("reshape"),
    "where": _where,
    "zero_": _zero,
    **SAMPLERS,
}
