"""Methods and properties of `torch.Tensor` that netcl's tensors do not have themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import netcl_core as nc
from netcl_core import DTYPES
from netcl_core.arguments import lenient
from netcl_core.errors import ShapeError, message


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
    if data and all(isinstance(each, int) for each in data):
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
    flat = [callable(each) for each in x.to_host().reshape(-1).tolist()]
    return x.copy_(nc.tensor(flat, dtype=x.dtype).reshape(x.shape))


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
    "H": property(_last_two),
    "apply_": _apply,
    "cuda": lenient(_cuda),
    "detach_": _detach_,
    "fill_diagonal_": lenient(_fill_diagonal),
    "get_device": _get_device,
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
    "new": _new,
    "new_tensor": lenient(_new_tensor),
    "output_nr": property(lambda x: 0),
    "pin_memory": _itself,
    "real": property(_itself),
    "record_stream": _itself,
    "share_memory_": _itself,
    "type": lenient(_type),
}
