"""Finds the groups of a traced function that a pattern fits, or says why it just does not.

The rules of a match, beside what the pattern's matcher says:

- the values in between are used by the group alone, and the function does not return them;
- what is captured is not computed by the group, nor from its results, so that nothing depends on
  itself;
- gradients pass through all of the group's ops or (inside `no_grad`) through none;
- the group's values and every floating tensor that is captured have one dtype of the pattern's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, TypeAlias, final

from netcl_core import DTYPES
from netcl_core.autograd import TraceNode
from netcl_core.inspect.programs import CONSTANT, INPUT, RANDOM, TracedNumber
from netcl_core.plugins.protocol import Row
from netcl_plugin_patterns.pattern_nodes import Reading, Traced, TracedValue
from netcl_plugin_patterns.records import Captured, Graph, MatchedOp, TrainingPattern

Captures: TypeAlias = dict[str, Any]


@final
@dataclass(frozen=True, eq=False, slots=True)
class Match:
    """A group of a trace that a pattern may take.

    Attributes:
        row: The pattern, with its provider.
        roots: The nodes of the group's values.
        several: Whether the planner gives a tuple of these.
        captured: What comes from outside, by name: TraceNodes, numbers, attributes.
        group: The numbers of the group's nodes.
        ops: The names of the ops that are replaced.
        cut: Whether no gradient passes through it.
    """

    row: Row
    roots: tuple[TraceNode, ...]
    several: bool
    captured: Captures
    group: frozenset[int]
    ops: tuple[str, ...]
    cut: bool

    @property
    def root(self) -> TraceNode:
        """The node of the first value, for readers."""
        return self.roots[0]

    @property
    def outside(self) -> list[TraceNode]:
        """The values that are captured."""
        return [x for x in self.captured.values() if isinstance(x, TraceNode)]

    @property
    def pattern(self) -> TrainingPattern:
        """The pattern's record."""
        record: TrainingPattern = self.row.record
        return record


@final
@dataclass(frozen=True, eq=False, slots=True)
class Miss:
    """A value that nearly is a group's, and what is against it; `failed`: it is an error."""

    row: Row
    root: TraceNode
    reason: str
    failed: bool = False


def ruled(trace: Traced, match: Match, cuts: set[bool]) -> Match | str:
    """The match, if nothing is against it; `cuts` says whether its ops pass no gradient on."""
    reason = _held_back(trace, match, cuts) or _wrong_place(match)
    return reason or replace(match, cut=cuts == {True})


def _held_back(trace: Traced, match: Match, cuts: set[bool]) -> str:
    group, roots = match.group, {root.number for root in match.roots}
    if not roots <= group:
        return "its ops do nothing here"
    if any(x.number in group for x in match.outside):
        return "it captures a value that the group computes"
    if len(roots) > 1 and depends(match.outside, group, {}):
        return "it captures a value that is computed from its results"
    if len(cuts) > 1:
        return "gradients pass through a part of its ops only (no_grad, detach)"
    for number in sorted(group - roots):
        node = trace.nodes[number]
        if node.op_name == CONSTANT:
            continue
        if number in trace.results:
            return f"the function returns its {node.op_name} too"
        if not group.issuperset(trace.users[number]):
            return f"its {node.op_name} is used elsewhere too"
    return ""


def depends(
    values: Sequence[TraceNode], group: frozenset[int], through: Mapping[int, Sequence[TraceNode]]
) -> bool:
    """Whether values are computed from a group's.

    `through` has by number of a node, in the place of its inputs, what it is computed from.
    """
    seen: set[int] = set()
    stack = [*values]
    while stack:
        node = stack.pop()
        if node.number in group:
            return True
        if node.number not in seen:
            seen.add(node.number)
            stack += through.get(node.number, node.inputs)
    return False


def _wrong_place(match: Match) -> str:
    """Why a pattern is not for the device or the dtypes of a group; empty if it is."""
    pattern, root = match.pattern, match.root
    if unmet := pattern.unmet(root.device):
        return unmet
    taken = pattern.dtypes
    if not taken:
        return ""
    values = (*match.roots, *match.outside)
    floating = {x.dtype for x in values if DTYPES[x.dtype].floating} or {root.dtype}
    if len(floating) > 1:
        return f"it takes one dtype, not {' and '.join(sorted(floating))}"
    (dtype,) = floating
    return "" if dtype in taken else f"dtype {dtype} is not one of {', '.join(taken)}"


#: In how many ways a graph with commutative ops is tried on one value.
_WAYS: Final = 64


def find(trace: Traced, row: Row) -> Iterator[Match | Miss]:
    """Every place of a trace where a pattern fits, or nearly does."""
    graph = row.record.graph
    if graph is None:
        yield from _by_function(trace, row)
        return
    if not all(trace.canonical(op.op) in trace.by_op for op in graph.ops):
        return
    first, *others = sorted(graph.results, key=lambda op: -len(op.ops))
    for node in trace.by_op[trace.canonical(first.op)]:
        reason = ""
        for candidate in islice(_all_fit(trace, first, others, node), _WAYS):
            match = _checked(trace, row, graph, candidate)
            if isinstance(match, Match):
                yield match
                break
            reason = reason or match
        else:
            if others and not reason:
                reason = _missing(trace, first, others, node)
            if reason:
                yield Miss(row, node, reason)


# -- graphs ------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _Found:
    """What a graph has met so far.

    Attributes:
        captured: Values by name.
        ops: Each MatchedOp, by identity, with its node and reading.
        wanted: (given, expected) of the numbers that have to be equal, compared at the end:
            then the program depends on a number of the call only where all else fits.
    """

    captured: Captures = field(default_factory=dict)
    ops: Mapping[int, tuple[TraceNode, Reading]] = field(default_factory=dict)
    wanted: tuple[tuple[Any, Any], ...] = ()

    def capture(self, name: str, value: Any) -> Iterator[_Found]:
        if name not in self.captured:
            yield replace(self, captured={**self.captured, name: value})
        elif _same(self.captured[name], value):
            yield self


def _fits(trace: Traced, op: MatchedOp, node: TraceNode, partial: _Found) -> Iterator[_Found]:
    """All ways in which a value is that of an op of a graph."""
    known = partial.ops.get(id(op))
    if known is not None:
        if known[0] is node:
            yield partial
        return
    for reading in trace.readings(node):
        if reading.op != trace.canonical(op.op) or reading.result != op.result:
            continue
        here = replace(partial, ops={**partial.ops, id(op): (node, reading)})
        for step in _attributes(op.attrs, reading.attrs, here):
            yield from _operands(trace, op.inputs, reading.operands, step)
            if reading.commutative:
                yield from _operands(trace, op.inputs, reading.operands[::-1], step)


def _all_fit(
    trace: Traced, first: MatchedOp, others: Sequence[MatchedOp], node: TraceNode
) -> Iterator[_Found]:
    """All ways in which a value is that of the first op, and other values are those of others."""

    def further(rest: Sequence[MatchedOp], partial: _Found) -> Iterator[_Found]:
        if not rest:
            yield partial
            return
        known = partial.ops.get(id(rest[0]))
        places = trace.by_op[trace.canonical(rest[0].op)] if known is None else [known[0]]
        roots = [partial.ops[id(op)][0] for op in (first, *others) if id(op) in partial.ops]
        for place in places:
            if known is None and any(place is root for root in roots):
                continue
            for step in _fits(trace, rest[0], place, partial):
                yield from further(rest[1:], step)

    for step in _fits(trace, first, node, _Found()):
        yield from further(others, step)


def _missing(trace: Traced, first: MatchedOp, others: Sequence[MatchedOp], node: TraceNode) -> str:
    """Which results the function does not compute, where one of a group's is there."""
    for i in range(len(others) + 1):
        if next(_all_fit(trace, first, others[:i], node), None) is None:
            return f"the function does not compute its {others[i - 1]}" if i else ""
    return ""


def _attributes(
    wanted: Sequence[tuple[str, Any]], given: Mapping[str, Any], partial: _Found
) -> Iterator[_Found]:
    if not wanted:
        yield partial
        return
    (name, value), *rest = wanted
    if name not in given:
        return
    if isinstance(value, Captured):
        steps = partial.capture(value.name, given[name])
    else:
        steps = iter([replace(partial, wanted=(*partial.wanted, (given[name], value)))])
    for step in steps:
        yield from _attributes(rest, given, step)


def _operands(
    trace: Traced, wanted: Sequence[Any], given: Sequence[Any], partial: _Found
) -> Iterator[_Found]:
    if not wanted:
        if all(x is None for x in given):
            yield partial
        return
    operand = given[0] if given else None
    for step in _operand(trace, wanted[0], operand, partial):
        yield from _operands(trace, wanted[1:], given[1:], step)


def _operand(trace: Traced, wanted: Any, given: Any, partial: _Found) -> Iterator[_Found]:
    if wanted is None or given is None:
        if wanted is given:
            yield partial
    elif isinstance(wanted, (str, MatchedOp)) is not isinstance(given, TraceNode):
        return
    elif isinstance(wanted, MatchedOp):
        yield from _fits(trace, wanted, given, partial)
    elif isinstance(wanted, (str, Captured)):
        name = wanted if isinstance(wanted, str) else wanted.name
        yield from partial.capture(name, given)
    else:
        yield replace(partial, wanted=(*partial.wanted, (given, wanted)))


def _same(one: Any, other: Any) -> bool:
    """Whether two captured things are one."""
    if isinstance(one, TraceNode) or isinstance(other, TraceNode):
        return one is other
    if type(one) is TracedNumber and type(other) is TracedNumber and one.index == other.index:
        return True
    return _equal(one, other)


def _equal(given: Any, wanted: Any) -> bool:
    """Whether a number or an attribute is what it has to be; a truth value is no number."""
    given, wanted = (x.read() if type(x) is TracedNumber else x for x in (given, wanted))
    if isinstance(given, bool) is not isinstance(wanted, bool):
        return False
    if isinstance(given, float) and isinstance(wanted, float) and math.isnan(wanted):
        return math.isnan(given)
    return bool(given == wanted)


def _checked(trace: Traced, row: Row, graph: Graph, partial: _Found) -> Match | str:
    """The match, or what is against it."""
    for given, wanted in partial.wanted:
        if not _equal(given, wanted):
            return f"{given!r} stands where it wants {wanted!r}"
    readings = [reading for _, reading in partial.ops.values()]
    places = list(partial.ops.values())
    for i, (node, reading) in enumerate(places):
        twice = any(node is other for other, _ in places[:i])
        if twice and any(trace.nodes[k].op_name == RANDOM for k in reading.inner):
            return f"two of its {reading.op} are one, whose random numbers they would share"
    roots = tuple([partial.ops[id(op)][0] for op in graph.results])
    group = frozenset().union(*(reading.inner for reading in readings))
    ops = tuple([reading.written for reading in reversed(readings)])
    match = Match(row, roots, row.record.several, partial.captured, group, ops, False)
    return ruled(trace, match, {x.cut for x in readings})


# -- functions ---------------------------------------------------------------------------


def _by_function(trace: Traced, row: Row) -> Iterator[Match | Miss]:
    """What a matching function finds: each live value is shown to it."""
    for node in () if row.record.takes_values else trace.live:
        if not trace.readings(node):
            continue
        try:
            given = _given(row.record.matcher(TracedValue(trace, node)), node)
        except Exception as error:
            yield Miss(row, node, f"its matcher raised {type(error).__name__}: {error}", True)
            return
        if given is None:
            continue
        captured, roots, several = given
        group = _between(trace, roots, captured)
        if isinstance(group, str):
            yield Miss(row, node, group)
            continue
        inner = [trace.nodes[k] for k in sorted(group)]
        ops = tuple(x.op_name for x in inner if x.call is not None)
        match = Match(row, roots, several, captured, group, ops, False)
        answer = ruled(trace, match, _cuts(trace, inner))
        yield Miss(row, node, answer) if isinstance(answer, str) else answer


def _given(answer: Any, node: TraceNode) -> tuple[Captures, tuple[TraceNode, ...], bool] | None:
    """What a function gave, with nodes in place of their views; raises TypeError for junk.

    The captured values, the results, and whether it said which these are.
    """
    if answer is None or isinstance(answer, bool):  # that of a function of values
        return None
    several = isinstance(answer, tuple) and len(answer) == 2
    captured, results = answer if several else (answer, ())
    if not isinstance(captured, Mapping) or not all(isinstance(name, str) for name in captured):
        raise TypeError(f"it gave {answer!r:.80} in place of captured values by name, or None")
    roots = (node,)
    if several:
        fine = isinstance(results, (tuple, list)) and len(results) > 0
        if not fine or not all(isinstance(x, TracedValue) for x in results):
            raise TypeError(f"it gave {results!r:.80} in place of a tuple of results")
        roots = tuple([x._node for x in results])
        if len({id(x) for x in roots}) < len(roots) or not any(x is node for x in roots):
            given = f"it gave {results!r:.80} as results"
            raise TypeError(f"{given}; expected different ones, {node!r} among them")
    nodes = {name: x._node if isinstance(x, TracedValue) else x for name, x in captured.items()}
    return nodes, roots, several


def _between(trace: Traced, roots: Sequence[TraceNode], captured: Captures) -> frozenset[int] | str:
    """The nodes from the captured values to a group's; or which value is not captured."""
    known = {x.number for x in captured.values() if isinstance(x, TraceNode)}
    own: set[int] = set()
    hidden: set[int] = set()  # what ops that are made of others have made
    stack = [*roots]
    while stack:
        node = stack.pop()
        if node.number in own or node.number in known:
            continue
        own.add(node.number)
        for reading in trace.readings(node):
            hidden |= reading.inner
        stack += node.inputs
    for number in sorted(own - hidden):
        if trace.nodes[number].op_name in (INPUT, CONSTANT):
            return f"its matcher left out {trace.nodes[number]!r}, which the group reads"
    return frozenset(own)


def _cuts(trace: Traced, inner: Sequence[TraceNode]) -> set[bool]:
    """Whether gradients pass, of each op; those inside an op made of others are its own."""
    calls = [reading for node in inner for reading in trace.readings(node)]
    whole = [x for x in calls if not any(x.inner < other.inner for other in calls)]
    return {reading.cut for reading in whole}
