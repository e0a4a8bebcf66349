"""What expressions in manifests may call: NumPy's functions, those of shapes, and ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, final

import numpy as np

from netcl_core.autograd import ops

#: How many arguments by position each takes: the next one would be where to write to.
_OF_ONE: Final = (
    "exp exp2 expm1 log log1p log2 log10 sqrt cbrt square abs sign floor ceil rint trunc sin cos "
    "tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh isnan isinf isfinite "
    "reciprocal logical_not"
)
_OF_TWO: Final = (
    "maximum minimum fmax fmin power arctan2 hypot copysign fmod matmul logical_and logical_or "
    "sum mean prod max min var std cumsum cumprod argmax argmin any all dot inner outer swapaxes "
    "transpose reshape expand_dims squeeze broadcast_to concatenate stack flip repeat diff take "
    "take_along_axis sort argsort tril triu zeros_like ones_like full_like"
)
_OF_THREE: Final = "where clip roll moveaxis"
_NAMED: Final = frozenset({"axis", "keepdims", "ddof"})


def _limited(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        if len(args) > most or not named.keys() <= _NAMED:
            raise TypeError(f"{function.__name__} takes {most} arguments, axis= and keepdims=")
        return function(*args, **named)

    return call


NUMPY: Final[Mapping[str, Callable[..., Any]]] = {
    name: _limited(getattr(np, name), most)
    for most, names in ((1, _OF_ONE), (2, _OF_TWO), (3, _OF_THREE))
    for name in names.split()
}


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _prod(numbers: Any) -> int:
    return math.prod(numbers)


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*shapes)


#: Of whole numbers and shapes.
SHAPES: Final[Mapping[str, Callable[..., Any]]] = {
    "prod": _prod, "ceil_div": _ceil_div, "broadcast": _broadcast, "gcd": math.gcd, "min": min,
    "max": max, "abs": abs, "len": len, "sqrt": math.sqrt, "int": int, "float": float,
}  # fmt: skip


#: Functions of the core that compute nothing.
_NO_OPS: Final = frozenset({"backward", "register_hook", "retain_grad", "to_device"})


@final
class Ops(dict[str, Callable[..., Any]]):
    """The ops that gradients are made of: a record's own parts, and all that are installed.

    Which these are is known when one is called.
    """

    def __contains__(self, name: object) -> bool:
        return name not in _NO_OPS

    def __missing__(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any] = ops.__getattr__(name)  # `getattr` has Python's own, too
        return function
