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
from typing import Final, TypeAlias, TypeVar, final

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
#: How tightly operators bind.
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
_TOKEN: Final = re.compile(
    r" *(?:(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)|(?P<name>[A-Za-z_]\w*)|"
    r"(?P<sign><<=|>>=|[-+*/%&|^<>=!]=|&&|\|\||<<|>>|\+\+|--|->|[^ ]))",
    re.ASCII,
)
_INTEGER: Final = re.compile(r"(0[xX][0-9a-fA-F]+|0|[1-9]\d*)[uUlL]{0,3}")
_FLOATING: Final = re.compile(r"((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)[fFlL]?")
#: What is no operator of C by itself.
_MARKS: Final = frozenset("()?:,;")
_OPERATORS: Final = frozenset("-+*/%&|^<>=![].~")
_DEFINE: Final = re.compile(r"^#define\s+(\w+)\(([^)]*)\)\s+(.*?)\s*$", re.MULTILINE)


def parse(text: str, names: Sequence[str], who: str) -> Expr:
    """Parse one C expression over the given names.

    Raises PrimitiveError, which names the primitive and shows the expression, for
    a syntax error, an unknown identifier or function, or a construct that is no
    scalar arithmetic.
    """
    try:
        tree = _Parser(who, text, frozenset(names)).whole()
        folded(tree, lambda leaf: 0, lambda node, of: max(map(of, node.args)))
    except RecursionError:
        raise PrimitiveError(
            message(who, f"{shortened(text)!r} is nested too deeply", "a shorter expression")
        ) from None
    return tree


def shortened(text: str, longest: int = 200) -> str:
    """An expression on one line for an error text, cut where it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else f"{flat[:longest]}..."


@final
class _Parser:
    """Reads an expression by the precedence of its operators, and expands the shared macros."""

    def __init__(self, who: str, text: str, names: frozenset[str]) -> None:
        self.who = who
        self.text = " ".join(text.split())
        self.names = names
        matches = _TOKEN.finditer(self.text)
        self.tokens = [
            (m.lastgroup, m[m.lastgroup or 0], m.start(m.lastgroup or 0)) for m in matches
        ]
        self.tokens.append((None, "", len(self.text)))
        self.place = 0

    def whole(self) -> Expr:
        """The one expression that the text is."""
        expressions = [self._choice()]
        while self._takes(","):
            expressions.append(self._choice())
        if self.now:
            raise self._unexpected()
        if len(expressions) > 1:
            given = f"{len(expressions)} expressions in {shortened(self.text)!r}"
            raise PrimitiveError(message(self.who, given, "one C expression"))
        return expressions[0]

    @property
    def now(self) -> str:
        """What comes next; empty at the end."""
        return self.tokens[self.place][1]

    def _takes(self, sign: str) -> bool:
        """Whether a sign comes next, which is then passed."""
        taken = self.now == sign
        self.place += taken
        return taken

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise self._unexpected()

    def _choice(self) -> Expr:
        condition = self._binary(_TIGHTNESS["||"])
        if not self._takes("?"):
            return condition
        first = self._choice()
        self._expect(":")
        return Apply("?:", (condition, first, self._choice()))

    def _binary(self, least: int) -> Expr:
        """Operands of operators that bind at least so tightly."""
        left = self._unary()
        while (op := self.now) in _BINARY and _TIGHTNESS[op] >= least:
            self.place += 1
            left = Apply(op, (left, self._binary(_TIGHTNESS[op] + 1)))
        return left

    def _unary(self) -> Expr:
        kind, text, _ = self.tokens[self.place]
        if kind is None or (kind == "sign" and text not in {"-", "+", "!", "~", "("}):
            raise self._unexpected()
        self.place += 1
        if kind == "number":
            return self._number(text)
        if kind == "name":
            return self._call(text, self._arguments()) if self._takes("(") else self._name(text)
        if text == "(":
            inner = self._choice()
            self._expect(")")
            return inner
        return self._signed(text, self._unary())

    def _arguments(self) -> tuple[Expr, ...]:
        """What stands between parentheses, of which the first one is passed."""
        if self._takes(")"):
            return ()
        args = [self._choice()]
        while self._takes(","):
            args.append(self._choice())
        self._expect(")")
        return tuple(args)

    def _signed(self, op: str, operand: Expr) -> Expr:
        if op == "+":
            return operand
        if op == "~":
            return Apply("^", (operand, Number(-1)))
        if op == "-" and isinstance(operand, Number):
            return Number(-operand.value)
        return Apply("neg" if op == "-" else "!", (operand,))

    def _number(self, text: str) -> Number:
        if match := _INTEGER.fullmatch(text):
            return Number(int(match[1], 0))
        if match := _FLOATING.fullmatch(text):
            return Number(float(match[1]))
        raise self._error(f"the literal {text!r}", "a number")

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

    def _unexpected(self) -> PrimitiveError:
        """The error of what comes next: an operator that is none of these, or no C."""
        kind, text, place = self.tokens[self.place]
        if kind == "sign" and text not in _MARKS and text[0] in _OPERATORS:
            return self._error(
                f"{text!r} is not allowed", "arithmetic, comparisons, ?: and functions"
            )
        rest = self.text[place:][:20]
        where = f"at column {place + 1}, {rest!r}"
        if not rest:
            where = "at its end (an operand or a parenthesis is missing)"
        given = f"the expression {shortened(self.text)!r} is not valid C {where}"
        remedy = "Write arithmetic over the inputs, without semicolons or statements"
        return PrimitiveError(message(self.who, given, "one scalar C expression", remedy))

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
        table[name] = (names, _Parser(f"macro {name}", body, frozenset(names)).whole())
    return table


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
