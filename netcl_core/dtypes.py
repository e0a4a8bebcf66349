"""The dtypes of netcl: names, types in OpenCL C and NumPy, wide forms, and promotion."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import ml_dtypes
import numpy as np

from netcl_core.errors import DtypeError, message


@final
class DtypeName(str):
    """The name of a dtype, as `x.dtype` gives it: a text, which tells of the dtype as PyTorch's do.

    >>> nc.ones(2).dtype == "float32", nc.ones(2).dtype.is_floating_point
    (True, True)
    """

    __slots__ = ()

    @property
    def is_floating_point(self) -> bool:
        """Whether it is of floating numbers."""
        return DTYPES[self].floating

    @property
    def is_complex(self) -> bool:
        """Whether it is of complex numbers: none is."""
        return False

    @property
    def is_signed(self) -> bool:
        """Whether there are numbers below 0."""
        return self not in ("bool", "uint8")

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return DTYPES[self].itemsize


@final
@dataclass(frozen=True, slots=True)
class Dtype:
    """One dtype.

    `storage` is the OpenCL C type in memory, `compute` the type that arithmetic
    uses: float16 is stored as half and computed in float (vload_half is core
    OpenCL, half arithmetic is an extension), and so is bfloat16, the upper half of
    a float, for which OpenCL has no type; bool, uint8, int8 and int16 are computed in int.

    >>> nc.DTYPES["bfloat16"].wide, nc.DTYPES["float64"].wide
    ('float32', 'float64')
    """

    name: str
    numpy: np.dtype[Any]
    storage: str
    compute: str
    category: int  # 0 bool, 1 integer, 2 floating

    itemsize: int  # bytes per element
    floating: bool  # whether a tensor of this dtype can have a gradient
    wide: str  # the dtype of sums and statistics: that of the computed values of a float

    @property
    def limits(self) -> Any:
        """What NumPy's `finfo` tells, for a floating dtype."""
        return ml_dtypes.finfo(self.numpy)  # type: ignore[no-untyped-call]


def _dtype(text: str, kept: Any, storage: str, compute: str, category: int) -> Dtype:
    name, numpy = DtypeName(text), np.dtype(kept)
    wide = DtypeName("float32") if category == 2 and compute == "float" else name
    return Dtype(name, numpy, storage, compute, category, numpy.itemsize, category == 2, wide)


DTYPES: Final[dict[str, Dtype]] = {
    each.name: each
    for each in itertools.starmap(_dtype, (
        ("bool", np.bool_, "uchar", "int", 0),
        ("uint8", np.uint8, "uchar", "int", 1),
        ("int8", np.int8, "char", "int", 1),
        ("int16", np.int16, "short", "int", 1),
        ("int32", np.int32, "int", "int", 1),
        ("int64", np.int64, "long", "long", 1),
        ("bfloat16", ml_dtypes.bfloat16, "ushort", "float", 2),
        ("float16", np.float16, "half", "float", 2),
        ("float32", np.float32, "float", "float", 2),
        ("float64", np.float64, "double", "double", 2),
    ))
}  # fmt: skip
#: The floating dtypes, the narrow ones first.
FLOATS: Final = tuple([name for name, dtype in DTYPES.items() if dtype.floating])
_WIDE: Final = {
    each.numpy: np.dtype(each.wide) for each in DTYPES.values() if each.wide != each.name
}
_ORDER: Final = {name: rank for rank, name in enumerate(DTYPES)}
#: The NumPy type in which an OpenCL C compute type is evaluated on the NumPy path.
NUMPY_OF_COMPUTE: Final[dict[str, np.dtype[Any]]] = {
    "float": np.dtype("float32"),
    "double": np.dtype("float64"),
    "int": np.dtype("int32"),
    "long": np.dtype("int64"),
}
#: The dtype that a Python scalar brings when no tensor of its category is there.
DEFAULT_OF_CATEGORY: Final = ("bool", "int64", "float32")


def dtype_name(dtype: Any, who: str = "dtype") -> str:
    """The canonical name of a dtype given as name, NumPy dtype or Python type.

    >>> nc.dtype_name(float), nc.dtype_name(np.int64)
    ('float32', 'int64')

    Raises DtypeError for dtypes that netcl does not have, complex and object included.

    Args:
        who: Who asks, for the message of an error.
    """
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype].name
    if dtype is float:
        return DTYPES["float32"].name
    if dtype is int:
        return DTYPES["int64"].name
    try:
        name = str(np.dtype(dtype).name)
    except TypeError:
        name = repr(dtype)
    if name not in DTYPES:
        raise DtypeError(
            message(
                who,
                f"the dtype {name} is not supported",
                "one of " + ", ".join(DTYPES),
                "Convert the data first, for example with numpy's astype",
            )
        )
    return DTYPES[name].name


def is_floating(array: Any) -> bool:
    """Whether an array's dtype is floating; NumPy does not count bfloat16 among its own."""
    return array.dtype.kind == "f" or array.dtype in _WIDE


def widened(array: Any) -> Any:
    """A NumPy array in the dtype in which it is computed with: float32 for 16-bit floats.

    >>> nc.widened(np.ones(2, np.float16)).dtype, nc.widened(np.ones(2)).dtype
    (dtype('float32'), dtype('float64'))
    """
    wide = _WIDE.get(array.dtype)
    return array if wide is None else array.astype(wide)


def category_of_scalar(value: bool | int | float) -> int:
    """0 for bool, 1 for int, 2 for float."""
    if isinstance(value, bool):
        return 0
    return 1 if isinstance(value, int) else 2


def _widest(names: Sequence[str]) -> str:
    widest = max(names, key=_ORDER.__getitem__)
    if widest == "int8" and "uint8" in names:
        return "int16"
    return "float32" if widest == "float16" and "bfloat16" in names else widest


def promote(arrays: Iterable[tuple[str, int]], scalars: Iterable[int] = ()) -> str:
    """The dtype of a result, by PyTorch's rule.

    >>> nc.promote([("float16", 2), ("float64", 0)]), nc.promote([("int64", 1)], scalars=[2])
    ('float16', 'float32')

    `arrays` are pairs of dtype name and number of dimensions, `scalars` the
    categories of Python scalars. Tensors with dimensions come first; 0-d tensors
    and then Python scalars only count if their category is higher.

    Raises:
        DtypeError: Unless given at least one.
    """
    pairs = list(arrays)
    full = [name for name, ndim in pairs if ndim > 0]
    zero = [name for name, ndim in pairs if ndim == 0]
    result = _widest(full) if full else None
    if zero:
        other = _widest(zero)
        if result is None or DTYPES[other].category > DTYPES[result].category:
            result = other
    for category in scalars:
        if result is None or category > DTYPES[result].category:
            result = DEFAULT_OF_CATEGORY[category]
    if result is None:
        raise DtypeError(message("promotion", "no operand was given", "at least one"))
    return result
