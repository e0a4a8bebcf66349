"""The sandbox of templates: nothing of Python can be reached, and steps and sizes have a bound.

Jinja's immutable sandbox keeps names with underscores and changes of values out. Here they are
refused when a template is read, whether that line is ever rendered or not; and what could run for
ever or fill the memory is counted: rounds of loops, calls, and the size of every value made.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, ItemsView, Iterable, Iterator, ValuesView
from contextlib import suppress
from functools import wraps
from itertools import chain
from typing import Any, Final, final

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

#: What one rendering may do: rounds of loops, calls, templates read, and 64 characters or elements
#: made. The largest kernels at hand take 10,000 steps.
STEPS: Final = 300_000
_PER_STEP: Final = 64
#: Texts this short and numbers this small cost no more than the call that made them.
_FREE: Final = 1024
#: The most characters or elements in one value: twenty times what the largest kernel has.
LARGEST: Final = 4_000_000
MOST_BITS: Final = 256
TOO_LARGE: Final = f"%s of more than {LARGEST} characters or elements"
#: Filters that are gone: what they make cannot be told from what they get, or it varies.
_DROPPED: Final = (
    "attr", "batch", "center", "filesizeformat", "forceescape", "groupby", "pprint", "random",
    "round", "slice", "striptags", "sum", "tojson", "truncate", "urlencode", "urlize", "wordcount",
    "wordwrap", "xmlattr",
)  # fmt: skip
_TEXT_METHODS: Final = (
    "count endswith find index isdigit lower lstrip partition removeprefix removesuffix rfind "
    "rpartition rsplit rstrip split splitlines startswith strip title upper"
)
#: The methods that values of Python's own types have in a template.
METHODS: Final[dict[type, frozenset[str]]] = {
    str: frozenset(_TEXT_METHODS.split()),
    dict: frozenset({"get", "items", "keys", "values"}),
    **dict.fromkeys((list, tuple), frozenset({"count", "index"})),
    **dict.fromkeys((bool, bytes, complex, float, frozenset, int, range, set), frozenset()),
}
#: What one template may hold: forty times the largest at hand.
MOST_NODES: Final = 50_000
_MANY: Final = f"a template of more than {MOST_NODES} statements and values"
#: Each of these begins something that takes the parser time.
_OPENING: Final = re.compile(r"\{[{%]")
_CONTAINERS: Final = (list, tuple, set, frozenset, ItemsView, ValuesView)
#: The types of values in which others lie.
NESTED: Final = (*_CONTAINERS, dict, Namespace)
_BINARY: Final = frozenset({"+", "*", "**", "%"})
#: A place of `%` whose width or precision is large, or a value.
_WIDE: Final = re.compile(r"%(\([^()]*\))?[-+ #0]*(\*|\d{4}|\d*\.(\*|\d{4}))|%\([^()]*\(")
_MEASURED: Final = "measured"
_ROUNDS: Final = "rounds"
_SEARCHED: Final = "searched"


@final
class BudgetError(jinja2.TemplateRuntimeError):
    """A template that does or makes more than any kernel needs."""

    code = "NP317"


@final
class PrivateError(jinja2.exceptions.SecurityError):
    """A template that reaches for what belongs to Python, found where it is read."""

    def __init__(self, name: str, line: int) -> None:
        super().__init__(f"it reaches for {name!r}, which is Python's own")
        self.line = line
        self.path = ""


def weight(value: Any) -> int:
    """The elements of a value and of all in it, each as often as it stands there."""
    total, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        inside: Iterable[Any] = ()
        if isinstance(each, str):
            total += len(each) // _PER_STEP
        elif isinstance(each, _CONTAINERS):
            inside = each
        elif isinstance(each, dict):
            inside = chain(each.keys(), each.values())
        elif isinstance(each, Namespace):
            kept: dict[str, Any] = object.__getattribute__(each, "_Namespace__attrs")
            inside = kept.values()
        waiting.extend(inside)
        total += 1
        if total + len(waiting) > LARGEST // _PER_STEP:
            raise BudgetError(TOO_LARGE % "a value")
    return total


@final
class Budget(threading.local):
    """What is left of this thread's rendering; one inside another pays with the same."""

    left = STEPS
    depth = 0

    def __enter__(self) -> None:
        if self.depth == 0:
            self.left = STEPS
        self.depth += 1

    def __exit__(self, *raised: object) -> None:
        self.depth -= 1

    def step(self, count: int = 1) -> None:
        self.left -= count
        if self.left < 0 and self.depth:
            raise BudgetError(f"more than {STEPS} steps: does a loop or a macro ever end?")

    def fit(self, size: int, what: str = "a value") -> None:
        if size > LARGEST:
            raise BudgetError(TOO_LARGE % what)
        self.step(1 + size // _PER_STEP)

    def measured(self, value: Any) -> Any:
        kind = type(value)
        if (kind is str and len(value) < _FREE) or (kind is int and -_FREE < value < _FREE):
            return value
        if isinstance(value, str):
            self.fit(len(value), "a text")
        elif isinstance(value, int):
            _check_bits(value.bit_length())
        elif isinstance(value, NESTED):
            self.fit(weight(value))
        return value

    def searched(self, value: Any) -> Any:
        if type(value) is str or isinstance(value, NESTED):
            size = len(value) if type(value) is str else _PER_STEP * weight(value)
            if size >= _FREE:
                self.step(size // _PER_STEP)
        return value

    def rounds(self, values: Iterable[Any], cost: int) -> Iterator[Any]:
        due = cost
        for value in values:
            due += cost
            if due > _PER_STEP:
                self.step(due)
                due = 0
            yield value
        self.step(due)


_budget: Final = Budget()


def _check_bits(bits: int) -> None:
    if bits > MOST_BITS:
        raise BudgetError(f"a number of more than {MOST_BITS} bits")


def _power(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        _check_bits(left.bit_length() * right)
    return left**right


def _check_places(text: str, values: Any) -> int:
    """The most characters of a text with `%` for values; raises BudgetError for a wide place."""
    if _WIDE.search(text):
        raise BudgetError(f"a place of 1000 characters or more, or of any width, in {text[:40]!r}")
    given = values.values() if isinstance(values, dict) else values
    each = given if isinstance(given, _CONTAINERS) else (given,)
    longest = max((len(one) for one in each if isinstance(one, str)), default=0)
    return len(text) + text.count("%") * longest


@final
class _Watched(NodeTransformer):
    """Puts what is counted around loops and literals, and refuses what starts with `_`."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Each round of a loop costs a step, and one more for 16 things in it."""
        if node.recursive:
            expected = "a recursive loop has no bound; a macro may call itself"
            raise jinja2.TemplateSyntaxError(expected, node.lineno)
        cost = 1 + sum(1 for _ in node.find_all(nodes.Node)) // 16
        self.generic_visit(node)
        node.iter = _filtered(node.iter, _ROUNDS, nodes.Const(cost))
        return node

    def _made(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        stored = isinstance(node, nodes.Tuple) and node.ctx != "load"
        return node if stored else _filtered(node, _MEASURED)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802 - the same
        """`a in b` and the like take time by the sizes of both."""
        self.generic_visit(node)
        node.expr = _filtered(node.expr, _SEARCHED)
        for operation in node.ops:
            operation.expr = _filtered(operation.expr, _SEARCHED)
        return node

    visit_List = visit_Tuple = visit_Dict = visit_Concat = _made  # noqa: N815 - the same

    def visit_Getattr(self, node: nodes.Getattr) -> nodes.Node:  # noqa: N802 - the same
        """An attribute by name."""
        _refuse_private(node.attr, node)
        return self.generic_visit(node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802 - the same
        """The same in brackets; a part of a text or a list is made, and costs by its size."""
        _refuse_private(getattr(node.arg, "value", None), node)
        self.generic_visit(node)
        return _filtered(node, _MEASURED) if isinstance(node.arg, nodes.Slice) else node


def _refuse_private(name: Any, node: nodes.Node) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise PrivateError(name, node.lineno)


def _filtered(node: nodes.Node, name: str, *given: nodes.Expr) -> nodes.Filter:
    call = nodes.Filter(node, name, [*given], [], None, None, lineno=node.lineno)
    call.environment = node.environment
    return call


@final
class _Template(jinja2.Template):
    """A template of which an import has a size, too: its text is part of what prints it."""

    def make_module(self, *args: Any, **values: Any) -> Any:
        """What `import` gives."""
        module: Any = super().make_module(*args, **values)
        _budget.fit(sum(map(len, module._body_stream)), "an import")
        return module


@final
class Sandbox(ImmutableSandboxedEnvironment):
    """An environment in which templates reach nothing, with bounds for what filters make."""

    intercepted_binops = _BINARY
    template_class = _Template
    #: Part of the names under which compiled templates are kept: it grows with what they call.
    edition = 1

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.budget = budget = _budget
        self._fine: set[tuple[type, str]] = set()
        for name in _DROPPED:
            del self.filters[name]
        self.filters |= {
            "join": self._joined(self.filters["join"]),
            "replace": self._replaced,
            "indent": self._indented,
            "format": lambda text, *values, **named: self._filled(str(text), named or values),
        }
        self.filters = {name: self._paid(function) for name, function in self.filters.items()}
        self.filters |= {_MEASURED: budget.measured, _ROUNDS: budget.rounds}
        self.filters[_SEARCHED] = budget.searched
        self.globals.pop("lipsum")
        self.binop_table |= {"*": self._times, "**": _power, "%": self._filled}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        self.budget.fit(len(source), "a template")
        try:
            if len(_OPENING.findall(source)) > MOST_NODES:
                raise BudgetError(_MANY)
            read = super()._parse(source, name, filename)
            if sum(1 for _ in read.find_all(nodes.Node)) > MOST_NODES:
                raise BudgetError(_MANY)
            tree: nodes.Template = _Watched().visit(read)
        except PrivateError as error:
            error.path = filename or ""
            raise
        return tree

    def _load_template(self, name: str, globals: Any) -> jinja2.Template:
        _budget.step()
        return super()._load_template(name, globals)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """An attribute of a value: whether a template may have it follows from the type."""
        key = (type(obj), attribute)
        if key in self._fine:
            with suppress(AttributeError):  # of another object of the type
                return getattr(obj, attribute)
        value = super().getattr(obj, attribute)
        if hasattr(obj, attribute) and self.is_safe_attribute(obj, attribute, value):
            self._fine.add(key)
        return value

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may have an attribute of a value."""
        kind = next((base for base in type(obj).__mro__ if base in METHODS), None)
        fine = kind is None or type(obj) is not kind or attr in METHODS[kind]
        return fine and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Any:
        """`str.format`, which reaches through what it is given, is gone; `%` does."""
        if getattr(value, "__name__", "") in ("format", "format_map") and isinstance(
            getattr(value, "__self__", None), str
        ):
            raise SecurityError("it calls str.format; `%` and `~` do, too")
        return None

    def call(self, context: Any, function: Any, *args: Any, **values: Any) -> Any:
        """Call something in a template."""
        _budget.step()
        owner = getattr(function, "__self__", None)
        for argument in (owner, *args):
            if type(argument) is str or type(argument) is list or type(argument) is tuple:
                _budget.searched(argument)
        return _budget.measured(super().call(context, function, *args, **values))

    def concat(self, parts: Iterable[str]) -> str:
        """What a template or a macro has printed, as one text."""
        pieces = parts if isinstance(parts, list) else list(_until_too_large(parts))
        size = sum(map(len, pieces))
        if size > LARGEST:
            raise BudgetError(TOO_LARGE % "an output")
        _budget.step(len(pieces) // 16 + size // _PER_STEP)
        return "".join(pieces)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute `left operator right`."""
        return self.budget.measured(self.binop_table[operator](left, right))

    def _paid(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter of which what it makes is measured."""

        @wraps(function)
        def call(*args: Any, **values: Any) -> Any:
            self.budget.step()
            for arg in args:
                self.budget.searched(arg)
            return self.budget.measured(function(*args, **values))

        return call

    def _filled(self, text: Any, values: Any) -> Any:
        """`%`: a remainder, or a text with places, of which none is wide."""
        if isinstance(text, str):
            self.budget.fit(_check_places(text, values), "a text")
        return text % values

    def _times(self, left: Any, right: Any) -> Any:
        for value, times in ((left, right), (right, left)):
            if isinstance(value, (str, list, tuple)) and isinstance(times, int):
                self.budget.fit(len(value) * max(times, 0))
        return left * right

    def _joined(self, default: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(default)
        def join(
            context: Any, values: Iterable[Any], between: Any = "", attribute: Any = None
        ) -> Any:
            listed = list(values)
            self.budget.fit(len(str(between)) * len(listed), "a text")
            return default(context, listed, between, attribute)

        return join

    def _replaced(self, text: Any, old: Any, new: Any) -> str:
        """Each `old` in a text as `new`."""
        within, gone, put = str(text), str(old), str(new)
        self.budget.fit(len(within) + within.count(gone) * len(put), "a text")
        return within.replace(gone, put)

    def _indented(self, text: Any, width: int = 4, first: bool = False, blank: bool = False) -> str:
        """The lines of a text further to the right, all but the first."""
        lines = str(text).splitlines(keepends=True)
        self.budget.fit(len(lines) * int(width), "a text")
        moved = [" " * width + line if blank or line.strip() else line for line in lines]
        return "".join(moved if first else [*lines[:1], *moved[1:]])


def _until_too_large(parts: Iterable[str]) -> Iterator[str]:
    size = 0
    for part in parts:
        size += len(part)
        if size > LARGEST and isinstance(parts, Generator):
            parts.throw(BudgetError(TOO_LARGE % "an output"))  # where the template stands
        yield part
