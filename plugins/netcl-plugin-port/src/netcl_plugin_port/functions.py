"""Functions of `torch` that are no ops: questions about tensors and dtypes, settings, types.

Settings that change nothing here are taken: what they ask for is so anyway.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor
from netcl_core.errors import ArgumentError, DtypeError, message

CHANNELS_LAST: Final = "channels_last"
CONTIGUOUS: Final = "contiguous"
STRIDED: Final = "strided"


def is_tensor(obj: Any) -> bool:
    """Whether it is a tensor.

    >>> nc.is_tensor(nc.ones(2)), nc.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether it is PyTorch's Storage: nothing here is."""
    return False


def is_floating_point(input: Any) -> bool:
    """Whether a tensor's dtype is a floating one."""
    return DTYPES[input.dtype].floating


def is_complex(input: Any) -> bool:
    """Whether a tensor's dtype is complex: no dtype here is."""
    return False


def is_nonzero(input: Any) -> bool:
    """Whether the only element of a tensor is not 0."""
    return bool(input)


def numel(input: Any) -> int:
    """The number of elements."""
    return int(input.size)


def typename(obj: Any) -> str:
    """The name of an object's type."""
    return type(obj).__name__


class _Info:
    """The limits of a dtype, under NumPy's names."""

    _kinds: str
    _of: Callable[[Any], Any]

    def __init__(self, type: Any = "float32") -> None:
        self.dtype = nc.dtype_name(type, "finfo or iinfo")
        if DTYPES[self.dtype].floating is not (self._kinds == "floating"):
            raise DtypeError(message("finfo or iinfo", f"the dtype {self.dtype}", self._kinds))
        info = self._limits(DTYPES[self.dtype].numpy)
        self.bits, self.min, self.max = info.bits, *map(self._number, (info.min, info.max))

    def _limits(self, numpy: Any) -> Any:
        return np.iinfo(numpy)

    def _number(self, value: Any) -> Any:
        return int(value)


class iinfo(_Info):  # noqa: N801 - PyTorch's name
    """The limits of an integer dtype.

    >>> nc.iinfo("uint8").max, nc.iinfo(nc.long).bits
    (255, 64)
    """

    _kinds = "an integer one"


class finfo(_Info):  # noqa: N801 - PyTorch's name
    """The limits of a floating dtype.

    >>> nc.finfo("float16").max, nc.finfo(nc.bfloat16).eps
    (65504.0, 0.0078125)
    """

    _kinds = "floating"

    def __init__(self, type: Any = "float32") -> None:
        super().__init__(type)
        info = self._limits(DTYPES[self.dtype].numpy)
        self.eps, self.tiny, self.resolution = (
            float(number) for number in (info.eps, info.tiny, info.resolution)
        )
        self.smallest_normal = self.tiny

    def _limits(self, numpy: Any) -> Any:
        return ml_dtypes.finfo(numpy)  # type: ignore[no-untyped-call]

    def _number(self, value: Any) -> Any:
        return float(value)


def can_cast(from_: Any, to: Any) -> bool:
    """Whether PyTorch converts values of one dtype into another of itself."""
    kinds = [DTYPES[nc.dtype_name(dtype, "can_cast")].category for dtype in (from_, to)]
    return kinds[0] <= kinds[1]


def promote_types(type1: Any, type2: Any) -> str:
    """The dtype in which values of two are computed with: `nc.promote`."""
    return nc.promote([(nc.dtype_name(dtype, "promote_types"), 1) for dtype in (type1, type2)])


def result_type(tensor1: Any, tensor2: Any) -> str:
    """The dtype in which two tensors are computed with."""
    return str((ag.as_operand(tensor1) + tensor2).dtype)


def inference_mode(mode: Any = True) -> Any:
    """`no_grad`, as a context or a decorator; `inference_mode(False)` changes nothing.

    >>> with nc.inference_mode():
    ...     (nc.tensor([1.0], requires_grad=True) * 2).requires_grad
    False
    """
    if callable(mode):
        return nc.no_grad()(mode)
    return nc.no_grad() if mode else contextlib.nullcontext()


def is_inference_mode_enabled() -> bool:
    """Whether gradients are off."""
    return not nc.is_grad_enabled()


def compile(model: Any = None, **options: Any) -> Any:
    """`ag.jit_compile` of a function, or of a module's `forward`; PyTorch's options are left out.

    >>> double = nc.compile(lambda x: x * 2, mode="max-autotune")
    >>> double(nc.ones(2)).tolist()
    [2.0, 2.0]
    """
    if model is None:
        return compile
    if options.get("disable"):
        return model
    if not hasattr(model, "forward"):
        return ag.jit_compile(model)
    model.compile()
    return model


def as_tensor(data: Any, dtype: Any = None, device: str | nc.Device | None = None) -> Any:
    """A tensor or node as it is, if it has the dtype and the device; else host data as a tensor.

    >>> x = nc.zeros(2, device="numpy")
    >>> nc.as_tensor(x) is x
    True
    """
    if not isinstance(data, nc.Tensor):
        return nc.Tensor.from_host(data, device, dtype)
    moved = data if device is None else data.to(device)
    return moved if dtype is None else moved.astype(dtype)


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: str | nc.Device | None = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Any:
    """A tensor of any shape and dtype as it is, if it may be; else a copy, as `as_tensor` makes it.

    >>> x = nc.zeros(2)
    >>> nc.asarray(x) is x, nc.asarray(x, copy=True) is x
    (True, False)

    Args:
        obj: A tensor, or host data.
        dtype: None: that of `obj`.
        device: None: that of `obj`, for host data the default device.
        copy: True: a copy in any case; False: none; None: where one is needed.
        requires_grad: None: as `obj` does. A bool: apart from the graph of `obj`.

    Raises ArgumentError where a copy is needed and not allowed.
    """
    x = as_tensor(obj, dtype, device)
    if copy is False and x is not obj:
        given = f"copy=False for a {type(obj).__name__} that has to be copied"
        raise ArgumentError(message("asarray", given, "a tensor of this dtype and device"))
    x = x.clone() if copy and x is obj else x
    return x if requires_grad is None else x.detach().requires_grad_(requires_grad)


def from_numpy(ndarray: Any) -> nc.Tensor:
    """A tensor with a copy of a NumPy array; PyTorch's shares the memory, which no device can.

    >>> nc.from_numpy(np.ones(2)).dtype
    'float64'
    """
    if not isinstance(ndarray, np.ndarray):
        given = f"a {type(ndarray).__name__}"
        raise ArgumentError(message("from_numpy", given, "a NumPy array", "Use nc.tensor"))
    return nc.Tensor.from_host(ndarray)


def default_convert(data: Any) -> Any:
    """Arrays as tensors, in tuples, lists and dicts too."""
    if isinstance(data, np.ndarray):
        return from_numpy(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [default_convert(item) for item in data]
    return data


def Variable(data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:  # noqa: N802
    """A tensor as it is: a Variable has been the same since PyTorch 0.4."""
    return data.requires_grad_() if requires_grad else data


def _assert(condition: Any, message: str) -> None:
    """`assert`, as traced functions call it."""
    assert condition, message


# -- types of old --------------------------------------------------------------------


def _tensor_type(name: str, dtype: str) -> Any:
    def make(*data: Any, device: Any = None) -> Any:
        if data and all(isinstance(item, int) for item in data):
            return nc.empty(*data, dtype=dtype, device=device)
        return nc.tensor(data[0] if data else [], device=device, dtype=dtype)

    def check(cls: Any, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == dtype

    doc = f"A {dtype} tensor of data, or of sizes; `isinstance` asks for the dtype."
    members = {"__call__": lambda cls, *data, **options: make(*data, **options)}
    kind = type("TensorType", (type,), {**members, "__instancecheck__": check})
    return kind(name, (), {"__doc__": doc, "dtype": dtype})


BoolTensor = _tensor_type("BoolTensor", "bool")
ByteTensor = _tensor_type("ByteTensor", "uint8")
DoubleTensor = _tensor_type("DoubleTensor", "float64")
FloatTensor = _tensor_type("FloatTensor", "float32")
HalfTensor = _tensor_type("HalfTensor", "float16")
IntTensor = _tensor_type("IntTensor", "int32")
LongTensor = _tensor_type("LongTensor", "int64")


# -- settings ------------------------------------------------------------------------


def _taken(name: str) -> Callable[..., None]:
    def setting(*args: Any, **options: Any) -> None:
        pass

    setting.__name__ = name
    setting.__doc__ = "Taken; there is nothing to set here."
    return setting


set_num_interop_threads = _taken("set_num_interop_threads")
set_num_threads = _taken("set_num_threads")
set_printoptions = _taken("set_printoptions")
set_warn_always = _taken("set_warn_always")
use_deterministic_algorithms = _taken("use_deterministic_algorithms")


def get_num_threads() -> int:
    """The compute units of the default device."""
    return nc.default_device().compute_units


def are_deterministic_algorithms_enabled() -> bool:
    """True: results are the same bits each time."""
    return True


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """False: nothing here is undeterministic."""
    return False


def get_default_dtype() -> str:
    """float32."""
    return "float32"


def set_default_dtype(d: Any) -> None:
    """Taken for float32; any other is refused."""
    if nc.dtype_name(d, "set_default_dtype") != "float32":
        remedy = "Give dtype= where tensors and layers are made, or use model.to(dtype)"
        raise ArgumentError(message("set_default_dtype", f"{d!r}", "'float32'", remedy))


def set_default_tensor_type(t: Any) -> None:
    """The same for a type of old: `torch.FloatTensor`."""
    set_default_dtype(getattr(t, "dtype", None) or getattr(nc, str(t).rpartition(".")[2]).dtype)


def set_default_device(device: Any) -> None:
    """`nc.use_device`; None is the automatic one again, which takes a new process."""
    if device is not None:
        nc.use_device(device)


def get_default_device() -> Any:
    """The default device."""
    return nc.default_device()


def get_device_module(device: Any = None) -> Any:
    """`nc.cuda`, which answers for every OpenCL device."""
    return nc.cuda
