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
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.codegen.generation import Form, Generated, Needs, Style, TypedRegion, typed_region
from netcl_core.codegen.layout import Layout, Shape, Sizes, Strides, collapse, renamed
from netcl_core.codegen.region import Region, Signature, Types
from netcl_core.dtypes import DTYPES, NUMPY_OF_COMPUTE, Dtype
from netcl_core.hardware.device import Device
from netcl_core.runtime.opencl_stream import Launch, pack
from netcl_core.runtime.stream import stream_of

#: The shape of each output's gradient, which may be broadcast; None: it has none.
Grads: TypeAlias = tuple[Shape | None, ...]

GPU_LOCAL: Final = 128
_MIN_CHUNK: Final = 256
_MAX_CHUNK: Final = 4096
#: Longer chunks suit a stream from memory (5 % and more at 2^24 on Intel's runtime), as long as
#: every core gets so many of them that all end together.
_LONG_CHUNK: Final = 65536
_CHUNKS_PER_CORE: Final = 32
#: In which dtype NumPy computes with values of each.
_COMPUTED: Final = {dtype.numpy: NUMPY_OF_COMPUTE[dtype.compute] for dtype in DTYPES.values()}


@final
class Plan:
    """A region for given shapes and dtypes on one device.

    `shape` and `types.outputs` describe the results; `forward` and `backward(needs)`
    are the stages that compute them and the inputs' gradients.
    """

    __slots__ = ("_backward", "_forward", "_of_views", "device", "shape", "signature", "size",
                 "typed")  # fmt: skip

    def __init__(
        self,
        region: Region,
        device: Device,
        signature: Signature,
        typed: TypedRegion | None = None,
    ) -> None:
        self.typed = typed = typed or typed_region(region, device, signature)
        self.device = device
        self.signature = signature
        self.shape = typed.shape(signature)
        self.size = math.prod(self.shape)
        self._forward: Stage | None = None
        self._of_views: dict[Strides, Stage] = {}
        self._backward: dict[tuple[Needs, Grads, Strides], Stage] = {}

    def resized(self, sizes: Sizes) -> Plan:
        """The plan for inputs of other sizes, given for each size above 1 that changes.

        They are broadcast alike, so that all but the geometry is as it was.
        """
        tensors = [(renamed(shape, sizes), dtype) for shape, dtype in self.signature.tensors]
        shape = self.signature.shape
        shape = None if shape is None else renamed(shape, sizes)
        signature = self.signature._replace(tensors=tuple(tensors), shape=shape)
        return Plan(self.region, self.device, signature, self.typed)

    @property
    def region(self) -> Region:
        """What is computed."""
        return self.typed.region

    @property
    def types(self) -> Types:
        """The dtypes of all values."""
        return self.typed.types

    @property
    def results(self) -> tuple[Dtype, ...]:
        """The dtypes of the outputs."""
        return self.typed.results

    @property
    def differentiable(self) -> bool:
        """Whether gradients flow through it at all."""
        return self.typed.differentiable

    def allocate(self, size: int, dtype: Dtype) -> Any:
        """A buffer of the device."""
        return stream_of(self.device).allocate(size, dtype)

    @property
    def forward(self) -> Stage:
        """The forward kernel; made on first use."""
        if self._forward is None:
            shapes = [shape for shape, _ in self.signature.tensors]
            layout = collapse(shapes, self.shape)
            form = self.typed.forward(self._style(layout), layout.key)
            self._forward = Stage(self, form, layout, shapes)
        return self._forward

    def compute(
        self, inputs: Sequence[Any], scalars: Sequence[Any], targets: Sequence[Any]
    ) -> None:
        """Fill buffers with the results for tensors, views among them."""
        views = views_of(inputs) if self.device.has_kernels else ()
        if views:
            memory = [x.memory for x in inputs]
            self.of_views(views)(memory, (), scalars, targets, offsets_of(inputs))
        else:
            self.forward([x.buffer for x in inputs], (), scalars, targets)

    def of_views(self, views: Strides) -> Stage:
        """The forward kernel where some inputs are views, and behind them perhaps the output."""
        stage = self._of_views.get(views)
        if stage is None:
            shapes = [shape for shape, _ in self.signature.tensors]
            shapes += [self.shape] * (len(views) - len(shapes))
            layout = collapse(shapes, self.shape, views)
            form = self.typed.forward(self._style(layout), layout.key)
            into_view = len(views) > len(self.signature.tensors)
            stage = self._of_views[views] = Stage(self, form, layout, shapes, into_view)
        return stage

    def backward(self, needs: Needs, grads: Grads | None = None, views: Strides = ()) -> Stage:
        """The backward kernel for the inputs that need a gradient; made on first use.

        `grads` are the shapes of the outputs' gradients; default: that of the outputs. `views`
        are the strides of the inputs and then of these gradients, if some are views.
        """
        grads = (self.shape,) * len(self.typed.results) if grads is None else grads
        stage = self._backward.get((needs, grads, views))
        if stage is None:
            given = tuple([shape is not None for shape in grads])
            shapes = [shape for shape, _ in self.signature.tensors]
            shapes += [self.shape if shape is None else shape for shape in grads]
            layout = collapse(shapes, self.shape, views)
            form = self.typed.backward(needs, given, self._style(layout), layout.key)
            stage = self._backward[needs, grads, views] = Stage(self, form, layout, shapes)
            computed = sorted(i for i, _ in (*stage.passes, *stage.writes))
            stage.broadcast = tuple((i, shapes[i]) for i in computed if shapes[i] != self.shape)
        return stage

    def flows(self, needs: Needs) -> tuple[bool, ...]:
        """Of each output, whether its gradient reaches an input that needs one."""
        return self.typed.flows(needs)

    def _style(self, layout: Layout) -> Style:
        if not self.device.has_kernels:
            return "numpy"
        whole = layout.length if layout.dims else 0
        if any(kind[-1] == "+" for kind in layout.kinds):
            whole = 1  # a view may begin anywhere
        if self.device.kind != "gpu":
            return "vector16" if whole % 16 else "aligned16"
        types = self.typed.types
        if whole % 8 == 0 and all(DTYPES[x].itemsize == 2 for x in (*types.inputs, *types.outputs)):
            return "aligned8"  # 16 bytes, as four floats are
        return "vector4" if whole % 4 else "aligned4"


@final
class Stage:
    """A generated kernel with the geometry of one plan, ready to run.

    Call it with the inputs' buffers, the gradients of the outputs (forward: none),
    the scalars and the buffers to fill.

    Attributes:
        passes: Backward, the inputs whose gradient is that of an output, with that output.
        writes: What is filled: the number and the dtype of each result.
        broadcast: Backward, the inputs whose gradient has to be summed, with their shape.
        writes_view: Whether its target is a view, which stands behind the inputs in the layout.
    """

    __slots__ = ("_forms", "_last", "_launch", "broadcast", "form", "layout", "passes", "plan",
                 "shapes", "writes", "writes_view")  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        form: Form,
        layout: Layout,
        shapes: Sequence[Shape],
        writes_view: bool = False,
    ) -> None:
        self.form = form
        self.writes_view = writes_view
        self.plan = plan
        self.layout = layout
        self.shapes = shapes
        self.passes = form.generated.passes
        self.writes = form.writes
        self.broadcast: tuple[tuple[int, Shape], ...] = ()
        self._last: tuple[Any, Sequence[bytes]] = ((), ())
        self._launch: Launch | None = None
        self._forms: list[tuple[Shape, Any]] = []

    @property
    def generated(self) -> Generated:
        """The source, and what it reads and writes."""
        return self.form.generated

    @property
    def reads(self) -> tuple[int, ...]:
        """The inputs that it reads."""
        return self.form.reads

    @property
    def launch(self) -> Launch | None:
        """The kernel with its geometry; None: there is nothing to launch."""
        kernel = self.form.kernel
        if self._launch is None and kernel is not None and self.plan.size:
            items, constants = _geometry(self)
            local = (GPU_LOCAL,) if self.plan.device.kind == "gpu" else (1,)
            rounded = -(-items // local[0]) * local[0]
            self._launch = Launch(kernel, (rounded,), local, constants, self.form.who)
        return self._launch

    @property
    def direct(self) -> Launch | None:
        """The launch, if its buffers are just all inputs in order and then the results."""
        return self.launch if self.form.places is None else None

    def __call__(
        self,
        inputs: Sequence[Any],
        grads: Sequence[Any],
        scalars: Sequence[Any],
        targets: Sequence[Any],
        offsets: Sequence[int] = (),
    ) -> None:
        """Enqueue it; `offsets` are those of the views among inputs, gradients and the target."""
        launch, form = self._launch or self.launch, self.form
        if launch is not None:
            if form.places is None:
                buffers = [*inputs, *targets]
            else:
                given = (inputs, grads)
                buffers = [given[which][i] for which, i in form.places]
                buffers += targets
            packed = self.packed(scalars) if form.scalars else ()
            if offsets:
                packed = [*packed, *self.packed_offsets(offsets)]
            stream_of(self.plan.device).launch(launch, buffers, packed)
        elif self.writes and self.plan.size:
            self._run_numpy(inputs, grads, scalars, targets)

    def packed_offsets(self, offsets: Sequence[int]) -> list[bytes]:
        """The offsets of the views that it reads and writes, in its own order."""
        views = [i for i, kind in enumerate(self.layout.kinds) if kind[-1] == "+"]
        known = dict(zip(views, offsets, strict=True))
        return [pack(known[i], "long", self.form.who) for i in _places(self) if i in known]

    def packed(self, scalars: Sequence[Any]) -> Sequence[bytes]:
        """The scalars that it reads, as bytes; a tuple is what its caller gives again and again."""
        held = self._last
        if held[0] is scalars:
            return held[1]
        packed = [pack(scalars[i], ctype, self.form.who) for i, ctype in self.form.scalars]
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
        given = [(inputs if slot == "in" else grads)[i] for slot, i in self.generated.reads]
        forms = self._forms = self._forms or self._form()
        run = partial(self._compute, scalars)
        stream_of(self.plan.device).host_call(run, given, targets, forms)

    def _form(self) -> list[tuple[Shape, Any]]:
        """Shape and dtype of what a NumPy stage reads and fills."""
        plan, region = self.plan, self.plan.region
        forms: list[tuple[Shape, Any]] = []
        for slot, i in self.generated.reads:
            first = slot == "in"
            dtype = plan.types.inputs[i] if first else plan.types.outputs[i]
            forms.append((self.shapes[i if first else region.inputs + i], DTYPES[dtype].numpy))
        return forms + [(plan.shape, dtype.numpy) for _, dtype in self.writes]

    def _compute(self, scalars: Sequence[Any], arrays: Sequence[Any], *targets: Any) -> None:
        function, form = self.generated.function, self.form
        assert function is not None  # a stage without a launch is a NumPy stage
        args = [array.astype(_COMPUTED[array.dtype], copy=False) for array in arrays]
        args += [
            np.frombuffer(pack(scalars[i], c, form.who), NUMPY_OF_COMPUTE[c])[0]
            for i, c in form.scalars
        ]
        for target, value in zip(targets, function(*args), strict=True):
            target[...] = value


def _places(stage: Stage) -> list[int]:
    """The places in its layout of what a stage reads and, if that is a view, writes."""
    inputs, generated = stage.plan.region.inputs, stage.form.generated
    places = [i if slot == "in" else inputs + i for slot, i in generated.reads]
    return [*places, inputs] if stage.writes_view else places


def _geometry(stage: Stage) -> tuple[int, list[bytes]]:
    """The number of work-items and the constant arguments, in the template's order."""
    layout, generated = stage.layout, stage.form.generated
    device, size = stage.plan.device, stage.plan.size
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
    packed = [pack(n, "ulong", generated.entry) for n in numbers]
    for place in _places(stage):
        if layout.kinds[place] not in {"full", "one"}:
            packed += [pack(n, "long", generated.entry) for n in layout.strides[place]]
    return items, packed


def views_of(tensors: Sequence[Any]) -> Strides:
    """The strides of those that are views; empty: none is. None stands for no tensor."""
    if all(x is None or x.geometry is None for x in tensors):
        return ()
    return tuple([None if x is None or x.geometry is None else x.geometry.strides for x in tensors])


def offsets_of(tensors: Sequence[Any]) -> list[int]:
    """The offsets of those that are views."""
    return [x.geometry.offset for x in tensors if x is not None and x.geometry is not None]


@lru_cache(maxsize=1024)
def plan(region: Region, device: Device, signature: Signature) -> Plan:
    """The plan of a region for one use; equal uses share it, the least used are dropped."""
    return Plan(region, device, signature)


def allocate_results(planned: Plan) -> list[Any]:
    """Fresh buffers for the outputs of a plan."""
    allocate, size = planned.allocate, planned.size
    return [allocate(size, dtype) for dtype in planned.results]
