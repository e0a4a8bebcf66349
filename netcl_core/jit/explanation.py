"""What jit_compile did: in words, as rendered sources, and as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, final

from netcl_core.codegen.lowering import Plan
from netcl_core.dtypes import DTYPES
from netcl_core.jit.partition import is_fusible
from netcl_core.jit.program import Program
from netcl_core.jit.steps import (
    DetachStep,
    Executable,
    FusedOperatorStep,
    OperatorStep,
    PickStep,
    RegionStep,
)
from netcl_core.tape.node import describe_frame as where
from netcl_core.tape.trace_node import TraceBreak


@final
@dataclass(frozen=True, slots=True)
class Lowered:
    """A compiled function's kernels for given arguments.

    `forward_source` and `backward_source` are the sources as rendered (OpenCL C, on the
    NumPy path Python), one after the other; `launches` counts the forward's kernels.
    """

    forward_source: str
    backward_source: str
    launches: int


def lower(program: Program) -> Lowered:
    """The sources of a program."""
    forward = [text for step in program.steps for text in forward_sources(step)]
    backward = [text for step in reversed(program.steps) for text in backward_sources(step)]
    return Lowered("\n".join(forward), "\n".join(backward), program.launches)


def forward_sources(step: Executable) -> list[str]:
    """The rendered kernels of a step's forward."""
    if isinstance(step, RegionStep):
        return [step.call.plan.forward.generated.text]
    if isinstance(step, FusedOperatorStep):
        return [kernel.source for kernel in step.call.bound(False).launches]
    if isinstance(step, OperatorStep):
        return [kernel.source for kernel in step.call.launched]
    return []


def backward_sources(step: Executable) -> list[str]:
    """The rendered backward kernel of a region, for all its floating inputs."""
    if isinstance(step, FusedOperatorStep):
        groups = (step.call.after, step.call.before)
        return [text for group in groups if group is not None for text in _backward(group.plan)]
    return _backward(step.call.plan) if isinstance(step, RegionStep) else []


def _backward(plan: Plan) -> list[str]:
    if not plan.differentiable:
        return []
    needs = tuple(DTYPES[dtype].floating for dtype in plan.types.inputs)
    generated = plan.backward(needs).generated
    return [generated.text] if generated.writes else []


def skipped(program: Program) -> TraceBreak | None:
    """What is not as it could be: a pattern that failed, else the first op that breaks a chain of
    elementwise ops or must not be fused; None: nothing."""
    for miss in program.trace.misses:
        if miss.failed:
            gap = TraceBreak(f"the pattern {miss.row.record.name}", miss.reason)
            gap.frame = miss.root.frame
            return gap
    for step in program.steps:
        reason = why_alone(step)
        if reason is None:
            continue
        node = step.unit.nodes[-1]
        gap = TraceBreak(node.op_name, reason)
        gap.frame = node.frame
        if isinstance(step, RegionStep) or (not _has_slots(step) and _splits(step, program)):
            return gap
    return None


def why_alone(step: Executable) -> str | None:
    """Why a step stands by itself; None if it is a fused region or launches nothing."""
    if isinstance(step, RegionStep):
        return None if is_fusible(step.unit.nodes[0]) else "its primitive is not fusible"
    if not isinstance(step, OperatorStep) or step.call.operator.view:
        return None
    if _has_slots(step):
        return "its neighbours are needed elsewhere, too costly to repeat, or do not fit its slots"
    return "it is a structured op without a slot for neighbours"


def _has_slots(step: Executable) -> bool:
    """Whether some implementation of a structured op takes neighbours into its kernel."""
    assert isinstance(step, OperatorStep)  # others hold theirs
    offered = (offer.item for offer in step.call.operator.offers())
    return any(
        implementation is not None and (implementation.prologue or implementation.epilogue)
        for implementation in offered
    )


def _splits(step: Executable, program: Program) -> bool:
    """Whether elementwise regions stand on both sides of a step."""
    own = step.unit.nodes[-1].number
    before = {x.number for x in step.unit.inputs}
    regions = [other.unit for other in program.steps if isinstance(other, RegionStep)]
    feeds = any(node.number in before for unit in regions for node in unit.outputs)
    return feeds and any(x.number == own for unit in regions for x in unit.inputs)


def describe(
    function: Callable[..., Any],
    program: Program | None,
    reason: TraceBreak | None,
    policy: str = "",
    parts: Iterable[Program] | None = None,
    verdict: str | None = None,
) -> str:
    """The text of `.explain()`, under the amp policy of a name.

    `parts` are those of a function without a program; None: it has none either. `verdict` says
    why they are not used.
    """
    name = getattr(function, "__qualname__", repr(function))
    name += f" under the amp policy {policy}" if policy else ""
    if program is None:
        assert reason is not None  # there is either a program or a reason
        why = f"  {reason.op} at {where(reason.frame)}: {reason.reason}"
        if parts is None or verdict is not None:
            text = f"{name}: not fused, it runs op by op\n{why}"
            return text if verdict is None else f"{text}\n  parts do not pay: {verdict}"
        lines = [f"{name}: not fused as a whole, it runs in parts between such places", why]
        for part in parts:
            lines.append(f"a part: {part.trace.written} ops in {part.launches} forward launches")
            lines += _steps(part)
        return "\n".join(lines)
    count = program.trace.written
    lines = [f"{name}: {count} ops in {program.launches} forward launches"]
    lines += _steps(program)
    lines += [f"  {line}" for line in _near_misses(program)]
    return "\n".join(lines)


def _steps(program: Program) -> Iterator[str]:
    told = [step for step in program.steps if not isinstance(step, (PickStep, DetachStep))]
    for number, step in enumerate(told, start=1):
        yield from _told(number, step)


def _near_misses(program: Program) -> Iterator[str]:
    """Of each pattern the first place where it nearly fitted; all that failed."""
    told = {replacement.match.row for replacement in program.trace.applied}
    for miss in program.trace.misses:
        if miss.failed or miss.row not in told:
            told.add(miss.row)
            who = f"{miss.row.record.name} ({miss.row.provider})"
            yield f"pattern {who} did not apply: {miss.reason}"
            yield f"   at {where(miss.root.frame)}"


def _told(number: int, step: Executable) -> list[str]:
    shapes = ", ".join(f"{x.dtype}{list(x.shape)}" for x in step.unit.inputs)
    outputs = ", ".join(f"{x.dtype}{list(x.shape)}" for x in step.unit.outputs)
    what = "op" if isinstance(step, OperatorStep) else "one kernel"
    names = " -> ".join(node.op_name for node in step.unit.nodes)
    lines = [f"  {number}. {what}: {names}", f"     {shapes} => {outputs}"]
    lines.append(f"     from {where(step.unit.nodes[0].frame)}")
    replacements = dict.fromkeys(x.replaced for x in step.unit.nodes if x.replaced is not None)
    lines += [f"     {replacement}" for replacement in replacements]
    reason = why_alone(step)
    if reason is not None:
        lines.append(f"     not fused: {reason}")
    return lines
