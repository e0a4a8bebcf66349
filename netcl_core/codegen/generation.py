"""Sources: a region's programs printed and put into the elementwise template.

On OpenCL as scalar and vector C, on the NumPy path as a Python function. Equal
requests share what was generated; sizes are kernel arguments and no part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

from netcl_core.codegen.emit import (
    NUMPY_NAMES,
    PLAIN,
    Dialect,
    OpenCLPrinter,
    SlotAccess,
    dialect_of,
    numpy_source,
)
from netcl_core.codegen.layout import Shape
from netcl_core.codegen.region import (
    KernelProgram,
    Region,
    Signature,
    Types,
    backward_program,
    differentiable,
    forward_program,
    infer,
)
from netcl_core.dtypes import DTYPES, Dtype
from netcl_core.hardware.device import Device
from netcl_core.hardware.programs import Recipe, SharedKernel, shared_kernel
from netcl_core.runtime.rendering import get_template, program

Needs: TypeAlias = tuple[bool, ...]
#: How a kernel is written: "numpy", or the vector form of a kind of device; "aligned" where
#: every vector stands at a multiple of its size (OpenCL aligns buffers to the largest type).
Style: TypeAlias = str

#: How an input stands that is one element along a row.
_SAME: Final = frozenset({"one", "splat", "splat+"})
_WIDTHS: Final = {"vector16": 16, "aligned16": 16, "aligned8": 8, "vector4": 4, "aligned4": 4}


@final
class Generated:
    """A rendered kernel (or NumPy function) and the slots that it reads and writes."""

    def __init__(self, program: KernelProgram, text: str, entry: str, width: int) -> None:
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
    program: KernelProgram, types: Types, style: Style, key: Any, dialect: Dialect, entry: str
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
        program: KernelProgram,
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
        self.types = types
        self.dtypes = {f"in{i}": name for i, name in enumerate(types.inputs)}
        self.dtypes |= {f"gout{i}": name for i, name in enumerate(types.outputs)}
        self.dtypes |= {slot: dtype for slot, dtype, _ in program.stores}

    def render(self, entry: str) -> str:
        vector_lines, scalar_lines = self._lines(self.width), self._lines(1)
        return program(
            "core/kernels/elementwise.cl.j2",
            entry=entry,
            parameters=self._parameters(),
            outer=self.outer,
            width=self.width,
            pointers=self._pointers(),
            vector_lines=vector_lines,
            scalar_lines=scalar_lines,
        )

    def _layout_of(self, slot: str) -> str:
        """How a slot stands in the iteration space; `kinds` lists inputs, then gradients.

        The output of a forward program comes behind the inputs where it is a view.
        """
        first = 0 if kind(slot) == "in" else len(self.types.inputs)
        if kind(slot) == "grad" or (kind(slot) == "out" and first == len(self.kinds)):
            return "full"
        return self.kinds[first + number(slot)]

    def _slots(self) -> list[str]:
        """What is read and what is written."""
        return [*self.program.loads, *(slot for slot, _, _ in self.program.stores)]

    def _parameters(self) -> list[str]:
        def storage(slot: str) -> str:
            return DTYPES[self.dtypes[slot]].storage

        result = [f"__global const {storage(slot)} *{slot}" for slot in self.program.loads]
        result += [f"__global {storage(slot)} *{slot}" for slot, _, _ in self.program.stores]
        result += [f"const {self.types.scalars[number(s)]} {s}" for s in self.program.scalars]
        views = [slot for slot in self._slots() if self._layout_of(slot)[-1] == "+"]
        result += [f"const long o_{slot}" for slot in views]
        names = ["length", "chunk"]
        if self.outer:
            names += ["rows", "rows_per_item", "pieces", *(f"d{i}" for i in range(self.outer))]
        result += [f"const ulong {name}" for name in names]
        for slot in self._slots():
            layout, axes = self._layout_of(slot), range(self.outer)
            if layout not in {"full", "one"}:
                result += [f"const long t_{slot}_{axis}" for axis in axes]
            if layout == "apart+":
                result.append(f"const long s_{slot}")
        return result

    def _pointers(self) -> list[str]:
        lines = []
        for slot in self._slots():
            const = "const " if slot in self.program.loads else ""
            layout, dtype = self._layout_of(slot), DTYPES[self.dtypes[slot]]
            offset = ""
            if layout == "full" and self.outer:
                offset = " + row * length"
            elif layout not in {"full", "one"}:
                terms = [f"(long)c{axis} * t_{slot}_{axis}" for axis in range(self.outer)]
                terms += [f"o_{slot}"] if layout[-1] == "+" else []
                offset = " + " + " + ".join(terms)
            lines.append(f"__global {const}{dtype.storage} *p_{slot} = {slot}{offset};")
            if layout in _SAME:
                lines.append(
                    f"const {dtype.compute} u_{slot} = {load_text(dtype, f'p_{slot}', '0', 1)};"
                )
        return lines

    def _lines(self, width: int) -> list[str]:
        sources = {slot: self._source(slot, width) for slot in self.program.loads}
        roots = [value for _, _, value in self.program.stores]
        printer = OpenCLPrinter(self.program.block, roots, width, sources, self.dialect)
        stores = (
            self._store(slot, dtype, printer.result(value), width, self._same(value))
            for slot, dtype, value in self.program.stores
        )
        return [*printer.lines, *stores]

    def _source(self, slot: str, width: int) -> SlotAccess:
        layout, dtype = self._layout_of(slot), DTYPES[self.dtypes[slot]]
        if layout in _SAME:
            return SlotAccess(f"u_{slot}", None)
        apart = layout == "apart+"
        scalar = load_text(dtype, f"p_{slot}", f"(long)i * s_{slot}" if apart else "i", 1)
        if width == 1:
            return SlotAccess(scalar, None)
        if apart:
            places = (f"(long)(i + {k}) * s_{slot}" for k in range(width))
            each = ", ".join(load_text(dtype, f"p_{slot}", place, 1) for place in places)
            return SlotAccess(scalar, f"({dtype.compute}{width})({each})")
        return SlotAccess(scalar, load_text(dtype, f"p_{slot}", "i", width, self.aligned))

    def _same(self, value: int) -> bool:
        """Whether a value is the same along a row: nothing that it needs varies there."""
        needed = (self.program.block.values[n] for n in self.program.block.live([value]))
        loads = (str(needed_value.payload) for needed_value in needed if needed_value.op == "load")
        return all(self._layout_of(slot) in _SAME for slot in loads)

    def _store(self, slot: str, dtype: str, value: str, width: int, same: bool) -> str:
        if same and width > 1 and self.outer and DTYPES[dtype].storage == "half":
            # PoCL 3.1 takes a row of equal halves for aligned to the vector's size, and crashes
            one = f"const float s_{slot} = ({value}).s0;"
            each = store_text(DTYPES[dtype], f"p_{slot}", "i + j", f"s_{slot}", 1)
            return f"{one} for (size_t j = 0; j < {width}; ++j) {each}"
        if self._layout_of(slot) != "apart+":
            return store_text(DTYPES[dtype], f"p_{slot}", "i", value, width, self.aligned)
        if width == 1:
            return store_text(DTYPES[dtype], f"p_{slot}", f"(long)i * s_{slot}", value, 1)
        compute = DTYPES[dtype].compute
        lanes = (
            store_text(DTYPES[dtype], f"p_{slot}", f"(long)(i + {k}) * s_{slot}", f"w.s{k:x}", 1)
            for k in range(width)
        )
        return f"{{ const {compute}{width} w = {value}; {' '.join(lanes)} }}"


def load_text(dtype: Dtype, pointer: str, index: str, width: int, aligned: bool = False) -> str:
    """OpenCL C that reads `width` elements at an index, in the dtype's compute type."""
    read = _access().load_vector
    return str(read(pointer, index, dtype.storage, dtype.compute, width, aligned))


def store_text(
    dtype: Dtype, pointer: str, index: str, value: str, width: int, aligned: bool = False
) -> str:
    """The OpenCL C statement that writes `width` elements, given in the compute type."""
    write = _access().store_vector
    return str(write(pointer, index, value, dtype.storage, dtype.compute, width, aligned))


def _access() -> Any:
    """The macros by which kernels read and write."""
    return get_template("core/kernels/access.cl.j2").module


#: What a source depends on besides dtypes: style, outer dimensions, and how each input stands.
LayoutKey: TypeAlias = tuple[int, tuple[str, ...]]
_Typing: TypeAlias = tuple[tuple[tuple[str, bool], ...], tuple[int, ...]]


@final
class Form:
    """A generated kernel (or NumPy function) with what a stage needs to call it.

    `places` says which of (inputs, gradients) its buffers are, None: all inputs in their
    order; `scalars` are the places of its scalars with their types; `writes` has the number and
    the dtype of each result.
    """

    __slots__ = ("generated", "kernel", "places", "reads", "scalars", "who", "writes")

    def __init__(self, region: Region, device: Device, types: Types, generated: Generated) -> None:
        self.generated = generated
        self.who = region.name
        self.reads = tuple(index for kind, index in generated.reads if kind == "in")
        places = tuple((int(kind != "in"), index) for kind, index in generated.reads)
        in_order = places == tuple((0, i) for i in range(region.inputs))
        self.places = None if in_order else places
        self.scalars = tuple((index, types.scalars[index]) for index in generated.scalars)
        self.writes = tuple((index, DTYPES[dtype]) for index, dtype in generated.writes)
        self.kernel: SharedKernel | None = None
        if generated.width and generated.writes:
            recipe = Recipe(single=device.kind == "cpu")
            self.kernel = shared_kernel(device, generated.text, generated.entry, recipe)


@final
class TypedRegion:
    """A region with the dtypes of its inputs and values, and its forms so far."""

    __slots__ = ("_backward", "_dialect", "_flows", "_forward", "device", "differentiable",
                 "follows", "region", "results", "types")  # fmt: skip

    def __init__(self, region: Region, device: Device, types: Types) -> None:
        self.region = region
        self.device = device
        self.types = types
        self.results = tuple(DTYPES[dtype] for dtype in types.outputs)
        self.differentiable = any(dtype.floating for dtype in self.results) and any(
            step.parsed.backward is not None for step in region.steps
        )
        #: Whether equal shapes of all inputs are the shape of the outputs.
        self.follows = bool(region.inputs) and all(
            any(kind != "scalar" for kind, _ in step.operands) for step in region.steps
        )
        self._dialect = dialect_of(device)
        self._forward: dict[Any, Form] = {}
        self._backward: dict[Any, Form] = {}
        self._flows: dict[Needs, tuple[bool, ...]] = {}

    def forward(self, style: Style, key: LayoutKey) -> Form:
        """The forward kernel for a layout."""
        form = self._forward.get((style, key))
        if form is None:
            source = forward_source(self.region, self.types, style, key, self._dialect)
            form = self._forward[style, key] = self._form(source)
        return form

    def backward(self, needs: Needs, given: Needs, style: Style, key: LayoutKey) -> Form:
        """The backward kernel for the inputs that need a gradient, from those given."""
        what = (needs, given, style, key)
        form = self._backward.get(what)
        if form is None:
            source = backward_source(
                self.region, self.types, needs, given, style, key, self._dialect
            )
            form = self._backward[what] = self._form(source)
        return form

    def flows(self, needs: Needs) -> tuple[bool, ...]:
        """Of each output, whether its gradient reaches an input that needs one."""
        known = self._flows.get(needs)
        if known is None:
            reached = differentiable(self.region, self.types, needs)
            known = self._flows[needs] = tuple(ref in reached for ref in self.region.outputs)
        return known

    def shape(self, signature: Signature) -> Shape:
        """The shape of the outputs; raises ShapeError that names the op."""
        shapes = [shape for shape, _ in signature.tensors]
        if self.follows and signature.shape is None and shapes.count(shapes[0]) == len(shapes):
            return shapes[0]
        return infer(self.region, signature)[1]

    def _form(self, generated: Generated) -> Form:
        return Form(self.region, self.device, self.types, generated)


def typing_of(signature: Signature) -> _Typing:
    """What of a signature the dtypes follow from: those of the inputs, and which are 0-d."""
    return tuple([(dtype, not shape) for shape, dtype in signature.tensors]), signature.scalars


def typed_region(region: Region, device: Device, signature: Signature) -> TypedRegion:
    """The typed region of a signature; equal dtypes share it."""
    return _typed(region, device, *typing_of(signature))


_HELD: Final = 2048


@lru_cache(maxsize=_HELD)
def _typed(
    region: Region, device: Device, tensors: tuple[tuple[str, bool], ...], scalars: tuple[int, ...]
) -> TypedRegion:
    ones = tuple([(() if scalar else (1,), dtype) for dtype, scalar in tensors])
    return TypedRegion(region, device, infer(region, Signature(ones, scalars))[0])
