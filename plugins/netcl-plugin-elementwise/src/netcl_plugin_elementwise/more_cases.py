"""The cases of further functions of angles and powers, of shrinking ops, and of second names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_kit.testing import FLOATS, INTEGERS, MILD, Case, uniform, whole

import netcl_core.autograd as ag

WIDE = uniform(-6, 6)
ALL = uniform(-3, 3)
AWAY = uniform(0.5, 3)
INSIDE = uniform(-0.95, 0.95)
TWO = (ALL, ALL)
SIGNS = (whole(-1, 1), whole(-1, 1))
EVERY = ("bool", *INTEGERS, *FLOATS)
F = "nn.functional"
SPOILED = {
    f"{check} on Portable": "PoCL's vector tangent of a small value is off by 0.01 if a lane "
    "beside it is huge or infinite"
    for check in ("fused", "non-finite")
}
AT_NAN = {
    "gradient at NaN": "PyTorch's own depends on whether its vector or its scalar code met it"
}
COMPOSED: Sequence[Sequence[tuple[int, ...]]] = [[(4, 3, 5)], [(0,)], [()], [(1031,)]]

ANGLES: Sequence[Case] = [
    Case("tan", (uniform(-1.4, 1.4),), "tan"),
    Case("asin", (INSIDE,), "asin"),
    Case("acos", (INSIDE,), "acos"),
    Case("atan", (WIDE,), "atan"),
    Case("atan2", TWO, "atan2"),
    Case("sinh", (ALL,), "sinh"),
    Case("cosh", (ALL,), "cosh"),
    Case("asinh", (WIDE,), "asinh"),
    Case("acosh", (uniform(1.1, 6),), "acosh"),
    Case("atanh", (INSIDE,), "atanh"),
    Case("deg2rad", (WIDE,), "deg2rad"),
    Case("rad2deg", (WIDE,), "rad2deg"),
    Case("hypot", TWO, "hypot"),
]
POWERS: Sequence[Case] = [
    Case("exp2", (ALL,), "exp2"),
    Case("log10", (uniform(0.1, 4),), "log10"),
    Case("logit", (uniform(0.05, 0.95),), "logit"),
    Case("logit", (uniform(-0.2, 1.2),), "logit", {"eps": 0.1}, skip=AT_NAN),
]
PARTS: Sequence[Case] = [
    Case("frac", (ALL,), "frac"),
    Case("fmod", (ALL, AWAY), "fmod", specials=MILD, dtypes=FLOATS,
         skip={"refusal": "whole numbers have a case of their own"}),
    Case("fmod", (whole(-30, 30), whole(1, 7)), "fmod", note="whole", dtypes=INTEGERS,
         differentiable=False, skip={"refusal": "the floating dtypes have a case of their own"}),
    Case("fmax", TWO, "fmax"),
    Case("fmin", TWO, "fmin"),
    Case("copysign", TWO, "copysign"),
    Case("signbit", (ALL,), "signbit", differentiable=False),
    Case("isposinf", (ALL,), "isposinf", differentiable=False),
    Case("isneginf", (ALL,), "isneginf", differentiable=False),
    Case("positive", (ALL,), "positive", shapes=COMPOSED, dtypes=EVERY[1:]),
    Case("nan_to_num", (ALL,), "nan_to_num", shapes=COMPOSED, dtypes=EVERY,
         skip={"non-finite": "what PyTorch is asked in, float64, has a larger largest number"}),
    Case("nan_to_num", (ALL,), "nan_to_num", {"nan": 1.5, "posinf": 2.5, "neginf": -3.5},
         shapes=COMPOSED, dtypes=EVERY),
]  # fmt: skip
ACTIVATIONS: Sequence[Case] = [
    Case("celu", (ALL,), f"{F}.celu", shapes=COMPOSED, dtypes=EVERY),
    Case("celu", (ALL,), f"{F}.celu", {"alpha": 0.5}, shapes=COMPOSED, dtypes=EVERY),
    Case("hardshrink", (ALL,), f"{F}.hardshrink", skip=AT_NAN),
    Case("hardshrink", (ALL,), f"{F}.hardshrink", {"lambd": 1.5}, skip=AT_NAN),
    Case("softshrink", (ALL,), f"{F}.softshrink", skip=AT_NAN),
    Case("softshrink", (ALL,), f"{F}.softshrink", {"lambd": 1.5}, skip=AT_NAN),
    Case("tanhshrink", (ALL,), f"{F}.tanhshrink"),
    Case("threshold", (ALL,), f"{F}.threshold", {"threshold": 1, "value": -2}),
]
#: Second names, with PyTorch's own of that name.
SECOND: Sequence[Case] = [
    Case("absolute", (ALL,), "absolute"),
    Case("arccos", (INSIDE,), "arccos"),
    Case("arccosh", (uniform(1.1, 6),), "arccosh"),
    Case("arcsin", (INSIDE,), "arcsin"),
    Case("arcsinh", (WIDE,), "arcsinh"),
    Case("arctan", (WIDE,), "arctan"),
    Case("arctan2", TWO, "arctan2"),
    Case("arctanh", (INSIDE,), "arctanh"),
    Case("divide", (ALL, AWAY), "divide"),
    Case("fix", (ALL,), "fix"),
    Case("hardsigmoid", (WIDE,), lambda t, x: t.nn.functional.relu6(x + 3) / 6, skip=AT_NAN),
    Case("hardswish", (WIDE,), f"{F}.hardswish", skip=AT_NAN),
    Case("multiply", TWO, "multiply"),
    Case("negative", (ALL,), "negative"),
    Case("sgn", (ALL,), "sign"),
    Case("subtract", TWO, "subtract"),
    Case("true_divide", (ALL, AWAY), "true_divide"),
    *(Case(op, inputs, op, note=note, differentiable=False)
      for op in ("greater", "greater_equal", "less", "less_equal", "not_equal")
      for note, inputs in (("", TWO), ("ties", SIGNS))),
]  # fmt: skip
#: Special functions; PyTorch's own of integers are those of their floats.
ENDS = {"non-finite": "PyTorch's slope there is inf * 0"}
OUTSIDE = {"derivative": "NaN where the function is none, as PyTorch's; the symbolic one is 0"}


def _second_kind(order: int, scaled: bool) -> Any:
    """PyTorch's function, which has no gradient, with its slope by DLMF 10.29."""

    def value(torch: Any, x: Any) -> Any:
        at = x.detach()
        name = f"{'scaled_' * scaled}modified_bessel_k"
        k = [getattr(torch.special, f"{name}{n}")(at) for n in (0, 1)]
        slope = scaled * k[order] - (k[0] + k[1] / at if order else k[1])
        return k[order] + (x - at) * torch.where(at > 0, slope, 1.0)  # at 0 the value alone

    return value


SPECIAL: Sequence[Case] = [
    Case("lgamma", (uniform(0.2, 9),), "lgamma", skip=ENDS),
    Case("lgamma", (uniform(-5.8, -5.2),), "lgamma", note="below", shapes=COMPOSED,
         dtypes=FLOATS[2:], skip=ENDS | {"refusal": "the case above is of these dtypes"}),
    Case("lgamma", (uniform(-0.45, -0.05),), "lgamma", note="near 0", shapes=COMPOSED,
         dtypes=FLOATS[2:], skip=ENDS | {"refusal": "the case above is of these dtypes"}),
    Case("digamma", (uniform(0.2, 9),), "digamma", skip=ENDS, tolerance=1000,
         because="PyTorch's own trigamma has 9 digits in float64"),
    Case("erfinv", (INSIDE,), "erfinv", skip=OUTSIDE),
    Case("erfinv", (uniform(0.9968, 0.9996),), "erfinv", note="tail", shapes=COMPOSED,
         dtypes=FLOATS[2:], skip=OUTSIDE | {"refusal": "the case above is of these dtypes"}),
    Case("ndtri", (uniform(0.05, 0.95),), "special.ndtri", skip=OUTSIDE),
    Case("ndtri", (uniform(0.0004, 0.0016),), "special.ndtri", note="tail", shapes=COMPOSED,
         dtypes=FLOATS[2:], skip=OUTSIDE | {"refusal": "the case above is of these dtypes"}),
    Case("ndtr", (ALL,), "special.ndtr"),
    Case("log_ndtr", (WIDE,), "special.log_ndtr", skip=ENDS),
    Case("log_ndtr", (uniform(-30, -13),), "special.log_ndtr", note="far", shapes=COMPOSED,
         dtypes=FLOATS[2:], skip=ENDS | {"refusal": "the case above is of these dtypes"}),
    Case("entr", (uniform(0.1, 4),), "special.entr", skip=OUTSIDE),
    Case("xlogy", (ALL, uniform(0.1, 4)), "xlogy",
         skip=ENDS | {"derivative": "at (0, 0) it is NaN, as PyTorch's"}),
    Case("xlog1py", (ALL, uniform(-0.5, 3)), "special.xlog1py", skip=ENDS),
    Case("sinc", (ALL,), "sinc", skip=ENDS),
    Case("heaviside", SIGNS, "heaviside", differentiable=False),
    Case("logaddexp2", TWO, "logaddexp2", skip=ENDS),
    *(Case(op, (uniform(-11, 11),), op if op == "i0" else f"special.{op}", skip=ENDS)
      for op in ("i0", "i0e", "i1", "i1e")),
    Case("erfcx", (uniform(-2.5, 3),), "special.erfcx",
         skip=ENDS | {"derivative": "infinite below -27, where the symbolic one is a constant's"}),
    *(Case(f"{'scaled_' * scaled}modified_bessel_k{order}", (uniform(0.1, 4),),
           _second_kind(order, scaled), skip=ENDS | OUTSIDE)
      for order in (0, 1) for scaled in (False, True)),
]  # fmt: skip
#: Made of other ops; PyTorch takes integers alone, floats alone, or all as float64.
BITS = whole(-9, 9)
COMPOSED_PAIRS: Sequence[Sequence[tuple[int, ...]]] = [[(4, 3), (4, 3)], [(2, 5), (1,)]]
ROUNDED = {"refusal": "whole numbers become float32"}
MADE: Sequence[Case] = [
    *(Case(op, (BITS, whole(0, 6)), op, shapes=COMPOSED_PAIRS, dtypes=INTEGERS,
           differentiable=False)
      for op in ("bitwise_left_shift", "bitwise_right_shift")),
    *(Case(op, (BITS, BITS), op, shapes=COMPOSED_PAIRS, dtypes=INTEGERS, differentiable=False)
      for op in ("gcd", "lcm")),
    Case("ldexp", (ALL, whole(-3, 3)), "ldexp", shapes=COMPOSED_PAIRS, dtypes=FLOATS[2:],
         gradients=[0], skip={"refusal": "16 bits and integers are rounded otherwise"}),
    Case("frexp", (ALL,), lambda t, x: t.frexp(x)[0], call=lambda x: ag.frexp(x)[0],
         shapes=COMPOSED, dtypes=FLOATS, skip={"gradient": "it jumps at powers of two",
                                               "non-finite": "PyTorch's slope there is another"}),
    Case("float_power", (uniform(0.1, 4), ALL), "float_power", shapes=COMPOSED_PAIRS,
         dtypes=("float64",), skip={"refusal": "all become float64", "non-finite": "as pow"}),
    Case("angle", (ALL,), "angle", shapes=COMPOSED, dtypes=FLOATS, skip=ROUNDED),
    Case("isreal", (ALL,), "isreal", shapes=COMPOSED, differentiable=False,
         dtypes=("bool", *INTEGERS, *FLOATS)),
    Case("rsub", (ALL, ALL), "rsub", {"alpha": 2}, shapes=COMPOSED_PAIRS,
         dtypes=(*INTEGERS, *FLOATS), skip={"refusal": "alpha makes integers of bools"}),
    *(Case("polygamma", (uniform(0.2, 9),), lambda t, x, n=n: t.polygamma(n, x), note=str(n),
           call=lambda x, n=n: ag.polygamma(n, x), shapes=COMPOSED, dtypes=FLOATS[2:],
           tolerance=1000, because="PyTorch's own trigamma has 9 digits",
           skip=ROUNDED | {"non-finite": "the host reads it"}) for n in (1, 3)),
    Case("mvlgamma", (uniform(2.2, 9),), "mvlgamma", {"p": 3}, shapes=COMPOSED, dtypes=FLOATS[2:],
         skip=ROUNDED | ENDS),
]  # fmt: skip
MORE = (*MADE, *SPECIAL, *ANGLES, *POWERS, *PARTS, *ACTIVATIONS, *SECOND)
