"""Joining and cutting: cat, stack, split, chunk, flip, pad."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from numbers import Real
from operator import index
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Geometry, Implementation, Operator, Request, Saved, composite
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError, message
from netcl_plugin_tensor import geometry, strided, strided_gpu
from netcl_plugin_tensor.axes import axes, axis, plain_shape, shape_of
from netcl_plugin_tensor.views import BITS, strides_of, whole

JOINED: Final = "tensor/joined.cl.j2"
#: So many tensors are joined by one launch.
_TOGETHER: Final = 16
#: Elements that a work-item of a CPU writes in a row.
_RUN: Final = 4096

# -- cat -------------------------------------------------------------------------------


def _bind_cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    items = list(tensors)
    if not items:
        raise ArgumentError(message("cat", "no tensors", "at least one"))
    shapes = [shape_of(item) for item in items]
    if () in shapes:
        given = f"the tensor {shapes.index(())} has no dimensions"
        raise ShapeError(message("cat", given, "one or more", "Use stack"))
    if len({*map(len, shapes)}) > 1:  # as in PyTorch, an empty list stands for nothing
        items = [item for item, shape in zip(items, shapes, strict=True) if shape != (0,)]
    return _alike(items), {"dim": axis("cat", dim, len(shape_of(items[0])))}


def _alike(items: Sequence[Any]) -> Sequence[Any]:
    """Tensors and host data of one dtype, the widest of theirs."""
    device = next((item.device for item in items if isinstance(item, Tensor)), None)
    found = [ag.as_operand(item, device or nc.default_device()) for item in items]
    if len({item.dtype for item in found}) == 1:
        return found
    dtype = nc.promote((item.dtype, item.ndim) for item in found)
    return [item.astype(dtype) for item in found]


def _infer_cat(*specs: Spec, dim: int) -> Spec:
    first = specs[0]
    for spec in specs[1:]:
        rest = (*spec.shape[:dim], *spec.shape[dim + 1 :])
        if spec.ndim != first.ndim or rest != (*first.shape[:dim], *first.shape[dim + 1 :]):
            given = f"shapes {first.shape} and {spec.shape} along axis {dim}"
            raise ShapeError(message("cat", given, "equal sizes on all other axes"))
    total = sum(spec.shape[dim] for spec in specs)
    return Spec((*first.shape[:dim], total, *first.shape[dim + 1 :]), first.dtype)


def _plan_cat(request: Request) -> Kernels:
    present = [i for i, spec in enumerate(request.inputs) if spec.size]
    if len(present) <= _TOGETHER and not any(request.layouts):
        return Kernels((_joined(request, present),))
    dim, strides = request.attrs["dim"], strides_of(request.output.shape)
    launches, start = [], 0
    for i, spec in enumerate(request.inputs):
        if spec.size:
            view = Geometry(spec.shape, strides, start * strides[dim])
            buffers = (("in", i), ("out", 0))
            source = request.layout(i) or whole(spec.shape)
            launches.append(strided.copy(request.device, spec.dtype, source, view, buffers))
        start += spec.shape[dim]
    return Kernels(tuple(launches))


def _all(request: Request) -> Sequence[bool]:
    return [True] * len(request.inputs)


def _joined(request: Request, parts: Sequence[int]) -> Kernel:
    """One launch for all parts, of which none has gaps."""
    dim, out = request.attrs["dim"], request.output
    sizes = [math.prod(request.inputs[i].shape[dim:]) for i in parts]
    ends = list(itertools.accumulate(sizes))
    itemsize = DTYPES[out.dtype].itemsize
    vector = math.gcd(strided_gpu.BYTES // itemsize, *sizes)
    run = geometry.chunk(request.device, _RUN, vector)
    context = {"bits": BITS[itemsize], "parts": len(parts),
               "vector": geometry.chunk(request.device, 16, vector)}  # fmt: skip
    numbers = [("ulong", n) for n in (out.size, run, ends[-1], *ends)]
    args = (*(("in", i) for i in parts), ("out", 0), *numbers)
    return Kernel(JOINED, "joined", args, *geometry.groups(request.device, -(-out.size // run)),
                  context)  # fmt: skip


def _cat_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    dim, start, found = saved.attrs["dim"], 0, []
    for x, need in zip(saved.inputs, saved.needs, strict=True):
        stop = start + x.shape[dim]
        place = (*[slice(None)] * dim, slice(start, stop))
        found.append(ag.getitem(grad, place) if need else None)
        start = stop
    return found


# -- composites --------------------------------------------------------------------------


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors of one shape, joined along a new axis."""
    items = list(tensors)
    if not items:
        raise ArgumentError(message("stack", "no tensors", "at least one"))
    place = axis("stack", dim, len(shape_of(items[0])) + 1)
    return ag.cat([ag.unsqueeze(item, place) for item in items], place)


def split(x: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Pieces along an axis: of one size (the last may be smaller), or of the given sizes."""
    if not shape_of(x):
        raise ShapeError(message("split", "a tensor without dimensions", "at least one"))
    place = axis("split", dim, len(shape_of(x)))
    total = shape_of(x)[place]
    given = split_size_or_sections
    if isinstance(given, int):
        if given < 1 or isinstance(given, bool):
            raise AttributeValueError(message("split", f"pieces of {given}", "1 or more"))
        sizes = [min(given, total - start) for start in range(0, max(total, 1), given)]
    else:
        sizes = list(plain_shape("split", given))
        if sum(sizes) != total:
            raise ShapeError(message("split", f"sections {sizes}", f"sizes that sum to {total}"))
    pieces = SPLIT(x, tuple(sizes), place)
    return pieces if isinstance(pieces, tuple) else (pieces,)


def _split_view(x: Geometry, sizes: Sequence[int], dim: int) -> tuple[Geometry, ...]:
    found, start = [], 0
    for size in sizes:
        shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
        found.append(Geometry(shape, x.strides, x.offset + start * x.strides[dim]))
        start += size
    return tuple(found)


def _split_backward(saved: Saved, *grads: Any) -> Sequence[Any]:
    """The pieces' gradients joined: each element is written once."""
    x, (sizes, dim) = saved.inputs[0], saved.attrs.values()
    shapes = ((*x.shape[:dim], size, *x.shape[dim + 1 :]) for size in sizes)
    parts = [
        Tensor.zeros(shape, x.dtype, x.device) if grad is None else grad
        for grad, shape in zip(grads, shapes, strict=True)
    ]
    return [ag.cat(parts, dim) if len(parts) > 1 else parts[0]]


SPLIT: Final = Operator(
    "split_views",
    lambda x, sizes, dim: ((x,), {"sizes": sizes, "dim": dim}),
    view=_split_view,
    backward=_split_backward,
    doc="split_views(x, sizes, dim): pieces along an axis.",
)


def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """All that stands along an axis, one by one, without that axis."""
    shape = shape_of(input)
    place = axis("unbind", dim, len(shape))
    if not shape:
        raise ShapeError(message("unbind", "a tensor without dimensions", "1 or more"))
    if not shape[place]:
        return ()
    found = UNBIND(input, place)
    return found if isinstance(found, tuple) else (found,)


def _unbind_view(x: Geometry, dim: int) -> tuple[Geometry, ...]:
    shape, strides = (each[:dim] + each[dim + 1 :] for each in (x.shape, x.strides))
    step = x.strides[dim]
    return tuple([Geometry(shape, strides, x.offset + i * step) for i in range(x.shape[dim])])


def _unbind_backward(saved: Saved, *grads: Any) -> Sequence[Any]:
    x, dim = saved.inputs[0], saved.attrs["dim"]
    shape = x.shape[:dim] + x.shape[dim + 1 :]
    missing = Tensor.zeros(shape, x.dtype, x.device) if None in grads else None
    return [ag.stack([missing if each is None else each for each in grads], dim)]


UNBIND: Final = Operator(
    "unbind_views",
    lambda x, dim: ((x,), {"dim": dim}),
    view=_unbind_view,
    backward=_unbind_backward,
    doc="unbind_views(x, dim): all that stands along an axis.",
)


def chunk(x: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most `chunks` pieces of nearly equal size along an axis."""
    if not hasattr(chunks, "__index__") or int(chunks) < 1:
        raise AttributeValueError(message("chunk", f"chunks={chunks!r}", "an int, 1 or more"))
    if not shape_of(x):
        raise ShapeError(message("chunk", "a tensor without dimensions", "at least one"))
    total = shape_of(x)[axis("chunk", dim, len(shape_of(x)))]
    return split(x, max(1, -(-total // int(chunks))), dim)


# -- flip and pad --------------------------------------------------------------------------


def _bind_flip(x: Any, dims: Any) -> Any:
    none = isinstance(dims, Sequence) and not len(dims)  # which elsewhere means all axes
    return (x,), {"dims": () if none else axes("flip", dims, len(shape_of(x)))}


def _flip_view(x: Spec, dims: Sequence[int]) -> Geometry:
    own = strides_of(x.shape)
    strides = tuple(-stride if i in dims else stride for i, stride in enumerate(own))
    offset = sum((x.shape[i] - 1) * own[i] for i in dims)
    return Geometry(x.shape, strides, offset)


def _bind_pad(input: Any, pad: Sequence[int], value: Any = 0.0) -> Any:
    ndim, sizes = len(shape_of(input)), [index(size) for size in pad]
    if not isinstance(value, Real):
        raise AttributeValueError(message("constant_pad_nd", f"value={value!r}", "a number"))
    if len(sizes) % 2 or len(sizes) > 2 * ndim:
        raise AttributeValueError(
            message(
                "constant_pad_nd",
                f"{len(sizes)} sizes",
                f"pairs for at most {ndim} axes, last axis first",
            )
        )
    pairs = [(0, 0)] * (ndim - len(sizes) // 2)
    pairs += [(sizes[i], sizes[i + 1]) for i in range(len(sizes) - 2, -1, -2)]
    return (input,), {"pairs": tuple(pairs), "value": value}


def _infer_pad(x: Spec, pairs: Sequence[tuple[int, int]], value: float) -> Spec:
    shape = tuple(size + sum(pair) for size, pair in zip(x.shape, pairs, strict=True))
    if min(shape, default=0) < 0:
        raise ShapeError(
            message("constant_pad_nd", f"{pairs} on {x.shape}", "sizes of at least 0 afterwards")
        )
    if not DTYPES[x.dtype].floating and not float(value).is_integer():
        expected = f"a whole number for a {x.dtype} tensor"
        raise AttributeValueError(message("constant_pad_nd", f"value={value!r}", expected))
    return Spec(shape, x.dtype)


def _kept(x: Sequence[int], pairs: Sequence[tuple[int, int]]) -> tuple[Any, Any]:
    """Where the kept elements stand: slices of the input and slices of the output."""
    inside, outside = [], []
    for size, (before, after) in zip(x, pairs, strict=True):
        inside.append(slice(max(0, -before), size - max(0, -after)))
        length = max(0, inside[-1].stop - inside[-1].start)
        outside.append(slice(max(0, before), max(0, before) + length))
    return tuple(inside), tuple(outside)


def _whole(value: float, dtype: str) -> int:
    return int(bool(value)) if dtype == "bool" else int(value)


def _plan_pad(request: Request) -> Kernels:
    x, out = request.inputs[0], request.output
    pairs, value = request.attrs["pairs"], request.attrs["value"]
    dtype = DTYPES[out.dtype]
    number = (dtype.compute, value) if dtype.floating else ("long", _whole(value, out.dtype))
    launches = [strided.fill(request.device, out, "filled", number)]
    inside, outside = _kept(x.shape, pairs)
    sizes = tuple(max(0, part.stop - part.start) for part in inside)
    if x.size and min(sizes, default=1) > 0:
        source, target = strides_of(x.shape), strides_of(out.shape)
        start = sum(part.start * step for part, step in zip(inside, source, strict=True))
        place = sum(part.start * step for part, step in zip(outside, target, strict=True))
        views = (Geometry(sizes, source, start), Geometry(sizes, target, place))
        launches.append(strided.copy(request.device, x.dtype, *views))
    return Kernels(tuple(launches))


def _reference_pad(x: Any, pairs: Sequence[tuple[int, int]], value: float) -> Any:
    out = np.full(_infer_pad(Spec(x.shape, x.dtype.name), pairs, value).shape, value, x.dtype)
    inside, outside = _kept(x.shape, pairs)
    out[outside] = x[inside]
    return out


def _pad_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    undo = [size for pair in reversed(saved.attrs["pairs"]) for size in (-pair[0], -pair[1])]
    return [CONSTANT(grad, undo)]


CONSTANT: Final = Operator(
    name="constant_pad_nd",
    bind=_bind_pad,
    infer=_infer_pad,
    reference=_reference_pad,
    backward=_pad_backward,
    saves=(),
    implementations=(Implementation("constant_pad_nd", "fill and strided copy", _plan_pad),),
    method=False,
    doc="constant_pad_nd(input, pad, value=0): sizes before and after, last axis first; negative "
    "sizes cut off.",
)
#: NumPy's name of a mode, and how much less than an axis its padding is at most.
_MODES: Final = {"reflect": ("reflect", 1), "replicate": ("edge", None), "circular": ("wrap", 0)}


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Any:
    """The last axes made longer: by a number, or by elements of the tensor itself.

    >>> nc.nn.functional.pad(nc.tensor([1.0, 2.0, 3.0]), (2, 1), "reflect").tolist()
    [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]

    Args:
        input: A tensor of any dtype.
        pad: How many before and after each axis, the last one first; less than 0 cuts off.
        mode: `'constant'`, `'reflect'` (without the edge), `'replicate'` (the edge) or
            `'circular'` (from the other end).
        value: The number of `'constant'`; None is 0.
    """
    if mode == "constant":
        return CONSTANT(input, pad, 0.0 if value is None else value)
    if mode not in _MODES:
        expected = f"'constant' or {', '.join(map(repr, _MODES))}"
        raise AttributeValueError(message("pad", f"mode={mode!r}", expected))
    x, sizes = ag.as_operand(input, nc.default_device()), [index(size) for size in pad]
    if len(sizes) % 2 or len(sizes) > 2 * x.ndim:
        expected = f"pairs for at most {x.ndim} axes, last axis first"
        raise AttributeValueError(message("pad", f"{len(sizes)} sizes", expected))
    for i in range(len(sizes) // 2):
        axis, pair = x.ndim - 1 - i, tuple(sizes[2 * i : 2 * i + 2])
        if any(pair):
            places = _padded_places(x.shape[axis], pair, mode)
            x = ag.index_select(x, axis, Tensor.from_host(places, x.device))
    return x


def _padded_places(size: int, pair: tuple[int, ...], mode: str) -> Any:
    """Which elements stand where along an axis."""
    name, least = _MODES[mode]
    if not size or (least is not None and max(pair) > size - least):
        given = f"padding {pair} of an axis of {size}"
        raise ShapeError(message("pad", given, "an axis that is longer"))
    before, after = (max(each, 0) for each in pair)
    if mode == "circular":  # what is cut off does not come back
        kept = np.arange(size)[max(-pair[0], 0) : size - max(-pair[1], 0)]
        if max(before, after) > kept.size:
            given = f"padding {pair} of an axis of {size}"
            raise ShapeError(message("pad", given, "an axis that is longer"))
        return np.pad(kept, (before, after), mode="wrap").astype(np.int64)
    places = np.pad(np.arange(size), (before, after), mode=name)  # type: ignore[call-overload]  # it is one
    return places[max(-pair[0], 0) : len(places) - max(-pair[1], 0)].astype(np.int64)


OPERATORS = (
    Operator(
        name="cat",
        bind=_bind_cat,
        infer=_infer_cat,
        reference=lambda *xs, dim: np.concatenate(xs, dim),
        backward=_cat_backward,
        saves=(),
        implementations=(
            Implementation(
                "cat",
                "strided copies",
                _plan_cat,
                reads=lambda request: [True] * len(request.inputs),
            ),
        ),
        method=False,
        doc="cat(tensors, dim=0): tensors joined along an axis, in the widest of their dtypes.",
    ),
    Operator(
        name="flip",
        bind=_bind_flip,
        infer=lambda x, dims: x,
        reference=lambda x, dims: np.flip(x, dims),
        backward=lambda saved, grad: [ag.flip(grad, saved.attrs["dims"])],
        saves=(),
        implementations=strided.gather("flip", lambda x, attrs: _flip_view(x, attrs["dims"])),
        doc="flip(x, dims): the order of the elements reversed along axes; along none by `()`.",
    ),
    CONSTANT,
    composite(pad, ("input",)),
    composite(stack, method=False),
    composite(split, parts=(SPLIT,)),
    composite(chunk),
    composite(unbind, ("input",), parts=(UNBIND,)),
)
