"""Lowering: a region on a device becomes one forward and one backward kernel.

`plan` prepares a region for the shapes and dtypes of one use. On OpenCL the
programs are printed as scalar and vector C and rendered into
`templates/kernels/elementwise.cl.j2`; on the NumPy path the same programs are
printed as a Python function. Sizes are kernel arguments, so another batch size
builds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.codegen.dialect import dialect_of
from netcl_core.codegen.generation import (
    Generated,
    Needs,
    Style,
    backward_source,
    forward_source,
)
from netcl_core.codegen.layout import Layout, Shape, Sizes, collapse, renamed
from netcl_core.codegen.region import (
    Region,
    Signature,
    differentiable,
    infer,
)
from netcl_core.device.device import Device
from netcl_core.dtypes import DTYPES, NUMPY_OF_COMPUTE
from netcl_core.runtime.launch import Launch, pack
from netcl_core.runtime.stream import backend_of

#: The shape of each output's gradient, which may be broadcast; None: it has none.
Grads: TypeAlias = tuple[Shape | None, ...]

GPU_LOCAL: Final = 128
_MIN_CHUNK: Final = 256
_MAX_CHUNK: Final = 4096
#: Longer chunks suit a stream from memory (5 % and more at 2^24 on Intel's runtime), as long as
#: every core gets so many of them that all end together.
_LONG_CHUNK: Final = 65536
_CHUNKS_PER_CORE: Final = 32


@final
class Plan:
    """A region for given shapes and dtypes on one device.

    `shape` and `types.outputs` describe the results; `forward` and `backward(needs)`
    are the stages that compute them and the inputs' gradients.
    """

    def __init__(self, region: Region, device: Device, signature: Signature) -> None:
        self.region = region
        self.device = device
        self.signature = signature
        self.types, self.shape = infer(region, signature)
        self.size = math.prod(self.shape)
        self.differentiable = any(DTYPES[dtype].floating for dtype in self.types.outputs) and any(
            step.parsed.backward is not None for step in region.steps
        )
        self.results = tuple(DTYPES[dtype] for dtype in self.types.outputs)
        self.allocate = backend_of(device).allocate
        self._dialect = dialect_of(device)
        self._full: Grads = (self.shape,) * len(region.outputs)
        self._sources: dict[Any, Generated] = {}  # shared by all sizes, and so are the flows
        self._flows: dict[Needs, tuple[bool, ...]] = {}
        self._forward: Stage | None = None
        self._backward: dict[tuple[Needs, Grads], Stage] = {}

    def resized(self, sizes: Sizes) -> Plan:
        """The plan for inputs of other sizes, given for each size above 1 that changes.

        They are broadcast alike, so that all but the geometry is as it was.
        """
        made = object.__new__(Plan)
        made.__dict__.update(self.__dict__)
        old = self.signature
        tensors = tuple([(renamed(shape, sizes), dtype) for shape, dtype in old.tensors])
        shape = None if old.shape is None else renamed(old.shape, sizes)
        made.signature = Signature(tensors, old.scalars, shape)
        made.shape = renamed(self.shape, sizes)
        made.size = math.prod(made.shape)
        made._full = (made.shape,) * len(self.region.outputs)
        made._forward, made._backward = None, {}
        return made

    @property
    def forward(self) -> Stage:
        """The forward kernel; made on first use."""
        if self._forward is None:
            shapes = [shape for shape, _ in self.signature.tensors]
            layout = collapse(shapes, self.shape)
            key = self._style(layout), layout.key
            source = self._sources.get(key)
            if source is None:
                source = forward_source(self.region, self.types, *key, self._dialect)
                self._sources[key] = source
            self._forward = Stage(self, source, layout, shapes)
        return self._forward

    def backward(self, needs: Needs, grads: Grads | None = None) -> Stage:
        """The backward kernel for the inputs that need a gradient; made on first use.

        `grads` are the shapes of the outputs' gradients; default: that of the outputs.
        """
        grads = self._full if grads is None else grads
        stage = self._backward.get((needs, grads))
        if stage is None:
            given = tuple(shape is not None for shape in grads)
            shapes = [shape for shape, _ in self.signature.tensors]
            shapes += [self.shape if shape is None else shape for shape in grads]
            layout = collapse(shapes, self.shape)
            key = needs, given, self._style(layout), layout.key
            source = self._sources.get(key)
            if source is None:
                source = backward_source(self.region, self.types, *key, self._dialect)
                self._sources[key] = source
            stage = self._backward[needs, grads] = Stage(self, source, layout, shapes)
        return stage

    def flows(self, needs: Needs) -> tuple[bool, ...]:
        """Of each output, whether its gradient reaches an input that needs one."""
        known = self._flows.get(needs)
        if known is None:
            found = differentiable(self.region, self.types, needs)
            known = self._flows[needs] = tuple([ref in found for ref in self.region.outputs])
        return known

    def _style(self, layout: Layout) -> Style:
        if self.device.backend == "numpy":
            return "numpy"
        width = 4 if self.device.kind == "gpu" else 16
        aligned = not layout.dims or layout.length % width == 0
        return f"{'aligned' if aligned else 'vector'}{width}"


@final
class Stage:
    """A generated kernel with the geometry of one plan, ready to run.

    Call it with the inputs' buffers, the gradients of the outputs (forward: none),
    the scalars and the buffers to fill.
    """

    def __init__(
        self, plan: Plan, generated: Generated, layout: Layout, shapes: Sequence[Shape]
    ) -> None:
        self.generated = generated
        self.plan = plan
        self.shapes = tuple(shapes)
        self.writes = generated.writes
        self.reads = tuple(index for kind, index in generated.reads if kind == "in")
        places = tuple((int(kind != "in"), index) for kind, index in generated.reads)
        in_order = places == tuple((0, i) for i in range(plan.region.inputs))
        self._places = None if in_order else places  # None: all inputs in their order
        who = plan.region.name
        self._scalars = tuple((index, plan.types.scalars[index]) for index in generated.scalars)
        self._who = who
        self._last: tuple[Any, Sequence[bytes]] = ((), ())
        self._launch: Launch | None = None
        if generated.width and generated.writes and plan.size:
            items, constants = _geometry(layout, plan, generated)
            local = (GPU_LOCAL,) if plan.device.kind == "gpu" else (1,)
            rounded = -(-items // local[0]) * local[0]
            self._launch = Launch(
                plan.device, generated.text, generated.entry, (rounded,), local, constants, who
            )

    @property
    def direct(self) -> Launch | None:
        """The launch, if its buffers are just all inputs in order and then the results."""
        return self._launch if self._places is None and not self._scalars else None

    def __call__(
        self,
        inputs: Sequence[Any],
        grads: Sequence[Any],
        scalars: Sequence[Any],
        targets: Sequence[Any],
    ) -> None:
        launch = self._launch
        if launch is not None:
            if self._places is None:
                buffers = [*inputs, *targets]
            else:
                given = (inputs, grads)
                buffers = [given[which][i] for which, i in self._places]
                buffers += targets
            if self._scalars:
                launch(buffers, self._packed(scalars))
            else:
                launch(buffers)
        elif self.writes and self.plan.size:
            self._run_numpy(inputs, grads, scalars, targets)

    def _packed(self, scalars: Sequence[Any]) -> Sequence[bytes]:
        """The scalars as bytes; a tuple is what its caller gives again and again."""
        held = self._last
        if held[0] is scalars:
            return held[1]
        packed = [pack(scalars[i], ctype, self._who) for i, ctype in self._scalars]
        if type(scalars) is tuple:
            self._last = scalars, packed
        return packed

    def _run_numpy(
        self,
        inputs: Sequence[Any],
        grads: Sequence[Any],
        scalars: Sequence[Any],
        targets: Sequence[Any],
    ) -> None:
        plan, function = self.plan, self.generated.function
        args: list[Any] = []
        for slot, i in self.generated.reads:
            first = slot == "in"
            shape = self.shapes[i if first else plan.region.inputs + i]
            dtype = plan.types.inputs[i] if first else plan.types.outputs[i]
            array = (inputs[i] if first else grads[i]).reshape(shape)
            args.append(array.astype(NUMPY_OF_COMPUTE[DTYPES[dtype].compute], copy=False))
        args += [
            np.frombuffer(pack(scalars[i], c, self._who), NUMPY_OF_COMPUTE[c])[0]
            for i, c in self._scalars
        ]
        assert function is not None  # a stage without a launch is a NumPy stage
        with np.errstate(all="ignore"):
            for target, value in zip(targets, function(*args), strict=True):
                target.reshape(plan.shape)[...] = value


def _geometry(layout: Layout, plan: Plan, generated: Generated) -> tuple[int, list[bytes]]:
    """The number of work-items and the constant arguments, in the template's order."""
    device, size = plan.device, plan.size
    if device.kind == "gpu":
        chunk = generated.width
    else:
        longest = size // (_CHUNKS_PER_CORE * device.compute_units)
        longest = min(max(longest, _MAX_CHUNK), _LONG_CHUNK)
        chunk = min(max(size // 4, _MIN_CHUNK), longest)
        chunk = -(-chunk // generated.width) * generated.width
    pieces = max(1, -(-layout.length // chunk))
    numbers = [layout.length, chunk]
    items = pieces
    if layout.dims:
        per_item = 1 if pieces > 1 or device.kind == "gpu" else max(1, chunk // layout.length)
        items = pieces * -(-layout.rows // per_item)
        numbers += [layout.rows, per_item, pieces, *layout.dims]
        for slot, i in generated.reads:
            place = i if slot == "in" else plan.region.inputs + i
            if layout.kinds[place] in {"rows", "splat"}:
                numbers += layout.strides[place]
    return items, [pack(n, "ulong", generated.entry) for n in numbers]


@lru_cache(maxsize=8192)
def plan(region: Region, device: Device, signature: Signature) -> Plan:
    """The plan of a region for one use; equal uses share it, the least used are dropped."""
    return Plan(region, device, signature)


def allocate_results(made: Plan) -> list[Any]:
    """Fresh buffers for the outputs of a plan."""
    allocate, size = made.allocate, made.size
    return [allocate(size, dtype) for dtype in made.results]
