"""Host data on its way to a device: arrays, shapes and dtypes, checked and made plain."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from netcl_core.dtypes import DTYPES, dtype_name, is_floating
from netcl_core.errors import ArgumentError, DtypeError, ShapeError, message
from netcl_core.hardware.device import Device
from netcl_core.runtime.geometry import Shape
from netcl_core.tensors.arguments import without_foreign

#: No memory that can be addressed holds more elements of any dtype.
_MOST: Final = 1 << 59
_WHOLE: Final = frozenset(name for name, dtype in DTYPES.items() if dtype.category == 1)
Array: TypeAlias = np.ndarray[Any, Any]


def host_array(data: Any, dtype: Any) -> Array:
    """A C-contiguous NumPy array of host data, by netcl's rules for Python numbers.

    >>> nc.host_array([1.0, 2.0], None).dtype, nc.host_array([1, 2], None).dtype
    (dtype('float32'), dtype('int64'))

    Raises DtypeError for complex, object and ragged input.
    """
    wanted = None if dtype is None else DTYPES[dtype_name(dtype, "tensor")].numpy
    typed = hasattr(data, "dtype")
    try:
        array = np.asarray(data)
    except (ValueError, TypeError) as error:
        raise DtypeError(message("tensor", f"the data is no array ({error})", "numbers")) from None
    if array.dtype.kind in "cOSUVMm" and not is_floating(array):
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
    return np.asarray(array, order="C")


def split_sizes(
    who: str, given: Sequence[Any], rest: Sequence[str], options: dict[str, Any]
) -> tuple[Shape, dict[str, Any]]:
    """A shape given as one tuple or as several ints, and the options, some by position after it.

    `rest` names what may follow by position. Raises ArgumentError for too many or one given twice.
    """
    given = [operator.index(x) if _is_scalar(x) else x for x in given]
    if given and isinstance(given[0], Iterable) and not isinstance(given[0], str):
        shape, more = given[0], given[1:]
    else:
        count = next((i for i, x in enumerate(given) if not _is_size(x)), len(given))
        shape, more = (
            (given[:count], given[count:]) if count or not given else (given[0], given[1:])
        )
    if len(more) > len(rest):
        text = f"{len(given)} arguments by position"
        raise ArgumentError(message(who, text, f"sizes, then {', '.join(rest)}"))
    for name, value in zip(rest, more, strict=False):
        if name in options:
            raise ArgumentError(message(who, f"{name!r} given twice", "one value"))
        options[name] = value
    size = options.pop("size", options.pop("shape", shape))
    return normalize_shape(size), without_foreign(who, frozenset(rest), options)


def _is_scalar(value: Any) -> bool:
    """Whether it is a tensor or array of one whole number, which may be a size."""
    return getattr(value, "shape", None) == () and str(getattr(value, "dtype", "")) in _WHOLE


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def normalize_shape(shape: Any) -> Shape:
    """A shape as a tuple of ints; raises ShapeError if a size is negative or no int."""
    sizes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    sizes = tuple(operator.index(size) if _is_scalar(size) else size for size in sizes)
    if not all(isinstance(size, (int, np.integer)) and size >= 0 for size in sizes):
        raise ShapeError(message("shape", f"{shape!r}", "non-negative ints"))
    if math.prod(map(int, sizes)) > _MOST:
        raise ShapeError(message("shape", f"{shape!r}", f"at most {_MOST} elements"))
    return tuple(int(size) for size in sizes)


def check_dtype(name: str, device: Device) -> None:
    """Raise DtypeError if a device cannot hold a dtype."""
    if name == "float64" and not device.supports_fp64:
        raise DtypeError(
            message(
                str(device),
                "it has no float64 (cl_khr_fp64)",
                "float32, float16 or bfloat16 here",
                "Convert with astype('float32'), or use another device: 'numpy' has float64",
            )
        )
