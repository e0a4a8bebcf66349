"""The table of ops: one row per op and choice of attributes, with PyTorch's function."""

from __future__ import annotations

from elementwise_oracle import Row

WIDE = (-6.0, 6.0)
ALL = (-3.0, 3.0)
POSITIVE = (0.1, 4.0)
UNIT = (-0.9, 3.0)
AWAY = (0.5, 3.0)
TWO = (ALL, ALL)

ROWS = [
    Row("add", TWO, lambda t, x, y: x + y),
    Row("sub", TWO, lambda t, x, y: x - y),
    Row("mul", TWO, lambda t, x, y: x * y),
    Row("div", (ALL, AWAY), lambda t, x, y: x / y),
    Row("pow", (POSITIVE, ALL), lambda t, x, y: x**y, mild=True),
    Row("maximum", TWO, lambda t, x, y: t.maximum(x, y)),
    Row("minimum", TWO, lambda t, x, y: t.minimum(x, y)),
    Row("add_relu", TWO, lambda t, x, y: t.relu(x + y)),
    Row("prelu", TWO, lambda t, x, y: t._prelu_kernel(*t.broadcast_tensors(x, y))),
    Row("lt", TWO, lambda t, x, y: x < y, grads=()),
    Row("le", TWO, lambda t, x, y: x <= y, grads=()),
    Row("gt", TWO, lambda t, x, y: x > y, grads=()),
    Row("ge", TWO, lambda t, x, y: x >= y, grads=()),
    Row("eq", TWO, lambda t, x, y: x == y, grads=()),
    Row("ne", TWO, lambda t, x, y: x != y, grads=()),
    Row("logical_not", (ALL,), lambda t, x: t.logical_not(x), grads=()),
    Row("where", (ALL, ALL, ALL), lambda t, c, x, y: t.where(c != 0, x, y), grads=(1, 2)),
    Row("neg", (ALL,), lambda t, x: -x),
    Row("abs", (ALL,), lambda t, x: t.abs(x)),
    Row("sign", (ALL,), lambda t, x: t.sign(x)),
    Row("floor", (ALL,), lambda t, x: t.floor(x)),
    Row("ceil", (ALL,), lambda t, x: t.ceil(x)),
    Row("round", (ALL,), lambda t, x: t.round(x)),
    Row("square", (ALL,), lambda t, x: t.square(x)),
    Row("reciprocal", (AWAY,), lambda t, x: t.reciprocal(x)),
    Row("sqrt", (POSITIVE,), lambda t, x: t.sqrt(x)),
    Row("rsqrt", (AWAY,), lambda t, x: t.rsqrt(x)),
    Row("exp", (ALL,), lambda t, x: t.exp(x)),
    Row("expm1", (ALL,), lambda t, x: t.expm1(x)),
    Row("log", (POSITIVE,), lambda t, x: t.log(x)),
    Row("log1p", (UNIT,), lambda t, x: t.log1p(x)),
    Row("log2", (POSITIVE,), lambda t, x: t.log2(x)),
    Row("sin", (WIDE,), lambda t, x: t.sin(x)),
    Row("cos", (WIDE,), lambda t, x: t.cos(x)),
    Row("tanh", (WIDE,), lambda t, x: t.tanh(x)),
    Row("erf", (ALL,), lambda t, x: t.erf(x)),
    Row("sigmoid", (WIDE,), lambda t, x: t.sigmoid(x)),
    Row("relu", (ALL,), lambda t, x: t.relu(x)),
    Row("leaky_relu", (ALL,), lambda t, x: t.nn.functional.leaky_relu(x)),
    Row("leaky_relu", (ALL,), lambda t, x: t.nn.functional.leaky_relu(x, 0.25),
        {"negative_slope": 0.25}),
    Row("elu", (ALL,), lambda t, x: t.nn.functional.elu(x), nan_gradient=False),
    Row("elu", (ALL,), lambda t, x: t.nn.functional.elu(x, 2.0), {"alpha": 2},
        nan_gradient=False),
    Row("gelu", (WIDE,), lambda t, x: t.nn.functional.gelu(x, approximate="tanh")),
    Row("gelu", (WIDE,), lambda t, x: t.nn.functional.gelu(x), {"approximate": "none"}),
    Row("swish", (WIDE,), lambda t, x: t.nn.functional.silu(x)),
    Row("silu", (WIDE,), lambda t, x: t.nn.functional.silu(x)),
    Row("mish", (WIDE,), lambda t, x: t.nn.functional.mish(x)),
    Row("softplus", (WIDE,), lambda t, x: t.nn.functional.softplus(x)),
    Row("softplus", (WIDE,), lambda t, x: t.nn.functional.softplus(x, 2.0, 4.0),
        {"beta": 2.0, "threshold": 4.0}),
    Row("hard_sigmoid", (WIDE,), lambda t, x: t.nn.functional.relu6(x + 3) / 6,
        nan_gradient=False),
    Row("hard_swish", (WIDE,), lambda t, x: t.nn.functional.hardswish(x), nan_gradient=False),
    Row("hard_tanh", (ALL,), lambda t, x: t.nn.functional.hardtanh(x), nan_gradient=False),
    Row("hardtanh", (ALL,), lambda t, x: t.nn.functional.hardtanh(x, -2.0, 0.5),
        {"min_val": -2.0, "max_val": 0.5}, nan_gradient=False),
    Row("clamp", (ALL,), lambda t, x: t.clamp(x, -1, 1), {"min": -1, "max": 1}),
    Row("clamp", (ALL,), lambda t, x: t.clamp(x, min=0.5), {"min": 0.5}),
    Row("clip", (ALL,), lambda t, x: t.clamp(x, max=0.5), {"max": 0.5}),
]  # fmt: skip
