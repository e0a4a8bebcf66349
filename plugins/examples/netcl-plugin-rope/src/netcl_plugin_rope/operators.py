"""rope: rows of features turned by their position; its gradient turns them back.

A rotation's gradient is the rotation back, so each of two operators is the other's gradient, and
both have gradients of any order. The one that turns back is a part of rope and no op of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Requirements, Saved
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message

FORWARD = "rope"
BACKWARD = "rope_backward"
TEMPLATE = "rope/rope.cl.j2"
FLOATS = tuple(name for name, dtype in DTYPES.items() if dtype.floating)


def bind(
    x: Any, base: float = 10000.0, offset: int = 0, interleaved: bool = True
) -> tuple[Sequence[Any], dict[str, Any]]:
    """The signature of both; raises AttributeValueError for a base that is not positive."""
    if not base > 0:
        raise AttributeValueError(message(FORWARD, f"base={base!r}", "a positive number"))
    attrs = {"base": float(base), "offset": int(offset), "interleaved": bool(interleaved)}
    return (x,), attrs


def infer(x: Spec, base: float, offset: int, interleaved: bool) -> Spec:
    """The result looks like x."""
    if x.dtype not in FLOATS:
        remedy = "Use x.astype('float32')"
        raise DtypeError(message(FORWARD, f"a {x.dtype} tensor", "a floating dtype", remedy))
    if x.ndim < 2 or x.shape[-1] % 2:
        expected = "(..., positions, features) with an even number of features"
        raise ShapeError(message(FORWARD, f"x of shape {x.shape}", expected))
    return x


def turned(sign: int) -> Callable[..., Any]:
    """The op in NumPy: by the angle for 1, back by it for -1."""

    def reference(x: Any, base: float, offset: int, interleaved: bool) -> Any:
        length, features = x.shape[-2:]
        wide = widened(x)
        frequencies = base ** -(np.arange(0, features, 2) / features)
        angles = sign * np.outer(offset + np.arange(length), frequencies)
        c, s = (function(angles).astype(wide.dtype) for function in (np.cos, np.sin))
        a, b = parts(wide, interleaved)
        out = np.empty_like(wide)
        first, second = parts(out, interleaved)
        first[...], second[...] = a * c - b * s, a * s + b * c
        return out

    return reference


def parts(x: Any, interleaved: bool) -> tuple[Any, Any]:
    """The first and the second features of all pairs, as views."""
    half = x.shape[-1] // 2
    return (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])


def plan(entry: str) -> Callable[[Request], Kernels]:
    """One launch: a CPU's item turns a row, a GPU's a pair, so that neighbours read neighbours."""

    def launch(request: Request) -> Kernels:
        x, attrs, device = request.output, request.attrs, request.device
        length, features = x.shape[-2:]
        span = features // 2 if device.kind == "cpu" else 1
        wide = "double" if device.supports_fp64 else "float"
        numbers = (
            ("ulong", span),
            ("ulong", features),
            ("ulong", length),
            ("long", attrs["offset"]),
            (wide, 2 * math.log2(attrs["base"]) / features),
        )
        dtype = DTYPES[x.dtype]
        variables = {"storage": dtype.storage, "acc": dtype.compute, "wide": wide}
        variables["interleaved"] = attrs["interleaved"]
        args = (("in", 0), ("out", 0), *numbers)
        items = (x.size // 2 // span,)
        return Kernels((Kernel(TEMPLATE, entry, args, items, context=variables),))

    return launch


def operator(name: str, sign: int, inverse: Callable[[], Operator], **fields: Any) -> Operator:
    """One of the two operators."""

    def backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
        return [inverse()(grad, **saved.attrs)]

    requires = Requirements(dtypes=FLOATS)
    return Operator(
        name=name,
        bind=bind,
        infer=infer,
        reference=turned(sign),
        backward=backward,
        saves=(),  # a rotation's gradient needs no input
        implementations=(Implementation(name, "pairs", plan(name), requires),),
        **fields,
    )


BACK: Operator = operator(BACKWARD, -1, lambda: ROPE)
ROPE: Operator = operator(
    FORWARD,
    1,
    lambda: BACK,
    parts=(BACK,),
    doc="rope(x, base=10000.0, offset=0, interleaved=True): x of shape (..., positions, features) "
    "with each pair of features turned by (offset + position) * base^(-2 pair / features).",
)
