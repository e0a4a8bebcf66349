"""Tensor: a buffer with a shape and a dtype on a device; it knows nothing of gradients.

`Operand` holds what Tensor and Node share: read-outs, and Python's operators,
which call the op of their name.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, final

import numpy as np

from netcl_core.device.device import Device
from netcl_core.device.device_table import default_device, get_device
from netcl_core.dtypes import DTYPES, dtype_name
from netcl_core.errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    MissingNameError,
    ShapeError,
    message,
    missing_name,
)
from netcl_core.runtime.recording import note_change, recordings, refuse_reading
from netcl_core.runtime.stream import stream_of
from netcl_core.tensors.functions import functions
from netcl_core.tensors.host_data import Array, Shape, check_dtype, host_array, normalize_shape

#: Told before the host reads a tensor's data or notes a change of it.
_watcher: Callable[[], None] | None = None


def watch(watcher: Callable[[], None]) -> None:
    """Let `watcher` know before the host reads or changes data: it may raise."""
    global _watcher
    _watcher = watcher


def _unary(op: str) -> Callable[[Any], Any]:
    return lambda self: functions[op](self)


def _binary(op: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """An operator and its reflected form, which Python calls with swapped operands."""
    return (
        lambda self, other: functions[op](self, other),
        lambda self, other: functions[op](other, self),
    )


class Operand:
    """What Tensor and Node have in common. `value` is the Tensor that holds the data."""

    __slots__ = ()
    __hash__ = object.__hash__
    requires_grad: bool
    #: NumPy leaves binary operators with arrays on the left to us.
    __array_ufunc__ = None

    if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

        def __getattr__(self, name):
            """Only asked for what is not there: an op's name is the likely mistake."""
            who = type(self).__name__
            if name.startswith("_"):
                raise AttributeError(f"{who!r} object has no attribute {name!r}")
            if name in functions.op_names():
                remedy = f"Ops are functions: netcl_core.autograd.{name}(x)"
                raise MissingNameError(message(who, f"it has no method {name!r}", "", remedy))
            raise missing_name(who, name, [each for each in dir(type(self)) if each[0] != "_"])

    @property
    def value(self) -> Tensor:
        """The tensor that holds the data."""
        raise TypeError("Operand is abstract")

    @property
    def shape(self) -> Shape:
        """The sizes of the dimensions."""
        return self.value.shape

    @property
    def dtype(self) -> str:
        """The dtype's name, such as `'float32'`."""
        return self.value.dtype

    @property
    def device(self) -> Device:
        """The device that holds the data."""
        return self.value.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.value.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.value.shape)

    def to_host(self) -> Array:
        """The data as a fresh NumPy array; waits for the device."""
        value = self.value
        buffer, dtype = value.buffer, DTYPES[value.dtype]
        if _watcher is not None:
            _watcher()
        flat = stream_of(value.device).download(buffer, self.size, dtype)
        return flat.reshape(value.shape)

    numpy = to_host

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("netcl: the data is on a device, so an array is always a copy")
        array = self.to_host()
        return array if dtype is None else array.astype(dtype, copy=False)

    def item(self) -> Any:
        """The only element as a Python number; raises ShapeError if there are more."""
        if self.size != 1:
            raise ShapeError(
                message("item", f"a tensor of shape {self.shape}", "one element", "Use to_host()")
            )
        return self.to_host().reshape(-1)[0].item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __index__(self) -> int:
        item = self.item()
        if not isinstance(item, int):
            raise TypeError(f"netcl: a {self.dtype} tensor is no index")
        return item

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("netcl: len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        with np.printoptions(precision=4, threshold=8, edgeitems=3):
            values = np.array2string(self.to_host(), separator=", ", prefix="       ")
        place = f"dtype={self.dtype}, device={self.device}"
        return f"{type(self).__name__}({values}, shape={self.shape}, {place})"

    def backward(self, grad: Any = None) -> None:
        """Compute the gradients of this value's leaves; see `netcl_core.autograd.backward`."""
        functions["backward"](self, grad)

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Call `hook` with each complete gradient; see `netcl_core.autograd.register_hook`."""
        return functions["register_hook"](self, hook)

    def retain_grad(self) -> None:
        """Keep a result's gradient in `grad`; see `netcl_core.autograd.retain_grad`."""
        functions["retain_grad"](self)

    def detach(self) -> Tensor:
        """The same data as a leaf that needs no gradient."""
        return self.value.alias(self.shape)

    def astype(self, dtype: Any) -> Any:
        """The values in another dtype (differentiable between floating dtypes)."""
        return functions["astype"](self, dtype)

    def to(self, device: str | Device) -> Any:
        """The values on another device (differentiable); itself if it is there already."""
        return functions["to_device"](self, get_device(device))

    def reshape(self, *shape: Any) -> Any:
        """The same elements in another shape: `reshape(2, 3)` or `reshape((2, 3))`."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        return functions["reshape"](self, tuple(sizes))

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The transpose: all dimensions reversed."""
        return functions["transpose"](self)

    def __getitem__(self, index: Any) -> Any:
        return functions["getitem"](self, index)

    # The one table that binds Python's operators to the names of ops. `==` stays identity,
    # so that tensors can be keys.
    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("sub")
    __mul__, __rmul__ = _binary("mul")
    __truediv__, __rtruediv__ = _binary("div")
    __pow__, __rpow__ = _binary("pow")
    __matmul__, __rmatmul__ = _binary("matmul")
    __lt__, __gt__ = _binary("lt")[0], _binary("gt")[0]
    __le__, __ge__ = _binary("le")[0], _binary("ge")[0]
    __neg__ = _unary("neg")
    __abs__ = _unary("abs")


@final
class Tensor(Operand):
    """An N-dimensional array of one dtype on one device, contiguous in C order.

    >>> x = nc.Tensor.zeros((2, 3), "float16", "cpu")
    >>> x.shape, x.dtype, str(x.device), x.requires_grad
    ((2, 3), 'float16', 'cpu', False)

    `requires_grad` marks a leaf: `backward` leaves its gradient in `grad`, as a Tensor; a recorded
    gradient that is assigned stays a Node and can be differentiated. Two tensors may share a
    buffer (a reshape); `version` counts the in-place changes of that buffer.
    """

    __slots__ = ("__weakref__", "_base", "_grad", "_range", "_requires_grad", "_version", "buffer",
                 "device", "dtype", "leaf_node", "shape")  # fmt: skip

    buffer: Any
    shape: Shape
    dtype: str
    device: Device

    def __init__(self, buffer: Any, shape: Shape, dtype: str, device: Device) -> None:
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

    @property
    def value(self) -> Tensor:
        return self

    def int_range(self) -> tuple[int, int]:
        """The smallest and largest element of a non-empty integer tensor.

        Known without asking the device for data that came from the host and has not
        been changed since; else it is read once and remembered.
        """
        if _watcher is not None:
            _watcher()
        if recordings:
            refuse_reading("the host asks for the range of a tensor's values")
        if self._range is None or self._range[0] != self.version:
            self._remember_range(self.to_host())
        assert self._range is not None  # remembered just now
        return self._range[1:]

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

        NumPy arrays keep their dtype; Python floats become float32, ints int32 (int64
        if they need it), bools bool.

        Raises DtypeError for dtypes that netcl or the device does not have.
        """
        target = default_device() if device is None else get_device(device)
        array = host_array(array_like, dtype)
        name = dtype_name(array.dtype, "tensor")
        check_dtype(name, target)
        made = cls(stream_of(target).upload(array, DTYPES[name]), array.shape, name, target)
        if array.size and array.dtype.kind in "iu":
            made._remember_range(array)
        return made.requires_grad_(requires_grad)

    @classmethod
    def empty(cls, shape: Any, dtype: Any = "float32", device: Any = None) -> Tensor:
        """An uninitialised tensor."""
        target = default_device() if device is None else get_device(device)
        name = dtype_name(dtype, "empty")
        check_dtype(name, target)
        sizes = normalize_shape(shape)
        buffer = stream_of(target).allocate(math.prod(sizes), DTYPES[name])
        return cls(buffer, sizes, name, target)

    @classmethod
    def full(
        cls,
        shape: Any,
        value: float,
        dtype: Any = None,
        device: str | Device | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """A tensor whose elements all have one value; the dtype follows from it by default."""
        name = dtype_name(dtype if dtype is not None else host_array(value, None).dtype, "full")
        made = cls.empty(shape, name, device)
        stream_of(made.device).fill(made.buffer, made.size, DTYPES[name], value)
        return made.requires_grad_(requires_grad)

    @classmethod
    def zeros(cls, shape: Any, dtype: Any = "float32", device: Any = None,
              requires_grad: bool = False) -> Tensor:  # fmt: skip
        """A tensor of zeros."""
        return cls.full(shape, 0, dtype, device, requires_grad)

    @classmethod
    def ones(cls, shape: Any, dtype: Any = "float32", device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
        """A tensor of ones."""
        return cls.full(shape, 1, dtype, device, requires_grad)

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

    # Getters in C: every op reads `requires_grad` of its operands.
    requires_grad = property(attrgetter("_requires_grad"), _set_requires_grad)
    grad = property(attrgetter("_grad"), _set_grad)

    def alias(self, shape: Shape) -> Tensor:
        """A tensor of another shape on the same buffer."""
        made = Tensor(self.buffer, shape, self.dtype, self.device)
        made._base = self if self._base is None else self._base
        return made

    def mark_changed(self) -> None:
        """Note that the buffer was changed in place, so that a stale graph is noticed."""
        if _watcher is not None:
            _watcher()
        base = self if self._base is None else self._base
        base._version += 1
        if recordings:
            note_change(base)

    def copy_(self, source: Any) -> Tensor:
        """Overwrite the elements in place with those of a tensor or host array of this shape.

        Raises ShapeError if the shapes differ.
        """
        if isinstance(source, Operand) and source.device is self.device:
            other = source.value
            if other.dtype != self.dtype:
                other = functions["astype"](other.detach(), self.dtype).value
        else:
            data = source.to_host() if isinstance(source, Operand) else source
            array = host_array(data, None).astype(DTYPES[self.dtype].numpy)
            other = Tensor.from_host(array, self.device)
        if other.shape != self.shape:
            raise ShapeError(message("copy_", f"shape {other.shape}", f"{self.shape}"))
        if other.buffer is self.buffer:  # OpenCL refuses copies that overlap
            return self
        self.mark_changed()
        dtype = DTYPES[self.dtype]
        stream_of(self.device).copy(self.buffer, other.buffer, self.size, dtype)
        return self

    def __copy__(self) -> Tensor:
        return self.alias(self.shape).requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        made = Tensor.empty(self.shape, self.dtype, self.device).copy_(self)
        memo[id(self)] = made
        return made.requires_grad_(self.requires_grad)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tensor.from_host, (self.to_host(), None, None, self.requires_grad)
