"""Views: where their elements lie in the memory of the tensor that they are of.

Where that is follows from sizes, strides and the op's numbers, so it is found out once for these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, TypeAlias

import torch

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.inspect.data import dense
from netcl_plugin_torch.dispatch import direct, overload, update_metadata
from netcl_plugin_torch.tensor import DEVICE, OPS, TORCH, NetclTensor, name_of, wrap, wrap_later

aten = torch.ops.aten
_make = torch.Tensor._make_wrapper_subclass
#: So many places of each op's views are kept.
_MOST: Final = 1024

#: Sizes, strides and offset of a view, in elements.
Place: TypeAlias = tuple[Sequence[int], Sequence[int], int]


def _viewing(*names: str, several: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Enter `place(geometry, *args)` as the op that gives views there.

    It gives the Place of the view of a tensor that lies so, with `several` a list of Places.
    """

    def enter(place: Callable[..., Any]) -> Callable[..., Any]:
        places: dict[Any, Any] = {}

        def run(x: Any, *args: Any, **kwargs: Any) -> Any:
            raw = x.raw
            given = (*args, *kwargs, *kwargs.values()) if kwargs else args
            numbers = [tuple(y) if type(y) is list else y for y in given]
            key = raw.shape, raw.geometry, raw.dtype, *numbers
            made = places.get(key)
            if made is None:
                if len(places) >= _MOST:
                    places.clear()
                found = place(raw.geometry or dense(raw.shape), *args, **kwargs)
                found = found if several else [found]
                made = places[key] = [_maker(raw.dtype, *one) for one in found]
            if not several:
                ((make, geometry, in_order),) = made
                return _view(x, make, raw.viewed(geometry, in_order))
            return [_view(x, make, raw.viewed(*place)) for make, *place in made]

        for name in names:
            OPS[overload(name)] = run
        return run

    return enter


def _maker(dtype: str, size: Any, strides: Any, offset: int) -> tuple[Any, Any, bool]:
    """What makes PyTorch's side of a view, where it lies, and whether in C order from the start."""
    geometry = ag.Geometry(tuple(size), tuple(strides), offset)
    make = partial(_make, NetclTensor, geometry.shape, strides=geometry.strides, dtype=TORCH[dtype],
                   device=DEVICE, storage_offset=offset)  # fmt: skip
    return make, geometry, geometry == dense(geometry.shape)


def _view(x: Any, make: Callable[[], Any], raw: Any) -> Any:
    """A view of a tensor, with its storage; in inference mode too it is what the tensor is."""
    apart = torch.is_inference_mode_enabled() and not x.is_inference()
    with torch.inference_mode(False) if apart else nullcontext():
        tensor = make()
    tensor.raw = raw
    torch._functionalize_unsafe_set(tensor, x)
    return tensor


def _shadow(x: Any) -> Any:
    """A tensor without elements that lies so: PyTorch's own code says what is wrong with a view."""
    return torch.empty_strided(x.shape, x.strides, device="meta")


def _axis(x: Any, dim: int, more: int = 0) -> int:
    """A dimension from the front; raises IndexError as PyTorch does."""
    ndim = len(x.shape) + more
    most = max(ndim, 1)
    if not -most <= dim < most:
        text = f"Dimension out of range (expected to be in range of [{-most}, {most - 1}], but got"
        raise IndexError(f"{text} {dim})")
    return dim + most if dim < 0 else dim


@direct("as_strided")
def as_strided(x: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    offset = x.storage_offset() if storage_offset is None else storage_offset
    geometry = ag.Geometry(tuple(size), tuple(stride), offset)
    if offset < 0 or (geometry.size and geometry.end > x.raw.storage.size):
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset} are "
            f"out of bounds for storage of {x.raw.storage.size} elements"
        )
    return _at(x, size, stride, offset)


@_viewing()
def _at(x: Any, size: Any, stride: Any, offset: int) -> Place:
    return size, stride, offset


@_viewing("view", "_unsafe_view", "_reshape_alias")
def view(x: Any, size: Any, stride: Any = None) -> Place:
    shape = _full(x, size)
    if x.is_contiguous:
        return shape, dense(shape).strides, x.offset
    geometry = x.reshaped(shape)
    if geometry is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return geometry  # type: ignore[no-any-return]


def _full(x: Any, size: Sequence[int]) -> tuple[int, ...]:
    """A size with its -1 worked out."""
    count, known = x.size, math.prod(n for n in size if n != -1)
    if -1 in size and known and count % known == 0:
        return tuple([count // known if n == -1 else n for n in size])
    if -1 in size or known != count:
        raise RuntimeError(f"shape '{list(size)}' is invalid for input of size {count}")
    return tuple(size)


@_viewing("transpose.int")
def transpose(x: Any, dim0: int, dim1: int) -> Place:
    i, j = _axis(x, dim0), _axis(x, dim1)
    size, stride = list(x.shape), list(x.strides)
    if size:
        size[i], size[j], stride[i], stride[j] = size[j], size[i], stride[j], stride[i]
    return size, stride, x.offset


@_viewing("t")
def t(x: Any) -> Place:
    if len(x.shape) > 2:
        text = "t() expects a tensor with <= 2 dimensions, but self is"
        raise RuntimeError(f"{text} {len(x.shape)}D. Use .mT or permute")
    return x.shape[::-1], x.strides[::-1], x.offset


@_viewing("permute")
def permute(x: Any, dims: Sequence[int]) -> Place:
    size, stride = x.shape, x.strides
    order = [_axis(x, dim) for dim in dims] if size else [0 for dim in dims if _axis(x, dim)]
    if len(order) != len(size) or len({*order}) != len(size):
        _shadow(x).permute(dims)
    return [size[i] for i in order], [stride[i] for i in order], x.offset


@_viewing("squeeze", "squeeze.dim", "squeeze.dims")
def squeeze(x: Any, dims: Any = None) -> Place:
    size, stride = x.shape, x.strides
    if dims is None:
        dims = range(len(size))
    gone = {_axis(x, dim) for dim in ((dims,) if isinstance(dims, int) else dims)}
    kept = [i for i, n in enumerate(size) if n != 1 or i not in gone]
    return [size[i] for i in kept], [stride[i] for i in kept], x.offset


@_viewing("unsqueeze")
def unsqueeze(x: Any, dim: int) -> Place:
    i = _axis(x, dim, more=1)
    size, stride = x.shape, x.strides
    step = size[i] * stride[i] if i < len(size) else 1
    return [*size[:i], 1, *size[i:]], [*stride[:i], step, *stride[i:]], x.offset


@_viewing("split.Tensor", "split_with_sizes", several=True)
def split(x: Any, sizes: Any, dim: int = 0) -> list[Place]:
    count = x.shape[dim] if x.shape else 0
    if isinstance(sizes, int) and sizes > 0 and count:
        sizes = [min(sizes, count - at) for at in range(0, count, sizes)]
    if isinstance(sizes, int) or not count or sum(sizes) != count or min(sizes) < 0:
        parts = _shadow(x).split(sizes, dim)
        return [(y.shape, y.stride(), y.storage_offset() + x.offset) for y in parts]
    i = _axis(x, dim)
    size, stride, offset = [*x.shape], x.strides, x.offset
    places: list[Place] = []
    for n in sizes:
        size[i] = n
        places.append((tuple(size), stride, offset))
        offset += n * stride[i]
    return places


@_viewing("unbind.int", several=True)
def unbind(x: Any, dim: int = 0) -> list[Place]:
    return [_selected(x, dim, i) for i in range(x.shape[_axis(x, dim)])]


@_viewing("select.int")
def select(x: Any, dim: int, index: int) -> Place:
    return _selected(x, dim, index)


def _selected(x: Any, dim: int, index: int) -> Place:
    if not x.shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    i = _axis(x, dim)
    size, stride = list(x.shape), list(x.strides)
    count, step = size.pop(i), stride.pop(i)
    if not -count <= index < count:
        text = f"select(): index {index} out of range for tensor of size {list(x.shape)}"
        raise IndexError(f"{text} at dimension {i}")
    place = index + count if index < 0 else index
    return size, stride, x.offset + place * step


@_viewing("slice.Tensor")
def slice_(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Place:
    if not x.shape:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    i = _axis(x, dim)
    size, stride = list(x.shape), list(x.strides)
    first, last, _ = slice(start, end).indices(size[i])
    count = size[i]
    size[i] = max(0, -((first - last) // step))
    offset = x.offset + (first if size[i] or first < count else count) * stride[i]
    stride[i] *= step
    return size, stride, offset


@_viewing("expand")
def expand(x: Any, size: Sequence[int], implicit: bool = False) -> Place:
    old, lead = list(x.shape), len(size) - len(x.shape)
    steps = [0] * max(lead, 0) + list(x.strides)
    sizes = []
    for i, n in enumerate(size):
        had = old[i - lead] if i >= lead >= 0 else 1
        if lead < 0 or (n == -1 and i < lead) or (n != had and n != -1 and had != 1):
            _shadow(x).expand(size)
        sizes.append(had if n == -1 else n)
        if sizes[-1] != had:
            steps[i] = 0
    return sizes, steps, x.offset


@_viewing("unfold")
def unfold(x: Any, dimension: int, size: int, step: int) -> Place:
    shadow = _shadow(x).unfold(dimension, size, step)
    return shadow.shape, shadow.stride(), shadow.storage_offset() + x.offset


@direct("detach", "alias", "lift_fresh", "lift", "_conj", "_neg_view", "resolve_conj")
def alias(x: Any) -> Any:
    own = x.__dict__
    if "record" in own:  # as autograd keeps it
        return wrap_later(x.shape, x.dtype, own["record"], own["place"])
    raw = own["raw"]
    if raw.geometry is not None:
        return _at(x, *raw.geometry)
    make = partial(_make, NetclTensor, raw.shape, dtype=TORCH[raw.dtype], device=DEVICE)
    return _view(x, make, raw)


@direct("view.dtype")
def view_dtype(x: Any, dtype: Any) -> Any:
    new, old = dtype.itemsize, x.dtype.itemsize
    name = name_of(dtype)
    if new == old and x.raw.geometry is None:
        return wrap(nc.Tensor(x.raw.memory, tuple(x.shape), name, x.raw.device))
    text = "netcl: view(dtype) of a view, or to a dtype of another size, is not supported"
    raise NotImplementedError(f"{text}. Use x.clone().view(dtype), or x.cpu()")


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
