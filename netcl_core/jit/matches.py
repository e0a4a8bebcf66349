"""Matches: groups of a trace that patterns may take, and the rules that they are held to.

The rules of a match, beside what the pattern's matcher says:

- the values in between are used by the group alone, and the function does not return them;
- what is captured is not computed by the group, nor from its results, so that nothing depends on
  itself;
- gradients pass through all of the group's ops or (inside `no_grad`) through none;
- the group's values and every floating tensor that is captured have one dtype of the pattern's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

from netcl_core.dtypes import DTYPES
from netcl_core.jit.patterns import TrainingPattern
from netcl_core.jit.readings import Traced
from netcl_core.plugins.registry import Row
from netcl_core.tape.trace_node import CONSTANT, TraceNode

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
        found: TrainingPattern = self.row.record
        return found


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
