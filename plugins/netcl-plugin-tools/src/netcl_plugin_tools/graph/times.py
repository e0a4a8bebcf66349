"""Where a compiled function's time goes: each of its kernels timed, and its ops one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, final

from netcl_plugin_kit.timing import Timed, best_times

import netcl_core.autograd as ag
from netcl_core.autograd import TraceNode
from netcl_core.inspect.programs import (
    Arguments,
    DetachStep,
    Jitted,
    OperatorStep,
    PickStep,
    Scalars,
    Step,
    traced,
)
from netcl_core.inspect.recorded import apply
from netcl_core.inspect.recorded import describe_frame as where
from netcl_core.inspect.streams import stream_of

#: Values by number of a trace's nodes.
Values: TypeAlias = dict[int, Any]
#: Computes results of some values, and adds them there.
Run: TypeAlias = Callable[[Values], None]
#: Results of ops that have several, by the op's node and the result's place.
Picked: TypeAlias = Set[tuple[int, int | None]]
#: Seconds for all steps together, and for each at least.
_BUDGET: Final = 1.0
_LEAST: Final = 0.02


@final
@dataclass(frozen=True, slots=True)
class StepTime:
    """What one step of a compiled function takes, in seconds.

    Attributes:
        ops: The ops that share the kernel, or the one op.
        place: The line of the first of them.
        forward: The time of the forward.
        gradients: That of the gradients; 0 where there are none.
        apart: Both together, of the same ops one by one.
    """

    ops: str
    place: str
    forward: float
    gradients: float
    apart: float

    @property
    def seconds(self) -> float:
        """Forward and gradients."""
        return self.forward + self.gradients


def step_times(compiled: Jitted, /, *args: Any, **kwargs: Any) -> list[StepTime]:
    """The steps of a compiled function, in turn, each on the values that it has there.

    >>> from netcl_plugin_tools.graph.times import step_times
    >>> gate = ag.jit_compile(lambda x, y: ag.tanh(ag.matmul(x, y)) * 2)
    >>> x = nc.tensor(np.ones((8, 8), np.float32), requires_grad=True)
    >>> [(each.ops, each.forward > 0) for each in step_times(gate, x, x)]
    [('matmul -> tanh -> mul', True)]

    Args:
        compiled: What `ag.jit_compile` made.
        args: Its arguments, as kwargs; gradients are taken of those that require one.

    Returns:
        The best times of several rounds. Views, which compute nothing, are left out.

    Raises:
        FusionError: The function cannot be traced.
    """
    program, _ = traced(compiled, args, kwargs)
    given = Arguments(args, kwargs)
    values = program.given(given.tensors)
    steps = [each for each in program.steps if _computes(each)]
    budget = max(_BUDGET / max(len(steps), 1), _LEAST)
    picked = {(each.source, each.index) for each in program.steps if isinstance(each, PickStep)}
    times = []
    for step in program.steps:
        if _computes(step):
            times.append(_timed(step, values, given.numbers, budget, picked))
        step.run(values, given.numbers)
    return times


def _computes(step: Step) -> bool:
    view = isinstance(step, OperatorStep) and step.call.view
    return not (view or isinstance(step, (PickStep, DetachStep)))


def _timed(
    step: Step, values: Values, numbers: Sequence[Any], budget: float, picked: Picked
) -> StepTime:
    leaves = {x.number: _leaf(values[x.number]) for x in step.unit.inputs}
    device = step.unit.nodes[0].device
    assert device is not None  # it computes there
    finish = stream_of(device).finish
    calls = _calls(step, leaves, numbers, picked)
    timed = {name: Timed(call, lambda _: finish(), False) for name, call in calls.items()}
    best, failed = best_times(timed, budget)
    for error in failed.values():
        raise error
    gradients = any(leaf.requires_grad for leaf in leaves.values())
    return StepTime(
        " -> ".join(node.op_name for node in step.unit.nodes),
        where(step.unit.nodes[0].frame),
        best["forward"],
        max(best["both"] - best["forward"], 0.0) if gradients else 0.0,
        best.get("apart", best["both"]),
    )


def _calls(
    step: Step, leaves: Values, numbers: Sequence[Any], picked: Picked
) -> dict[str, Callable[[], Any]]:
    """What is timed of a step: `apart` only where that is something else."""
    unit = step.unit

    def both(run: Run) -> None:
        values_now = dict(leaves)
        run(values_now)
        results = [x for node in unit.outputs for x in _used(values_now[node.number], node, picked)]
        _take_gradients(results, leaves.values())

    calls: dict[str, Callable[[], Any]] = {
        "forward": lambda: step.run(dict(leaves), numbers),
        "both": partial(both, partial(step.run, numbers=numbers)),
    }
    if len(unit.nodes) > 1:
        calls["apart"] = partial(both, partial(_one_by_one, unit.nodes, numbers=numbers))
    return calls


def _leaf(value: Any) -> Any:
    return value.detach().requires_grad_(value.requires_grad)


def _used(value: Any, node: TraceNode, picked: Picked) -> list[Any]:
    """The results of a node that the function reads: of the others no gradient is ever asked."""
    if not isinstance(value, list):
        return [value]
    return [item for i, item in enumerate(value) if (node.number, i) in picked]


def _take_gradients(results: Iterable[Any], leaves: Iterable[Any]) -> None:
    """Those of what a step computes, from ones."""
    roots = [result for result in results if result.requires_grad]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if roots and wanted:
        ag.grad(roots, wanted, [ag.ones_like(root) for root in roots], allow_unused=True)


def _one_by_one(nodes: Sequence[TraceNode], values: Values, numbers: Sequence[Any]) -> None:
    """The ops of a step, each as the call that it would be by itself."""
    for node in nodes:
        operands = [values[x.number] for x in node.inputs]
        if node.op_name == "detach":
            values[node.number] = operands[0].detach()
        else:
            scalars = Scalars(node.scalars).given(numbers)
            values[node.number] = apply(node.call, operands, scalars)
