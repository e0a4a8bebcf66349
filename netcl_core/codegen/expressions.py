"""C expressions: parse the scalar expression of a primitive into a small tree.

The tree is what everything else is made from: scalar and vector OpenCL C, the
NumPy function, and the result dtype. The shared macros (`ADD`, `RELU`, ...) of
`templates/kernels/macros.cl.j2` are parsed once and expanded in the tree, so
that they mean the same on every path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar, final

from pycparser import c_ast, c_parser

from netcl_core.config import core_source
from netcl_core.errors import PrimitiveError, message


@final
@dataclass(frozen=True, slots=True)
class Number:
    """A literal; integers stay integers, so that they fit every dtype."""

    value: int | float


@final
@dataclass(frozen=True, slots=True)
class Name:
    """A data input, an attribute, `grad` or `out`."""

    id: str


@final
@dataclass(frozen=True, slots=True)
class Apply:
    """An operator or function applied to operands.

    `op` is a C operator (`+`, `<`, `&&`, ...), `neg`, `!`, `?:`, or a function name.
    """

    op: str
    args: tuple[Expr, ...]


Expr: TypeAlias = Number | Name | Apply
T = TypeVar("T")

COMPARISONS: Final = frozenset({"<", "<=", ">", ">=", "==", "!="})
LOGICAL: Final = frozenset({"&&", "||", "!"})
PREDICATES: Final = frozenset({"isnan", "isinf", "isfinite"})
#: Whatever yields a truth value.
MASKS: Final = COMPARISONS | LOGICAL | PREDICATES
#: Of integers and bools alone; `~x` is `x ^ -1`.
BITWISE: Final = frozenset({"&", "|", "^"})
_BINARY: Final = COMPARISONS | BITWISE | {"+", "-", "*", "/", "&&", "||"}

#: Functions that exist for integers too; all others make an integer op a float op.
INTEGER_FUNCTIONS: Final = frozenset(
    {"fabs", "fmax", "fmin", "floor", "ceil", "rint", "round", "trunc", "sign", *PREDICATES}
)
_OF_ONE: Final = (
    "exp exp2 expm1 log log1p log2 log10 sqrt rsqrt cbrt sin cos tan tanh sinh cosh asin acos "
    "atan fabs floor ceil rint round trunc erf erfc sign isnan isinf isfinite"
)
_OF_TWO: Final = "atan2 pow fmax fmin fmod copysign"
#: Every function an expression may call, with its number of arguments.
FUNCTIONS: Final[dict[str, int]] = {
    **dict.fromkeys(_OF_ONE.split(), 1),
    **dict.fromkeys(_OF_TWO.split(), 2),
    "fma": 3,
}
_CONSTANTS: Final[dict[str, int | float]] = {
    "INFINITY": float("inf"),
    "NAN": float("nan"),
    "M_PI": 3.141592653589793,
    "M_E": 2.718281828459045,
    "M_SQRT2": 1.4142135623730951,
    "M_SQRT1_2": 0.7071067811865476,
    "M_LN2": 0.6931471805599453,
    "M_LOG2E": 1.4426950408889634,
}
#: What is written before an expression to make a function that pycparser parses.
_BEFORE: Final = "double f(void) { return ("
_DEFINE: Final = re.compile(r"^#define\s+(\w+)\(([^)]*)\)\s+(.*?)\s*$", re.MULTILINE)


def parse(text: str, names: Sequence[str], who: str) -> Expr:
    """Parse one C expression over the given names.

    Raises PrimitiveError, which names the primitive and shows the expression, for
    a syntax error, an unknown identifier or function, or a construct that is no
    scalar arithmetic.
    """
    try:
        items = _parse_c(text, who)
        if len(items) == 1:
            return _Converter(who, text, frozenset(names)).convert(items[0])
    except RecursionError:
        raise PrimitiveError(
            message(who, f"{shortened(text)!r} is nested too deeply", "a shorter expression")
        ) from None
    raise PrimitiveError(
        message(who, f"{len(items)} expressions in {shortened(text)!r}", "one C expression")
    )


def shortened(text: str, longest: int = 200) -> str:
    """An expression on one line for an error text, cut where it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else f"{flat[:longest]}..."


def _parse_c(text: str, who: str) -> list[Any]:
    flat = " ".join(text.split())
    try:
        unit = c_parser.CParser().parse(f"{_BEFORE}{flat}); }}")
    except Exception as error:  # pycparser raises several classes; all mean "not C"
        raise PrimitiveError(
            message(
                who,
                f"the expression {flat!r} is not valid C {_place(flat, error)}",
                "one scalar C expression",
                "Write arithmetic over the inputs, without semicolons or statements",
            )
        ) from error
    body = unit.ext[0].body.block_items
    if len(unit.ext) != 1 or len(body) != 1 or not isinstance(body[0], c_ast.Return):
        raise PrimitiveError(message(who, f"{flat!r} holds statements", "one scalar C expression"))
    expr = body[0].expr
    return list(expr.exprs) if isinstance(expr, c_ast.ExprList) else [expr]


def _place(flat: str, error: Exception) -> str:
    """Where pycparser gave up, in the expression and not in the function around it."""
    match = re.search(r":1:(\d+): (.*)", str(error))
    if match is None:
        return f"({str(error).lstrip(': ')})"
    column = int(match[1]) - len(_BEFORE) - 1
    if 0 <= column < len(flat):
        return f"at column {column + 1}, {flat[column:][:20]!r} ({match[2]})"
    return "at its end (an operand or a parenthesis is missing, or there is one too many)"


class _Converter:
    """Turns pycparser's tree into ours, expanding the shared macros on the way."""

    def __init__(self, who: str, text: str, names: frozenset[str]) -> None:
        self.who = who
        self.text = " ".join(text.split())
        self.names = names

    def convert(self, node: Any) -> Expr:
        if isinstance(node, c_ast.Constant):
            return self._number(node)
        if isinstance(node, c_ast.ID):
            return self._name(node.name)
        if isinstance(node, c_ast.BinaryOp) and node.op in _BINARY:
            return Apply(node.op, (self.convert(node.left), self.convert(node.right)))
        if isinstance(node, c_ast.UnaryOp) and node.op in {"-", "+", "!", "~"}:
            return self._unary(node.op, self.convert(node.expr))
        if isinstance(node, c_ast.TernaryOp):
            parts = (node.cond, node.iftrue, node.iffalse)
            return Apply("?:", tuple(self.convert(part) for part in parts))
        if isinstance(node, c_ast.FuncCall) and isinstance(node.name, c_ast.ID):
            args = node.args.exprs if node.args is not None else []
            return self._call(node.name.name, tuple(self.convert(arg) for arg in args))
        what = getattr(node, "op", None) or type(node).__name__
        raise self._error(f"{what!r} is not allowed", "arithmetic, comparisons, ?: and functions")

    def _unary(self, op: str, operand: Expr) -> Expr:
        if op == "+":
            return operand
        if op == "~":
            return Apply("^", (operand, Number(-1)))
        if op == "-" and isinstance(operand, Number):
            return Number(-operand.value)
        return Apply("neg" if op == "-" else "!", (operand,))

    def _number(self, node: Any) -> Number:
        suffix = "lLuU" if "x" in node.value.lower() else "fFlLuU"
        digits = node.value.rstrip(suffix)
        try:
            return Number(int(digits, 0) if "int" in node.type else float(digits))
        except ValueError:
            raise self._error(f"the literal {node.value!r}", "a number") from None

    def _name(self, name: str) -> Expr:
        if name in self.names:
            return Name(name)
        constant = _CONSTANTS.get(name.removesuffix("_F"))
        if constant is not None:
            return Number(constant)
        known = ", ".join(sorted(self.names))
        raise self._error(f"the identifier {name!r} is unknown", f"one of {known}")

    def _call(self, name: str, args: tuple[Expr, ...]) -> Expr:
        macro = None if name in FUNCTIONS else macros().get(name)
        arity = len(macro[0]) if macro is not None else FUNCTIONS.get(name)
        if arity is None:
            known = [*FUNCTIONS, *macros()]
            close = get_close_matches(name, known, n=2)
            hint = f"Did you mean {' or '.join(close)}?" if close else ""
            expected = "" if close else f"one of {', '.join(known)}"
            raise self._error(f"the function {name!r} is unknown", expected, hint)
        if len(args) != arity:
            raise self._error(f"{name} got {len(args)} arguments", f"{arity}")
        if macro is None:
            return Apply(name, args)
        return substitute(macro[1], dict(zip(macro[0], args, strict=True)))

    def _error(self, given: str, expected: str, hint: str = "") -> PrimitiveError:
        return PrimitiveError(message(self.who, f"in {self.text!r}: {given}", expected, hint))


def folded(
    tree: Expr, leaf: Callable[[Number | Name], T], node: Callable[[Apply, Callable[[Expr], T]], T]
) -> T:
    """What follows for a tree from its parts; a subtree that macros share is asked once.

    `leaf` gives it for numbers and names, `node(apply, of)` for an operator or function from
    what `of(operand)` gives.
    """
    done: dict[int, T] = {}

    def of(each: Expr) -> T:
        if not isinstance(each, Apply):
            return leaf(each)
        if id(each) not in done:
            done[id(each)] = node(each, of)
        return done[id(each)]

    return of(tree)


def substitute(tree: Expr, values: Mapping[str, Expr]) -> Expr:
    """The tree with names replaced by trees; equal subtrees are shared later, in SSA form."""
    return folded(
        tree,
        lambda leaf: values.get(leaf.id, leaf) if isinstance(leaf, Name) else leaf,
        lambda node, of: Apply(node.op, tuple(map(of, node.args))),
    )


@lru_cache(maxsize=1)
def macros() -> dict[str, tuple[tuple[str, ...], Expr]]:
    """The shared helper macros: name -> parameters and parsed body; a macro calls no other."""
    table: dict[str, tuple[tuple[str, ...], Expr]] = {}
    for name, parameters, body in _DEFINE.findall(core_source("kernels/macros.cl.j2")):
        names = tuple(word.strip() for word in parameters.split(","))
        converter = _Converter(f"macro {name}", body, frozenset(names))
        (node,) = _parse_c(body, f"macro {name}")
        table[name] = (names, converter.convert(node))
    return table


_TIGHTNESS: Final = {
    "?:": 1,
    "||": 2,
    "&&": 3,
    "|": 4,
    "^": 5,
    "&": 6,
    **dict.fromkeys(("==", "!="), 7),
    **dict.fromkeys(("<", "<=", ">", ">="), 8),
    **dict.fromkeys("+-", 9),
    **dict.fromkeys("*/", 10),
    **dict.fromkeys(("neg", "!"), 11),
}
_ATOM: Final = 12


def to_c(tree: Expr) -> str:
    """A tree as a C expression that `parse` reads back, with no more parentheses than needed."""
    return _printed(tree)[0]


def _printed(tree: Expr) -> tuple[str, int]:
    """The text and how tightly its outermost operator binds."""
    if isinstance(tree, Name):
        return tree.id, _ATOM
    if isinstance(tree, Number):
        text = _digits(tree.value)
        return text, _ATOM if text[0] != "-" else _TIGHTNESS["neg"]
    own = _TIGHTNESS.get(tree.op)
    if own is None:
        return f"{tree.op}({', '.join(to_c(arg) for arg in tree.args)})", _ATOM
    if tree.op in {"neg", "!"}:
        return f"{'-' if tree.op == 'neg' else '!'}{_within(tree.args[0], own + 1)}", own
    if tree.op == "?:":
        cond, first, second = tree.args
        return f"{_within(cond, own + 1)} ? {_within(first, own + 1)} : {_within(second, own)}", own
    left, right = tree.args
    return f"{_within(left, own)} {tree.op} {_within(right, own + 1)}", own


def _within(tree: Expr, least: int) -> str:
    text, own = _printed(tree)
    return text if own >= least else f"({text})"


def _digits(value: float) -> str:
    if value != value:
        return "NAN"
    return repr(value).replace("inf", "INFINITY")


def walk(tree: Expr) -> Iterator[Expr]:
    """The tree and all its subtrees; a subtree that macros share comes once."""
    stack, seen = [tree], {id(tree)}
    while stack:
        node = stack.pop()
        yield node
        for arg in node.args if isinstance(node, Apply) else ():
            if id(arg) not in seen:
                seen.add(id(arg))
                stack.append(arg)


def is_mask(tree: Expr) -> bool:
    """Whether a tree yields a truth value."""
    return isinstance(tree, Apply) and tree.op in MASKS


def needs_floating(tree: Expr) -> bool:
    """Whether a tree only makes sense in floating point (a division, exp, 0.5, ...)."""
    for node in walk(tree):
        if isinstance(node, Apply) and (
            node.op == "/" or (node.op in FUNCTIONS and node.op not in INTEGER_FUNCTIONS)
        ):
            return True
        if isinstance(node, Number) and not float(node.value).is_integer():
            return True
    return False
