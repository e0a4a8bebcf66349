"""Axes made longer: by a number, or by elements of the tensor itself."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from operator import index
from typing import Any, Final

import numpy as np

from netcl_core import DTYPES, Kernels, Spec, Tensor
from netcl_core.autograd import Geometry, Implementation, Operator, Request, Saved, composite
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor import strided
from netcl_plugin_tensor.axes import ndim_of
from netcl_plugin_tensor.continued import CONTINUED, continued
from netcl_plugin_tensor.views import strides_of


def _bind_pad(input: Any, pad: Sequence[int], value: Any = 0.0) -> Any:
    ndim, sizes = ndim_of(input), [index(size) for size in pad]
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
    saves_results=(),
    implementations=(Implementation("constant_pad_nd", "fill and strided copy", _plan_pad),),
    method=False,
    doc=(
        "constant_pad_nd(input, pad, value=0): sizes before and after, last axis first; negative "
        "sizes cut off."
        "\n\nFor tensors of any shape. Raises AttributeValueError unless given pairs of sizes "
        "and a number."
        "\n\n"
        ">>> ag.constant_pad_nd([1.0, 2.0], (1, 1), 9.0).tolist()\n"
        "[9.0, 1.0, 2.0, 9.0]"
    ),
)


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Any:
    """The last axes made longer: by a number, or by elements of the tensor itself.

    For tensors of any shape with as many axes as are padded.

    >>> nc.nn.functional.pad(nc.tensor([1.0, 2.0, 3.0]), (2, 1), "reflect").tolist()
    [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]

    Args:
        input: A tensor of any dtype.
        pad: How many before and after each axis, the last one first; less than 0 cuts off.
        mode: `'constant'`, `'reflect'` (without the edge), `'replicate'` (the edge) or
            `'circular'` (from the other end).
        value: The number of `'constant'`; None is 0.

    Raises:
        AttributeValueError: An argument has a value that cannot be used.
    """
    if mode == "constant":
        return CONSTANT(input, pad, 0.0 if value is None else value)
    return continued(input, [index(size) for size in pad], mode)


OPERATORS: Final = (CONSTANT, composite(pad, ("input",), parts=(CONTINUED,)))
