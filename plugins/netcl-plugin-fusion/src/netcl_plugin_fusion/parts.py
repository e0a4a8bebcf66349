"""Parts: a function that no single program can stand for runs in Python at each call, and its ops
run as programs between the places where it needs data.

Python decides anew each time, so nothing has to be watched: a part is found again by what its ops
were, and another branch of an `if` on data is a part of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, Final, final

from netcl_core import Device, enable_grad, is_grad_enabled, no_grad
from netcl_core.autograd import TraceNode
from netcl_core.inspect.data import Memo
from netcl_core.inspect.programs import INPUT, Program, Rewritten, TracedNumber, give_values
from netcl_core.inspect.recorded import thread
from netcl_core.inspect.streams import replaced, stream_of
from netcl_plugin_fusion.part_tracer import PartTracer, TracedPart, facts_of

#: How many parts a function keeps; the least recently used one goes first.
_MAX_PARTS: Final = 256
#: What a function begins with, in launches; those that fusing saves are added.
_CREDIT: Final = 20_000
#: What a part costs that has to be built, and one that is known, in launches.
_BUILDING: Final = 200
_FINDING: Final = 2
#: Calls in which parts and whatever they need are built, and then those that are timed either way.
_WARMING: Final = 2
_TIMED: Final = 4


@final
class Timing:
    """Whether parts pay for calls of one kind: the first ones are timed, in parts and without.

    What an op takes that is fused with others is saved in a backward pass once more.

    Attributes:
        verdict: Why calls of the kind run op by op; None: they run in parts, or are timed yet.
    """

    __slots__ = ("_calls", "_fused", "_ops", "_times", "verdict")

    def __init__(self) -> None:
        self.verdict: str | None = None
        self._calls = self._ops = self._fused = 0
        self._times: dict[bool, list[float]] = {True: [], False: []}

    @property
    def open(self) -> bool:
        """Whether calls are timed yet: not where another stream is in the place of a device's."""
        return self._calls < _WARMING + 2 * _TIMED and not replaced

    def timed(self, device: Device, whole: Callable[[], Any], parts: Callable[[], Any]) -> Any:
        """What the function returns, by the way whose turn it is."""
        in_parts = self._calls < _WARMING or self._calls % 2 == 0
        self._calls += 1
        finish = stream_of(device).finish
        finish()
        began = perf_counter()
        result = parts() if in_parts else whole()
        finish()
        if self._calls > _WARMING:
            self._times[in_parts].append(perf_counter() - began)
        if self._calls == _WARMING + 2 * _TIMED:
            self._decide()
        return result

    def note(self, ops: int, fused: int) -> None:
        """Of the latest call in parts the ops, and how many gradients of ops fusing saves."""
        self._ops, self._fused = ops, fused

    def _decide(self) -> None:
        parts, whole = (min(self._times[way]) * 1e6 for way in (True, False))
        later = self._fused / max(self._ops, 1) * whole
        if parts > whole + later:
            expected = f", and parts would save {later:.0f} us in a backward pass" if later else ""
            self.verdict = (
                f"in parts a call took {parts:.0f} us, op by op {whole:.0f} us "
                f"(each the shortest of {_TIMED}){expected}"
            )


@final
class Parts:
    """The parts of a function.

    They are given up for calls that they do not make faster (see `Timing`), and for a function
    with other ops at each call, or with hardly any op between two places that need data.
    """

    trial = staticmethod(Timing)

    def __init__(self) -> None:
        self._parts: Memo[Any, TracedPart] = Memo(_MAX_PARTS)
        self._first: TracedPart | None = None
        self._credit = _CREDIT

    def __iter__(self) -> Iterator[Program]:
        """The programs of all parts, in the order in which they came."""
        return (part.program for part in self._parts.values())

    def run(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        trial: Timing,
        device: Device,
    ) -> Any:
        """What the function returns."""
        if self._credit <= 0 and trial.verdict is None:
            trial.verdict = "other ops come at each call, or hardly any between two looks at data"
        if trial.verdict is not None:
            return function(*args, **kwargs)
        if not trial.open:
            return self._in_parts(function, args, kwargs, trial)
        return trial.timed(
            device,
            lambda: function(*args, **kwargs),
            lambda: self._in_parts(function, args, kwargs, trial),
        )

    def _in_parts(self, function: Callable[..., Any], args: Any, kwargs: Any, trial: Timing) -> Any:
        last: TracedPart | None = None
        ops = fused = 0

        def run_part(tracer: PartTracer) -> TracedPart | None:
            nonlocal last, ops, fused
            part = self._run(tracer, self._first if last is None else last.after)
            if part is None:
                return None
            if last is None:
                self._first = part
            else:
                last.after = part
            last = part
            ops += part.ops
            fused += part.fused
            return part.after

        tracer = PartTracer(run_part, self._first)
        tracer.begin()
        thread.tracer = tracer
        try:
            return function(*args, **kwargs)
        finally:  # what it has kept elsewhere needs its values, too
            if thread.tracer is tracer:
                tracer.interrupt("return", "the function has ended")
            trial.note(ops, fused)

    def _run(self, tracer: PartTracer, expected: TracedPart | None) -> TracedPart | None:
        """Run what was taken down, for the symbols that the function still has."""
        symbols = tracer.symbols()
        if not symbols:
            return None
        nodes = tracer.nodes
        results = sorted({_computed(node).number for node, _ in symbols})
        part = expected
        if (
            part is None
            or tracer.expected is not part.nodes
            or len(nodes) != len(part.nodes)
            or results != part.results
        ):
            part = self._part(nodes, results, tracer.conditions)
        self._credit = min(self._credit + part.saved, _CREDIT)
        values = self._values(tracer, part)
        for node, _ in symbols:
            if node.number not in values:  # a detached value, on the memory of the other one
                values[node.number] = values[_computed(node).number].detach()
        give_values([(node, symbol, values[node.number]) for node, symbol in symbols])
        return part

    def _part(self, nodes: Sequence[TraceNode], results: list[int], conditions: Any) -> TracedPart:
        key = conditions, tuple(results), _calls(nodes)
        part = self._parts.get(key)
        if part is None:
            self._credit -= _BUILDING
            ops = sum(node.call is not None and not _is_view(node) for node in nodes)
            program = Program(Rewritten(nodes, [nodes[i] for i in results], written=ops))
            saved = ops - program.launches - _FINDING
            fused = 0
            if any(node.requires_grad for node in nodes):
                fused = sum(step.fused for step in program.steps)
            part = TracedPart(nodes, results, conditions, program, saved, ops, fused)
            self._parts.put(key, part)
        return part

    def _values(self, tracer: PartTracer, part: TracedPart) -> dict[int, Any]:
        """The results by number, recorded as the ops would have been."""
        tape, thread.tape = thread.tape, tracer.tape
        try:
            if tracer.grad == is_grad_enabled():
                results = part.program.run(tracer.given, tracer.numbers)
            else:
                with enable_grad() if tracer.grad else no_grad():
                    results = part.program.run(tracer.given, tracer.numbers)
        finally:
            thread.tape = tape
        return dict(zip(part.results, results, strict=True))


def _is_view(node: TraceNode) -> bool:
    return bool(node.call.view)


def _computed(node: TraceNode) -> TraceNode:
    """The node whose data a node shows: itself, unless it is a detached one."""
    while node.op_name == "detach" and node.call is None:
        (node,) = node.inputs
    return node


def _calls(nodes: Sequence[TraceNode]) -> tuple[Any, ...]:
    """What a program depends on: the ops, what they read, and what comes from outside."""
    return tuple([
        facts_of(node)
        if node.op_name == INPUT and node.call is None
        else (
            node.call or node.op_name,
            node.pick,
            tuple([x.number for x in node.inputs]),
            tuple([x.type if type(x) is TracedNumber else (type(x), x) for x in node.scalars]),
        )
        for node in nodes
    ])  # fmt: skip
