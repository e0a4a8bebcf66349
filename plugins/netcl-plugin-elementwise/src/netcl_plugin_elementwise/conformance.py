"""The cases of the elementwise ops: one per op and choice of attributes, with its counterpart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_kit.testing import FLOATS, MILD, Case, masks, normal, uniform, whole

import netcl_core.autograd as ag
from netcl_plugin_elementwise.more_cases import MORE

WIDE = uniform(-6, 6)
ALL = uniform(-3, 3)
POSITIVE = uniform(0.1, 4)
AWAY = uniform(0.5, 3)
TWO = (ALL, ALL)
BITS = ("bool", "uint8", "int8", "int16", "int32", "int64")
SPOILED = {
    "non-finite on Portable": "PoCL's vector sine of a small value is off by 0.01 if a lane "
    "beside it is huge or infinite"
}
AT_NAN = {
    "gradient at NaN": "PyTorch's own depends on whether its vector or its scalar code met it"
}
AT_INFINITY = {"non-finite": "PyTorch's slope is inf / inf at an infinity, where it is 0 here"}
CANCELLED = {
    "broadcasting in bfloat16": "terms of a gradient are rounded to 8 bits before they cancel"
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


def formed(op: str, *inputs: Any, note: str, torch: Any, call: Any, **rest: Any) -> Case:
    """A case of an argument that other ops compute."""
    return Case(op, inputs, torch, call=call, note=note, shapes=FORMED[len(inputs)],
                dtypes=FLOATS, skip=BARE | rest.pop("skip", {}), **rest)  # fmt: skip


FORMED: dict[int, Sequence[Sequence[tuple[int, ...]]]] = {
    1: [[(4, 3, 5)], [(0,)], [()], [(1031,)]],
    2: [[(4, 3, 5)] * 2, [(17, 1), (3,)], [(0, 3), (3,)], [(), (7,)]],
    3: [[(4, 3, 5)] * 3, [(17, 1), (3,), ()], [(5,), (2, 5), (5,)]],
}
#: The checks that give the bare expression other neighbours, shapes and dtypes.
BARE = dict.fromkeys(("fused", "broadcasting", "refusal", "non-finite"), "a form of another op")

CASES: Sequence[Case] = [
    Case("add", TWO, "add"),
    formed("add", ALL, ALL, note="alpha", torch=lambda t, x, y: t.add(x, y, alpha=-2.5),
           call=lambda x, y: ag.add(x, y, alpha=-2.5)),
    formed("sub", ALL, ALL, note="alpha", torch=lambda t, x, y: t.sub(x, y, alpha=3),
           call=lambda x, y: ag.sub(x, y, alpha=3)),
    *(formed("div", ALL, AWAY, note=mode, differentiable=False,
             torch=lambda t, x, y, mode=mode: t.div(x, y, rounding_mode=mode),
             call=lambda x, y, mode=mode: ag.div(x, y, rounding_mode=mode))
      for mode in ("trunc", "floor")),
    *(formed("round", uniform(-300, 300), note=f"decimals={decimals}",
             torch=lambda t, x, decimals=decimals: t.round(x, decimals=decimals),
             call=lambda x, decimals=decimals: ag.round(x, decimals=decimals))
      for decimals in (1, -2)),
    formed("clamp", ALL, ALL, ALL, note="bounds",
           torch=lambda t, *given: t.clamp(*t.broadcast_tensors(*given)),
           call=lambda x, low, high: ag.clamp(x, low, high)),
    formed("clip", ALL, ALL, note="bound", torch=lambda t, x, high: t.clamp(x, max=high),
           call=lambda x, high: ag.clip(x, max=high)),
    Case("clamp_min", TWO, "clamp_min"),
    Case("clamp_max", TWO, "clamp_max"),
    Case("addcmul", (ALL, ALL, ALL), "addcmul", {"value": 2}, skip=CANCELLED),
    Case("addcdiv", (ALL, ALL, AWAY), "addcdiv", {"value": 0.5}, skip=CANCELLED),
    Case("lerp", (ALL, ALL, uniform(0, 1)), "lerp", skip=CANCELLED),
    Case("logaddexp", TWO, "logaddexp"),
    Case("trunc", (ALL,), "trunc"),
    Case("erfc", (ALL,), "erfc"),
    Case("softsign", (WIDE,), "nn.functional.softsign", skip=AT_INFINITY),
    Case("logsigmoid", (WIDE,), "nn.functional.logsigmoid"),
    Case("selu", (ALL,), "nn.functional.selu", skip=AT_NAN),
    Case("relu6", (uniform(-3, 9),), "nn.functional.relu6", skip=AT_NAN),
    Case("sub", TWO, "sub"),
    Case("mul", TWO, "mul"),
    Case("div", (ALL, AWAY), "div", skip=CANCELLED),
    Case("pow", (POSITIVE, ALL), "pow", specials=MILD, dtypes=FLOATS,
         skip={"refusal": "whole numbers have a case of their own"}),
    Case("pow", (whole(-3, 3), whole(0, 5)), "pow", note="whole",
         dtypes=("bool", "uint8", "int8", "int16", "int32", "int64"), differentiable=False,
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
    *(mask(op, ALL, ALL) for op in ("logical_and", "logical_or", "logical_xor")),
    *(Case(op, (whole(-1, 1), whole(-1, 1)), op, note="zeros", differentiable=False)
      for op in ("logical_and", "logical_or", "logical_xor")),
    *(mask(op, ALL) for op in ("isnan", "isinf", "isfinite")),
    *(Case(op, (whole(-9, 9), whole(-9, 9)), op, dtypes=BITS, differentiable=False,
           skip={"fused": "its neighbours are computed in floats"})
      for op in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    Case("bitwise_not", (whole(-9, 9),), "bitwise_not", dtypes=BITS, differentiable=False,
         shapes=[[(0,)], [(17,)], [(4, 3, 5)]]),
    Case("remainder", (ALL, AWAY), "remainder", specials=MILD, dtypes=FLOATS,
         skip={"refusal": "whole numbers have a case of their own"} | CANCELLED),
    Case("remainder", (whole(-30, 30), whole(1, 7)), "remainder", note="whole",
         dtypes=("uint8", "int8", "int16", "int32", "int64"), differentiable=False,
         skip={"refusal": "the floating dtypes have a case of their own"}),
    Case("floor_divide", (ALL, AWAY), "floor_divide", specials=MILD, dtypes=FLOATS,
         differentiable=False,
         skip={"refusal": "whole numbers have a case of their own"}),
    Case("floor_divide", (whole(-30, 30), whole(1, 7)), "floor_divide", note="whole",
         dtypes=("uint8", "int8", "int16", "int32", "int64"), differentiable=False,
         skip={"refusal": "the floating dtypes have a case of their own"}),
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
         skip={"fused in bool": "a bool becomes int64 before it comes to the kernel"}),
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
    *MORE,
]  # fmt: skip


def cases(op: str) -> Sequence[Case] | str:
    """The cases of an op, or why a namespace has none."""
    if op == "special":
        return "its names are those of ops, which have cases"
    return [case for case in CASES if case.op == op]
