"""Tensor: a buffer with a shape and a dtype on a device; View: one that shares another's memory.

What made it a Node knows, the Tensor that an op returns.
"""

from __future__ import annotations

import math
import weakref
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, final

from netcl_core.dtypes import DTYPES, DtypeName, dtype_name
from netcl_core.errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    GradientError,
    ShapeError,
    message,
)
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import default_device, get_device
from netcl_core.runtime.geometry import Geometry, Shape, dense
from netcl_core.runtime.recording import captures, note_change, refuse_reading
from netcl_core.runtime.stream import stream_of
from netcl_core.tensors.arguments import lenient
from netcl_core.tensors.functions import functions
from netcl_core.tensors.host_data import (
    Array,
    check_dtype,
    host_array,
    normalize_shape,
    split_sizes,
)
from netcl_core.tensors.operand import Operand, told
from netcl_core.tensors.storage import Storage, copy_elements, strided

#: What may stand after the sizes of a new tensor.
OPTIONS: Final = ("dtype", "device", "requires_grad")
#: Elements from which on a GPU finds the smallest and the largest sooner than it sends all.
_MANY: Final = 1 << 16
#: Integers up to which the host remembers those that it has sent.
_FEW: Final = 1 << 12


class Tensor(Operand):
    """An N-dimensional array of one dtype on one device.

    >>> x = nc.Tensor.zeros((2, 3), "float16", "numpy")
    >>> x.shape, x.dtype, str(x.device), x.requires_grad
    ((2, 3), 'float16', 'numpy', False)

    `requires_grad` marks a leaf: `backward` leaves its gradient in `grad`, as a Tensor; a recorded
    gradient that is assigned stays a Node and can be differentiated. Two tensors may share their
    memory (`detach`, a slice); `version` counts the in-place changes of that memory, `arrivals`
    the gradients that backward passes and replays have left in a leaf.

    Attributes:
        buffer: The elements in C order and nothing else. Of a View it is a copy, made anew each
            time.
        memory: What is written to: the buffer that a View shares.
        geometry: Where a View's elements lie in `memory`; None: the tensor is no View.
        graph: The Node whose record this Tensor got by a change in place; None: it is a leaf.
        is_alias: Whether it was made of another tensor whose memory it shares.
    """

    __slots__ = {
        **dict.fromkeys(
            ("__weakref__", "_grad", "_range", "_requires_grad", "_storage", "_version")
        ),
        **dict.fromkeys(("arrivals", "buffer", "graph", "is_alias", "leaf_node")),
        "shape": "The sizes of the dimensions.",
        "dtype": "The dtype's name, such as `'float32'`.",
        "device": "The device that holds the data.",
    }

    buffer: Any
    shape: Shape
    dtype: str
    device: Device
    geometry: Geometry | None = None
    #: Whether its data are still to be computed: of the values of a trace.
    pending: Final = False

    def __init__(
        self, buffer: Any = (), shape: Any = None, dtype: Any = None, device: Any = None, *more: int
    ) -> None:
        if shape.__class__ is not tuple:  # as PyTorch's users write it: Tensor(2, 3), Tensor([1.0])
            like = Tensor._of_old((buffer, shape, dtype, device, *more))
            buffer, shape, dtype, device = like.buffer, like.shape, like.dtype, like.device
        self.buffer = buffer
        self._describe(shape, dtype, device)

    def _describe(self, shape: Shape, dtype: str, device: Device) -> None:
        self.shape = shape
        self.dtype = dtype if dtype.__class__ is DtypeName else DTYPES[dtype].name
        self.device = device
        self._requires_grad = False
        self._grad: Operand | None = None
        self.leaf_node: weakref.ref[Any] | None = None
        self.graph: Any = None
        self.is_alias = False
        self._storage: Storage | None = None
        self._version = 0
        self._range: tuple[int, int, int, Array | None] | None = None
        self.arrivals = 0

    @staticmethod
    def _of_old(given: tuple[Any, ...]) -> Tensor:
        """A float32 tensor of sizes, uninitialised, or of data."""
        sizes = [operand for operand in given if operand is not None]
        if all(isinstance(size, int) for size in sizes):
            return Tensor.empty(tuple(sizes))
        return Tensor.from_host(sizes[0], dtype="float32")

    @property
    def value(self) -> Tensor:
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no call made it."""
        return self.graph is None

    @property
    def grad_fn(self) -> Any:
        """The call that made it; None for a leaf."""
        return None if self.graph is None else self.graph.grad_fn

    # Getters in C: every op reads `requires_grad` of its operands.
    memory = property(attrgetter("buffer"))

    @property
    def storage(self) -> Storage:
        """What all tensors on this memory share."""
        if self._storage is None:
            self._storage = Storage(self.memory, self.shape, self.dtype, self._version)
            self._storage.range = self._range
        return self._storage

    def int_range(self, around: bool = False) -> tuple[int, int]:
        """The smallest and largest element of a non-empty integer tensor.

        Known without asking the device for data that came from the host and has not
        been changed since; else it is read once and remembered. `around`: those of all the memory
        that a view lies in will do, if they are known or soon read.
        """
        told(False)
        if captures:
            refuse_reading("the host asks for the range of a tensor's values")
        known = (around and self._known_range(True)) or self._known_range()
        if known is None:
            x = self.whole() if around and self.geometry and self.storage.size <= _FEW else self
            found = x.known_integers()
            if found is None:
                gpu = self.device.kind == "gpu" and x.size >= _MANY
                found = functions["extremes"](x) if gpu else x.to_host()
            known = x._remember_range(found)
        return known[1:3]

    def known_integers(self) -> Array | None:
        """A few integers that came from the host and have not been changed since; None: others.

        Of what a capture has as an input the next values are not known.
        """
        known = None if captures else self._known_range(True)
        values = None if known is None else known[3]
        return None if values is None else strided(values.reshape(-1), self.geometry, self.shape)

    def _known_range(self, around: bool = False) -> tuple[int, int, int, Array | None] | None:
        """The range with its version, as far as it is known of these elements or of all."""
        storage = self._storage
        if storage is not None and self.geometry and not around:
            storage = storage if self.geometry.covers(storage.size) else None
        known = self._range if storage is None else storage.range
        return known if known is not None and known[0] == self.version else None

    def inherit_range(self, source: Tensor) -> None:
        """Know the range of a tensor of which this is a copy."""
        known = source._known_range()
        if known is not None:
            self._range = self.version, *known[1:3], None

    def _remember_range(self, array: Array) -> tuple[int, int, int, Array | None]:
        values = array.copy() if array.size <= _FEW else None
        known = self._range = self.version, int(array.min()), int(array.max()), values
        if self._storage is not None and self.geometry is None:
            self._storage.range = known
        return known

    @property
    def version(self) -> int:
        """How often the memory has been changed in place."""
        return self._version if self._storage is None else self._storage.version

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
        tensor = Tensor(stream_of(target).upload(array, DTYPES[name]), array.shape, name, target)
        if array.size and array.dtype.kind in "iu":
            tensor._remember_range(array)
        return tensor.requires_grad_(requires_grad)

    @classmethod
    def empty(cls, *size: Any, **options: Any) -> Tensor:
        """An uninitialised tensor; its size and options as for `zeros`.

        >>> nc.empty(2, 3).shape
        (2, 3)
        """
        shape, options = split_sizes("empty", size, OPTIONS, options)
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

        Args:
            shape: The sizes, as a tuple or as several integers.
        """
        name = dtype_name(dtype if dtype is not None else host_array(value, None).dtype, "full")
        tensor = cls._empty(normalize_shape(shape), name, device)
        stream_of(tensor.device).fill(tensor.buffer, tensor.size, DTYPES[name], value)
        return tensor.requires_grad_(requires_grad)

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
        shape, options = split_sizes("zeros", size, OPTIONS, options)
        return cls.full(shape, 0, **{"dtype": "float32", **options})

    @classmethod
    def ones(cls, *size: Any, **options: Any) -> Tensor:
        """A tensor of ones; its size and options as for `zeros`.

        >>> nc.ones(2).numpy()
        array([1., 1.], dtype=float32)
        """
        shape, options = split_sizes("ones", size, OPTIONS, options)
        return cls.full(shape, 1, **{"dtype": "float32", **options})

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Mark this tensor as a leaf (or not); raises DtypeError unless it is floating."""
        if requires_grad and not DTYPES[self.dtype].floating:
            raise DtypeError(message("requires_grad", f"a {self.dtype} tensor", "a floating dtype"))
        if self.graph is not None and not requires_grad:
            given = "a tensor that a change in place made a result"
            raise GradientError(message("requires_grad", given, "a leaf", "Use detach()"))
        if self._requires_grad != bool(requires_grad):
            told()
        self._requires_grad = bool(requires_grad)
        return self

    def _set_requires_grad(self, requires_grad: bool) -> None:
        self.requires_grad_(requires_grad)

    def _set_grad(self, grad: Operand | None) -> None:
        told()
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
        """A tensor of another shape, of as many elements, on the same memory."""
        tensor = Tensor(self.buffer, shape, self.dtype, self.device)
        tensor._storage, tensor.is_alias = self.storage, True
        return tensor

    def whole(self) -> Tensor:
        """All of the memory, in the shape of the first tensor on it."""
        tensor = Tensor(self.memory, self.storage.shape, self.dtype, self.device)
        tensor._storage, tensor.is_alias = self.storage, True
        return tensor

    def viewed(self, geometry: Geometry, in_order: bool | None = None) -> Tensor:
        """The elements of this tensor's memory at the places that a geometry names.

        `in_order` says whether these are in C order from the memory's start on; None: unknown.
        """
        storage = self.storage
        if in_order is None:
            in_order = geometry == dense(geometry.shape)
        if in_order and geometry.size == storage.size:
            view = Tensor(self.memory, geometry.shape, self.dtype, self.device)
        else:
            view = View(self.memory, geometry, self.dtype, self.device)
        view._storage, view.is_alias = storage, True
        return view

    def mark_changed(self) -> None:
        """Note that the memory was changed in place, so that a stale graph is noticed."""
        told()
        if self._storage is None:
            self._version += 1
        else:
            self._storage.version += 1
        if captures:
            note_change(self)

    def copy_(self, source: Any) -> Tensor:
        """Overwrite the elements in place with those of a tensor or host array.

        >>> x = nc.zeros(2, 2)
        >>> x[0].copy_(nc.tensor([1.0, 2.0])) is not None, x.tolist()
        (True, [[1.0, 2.0], [0.0, 0.0]])

        The source is converted to this dtype and broadcast to this shape; gradients flow back to
        it. A compiled function does so at each call, if the source is a tensor that it computes.

        Raises ShapeError if the source does not broadcast, GradientError for a leaf that needs a
        gradient, or a view of one, unless grad mode is off.
        """
        functions["copy in place"](self, source)
        return self

    def overwrite(self, source: Any) -> None:
        """The same for the engine and for optimizers, whatever grad mode is on: no graph changes.

        The source is a tensor or host array of this shape.
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

    def copy_into(self, target: Tensor) -> None:
        """Overwrite the elements of another tensor, of the same shape, dtype and device."""
        told()  # before anything is written
        source = self
        if target.memory is self.memory:
            here, there = (x.geometry or dense(x.shape) for x in (self, target))
            if here == there:
                return
            if here.meets(there):  # what is written first must not be read again
                source = self.duplicate()
        copy_elements(source, target)
        target.mark_changed()

    def duplicate(self) -> Tensor:
        """A copy with a buffer of its own."""
        copy = Tensor._empty(self.shape, self.dtype, self.device)
        copy_elements(self, copy)
        return copy

    def leave_memory(self) -> None:
        """Have a copy of the elements from now on, and share nothing."""
        told()
        version, self.buffer = self.version, self.duplicate().memory
        self._version, self._storage, self.is_alias = version, None, False

    def __copy__(self) -> Tensor:
        return self.alias(self.shape).requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copy = memo[id(self)] = self.duplicate()
        return copy.requires_grad_(self.requires_grad)

    @staticmethod
    def from_buffer(data: Any, device: str | Device | None = None) -> Tensor:
        """A tensor on the memory of an array: `nc.from_buffer`."""
        tensor: Tensor = functions["from buffer"](data, device)
        return tensor

    def __dlpack__(self, **options: Any) -> Any:
        return functions["to dlpack"](self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        place: tuple[int, int] = functions["dlpack device"](self)
        return place

    def __reduce__(self) -> tuple[Any, ...]:
        return Tensor.from_host, (self.to_host(), None, None, self.requires_grad)


@final
class View(Tensor):
    """A tensor whose elements lie somewhere in the memory of another one, as its geometry says.

    >>> x = nc.arange(6).reshape(2, 3)
    >>> column = x[:, 1]
    >>> column.copy_(nc.tensor([10, 40])) is column, x.tolist()
    (True, [[0, 10, 2], [3, 40, 5]])
    """

    __slots__ = ("geometry", "memory", "packed")

    geometry: Geometry  # a slot instead of Tensor's None

    def __init__(self, memory: Any, geometry: Geometry, dtype: str, device: Device) -> None:
        self.memory = memory
        self.packed: tuple[int, weakref.ref[Any]] | None = None  # a copy in C order, by version
        self.geometry = geometry
        self._describe(geometry.shape, dtype, device)

    @property
    def buffer(self) -> Any:
        """A copy of the elements in C order, for all that reads no strides."""
        if self.geometry.is_contiguous and self.geometry.size == self.storage.size:
            return self.memory
        return self.duplicate().buffer

    def leave_memory(self) -> None:
        """Have a copy of the elements from now on, and share nothing."""
        told()
        version, self.memory = self.version, self.duplicate().memory
        self.geometry = dense(self.shape)
        self._version, self._storage, self.is_alias = version, None, False

    def alias(self, shape: Shape) -> Tensor:
        """The same elements in another shape; a copy where strides cannot express it."""
        geometry = self.geometry.reshaped(shape)
        if geometry is None:
            return Tensor(self.buffer, shape, self.dtype, self.device)
        return self.viewed(geometry)


@final
class MetaTensor(Tensor):
    """Shape, dtype and device of a tensor whose elements a graph has let go of.

    Its elements raise GradientError, which says of what they were.
    """

    __slots__ = ("_of",)

    def __init__(self, shape: Shape, dtype: str, device: Device, of: str) -> None:
        self._of = of
        self._describe(shape, dtype, device)

    @property
    def buffer(self) -> Any:
        """Raises GradientError."""
        given = f"the elements of {self._of}, which no gradient was declared to read"
        expected = "what `saves` and `saves_results` name, and what the program itself still has"
        remedy = "Name it there, or run the forward pass in a `with Tape()`, which keeps all"
        raise GradientError(message("backward", given, expected, remedy))

    def __repr__(self) -> str:
        return self._told("...")


@lru_cache(maxsize=4096)
def meta(shape: Shape, dtype: str, device: Device, of: str) -> MetaTensor:
    """The one for a result that is described so: it holds nothing that would tell two apart."""
    return MetaTensor(shape, dtype, device, of)
