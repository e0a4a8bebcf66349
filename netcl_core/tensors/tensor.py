"""Tensor: a buffer with a shape and a dtype on a device.

What made it a Node knows, the Tensor that an op returns.
"""

from __future__ import annotations

import math
import weakref
from operator import attrgetter
from typing import Any, Final

from netcl_core.arguments import lenient
from netcl_core.dtypes import DTYPES, dtype_name
from netcl_core.errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    ShapeError,
    message,
)
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import default_device, get_device
from netcl_core.runtime.recording import note_change, recordings, refuse_reading
from netcl_core.runtime.stream import stream_of
from netcl_core.tensors.functions import functions
from netcl_core.tensors.host_data import (
    Array,
    Shape,
    check_dtype,
    host_array,
    normalize_shape,
    split_sizes,
)
from netcl_core.tensors.operand import Operand, told

#: What may stand after the sizes of a new tensor.
_OPTIONS: Final = ("dtype", "device", "requires_grad")


class Tensor(Operand):
    """An N-dimensional array of one dtype on one device, contiguous in C order.

    >>> x = nc.Tensor.zeros((2, 3), "float16", "numpy")
    >>> x.shape, x.dtype, str(x.device), x.requires_grad
    ((2, 3), 'float16', 'numpy', False)

    `requires_grad` marks a leaf: `backward` leaves its gradient in `grad`, as a Tensor; a recorded
    gradient that is assigned stays a Node and can be differentiated. Two tensors may share a
    buffer (a reshape); `version` counts the in-place changes of that buffer, and `arrivals` the
    gradients that backward passes and replays have left in a leaf.
    """

    __slots__ = {
        **dict.fromkeys(("__weakref__", "_base", "_grad", "_range", "_requires_grad", "_version")),
        **dict.fromkeys(("arrivals", "buffer", "leaf_node")),
        "shape": "The sizes of the dimensions.",
        "dtype": "The dtype's name, such as `'float32'`.",
        "device": "The device that holds the data.",
    }

    buffer: Any
    shape: Shape
    dtype: str
    device: Device
    #: Whether no call made it: of a Node its own answer.
    is_leaf = True

    def __init__(
        self, buffer: Any = (), shape: Any = None, dtype: Any = None, device: Any = None, *more: int
    ) -> None:
        if shape.__class__ is not tuple:  # as PyTorch's users write it: Tensor(2, 3), Tensor([1.0])
            like = Tensor._of_old((buffer, shape, dtype, device, *more))
            buffer, shape, dtype, device = like.buffer, like.shape, like.dtype, like.device
        self.buffer = buffer
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self._requires_grad = False
        self._grad: Operand | None = None
        self.leaf_node: weakref.ref[Any] | None = None
        self._base: Tensor | None = None
        self._version = 0
        self._range: tuple[int, int, int] | None = None
        self.arrivals = 0

    @staticmethod
    def _of_old(given: tuple[Any, ...]) -> Tensor:
        """A float32 tensor of sizes, uninitialised, or of data."""
        sizes = [each for each in given if each is not None]
        if all(isinstance(each, int) for each in sizes):
            return Tensor.empty(tuple(sizes))
        return Tensor.from_host(sizes[0], dtype="float32")

    @property
    def value(self) -> Tensor:
        return self

    def int_range(self) -> tuple[int, int]:
        """The smallest and largest element of a non-empty integer tensor.

        Known without asking the device for data that came from the host and has not
        been changed since; else it is read once and remembered, for all tensors on the buffer.
        """
        told()
        if recordings:
            refuse_reading("the host asks for the range of a tensor's values")
        base = self if self._base is None else self._base
        if base._range is None or base._range[0] != base._version:
            base._remember_range(self.to_host())
        assert base._range is not None  # remembered just now
        return base._range[1:]

    def _remember_range(self, array: Array) -> None:
        self._range = (self.version, int(array.min()), int(array.max()))

    @property
    def version(self) -> int:
        """How often the buffer has been changed in place."""
        return self._version if self._base is None else self._base.version

    @classmethod
    def from_host(
        cls,
        array_like: Any,
        device: str | Device | None = None,
        dtype: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """A tensor with a copy of host data.

        NumPy arrays keep their dtype; Python floats become float32, ints int64, bools bool.

        Raises DtypeError for dtypes that netcl or the device does not have.
        """
        target = default_device() if device is None else get_device(device)
        array = host_array(array_like, dtype)
        name = dtype_name(array.dtype, "tensor")
        check_dtype(name, target)
        made = Tensor(stream_of(target).upload(array, DTYPES[name]), array.shape, name, target)
        if array.size and array.dtype.kind in "iu":
            made._remember_range(array)
        return made.requires_grad_(requires_grad)

    @classmethod
    def empty(cls, *size: Any, **options: Any) -> Tensor:
        """An uninitialised tensor; its size and options as for `zeros`.

        >>> nc.empty(2, 3).shape
        (2, 3)
        """
        shape, options = split_sizes("empty", size, _OPTIONS, options)
        return cls._empty(shape, **options)

    @classmethod
    def _empty(cls, shape: Shape, dtype: Any = None, device: Any = None,
               requires_grad: bool = False) -> Tensor:  # fmt: skip
        target = default_device() if device is None else get_device(device)
        name = "float32" if dtype is None else dtype_name(dtype, "empty")
        check_dtype(name, target)
        buffer = stream_of(target).allocate(math.prod(shape), DTYPES[name])
        return Tensor(buffer, shape, name, target).requires_grad_(requires_grad)

    @classmethod
    @lenient
    def full(
        cls,
        shape: Any,
        value: float,
        dtype: Any = None,
        device: str | Device | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """A tensor whose elements all have one value; the dtype follows from it by default.

        >>> nc.full((2,), 7).numpy()
        array([7, 7])
        """
        name = dtype_name(dtype if dtype is not None else host_array(value, None).dtype, "full")
        made = cls._empty(normalize_shape(shape), name, device)
        stream_of(made.device).fill(made.buffer, made.size, DTYPES[name], value)
        return made.requires_grad_(requires_grad)

    @classmethod
    def zeros(cls, *size: Any, **options: Any) -> Tensor:
        """A tensor of zeros.

        >>> nc.zeros(2, 3).shape, nc.zeros((2, 3), dtype="int32").dtype
        ((2, 3), 'int32')

        Args:
            size: The shape, as one tuple or as several ints.
            options: `dtype` (float32 by default), `device`, `requires_grad`; after a tuple also
                by position.
        """
        shape, options = split_sizes("zeros", size, _OPTIONS, options)
        return cls.full(shape, 0, **{"dtype": "float32", **options})

    @classmethod
    def ones(cls, *size: Any, **options: Any) -> Tensor:
        """A tensor of ones; its size and options as for `zeros`.

        >>> nc.ones(2).numpy()
        array([1., 1.], dtype=float32)
        """
        shape, options = split_sizes("ones", size, _OPTIONS, options)
        return cls.full(shape, 1, **{"dtype": "float32", **options})

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Mark this tensor as a leaf (or not); raises DtypeError unless it is floating."""
        if requires_grad and not DTYPES[self.dtype].floating:
            raise DtypeError(message("requires_grad", f"a {self.dtype} tensor", "a floating dtype"))
        self._requires_grad = bool(requires_grad)
        return self

    def _set_requires_grad(self, requires_grad: bool) -> None:
        self.requires_grad_(requires_grad)

    def _set_grad(self, grad: Operand | None) -> None:
        self._grad = None if grad is None else self._checked_grad(grad)

    def _checked_grad(self, grad: Any) -> Operand:
        """A gradient, which is a Node only if it carries a graph of its own.

        Raises unless it has this tensor's shape, dtype and device.
        """
        if not isinstance(grad, Operand):
            given = f"a gradient of type {type(grad).__name__}"
            raise ArgumentError(message("grad", given, "a Tensor or None"))
        if (grad.shape, grad.dtype, grad.device) != (self.shape, self.dtype, self.device):
            self._refuse(grad)
        return grad if grad.requires_grad else grad.value

    def _refuse(self, grad: Operand) -> None:
        """Raise for the first thing in which a gradient differs from this tensor."""
        for what, error in (("shape", ShapeError), ("dtype", DtypeError), ("device", DeviceError)):
            given, expected = getattr(grad, what), getattr(self, what)
            if given != expected:
                text = message("grad", f"a gradient of {what} {given}", f"{expected} or None")
                raise error(text)

    def note_arrival(self) -> None:
        """Count a gradient that a backward pass or a replay leaves here."""
        self.arrivals += 1

    # Getters in C: every op reads `requires_grad` of its operands.
    requires_grad = property(attrgetter("_requires_grad"), _set_requires_grad)
    grad = property(attrgetter("_grad"), _set_grad)

    def alias(self, shape: Shape) -> Tensor:
        """A tensor of another shape on the same buffer."""
        made = Tensor(self.buffer, shape, self.dtype, self.device)
        made._base = self if self._base is None else self._base
        return made

    @property
    def is_alias(self) -> bool:
        """Whether it was made as a view of another tensor, on the same buffer."""
        return self._base is not None

    def mark_changed(self) -> None:
        """Note that the buffer was changed in place, so that a stale graph is noticed."""
        told()
        base = self if self._base is None else self._base
        base._version += 1
        if recordings:
            note_change(base)

    def copy_(self, source: Any) -> Tensor:
        """Overwrite the elements in place with those of a tensor or host array of this shape.

        A compiled function does so at each call, if the source is a tensor that it computes.

        Raises ShapeError if the shapes differ.
        """
        if isinstance(source, Operand) and source.device is self.device:
            if source.dtype != self.dtype:
                source = functions["astype"](source.detach(), self.dtype)
            other = source.value
        else:
            data = source.to_host() if isinstance(source, Operand) else source
            array = host_array(data, None).astype(DTYPES[self.dtype].numpy)
            other = Tensor.from_host(array, self.device)
        if other.shape != self.shape:
            raise ShapeError(message("copy_", f"shape {other.shape}", f"{self.shape}"))
        other.copy_into(self)
        return self

    def copy_into(self, target: Tensor) -> None:
        """Overwrite the elements of another tensor, of the same shape, dtype and device."""
        if target.buffer is self.buffer:  # OpenCL refuses copies that overlap
            return
        target.mark_changed()
        dtype = DTYPES[target.dtype]
        stream_of(target.device).copy(target.buffer, self.buffer, target.size, dtype)

    def __copy__(self) -> Tensor:
        return self.alias(self.shape).requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        made = Tensor.empty(self.shape, self.dtype, self.device).copy_(self)
        memo[id(self)] = made
        return made.requires_grad_(self.requires_grad)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tensor.from_host, (self.to_host(), None, None, self.requires_grad)
