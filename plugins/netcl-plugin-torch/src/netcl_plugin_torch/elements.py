"""Rows of elementwise ops, reductions, and what picks and joins elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_torch.dispatch import ROWS, Unfit, row
from netcl_plugin_torch.records import recorded


def _enter(names: str, *kinds: str) -> None:
    """Rows of ops that have one name in both, with the overloads that there are of each."""
    for name in names.split():
        for kind in kinds or ("",):
            ROWS[f"{name}.{kind}" if kind else name] = getattr(ag, name)


_enter(
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor frac isnan "
    "isinf log log10 log1p log2 logical_not neg reciprocal rsqrt sigmoid sign sgn signbit sin sinh "
    "sqrt tan tanh trunc bitwise_not silu mish hardsigmoid hardswish isposinf isneginf relu "
    "floor_divide maximum minimum fmax fmin atan2 hypot logaddexp logical_and logical_or "
    "logical_xor"
)
_enter("eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor remainder fmod", "Tensor", "Scalar")
_enter("bitwise_and bitwise_or bitwise_xor remainder", "Scalar_Tensor")
_enter("mul copysign", "Tensor")
_enter("where", "self")


def _is_integer(x: Any) -> bool:
    if isinstance(x, nc.Tensor):
        return not nc.DTYPES[x.dtype].floating
    return isinstance(x, int)


@row("add.Tensor")
def add(a: Any, b: Any, alpha: Any = 1) -> Any:
    return ag.add(a, b) if alpha == 1 else ag.add(a, ag.mul(b, alpha))


@row("sub.Tensor")
def sub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return ag.sub(a, b) if alpha == 1 else ag.sub(a, ag.mul(b, alpha))


@row("rsub.Tensor", "rsub.Scalar")
def rsub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return sub(b, a, alpha)


@row("div.Tensor", "div.Tensor_mode")
def div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return ag.floor_divide(a, b)
    return ag.div(a, b) if rounding_mode is None else ag.div(a, b, rounding_mode=rounding_mode)


@row("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(a: Any, b: Any) -> Any:
    if _is_integer(a) and isinstance(b, int) and b < 0:
        raise Unfit("integers to negative powers")
    return ag.pow(a, b)


@row("round")
def round_(x: Any) -> Any:
    return x if _is_integer(x) else ag.round(x)


@row("clamp", "clamp.Tensor", "hardtanh")
def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        x = ag.maximum(x, low)
    return x if high is None else ag.minimum(x, high)


ROWS["clamp_min"] = ROWS["clamp_min.Tensor"] = ag.maximum
ROWS["clamp_max"] = ROWS["clamp_max.Tensor"] = ag.minimum


@row("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return ag.where(mask, value, x)


@row("lerp.Scalar", "lerp.Tensor")
def lerp(start: Any, end: Any, weight: Any) -> Any:
    return ag.lerp(start, end, weight)


@row("addcmul")
def addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return add(x, ag.mul(a, b), value)


@row("addcdiv")
def addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return add(x, ag.div(a, b), value)


@row("gelu")
def gelu(x: Any, approximate: str = "none") -> Any:
    return ag.gelu(x, approximate)


@row("leaky_relu")
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    return ag.leaky_relu(x, negative_slope)


@row("elu")
def elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    if input_scale == 1:
        value = ag.elu(x, alpha)
        return value if scale == 1 else value * scale
    return ag.where(x > 0, x * scale, ag.expm1(x * input_scale) * (alpha * scale))


@row("softplus")
def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return ag.where(x * beta > threshold, x, ag.softplus(x * beta) / beta)


@row("threshold")
def threshold(x: Any, limit: Any, value: Any) -> Any:
    return ag.where(x <= limit, value, x)


# -- gradients of elementwise ops -----------------------------------------------------------


def _fused(name: str, formula: Callable[..., Any]) -> None:
    ROWS[name] = ag.jit_compile(formula)


_fused("threshold_backward", lambda grad, x, limit: ag.where(x <= limit, 0, grad))
_fused("sigmoid_backward", lambda grad, out: grad * out * (1 - out))
_fused("tanh_backward", lambda grad, out: grad * (1 - out * out))


def _gradient(name: str, function: Callable[..., Any]) -> None:
    """The row of a gradient by netcl's own, which computes it from the operand."""

    def run(grad: Any, x: Any, *more: Any, **options: Any) -> Any:
        return gradients(lambda x: function(x, *more, **options), [x], grad)[0]

    ROWS[name] = run


def gradients(function: Callable[..., Any], operands: Sequence[Any], grad: Any) -> list[Any]:
    """The gradients of `function(*operands)`, which is computed for it if they need that."""
    value, leaves = recorded(function, operands)
    with ag.enable_grad():
        return list(ag.grad(value, leaves, grad, allow_unused=True))


_gradient("gelu_backward", gelu)
_gradient("silu_backward", ag.silu)
_gradient("mish_backward", ag.mish)
_gradient("leaky_relu_backward", lambda x, slope, is_result: ag.leaky_relu(x, slope))
_gradient("hardsigmoid_backward", ag.hardsigmoid)
_gradient("hardswish_backward", ag.hardswish)
