"""Ops that make tensors, copy and fill them, and give them other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import NetclError
from netcl_core.inspect.data import dense
from netcl_core.inspect.streams import stream_of
from netcl_plugin_torch.dispatch import direct, made_of_others, overload, update_metadata
from netcl_plugin_torch.tensor import (
    DEVICE,
    NAMES,
    NetclTensor,
    empty_raw,
    filled_raw,
    name_of,
    to_device,
    to_host,
    wrap,
    write,
)

aten = torch.ops.aten


# -- tensors without operands: PyTorch asks the device's kernels for these ---------------------


def empty(size: Sequence[int], dtype: Any = None, layout: Any = None, device: Any = None,
          pin_memory: Any = None, memory_format: Any = None) -> NetclTensor:  # fmt: skip
    """An uninitialised tensor."""
    _check(device, layout, pin_memory)
    if memory_format in (torch.channels_last, torch.channels_last_3d):
        like = torch.empty(size, device="meta", memory_format=memory_format)
        return empty_strided(size, like.stride(), dtype)
    return wrap(empty_raw(tuple(size), name_of(dtype or torch.get_default_dtype())))


def empty_strided(size: Sequence[int], stride: Sequence[int], dtype: Any = None, layout: Any = None,
                  device: Any = None, pin_memory: Any = None) -> NetclTensor:  # fmt: skip
    """An uninitialised tensor of some strides."""
    _check(device, layout, pin_memory)
    geometry = ag.Geometry(tuple(size), tuple(stride))
    dtype = name_of(dtype or torch.get_default_dtype())
    if geometry.strides == wrap_strides(geometry.shape):
        return wrap(empty_raw(geometry.shape, dtype))
    shape = geometry.shape if geometry.is_contiguous else (geometry.end,)
    return _viewed(empty_raw(shape, dtype), geometry)


def wrap_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor in C order."""
    return dense(tuple(shape)).strides


def _viewed(raw: Any, geometry: Any) -> NetclTensor:
    tensor = torch.Tensor._make_wrapper_subclass(
        NetclTensor, geometry.shape, strides=geometry.strides, storage_offset=geometry.offset,
        dtype=getattr(torch, raw.dtype), device=DEVICE,
    )  # fmt: skip
    tensor.raw = raw.viewed(geometry)
    return tensor  # type: ignore[no-any-return]


def _check(device: Any, layout: Any, pin_memory: Any) -> None:
    if layout not in (None, torch.strided):
        raise RuntimeError(f"netcl has no {layout} tensors: convert with x.to_dense() first")
    if pin_memory:
        raise RuntimeError("netcl needs no pinned memory: leave pin_memory away")
    if device is not None and torch.device(device).index not in (None, 0):
        text = f"netcl has one device in a process, 'netcl:0', and not {device}"
        raise RuntimeError(f"{text}: nc.use_device says which OpenCL device that is")


# -- other sizes ---------------------------------------------------------------------------------


@direct("resize_")
def resize_(x: Any, size: Sequence[int], memory_format: Any = None) -> Any:
    """Another size; the elements that the memory has stay, in their order."""
    if type(x) is not NetclTensor:
        return x.resize_(size)
    geometry = ag.Geometry(tuple(size), wrap_strides(size), x.storage_offset())
    if geometry.end <= x.raw.storage.size:
        x.raw = x.raw.viewed(geometry)
    else:
        raw = nc.Tensor.empty(geometry.shape, dtype=x.raw.dtype)
        kept = x.raw.storage.size if x.numel() else 0
        if kept:
            flat = raw.viewed(ag.Geometry((kept,), (1,)))
            flat.overwrite(x.raw.whole().viewed(ag.Geometry((kept,), (1,))))
        _adopt(x, wrap(raw))
        return x
    update_metadata(x, geometry.shape, geometry.strides, geometry.offset)
    return x


@direct("set_.source_Tensor")
def set_(x: Any, source: Any) -> Any:
    _adopt(x, source)
    return x


def _adopt(x: Any, source: Any) -> None:
    x.raw = source.raw
    torch._functionalize_unsafe_set(x, source)
    update_metadata(x, source.shape, source.stride(), source.storage_offset())


# -- copies ------------------------------------------------------------------------------------


@direct("clone")
def clone(x: Any, memory_format: Any = None) -> Any:
    return _copied(x, x.raw.dtype, memory_format)


_PRESERVED: Final = (None, torch.preserve_format)


def _copied(x: Any, dtype: str, memory_format: Any) -> Any:
    """A copy in a dtype, of the strides that PyTorch gives a clone."""
    raw = x.raw
    with ag.no_grad():
        if memory_format is torch.contiguous_format or (
            memory_format in _PRESERVED and x.is_contiguous()
        ):
            return wrap(raw.duplicate() if dtype == raw.dtype else raw.astype(dtype))
        like = torch.empty_strided(x.shape, x.stride(), device="meta").clone(
            memory_format=memory_format or torch.preserve_format
        )
        if like.is_contiguous():
            return wrap(raw.duplicate() if dtype == raw.dtype else raw.astype(dtype))
        copy = empty_strided(x.shape, like.stride(), getattr(torch, dtype))
        copy.raw.overwrite(raw)
        return copy


@direct("_to_copy")
def to_copy(x: Any, dtype: Any = None, layout: Any = None, device: Any = None,
            pin_memory: Any = None, non_blocking: bool = False,
            memory_format: Any = None) -> Any:  # fmt: skip
    kind = "netcl" if device is None else torch.device(device).type
    if type(x) is not NetclTensor:
        return to_device(x if dtype is None else x.to(dtype))
    if kind == "cpu":
        if dtype is not None and dtype in NAMES and dtype != x.dtype:
            x = _copied(x, name_of(dtype), None)
        return to_host(x).to(dtype or x.dtype, memory_format=memory_format or torch.preserve_format)
    if kind != "netcl":
        return to_host(x).to(device, dtype or x.dtype)
    _check(device, layout, pin_memory)
    return _copied(x, name_of(dtype or x.dtype), memory_format)


@direct("copy_")
def copy_(target: Any, source: Any, non_blocking: bool = False) -> Any:
    if type(target) is not NetclTensor:
        return target.copy_(to_host(source))
    if type(source) is not NetclTensor:
        source = to_device(source.to(target.dtype))
    if source.shape != target.shape:
        source = source.expand(target.shape)
    overwrite(target, source.raw)
    return target


def copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    """The copy that PyTorch asks the device's kernels for."""
    return copy_(target, source)


def overwrite(target: Any, raw: Any) -> None:
    """Write elements to where a tensor lies."""
    try:
        with ag.no_grad():
            target.raw.overwrite(raw)
    except NetclError as error:
        text = "unsupported operation: more than one element of the written-to tensor refers to a "
        raise RuntimeError(f"{text}single memory location. {error}") from error


@direct("fill_.Scalar", "fill_.Tensor")
def fill_(x: Any, value: Any) -> Any:
    number = value.item() if isinstance(value, torch.Tensor) else value
    if isinstance(number, complex):
        raise RuntimeError("value cannot be converted to a real dtype without overflow")
    if x.numel():
        _fill(x, torch.tensor(number, dtype=x.dtype).item())  # as PyTorch rounds and wraps it
    return x


@direct("zero_")
def zero_(x: Any) -> Any:
    if x.numel():
        _fill(x, 0)
    return x


def _fill(x: Any, number: Any) -> None:
    raw = x.raw
    if raw.geometry is None:
        stream_of(raw.device).fill(raw.memory, raw.size, nc.DTYPES[raw.dtype], number)
        raw.mark_changed()
    else:
        overwrite(x, filled_raw(tuple(x.shape), raw.dtype, number))


def _alike(name: str, value: Any) -> None:
    """`zeros_like` and its kin: at once where strides, device and layout are the usual ones."""
    others = made_of_others(overload(name))

    @direct(name)
    def run(x: Any, dtype: Any = None, layout: Any = None, device: Any = None,
            pin_memory: Any = None, memory_format: Any = None) -> Any:  # fmt: skip
        if (
            type(x) is NetclTensor and x.is_contiguous() and memory_format in _PRESERVED
            and layout in _STRIDED and not pin_memory and device in _HERE
            and (dtype is None or dtype in NAMES)
        ):  # fmt: skip
            shape, kind = tuple(x.shape), name_of(dtype or x.dtype)
            return wrap(empty_raw(shape, kind) if value is None else filled_raw(shape, kind, value))
        return others(x, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory,
                      memory_format=memory_format)  # fmt: skip


_STRIDED: Final = (None, torch.strided)
_HERE: Final = (None, DEVICE)
for _name, _value in (("empty_like", None), ("zeros_like", 0), ("ones_like", 1)):
    _alike(_name, _value)


@direct("_local_scalar_dense")
def local_scalar_dense(x: Any) -> Any:
    return x.raw.item()


@direct("equal")
def equal(a: Any, b: Any) -> bool:
    if a.shape != b.shape:
        return False
    return bool((a == b).all()) if a.numel() else True


@direct("is_pinned")
def is_pinned(x: Any, device: Any = None) -> bool:
    return False


@direct("record_stream")
def record_stream(x: Any, stream: Any) -> None:
    return None


@direct("_pin_memory")
def pin_memory(x: Any, device: Any = None) -> Any:
    raise RuntimeError("netcl needs no pinned memory: leave pin_memory away")


def _made_on_host(name: str) -> None:
    """An op that writes numbers which depend on no tensor: the host makes and sends them."""
    func = getattr(getattr(aten, name.partition(".")[0]), name.partition(".")[2])

    @direct(name)
    def run(*args: Any, out: Any, **more: Any) -> Any:
        result = func(*args, out=torch.empty(0, dtype=out.dtype), **more)
        if result.shape != out.shape:
            resize_(out, result.shape)
        write(out, to_device(result).raw)
        return out


for _name in ("arange.start_out", "arange.out", "linspace.out", "logspace.out", "range.out",
              "range.out_", "eye.out", "eye.m_out"):  # fmt: skip
    _made_on_host(_name)


def zero_tensor(size: Sequence[int], **options: Any) -> Any:
    """PyTorch's zeros that are written nowhere."""
    return empty(size, **options).zero_()


def _triangle(name: str) -> Any:
    func = getattr(torch, name)

    def run(*sizes: int, dtype: Any = torch.int64, **_: Any) -> Any:
        return to_device(func(*sizes, dtype=dtype or torch.int64))

    return run


KERNELS = {
    "tril_indices": _triangle("tril_indices"),
    "triu_indices": _triangle("triu_indices"),
    "_efficientzerotensor": zero_tensor,
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "_copy_from": copy_from,
    "_copy_from_and_resize": copy_from,
}
