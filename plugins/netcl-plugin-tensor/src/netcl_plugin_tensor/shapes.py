"""Shape ops: views of the same elements in other shapes and orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import Geometry, Operator, Saved, composite
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor import strided
from netcl_plugin_tensor.axes import axis, ndim_of, plain_shape, shape_of, target_shape, whole

# -- other shapes ------------------------------------------------------------------


def _view(name: str, bind: Any, view: Any, doc: str) -> Operator:
    """An op that only changes the shape."""
    return Operator(
        name=name,
        bind=bind,
        backward=_view_backward,
        view=view,
        doc=doc,
    )


def _view_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    return [ag.reshape(grad, saved.inputs[0].shape)]


def _reshape(x: Any, shape: Any) -> Any:
    return (x,), {"shape": target_shape("reshape", shape_of(x), shape)}


def _flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    shape = shape_of(x)
    first = axis("flatten", start_dim, len(shape))
    last = axis("flatten", end_dim, len(shape))
    if first > last:
        raise AttributeValueError(
            message("flatten", f"start_dim {start_dim} after end_dim {end_dim}", "start first")
        )
    middle = 1
    for size in shape[first : last + 1]:
        middle *= size
    return (x,), {"shape": (*shape[:first], middle, *shape[last + 1 :])}


def _squeeze(x: Any, dim: Any = None) -> Any:
    shape = shape_of(x)
    given = range(len(shape)) if dim is None else dim if isinstance(dim, (tuple, list)) else [dim]
    drop = {axis("squeeze", each, len(shape)) for each in given}
    return (x,), {"kept": tuple(i for i, n in enumerate(shape) if not (i in drop and n == 1))}


def _squeeze_view(x: Geometry, kept: Sequence[int]) -> Geometry:
    shape, strides = (tuple([numbers[i] for i in kept]) for numbers in (x.shape, x.strides))
    return Geometry(shape, strides, x.offset)


def _unsqueeze(x: Any, dim: int) -> Any:
    return (x,), {"place": axis("unsqueeze", dim, ndim_of(x) + 1)}


def _unsqueeze_view(x: Geometry, place: int) -> Geometry:
    inner = place < len(x.shape)
    step = x.shape[place] * x.strides[place] if inner else 1
    shape = (*x.shape[:place], 1, *x.shape[place:])
    return Geometry(shape, (*x.strides[:place], step, *x.strides[place:]), x.offset)


# -- other orders --------------------------------------------------------------------


def _permutation(dims: Sequence[int]) -> list[int]:
    inverse = [0] * len(dims)
    for place, source in enumerate(dims):
        inverse[source] = place
    return inverse


def _permute_view(x: Geometry, dims: Sequence[int]) -> Geometry:
    return Geometry(
        tuple([x.shape[i] for i in dims]), tuple([x.strides[i] for i in dims]), x.offset
    )


def _permute(name: str, bind: Any, doc: str) -> Operator:
    return Operator(
        name=name,
        bind=bind,
        backward=lambda saved, grad: [ag.permute(grad, _permutation(saved.attrs["dims"]))],
        view=_permute_view,
        doc=doc,
    )


def _bind_permute(x: Any, dims: Sequence[int]) -> Any:
    ndim = ndim_of(x)
    given = dims if whole(dims) is None else (dims,)  # x.permute(0)
    order = tuple(axis("permute", dim, ndim) for dim in given)
    if sorted(order) != list(range(ndim)):
        raise AttributeValueError(
            message("permute", f"dims {tuple(dims)}", f"each of the {ndim} dimensions once")
        )
    return (x,), {"dims": order}


def _bind_transpose(x: Any, dim0: int | None = None, dim1: int | None = None) -> Any:
    order = list(range(ndim_of(x)))
    if dim0 is None and dim1 is None:
        order.reverse()
    elif dim0 is None or dim1 is None:
        raise AttributeValueError(message("transpose", "one axis", "two axes, or none"))
    elif order:
        first, second = axis("transpose", dim0, len(order)), axis("transpose", dim1, len(order))
        order[first], order[second] = order[second], order[first]
    return (x,), {"dims": tuple(order)}


def _bind_t(x: Any) -> Any:
    shape = shape_of(x)
    if len(shape) > 2:
        raise ShapeError(message("t", f"shape {shape}", "at most 2 dimensions"))
    return _bind_transpose(x)


def _bind_expand(name: str) -> Callable[..., Any]:
    def bind(x: Any, shape: Any) -> Any:
        have, wanted = shape_of(x), plain_shape(name, shape, -1)
        lead = len(wanted) - len(have)
        sizes = tuple(
            have[i - lead] if size == -1 and i >= lead else size for i, size in enumerate(wanted)
        )
        fits = lead >= 0 and all(size in (1, sizes[i + lead]) for i, size in enumerate(have))
        if not fits or min(sizes, default=0) < 0:
            given, expected = f"{have} to {wanted}", "sizes equal, or 1 in the input"
            raise ShapeError(message(name, given, expected))
        return (x,), {"shape": sizes}

    return bind


def _expand_view(x: Geometry, shape: tuple[int, ...]) -> Geometry:
    lead = len(shape) - len(x.shape)
    own = [
        0 if have == 1 != size else stride
        for have, size, stride in zip(x.shape, shape[lead:], x.strides, strict=True)
    ]
    return Geometry(shape, (*(0,) * lead, *own), x.offset)


def _expand_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    shape = saved.inputs[0].shape
    lead = grad.ndim - len(shape)
    over = [i for i in range(grad.ndim) if i < lead or (shape[i - lead] == 1 != grad.shape[i])]
    return [ag.reshape(ag.sum(grad, over), shape) if over else grad]


# -- other places --------------------------------------------------------------------


def as_strided(
    input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """The elements at any places of a tensor's memory.

    >>> x = nc.arange(6)
    >>> x.as_strided((2, 2), (1, 2), 1).tolist()
    [[1, 3], [2, 4]]

    Args:
        input: A tensor; a view has its base's memory.
        size: The shape of the result.
        stride: The distance from one element to the next, along each dimension.
        storage_offset: Where the first element lies; None: where the first of `input` does.

    Raises ShapeError for places outside of the memory.
    """
    x = ag.as_operand(input)
    first = x.storage_offset() if storage_offset is None else storage_offset
    return AS_STRIDED(x if x._base is None else x._base, size, stride, first)


def _bind_as_strided(x: Any, size: Any, stride: Any, offset: int) -> Any:
    sizes, strides = (plain_shape("as_strided", numbers) for numbers in (size, stride))
    (first,) = plain_shape("as_strided", offset)
    places = Geometry(sizes, strides, first)
    if len(sizes) != len(strides):
        given = f"size {sizes} and stride {strides}"
        raise ShapeError(message("as_strided", given, "as many of one as of the other"))
    held = x.value.storage.size
    if places.size and places.end > held:
        given = f"places up to {places.end - 1}"
        raise ShapeError(message("as_strided", given, f"less than {held}, as the memory has"))
    return (x,), {"places": places}


AS_STRIDED: Final = Operator("as_strided_view", _bind_as_strided, view=lambda x, places: places)


def _bind_diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    ndim = ndim_of(x)
    first, second = (axis("diagonal", dim, ndim) for dim in (dim1, dim2))
    if first == second:
        given = f"dim1={dim1} and dim2={dim2} of {ndim} dimensions"
        raise AttributeValueError(message("diagonal", given, "two dimensions"))
    if whole(offset) is None:
        raise AttributeValueError(message("diagonal", f"offset={offset!r}", "an int"))
    return (x,), {"offset": whole(offset), "dims": (first, second)}


def _diagonal_view(x: Geometry, offset: int, dims: tuple[int, int]) -> Geometry:
    rows, columns = (x.shape[i] for i in dims)
    down, right = (x.strides[i] for i in dims)
    count = max(0, min(rows - max(-offset, 0), columns - max(offset, 0)))
    start = (offset * right if offset > 0 else -offset * down) if count else 0
    kept = [i for i in range(len(x.shape)) if i not in dims]
    sizes = (*(x.shape[i] for i in kept), count)
    return Geometry(sizes, (*(x.strides[i] for i in kept), down + right), x.offset + start)


def _bind_unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    shape = shape_of(x)
    place = axis("windows", dimension, len(shape))
    most = shape[place] if shape else 1
    width, pace = whole(size), whole(step)
    if width is None or pace is None or not 0 <= width <= most or pace < 1:
        given = f"size={size}, step={step} along {most} elements"
        raise AttributeValueError(
            message("windows", given, f"a size up to {most}, a step from 1 on")
        )
    pace = min(pace, most + 1)  # of a longer step there is one window, too
    return (x,), {"dim": place, "size": width, "step": pace}


def _unfold_view(x: Geometry, dim: int, size: int, step: int) -> Geometry:
    if not x.shape:
        return Geometry((size,), (1,), x.offset)
    shape, strides = list(x.shape), list(x.strides)
    shape[dim] = (shape[dim] - size) // step + 1
    strides[dim] *= step
    return Geometry((*shape, size), (*strides, x.strides[dim]), x.offset)


def _expand(name: str) -> Operator:
    return Operator(
        name=name,
        bind=_bind_expand(name),
        backward=_expand_backward,
        view=_expand_view,
        doc=(
            "expand(x, shape): x repeated along dimensions of size 1 and new leading ones.\n\n"
            "Raises ShapeError if another dimension would change.\n\n"
            f">>> ag.{name}(nc.rand(3, 1), (3, 4)).shape\n(3, 4)"
        ),
    )


ag.copy_by(strided.copy_across)

OPERATORS = (
    _view(
        "reshape",
        _reshape,
        Geometry.reshaped,
        (
            "reshape(x, shape): the same elements, a view where strides allow it; a size may be -1."
            "\n\n"
            ">>> ag.reshape(nc.rand(2, 6), (3, -1)).shape\n"
            "(3, 4)"
        ),
    ),
    _view(
        "flatten",
        _flatten,
        Geometry.reshaped,
        (
            "flatten(x, start_dim=0, end_dim=-1): dimensions made one."
            "\n\nRaises AttributeValueError if they are not in order."
            "\n\n"
            ">>> ag.flatten(nc.rand(2, 3, 4), 1).shape\n"
            "(2, 12)"
        ),
    ),
    _view(
        "squeeze",
        _squeeze,
        _squeeze_view,
        (
            "squeeze(x, dim=None): without dimensions of size 1."
            "\n\n"
            ">>> ag.squeeze(nc.rand(1, 3, 1)).shape\n"
            "(3,)"
        ),
    ),
    _view(
        "unsqueeze",
        _unsqueeze,
        _unsqueeze_view,
        (
            "unsqueeze(x, dim): with a new dimension of size 1."
            "\n\n"
            ">>> ag.unsqueeze(nc.rand(2, 3), 1).shape\n"
            "(2, 1, 3)"
        ),
    ),
    _permute(
        "permute",
        _bind_permute,
        (
            "permute(x, dims): the dimensions in another order."
            "\n\nRaises AttributeValueError unless given each once."
            "\n\n"
            ">>> ag.permute(nc.rand(2, 3, 4), (2, 0, 1)).shape\n"
            "(4, 2, 3)"
        ),
    ),
    _permute(
        "transpose",
        _bind_transpose,
        (
            "transpose(x, dim0, dim1): two dimensions swapped; without axes all reversed."
            "\n\nRaises AttributeValueError for one axis, or one that is not there."
            "\n\n"
            ">>> ag.transpose(nc.rand(2, 3, 4), 0, 2).shape\n"
            "(4, 3, 2)"
        ),
    ),
    _permute(
        "t",
        _bind_t,
        (
            "t(x): the transpose of a matrix; a vector or a number as it is."
            "\n\nMore dimensions raise ShapeError."
            "\n\n"
            ">>> ag.t(nc.rand(2, 3)).shape\n"
            "(3, 2)"
        ),
    ),
    composite(as_strided, ("input",), parts=(AS_STRIDED,)),
    Operator(
        "diagonal",
        _bind_diagonal,
        view=_diagonal_view,
        doc=(
            "diagonal(x, offset=0, dim1=0, dim2=1): a view of a diagonal, as the last dimension."
            "\n\nRaises AttributeValueError unless given two dimensions and an int."
            "\n\n"
            ">>> ag.diagonal([[1.0, 2.0], [3.0, 4.0]]).tolist()\n"
            "[1.0, 4.0]"
        ),
    ),
    Operator(
        "windows",
        _bind_unfold,
        view=_unfold_view,
        doc="windows(x, dimension, size, step): a view of all windows, as the last dimension; the "
        "method `x.unfold` of PyTorch.\n\n"
        "For x of any shape. Raises AttributeValueError unless the size fits and the step is 1 or "
        "more.\n\n"
        ">>> ag.windows([1.0, 2.0, 3.0, 4.0], 0, 2, 1).tolist()\n"
        "[[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]",
    ),
    _expand("expand"),
    _expand("broadcast_to"),
)
