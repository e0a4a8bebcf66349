"""Casts of a function's tensors joined: many by one launch, and their gradients by another.

In mixed precision every weight is cast, and a launch of a small one takes a GPU as long as one of
millions of elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, final

from netcl_core import DTYPES, Bound, Device, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Node
from netcl_core.inspect.programs import Growing, RegionStep, Step, Unit, is_leaf, region_of
from netcl_core.inspect.recorded import (
    PlainCall,
    RegionCall,
    apply,
    cast_region,
    plan_gradients,
    recomputed_gradients,
)
from netcl_core.inspect.sources import Plan, Signature
from netcl_core.inspect.streams import stream_of

#: So many casts are one launch at most: their gradients wait for each other, and whoever sends
#: them to other processes shall not have to wait for all.
_MOST: Final = 16
#: Elements of a work-group.
_BLOCK: Final = 4096
_ITEMS: Final = 256


def join(units: Sequence[Unit]) -> list[Unit]:
    """The units with casts of what the function is given or reads, of equal dtypes, joined."""
    alike: dict[Any, list[Unit]] = {}
    for unit in units:
        if _is_cast(unit):
            node = unit.nodes[0]
            source = node.inputs[0]
            key = node.device, source.dtype, node.dtype, node.requires_grad
            alike.setdefault(key, []).append(unit)
    joined = list(units)
    for casts in alike.values():
        for i in range(0, len(casts), _MOST):
            members = casts[i : i + _MOST]
            if len(members) > 1:
                nodes = [unit.nodes[0] for unit in members]
                joined[joined.index(members[0])] = Unit(nodes, False, nodes, step=CastsStep)
                for unit in members[1:]:
                    joined.remove(unit)
    return joined


def _is_cast(unit: Unit) -> bool:
    """Whether a unit is nothing but the cast of such a tensor between floats."""
    (node, *more), device = unit.nodes, unit.nodes[0].device
    region = region_of(node)
    if more or region is None or node.cut or node.is_result or device is None:
        return False
    if len(region.steps) != 1 or region.steps[0].cast is None or region.scalars:
        return False
    (source,) = node.inputs
    floats = all(DTYPES[x.dtype].compute == "float" for x in (source, node))
    return floats and is_leaf(source) and device.has_kernels and node.size > 0


@lru_cache(maxsize=256)
def cast_together(
    shapes: tuple[tuple[int, ...], ...], source: str, target: str, device: Device
) -> CastsCall:
    """The call that casts tensors of these shapes from one dtype to another by one launch."""
    region = cast_region(target, rounds=False)
    plans = [Plan(region, device, Signature(((shape, source),), ())) for shape in shapes]
    return CastsCall([RegionCall(plan, "autocast") for plan in plans])


@final
class CastsStep(Step):
    """Casts by one launch."""

    def __init__(self, unit: Unit, device: Device) -> None:
        super().__init__(unit)
        steps = [RegionStep(Unit([node], True, [node]), device) for node in unit.nodes]
        self.call = CastsCall([step.call for step in steps])
        self.inputs = tuple([step.inputs[0] for step in steps])

    def resized(self, growing: Growing) -> CastsStep:
        """The same step for other sizes."""
        step = self.with_sizes(growing.sizes)
        calls = [RegionCall(x.plan.resized(growing.sizes), x.name) for x in self.call.calls]
        step.call = CastsCall(calls)
        return step

    @property
    def launches(self) -> int:
        return 1

    @property
    def sources(self) -> list[str]:
        return [self.call.bound(range(len(self.call.calls)), False).launches[0].source]

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        results = apply(self.call, [values[i] for i in self.inputs])
        values.update(zip(self.outputs, results, strict=True))


@final
class CastsCall(PlainCall):
    """Several casts from one dtype to another, as a call (see `apply.Call`)."""

    layouts = ()

    def __init__(self, calls: Sequence[RegionCall]) -> None:
        self.calls = calls
        self.name = f"casts({len(calls)})"
        self.device = calls[0].device
        self.results: tuple[Spec, ...] = tuple([spec for call in calls for spec in call.results])
        self.source: str = calls[0].plan.types.inputs[0]
        self.known: dict[Any, Any] = {}
        self._bounds: dict[Any, Bound] = {}

    def bound(self, members: Sequence[int], back: bool) -> Bound:
        """The launch for some of the casts, or for those of their gradients."""
        key = tuple(members), back
        known = self._bounds.get(key)
        if known is not None:
            return known
        dtypes = [self.source, self.results[0].dtype]
        source, target = reversed(dtypes) if back else dtypes
        sizes = [self.results[i].size for i in members]
        groups = [-(-size // _BLOCK) for size in sizes]
        numbers: list[Any] = []
        for size, first in zip(sizes, itertools.accumulate(groups, initial=0), strict=False):
            numbers += [("ulong", size), ("uint", first)]
        count = len(sizes)
        buffers = [(kind, i) for kind in ("in", "out") for i in range(count)]
        items = 1 if self.device.kind == "cpu" else min(_ITEMS, self.device.max_work_group_size)
        context = {"count": count, "block": _BLOCK, "group": items,
                   "source": DTYPES[source].storage, "target": DTYPES[target].storage}  # fmt: skip
        kernel = Kernel("fusion/casts.cl.j2", "casts", (*buffers, *numbers),
                        (sum(groups) * items,), (items,), context)  # fmt: skip
        given = [Spec((size,), source) for size in sizes]
        results = [Spec((size,), target) for size in sizes]
        bound = self._bounds[key] = Bound(self.device, Kernels((kernel,)), given, results)
        return bound

    def _cast(self, members: Sequence[int], tensors: Sequence[Tensor], back: bool) -> list[Tensor]:
        dtype = DTYPES[self.source if back else self.results[0].dtype]
        allocate = stream_of(self.device).allocate
        specs = [self.results[i] for i in members]
        buffers = [allocate(spec.size, dtype) for spec in specs]
        self.bound(members, back)([x.buffer for x in tensors], buffers)
        return [
            Tensor(buffer, spec.shape, dtype.name, self.device)
            for buffer, spec in zip(buffers, specs, strict=True)
        ]

    def reading(self, layouts: Any) -> CastsCall:
        """Itself: views are cast one by one."""
        return self

    def run(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> list[Tensor]:
        """The results."""
        if all(x.geometry is None for x in inputs):
            return self._cast(range(len(inputs)), inputs, False)
        return [call.run([x], ()) for call, x in zip(self.calls, inputs, strict=True)]

    def flows(self, needs: Sequence[bool]) -> tuple[bool, ...]:
        """Of each result, whether its gradient reaches an input that needs one."""
        return tuple(needs)

    def saves(self, needs: Sequence[bool]) -> tuple[int, ...]:
        """The gradients read no input."""
        return ()

    def gradients(self, node: Node, grads: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
        """The casts back of those that came."""
        gradients: list[Any] = [None] * len(grads)
        came = [i for i, grad in enumerate(grads) if needs[i] and grad is not None]
        whole = [i for i in came if type(grads[i]) is Tensor]
        if len(whole) > 1:
            values = self._cast(whole, [grads[i] for i in whole], True)
            for i, value in zip(whole, values, strict=True):
                gradients[i] = value
        for i in came:
            if gradients[i] is None:
                x = [node.inputs[i].value]
                (gradients[i],) = plan_gradients(self.calls[i].plan, x, (), (True,), [grads[i]])
        return gradients

    def recorded_gradients(
        self, node: Node, grads: Sequence[Any], needs: Sequence[bool]
    ) -> list[Any]:
        """The same by the casts one by one, recorded."""

        def one_by_one(*operands: Any) -> list[Any]:
            return [apply(call, [x]) for call, x in zip(self.calls, operands, strict=True)]

        return recomputed_gradients(one_by_one, node.inputs, grads, needs, record=True)
