"""RegionCall: a planned region as a call, and its gradients by one backward kernel.

This is the straight line that every elementwise op takes, a single one and a fused region alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from netcl_core.codegen.generation import Needs
from netcl_core.codegen.lowering import Plan
from netcl_core.device.device import Device
from netcl_core.runtime.kernels import Spec
from netcl_core.runtime.stream import own_stream, replaced, stream_of
from netcl_core.tape.exact_forward import ExactForward, region_forward
from netcl_core.tape.gradients import run_plan, sum_to, whole
from netcl_core.tensors.tensor import Tensor


@final
class RegionCall:
    """A plan with one or several results as a call (see `apply.Call`)."""

    __slots__ = ("_direct", "_dtype", "_name", "_packed", "_prepared", "_stream", "device", "known",
                 "name", "plan", "results", "shape", "size")  # fmt: skip

    keeps = False

    def __init__(self, plan: Plan, name: str) -> None:
        self.plan = plan
        self.name = name
        self.device: Device = plan.device
        self.shape = plan.shape
        self.size = plan.size
        self.results = tuple(Spec(plan.shape, dtype) for dtype in plan.types.outputs)
        self.known: dict[Needs, tuple[Needs, tuple[int, ...]]] = {}
        self._dtype = plan.results[0]
        self._name = self._dtype.name
        self._stream = own_stream(plan.device)
        self._direct: Any = None
        self._packed: Callable[[Sequence[Any]], Sequence[bytes]]
        self._prepared = False

    def run(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Any:
        """The result, or a list of several."""
        launch = self._direct
        if launch is None:
            if not self._prepared:
                self._prepare()
            launch = self._direct
            if launch is None:
                return self._in_general(inputs, scalars)
        stream = stream_of(self.device) if replaced else self._stream
        buffer = stream.allocate(self.size, self._dtype)
        buffers = [x.buffer for x in inputs]
        buffers.append(buffer)
        stream.launch(launch, buffers, self._packed(scalars) if scalars else ())
        return Tensor(buffer, self.shape, self._name, self.device)

    def _prepare(self) -> None:
        """Make the forward stage: its source, and its launch if one alone does."""
        stage = self.plan.forward
        self._direct = stage.direct if len(self.results) == 1 else None
        self._packed = stage.packed
        self._prepared = True

    def _in_general(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Any:
        """For several results, another order of buffers, no elements, and NumPy."""
        found = run_plan(self.plan, [x.buffer for x in inputs], scalars)
        return found if len(found) > 1 else found[0]

    def run_keeping(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> tuple[Any, None]:
        """The same; a region computes again what its gradients need."""
        return self.run(inputs, scalars), None

    def flows(self, needs: Needs) -> Needs:
        """Of each result, whether its gradient reaches an input that needs one."""
        return self.plan.flows(needs)

    def saves(self, needs: Needs) -> tuple[int, ...]:
        """The inputs that the backward kernel reads."""
        return self.plan.backward(needs).reads

    def gradients(self, node: Any, grads: Sequence[Any], needs: Needs) -> list[Any]:
        """The gradients of the inputs."""
        inputs = [x.value for x in node.inputs]
        return plan_gradients(self.plan, inputs, node.scalars, needs, grads)

    def exact(self, node: Any) -> ExactForward:
        """The forward in float64 on the host."""
        return region_forward(self.plan, node.scalars)


def plan_gradients(
    plan: Plan,
    inputs: Sequence[Tensor],
    scalars: Sequence[Any],
    needs: Needs,
    grads: Sequence[Any],
) -> list[Any]:
    """The gradients of a plan's inputs from those of its outputs (None: it has none).

    A gradient may be a Spread. One backward kernel writes full-size gradients; those of
    broadcast inputs are then summed to the input's shape. A gradient that is the upstream one
    needs no kernel.
    """
    held = [None if grad is None else grad.value for grad in grads]
    stage = plan.backward(needs, tuple([None if each is None else each.shape for each in held]))
    found: list[Any] = [None] * len(inputs)
    for i, j in stage.passes:
        found[i] = grads[j]
    if stage.writes:
        allocate, size, device = stream_of(plan.device).allocate, plan.size, plan.device
        targets = [allocate(size, dtype) for _, dtype in stage.writes]
        buffers = [None if each is None else each.buffer for each in held]
        stage([x.buffer for x in inputs], buffers, scalars, targets)
        for (i, dtype), buffer in zip(stage.writes, targets, strict=True):
            found[i] = Tensor(buffer, plan.shape, dtype.name, device)
    for i, shape in stage.broadcast:
        found[i] = sum_to(whole(found[i]), shape)
    return found
