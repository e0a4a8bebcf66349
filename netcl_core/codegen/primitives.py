"""AutogradPrimitive: the one record from which everything about an elementwise op follows."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, final

from netcl_core.codegen.expressions import (
    Apply,
    Expr,
    Name,
    is_mask,
    needs_floating,
    parse,
    to_c,
    walk,
)
from netcl_core.errors import AttributeValueError, PrimitiveError, TemplateError, message
from netcl_core.runtime.rendering import get_module, rendered_macro
from netcl_core.tensors.functions import functions

Forward: TypeAlias = Callable[[list[str], dict[str, Any]], str]
Backward: TypeAlias = Callable[[list[str], str, dict[str, Any], str], Sequence[str | None]]
Choices: TypeAlias = tuple[tuple[str, str | None], ...]

GRAD: Final = "grad"
OUT: Final = "out"
RESULTS: Final = ("same", "bool", "float")
#: The default of an attribute that has none.
REQUIRED: Final = object()


def is_number(value: Any) -> bool:
    """Whether an attribute's value is a kernel argument; words and None are part of the source."""
    return isinstance(value, (bool, int, float))


def split_attrs(attrs: Mapping[str, Any]) -> tuple[dict[str, Any], Choices]:
    """Attributes that are numbers, by name, and the others, both in order.

    >>> split_attrs({"slope": 0.1, "mode": "tanh", "limit": None})
    ({'slope': 0.1}, (('mode', 'tanh'), ('limit', None)))
    """
    numbers = {name: value for name, value in attrs.items() if is_number(value)}
    return numbers, tuple([pair for pair in attrs.items() if pair[0] not in numbers])


@final
@dataclass(frozen=True, slots=True)
class Parsed:
    """A primitive's expressions for one choice of its attributes.

    `backward` has one entry per input, None where there is no gradient; it is
    None as a whole for a primitive that is not differentiable. `at_result` says that all entries
    are one expression that reads no input and compares the result alone, as that of relu.
    """

    inputs: tuple[str, ...]
    forward: Expr
    backward: tuple[Expr | None, ...] | None
    result: str
    floating: bool
    at_result: bool = False


@final
@dataclass(frozen=True, eq=False)
class AutogradPrimitive:
    """An elementwise op as scalar C expressions.

    >>> cube = ag.AutogradPrimitive("cube", lambda x, attrs: f"{x[0]} * {x[0]} * {x[0]}",
    ...     lambda x, grad, attrs, out: [f"3 * {x[0]} * {x[0]} * {grad}"], arity=1)
    >>> cube(nc.tensor([2.0])).item()
    8.0

    Expressions speak of one element: the core broadcasts the inputs (NumPy's rule), promotes their
    dtypes, computes float16 in float32, and sums gradients to each input's shape. `forward` and
    `backward` make text, once per choice of words, and never see data, devices or the grad mode.
    The result has a buffer of its own. Raises PrimitiveError where a field or expression is wrong.

    Args:
        name: The op's name, an identifier.
        forward: `(inputs, attrs) -> str`, the expression of the output. `inputs` are C
            names. A numeric attribute comes as the name of a kernel argument, a
            word (`"tanh"`) as itself, an absent one as None.
        backward: `(inputs, grad, attrs, out) -> list`, an expression (or None) per
            input; `grad` and `out` are names. None: not differentiable.
        arity: The number of inputs; None: any.
        fusible: Whether the JIT may put it into one kernel with its neighbours.
        attrs: Attribute names, or a mapping of names to defaults.
        choices: The words that an attribute may take, by attribute.
        ranges: The least and the most value of a numeric attribute, None: no bound.
        result: `"same"` (the promoted dtype of the inputs), `"float"` (integers become
            float32), `"bool"`; None: found from the expression.
        reference: A NumPy function `(*arrays, **attrs) -> array` for float64 checks.
        doc: A text for the documentation.
        inputs: The names of the inputs.
        template: The template that it was read from.
        align: `(*operands) -> operands`, tensors or plain numbers: those that the op is called
            with, checked and made to broadcast by other ops (slopes per channel moved to axis 1,
            say); None: they broadcast as they are.
        parts: Operators and primitives that `align` and `forms` alone use, as of an Operator.
        forms: By the name of an argument, `(*operands, **arguments) -> result`: the op of other
            ops, for calls with an argument of that name that is no attribute, or is one and comes
            as a tensor (`add(x, y, alpha=2)`, `clamp(x, min=low)`).
        commutative: Whether its two inputs may be swapped: patterns match it either way round.
        alias_of: The op that this is another name for; to patterns the two are one.
    """

    name: str
    forward: Forward
    backward: Backward | None
    arity: int | None = None
    fusible: bool = True
    attrs: Mapping[str, Any] | Sequence[str] = ()
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    result: str | None = None
    reference: Callable[..., Any] | None = None
    doc: str = ""
    inputs: Sequence[str] | None = None
    template: str | None = None
    align: Callable[..., Sequence[Any]] | None = None
    parts: Sequence[Any] = ()
    forms: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    commutative: bool = False
    alias_of: str = ""
    ranges: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    _parsed: dict[Any, Parsed] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not (self.name.isidentifier() and self.name.isascii()):
            raise PrimitiveError(
                message("primitive", f"the name {self.name!r}", "an identifier in ASCII")
            )
        if not callable(self.forward) or not (self.backward is None or callable(self.backward)):
            raise self._error("forward or backward is not callable", "two callables")
        if self.arity is not None and (not isinstance(self.arity, int) or self.arity < 1):
            raise self._error(f"arity {self.arity!r}", "1 or more, or None")
        if self.commutative and self.arity != 2:
            raise self._error(f"commutative with arity {self.arity}", "arity=2")
        if self.result is not None and self.result not in RESULTS:
            raise self._error(f"result {self.result!r}", f"one of {', '.join(RESULTS)}")
        if not isinstance(self.attrs, Mapping):
            object.__setattr__(self, "attrs", dict.fromkeys(self.attrs, REQUIRED))

    def _error(self, given: str, expected: str, remedy: str = "") -> PrimitiveError:
        return PrimitiveError(message(self.name, given, expected, remedy))

    def _wrong_attr(self, given: str, expected: str) -> AttributeValueError:
        return AttributeValueError(message(self.name, given, expected))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The op, whether it is public or a part of another."""
        return functions.of_record(self)(*args, **kwargs)

    @classmethod
    def from_template(
        cls,
        template: str,
        *,
        name: str | None = None,
        arity: int | None = None,
        fusible: bool = True,
        attrs: Mapping[str, Any] | Sequence[str] | None = None,
        reference: Callable[..., Any] | None = None,
        align: Callable[..., Sequence[Any]] | None = None,
        parts: Sequence[Any] = (),
        forms: Mapping[str, Callable[..., Any]] | None = None,
        alias_of: str = "",
    ) -> AutogradPrimitive:
        """Read a primitive from a Jinja template `<prefix>/<file>`.

        The template holds the macros `forward(x, ...)` and, if the op is
        differentiable, `backward(x, ..., grad, out)` with one expression per input,
        separated by `;` (`none`: no gradient). Attributes follow the inputs as further
        macro arguments. The template may set `attrs` (names with defaults),
        `choices`, `ranges`, `result` and `commutative`; the name defaults to the file's stem.

        Raises TemplateError if the file or a macro is missing.
        """
        module = get_module(template)
        macro = getattr(module, "forward", None)
        who = f"template {template!r}"
        if macro is None:
            raise TemplateError(message(who, "it has no macro forward", "forward(x, ...)"))
        declared = getattr(module, "attrs", {}) if attrs is None else attrs
        names = tuple(macro.arguments)
        if arity is None:
            arity = len(names) - len(declared)
        if tuple(names[arity:]) != tuple(declared):
            given = f"forward takes {names}, of which the last are not the attributes"
            expected = f"{arity} inputs followed by {tuple(declared)}"
            raise TemplateError(message(who, given, expected))
        back = getattr(module, "backward", None)
        forward = rendered_macro(template, macro)
        return cls(
            name=name or template.rsplit("/", 1)[-1].split(".", 1)[0],
            forward=lambda args, values: forward(*args, **values),
            backward=None if back is None else _macro_backward(rendered_macro(template, back)),
            arity=arity,
            fusible=fusible,
            attrs=declared,
            choices=getattr(module, "choices", {}),
            ranges=getattr(module, "ranges", {}),
            result=getattr(module, "result", None),
            reference=reference,
            doc=getattr(module, "doc", ""),
            inputs=names[:arity],
            template=template,
            align=align,
            parts=parts,
            forms=forms or {},
            commutative=bool(getattr(module, "commutative", False)),
            alias_of=alias_of,
        )

    @classmethod
    def of_trees(cls, name: str, parsed: Parsed, choices: Choices) -> AutogradPrimitive:
        """A primitive for one number of inputs and one choice of words, known as trees."""
        primitive = cls(name, lambda *_: to_c(parsed.forward), None, len(parsed.inputs))
        primitive._parsed[len(parsed.inputs), choices] = parsed
        return primitive

    def default_attrs(self) -> dict[str, Any] | None:
        """The attributes of a call that gives none; None if some have to be given."""
        table: Mapping[str, Any] = self.attrs  # type: ignore[assignment]  # a mapping since init
        return None if REQUIRED in table.values() else self.bind_attrs({})

    def bind_attrs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes with defaults filled in; raises AttributeValueError if one is wrong."""
        table: Mapping[str, Any] = self.attrs  # type: ignore[assignment]  # a mapping since init
        for name in given:
            if name not in table:
                known = ", ".join(table) or "none"
                raise self._wrong_attr(f"the attribute {name!r} is unknown", f"one of {known}")
        return {
            name: self._check_attr(name, given.get(name, default), default)
            for name, default in table.items()
        }

    def _check_attr(self, name: str, value: Any, default: Any) -> Any:
        if value is REQUIRED:
            raise self._wrong_attr(f"the attribute {name!r} is missing", "a value for it")
        words = self.choices.get(name)
        if words is not None:
            if isinstance(value, str) and value in words:
                return value
            raise self._wrong_attr(f"{name}={value!r}", "one of " + ", ".join(map(repr, words)))
        if getattr(value, "ndim", None) == 0:
            value = value.item()  # NumPy scalars, 0-d arrays and tensors
        if not is_number(value) and isinstance(value, numbers.Real):
            value = float(value)
        if is_number(value):
            return self._in_range(name, value)
        if value is None and (default is None or default is REQUIRED):
            return None
        raise self._wrong_attr(f"{name}={value!r} is not a number", "an int or a float")

    def _in_range(self, name: str, value: Any) -> Any:
        least, most = self.ranges.get(name, (None, None))
        low = -math.inf if least is None else least
        high = math.inf if most is None else most
        if name in self.ranges and not low <= value <= high:
            raise self._wrong_attr(f"{name}={value!r}", f"a number from {low} to {high}")
        return value

    def parsed(self, arity: int, choices: Choices) -> Parsed:
        """The expressions for a number of inputs and a choice of words and absent attributes.

        Raises PrimitiveError, which shows the expression, if one is wrong; the result
        is kept, so that each expression is parsed once.
        """
        key = (arity, choices)
        parsed = self._parsed.get(key)
        if parsed is None:
            parsed = self._parsed[key] = self._parse(arity, dict(choices))
        return parsed

    def texts(self, arity: int, choices: Choices) -> list[str]:
        """All that decides whether the expressions of such a use are right, as texts."""
        names = self._names(arity)
        attrs = {name: dict(choices).get(name, name) for name in self.attrs}
        backward: Any = ()
        if self.backward is not None:
            backward = self.backward(list(names), GRAD, dict(attrs), OUT)
        forward = self.forward(list(names), dict(attrs))
        return [self.name, *names, repr(attrs), repr(choices), str(forward), repr(backward)]

    def _parse(self, arity: int, choices: dict[str, str | None]) -> Parsed:
        names = self._names(arity)
        attrs = {name: choices.get(name, name) for name in self.attrs}
        visible = [*names, *(name for name in attrs if name not in choices)]
        forward = parse(self._text(self.forward(list(names), dict(attrs))), visible, self.name)
        backward = self._parse_backward(names, attrs, visible)
        result = self._result(forward)
        floating = result == "float" or (result == "bool" and needs_floating(forward))
        at_result = _compares_result(names, backward or ())
        return Parsed(names, forward, backward, result, floating, at_result)

    def _names(self, arity: int) -> tuple[str, ...]:
        """The names of the inputs, which no attribute may share, nor `grad` and `out`."""
        names = tuple(self.inputs or (f"x{i}" for i in range(arity)))
        seen: set[str] = {GRAD, OUT}
        for name in (*names, *self.attrs):
            if name in seen:
                raise self._error(f"the name {name!r} stands for two things", "distinct names")
            seen.add(name)
        return names

    def _parse_backward(
        self, names: tuple[str, ...], attrs: dict[str, Any], visible: list[str]
    ) -> tuple[Expr | None, ...] | None:
        if self.backward is None:
            return None
        texts = self.backward(list(names), GRAD, dict(attrs), OUT)
        if isinstance(texts, str) or len(texts) != len(names):
            given = 1 if isinstance(texts, str) else len(texts)
            raise self._error(
                f"backward returned {given} gradients",
                f"{len(names)}, one per input",
                "Return a list with None for an input without gradient",
            )
        scope = [*visible, GRAD, OUT]
        return tuple(
            None if text is None else parse(self._text(text), scope, f"{self.name} backward")
            for text in texts
        )

    def _text(self, text: Any) -> str:
        if isinstance(text, str) and text.strip():
            return text
        raise self._error(f"{text!r} is no expression", "a C expression")

    def _result(self, forward: Expr) -> str:
        if self.result is not None:
            return self.result
        if is_mask(forward):
            return "bool"
        return "float" if needs_floating(forward) else "same"


def _compares_result(names: Sequence[str], backward: Sequence[Expr | None]) -> bool:
    if len({*backward}) != 1 or backward[0] is None:
        return False
    nodes = [*walk(backward[0])]
    read = {node.id for node in nodes if isinstance(node, Name)}
    of_result = [x for x in nodes if isinstance(x, Apply) and Name(OUT) in x.args]
    return OUT in read and read.isdisjoint(names) and all(map(is_mask, of_result))


def _macro_backward(macro: Callable[..., str]) -> Backward:
    """The backward callable of a template's macro: its text, split at semicolons."""

    def backward(args: list[str], grad: str, attrs: dict[str, Any], out: str) -> list[str | None]:
        text = macro(*args, **attrs, grad=grad, out=out)
        parts = [part.strip() for part in text.split(";")]
        if parts and not parts[-1]:
            parts.pop()
        return [None if part == "none" else part for part in parts]

    return backward
