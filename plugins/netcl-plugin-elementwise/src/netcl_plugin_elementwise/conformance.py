"""The cases of the elementwise ops: one per op and choice of attributes, with its counterpart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_core.testing import MILD, Case, masks, normal, uniform, whole

WIDE = uniform(-6, 6)
ALL = uniform(-3, 3)
POSITIVE = uniform(0.1, 4)
AWAY = uniform(0.5, 3)
TWO = (ALL, ALL)
FLOATING = ("float16", "float32", "float64")
SPOILED = {
    "non-finite on Portable": "PoCL's vector sine of a small value is off by 0.01 if a lane "
    "beside it is huge or infinite"
}
AT_NAN = {
    "gradient at NaN": "PyTorch's own depends on whether its vector or its scalar code met it"
}
WRAPPED = {"PyTorch on whole numbers": "PyTorch wraps the bounds to the input's dtype"}


def mask(op: str, *inputs: Any) -> Case:
    """A case of an op that gives bools."""
    return Case(op, inputs, op, differentiable=False)


def prelu(t: Any, x: Any, weight: Any) -> Any:
    """PyTorch's; the checks of fused kernels call the bare expression with other shapes."""
    channels = (*x.shape, 1)[1] if x.ndim else weight.numel()
    if weight.ndim > 1 or (weight.ndim and weight.shape[0] not in {1, channels}):
        x, weight = t.broadcast_tensors(x, weight)
        if x.is_floating_point():
            return t._prelu_kernel(x, weight)
        return t.where(x > 0, x, x * weight).float()
    return t.nn.functional.prelu(x, weight)


CASES: Sequence[Case] = [
    Case("add", TWO, "add"),
    Case("sub", TWO, "sub"),
    Case("mul", TWO, "mul"),
    Case("div", (ALL, AWAY), "div"),
    Case("pow", (POSITIVE, ALL), "pow", specials=MILD, dtypes=FLOATING,
         skip={"refusal": "whole numbers have a case of their own"}),
    Case("pow", (whole(-3, 3), whole(0, 5)), "pow", note="whole",
         dtypes=("bool", "uint8", "int32", "int64"), differentiable=False,
         skip={"refusal": "the floating dtypes have a case of their own"}),
    Case("maximum", TWO, "maximum"),
    Case("minimum", TWO, "minimum"),
    Case("add_relu", TWO, lambda t, x, y: t.relu(x + y)),
    Case("prelu", TWO, prelu,
         skip=dict.fromkeys(("broadcasting", "non-finite"), "the slopes belong to the channels"),
         shapes=[[(4, 3, 5), (3,)], [(2, 3, 1, 5, 7), (3,)], [(33, 17), (17,)], [(1031,), (1,)],
                 [(2, 7, 3), ()], [(), (1,)], [(0, 3), (3,)], [(4099,), (1,)]]),
    *(mask(op, ALL, ALL) for op in ("lt", "le", "gt", "ge", "eq", "ne")),
    *(Case(op, (whole(-1, 1), whole(-1, 1)), op, note="ties", differentiable=False)
      for op in ("lt", "le", "gt", "ge", "eq", "ne")),
    mask("logical_not", ALL),
    Case("logical_not", (whole(-1, 1),), "logical_not", note="zeros", differentiable=False),
    Case("where", (ALL, ALL, ALL), lambda t, c, x, y: t.where(c != 0, x, y), gradients=(1, 2)),
    Case("where", (masks(), ALL, ALL), lambda t, c, x, y: t.where(c != 0, x, y), note="mask",
         gradients=(1, 2)),
    Case("neg", (ALL,), "neg"),
    Case("abs", (ALL,), "abs"),
    Case("sign", (ALL,), "sign"),
    Case("floor", (ALL,), "floor"),
    Case("ceil", (ALL,), "ceil"),
    Case("round", (ALL,), "round"),
    Case("square", (ALL,), "square",
         skip={"PyTorch on whole numbers": "PyTorch squares a bool to an int64"}),
    Case("reciprocal", (AWAY,), "reciprocal"),
    Case("sqrt", (POSITIVE,), "sqrt"),
    Case("rsqrt", (AWAY,), "rsqrt"),
    Case("exp", (ALL,), "exp"),
    Case("expm1", (ALL,), "expm1"),
    Case("log", (POSITIVE,), "log"),
    Case("log1p", (uniform(-0.9, 3),), "log1p"),
    Case("log2", (POSITIVE,), "log2"),
    Case("sin", (WIDE,), "sin", skip=SPOILED),
    Case("cos", (WIDE,), "cos", skip=SPOILED),
    Case("tanh", (WIDE,), "tanh"),
    Case("erf", (ALL,), "erf"),
    Case("sigmoid", (WIDE,), "sigmoid"),
    Case("relu", (ALL,), "relu"),
    Case("leaky_relu", (ALL,), "nn.functional.leaky_relu"),
    Case("leaky_relu", (ALL,), "nn.functional.leaky_relu", {"negative_slope": 0.25}),
    Case("elu", (ALL,), "nn.functional.elu", skip=AT_NAN),
    Case("elu", (ALL,), "nn.functional.elu", {"alpha": 2}, skip=AT_NAN),
    Case("gelu", (WIDE,), lambda t, x: t.nn.functional.gelu(x, approximate="tanh")),
    Case("gelu", (WIDE,), "nn.functional.gelu", {"approximate": "none"}),
    Case("swish", (WIDE,), "nn.functional.silu"),
    Case("silu", (WIDE,), "nn.functional.silu"),
    Case("mish", (WIDE,), "nn.functional.mish"),
    Case("softplus", (WIDE,), "nn.functional.softplus"),
    Case("softplus", (WIDE,), "nn.functional.softplus", {"beta": 2.0, "threshold": 4.0}),
    Case("hard_sigmoid", (WIDE,), lambda t, x: t.nn.functional.relu6(x + 3) / 6, skip=AT_NAN),
    Case("hard_swish", (WIDE,), "nn.functional.hardswish", skip=AT_NAN),
    Case("hard_tanh", (ALL,), "nn.functional.hardtanh", skip=AT_NAN | WRAPPED),
    Case("hardtanh", (ALL,), "nn.functional.hardtanh", {"min_val": -2.0, "max_val": 0.5},
         skip=AT_NAN | WRAPPED),
    Case("clamp", (ALL,), "clamp", {"min": -1, "max": 1}, skip=WRAPPED),
    Case("clamp", (ALL,), "clamp", {"min": 0.5}),
    Case("clip", (normal(2),), "clamp", {"max": 0.5}),
]  # fmt: skip


def cases(op: str) -> Sequence[Case]:
    """The cases of an op."""
    return [case for case in CASES if case.op == op]
