"""Expressions in manifests: arithmetic over names, read as data and never run as Python.

The grammar is that of Python's expressions without what defines, repeats or reaches into
something: no attribute but those of a tensor's form, no call but of the functions in a table.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, final

from netcl_core.errors import NetclError, RegistrationError, coded, message

_LONGEST: Final = 2000
#: What a tensor, an array and a Spec have alike.
_ATTRIBUTES: Final = frozenset({"shape", "ndim", "size", "dtype"})
_MOST_BITS: Final = 256
_MOST_ELEMENTS: Final = 1024
_OPERATORS: Final[Mapping[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Not: operator.not_, ast.Invert: operator.invert, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many, ast.NotIn: lambda one, many: one not in many,
}  # fmt: skip
_PLAIN: Final = (
    ast.Constant, ast.Name, ast.Tuple, ast.List, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp,
    ast.IfExp, ast.Subscript, ast.Slice, ast.Attribute, ast.Call, ast.keyword, ast.Load, ast.And,
    ast.Or, *_OPERATORS,
)  # fmt: skip


def wrong(who: str, given: str, expected: str, remedy: str = "") -> RegistrationError:
    """The error of a declaration."""
    return coded("NP318", RegistrationError(message(who, given, expected, remedy)))


@final
class Expression:
    """One expression: parsed and checked when it is made, computed when it is called.

    Args:
        text: A number is one, too.
        who: Whose it is, for errors.
        functions: What it may call by name.
        names: What it may name; None: that is known only when it is called.

    Raises RegistrationError NP318 for whatever is no such expression.
    """

    def __init__(
        self,
        text: Any,
        who: str,
        functions: Mapping[str, Callable[..., Any]],
        names: frozenset[str] | None = None,
    ) -> None:
        self.text, self.who, self._functions = str(text), who, functions
        self._tree = self._parsed()
        nodes = [*ast.walk(self._tree)]
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        self.names = {
            node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called
        }
        for problem in self._problems(nodes, names):
            raise wrong(who, f"{problem} in {self.text!r}", "arithmetic over what is declared")

    def _parsed(self) -> ast.expr:
        try:
            if len(self.text) > _LONGEST:
                raise ValueError(f"{len(self.text)} characters")
            return ast.parse(" ".join(self.text.split()), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            given = f"{self.text[:80]!r} ({error})"
            raise wrong(self.who, given, "an expression, such as 'x * x + 1'") from None

    def _problems(self, nodes: list[ast.AST], names: frozenset[str] | None) -> Iterator[str]:
        for node in nodes:
            if not isinstance(node, _PLAIN):
                yield f"{type(node).__name__} is not allowed"
            elif isinstance(node, ast.Attribute) and node.attr not in _ATTRIBUTES:
                yield f"the attribute {node.attr!r} is unknown"
            elif isinstance(node, ast.Constant) and not isinstance(
                node.value, (bool, int, float, str, type(None))
            ):
                yield f"{node.value!r} is no number"
            elif isinstance(node, ast.Call):
                if not isinstance(node.func, ast.Name) or node.func.id not in self._functions:
                    yield self._unknown(node.func)
                elif any(keyword.arg is None for keyword in node.keywords):
                    yield "** is not allowed"
        for name in sorted(self.names - names) if names is not None else ():
            yield f"the name {name!r} is unknown (there are {', '.join(sorted(names or ()))})"

    def _unknown(self, function: ast.expr) -> str:
        name = ast.unparse(function)
        close = get_close_matches(name, [*self._functions], n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"the function {name} is unknown{hint}"

    def __call__(self, names: Mapping[str, Any]) -> Any:
        """Its value; raises what functions raise, and RegistrationError for what does not go."""
        try:
            return self._value(self._tree, names)
        except NetclError:
            raise
        except Exception as error:
            given = f"{self.text!r} raises {type(error).__name__}: {error}"
            raise wrong(self.who, given, "an expression that can be computed") from error

    def _value(self, node: ast.AST, names: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return names[node.id]
        kind = type(node).__name__
        return getattr(self, f"_{kind.lower()}")(node, names)

    def _tuple(self, node: ast.Tuple, names: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple([self._value(elt, names) for elt in node.elts])

    def _list(self, node: ast.List, names: Mapping[str, Any]) -> list[Any]:
        return [self._value(elt, names) for elt in node.elts]

    def _binop(self, node: ast.BinOp, names: Mapping[str, Any]) -> Any:
        left, right = self._value(node.left, names), self._value(node.right, names)
        repeats = not isinstance(node.op, ast.Add)
        if repeats and any(isinstance(side, (str, tuple, list)) for side in (left, right)):
            raise TypeError(f"{type(node.op).__name__} of texts or tuples")
        if isinstance(node.op, ast.Pow) and isinstance(left, int) and isinstance(right, int):
            _bounded(left.bit_length() * abs(right), _MOST_BITS, "bits")
        tree = _OPERATORS[type(node.op)](left, right)
        if isinstance(tree, int):
            _bounded(tree.bit_length(), _MOST_BITS, "bits")
        elif isinstance(tree, (str, tuple, list)):
            _bounded(len(tree), _MOST_ELEMENTS, "elements")
        return tree

    def _unaryop(self, node: ast.UnaryOp, names: Mapping[str, Any]) -> Any:
        return _OPERATORS[type(node.op)](self._value(node.operand, names))

    def _compare(self, node: ast.Compare, names: Mapping[str, Any]) -> Any:
        values = [self._value(operand, names) for operand in (node.left, *node.comparators)]
        holds: Any = True
        for i, operation in enumerate(node.ops):
            one = _OPERATORS[type(operation)](values[i], values[i + 1])
            holds = one if i == 0 else holds and one
        return holds

    def _boolop(self, node: ast.BoolOp, names: Mapping[str, Any]) -> Any:
        ends_at = isinstance(node.op, ast.Or)
        for value in node.values:
            tree = self._value(value, names)
            if bool(tree) is ends_at:
                break
        return tree

    def _ifexp(self, node: ast.IfExp, names: Mapping[str, Any]) -> Any:
        return self._value(node.body if self._value(node.test, names) else node.orelse, names)

    def _subscript(self, node: ast.Subscript, names: Mapping[str, Any]) -> Any:
        return self._value(node.value, names)[self._value(node.slice, names)]

    def _slice(self, node: ast.Slice, names: Mapping[str, Any]) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*[None if part is None else self._value(part, names) for part in parts])

    def _attribute(self, node: ast.Attribute, names: Mapping[str, Any]) -> Any:
        return getattr(self._value(node.value, names), node.attr)

    def _call(self, node: ast.Call, names: Mapping[str, Any]) -> Any:
        assert isinstance(node.func, ast.Name)  # checked when it was made
        given = [self._value(arg, names) for arg in node.args]
        named = {str(keyword.arg): self._value(keyword.value, names) for keyword in node.keywords}
        return self._functions[node.func.id](*given, **named)


def _bounded(size: int, most: int, unit: str) -> None:
    if size > most:
        raise OverflowError(f"more than {most} {unit}")
