"""Elementwise ops in ONNX: the expressions of primitives, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from netcl_core.inspect.data import NUMPY_OF_COMPUTE
from netcl_core.inspect.expressions import COMPARISONS, LOGICAL, PREDICATES, Apply, Name, folded
from netcl_plugin_tools.export.onnx_ops import RefusalError

#: Operators and functions of C that ONNX has.
_SAME: Final = {
    "+": "Add",
    "-": "Sub",
    "*": "Mul",
    "/": "Div",
    "neg": "Neg",
    "<": "Less",
    "<=": "LessOrEqual",
    ">": "Greater",
    ">=": "GreaterOrEqual",
    "==": "Equal",
    "&&": "And",
    "||": "Or",
    "!": "Not",
    "pow": "Pow",
    "fmax": "Max",
    "fmin": "Min",
    "fabs": "Abs",
    "rint": "Round",
    "isnan": "IsNaN",
    "isinf": "IsInf",
    **{name: name.title() for name in ("exp", "log", "sqrt", "floor", "ceil", "erf", "sign")},
    **{name: name.title() for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: name.title() for name in ("asin", "acos", "atan")},
}
#: The others, as the expression that ONNX computes: `x` is the operand, letters are constants.
_COMPOSED: Final[dict[str, Callable[[Callable[..., str], str], str]]] = {
    "exp2": lambda op, x: op("Pow", 2.0, x),
    "expm1": lambda op, x: op("Sub", op("Exp", x), 1.0),
    "log1p": lambda op, x: op("Log", op("Add", x, 1.0)),
    "log2": lambda op, x: op("Mul", op("Log", x), 1 / np.log(2)),
    "log10": lambda op, x: op("Mul", op("Log", x), 1 / np.log(10)),
    "rsqrt": lambda op, x: op("Reciprocal", op("Sqrt", x)),
    "cbrt": lambda op, x: op("Mul", op("Sign", x), op("Pow", op("Abs", x), 1 / 3)),
    "erfc": lambda op, x: op("Sub", 1.0, op("Erf", x)),
    "trunc": lambda op, x: op("Mul", op("Sign", x), op("Floor", op("Abs", x))),
    "round": lambda op, x: op("Mul", op("Sign", x), op("Floor", op("Add", op("Abs", x), 0.5))),
}
_ROUNDS: Final = ("floor", "ceil", "rint", "trunc", "round")
_BOOLS: Final = COMPARISONS | LOGICAL | PREDICATES


def region(graph: Any, node: Any, inputs: Sequence[str]) -> str:
    """The result of a region's steps."""
    plan = node.call.plan
    types, values = plan.types, {("in", i): name for i, name in enumerate(inputs)}
    kinds = {("in", i): dtype for i, dtype in enumerate(types.inputs)}
    for k, step in enumerate(plan.region.steps):
        compute = NUMPY_OF_COMPUTE[types.computes[k]]

        def given(ref: Any, compute: Any = compute) -> str:
            if ref[0] == "scalar":
                return str(graph.constant(np.array(node.scalars[ref[1]], compute)))
            return str(
                values[ref] if kinds[ref] == compute.name else graph.cast(values[ref], compute)
            )

        if step.cast is not None:
            values["step", k] = graph.cast(values[step.operands[0]], types.dtypes[k])
        else:
            names = dict(zip(step.parsed.inputs, map(given, step.operands), strict=True))
            names |= {name: given(("scalar", slot)) for name, slot in step.attrs}
            value, is_bool = _expression(graph, step.parsed.forward, names, compute)
            if types.dtypes[k] != ("bool" if is_bool else compute.name):
                value = graph.cast(value, types.dtypes[k])
            values["step", k] = value
        kinds["step", k] = types.dtypes[k]
    (output,) = plan.region.outputs
    name = values[output]
    first = [each for each in inputs if each == name]
    return graph.op("Identity", [name]) if first else name


def _expression(graph: Any, tree: Any, names: dict[str, str], compute: Any) -> tuple[str, bool]:
    """The name of an expression's value, and whether that is a bool."""

    def number(value: Any) -> str:
        return str(graph.constant(np.array(value, compute)))

    def as_number(term: tuple[str, bool]) -> str:
        return str(graph.cast(term[0], compute)) if term[1] else term[0]

    def as_bool(term: tuple[str, bool]) -> str:
        return term[0] if term[1] else str(graph.cast(term[0], np.bool_))

    def op(kind: str, *args: Any) -> str:
        return str(graph.op(kind, [x if isinstance(x, str) else number(x) for x in args]))

    def apply(each: Apply, of: Callable[[Any], tuple[str, bool]]) -> tuple[str, bool]:
        args = [of(x) for x in each.args]
        kind = each.op
        if kind == "?:":
            a, b = map(as_number, args[1:])
            return op("Where", as_bool(args[0]), a, b), False
        if kind in LOGICAL:
            return op(_SAME[kind], *map(as_bool, args)), True
        given = [as_number(x) for x in args]
        if kind == "!=":
            return op("Not", op("Equal", *given)), True
        if kind == "isfinite":
            return op("Not", op("Or", op("IsNaN", *given), op("IsInf", *given))), True
        if kind == "fma":
            return op("Add", op("Mul", *given[:2]), given[2]), False
        if kind == "fmod":
            return str(graph.op("Mod", given, fmod=1)), False
        if kind in _ROUNDS and compute.kind == "i":
            return given[0], False
        if kind == "copysign":
            size = op("Abs", given[0])
            return op("Where", op("Less", given[1], 0), op("Neg", size), size), False
        if kind in _COMPOSED:
            return _COMPOSED[kind](op, given[0]), False
        if kind not in _SAME:
            raise RefusalError(f"no counterpart of {kind} in ONNX")
        return op(_SAME[kind], *given), kind in _BOOLS

    return folded(
        tree,
        lambda leaf: (names[leaf.id] if isinstance(leaf, Name) else number(leaf.value), False),
        apply,
    )
