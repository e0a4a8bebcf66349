"""What training patterns say: the group of ops that each is for, and what it computes instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Final, TypeAlias, final, get_args

from netcl_core import DTYPES, Device
from netcl_core.errors import RegistrationError, coded, message
from netcl_core.inspect.streams import Kind


@final
@dataclass(frozen=True, slots=True)
class Captured:
    """In the place of a number or an attribute's value: the planner gets what it is by this name.

    >>> print(ag.MatchedOp("clamp", ("x",), (("min", 0.0), ("max", ag.Captured("top")))))
    clamp(x, min=0.0, max=top)
    """

    name: str

    def __post_init__(self) -> None:
        if not _is_name(self.name):
            raise wrong("Captured", f"the name {self.name!r}", "an identifier")

    def __str__(self) -> str:
        return self.name


@final
@dataclass(frozen=True, slots=True)
class MatchedOp:
    """One op of a group, and what it reads: a graph of these says what a pattern matches.

    Args:
        op: The op's name. An op that is a function of other ops (`layer_norm`, `mse_loss`) is
            one op here, whoever computes it.
        inputs: Its operands in the order of its signature, each one of: another MatchedOp of
            the group; a name for a tensor that comes from outside; a number, which the operand
            has to be; Captured(...) for any Python number; None for an operand that is absent.
            Those at the end that are left out have to be absent. Operands of a commutative op
            (`AutogradPrimitive.commutative`: add, mul, maximum, minimum, eq, ne) match either
            way round.
        attrs: (name, value) of the attributes that it has to have, or (name, Captured(...));
            others may have any value.
        result: Which of the op's results is meant.

    One name, or one MatchedOp, in two places: one value. Two names: values that may differ, or not.

    Example:
        >>> print(ag.MatchedOp("gelu", (ag.MatchedOp("add", ("x", "bias")),)))
        gelu(add(x, bias))
    """

    op: str
    inputs: tuple[MatchedOp | str | float | Captured | None, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    result: int = 0

    def __post_init__(self) -> None:
        inputs, attrs = self.inputs, self.attrs
        fine = _is_name(self.op) and isinstance(inputs, tuple) and isinstance(attrs, tuple)
        fine = fine and all(map(_is_input, inputs)) and type(self.result) is int
        if not fine or not all(isinstance(attr, tuple) and len(attr) == 2 for attr in attrs):
            given = f"the op {self.op!r} of {inputs!r:.80} with {attrs!r:.80}"
            expected = "a name, a tuple of ops, names and numbers, and a tuple of (name, value)"
            raise wrong("MatchedOp", given, expected)

    def __str__(self) -> str:
        shown = [
            f"{name}={value}" if isinstance(value, Captured) else f"{name}={value!r}"
            for name, value in self.attrs
        ]
        which = f"[{self.result}]" if self.result else ""
        return f"{self.op}({', '.join([*map(str, self.inputs), *shown])}){which}"

    @property
    def ops(self) -> list[MatchedOp]:
        """The ops of the graph, each object once, operands first."""
        ops: dict[int, MatchedOp] = {}
        for operand in self.inputs:
            if isinstance(operand, MatchedOp):
                ops |= {id(op): op for op in operand.ops}
        ops[id(self)] = self
        return list(ops.values())

    @property
    def names(self) -> list[str]:
        """The names of what is captured, each once, in the order in which they are read."""
        names: list[str] = []
        for operand in self.inputs:
            if isinstance(operand, MatchedOp):
                names += operand.names
            elif isinstance(operand, (str, Captured)):
                names.append(str(operand))
        names += [value.name for _, value in self.attrs if isinstance(value, Captured)]
        return list(dict.fromkeys(names))


@final
@dataclass(frozen=True, slots=True)
class Graph:
    """The ops of a group with its results. Each result is the value of one op.

    >>> sine = ag.MatchedOp("sin", ("x",))
    >>> print(nc.patterns.Graph((ag.MatchedOp("square", (sine,)), sine)))
    (square(sin(x)), sin(x))
    """

    results: tuple[MatchedOp, ...]

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.results))
        return shown if len(self.results) == 1 else f"({shown})"

    @property
    def ops(self) -> list[MatchedOp]:
        """The ops, each object once, operands first."""
        return list({id(op): op for result in self.results for op in result.ops}.values())

    @property
    def names(self) -> list[str]:
        """The names of what is captured, each once, in the order in which they are read."""
        return list(dict.fromkeys(name for result in self.results for name in result.names))

    @property
    def tensors(self) -> list[str]:
        """Those of tensors; the others are numbers and attributes."""
        operands = {operand for op in self.ops for operand in op.inputs if isinstance(operand, str)}
        return [name for name in self.names if name in operands]


def _is_input(x: Any) -> bool:
    if isinstance(x, str):
        return x.isidentifier()
    return x is None or isinstance(x, (MatchedOp, Captured)) or type(x) in (int, float)


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and text.isidentifier()


def wrong(who: str, given: str, expected: str) -> RegistrationError:
    """What is raised for a field of a pattern that cannot be what it should be."""
    return coded("NP308", RegistrationError(message(who, given, expected)))


_MATCHER: Final = "a MatchedOp, a tuple of several, or a function that finds the ops"
_KINDS: Final[tuple[str, ...]] = get_args(Kind)


#: The graph of a group; of one with several results the op of each. Or a function that is given a
#: `TracedValue`, which may be a value of a group that no fixed graph describes, and returns the
#: captured values by name, with several results a pair of those and the results, or None.
Matcher: TypeAlias = MatchedOp | Sequence[MatchedOp] | Callable[[Any], Any]


@final
@dataclass(frozen=True, eq=False)
class TrainingPattern:
    """A group of ops, and what takes its place when a function with such a group is compiled.

    >>> group = ag.MatchedOp("gelu", (ag.MatchedOp("add", ("x", "bias")),))
    >>> print(ag.TrainingPattern("bias_gelu", group, lambda x, bias: None).summary)
    gelu(add(x, bias)) in any dtype

    Args:
        name: The pattern's name, an identifier.
        matcher: What it matches: the op of the group's value, or a tuple with the op of each of
            several. Or a function of values, `(*values) -> bool`, that compiled functions leave
            alone: `match(*values)`, `plan(*values)` and `ag.planned(name, *values)` ask it, and
            the planner gets these values.
        planner: `(**captured) -> value`: a function of ops, traced with the captured values by
            name (operands with shape, dtype and device but no data; Python numbers; attributes),
            that gives the group's value: mostly one call of an Operator among `parts`; of a
            group with several the tuple of these. None, or a DtypeError, ShapeError or
            DeviceError of an op: it does not fit these after all.
        templates: The templates of its kernels, `<prefix>/<file>` each.
        dtypes: The dtypes that it is for: the dtype of the value, and of every
            other floating value and floating tensor that is captured as well. None: any, and
            mixed ones.
        device_kinds: The kinds of devices that it is for, `cpu` (NumPy's path is one), `gpu` and
            `accelerator`; none: any.
        doc: A text for the documentation.
        parts: Operators and primitives that the planner alone uses: known to the registry, so
            that implementations of them are chosen and checks cover them, but no public ops.

    Raises RegistrationError for a field that cannot be what it should be.
    """

    name: str
    matcher: Matcher
    planner: Callable[..., Any]
    templates: Sequence[str] = ()
    dtypes: Sequence[str] = ()
    doc: str = ""
    parts: Sequence[Any] = ()
    device_kinds: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._check_matcher()
        self._insist(callable(self.planner), f"the planner {self.planner!r}", "a function")
        for name in ("templates", "dtypes", "device_kinds"):
            given = getattr(self, name)
            fine = isinstance(given, (tuple, list)) and all(
                isinstance(operand, str) for operand in given
            )
            self._insist(fine, f"{name} = {given!r}", "a tuple of names")
            object.__setattr__(self, name, tuple(given))
        fine = isinstance(self.parts, (tuple, list))
        self._insist(fine, f"parts = {self.parts!r:.80}", "a tuple of operators and primitives")
        for dtype in self.dtypes:
            self._insist(dtype in DTYPES, f"the dtype {dtype!r}", f"one of {', '.join(DTYPES)}")
        for kind in self.device_kinds:
            self._insist(kind in _KINDS, f"the device kind {kind!r}", f"one of {', '.join(_KINDS)}")

    def _check_matcher(self) -> None:
        matcher = self.matcher
        if not isinstance(matcher, (tuple, list)):
            fine = isinstance(matcher, MatchedOp) or callable(matcher)
            self._insist(fine, f"the matcher {matcher!r:.80}", _MATCHER)
            return
        fine = all(isinstance(op, MatchedOp) for op in matcher) and len(matcher) > 1
        self._insist(fine, f"the matcher {matcher!r:.80}", _MATCHER)
        different = len({id(op) for op in matcher}) == len(matcher)
        self._insist(different, "a matcher with one op twice", "each result once")
        object.__setattr__(self, "matcher", tuple(matcher))

    @property
    def graph(self) -> Graph | None:
        """What it matches as a graph; None: a function finds it."""
        if isinstance(self.matcher, MatchedOp):
            return Graph((self.matcher,))
        return Graph(self.matcher) if isinstance(self.matcher, tuple) else None

    @property
    def several(self) -> bool:
        """Whether its graph has several results."""
        return isinstance(self.matcher, tuple)

    @property
    def takes_values(self) -> bool:
        """Whether its matcher is a function of values, and not of one traced value."""
        if not callable(self.matcher):
            return False
        try:
            given = signature(self.matcher).parameters.values()
        except (TypeError, ValueError):  # a function that does not tell
            return False
        return len(given) != 1 or any(
            parameter.kind is parameter.VAR_POSITIONAL for parameter in given
        )

    def accepts(self, *values: Any, **options: Any) -> bool:
        """Whether its matcher is a function of values, and says True of these."""
        if not callable(self.matcher):
            return False
        try:
            signature(self.matcher).bind(*values, **options)
        except (TypeError, ValueError):  # it takes others
            return False
        try:
            return bool(self.matcher(*values, **options) is True)
        except Exception:
            if self.takes_values:
                raise
            return False  # it is for traced values

    def unmet(self, device: Device | None) -> str:
        """Why it is not for a device; empty if it is."""
        if device is None or not self.device_kinds or device.kind in self.device_kinds:
            return ""
        return f"it is for a {' or '.join(self.device_kinds)}, {device} is a {device.kind}"

    def _insist(self, fine: bool, given: str, expected: str) -> None:
        if not fine:
            raise wrong(f"training pattern {self.name!r}", given, expected)

    @property
    def summary(self) -> str:
        """What it matches, and in which dtypes, in one line."""
        matched = "what its function finds" if self.graph is None else str(self.graph)
        return f"{matched} in {', '.join(self.dtypes) or 'any dtype'}"
