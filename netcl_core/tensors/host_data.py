"""Host data on its way to a device: arrays, shapes and dtypes, checked and made plain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from netcl_core.device.device import Device
from netcl_core.dtypes import DTYPES, dtype_name
from netcl_core.errors import DtypeError, ShapeError, message

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]


def host_array(data: Any, dtype: Any) -> Array:
    """A C-contiguous NumPy array of host data, by netcl's rules for Python numbers.

    >>> nc.host_array([1.0, 2.0], None).dtype, nc.host_array([1, 2], None).dtype
    (dtype('float32'), dtype('int32'))

    Raises DtypeError for complex, object and ragged input.
    """
    wanted = None if dtype is None else DTYPES[dtype_name(dtype, "tensor")].numpy
    typed = hasattr(data, "dtype")
    try:
        array = np.asarray(data)
    except (ValueError, TypeError) as error:
        raise DtypeError(message("tensor", f"the data is no array ({error})", "numbers")) from None
    if array.dtype.kind in "cOSUVMm":
        raise DtypeError(
            message(
                "tensor",
                f"data of dtype {array.dtype}",
                "real numbers or bools",
                "Pass real and imaginary parts separately"
                if array.dtype.kind == "c"
                else "Convert the data to numbers first",
            )
        )
    if wanted is None and not typed and array.dtype == np.float64:
        wanted = np.dtype(np.float32)
    if wanted is not None:
        with np.errstate(all="ignore"):  # what float32 cannot hold is infinite
            array = array.astype(wanted)
    elif not typed and array.dtype == np.int64:
        fits = not array.size or (array.min() >= -(2**31) and array.max() < 2**31)
        array = array.astype(np.int32) if fits else array
    return np.asarray(array, order="C")


def normalize_shape(shape: Any) -> Shape:
    """A shape as a tuple of ints; raises ShapeError if a size is negative or no int."""
    sizes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if not all(isinstance(size, (int, np.integer)) and size >= 0 for size in sizes):
        raise ShapeError(message("shape", f"{shape!r}", "non-negative ints"))
    return tuple(int(size) for size in sizes)


def check_dtype(name: str, device: Device) -> None:
    """Raise DtypeError if a device cannot hold a dtype."""
    if name == "float64" and not device.supports_fp64:
        raise DtypeError(
            message(
                str(device),
                "it has no float64 (cl_khr_fp64)",
                "float32 or float16 here",
                "Convert with astype('float32'), or use another device: 'cpu' has float64",
            )
        )
