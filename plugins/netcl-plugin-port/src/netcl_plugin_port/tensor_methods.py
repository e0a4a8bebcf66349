"""Methods and properties of `torch.Tensor` that netcl's tensors do not have themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import netcl_core as nc
from netcl_core import DTYPES, lenient
from netcl_core.errors import ShapeError, message
from netcl_plugin_port.samplers import SAMPLERS


def _cuda(x: Any, device: Any = None) -> Any:
    return x.to("cuda" if device is None else nc.cuda._of(device))


def _itself(x: Any, *args: Any, **options: Any) -> Any:
    return x


def _type(x: Any, dtype: Any = None) -> Any:
    """The values in another dtype, also of a type of old; without one, the name of such a type."""
    if dtype is None:
        kinds = {"bool": "Bool", "uint8": "Byte", "int32": "Int", "int64": "Long"}
        floats = {"float16": "Half", "float32": "Float", "float64": "Double"}
        return f"torch.{ {**kinds, **floats}.get(x.dtype, x.dtype.capitalize()) }Tensor"
    return x.astype(getattr(dtype, "dtype", None) or _of_old(dtype))


def _of_old(dtype: Any) -> Any:
    """`torch.FloatTensor` and `torch.cuda.FloatTensor`, as texts, by the dtype's name."""
    if isinstance(dtype, str) and dtype.endswith("Tensor"):
        return getattr(nc, dtype.rpartition(".")[2]).dtype
    return dtype


def _new(x: Any, *data: Any) -> Any:
    """A tensor of this one's dtype and device, of sizes or of data."""
    if data and all(isinstance(item, int) for item in data):
        return x.new_empty(*data)
    return _new_tensor(x, data[0] if data else [])


def _new_tensor(
    x: Any, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    return nc.tensor(data, device or x.device, dtype or x.dtype, requires_grad)


def _get_device(x: Any) -> int:
    """The number of the GPU; -1 for other devices."""
    return x.device.index if x.device.type == "cuda" else -1


def _detach_(x: Any) -> Any:
    """Of a leaf itself; a result is to be named anew: `x = x.detach()`."""
    return x.requires_grad_(False)


def _last_two(x: Any) -> Any:
    return x.transpose(-2, -1)


def _apply(x: Any, callable: Callable[[Any], Any]) -> Any:
    """Each element by a function of Python, on the host."""
    flat = [callable(item) for item in x.to_host().reshape(-1).tolist()]
    return x.copy_(nc.tensor(flat, dtype=x.dtype).reshape(x.shape))


def _cast(dtype: str) -> Callable[[Any], Any]:
    def cast(x: Any) -> Any:
        return x.astype(dtype)

    cast.__doc__ = f"The values as {dtype}."
    return cast


def _data_ptr(x: Any) -> int:
    """A number that tells where the elements begin: equal for tensors on one place of memory."""
    value = x.value
    value.storage.join(value, value)  # so that its elements stay where they are from now on
    memory = value.memory
    start = getattr(memory, "int_ptr", None)
    if start is None:
        start = 0 if memory is None else memory.ctypes.data
    return int(start + x.storage_offset() * DTYPES[x.dtype].itemsize)


def _made(name: str) -> Callable[..., Any]:
    def make(x: Any, *size: Any, **options: Any) -> Any:
        method = getattr(type(x.value), name)
        return method(*size, **{"dtype": x.dtype, "device": x.device, **options})

    make.__doc__ = f"`{name}` of this tensor's dtype and device."
    return make


def _shaped_as(op: str) -> Callable[[Any, Any], Any]:
    def call(x: Any, other: Any) -> Any:
        return getattr(x, op)(other.shape)

    call.__doc__ = f"`{op}` to the shape of another tensor."
    return call


def _fill_diagonal(x: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Set x[i, i, ...] to a number, in place; with `wrap` again below the first rows."""
    sizes, step = x.shape, sum(x.stride())
    if len(sizes) < 2 or (len(sizes) > 2 and len({*sizes}) > 1):
        given = f"a tensor of shape {sizes}"
        raise ShapeError(message("fill_diagonal_", given, "a matrix, or equal sizes"))
    count = min(sizes)
    if wrap and len(sizes) == 2 and sizes[0] > sizes[1]:
        count = -(-sizes[0] * sizes[1] // (sizes[1] + 1))
    x.as_strided((count,), (step,), x.storage_offset()).fill_(fill_value)
    return x


#: Name -> a function of the tensor, or a property.
METHODS: Final[dict[str, Any]] = {
    **SAMPLERS,
    "apply_": _apply,
    "byte": _cast("uint8"),
    "char": _cast("int8"),
    "cuda": lenient(_cuda),
    "data_ptr": _data_ptr,
    "detach_": _detach_,
    "element_size": lambda x: DTYPES[x.dtype].itemsize,
    "expand_as": _shaped_as("expand"),
    "fill_diagonal_": lenient(_fill_diagonal),
    "get_device": _get_device,
    "H": property(_last_two),
    "is_complex": lambda x: False,
    "is_cpu": property(lambda x: x.device.type == "cpu"),
    "is_cuda": property(lambda x: x.device.type == "cuda"),
    "is_inference": lambda x: False,
    "is_meta": property(lambda x: False),
    "is_mps": property(lambda x: False),
    "is_nested": property(lambda x: False),
    "is_nonzero": lambda x: bool(x),
    "is_pinned": lambda x: False,
    "is_quantized": property(lambda x: False),
    "is_same_size": lambda x, other: x.shape == other.shape,
    "is_shared": lambda x: False,
    "is_signed": lambda x: x.dtype not in ("uint8", "bool"),
    "is_sparse": property(lambda x: False),
    "itemsize": property(lambda x: DTYPES[x.dtype].itemsize),
    "layout": property(lambda x: nc.strided),
    "mH": property(_last_two),
    "mT": property(_last_two),
    "nbytes": property(lambda x: int(x.size) * DTYPES[x.dtype].itemsize),
    "ndimension": lambda x: x.ndim,
    "nelement": lambda x: int(x.size),
    "new": _new,
    "new_empty": _made("empty"),
    "new_full": _made("full"),
    "new_ones": _made("ones"),
    "new_tensor": lenient(_new_tensor),
    "new_zeros": _made("zeros"),
    "output_nr": property(lambda x: 0),
    "pin_memory": _itself,
    "real": property(_itself),
    "record_stream": _itself,
    "reshape_as": _shaped_as("reshape"),
    "share_memory_": _itself,
    "short": _cast("int16"),
    "type": lenient(_type),
    "type_as": lambda x, other: x.astype(other.dtype),
    "view_as": _shaped_as("reshape"),
}
