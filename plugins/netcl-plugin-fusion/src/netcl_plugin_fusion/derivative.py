"""Derivatives of expressions: by rules on the tree, one rule per operator and function."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from netcl_core.errors import PrimitiveError, message
from netcl_core.inspect.expressions import (
    MASKS,
    Apply,
    Expr,
    Name,
    Number,
    folded,
    parse,
    substitute,
)

ZERO: Final = Number(0)
ONE: Final = Number(1)
#: What jumps from one value to the next, and is flat in between.
STEPS: Final = ("floor", "ceil", "rint", "round", "trunc", "sign")
#: The partial derivatives of `f` with respect to its operands `a`, `b`, `c`. That of fabs at 0 is
#: the one from the right: what is smooth, and written by `x < 0 ? ... : ...` and fabs, stays so.
_RULES: Final[dict[str, tuple[str, ...]]] = {
    "+": ("1", "1"),
    "-": ("1", "-1"),
    "*": ("b", "a"),
    "/": ("1 / b", "-(f / b)"),
    "neg": ("-1",),
    "exp": ("f",),
    "exp2": ("f * M_LN2",),
    "expm1": ("exp(a)",),
    "log": ("1 / a",),
    "log1p": ("1 / (1 + a)",),
    "log2": ("1 / (a * M_LN2)",),
    "log10": ("1 / (a * 2.302585092994046)",),
    "sqrt": ("0.5 / f",),
    "rsqrt": ("-0.5 * f / a",),
    "cbrt": ("1 / (3 * f * f)",),
    "sin": ("cos(a)",),
    "cos": ("-sin(a)",),
    "tan": ("1 + f * f",),
    "tanh": ("(1 - f) * (1 + f)",),
    "sinh": ("cosh(a)",),
    "cosh": ("sinh(a)",),
    "asin": ("rsqrt(1 - a * a)",),
    "acos": ("-rsqrt(1 - a * a)",),
    "atan": ("1 / (1 + a * a)",),
    "atan2": ("b / (a * a + b * b)", "-(a / (a * a + b * b))"),
    "erf": ("1.1283791670955126 * exp(-(a * a))",),
    "erfc": ("-1.1283791670955126 * exp(-(a * a))",),
    "pow": ("b == 0 ? 0 : b * pow(a, b - 1)", "(a == 0 && b >= 0) ? 0 : f * log(a)"),
    "fabs": ("a < 0 ? -1 : 1",),
    "fmax": ("a > b ? 1 : 0", "a > b ? 0 : 1"),
    "fmin": ("a < b ? 1 : 0", "a < b ? 0 : 1"),
    "fmod": ("1", "-trunc(a / b)"),
    "copysign": ("sign(a) * copysign(1, b)", "0"),
    "fma": ("b", "a", "1"),
    **dict.fromkeys(STEPS, ("0",)),
}


@lru_cache(maxsize=len(_RULES))
def _rule(op: str) -> tuple[Expr, ...]:
    if op not in _RULES:
        known = ", ".join(_RULES)
        raise PrimitiveError(message("derivative", f"{op!r} has no rule", f"one of {known}"))
    return tuple(parse(text, ("a", "b", "c", "f"), f"derivative of {op}") for text in _RULES[op])


def partials(tree: Apply) -> tuple[Expr, ...]:
    """The partial derivatives of an operator or function with respect to its operands.

    Raises PrimitiveError for one that has no rule.
    """
    values: dict[str, Expr] = {**dict(zip("abc", tree.args, strict=False)), "f": tree}
    return tuple(substitute(rule, values) for rule in _rule(tree.op))


def plus(left: Expr, right: Expr) -> Expr:
    """A sum; a zero is left out."""
    if ZERO in (left, right):
        return right if left == ZERO else left
    return Apply("+", (left, right))


def times(left: Expr, right: Expr) -> Expr:
    """A product; zeros, ones and signs are drawn out of it."""
    if left == ZERO or right == ZERO:
        return ZERO
    if left == ONE or right == ONE:
        return right if left == ONE else left
    if left == Number(-1) or right == Number(-1):
        return Apply("neg", (right if left == Number(-1) else left,))
    return Apply("*", (left, right))


def derivative(tree: Expr, name: str) -> Expr:
    """The derivative of a tree with respect to a name, all other names held fixed.

    A selection is differentiated branch by branch; comparisons, predicates and steps
    (floor, sign, ...) have derivative 0. Raises PrimitiveError for a function without
    a rule whose operands depend on the name.
    """

    def slope(node: Apply, of: Callable[[Expr], Expr]) -> Expr:
        if node.op in MASKS:
            return ZERO
        if node.op == "?:":
            first, second = map(of, node.args[1:])
            both_zero = first == ZERO and second == ZERO
            return ZERO if both_zero else Apply("?:", (node.args[0], first, second))
        exponent = _logistic_exponent(node)
        if exponent is not None:
            return times(Apply("*", (node, Apply("-", (node, ONE)))), of(exponent))
        inner = list(map(of, node.args))
        total: Expr = ZERO
        if any(each != ZERO for each in inner):
            for partial, each in zip(partials(node), inner, strict=True):
                total = plus(total, times(partial, each))
        return total

    return folded(tree, lambda leaf: ONE if leaf == Name(name) else ZERO, slope)


def _logistic_exponent(tree: Apply) -> Expr | None:
    """u, if the tree is 1 / (1 + exp(u)).

    Its slope f (f - 1) u' is finite where exp(u) overflows, that of the quotient is not.
    """
    if tree.op != "/" or tree.args[0] != ONE:
        return None
    below = tree.args[1]
    if not isinstance(below, Apply) or below.op != "+" or below.args[0] != ONE:
        return None
    last = below.args[1]
    return last.args[0] if isinstance(last, Apply) and last.op == "exp" else None
