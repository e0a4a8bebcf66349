"""Joining and cutting: cat, stack, split, chunk, unbind, flip."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Geometry, Implementation, Operator, Request, Saved, composite
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError, message
from netcl_plugin_tensor import geometry, strided, strided_gpu
from netcl_plugin_tensor.axes import axes, axis, ndim_of, plain_shape, shape_of
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
    return _alike(items), {"dim": axis("cat", dim, ndim_of(items[0]))}


def _alike(items: Sequence[Any]) -> Sequence[Any]:
    """Tensors and host data of one dtype, the widest of theirs."""
    operands = ag.as_operands(*items)
    if len({item.dtype for item in operands}) == 1:
        return operands
    dtype = nc.promote((item.dtype, item.ndim) for item in operands)
    return [item.astype(dtype) for item in operands]


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
    lines = {i: line for i in present if (line := _lines(request, i)) is not None}
    if len(lines) == len(present):
        groups = [present[k : k + _TOGETHER] for k in range(0, len(present), _TOGETHER)]
        return Kernels(tuple([_joined(request, group, lines) for group in groups]))
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


def _lines(request: Request, i: int) -> tuple[int, int] | None:
    """From one row of a part to the next, and where the first begins; None: a row has gaps."""
    shape, dim = request.inputs[i].shape, request.attrs["dim"]
    rows, length = math.prod(shape[:dim]), math.prod(shape[dim:])
    layout = request.layout(i)
    flat = (
        Geometry((rows, length), (length, 1), 0)
        if layout is None
        else layout.reshaped((rows, length))
    )
    if flat is None or (length > 1 and flat.strides[1] != 1) or min(flat.strides) < 0:
        return None
    return flat.strides[0], flat.offset


def _joined(request: Request, parts: Sequence[int], lines: Mapping[int, Any]) -> Kernel:
    """One launch for neighbouring parts, whose rows have no gaps but may lie apart."""
    dim, out = request.attrs["dim"], request.output
    lengths = [math.prod(spec.shape[dim:]) for spec in request.inputs]
    sizes, rows = [lengths[i] for i in parts], out.size // sum(lengths)
    ends = list(itertools.accumulate(sizes))
    itemsize = DTYPES[out.dtype].itemsize
    apart, among = any(request.layouts), len(lines) > len(parts)
    places = [number for i in parts for number in lines[i]] if apart else []
    places += [sum(lengths), sum(lengths[: parts[0]])] if among else []
    # A GPU takes so many elements as one word: its compilers take vectors of halves apart.
    most = math.gcd(strided_gpu.BYTES // itemsize, *sizes, *places)
    word = geometry.chunk(request.device, 1, most)
    run = geometry.chunk(request.device, _RUN, 1)
    context = {"bits": BITS.get(itemsize * word, "uint4"), "parts": len(parts), "apart": apart,
               "among": among, "vector": geometry.chunk(request.device, 16, 1)}  # fmt: skip
    count, *limits = (n // word for n in (rows * ends[-1], ends[-1], *ends, *places))
    numbers = [("ulong", n) for n in (count, run, *limits)]
    args = (*(("in", i) for i in parts), ("out", 0), *numbers)
    return Kernel(JOINED, "joined", args, *geometry.groups(request.device, -(-count // run)),
                  context)  # fmt: skip


def _cat_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    dim = saved.attrs["dim"]
    pieces = SPLIT(grad, tuple([x.shape[dim] for x in saved.inputs]), dim)
    pieces = pieces if isinstance(pieces, tuple) else (pieces,)
    return [piece if need else None for piece, need in zip(pieces, saved.needs, strict=True)]


# -- composites --------------------------------------------------------------------------


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors of one shape, joined along a new axis.

    >>> ag.stack([nc.tensor([1, 2]), nc.tensor([3, 4])]).tolist()
    [[1, 2], [3, 4]]

    Args:
        tensors: The tensors, in order.

    Raises:
        ArgumentError: Unless given at least one.
    """
    items = list(tensors)
    if not items:
        raise ArgumentError(message("stack", "no tensors", "at least one"))
    place = axis("stack", dim, ndim_of(items[0]) + 1)
    if not any(isinstance(item, Tensor) and item.value.pending for item in items):
        shape = shape_of(items[0])  # on which no trace depends here
        if place < len(shape) and all(shape_of(item) == shape for item in items):
            # In memory these are the tensors joined along the axis before the new one.
            return ag.reshape(ag.cat(items, place), (*shape[:place], len(items), *shape[place:]))
    return ag.cat([ag.unsqueeze(item, place) for item in items], place)


def split(x: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Pieces along an axis: of one size (the last may be smaller), or of the given sizes.

    >>> [x.tolist() for x in ag.split(nc.arange(5), 2)]
    [[0, 1], [2, 3], [4]]

    Args:
        split_size_or_sections: The size of a part, or the size of each.

    Raises:
        ShapeError: Unless given at least one.
        AttributeValueError: Unless given 1 or more.
    """
    if not shape_of(x):
        raise ShapeError(message("split", "a tensor without dimensions", "at least one"))
    place = axis("split", dim, ndim_of(x))
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
    views, start = [], 0
    for size in sizes:
        shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
        views.append(Geometry(shape, x.strides, x.offset + start * x.strides[dim]))
        start += size
    return tuple(views)


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
    saves_results=(),
    doc="split_views(x, sizes, dim): pieces along an axis.",
)


def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """All that stands along an axis, one by one, without that axis.

    >>> [x.tolist() for x in ag.unbind(nc.tensor([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]

    Raises:
        ShapeError: Unless given 1 or more.
    """
    shape = shape_of(input)
    place = axis("unbind", dim, len(shape))
    if not shape:
        raise ShapeError(message("unbind", "a tensor without dimensions", "1 or more"))
    if not shape[place]:
        return ()
    slices = UNBIND(input, place)
    return slices if isinstance(slices, tuple) else (slices,)


def _unbind_view(x: Geometry, dim: int) -> tuple[Geometry, ...]:
    shape, strides = (pair[:dim] + pair[dim + 1 :] for pair in (x.shape, x.strides))
    step = x.strides[dim]
    return tuple([Geometry(shape, strides, x.offset + i * step) for i in range(x.shape[dim])])


def _unbind_backward(saved: Saved, *grads: Any) -> Sequence[Any]:
    x, dim = saved.inputs[0], saved.attrs["dim"]
    shape = x.shape[:dim] + x.shape[dim + 1 :]
    missing = Tensor.zeros(shape, x.dtype, x.device) if None in grads else None
    return [ag.stack([missing if grad is None else grad for grad in grads], dim)]


UNBIND: Final = Operator(
    "unbind_views",
    lambda x, dim: ((x,), {"dim": dim}),
    view=_unbind_view,
    backward=_unbind_backward,
    saves_results=(),
    doc="unbind_views(x, dim): all that stands along an axis.",
)


def chunk(x: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most `chunks` pieces of nearly equal size along an axis.

    >>> [x.tolist() for x in ag.chunk(nc.arange(5), 2)]
    [[0, 1, 2], [3, 4]]

    Raises:
        AttributeValueError: Unless given an int, 1 or more.
        ShapeError: Unless given at least one.
    """
    if not hasattr(chunks, "__index__") or int(chunks) < 1:
        raise AttributeValueError(message("chunk", f"chunks={chunks!r}", "an int, 1 or more"))
    if not shape_of(x):
        raise ShapeError(message("chunk", "a tensor without dimensions", "at least one"))
    total = shape_of(x)[axis("chunk", dim, ndim_of(x))]
    return split(x, max(1, -(-total // int(chunks))), dim)


# -- flip --------------------------------------------------------------------------


def _bind_flip(x: Any, dims: Any) -> Any:
    none = isinstance(dims, Sequence) and not len(dims)  # which elsewhere means all axes
    return (x,), {"dims": () if none else axes("flip", dims, ndim_of(x))}


def _flip_view(x: Spec, dims: Sequence[int]) -> Geometry:
    own = strides_of(x.shape)
    strides = tuple(-stride if i in dims else stride for i, stride in enumerate(own))
    offset = sum((x.shape[i] - 1) * own[i] for i in dims)
    return Geometry(x.shape, strides, offset)


OPERATORS = (
    Operator(
        name="cat",
        bind=_bind_cat,
        infer=_infer_cat,
        reference=lambda *xs, dim: np.concatenate(xs, dim),
        backward=_cat_backward,
        saves=(),
        saves_results=(),
        implementations=(
            Implementation(
                "cat",
                "strided copies",
                _plan_cat,
                reads=lambda request: [True] * len(request.inputs),
            ),
        ),
        method=False,
        doc=(
            "cat(tensors, dim=0): tensors joined along an axis, in the widest of their dtypes."
            "\n\nRaises ArgumentError for no tensors, ShapeError unless their other sizes agree."
            "\n\n"
            ">>> ag.cat([nc.zeros(2, 3), nc.ones(1, 3)], dim=0).shape\n"
            "(3, 3)"
        ),
    ),
    Operator(
        name="flip",
        bind=_bind_flip,
        infer=lambda x, dims: x,
        reference=lambda x, dims: np.flip(x, dims),
        backward=lambda saved, grad: [ag.flip(grad, saved.attrs["dims"])],
        saves=(),
        saves_results=(),
        implementations=strided.gather("flip", lambda x, attrs: _flip_view(x, attrs["dims"])),
        doc=(
            "flip(x, dims): the order of the elements reversed along axes; along none by `()`."
            "\n\n"
            ">>> ag.flip([1, 2, 3], dims=(0,)).tolist()\n"
            "[3, 2, 1]"
        ),
    ),
    composite(stack, method=False),
    composite(split, parts=(SPLIT,)),
    composite(chunk),
    composite(unbind, ("input",), parts=(UNBIND,)),
)
