"""Planned calls: a plan becomes something to call with operands, and its gradients.

This is the straight line that every elementwise op takes, a single one and a fused
region alike: allocate, launch, record.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

from netcl_core.codegen.generation import Needs
from netcl_core.codegen.lowering import Plan
from netcl_core.device.device import Device
from netcl_core.dtypes import DTYPES
from netcl_core.runtime.kernels import Spec
from netcl_core.runtime.stream import own_stream, replaced, stream_of
from netcl_core.tape import frames
from netcl_core.tape.gradients import sum_to, whole
from netcl_core.tape.node import Node, Parts
from netcl_core.tape.state import process, thread
from netcl_core.tape.tape import recorder
from netcl_core.tensors.tensor import Tensor


@final
class PlannedCall:
    """A plan with one or several results, ready to be called with operands and scalars.

    `result` is the Spec of the first result.
    """

    __slots__ = ("_direct", "_dtype", "_dtypes", "_forward", "_known", "_single", "_stream",
                 "device", "name", "plan", "result", "shape", "size")  # fmt: skip

    def __init__(self, plan: Plan, name: str) -> None:
        self.plan = plan
        self.name = name
        self.device: Device = plan.device
        self.shape = plan.shape
        self.size = plan.size
        self.result = Spec(plan.shape, plan.types.outputs[0])
        self._dtypes = plan.types.outputs
        self._dtype = plan.results[0]
        self._single = len(plan.results) == 1
        self._stream = own_stream(plan.device)
        self._direct: Any = None
        self._forward: Callable[..., Any] | None = None
        self._known: dict[Needs, tuple[Needs, tuple[int, ...]]] = {}

    def __call__(
        self, tensors: Sequence[Any], scalars: Sequence[Any] = (), attrs: Any = None
    ) -> Any:
        """The result for Tensors or Nodes: a Node, or a Tensor with grad mode off.

        Several results come as a list. While a function is traced the call is only noted.
        """
        state = thread
        if state.tracer is not None:
            return state.tracer.record(self, tensors, scalars, self.name, attrs)
        inputs = [x if type(x) is Tensor else x.value for x in tensors]
        launch = self._direct
        if launch is not None:
            stream = stream_of(self.device) if replaced else self._stream
            buffer = stream.allocate(self.size, self._dtype)
            buffers = [x.buffer for x in inputs]
            buffers.append(buffer)
            stream.launch(launch, buffers)
            value: Any = Tensor(buffer, self.shape, self._dtypes[0], self.device)
        else:
            value = (self._forward or self._prepare())(scalars, *inputs)
        grad = state.grad
        if not (process.grad if grad is None else grad):
            return value
        needs = tuple([x.requires_grad for x in tensors])
        tape = state.tape or recorder()
        flows, saves = self._known.get(needs) or self._learn(needs)
        if True not in flows or not tape.enabled:
            if self._single:
                return Node(value, op_name=self.name)
            return [Node(each, op_name=self.name) for each in value]
        node = Node(
            value if self._single else value[0],
            partial(plan_gradients, self.plan, tensors, scalars, needs),
            tensors,
            True,
            self.name,
            partial(self.compute, scalars=scalars) if scalars else self.compute,
            frames.user_frame(),
            tuple([(inputs[i], inputs[i].version) for i in saves]) if saves else (),
            True,
        )
        if (state.anomaly or process.anomaly)[0]:
            node.creation_trace = traceback.format_stack()[:-1]
        if tape._weak:  # as record() does
            node.tape = tape
        else:
            tape.record(node)
        return node if self._single else outputs_of(node, value, flows, tape)

    def compute(self, *tensors: Tensor, scalars: Sequence[Any] = ()) -> Any:
        """The result alone, without a record."""
        return (self._forward or self._prepare())(scalars, *tensors)

    def _learn(self, needs: Needs) -> tuple[Needs, tuple[int, ...]]:
        """Through which outputs gradients flow, and which inputs the backward reads."""
        flows = self.plan.flows(needs)
        saves = self.plan.backward(needs).reads if True in flows else ()
        self._known[needs] = flows, saves
        return flows, saves

    def _prepare(self) -> Callable[..., Any]:
        """The forward function `(scalars, *tensors)`; the kernel's source is made here."""
        stage = self.plan.forward
        allocate, size, shape, device = self.plan.allocate, self.size, self.shape, self.device
        dtype, name = self._dtype, self._dtypes[0]

        def one(scalars: Sequence[Any], *tensors: Tensor) -> Tensor:
            buffer = allocate(size, dtype)
            stage([tensor.buffer for tensor in tensors], (), scalars, (buffer,))
            return Tensor(buffer, shape, name, device)

        def several(scalars: Sequence[Any], *tensors: Tensor) -> list[Tensor]:
            buffers = [allocate(size, each) for each in self.plan.results]
            stage([tensor.buffer for tensor in tensors], (), scalars, buffers)
            pairs = zip(buffers, self._dtypes, strict=True)
            return [Tensor(buffer, shape, each, device) for buffer, each in pairs]

        self._forward = one if self._single else several
        self._direct = stage.direct if self._single else None
        return self._forward


def outputs_of(
    bundle: Node, values: Sequence[Tensor], flows: Sequence[bool], tape: Any
) -> list[Node]:
    """One Node per result of an op with several; their gradients meet in the bundle.

    `flows` says of which results the gradient reaches an input.
    """
    bundle.fn = None
    found = []
    for i, value in enumerate(values):
        if flows[i]:
            node = Node(value, partial(_part, i), (bundle,), True, bundle.op_name)
            node.spread = True
            node.frame = bundle.frame
            tape.record(node)
        else:
            node = Node(value, op_name=bundle.op_name)
        found.append(node)
    return found


def _part(index: int, grad: Any) -> list[Parts]:
    return [Parts({index: grad})]


def plan_gradients(
    plan: Plan, operands: Sequence[Any], scalars: Sequence[Any], needs: Needs, *grads: Any
) -> list[Any]:
    """The gradients of a plan's inputs from the gradients of its outputs.

    A gradient may be a Spread, or Parts where there are several outputs. One backward
    kernel writes full-size gradients; those of broadcast inputs are then summed to the
    input's shape. A gradient that is the upstream one needs no kernel.
    """
    if len(grads) == 1 and isinstance(grads[0], Parts):
        grads = tuple(grads[0].of.get(i) for i in range(len(plan.results)))
    small = [None if g is None else g.value for g in grads]
    shapes = tuple(None if g is None else g.shape for g in small)
    stage = plan.backward(needs, shapes)
    inputs = [x.value for x in operands]
    found: list[Any] = [None] * len(inputs)
    for i, j in stage.generated.passes:
        found[i] = grads[j]
    if stage.writes:
        allocate = stream_of(plan.device).allocate
        targets = [allocate(plan.size, DTYPES[dtype]) for _, dtype in stage.writes]
        buffers = [None if g is None else g.buffer for g in small]
        stage([x.buffer for x in inputs], buffers, scalars, targets)
        for (i, dtype), buffer in zip(stage.writes, targets, strict=True):
            found[i] = Tensor(buffer, plan.shape, dtype, plan.device)
    return [
        gradient
        if gradient is None or gradient.shape == x.shape
        else sum_to(whole(gradient), x.shape)
        for gradient, x in zip(found, inputs, strict=True)
    ]
