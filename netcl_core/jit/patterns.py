"""TrainingPattern: a group of ops that one kernel may compute. A record; nothing applies it yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from netcl_core.dtypes import DTYPES
from netcl_core.errors import RegistrationError, coded, message
from netcl_core.ops.registrars import RecordRegistrar
from netcl_core.runtime.rendering import get_template

_MATCHER: Final = "a MatchedOp, or a function that finds the ops"


@final
@dataclass(frozen=True, slots=True)
class MatchedOp:
    """One op of a group, and what it reads: a graph of these says what a pattern matches.

    Args:
        op: The op's name.
        inputs: Its operands in their order: another MatchedOp of the group, or a name for a
            value that comes from outside. One name in two places: one value.
        attrs: (name, value) of the attributes that it has to have; others may have any value.

    Example:
        >>> print(ag.MatchedOp("gelu", (ag.MatchedOp("add", ("x", "bias")),)))
        gelu(add(x, bias))
    """

    op: str
    inputs: tuple[MatchedOp | str, ...]
    attrs: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        inputs, attrs = self.inputs, self.attrs
        fine = _is_name(self.op) and isinstance(inputs, tuple) and isinstance(attrs, tuple)
        fine = fine and all(isinstance(each, MatchedOp) or _is_name(each) for each in inputs)
        if not fine or not all(isinstance(each, tuple) and len(each) == 2 for each in attrs):
            given = f"the op {self.op!r} of {inputs!r:.80} with {attrs!r:.80}"
            expected = "a name, a tuple of ops and names, and a tuple of (name, value)"
            raise coded("NP308", RegistrationError(message("MatchedOp", given, expected)))

    def __str__(self) -> str:
        attrs = [f"{name}={value!r}" for name, value in self.attrs]
        return f"{self.op}({', '.join([*map(str, self.inputs), *attrs])})"


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and text.isidentifier()


#: The graph of a group; or a function that is given the units of a traced region and returns the
#: captured values by name, or None, for a group that no fixed graph describes.
Matcher: TypeAlias = MatchedOp | Callable[..., Any]


@final
@dataclass(frozen=True, eq=False)
class TrainingPattern:
    """A group of ops, and what takes its place when a function with such a group is compiled.

    >>> group = ag.MatchedOp("gelu", (ag.MatchedOp("add", ("x", "bias")),))
    >>> print(ag.TrainingPattern("bias_gelu", group, lambda x, bias: None).summary)
    gelu(add(x, bias)) in any dtype

    Args:
        name: The pattern's name, an identifier.
        matcher: What it matches.
        planner: Is given the captured values by name, and returns what computes the group.
        templates: The templates of its kernels, `<prefix>/<file>` each.
        dtypes: The dtypes that it is for; none: any.
        doc: A text for the documentation.

    Raises RegistrationError for a field that cannot be what it should be.
    """

    name: str
    matcher: Matcher
    planner: Callable[..., Any]
    templates: Sequence[str] = ()
    dtypes: Sequence[str] = ()
    doc: str = ""

    def __post_init__(self) -> None:
        fine = isinstance(self.matcher, MatchedOp) or callable(self.matcher)
        self._insist(fine, f"the matcher {self.matcher!r}", _MATCHER)
        self._insist(callable(self.planner), f"the planner {self.planner!r}", "a function")
        for name in ("templates", "dtypes"):
            given = getattr(self, name)
            fine = isinstance(given, (tuple, list)) and all(isinstance(each, str) for each in given)
            self._insist(fine, f"{name} = {given!r}", "a tuple of names")
            object.__setattr__(self, name, tuple(given))
        for dtype in self.dtypes:
            self._insist(dtype in DTYPES, f"the dtype {dtype!r}", f"one of {', '.join(DTYPES)}")

    def _insist(self, fine: bool, given: str, expected: str) -> None:
        if not fine:
            text = message(f"training pattern {self.name!r}", given, expected)
            raise coded("NP308", RegistrationError(text))

    @property
    def summary(self) -> str:
        """What it matches, and in which dtypes, in one line."""
        graph = isinstance(self.matcher, MatchedOp)
        matched = str(self.matcher) if graph else "what its function finds"
        return f"{matched} in {', '.join(self.dtypes) or 'any dtype'}"


@final
class PatternRegistrar(RecordRegistrar[TrainingPattern]):
    """Takes a plugin's training patterns; their templates have to be there."""

    def _check(self, record: TrainingPattern) -> None:
        """Raise TemplateError for a template that is missing or no Jinja."""
        for template in record.templates:
            get_template(template)
