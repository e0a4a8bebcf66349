"""What jit_compile did: in words, as rendered sources, and as a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

from netcl_core import DTYPES
from netcl_core.inspect.programs import (
    DetachStep,
    Jitted,
    OperatorStep,
    PickStep,
    Program,
    RegionStep,
    Step,
    TraceBreak,
    entry_of,
    is_fusible,
    name_of,
    unfused,
)
from netcl_core.inspect.recorded import describe_frame as where
from netcl_core.inspect.recorded import thread
from netcl_core.inspect.sources import Plan
from netcl_plugin_fusion.joined_casts import CastsStep
from netcl_plugin_fusion.neighbours import FusedOperatorStep


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
    forward = [text for step in program.steps for text in step.sources]
    backward = [text for step in reversed(program.steps) for text in backward_sources(step)]
    return Lowered("\n".join(forward), "\n".join(backward), program.launches)


def backward_sources(step: Step) -> list[str]:
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


def why_alone(step: Step) -> str | None:
    """Why a step stands by itself; None if it is a fused region or launches nothing."""
    if isinstance(step, RegionStep):
        return None if is_fusible(step.unit.nodes[0]) else "its primitive is not fusible"
    if not isinstance(step, OperatorStep) or step.call.operator.view:
        return None
    if _has_slots(step):
        return "its neighbours are needed elsewhere, too costly to repeat, or do not fit its slots"
    return "it is a structured op without a slot for neighbours"


def _has_slots(step: Step) -> bool:
    """Whether some implementation of a structured op takes neighbours into its kernel."""
    assert isinstance(step, OperatorStep)  # others hold theirs
    offered = (offer.item for offer in step.call.operator.offers())
    return any(
        implementation is not None and (implementation.prologue or implementation.epilogue)
        for implementation in offered
    )


def _splits(step: Step, program: Program) -> bool:
    """Whether elementwise regions stand on both sides of a step."""
    own = step.unit.nodes[-1].number
    before = {x.number for x in step.unit.inputs}
    regions = [other.unit for other in program.steps if isinstance(other, RegionStep)]
    feeds = any(node.number in before for unit in regions for node in unit.outputs)
    return feeds and any(x.number == own for unit in regions for x in unit.inputs)


def explain(jitted: Jitted, args: Any, kwargs: Any) -> str:
    """The text of `jitted.explain(...)`."""
    policy = "" if thread.amp is None else f" under the amp policy {thread.amp.policy.name}"
    try:
        entry = entry_of(jitted, args, kwargs)
    except TraceBreak as broken:
        return unfused(jitted, broken, policy)
    program, reason = entry.program, entry.reason
    if program is None:
        assert reason is not None  # there is either a program or a reason
        verdict = None if entry.trial is None else entry.trial.verdict
        if not entry.in_parts or verdict is not None:
            text = unfused(jitted, reason, policy)
            return text if verdict is None else f"{text}\n  parts do not pay: {verdict}"
        text = "not fused as a whole, it runs in parts between such places"
        lines = [f"{name_of(jitted)}{policy}: {text}", f"  {reason.told}"]
        for part in jitted.parts or ():
            lines.append(f"a part: {part.trace.written} ops in {part.launches} forward launches")
            lines += _steps(part)
        return "\n".join(lines)
    count = program.trace.written
    lines = [f"{name_of(jitted)}{policy}: {count} ops in {program.launches} forward launches"]
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


def _told(number: int, step: Step) -> list[str]:
    shapes = ", ".join(f"{x.dtype}{list(x.shape)}" for x in step.unit.inputs)
    outputs = ", ".join(f"{x.dtype}{list(x.shape)}" for x in step.unit.outputs)
    what = "op" if isinstance(step, OperatorStep) else "one kernel"
    between = ", " if isinstance(step, CastsStep) else " -> "
    names = between.join(node.op_name for node in step.unit.nodes)
    lines = [f"  {number}. {what}: {names}", f"     {shapes} => {outputs}"]
    lines.append(f"     from {where(step.unit.nodes[0].frame)}")
    replacements = dict.fromkeys(x.replaced for x in step.unit.nodes if x.replaced is not None)
    lines += [f"     {replacement}" for replacement in replacements]
    reason = why_alone(step)
    if reason is not None:
        lines.append(f"     not fused: {reason}")
    return lines
