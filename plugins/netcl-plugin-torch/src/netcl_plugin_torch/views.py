"""Rows that see memory: making tensors, views, copies between devices, and other sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import NetclError
from netcl_core.inspect.data import dense
from netcl_core.inspect.streams import stream_of
from netcl_plugin_torch.dispatch import (
    direct,
    made_of_others,
    overload,
    raw_of,
    update_metadata,
)  # fmt: skip
from netcl_plugin_torch.tensor import (
    DEVICE,
    NAMES,
    NetclTensor,
    empty_raw,
    filled_raw,
    name_of,
    reshaped,
    to_device,
    to_host,
    view,
    wrap,
    wrap_later,
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


# -- views -----------------------------------------------------------------------------------


@direct("as_strided")
def as_strided(x: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    offset = x.storage_offset() if storage_offset is None else storage_offset
    geometry = ag.Geometry(tuple(size), tuple(stride), offset)
    if offset < 0 or (geometry.size and geometry.end > x.raw.storage.size):
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset} are "
            f"out of bounds for storage of {x.raw.storage.size} elements"
        )
    return view(x, size, stride, offset)


@direct("view", "_unsafe_view", "_reshape_alias")
def view_(x: Any, size: Any, stride: Any = None) -> Any:
    shape = _full(x, size)
    if x.is_contiguous():
        if x.raw.geometry is None:
            return reshaped(x, shape)
        return view(x, shape, wrap_strides(shape), x.storage_offset())
    geometry = ag.Geometry(tuple(x.shape), x.stride(), x.storage_offset()).reshaped(shape)
    if geometry is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return view(x, shape, geometry.strides, geometry.offset)


def _axis(x: Any, dim: int, more: int = 0) -> int:
    """A dimension from the front; raises IndexError as PyTorch does."""
    ndim = x.dim() + more
    most = max(ndim, 1)
    if not -most <= dim < most:
        text = f"Dimension out of range (expected to be in range of [{-most}, {most - 1}], but got"
        raise IndexError(f"{text} {dim})")
    return dim + most if dim < 0 else dim


@direct("transpose.int")
def transpose(x: Any, dim0: int, dim1: int) -> Any:
    i, j = _axis(x, dim0), _axis(x, dim1)
    size, stride = list(x.shape), list(x.stride())
    if size:
        size[i], size[j], stride[i], stride[j] = size[j], size[i], stride[j], stride[i]
    return view(x, size, stride, x.storage_offset())


@direct("permute")
def permute(x: Any, dims: Sequence[int]) -> Any:
    size, stride = x.shape, x.stride()
    order = [_axis(x, dim) for dim in dims] if size else [0 for dim in dims if _axis(x, dim)]
    if len(order) != len(size) or len({*order}) != len(size):
        return torch.empty_strided(size, stride, device="meta").permute(dims)  # which tells why
    return view(x, [size[i] for i in order], [stride[i] for i in order], x.storage_offset())


@direct("squeeze", "squeeze.dim", "squeeze.dims")
def squeeze(x: Any, dims: Any = None) -> Any:
    size, stride = x.shape, x.stride()
    if dims is None:
        dims = range(len(size))
    gone = {_axis(x, dim) for dim in ((dims,) if isinstance(dims, int) else dims)}
    kept = [i for i, n in enumerate(size) if n != 1 or i not in gone]
    return view(x, [size[i] for i in kept], [stride[i] for i in kept], x.storage_offset())


@direct("split.Tensor", "split_with_sizes")
def split(x: Any, sizes: Any, dim: int = 0) -> Any:
    count = x.shape[dim] if x.dim() else 0
    if isinstance(sizes, int) and sizes > 0 and count:
        sizes = [min(sizes, count - at) for at in range(0, count, sizes)]
    if isinstance(sizes, int) or not count or sum(sizes) != count or min(sizes) < 0:
        meta = torch.empty_strided(x.shape, x.stride(), device="meta").split(sizes, dim)
        return [view(x, part.shape, part.stride(), part.storage_offset() + x.storage_offset())
                for part in meta]  # fmt: skip
    i = _axis(x, dim)
    size, stride, offset = [*x.shape], x.stride(), x.storage_offset()
    parts = []
    for n in sizes:
        size[i] = n
        parts.append(view(x, size, stride, offset))
        offset += n * stride[i]
    return parts


@direct("unbind.int")
def unbind(x: Any, dim: int = 0) -> Any:
    return [select(x, dim, i) for i in range(x.shape[dim])]


@direct("t")
def t(x: Any) -> Any:
    if x.dim() > 2:
        text = "t() expects a tensor with <= 2 dimensions, but self is"
        raise RuntimeError(f"{text} {x.dim()}D. Use .mT or permute")
    return transpose(x, 0, 1) if x.dim() == 2 else alias(x)


@direct("unsqueeze")
def unsqueeze(x: Any, dim: int) -> Any:
    i = _axis(x, dim, more=1)
    size, stride = list(x.shape), list(x.stride())
    step = size[i] * stride[i] if i < len(size) else 1
    return view(x, [*size[:i], 1, *size[i:]], [*stride[:i], step, *stride[i:]], x.storage_offset())


@direct("select.int")
def select(x: Any, dim: int, index: int) -> Any:
    if not x.dim():
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    i = _axis(x, dim)
    size, stride = list(x.shape), list(x.stride())
    count, step = size.pop(i), stride.pop(i)
    if not -count <= index < count:
        text = f"select(): index {index} out of range for tensor of size {list(x.shape)}"
        raise IndexError(f"{text} at dimension {i}")
    place = index + count if index < 0 else index
    return view(x, size, stride, x.storage_offset() + place * step)


@direct("slice.Tensor")
def slice_(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    if not x.dim():
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    i = _axis(x, dim)
    size, stride = list(x.shape), list(x.stride())
    first, last, _ = slice(start, end).indices(size[i])
    count = size[i]
    size[i] = max(0, -((first - last) // step))
    offset = x.storage_offset() + (first if size[i] or first < count else count) * stride[i]
    stride[i] *= step
    return view(x, size, stride, offset)


@direct("expand")
def expand(x: Any, size: Sequence[int], implicit: bool = False) -> Any:
    old, lead = list(x.shape), len(size) - x.dim()
    steps = [0] * max(lead, 0) + list(x.stride())
    sizes = []
    for i, n in enumerate(size):
        had = old[i - lead] if i >= lead >= 0 else 1
        if lead < 0 or (n == -1 and i < lead) or (n != had and n != -1 and had != 1):
            # PyTorch's own code says what is wrong
            meta = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
            return meta.expand(size)
        sizes.append(had if n == -1 else n)
        if sizes[-1] != had:
            steps[i] = 0
    return view(x, sizes, steps, x.storage_offset())


def _full(x: Any, size: Sequence[int]) -> tuple[int, ...]:
    """A size with its -1 worked out."""
    count, known = x.numel(), math.prod(n for n in size if n != -1)
    if -1 in size and known and count % known == 0:
        return tuple([count // known if n == -1 else n for n in size])
    if -1 in size or known != count:
        raise RuntimeError(f"shape '{list(size)}' is invalid for input of size {count}")
    return tuple(size)


@direct("detach", "alias", "lift_fresh", "lift", "_conj", "_neg_view", "resolve_conj")
def alias(x: Any) -> Any:
    if "record" in x.__dict__:  # as autograd keeps it
        return wrap_later(x.shape, x.dtype, x.record, x.place)
    if x.raw.geometry is None and x.is_contiguous():
        tensor = wrap(x.raw)
        torch._functionalize_unsafe_set(tensor, x)
        return tensor
    return view(x, x.shape, x.stride(), x.storage_offset())


@direct("view.dtype")
def view_dtype(x: Any, dtype: Any) -> Any:
    new, old = dtype.itemsize, x.dtype.itemsize
    name = name_of(dtype)
    if new == old and x.raw.geometry is None:
        return wrap(nc.Tensor(x.raw.memory, tuple(x.shape), name, x.raw.device))
    text = "netcl: view(dtype) of a view, or to a dtype of another size, is not supported"
    raise NotImplementedError(f"{text}. Use x.clone().view(dtype), or x.cpu()")


@direct("unfold")
def unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    shadow = torch.empty_strided(x.shape, x.stride(), device="meta").unfold(dimension, size, step)
    return view(x, shadow.shape, shadow.stride(), x.storage_offset())


def _changes_itself(name: str) -> None:
    """`x.t_()` and its kin: the view that the op without `_` gives becomes x."""

    def run(x: Any, *args: Any, **kwargs: Any) -> Any:
        changed = getattr(aten, name)(x, *args, **kwargs)
        x.raw = changed.raw
        update_metadata(x, changed.shape, changed.stride(), changed.storage_offset())
        return x

    packet = getattr(aten, f"{name}_")
    direct(*[f"{name}_.{kind}" for kind in packet.overloads()])(run)


for _name in ("t", "transpose", "squeeze", "unsqueeze", "as_strided", "swapaxes", "swapdims"):
    _changes_itself(_name)


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
__all__ = ["KERNELS", "raw_of"]
