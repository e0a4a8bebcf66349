"""Rewriting: the groups of a finished trace that patterns take are replaced by what they plan.

One pass over what the function wrote: bigger groups first, then higher priorities. What a planner
computes is never matched again, so that a pattern cannot apply within its own replacement. A
planner that fails costs nothing but its own group, which stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from netcl_core import Tensor
from netcl_core.autograd import TraceNode, TracingContext
from netcl_core.errors import DeviceError, DtypeError, PluginError, ShapeError, coded, message
from netcl_core.inspect.programs import CONSTANT, RANDOM, Rewritten, TraceBreak, live
from netcl_core.inspect.recorded import casting_by
from netcl_core.plugins.protocol import Row, decide, registry, winner_of
from netcl_plugin_patterns.matching import Match, Miss, depends, find
from netcl_plugin_patterns.pattern_nodes import Traced

#: Under this name NETCL_RANK ranks distributions for everything.
_ANYTHING: Final = "*"


@final
@dataclass(frozen=True, eq=False, slots=True)
class Replacement:
    """What stands in the place of a group: on each of its nodes, for readers.

    Attributes:
        match: The pattern, and what it took.
        nodes: What its planner computes with.
        inputs: By identity of those of them that stand for captured values, the latter.
        values: The nodes that have the group's values now.
    """

    match: Match
    nodes: Sequence[TraceNode]
    inputs: dict[int, TraceNode]
    values: tuple[TraceNode, ...]

    def __str__(self) -> str:
        row = self.match.row
        return (
            f"pattern {row.record.name} ({row.provider}) in place of {' -> '.join(self.match.ops)}"
        )


def rewritten(
    context: TracingContext, results: Sequence[TraceNode], patterns: Iterable[Row]
) -> Rewritten:
    """The trace with the groups replaced that patterns take.

    Raises AmbiguousOpError where two providers' patterns claim the same ops with equal rights.
    """
    result = Rewritten(context.nodes, results)
    result.written = sum(node.call is not None for node in context.nodes)
    rows = list(patterns)
    if not rows:
        return result
    trace = Traced(context.nodes, results, context.spans)
    matches = _matches(trace, rows, result.misses)
    taken: set[int] = set()
    for match in _in_turn(matches, rows, taken):
        if _circular(match, result):
            reason = "it captures a value that is computed from its results by another pattern"
            result.misses.append(Miss(match.row, match.root, reason))
        elif (replacement := _planned(match, result)) is not None:
            taken |= match.group
            result.applied.append(replacement)
    result.sizes |= trace.sizes
    if result.applied:
        _splice(result)
    return result


def _matches(trace: Traced, rows: Sequence[Row], misses: list[Miss]) -> list[Match]:
    matches = []
    for row in rows:
        for match in find(trace, row):
            if isinstance(match, Miss):
                misses.append(match)
            elif limit := registry.limit(row.owner, match.root.device):
                misses.append(Miss(row, match.root, limit))
            else:
                matches.append(match)
    return matches


# -- whose turn it is --------------------------------------------------------------------


def _in_turn(matches: Sequence[Match], rows: Sequence[Row], taken: set[int]) -> Iterator[Match]:
    """The matches in the order in which they may take their groups, those that still can.

    `taken` grows meanwhile. Within one provider the pattern that was registered first goes first.
    """
    place = {id(row): i for i, row in enumerate(rows)}

    def rank(match: Match) -> tuple[int, int]:
        return -len(match.group), -match.row.priority

    waiting = sorted(matches, key=lambda x: (*rank(x), place[id(x.row)], x.root.number))
    claims: dict[int, list[Match]] = {}
    for match in waiting:
        for number in match.group:
            claims.setdefault(number, []).append(match)
    for match in waiting:
        if not taken.isdisjoint(match.group):
            continue
        others = {id(each): each for number in match.group for each in claims[number]}
        rivals = [
            other
            for other in others.values()
            if rank(other) == rank(match) and taken.isdisjoint(other.group)
        ]
        namesakes = [row for row in rows if row.record.name == match.row.record.name]
        if _preferred(match, [*namesakes, *(rival.row for rival in rivals)]):
            yield match


def _preferred(match: Match, rivals: Sequence[Row]) -> bool:
    """Whether a match goes before its rivals; only a setting decides between providers."""
    offers = {row.provider: row.offer for row in rivals}
    if len(offers) == 1:
        return True
    names = sorted({row.record.name for row in rivals})
    op = names[0] if len(names) == 1 else _ANYTHING
    winner = winner_of(" and ".join(names), decide(op, list(offers.values())))
    return bool(winner.provider == match.row.provider)


def _circular(match: Match, result: Rewritten) -> bool:
    """Whether a match would depend on itself, by what others have taken.

    A group with several results may stand between two values of another such group.
    """
    others = [applied.match for applied in result.applied]
    if max((len(each.roots) for each in (match, *others)), default=1) == 1:
        return False
    through = {number: other.outside for other in others for number in other.group}
    return depends(match.outside, match.group, through)


# -- what a planner gives ----------------------------------------------------------------


def _planned(match: Match, result: Rewritten) -> Replacement | None:
    """What the planner computes; None where it declines or fails, which is noted."""
    context = TracingContext()
    symbols: dict[TraceNode, Any] = {}
    for x in match.captured.values():
        if isinstance(x, TraceNode) and x not in symbols:
            symbols[x] = context.input(x)
    given = {
        name: symbols[x] if isinstance(x, TraceNode) else x for name, x in match.captured.items()
    }
    inputs = {id(symbol.value): node for node, symbol in symbols.items()}
    try:
        with context, casting_by(None):
            values = match.pattern.planner(**given)
        if context.broken is not None:
            raise context.broken
        if context.writes:
            raise _unfit(match, "its planner overwrites a tensor", "values alone")
        values_made = None if values is None else _replacement(match, context, values, inputs)
        reason, failed = "its planner declined", False
    except (DtypeError, ShapeError, DeviceError) as error:
        values_made, reason, failed = None, f"its planner declined: {error}", False
    except (Exception, TraceBreak) as error:
        values_made, reason, failed = None, _blamed(match, error), True
    result.sizes |= context.sizes
    if values_made is None:
        result.misses.append(Miss(match.row, match.root, reason, failed))
    return values_made


def _replacement(
    match: Match, context: TracingContext, given: Any, inputs: dict[int, TraceNode]
) -> Replacement:
    """The nodes that the planner recorded.

    Raises PluginError if they are not the group's values.
    """
    values = given if match.several else (given,)
    count = len(match.roots)
    if not isinstance(values, (tuple, list)) or len(values) != count:
        many = f" of {len(values)}" if isinstance(values, (tuple, list)) else ""
        text = f"its planner gave a {type(values).__name__}{many}"
        raise _unfit(match, text, f"a tuple of {count} operands, the group's results")
    nodes_of_values = tuple([_value(match, context, i, value) for i, value in enumerate(values)])
    nodes = live(context.nodes, {node.number for node in nodes_of_values})
    return Replacement(match, nodes, inputs, nodes_of_values)


def _value(match: Match, context: TracingContext, place: int, value: Any) -> TraceNode:
    """The node of one of the values; raises PluginError if it cannot be that of the group."""
    root = match.roots[place]
    expected = f"{root.dtype} of shape {root._shape} on {root.device}"
    gave = f"its planner gave{f' as result {place}' if match.several else ''}"
    if not isinstance(value, Tensor):
        raise _unfit(match, f"{gave} a {type(value).__name__}", f"an operand, {expected}")
    node = context.node_of(value)
    if (node._shape, node.dtype, node.device) != (root._shape, root.dtype, root.device):
        given = f"{node.dtype} of shape {node._shape} on {node.device}"
        raise _unfit(match, f"{gave} {given}", expected)
    if root.requires_grad and not node.requires_grad:
        raise _unfit(match, f"{gave} a value without a gradient", "one that passes it on")
    if node.requires_grad and not root.requires_grad and not match.cut:
        return context.node_of(context.detach(node))  # only others of the results have one
    return node


def _unfit(match: Match, given: str, expected: str) -> PluginError:
    who = f"pattern {match.pattern.name!r} of {match.row.provider}"
    remedy = "Correct the planner, or do without the pattern"
    return coded("NP406", PluginError(message(who, given, expected, remedy)))


def _blamed(match: Match, error: BaseException) -> str:
    if isinstance(error, PluginError) and error.code == "NP406":
        return f"NP406: {error}"
    given = f"its planner raised {type(error).__name__}: {error}"
    return f"NP406: {_unfit(match, given, 'a value, or None where it does not fit')}"


# -- putting it in the place -------------------------------------------------------------


def _splice(result: Rewritten) -> None:
    """Put each replacement where the values of its group were, and number all nodes anew."""
    place: dict[int, TraceNode] = {}  # by identity, what is in the place of a node
    fresh: dict[int, list[TraceNode]] = {}  # by number of a group's last value
    gone: set[int] = set()
    for replacement in result.applied:
        gone |= {k for k in replacement.match.group if result.nodes[k].op_name != CONSTANT}
        gone -= _keep_random(replacement, result.nodes, place)
        place |= replacement.inputs
        roots = replacement.match.roots
        place |= {id(root): value for root, value in zip(roots, replacement.values, strict=True)}
        last = max(root.number for root in roots)
        fresh[last] = [x for x in replacement.nodes if id(x) not in place]
        _mark(replacement)
    order: list[TraceNode] = []
    for node in result.nodes:
        order += fresh.get(node.number, ())
        if node.number not in gone:
            order.append(node)

    def final(node: TraceNode) -> TraceNode:
        while (other := place.get(id(node))) is not None:
            node = other
        return node

    for node in order:
        node.inputs = [final(x) for x in node.inputs]
    order = _operands_first(order)
    for number, node in enumerate(order):
        node.number = number
    result.nodes, result.results = order, [final(node) for node in result.results]


def _operands_first(nodes: Sequence[TraceNode]) -> list[TraceNode]:
    """The same nodes, each after those that it reads; the order of random states is kept.

    One of several values of a group may have been read before its last one was computed.
    """
    waiting = {id(node): node for node in nodes}
    order: list[TraceNode] = []
    for node in (*(x for x in nodes if x.op_name == RANDOM), *nodes):
        stack = [node]
        while stack:
            missing = [x for x in stack[-1].inputs if id(x) in waiting]
            if missing:
                stack += missing
            elif waiting.pop(id(top := stack.pop()), None) is not None:
                order.append(top)
    return order


def _keep_random(
    replacement: Replacement, nodes: Sequence[TraceNode], place: dict[int, TraceNode]
) -> set[int]:
    """Let random states of a group stay where they are, so that they are drawn in the same order.

    Returns their numbers.
    """
    old = [nodes[k] for k in sorted(replacement.match.group) if nodes[k].op_name == RANDOM]
    pairs = list(zip([x for x in replacement.nodes if x.op_name == RANDOM], old, strict=False))
    place |= {id(new): kept for new, kept in pairs}
    return {kept.number for _, kept in pairs}


def _mark(replacement: Replacement) -> None:
    """Give the nodes of a replacement the user's line, and tell readers where they come from."""
    for node in replacement.nodes:
        if node.call is not None or node.pick is not None:
            node.frame, node.replaced = replacement.match.root.frame, replacement
            if replacement.match.cut:
                node.cut, node.requires_grad = True, False
