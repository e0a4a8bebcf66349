"""Traces: one run of a function with symbols in place of its tensors and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol, final

from netcl_core.hardware.device import Device
from netcl_core.jit.arguments import Arguments, replaced, results_of
from netcl_core.jit.entries import Entry
from netcl_core.jit.guards import Guards
from netcl_core.jit.program import FUSION, Program, Rewritten
from netcl_core.jit.resuming import given_back, resume
from netcl_core.plugins.registry import registry
from netcl_core.tape.node import Node
from netcl_core.tape.trace_node import CONSTANT, RANDOM, TraceBreak, TraceNode
from netcl_core.tape.traced_number import TracedNumber
from netcl_core.tape.tracing import TracingContext
from netcl_core.tensors.tensor import Tensor

#: With these names a function asks for the type of an object; that a symbol is a Tensor is true.
_ASKING: Final = frozenset({"isinstance", "issubclass", "type", "__class__"})
_EXACTLY: Final = _ASKING - {"isinstance"}
#: The reason not to trace a function that would be misled by symbols.
_KIND: Final = "type"
#: With these names a function asks for gradients of values between two ops, which a kernel that
#: computes both does not know.
_GRADIENTS: Final = frozenset({"grad", "register_hook", "retain_grad"})
#: What stands for tensors and numbers, and what the caller gave.
_SYMBOLS: Final = (Node, TraceNode, TracedNumber)
_GIVEN: Final = (Tensor, int, float)


class Patterns(Protocol):
    """Training patterns, and what they make of a trace."""

    @property
    def version(self) -> int:
        """Grows with every change that the registry's version does not count."""

    def rewritten(
        self, context: TracingContext, results: Sequence[TraceNode], device: Device | None
    ) -> Rewritten:
        """The trace with the groups replaced that patterns take."""


def registered_patterns() -> Patterns | None:
    """Those that plugins and the user have registered; None without any."""
    space = registry.space("patterns") if registry.rows("pattern") else None
    return None if space is None else space.REGISTERED_ROWS


def _asks(names: AbstractSet[str], how: AbstractSet[str], kinds: AbstractSet[str]) -> bool:
    """Whether there are both a way to ask for a type, and one of some types."""
    return not (how.isdisjoint(names) or kinds.isdisjoint(names))


@final
class Trace:
    """One run of a function for given arguments.

    Attributes:
        entry: What came of it: a program, or the reason why there is none.
        ran: Whether the function did what it does, and `result` is its result: a trace that
            `resumes` goes on with data where symbols are not enough.
        error: What the function raised while it had symbols.
        suspect: Whether that may be due to the symbols.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        given: Arguments,
        resumes: bool,
        patterns: Patterns | None,
    ) -> None:
        registry.load(("pattern",))  # else they come later, and what was traced is outdated
        self._has_parts = registry.space(FUSION) is not None
        self.entry = Entry(None, registry.version)
        self.ran = False
        self.result: Any = None
        self.error: Exception | None = None
        self._function = function
        self._given = given
        self._patterns = patterns
        self._names: set[str] = set()
        self._numbers = [TracedNumber(value, i) for i, value in enumerate(given.numbers)]
        self._context = TracingContext(self._resume if resumes else None)

    def run(self, args: Any, kwargs: Any) -> Trace:
        """Run the function, with symbols as long as possible."""
        try:
            self._watch()
            symbols, numbers = self._symbols()
            args = replaced(args, symbols, numbers)
            nodes = self._call(args, replaced(kwargs, symbols, numbers))
            if not self.ran and self.error is None:
                self._finish(nodes)
        except TraceBreak as reason:
            self.entry.reason = reason
            self.entry.in_parts = self.error is None and reason.op != _KIND
        if not self.ran:
            self._note_reads()
        self.entry.in_parts &= self._has_parts and _GRADIENTS.isdisjoint(self._names)
        if self.entry.in_parts:  # Python decides at each call, whatever it reads
            self.entry.guards, self.entry.reads = None, set()
        return self

    @property
    def suspect(self) -> bool:
        """Whether symbols may be the cause of the error: the function is to be asked again."""
        error = self.error
        if not _ASKING.isdisjoint(self._names):
            return True
        if isinstance(error, AttributeError):
            known = any(hasattr(kind, error.name or "") for kind in _GIVEN)
            return known and isinstance(error.obj, _SYMBOLS)
        return isinstance(error, TypeError) and any(
            kind.__name__ in str(error) for kind in _SYMBOLS
        )

    def _watch(self) -> None:
        names = self._names
        self.entry.guards = Guards([self._function, *self._given.objects], names)
        kinds = {subclass.__name__ for subclass in Tensor.__subclasses__()}
        if _asks(names, _ASKING, kinds) or _asks(names, _EXACTLY, {"Tensor"}):
            raise TraceBreak(_KIND, "it asks which kind of tensor it was given")
        if "type" in names:  # `type(x)` cannot be answered for a symbol
            for x in self._numbers:
                x.read()

    def _symbols(self) -> tuple[list[Any], list[Any]]:
        """What the function gets: of a number that is part of the key already, the number."""
        numbers = [x.read() if x.was_read else x for x in self._numbers]
        return [self._context.input(x) for x in self._given.tensors], numbers

    def _call(self, args: Any, kwargs: Any) -> list[TraceNode]:
        """Call the function; the nodes that it returned."""
        context = self._context
        results: list[Any] = []
        with context:
            try:
                result = self._function(*args, **kwargs)
            except Exception as error:
                if self.ran:
                    raise
                self._failed(error)
                return []
            if not self.ran:
                try:
                    if context.broken is not None:
                        raise context.broken
                    self.entry.structure = results_of(result, results)
                except TraceBreak as reason:
                    context.interrupt(reason.op, reason.reason)
                except RecursionError:
                    context.interrupt("return", "a result that contains itself")
            if not self.ran and any(map(context.overwritten, results)):
                context.interrupt("return", "a tensor that the function has overwritten")
            if self.ran:
                self.result = given_back(result, context)
                return []
            nodes = [context.node_of(x) for x in results]
        return [node for node in nodes if node is not None]

    def _finish(self, results: list[TraceNode]) -> None:
        """Make the program."""
        nodes = self._context.nodes
        device = next((node.device for node in nodes), None)
        written = list(self._context.writes.values())
        results = [*results, *(node for _, node in written)]
        trace = self._rewritten(results, device)
        try:
            program = Program(trace, [target for target, _ in written])
        except Exception as error:
            self._failed(error)
            self.error = None  # the function has raised nothing
            return
        entry = self.entry
        entry.program = program
        entry.sizes = self._given.signature()[1]
        seen = self._context.sizes.union(
            trace.sizes,
            *(node.shape for node in nodes if node.op_name in (CONSTANT, RANDOM)),
            *(node.shape for _, node in written),
        )
        program.fixed = seen - {0, 1}
        entry.fixed = {i for i, size in enumerate(entry.sizes) if size in seen}

    def _rewritten(self, results: list[TraceNode], device: Device | None) -> Rewritten:
        """The trace, with the groups replaced that patterns take, if there are any."""
        patterns = self._patterns or registered_patterns()
        if patterns is not None:
            return patterns.rewritten(self._context, results, device)
        nodes = self._context.nodes
        return Rewritten(nodes, results, written=sum(node.call is not None for node in nodes))

    def _failed(self, error: Exception) -> None:
        self.error = error
        reason = f"tracing raised {type(error).__name__}: {error}"
        self.entry.reason = TraceBreak("jit_compile", reason)

    def _resume(self, context: TracingContext) -> None:
        self._note_reads()
        self.ran = True
        self.entry.reason = context.broken
        self.entry.in_parts = True
        resume(context)

    def _note_reads(self) -> None:
        self.entry.reads = {x.index for x in self._numbers if x.was_read}
        if self._context.asked_layouts:
            self.entry.reads.add(len(self._numbers))
