"""RegionCall: a planned region as a call, and its gradients by one backward kernel.

This is the straight line that every elementwise op takes, a single one and a fused region alike.
Gradients that are to be differentiated again are computed by another such call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, final

from netcl_core import plugins
from netcl_core.codegen.generation import Needs
from netcl_core.codegen.layout import Shape
from netcl_core.codegen.lowering import Plan, offsets_of, views_of
from netcl_core.codegen.primitives import AutogradPrimitive, split_attrs
from netcl_core.codegen.region import PrimitiveStep, Ref, Region, Signature, gradient_at_result
from netcl_core.hardware.device import Device
from netcl_core.runtime.kernels import Spec
from netcl_core.runtime.opencl_stream import Launch
from netcl_core.runtime.stream import own_stream, replaced, stream_of
from netcl_core.tape.apply import PlainCall, apply, result_nodes
from netcl_core.tape.computations import cast_step, run_plan, sum_to
from netcl_core.tape.function_call import apply_op
from netcl_core.tape.gradients import Spread, unchanged, whole
from netcl_core.tape.unread import Unread
from netcl_core.tensors.tensor import MetaTensor, Tensor

_buffer: Final = attrgetter("buffer")
#: For so many places of its inputs in memory a call keeps its launch.
_VIEWS: Final = 64


@final
class RegionCall(PlainCall):
    """A plan with one or several results as a call (see `apply.Call`).

    It computes again what its gradients need.
    """

    __slots__ = (
        "_at_result", "_by_result", "_direct", "_dtype", "_name", "_of_gradients", "_packed",
        "_prepared", "_stream", "_views", "at_result", "device", "keeps", "known", "name",
        "plan", "results", "shape", "size",
    )  # fmt: skip

    def __init__(self, plan: Plan, name: str) -> None:
        self.plan = plan
        self.name = name
        self.device: Device = plan.device
        self.shape = plan.shape
        self.size = plan.size
        self.results = tuple(Spec(plan.shape, dtype) for dtype in plan.types.outputs)
        self.known: dict[Needs, Any] = {}
        self._dtype = plan.results[0]
        self._name = self._dtype.name
        self._stream = own_stream(plan.device)
        self._of_gradients: dict[tuple[Needs, Needs], tuple[Any, RegionCall | None]] = {}
        self._by_result: dict[Region, RegionCall] = {}
        self._direct: Any = None
        self._views: dict[Any, tuple[Launch | None, list[bytes]]] = {}
        self._packed: Callable[[Sequence[Any]], Sequence[bytes]]
        self._prepared = False
        spec = plan.shape, self._name
        alike = all(x == spec for x in plan.signature.tensors)
        self._at_result = gradient_at_result(plan.region) if alike else None
        self.keeps = self.at_result = self._at_result is not None

    def run_keeping(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> tuple[Any, Any]:
        """The result, which is kept if the gradients read it in place of the inputs."""
        value = self.run(inputs, scalars)
        return value, [value] if self.keeps else None

    def run(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Any:
        """The result, or a list of several."""
        launch = self._direct
        if launch is None:
            if not self._prepared:
                self._prepare()
            launch = self._direct
            if launch is None:
                return self._in_general(inputs, scalars)
        for x in inputs:
            if x.geometry is not None:
                return self._of_views(inputs, scalars)
        stream = stream_of(self.device) if replaced else self._stream
        buffer = stream.allocate(self.size, self._dtype)
        buffers = *map(_buffer, inputs), buffer
        stream.launch(launch, buffers, self._packed(scalars) if scalars else ())
        return Tensor(buffer, self.shape, self._name, self.device)

    def _of_views(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Any:
        """The same where some inputs are views, whose offsets are arguments of the kernel."""
        places = tuple([x.geometry for x in inputs])
        known = self._views.get(places)
        if known is None:
            if len(self._views) >= _VIEWS:
                self._views.clear()
            stage = self.plan.of_views(views_of(inputs))
            offsets = stage.packed_offsets(offsets_of(inputs))
            known = self._views[places] = stage.direct, offsets
        launch, offsets = known
        if launch is None:
            return self._in_general(inputs, scalars)
        stream = stream_of(self.device) if replaced else self._stream
        buffers = [x.memory for x in inputs]
        buffers.append(stream.allocate(self.size, self._dtype))
        packed = [*self._packed(scalars), *offsets] if scalars else offsets
        stream.launch(launch, buffers, packed)
        return Tensor(buffers[-1], self.shape, self._name, self.device)

    def region_of(
        self, inputs: Sequence[Any], scalars: Sequence[Any]
    ) -> tuple[Plan, Sequence[Any], Sequence[Any]]:
        """The plan of all results, its inputs and scalars."""
        return self.plan, inputs, scalars

    def _prepare(self) -> None:
        """Make the forward stage: its source, and its launch if one alone does."""
        stage = self.plan.forward
        self._direct = stage.direct if len(self.results) == 1 else None
        self._packed = stage.packed
        self._prepared = True

    def _in_general(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Any:
        """For several results, another order of buffers, views, no elements, and NumPy."""
        results = run_plan(self.plan, inputs, scalars)
        return results if len(results) > 1 else results[0]

    def flows(self, needs: Needs) -> Needs:
        """Of each result, whether its gradient reaches an input that needs one."""
        return self.plan.flows(needs)

    def saves(self, needs: Needs) -> tuple[int, ...]:
        """The inputs that the backward kernel reads."""
        return () if self.keeps else self.plan.backward(needs).reads

    def unread(self, needs: Needs) -> Unread:
        """The inputs that it does not read; of several results one may be asked for by itself."""
        if len(self.results) > 1:
            return (), ()
        saves = self.saves(needs)
        return tuple([i for i in range(len(needs)) if i not in saves]), ()

    def gradients(self, node: Any, grads: Sequence[Any], needs: Needs) -> list[Any]:
        """The gradients of the inputs."""
        if self._at_result is not None and node.kept is not None:
            values = [*unchanged(self.name, node.kept), whole(grads[0]).value]
            part = self._call_at_result(self._at_result).run(values, node.scalars)
            return [part if need else None for need in needs]
        inputs = [x.value for x in node.inputs]
        return plan_gradients(self.plan, inputs, node.scalars, needs, grads)

    def recorded_gradients(self, node: Any, grads: Sequence[Any], needs: Needs) -> list[Any]:
        """The same as operands, by the call of the region that computes them."""
        if self._at_result is not None and node.kept is not None:
            fusion = plugins.namespace("fusion", f"create_graph=True through {self.name}")
            by_result = self._call_at_result(fusion.with_gradients(self._at_result))
            operands = [*result_nodes(node, unchanged(self.name, node.kept)), grads[0]]
            part = apply(by_result, operands, node.scalars)
            return [part if need else None for need in needs]
        backward, call = self._gradients_call(needs, tuple([grad is not None for grad in grads]))
        gradients: list[Any] = [None] * len(node.inputs)
        for i, j in backward.passes:
            gradients[i] = grads[j]
        if call is not None:
            operands = [*map(_filled, node.inputs), *(grad for grad in grads if grad is not None)]
            parts = apply(call, operands, node.scalars)
            parts = parts if type(parts) is list else [parts]
            for i, part in zip(backward.results, parts, strict=True):
                gradients[i] = part
        return [
            None if part is None else recorded_sum_to(part, x.shape)
            for part, x in zip(gradients, node.inputs, strict=True)
        ]

    def _call_at_result(self, region: Region) -> RegionCall:
        """What computes the gradient of each input from the result and its gradient."""
        call = self._by_result.get(region)
        if call is None:
            spec = self.shape, self._name
            signature = Signature((spec, spec), self.plan.signature.scalars, self.shape)
            planned = Plan(region, self.device, signature)
            call = self._by_result[region] = RegionCall(planned, f"{self.name}_backward")
        return call

    def _gradients_call(self, needs: Needs, given: Needs) -> tuple[Any, RegionCall | None]:
        """The region of the gradients and its call; None: there is nothing to compute."""
        known = self._of_gradients.get((needs, given))
        if known is None:
            plan, types = self.plan, self.plan.types
            fusion = plugins.namespace("fusion", f"create_graph=True through {self.name}")
            backward = fusion.gradient_region(plan.region, types, needs, given)
            pairs = zip(types.outputs, given, strict=True)
            upstream = [(plan.shape, dtype) for dtype, is_given in pairs if is_given]
            tensors = (*plan.signature.tensors, *upstream)
            signature = Signature(tensors, plan.signature.scalars, plan.shape)
            call = None
            if backward.results:
                computed = Plan(backward.region, plan.device, signature)
                call = RegionCall(computed, f"{self.name}_backward")
            known = self._of_gradients[needs, given] = backward, call
        return known


def _filled(x: Any) -> Any:
    """An operand, or zeros where nobody reads its elements, which are no longer there."""
    gone = type(x.value) is MetaTensor
    return Tensor.zeros(x.shape, dtype=x.dtype, device=x.device) if gone else x


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
    shapes = tuple([None if value is None else value.shape for value in held])
    views = views_of((*inputs, *held)) if plan.device.has_kernels else ()
    stage = plan.backward(needs, shapes, views)
    gradients: list[Any] = [None] * len(inputs)
    for i, j in stage.passes:
        gradients[i] = grads[j]
    if stage.writes:
        allocate, size, device = stream_of(plan.device).allocate, plan.size, plan.device
        targets = [allocate(size, dtype) for _, dtype in stage.writes]
        memory = "memory" if views else "buffer"
        buffers = [None if value is None else getattr(value, memory) for value in held]
        offsets = offsets_of((*inputs, *held)) if views else ()
        given = [getattr(x, memory) if i in stage.reads else None for i, x in enumerate(inputs)]
        stage(given, buffers, scalars, targets, offsets)
        for (i, dtype), buffer in zip(stage.writes, targets, strict=True):
            gradients[i] = Tensor(buffer, plan.shape, dtype.name, device)
    for i, shape in stage.broadcast:
        gradients[i] = sum_to(whole(gradients[i]), shape)
    return gradients


def recorded_sum_to(gradient: Any, shape: Shape) -> Any:
    """A gradient summed over the dimensions along which its input was broadcast, recorded."""
    if gradient.shape == shape:
        return gradient
    wide = gradient.shape
    return apply_op(
        lambda value: sum_to(value, shape),
        lambda grad: [Spread(grad, wide)],
        gradient,
        op_name="sum_to",
        saves=(),
    )


def record_region(
    record: AutogradPrimitive,
    tensors: Sequence[bool],
    attrs: Mapping[str, Any],
    casts: Sequence[str | None] = (),
) -> Region:
    """A primitive alone as a region: operands, then the numbers among its attributes, in order.

    `tensors` says which operands are no Python numbers, `casts` to what those are converted first.
    """
    refs: list[Ref] = []
    counts = {"in": 0, "scalar": 0}
    for is_tensor in tensors:
        kind = "in" if is_tensor else "scalar"
        refs.append((kind, counts[kind]))
        counts[kind] += 1
    steps: list[PrimitiveStep] = []
    for i, dtype in enumerate(casts):
        if dtype is not None:
            steps.append(cast_step(("in", i), dtype, rounds=False))
            refs[refs.index(("in", i))] = ("step", len(steps) - 1)
    numbers, choices = split_attrs(attrs)
    slots = tuple((name, i) for i, name in enumerate(numbers, start=counts["scalar"]))
    steps.append(PrimitiveStep(record, tuple(refs), choices, slots))
    result = ("step", len(steps) - 1)
    return Region(counts["in"], counts["scalar"] + len(slots), tuple(steps), (result,))
