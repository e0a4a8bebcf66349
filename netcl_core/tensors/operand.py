"""Operand: all that a user does with a tensor, whatever holds its data; the base of Tensor.

Read-outs, Python's operators, and methods: every op whose first operand is a tensor is one, by
its name; `methods.py` has PyTorch's other names.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from netcl_core.dtypes import DTYPES, widened
from netcl_core.errors import MissingNameError, ShapeError, message, missing_name
from netcl_core.hardware.device import Device
from netcl_core.runtime.geometry import Shape
from netcl_core.runtime.stream import stream_of
from netcl_core.tensors.arguments import lenient
from netcl_core.tensors.functions import functions
from netcl_core.tensors.host_data import Array
from netcl_core.tensors.methods import METHODS, device_and_dtype

# -- checks that wait until a NaN is read, so that no step waits for the device ------------


class _Waiting(threading.local):
    """The last check of this thread, with the tensors that it will look at while they live."""

    check: tuple[Callable[[Sequence[Any]], None], list[weakref.ref[Any]]] | None = None


_waiting = _Waiting()


def check_at_nan(check: Callable[[Sequence[Any]], None], operands: Sequence[Any]) -> None:
    """Let `check(operands)` raise for wrong data once this thread reads a NaN from a tensor.

    Example:
        >>> def positive(operands):
        ...     if operands[0].numpy().min() < 0:
        ...         raise ValueError("log: a number below 0")
        >>> x = nc.tensor([1.0, -1.0])
        >>> ag.check_at_nan(positive, [x])
        >>> ag.log(x).sum().item()
        Traceback (most recent call last):
        ValueError: log: a number below 0

    Only the last one counts, and it keeps no tensor alive.
    """
    _waiting.check = check, [weakref.ref(operand) for operand in operands]


def look(array: Array) -> None:
    """Run the check that waits, if there is a NaN in what was read."""
    if _waiting.check is None:
        return
    check, references = _waiting.check
    operands = [reference() for reference in references]
    gone = any(operand is None for operand in operands)
    if gone or (array.dtype.kind in "fV" and np.isnan(array).any()):
        _waiting.check = None
        if not gone:
            check(operands)


#: Told before the host reads a tensor's data or notes a change of it.
_watchers: Final[list[Callable[[], None]]] = []
_BASIC: Final = frozenset({int, slice, type(None), type(Ellipsis)})
#: What NumPy tells of a shape alone.
_OF_SHAPES: Final = (np.shape, np.ndim, np.size)
#: What elements are compared with.
_COMPARED: Final = (bool, int, float, np.ndarray, np.generic)


def watch(watcher: Callable[[], None]) -> None:
    """Let `watcher` know before the host reads or changes data: it may raise."""
    _watchers[:] = [watcher]


#: How often that was told, of data that are read and of those that change.
_counts: Final = [0, 0]


def told(change: bool = True) -> None:
    """Let the watcher know that the host reads or changes data now."""
    _counts[change] += 1
    for watcher in _watchers:
        watcher()


def times_told(changes_only: bool = False) -> int:
    """How often data have been read or changed, by all threads: for who compares two moments.

    A change is one of a tensor's elements, memory, gradient or `requires_grad`.
    """
    return _counts[1] if changes_only else sum(_counts)


@final
class Count(int):
    """A number of elements, as NumPy's `x.size`; called, the sizes, as PyTorch's `x.size()`.

    >>> x = nc.zeros(2, 3)
    >>> x.size, x.size(), x.size(0)
    (6, (2, 3), 2)
    """

    sizes: Shape

    def __call__(self, dim: int | None = None) -> Any:
        return self.sizes if dim is None else self.sizes[dim]


def picks_a_view(index: Any) -> bool:
    """Whether an index has nothing but ints, slices, None and Ellipsis."""
    if type(index) is tuple:
        return _BASIC.issuperset(map(type, index))
    return type(index) in _BASIC


def _unary(op: str) -> Callable[[Any], Any]:
    return lambda self: functions[op](self)


def _binary(op: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """An operator and its reflected form, which Python calls with swapped operands."""
    return (
        lambda self, other: functions[op](self, other),
        lambda self, other: functions[op](other, self),
    )


def _assigned(op: str) -> Callable[[Any, Any], Any]:
    """`x += y`: in place where that can be, else a new value under the old name."""
    return lambda self, other: functions["assign in place"](self, op, other)


def _compared(op: str) -> Callable[[Any, Any], Any]:
    """An operator that compares elements, and of other things identity."""

    def compare(self: Any, other: Any) -> Any:
        if isinstance(other, (Operand, *_COMPARED)):
            return functions[op](self, other)
        return NotImplemented

    return compare


def _on_host(x: Any) -> Any:
    """Arrays in place of tensors, also in tuples and lists."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(_on_host, x))
    return x.to_host() if isinstance(x, Operand) else x


class OperandType(type):
    """The class of tensors' classes: `Tensor.sum` is the method that `x.sum` is, and is listed."""

    if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

        def __getattr__(cls, name):
            """Only asked for what is not there: the method of an op."""
            method = None if name.startswith("_") else METHODS.get(name) or functions.method(name)
            if method is None:
                raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
            return method

    def __dir__(cls) -> list[str]:
        return sorted({*super().__dir__(), *METHODS, *functions.methods()})


class Operand(metaclass=OperandType):
    """The face of a Tensor. `value` is the Tensor that holds the data: of a Node another one."""

    __slots__ = ()
    shape: Shape
    dtype: str
    device: Device
    requires_grad: bool
    #: NumPy leaves binary operators with arrays on the left to us.
    __array_ufunc__ = None

    if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

        def __getattr__(self, name):
            """Only asked for what is not there: a method by the name of an op, or a mistake."""
            who = type(self).__name__
            if name.startswith("_"):
                raise AttributeError(f"{who!r} object has no attribute {name!r}")
            method = METHODS.get(name) or functions.method(name)
            if isinstance(method, property):
                return method.__get__(self)
            if method is not None:
                functions.bound_to(Operand, name, method)  # where it is found at once from now on
                return MethodType(method, self)
            why = functions.why_no_method(name)
            if why:
                raise MissingNameError(message(who, f"it has no method {name!r}", "", why))
            raise missing_name(who, name, dir(self))

    def __dir__(self) -> list[str]:
        """What a user does with a tensor: read-outs, and a method for every op that is one."""
        own = {name for name in dir(Operand.__base__) if name[0] == "_"}
        public = {name for base in type(self).__mro__ for name in vars(base)}
        return sorted(own | {*public, *METHODS, *functions.methods()})

    @property
    def value(self) -> Any:
        """The tensor that holds the data."""
        raise TypeError("Operand is abstract")

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.value.shape)

    @property
    def size(self) -> Count:
        """The number of elements; called, as `x.size()` or `x.size(0)`, the sizes."""
        shape = self.value.shape
        size = Count(math.prod(shape))
        size.sizes = shape
        return size

    @property
    def data(self) -> Any:
        """The same data as a leaf that needs no gradient: `detach()`.

        >>> x = nc.tensor([1.0, 2.0], requires_grad=True)
        >>> x.data = x.data * 10
        >>> x.tolist(), x.requires_grad
        ([10.0, 20.0], True)

        What is assigned is copied into x, whatever grad mode is on; x and it share nothing then.
        Raises TypeError for what is no tensor, ShapeError if the shapes differ.
        """
        return self.detach()

    @data.setter
    def data(self, source: Any) -> None:
        if not isinstance(source, Operand):
            given = f"x.data = {type(source).__name__}"
            raise TypeError(message("data", given, "a tensor", "Use nc.tensor(...)"))
        self.value.overwrite(source)

    def to_host(self) -> Array:
        """The data as a fresh NumPy array; waits for the device."""
        value = self.value
        buffer, dtype = value.buffer, DTYPES[value.dtype]
        told(False)
        flat = stream_of(value.device).download(buffer, self.size, dtype)
        look(flat)
        return flat.reshape(value.shape)

    numpy = to_host

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("netcl: the data is on a device, so an array is always a copy")
        array = self.to_host()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A function of NumPy's, of copies on the host: `np.mean(x)`; `np.shape(x)` needs none."""
        if function in _OF_SHAPES and not kwargs:
            args = (np.broadcast_to(0, args[0].shape), *args[1:])
        return function(*_on_host(args), **{name: _on_host(x) for name, x in kwargs.items()})

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
        if self.size != 1:
            given = f"the truth of a tensor of shape {self.shape}"
            remedy = "Use x.any() or x.all(); a tensor of numbers is empty if x.numel() == 0"
            raise ShapeError(message("bool", given, "one element", remedy))
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

    def __contains__(self, value: Any) -> bool:
        return bool(np.any((self == value).to_host()))

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec or self.shape == () else str(self)

    def __repr__(self) -> str:
        with np.printoptions(precision=4, threshold=8, edgeitems=3):
            values = np.array2string(widened(self.to_host()), separator=", ", prefix="       ")
        return self._told(values)

    def _told(self, values: str) -> str:
        return f"Tensor({values}, {', '.join(self._facts())})"

    def _facts(self) -> list[str]:
        """What is told of a value beside its elements."""
        facts = [f"shape={self.shape}", f"dtype={self.dtype}", f"device={self.device}"]
        return [*facts, "requires_grad=True"] if self.requires_grad else facts

    @lenient
    def backward(
        self, grad: Any = None, retain_graph: bool | None = None, *, gradient: Any = None
    ) -> None:
        """Compute the gradients of this value's leaves; see `netcl_core.autograd.backward`.

        `gradient` is PyTorch's name for `grad`.
        """
        given = grad if gradient is None else gradient
        functions["backward"](self, given, bool(retain_graph))

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Call `hook` with each complete gradient; see `netcl_core.autograd.register_hook`."""
        return functions["register_hook"](self, hook)

    def retain_grad(self) -> None:
        """Keep a result's gradient in `grad`; see `netcl_core.autograd.retain_grad`."""
        functions["retain_grad"](self)

    @property
    def _base(self) -> Any:
        """The tensor of which this is a view; None if it is none."""
        value = self.value
        if not value.is_alias:
            return None
        storage = value.storage
        if storage.base is self or not any(member is self for member in storage.members()):
            return None
        return value.whole() if storage.base is None else storage.base

    @property
    def mT(self) -> Any:  # noqa: N802 - PyTorch's name
        """The transpose of a matrix, or of each matrix of a batch."""
        return functions["transpose"](self, -2, -1)

    def detach(self) -> Any:
        """The same data, shared, as a leaf that needs no gradient."""
        return self.value.alias(self.shape)

    def astype(self, dtype: Any) -> Any:
        """The values in another dtype (differentiable between floating dtypes)."""
        return functions["astype"](self, dtype)

    def to(self, *target: Any, **options: Any) -> Any:
        """The values on another device, in another dtype, or both; itself if it is so already.

        >>> nc.ones(2, device="numpy").to("float16").dtype
        'float16'

        Args:
            target: A device, a dtype, or another tensor, whose device and dtype are meant.
            options: `device=` and `dtype=`; `copy=True` for a tensor of its own in any case.

        Differentiable: gradients go back the same way.
        """
        copy = options.pop("copy", False)
        device, dtype = device_and_dtype(*target, **options)
        moved = self if device is None else functions["to_device"](self, device)
        converted = moved if dtype is None else moved.astype(dtype)
        return functions["clone"](self) if copy and converted is self else converted

    def reshape(self, *sizes: Any, shape: Any = ()) -> Any:
        """The same elements in another shape: `reshape(2, 3)` or `reshape((2, 3))`."""
        given = sizes or shape
        shape_given = given[0] if len(given) == 1 and isinstance(given[0], Sequence) else given
        return functions["reshape"](self, tuple(shape_given))

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The transpose: all dimensions reversed."""
        return functions["transpose"](self)

    def __getitem__(self, index: Any) -> Any:
        return functions["pick a view" if picks_a_view(index) else "getitem"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """`x[index] = value`, in place, for every index that `x[index]` takes."""
        functions["set item"](self, index, value)

    # The one table that binds Python's operators to the names of ops. Comparing compares
    # elements; tensors are keys by their identity all the same.
    __hash__ = object.__hash__
    __eq__, __ne__ = _compared("eq"), _compared("ne")
    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("sub")
    __mul__, __rmul__ = _binary("mul")
    __truediv__, __rtruediv__ = _binary("div")
    __floordiv__, __rfloordiv__ = _binary("floor_divide")
    __mod__, __rmod__ = _binary("remainder")
    __pow__, __rpow__ = _binary("pow")
    __matmul__, __rmatmul__ = _binary("matmul")
    __and__, __rand__ = _binary("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor")
    __lt__, __gt__ = _binary("lt")[0], _binary("gt")[0]
    __le__, __ge__ = _binary("le")[0], _binary("ge")[0]
    __neg__ = _unary("neg")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_not")
    __iadd__, __isub__ = _assigned("add"), _assigned("sub")
    __imul__, __itruediv__ = _assigned("mul"), _assigned("div")
    __ifloordiv__, __imod__ = _assigned("floor_divide"), _assigned("remainder")
    __ipow__, __imatmul__ = _assigned("pow"), _assigned("matmul")
    __iand__, __ior__ = _assigned("bitwise_and"), _assigned("bitwise_or")
    __ixor__ = _assigned("bitwise_xor")
