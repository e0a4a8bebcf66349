"""TrainingPattern: a group of ops, and what a compiled function computes in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final, get_args

from netcl_core.dtypes import DTYPES
from netcl_core.hardware.device import Device, Kind
from netcl_core.jit.matched_ops import Graph, MatchedOp, wrong
from netcl_core.ops.registrars import OpRegistrar
from netcl_core.runtime.rendering import get_template

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
        matcher: What it matches: the op of the group's value, or a tuple with that of each of
            several.
        planner: `(**captured) -> value`: a function of ops, traced with the captured values by
            name (operands with shape, dtype and device but no data; Python numbers; attributes),
            that gives the group's value: mostly one call of an Operator among `parts`; of a
            group with several the tuple of these. None, or a DtypeError, ShapeError or
            DeviceError of an op: it does not fit these after all.
        templates: The templates of its kernels, `<prefix>/<file>` each.
        dtypes: The dtypes that it is for: that of the group's value, which is the one of every
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
            fine = isinstance(given, (tuple, list)) and all(isinstance(each, str) for each in given)
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
        fine = all(isinstance(each, MatchedOp) for each in matcher) and len(matcher) > 1
        self._insist(fine, f"the matcher {matcher!r:.80}", _MATCHER)
        different = len({id(each) for each in matcher}) == len(matcher)
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


@final
class PatternRegistrar(OpRegistrar[TrainingPattern]):
    """Takes a plugin's training patterns with their parts; their templates have to be there."""

    def _check(self, record: TrainingPattern) -> None:
        """Raise TemplateError for a template that is missing or no Jinja."""
        for template in record.templates:
            get_template(template)
