"""Axes continued by a tensor's own elements: reflected, the edge again, or from the other end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor import geometry

TEMPLATE: Final = "tensor/continued.cl.j2"
#: NumPy's name of a mode, and how much less than an axis its padding is at most.
MODES: Final = {"reflect": ("reflect", 1), "replicate": ("edge", None), "circular": ("wrap", 0)}
#: Elements of a line that a work-item has on CPUs.
_CHUNK: Final = 4096
_INT_MAX: Final = (1 << 31) - 1
Pairs = Sequence[tuple[int, int]]


def _places(mode: str, size: int, pair: tuple[int, int]) -> Any:
    """Which elements of an axis stand where in the result."""
    before, after = (max(each, 0) for each in pair)
    name = MODES[mode][0]
    places = np.pad(np.arange(size), (before, after), mode=name)  # type: ignore[call-overload]
    return places[max(-pair[0], 0) : max(len(places) - max(-pair[1], 0), 0)]


def _infer(x: Spec, mode: str, pairs: Pairs) -> Spec:
    least = MODES[mode][1]
    for size, pair in zip(x.shape, pairs, strict=True):
        if any(pair) and (not size or (least is not None and max(pair) > size - least)):
            given = f"padding {pair} of an axis of {size}"
            raise ShapeError(message("pad", given, "an axis that is longer"))
    sizes = zip(x.shape, pairs, strict=True)
    return Spec(tuple([max(size + sum(pair), 0) for size, pair in sizes]), x.dtype)


def _infer_gradient(grad: Spec, mode: str, pairs: Pairs, shape: tuple[int, ...]) -> Spec:
    return Spec(shape, grad.dtype)


def _reference(x: Any, mode: str, pairs: Pairs) -> Any:
    for axis, pair in enumerate(pairs):
        x = np.take(x, _places(mode, x.shape[axis], pair), axis) if any(pair) else x
    return x


def _reference_gradient(grad: Any, mode: str, pairs: Pairs, shape: tuple[int, ...]) -> Any:
    for axis, pair in enumerate(pairs):
        if any(pair):
            whole = np.zeros((shape[axis], *np.delete(grad.shape, axis)), grad.dtype)
            np.add.at(whole, _places(mode, shape[axis], pair), np.moveaxis(grad, axis, 0))
            grad = np.moveaxis(whole, 0, axis)
    return grad


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    return [GRADIENT(grad, **saved.attrs, shape=saved.inputs[0].shape)]


def _backward_gradient(saved: Saved, grad: Tensor) -> Sequence[Any]:
    return [CONTINUED(grad, saved.attrs["mode"], saved.attrs["pairs"])]


def _plan(request: Request) -> Kernels:
    """A launch over the result; axes that are not padded are part of their neighbours."""
    x, out, gradient = request.inputs[0], request.output, "shape" in request.attrs
    short, long = (out, x) if gradient else (x, out)
    padded, sizes = list[bool](), list[tuple[int, int, int]]()
    triples = zip(short.shape, long.shape, request.attrs["pairs"], strict=True)
    for size, extent, pair in triples:
        if sizes and not any(pair) and not padded[-1]:
            sizes[-1] = (sizes[-1][0] * size, sizes[-1][1] * size, 0)
        else:
            sizes.append((size, extent, pair[0]))
            padded.append(any(pair))
    dtype, device = DTYPES[out.dtype], request.device
    index = "int" if max(x.size, out.size) < _INT_MAX - _CHUNK else "long"
    line = (sizes or [(1, 1, 0)])[-1][not gradient]
    chunk = min(geometry.chunk(device, _CHUNK), line)
    context = {
        "storage": dtype.storage, "compute": dtype.compute, "index": index, "gradient": gradient,
        "mode": request.attrs["mode"], "padded": tuple(padded),
    }  # fmt: skip
    numbers = [(index, each) for triple in sizes for each in triple]
    args = (("in", 0), ("out", 0), (index, out.size), (index, chunk), *numbers)
    items = geometry.groups(device, out.size // line * -(-line // chunk))
    return Kernels((Kernel(TEMPLATE, "continued", args, *items, context),))


def _bind(input: Any, mode: str, pairs: Pairs, shape: Sequence[int] | None = None) -> Any:
    """The operand and the attributes; `shape`: of a gradient what it is of."""
    attrs: dict[str, Any] = {"mode": mode, "pairs": tuple(pairs)}
    return (input,), attrs if shape is None else {**attrs, "shape": tuple(shape)}


def _operator(name: str, label: str, **fields: Any) -> Operator:
    """One of the two, whose gradients read nothing."""
    plan = Implementation(name, label, _plan)
    return Operator(name=name, saves=(), saves_results=(), implementations=(plan,), method=False,
                    **fields)  # fmt: skip


#: What its gradients add up, by an item for each element of the operand.
GRADIENT: Final = _operator(
    "pad_gradient",
    "sums of places",
    bind=_bind,
    infer=_infer_gradient,
    reference=_reference_gradient,
    backward=_backward_gradient,
    doc="The gradient of a pad by a tensor's own elements.",
)
CONTINUED: Final = _operator(
    "pad_continued",
    "a copy by places",
    bind=_bind,
    infer=_infer,
    reference=_reference,
    backward=_backward,
    parts=(GRADIENT,),
    doc="All axes continued by a tensor's own elements, as `pad` says.",
)


def continued(x: Any, sizes: Sequence[int], mode: str) -> Any:
    """The last axes continued; `sizes` as of `pad`.

    >>> continued(nc.tensor([1.0, 2.0, 3.0]), (2, 1), "circular").tolist()
    [2.0, 3.0, 1.0, 2.0, 3.0, 1.0]
    """
    if mode not in MODES:
        expected = f"'constant' or {', '.join(map(repr, MODES))}"
        raise AttributeValueError(message("pad", f"mode={mode!r}", expected))
    x = ag.as_operand(x)
    if len(sizes) % 2 or len(sizes) > 2 * x.ndim:
        expected = f"pairs for at most {x.ndim} axes, last axis first"
        raise AttributeValueError(message("pad", f"{len(sizes)} sizes", expected))
    pairs = [(0, 0)] * (x.ndim - len(sizes) // 2)
    pairs += [(sizes[i], sizes[i + 1]) for i in range(len(sizes) - 2, -1, -2)]
    if mode == "circular":  # what is cut off does not come back
        for axis, (before, after) in enumerate(pairs):
            if min(before, after) < 0:
                first = max(-before, 0)
                x = x.narrow(axis, first, max(x.shape[axis] - first - max(-after, 0), 0))
        pairs = [(max(before, 0), max(after, 0)) for before, after in pairs]
    return CONTINUED(x, mode, pairs)
