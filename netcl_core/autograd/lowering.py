"""Lowering: a region on a device becomes one forward and one backward kernel.

`plan` prepares a region for the shapes and dtypes of one use. On OpenCL the
programs are printed as scalar and vector C and rendered into
`templates/kernels/elementwise.cl.j2`; on the NumPy path the same programs are
printed as a Python function. Sizes are kernel arguments, so another batch size
builds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.autograd.dialect import PLAIN, Dialect, dialect_of
from netcl_core.autograd.emit import NUMPY_NAMES, OpenCLPrinter, Source, numpy_source
from netcl_core.autograd.layout import Layout, Shape, collapse
from netcl_core.autograd.region import (
    Program,
    Region,
    Signature,
    Types,
    backward_program,
    differentiable,
    forward_program,
    infer,
)
from netcl_core.backends import backend_of
from netcl_core.device import Device
from netcl_core.dtypes import DTYPES, NUMPY_OF_COMPUTE, Dtype
from netcl_core.rendering import render
from netcl_core.runtime.launch import Launch, pack

Needs: TypeAlias = tuple[bool, ...]
#: The shape of each output's gradient, which may be broadcast; None: it has none.
Grads: TypeAlias = tuple[Shape | None, ...]
#: How a kernel is written: "numpy", or the vector form of a kind of device; "aligned" where
#: every vector stands at a multiple of its size (OpenCL aligns buffers to the largest type).
Style: TypeAlias = str

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
        self._forward: Stage | None = None
        self._backward: dict[tuple[Needs, Grads], Stage] = {}

    @property
    def forward(self) -> Stage:
        """The forward kernel; made on first use."""
        if self._forward is None:
            shapes = [shape for shape, _ in self.signature.tensors]
            layout = collapse(shapes, self.shape)
            style = self._style(layout)
            source = forward_source(self.region, self.types, style, layout.key, self._dialect)
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
            style = self._style(layout)
            source = backward_source(
                self.region, self.types, needs, given, style, layout.key, self._dialect
            )
            stage = self._backward[needs, grads] = Stage(self, source, layout, shapes)
        return stage

    def flows(self, needs: Needs) -> tuple[bool, ...]:
        """Of each output, whether its gradient reaches an input that needs one."""
        found = differentiable(self.region, self.types, needs)
        return tuple(ref in found for ref in self.region.outputs)

    def _style(self, layout: Layout) -> Style:
        if self.device.backend == "numpy":
            return "numpy"
        width = 4 if self.device.kind == "gpu" else 16
        aligned = not layout.dims or layout.length % width == 0
        return f"{'aligned' if aligned else 'vector'}{width}"


_WIDTHS: Final = {"vector16": 16, "aligned16": 16, "vector4": 4, "aligned4": 4}


@final
class Generated:
    """A rendered kernel (or NumPy function) and the slots that it reads and writes."""

    def __init__(self, program: Program, text: str, entry: str, width: int) -> None:
        self.text = text
        self.entry = entry
        self.width = width
        self.reads = tuple((kind(slot), number(slot)) for slot in program.loads)
        self.passes = program.passes
        self.writes = tuple((number(slot), dtype) for slot, dtype, _ in program.stores)
        self.scalars = tuple(number(slot) for slot in program.scalars)
        self.function: Callable[..., Any] | None = None
        if width == 0 and program.stores:
            names: dict[str, Any] = dict(NUMPY_NAMES)
            exec(compile(text, f"<netcl {entry}>", "exec"), names)
            self.function = names[entry]


def kind(slot: str) -> str:
    """`in`, `gout`, `out` or `grad`: a slot without its number."""
    return slot.rstrip("0123456789")


def number(slot: str) -> int:
    """The number of a slot."""
    return int(slot[len(kind(slot)) :])


@lru_cache(maxsize=4096)
def forward_source(
    region: Region, types: Types, style: Style, key: Any, dialect: Dialect = PLAIN
) -> Generated:
    """The forward kernel of a region; equal requests share it."""
    program = forward_program(region, types)
    return _generate(program, types, style, key, dialect, _entry(region, "forward"))


@lru_cache(maxsize=4096)
def backward_source(
    region: Region,
    types: Types,
    needs: Needs,
    given: Needs,
    style: Style,
    key: Any,
    dialect: Dialect = PLAIN,
) -> Generated:
    """The backward kernel for the inputs that need a gradient and the outputs that have one."""
    program = backward_program(region, types, needs, given)
    return _generate(program, types, style, key, dialect, _entry(region, "backward"))


def _entry(region: Region, phase: str) -> str:
    return f"{region.name[:48]}_{phase}"


def _generate(
    program: Program, types: Types, style: Style, key: Any, dialect: Dialect, entry: str
) -> Generated:
    roots = [value for _, _, value in program.stores]
    if style == "numpy":
        slots = [*program.loads, *program.scalars]
        return Generated(program, numpy_source(program.block, roots, slots, entry), entry, 0)
    width = _WIDTHS[style]
    aligned = style.startswith("aligned")
    text = _OpenCLText(program, types, key, width, aligned, dialect).render(entry)
    return Generated(program, text, entry, width)


class _OpenCLText:
    """Puts a program's statements, loads and stores into the elementwise template."""

    def __init__(
        self,
        program: Program,
        types: Types,
        key: tuple[int, tuple[str, ...]],
        width: int,
        aligned: bool,
        dialect: Dialect,
    ) -> None:
        self.program = program
        self.outer, self.kinds = key
        self.width = width
        self.aligned = aligned
        self.dialect = dialect
        self.helpers: set[str] = set()
        self.types = types
        self.dtypes = {f"in{i}": name for i, name in enumerate(types.inputs)}
        self.dtypes |= {f"gout{i}": name for i, name in enumerate(types.outputs)}
        self.dtypes |= {slot: dtype for slot, dtype, _ in program.stores}

    def render(self, entry: str) -> str:
        vector_lines, scalar_lines = self._lines(self.width), self._lines(1)
        return render(
            "core/kernels/elementwise.cl.j2",
            entry=entry,
            parameters=self._parameters(),
            outer=self.outer,
            width=self.width,
            pointers=self._pointers(),
            vector_lines=vector_lines,
            scalar_lines=scalar_lines,
            helpers=sorted(self.helpers),
        )

    def _layout_of(self, slot: str) -> str:
        """How a slot stands in the iteration space; `kinds` lists inputs, then gradients."""
        if kind(slot) == "in":
            return self.kinds[number(slot)]
        return self.kinds[len(self.types.inputs) + number(slot)] if kind(slot) == "gout" else "full"

    def _parameters(self) -> list[str]:
        def storage(slot: str) -> str:
            return DTYPES[self.dtypes[slot]].storage

        result = [f"__global const {storage(slot)} *{slot}" for slot in self.program.loads]
        result += [f"__global {storage(slot)} *{slot}" for slot, _, _ in self.program.stores]
        result += [f"const {self.types.scalars[number(s)]} {s}" for s in self.program.scalars]
        names = ["length", "chunk"]
        if self.outer:
            names += ["rows", "rows_per_item", "pieces", *(f"d{i}" for i in range(self.outer))]
            for slot in self.program.loads:
                if self._layout_of(slot) in {"rows", "splat"}:
                    names += [f"t_{slot}_{axis}" for axis in range(self.outer)]
        return result + [f"const ulong {name}" for name in names]

    def _pointers(self) -> list[str]:
        lines = []
        for slot in [*self.program.loads, *(slot for slot, _, _ in self.program.stores)]:
            const = "const " if slot in self.program.loads else ""
            layout, dtype = self._layout_of(slot), DTYPES[self.dtypes[slot]]
            offset = ""
            if layout == "full" and self.outer:
                offset = " + row * length"
            elif layout in {"rows", "splat"}:
                terms = (f"c{axis} * t_{slot}_{axis}" for axis in range(self.outer))
                offset = " + " + " + ".join(terms)
            lines.append(f"__global {const}{dtype.storage} *p_{slot} = {slot}{offset};")
            if layout in {"one", "splat"}:
                lines.append(
                    f"const {dtype.compute} u_{slot} = {load_text(dtype, f'p_{slot}', '0', 1)};"
                )
        return lines

    def _lines(self, width: int) -> list[str]:
        sources = {slot: self._source(slot, width) for slot in self.program.loads}
        roots = [value for _, _, value in self.program.stores]
        printer = OpenCLPrinter(self.program.block, roots, width, sources, self.dialect)
        self.helpers |= printer.helpers
        stores = (
            self._store(slot, dtype, printer.result(value), width, self._same(value))
            for slot, dtype, value in self.program.stores
        )
        return [*printer.lines, *stores]

    def _source(self, slot: str, width: int) -> Source:
        if self._layout_of(slot) in {"one", "splat"}:
            return Source(f"u_{slot}", None)
        dtype = DTYPES[self.dtypes[slot]]
        scalar = load_text(dtype, f"p_{slot}", "i", 1)
        if width == 1:
            return Source(scalar, None)
        return Source(scalar, load_text(dtype, f"p_{slot}", "i", width, self.aligned))

    def _same(self, value: int) -> bool:
        """Whether a value is the same along a row: nothing that it needs varies there."""
        needed = (self.program.block.values[n] for n in self.program.block.live([value]))
        loads = (str(each.payload) for each in needed if each.op == "load")
        return all(self._layout_of(slot) in {"one", "splat"} for slot in loads)

    def _store(self, slot: str, dtype: str, value: str, width: int, same: bool) -> str:
        if same and width > 1 and self.outer and DTYPES[dtype].storage == "half":
            # PoCL 3.1 takes a row of equal halves for aligned to the vector's size, and crashes
            one = f"const float s_{slot} = ({value}).s0;"
            each = f"vstore_half(s_{slot}, i + j, p_{slot});"
            return f"{one} for (size_t j = 0; j < {width}; ++j) {each}"
        return store_text(DTYPES[dtype], f"p_{slot}", "i", value, width, self.aligned)


def load_text(dtype: Dtype, pointer: str, index: str, width: int, aligned: bool = False) -> str:
    """OpenCL C that reads `width` elements at an index, in the dtype's compute type."""
    storage = dtype.storage
    if storage == "half":
        place = f"{index}, {pointer}" if width == 1 else f"0, {pointer} + {index}"
        return f"vload_half{width if width > 1 else ''}({place})"
    if width == 1:
        return f"{pointer}[{index}]"
    if aligned and storage != "uchar":
        return f"*((__global const {storage}{width} *)({pointer} + {index}))"
    vector = f"vload{width}(0, {pointer} + {index})"
    return f"convert_int{width}({vector})" if storage == "uchar" else vector


def store_text(
    dtype: Dtype, pointer: str, index: str, value: str, width: int, aligned: bool = False
) -> str:
    """The OpenCL C statement that writes `width` elements, given in the compute type."""
    storage = dtype.storage
    if storage == "half":
        if width == 1:
            return f"vstore_half({value}, {index}, {pointer});"
        return f"vstore_half{width}({value}, 0, {pointer} + {index});"
    if storage == "uchar":
        value = f"convert_uchar{width if width > 1 else ''}({value})"
    if width == 1:
        return f"{pointer}[{index}] = {value};"
    if aligned and storage != "uchar":
        return f"*((__global {storage}{width} *)({pointer} + {index})) = {value};"
    return f"vstore{width}({value}, 0, {pointer} + {index});"


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
