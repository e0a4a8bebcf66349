"""Shape ops: views of the same elements, and strided copies (permute, expand, indexing)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Spec, Tensor
from netcl_core.autograd import Operator, Saved
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor import strided
from netcl_plugin_tensor.axes import axis, plain_shape, shape_of, target_shape
from netcl_plugin_tensor.views import View, strides_of

# -- views -------------------------------------------------------------------------


def _view(name: str, bind: Any, doc: str) -> Operator:
    """An op that only changes the shape; `bind` finds the new shape."""
    return Operator(
        name=name,
        bind=bind,
        infer=lambda x, shape: Spec(shape, x.dtype),
        reference=lambda x, shape: x.reshape(shape),
        backward=_view_backward,
        saves=(),
        view=True,
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
    kept = tuple(size for i, size in enumerate(shape) if not (i in drop and size == 1))
    return (x,), {"shape": kept}


def _unsqueeze(x: Any, dim: int) -> Any:
    shape = shape_of(x)
    place = axis("unsqueeze", dim, len(shape) + 1)
    return (x,), {"shape": (*shape[:place], 1, *shape[place:])}


# -- strided copies ------------------------------------------------------------------


def _permutation(dims: Sequence[int]) -> list[int]:
    inverse = [0] * len(dims)
    for place, source in enumerate(dims):
        inverse[source] = place
    return inverse


def _permute_view(x: Spec, dims: Sequence[int]) -> View:
    strides = strides_of(x.shape)
    return View(tuple(x.shape[i] for i in dims), tuple(strides[i] for i in dims), 0)


def _permute(name: str, bind: Any, doc: str) -> Operator:
    return Operator(
        name=name,
        bind=bind,
        infer=lambda x, dims: Spec(tuple(x.shape[i] for i in dims), x.dtype),
        reference=lambda x, dims: np.transpose(x, dims),
        backward=lambda saved, grad: [ag.permute(grad, _permutation(saved.attrs["dims"]))],
        saves=(),
        implementations=strided.gather(name, lambda x, attrs: _permute_view(x, attrs["dims"])),
        doc=doc,
    )


def _bind_permute(x: Any, dims: Sequence[int]) -> Any:
    ndim = len(shape_of(x))
    order = tuple(axis("permute", dim, ndim) for dim in dims)
    if sorted(order) != list(range(ndim)):
        raise AttributeValueError(
            message("permute", f"dims {tuple(dims)}", f"each of the {ndim} dimensions once")
        )
    return (x,), {"dims": order}


def _bind_transpose(x: Any, dim0: int | None = None, dim1: int | None = None) -> Any:
    order = list(range(len(shape_of(x))))
    if dim0 is None and dim1 is None:
        order.reverse()
    elif dim0 is None or dim1 is None:
        raise AttributeValueError(message("transpose", "one axis", "two axes, or none"))
    elif order:
        first, second = axis("transpose", dim0, len(order)), axis("transpose", dim1, len(order))
        order[first], order[second] = order[second], order[first]
    return (x,), {"dims": tuple(order)}


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


def _expand_view(x: Spec, shape: Sequence[int]) -> View:
    lead = len(shape) - x.ndim
    own = strides_of(x.shape)
    strides = (0,) * lead + tuple(
        0 if size == 1 else stride for size, stride in zip(x.shape, own, strict=True)
    )
    return View(tuple(shape), strides, 0)


def _expand_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    shape = saved.inputs[0].shape
    lead = grad.ndim - len(shape)
    over = [i for i in range(grad.ndim) if i < lead or (shape[i - lead] == 1 != grad.shape[i])]
    return [ag.reshape(ag.sum(grad, over), shape) if over else grad]


def _expand(name: str) -> Operator:
    return Operator(
        name=name,
        bind=_bind_expand(name),
        infer=lambda x, shape: Spec(shape, x.dtype),
        reference=lambda x, shape: np.broadcast_to(x, shape),
        backward=_expand_backward,
        saves=(),
        implementations=strided.gather(name, lambda x, attrs: _expand_view(x, attrs["shape"])),
        doc="expand(x, shape): x repeated along dimensions of size 1 and new leading ones.",
    )


OPERATORS = (
    _view("reshape", _reshape, "reshape(x, shape): the same elements; one size may be -1."),
    _view("flatten", _flatten, "flatten(x, start_dim=0, end_dim=-1): dimensions made one."),
    _view("squeeze", _squeeze, "squeeze(x, dim=None): without dimensions of size 1."),
    _view("unsqueeze", _unsqueeze, "unsqueeze(x, dim): with a new dimension of size 1."),
    _permute("permute", _bind_permute, "permute(x, dims): the dimensions in another order."),
    _permute(
        "transpose",
        _bind_transpose,
        "transpose(x, dim0, dim1): two dimensions swapped; without axes all reversed.",
    ),
    _expand("expand"),
    _expand("broadcast_to"),
)
