"""NetclTensor: a PyTorch tensor whose elements lie in a netcl Tensor."""

from __future__ import annotations

import math
import sys
import weakref
from typing import Any, Final, final

import ml_dtypes
import numpy as np
import torch

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.inspect.streams import stream_of

DEVICE: Final = torch.device("netcl", 0)
#: PyTorch's dtype by netcl's name of it, and the other way round.
TORCH: Final = {name: getattr(torch, name) for name in nc.DTYPES}
NAMES: Final = {dtype: name for name, dtype in TORCH.items()}
_DATA: Final = torch.Tensor.data
_make = torch.Tensor._make_wrapper_subclass


@final
class NetclTensor(torch.Tensor):
    """What `x.to("netcl")` gives.

    Views share the memory of `raw`, as they do in netcl. Ops come here below autograd, which
    PyTorch does itself.

    Attributes:
        raw: The netcl Tensor.
        record: On a statistic that an op has saved for its gradient: netcl's record of the call,
            which gives `raw` if somebody reads it.
        place: Which statistic of the record it is.
    """

    raw: Any
    record: Any
    place: int
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return OPS[func](*args, **kwargs) if kwargs else OPS[func](*args)

    def __getattr__(self, name: str) -> Any:
        if name == "raw" and "record" in self.__dict__:
            self.raw = self.record.statistic(self.place).value
            return self.raw
        raise AttributeError(f"'Tensor' object has no attribute '{name}'")

    def __coerce_same_metadata_as_tangent__(self, meta: Any, kind: Any = None) -> NetclTensor:
        """As AOTAutograd asks for it: its graphs take such tensors for plain ones."""
        return self

    @property
    def data(self) -> Any:
        """The tensor without its history; another one may be assigned."""
        return _DATA.__get__(self)

    @data.setter
    def data(self, other: Any) -> None:
        _DATA.__set__(self, other)
        self.raw = other.raw

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        with torch.no_grad():
            text = repr(to_host(self))
        notes = f", device='{self.device}'"
        if self.grad_fn is not None:
            notes += f", grad_fn=<{type(self.grad_fn).__name__}>"
        elif self.requires_grad:
            notes += ", requires_grad=True"
        text = f"{text[:-1]}{notes})"
        return f"Parameter containing:\n{text}" if getattr(self, "_is_param", False) else text

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            text = "Only Tensors created explicitly by the user support the deepcopy protocol"
            raise RuntimeError(f"{text} at the moment. Use detach() first.")
        with torch.no_grad():
            copy = torch.Tensor.clone(self)
        memo[id(self)] = copy
        copy.requires_grad_(self.requires_grad)
        if self.grad is not None:
            copy.grad = self.grad.__deepcopy__(memo)
        for name, value in vars(self).items():
            if name not in ("raw", "record", "place"):
                setattr(copy, name, value)
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        rebuild = torch._utils._rebuild_device_tensor_from_cpu_tensor
        reduced = (rebuild, (shared_host(self), self.dtype, str(self.device), self.requires_grad))
        if getattr(self, "_is_param", False):
            return torch._utils._rebuild_parameter, (self.detach(), self.requires_grad, {})
        return reduced

    def __dlpack__(self, **options: Any) -> Any:
        return self.raw.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:  # type: ignore[override]
        return self.raw.__dlpack_device__()

    def tolist(self) -> Any:
        """The elements as Python numbers in lists."""
        return to_host(self.detach()).tolist()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def numpy(self, *, force: bool = False) -> Any:
        """As for any tensor that is on a device: only with `force` does PyTorch copy it."""
        if force:
            return to_host(self.detach()).numpy()
        text = f"can't convert {self.device} device type tensor to numpy."
        raise TypeError(f"{text} Use Tensor.cpu() to copy the tensor to host memory first.")

    def __array__(self, dtype: Any = None) -> Any:  # type: ignore[override]
        return self.numpy()


class _Ops(dict[Any, Any]):
    """PyTorch's op -> what computes it; the first call of an op that is not there finds out."""

    resolve: Any = None

    def __missing__(self, func: Any) -> Any:
        kernel = self[func] = self.resolve(func)
        return kernel


OPS: Final = _Ops()


def wrap(raw: Any) -> NetclTensor:
    """A PyTorch tensor of a netcl one."""
    raw = raw.value
    geometry = raw.geometry
    dtype = TORCH[raw.dtype]
    if geometry is None:
        tensor = _make(NetclTensor, raw.shape, dtype=dtype, device=DEVICE)
    else:
        tensor = _make(NetclTensor, raw.shape, strides=geometry.strides,
                     storage_offset=geometry.offset, dtype=dtype, device=DEVICE)  # fmt: skip
    tensor.raw = raw
    return tensor  # type: ignore[no-any-return]


def wrap_later(shape: Any, dtype: torch.dtype, record: Any, place: int) -> NetclTensor:
    """A statistic that is computed if somebody reads it, and that keeps netcl's record."""
    tensor = _make(NetclTensor, shape, dtype=dtype, device=DEVICE)
    tensor.record, tensor.place = record, place
    return tensor  # type: ignore[no-any-return]


def record_of(x: Any) -> Any:
    """netcl's record for gradients that a statistic keeps; None: it has none."""
    record = x.__dict__.get("record") if type(x) is NetclTensor else None
    return None if record is None or record.name is None else record


def empty_raw(shape: tuple[int, ...], name: str) -> Any:
    """An uninitialised netcl tensor on the device."""
    device, dtype = nc.default_device(), nc.DTYPES[name]
    return nc.Tensor(stream_of(device).allocate(math.prod(shape), dtype), shape, dtype.name, device)


def filled_raw(shape: tuple[int, ...], name: str, value: Any) -> Any:
    """A netcl tensor of one number."""
    raw = empty_raw(shape, name)
    stream_of(raw.device).fill(raw.memory, raw.size, nc.DTYPES[name], value)
    return raw


def name_of(dtype: torch.dtype) -> str:
    """netcl's name of a dtype; raises TypeError for one that it does not have."""
    name = NAMES.get(dtype)
    if name is None:
        known = ", ".join(NAMES.values())
        text = f"the netcl device has no {dtype}: it has {known}"
        raise TypeError(f"{text}. Convert the tensor first, for instance with x.float()")
    if name == "float64" and not nc.default_device().supports_fp64:
        text = f"{nc.default_device().name} has no float64"
        raise TypeError(f"{text}. Convert the tensor first with x.float()")
    return name


def to_device(x: torch.Tensor) -> NetclTensor:
    """A copy on the device, of the same strides where they leave no gaps."""
    name_of(x.dtype)
    if not x.is_contiguous() and is_dense(x):
        order = sorted(range(x.dim()), key=x.stride, reverse=True)
        raw = _upload(x.permute(order))
        return wrap(raw.viewed(ag.Geometry(tuple(x.shape), tuple(x.stride()), 0)))
    return wrap(_upload(x))


def is_dense(x: torch.Tensor) -> bool:
    """Whether the elements lie without gaps, in whatever order of the dimensions."""
    step = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _upload(x: torch.Tensor) -> Any:
    x = x.detach().contiguous().resolve_neg()
    if x.dtype == torch.bfloat16:
        return nc.Tensor.from_host(x.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return nc.Tensor.from_host(x.numpy())


def host_of(raw: Any) -> torch.Tensor:
    """A copy on the host of a netcl tensor."""
    if not raw.size:
        return torch.empty(raw.shape, dtype=TORCH[raw.dtype])
    array = np.array(raw.to_host())
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_host(x: NetclTensor) -> torch.Tensor:
    """A copy on the host, of the same strides where they leave no gaps."""
    host = host_of(x.raw)
    if not x.is_contiguous() and is_dense(x):
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(host)
    return host


def shared_host(x: NetclTensor) -> torch.Tensor:
    """A copy for a file: views of one memory, such as tied weights, share theirs as well."""
    storage = x.raw.storage
    number = id(storage)
    known = _COPIES.get(number)
    copy = known[2]() if known is not None and known[1] == storage.version else None
    if copy is None:
        whole = host_of(x.raw.whole())
        copy = whole.untyped_storage()
        ended = weakref.ref(copy, lambda _: _COPIES.pop(number, None))
        _COPIES[number] = storage, storage.version, ended
    host = torch.empty(0, dtype=x.dtype)
    return host.set_(copy, x.storage_offset(), x.shape, x.stride())  # type: ignore[call-overload,no-any-return]


#: The copies that a file which is being written holds, by the storage they are of.
_COPIES: Final[dict[int, tuple[Any, int, Any]]] = {}


def write(x: NetclTensor, new: Any) -> None:
    """Let the elements of `x`, and of all that shares its memory, be those of `new`.

    A buffer that nobody else has takes the place of x's, which saves a copy, where no view of x
    lives.
    """
    raw = x.raw
    if (
        raw.geometry is None and new.geometry is None and raw.dtype == new.dtype
        and raw.shape == new.shape and _alone(raw) and _alone(new)
    ):  # fmt: skip
        raw.buffer = raw.storage.memory = new.buffer
        raw.mark_changed()
    else:
        raw.overwrite(new)


def _alone(raw: Any) -> bool:
    """Whether no other tensor lives on the memory of one."""
    return not raw.is_alias and sys.getrefcount(raw.storage) <= 2
