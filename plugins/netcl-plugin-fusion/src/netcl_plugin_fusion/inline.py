"""Inline regions: elementwise neighbours rendered into the kernel of a structured op.

A template that offers a slot calls a function where it reads an element of its input
(prologue) or has computed one of its output (epilogue). The function is printed here
from the neighbour's region; it brings kernel arguments of its own. So does a function of the
template's own that is made of primitives (`inlined`), which have the formula then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias, final

from netcl_core import DTYPES, Device, Spec
from netcl_core.autograd import AutogradPrimitive, Slots
from netcl_core.inspect.data import Shape, category_of_scalar
from netcl_core.inspect.sources import (
    KernelProgram,
    Layout,
    OpenCLPrinter,
    Plan,
    PrimitiveStep,
    Ref,
    Region,
    Signature,
    SlotAccess,
    Types,
    collapse,
    dialect_of,
    forward_program,
    load_text,
    number,
    render,
    store_text,
)

Arg: TypeAlias = tuple[str, Any]
_TEMPLATE: Final = "core/kernels/inline.cl.j2"
#: A kernel argument with its declaration.
Parameter: TypeAlias = tuple[Arg, str]


class Caller(NamedTuple):
    """How a template calls the function of an inline region; `names` are its own arguments."""

    name: str
    names: tuple[str, ...]

    def call(self, width: int, index: str, value: str = "", *targets: str) -> str:
        """The C text of a call at an index: of one element, or of a vector of them.

        `targets` are pointers to where further results go.
        """
        given = [f"(size_t)({index})", *([value] if value else []), *self.names, *targets]
        return f"{self.name}{width}({', '.join(given)})"


@final
@dataclass(frozen=True, eq=False)
class Inline:
    """A plan's region as a C function that a template calls.

    As a prologue it gives the value at an index; as an epilogue (`value` is the
    region's input that the op computes) it takes a value and stores the results.
    `inputs` are the places of the region's inputs among the kernel's, `outputs` those
    of its results, `keep` that of the op's own value if it is stored as well. Without `outputs`
    the first result is what the function returns, and others go to pointers behind its
    parameters. `constants` are its scalars, if these are not numbers of each call.
    """

    name: str
    plan: Plan
    inputs: tuple[int, ...]
    first_scalar: int = 0
    value: int | None = None
    outputs: tuple[int, ...] = ()
    keep: int | None = None
    constants: tuple[float, ...] | None = None

    @property
    def types(self) -> Types:
        """The dtypes of all values."""
        return self.plan.types

    @cached_property
    def layout(self) -> Layout:
        """How the region's inputs stand in the shape that the op walks."""
        return collapse([shape for shape, _ in self.plan.signature.tensors], self.plan.shape)

    @cached_property
    def _program(self) -> KernelProgram:
        return forward_program(self.plan.region, self.types)

    @property
    def buffers(self) -> list[Parameter]:
        """The buffers that the function needs."""
        parameters: list[Parameter] = []
        for i in self._read():
            storage = DTYPES[self.types.inputs[i]].storage
            declared = f"__global const {storage} *{self.name}_in{i}"
            parameters.append((("in", self.inputs[i]), declared))
        for i, place in enumerate(self.outputs):
            storage = DTYPES[self.types.outputs[i]].storage
            parameters.append((("out", place), f"__global {storage} *{self.name}_out{i}"))
        if self.value is not None and self.keep is not None:
            storage = DTYPES[self.types.inputs[self.value]].storage
            parameters.append((("out", self.keep), f"__global {storage} *{self.name}_kept"))
        return parameters

    @property
    def scalars(self) -> list[Parameter]:
        """The numbers of each call that the function needs."""
        if self.constants is not None:
            return []
        return [(("scalar", self.first_scalar + i), self._declared(i)) for i in self._scalars()]

    def _scalars(self) -> list[int]:
        return list(map(number, self._program.scalars))

    def _declared(self, i: int) -> str:
        return f"const {self.types.scalars[i]} {self.name}_s{i}"

    @property
    def numbers(self) -> list[Parameter]:
        """The constants that the function needs: its own, and the length of a line."""
        parameters: list[Parameter] = []
        if self.constants is not None:
            for i in self._scalars():
                parameters.append(((self.types.scalars[i], self.constants[i]), self._declared(i)))
        if self.layout.dims:
            parameters.append((("ulong", self.layout.length), f"const ulong {self.name}_length"))
        return parameters

    def _read(self) -> list[int]:
        loads = map(number, self._program.loads)
        return [i for i in loads if i != self.value]

    @property
    def caller(self) -> Caller:
        """What a template calls."""
        names = [text.split()[-1].lstrip("*") for _, text in self._parameters()]
        return Caller(self.name, tuple(names))

    def _parameters(self) -> list[Parameter]:
        return [*self.buffers, *self.scalars, *self.numbers]

    def definition(self, width: int, aligned: bool) -> str:
        """The C function for one element (width 1) or a vector of them."""
        program, layout = self._program, self.layout
        sources = {slot: self._source(number(slot), width, aligned) for slot in program.loads}
        renamed = {slot: f"{self.name}_{slot}" for slot in program.scalars}
        roots = [value for _, _, value in program.stores]
        dialect = dialect_of(self.plan.device)
        printer = OpenCLPrinter(program.block, roots, width, sources, dialect, renamed)
        results = [printer.result(value) for value in roots]
        suffix = str(width) if width > 1 else ""
        compute = DTYPES[self.types.outputs[0]].compute
        value = ""
        stores = []
        targets = []
        if self.value is not None:
            own = DTYPES[self.types.inputs[self.value]]
            value = f"const {own.compute}{suffix} x"
            if self.keep is not None:
                kept = f"{self.name}_kept"
                stores.append(store_text(own, kept, "index", "x", width, aligned))
        for i, text in enumerate(results):
            dtype = DTYPES[self.types.outputs[i]]
            if self.outputs:
                target = f"{self.name}_out{i}"
                stores.append(store_text(dtype, target, "index", text, width, aligned))
            elif i:
                targets.append(f"{dtype.compute}{suffix} *target{i}")
                printer.lines.append(f"*target{i} = {text};")
        return render(
            _TEMPLATE,
            function=f"{self.name}{width}",
            result="void" if stores else f"{compute}{suffix}",
            parameters=["const size_t index", *([value] if value else []),
                        *(text for _, text in self._parameters()), *targets],
            split=bool(layout.dims),
            length=f"{self.name}_length",
            lines=[*printer.lines, *stores],
            returned="" if stores else results[0],
        )  # fmt: skip

    def _source(self, i: int, width: int, aligned: bool) -> SlotAccess:
        if i == self.value:
            return SlotAccess("x", "x")
        kind = self.layout.kinds[i]
        dtype, pointer = DTYPES[self.types.inputs[i]], f"{self.name}_in{i}"
        index = {"full": "index", "one": "0", "rows": "column", "splat": "row"}[kind]
        scalar = load_text(dtype, pointer, index, 1)
        if kind in {"one", "splat"}:
            return SlotAccess(scalar, None)
        whole = aligned and kind == "full"
        return SlotAccess(scalar, load_text(dtype, pointer, index, width, whole))


def inlined(
    name: str,
    device: Device,
    inputs: Sequence[Spec],
    results: Sequence[tuple[AutogradPrimitive, Sequence[float]]],
    attrs: Mapping[str, float],
    value: int | None = None,
) -> Inline:
    """A C function of primitives that a template calls, for `with_functions`.

    >>> rising = ag.AutogradPrimitive("rising", lambda x, _: f"exp({x[0]})", None, arity=1)
    >>> x = nc.Spec((8,), "float32")
    >>> made = ag.inlined("rising", nc.default_device(), (x,), [(rising, ())], {}, value=0)
    >>> made.caller.call(4, "0", "x - top")
    'rising4((size_t)(0), x - top)'

    Args:
        name: What the template calls it: `{{ name.call(width, index, value, *pointers) }}`.
        device: Whose dialect it is written in.
        inputs: What the primitives read: the op's inputs 0, 1, ... of equal shapes.
        results: A primitive for each result, and the numbers that it takes behind the inputs. The
            first is returned; the others are written to pointers.
        attrs: The attributes of all of them, which are numbers.
        value: The input whose element the template passes, instead of its being read.
    """
    refs: list[Ref] = [("in", i) for i in range(len(inputs))]
    constants: list[float] = []
    named = {}
    for key, number_of in attrs.items():
        named[key] = len(constants)
        constants.append(number_of)
    steps = []
    for primitive, numbers in results:
        first = len(constants)
        constants += numbers
        others: list[Ref] = [("scalar", i) for i in range(first, len(constants))]
        used = tuple((key, named[key]) for key in primitive.attrs)
        steps.append(PrimitiveStep(primitive, (*refs, *others), attrs=used))
    outputs: tuple[Ref, ...] = tuple(("step", i) for i in range(len(steps)))
    region = Region(len(inputs), len(constants), tuple(steps), outputs)
    tensors = tuple((spec.shape, spec.dtype) for spec in inputs)
    plan = Plan(region, device, Signature(tensors, tuple(map(category_of_scalar, constants))))
    places = tuple(range(len(inputs)))
    return Inline(name, plan, places, value=value, constants=tuple(constants))


def fits(shapes: Sequence[Shape], shape: Shape, stretch: int) -> bool:
    """Whether inputs of these shapes can be read by the index in a shape.

    Vectors never leave a stretch of so many contiguous elements (0: they go anywhere), so
    that one outer dimension is allowed; else only whole and one-element inputs are.
    """
    layout = collapse(shapes, shape)
    if not layout.dims:
        return True
    return len(layout.dims) == 1 and stretch > 0 and layout.length % stretch == 0


@final
@dataclass(frozen=True, slots=True)
class FilledSlots(Slots):
    """A prologue and an epilogue, or one of them, and `functions` of a plan's own (`inlined`)."""

    prologue: Inline | None = None
    epilogue: Inline | None = None
    functions: tuple[Inline, ...] = ()

    def _inlines(self) -> list[Inline]:
        slots = [slot for slot in (self.prologue, self.epilogue) if slot is not None]
        return [*slots, *self.functions]

    @property
    def scalars(self) -> tuple[str, ...]:
        """The compute types of the numbers of each call, whether a kernel reads them or not."""
        return tuple([scalar for inline in self._inlines() for scalar in inline.types.scalars])

    @property
    def buffers(self) -> list[Parameter]:
        """The buffers of both, with their declarations."""
        return [buffer for inline in self._inlines() for buffer in inline.buffers]

    @property
    def numbers(self) -> list[Parameter]:
        """The scalars of each call and the constants of both, with their declarations."""
        inlines = list(self._inlines())
        scalars = [scalar for inline in inlines for scalar in inline.scalars]
        return scalars + [number for inline in inlines for number in inline.numbers]

    def context(self, width: int, aligned: bool = False) -> dict[str, Any]:
        """What a template needs."""
        widths = (1, width) if width > 1 else (1,)
        functions = [inline.definition(w, aligned) for inline in self._inlines() for w in widths]
        return {
            "slot_functions": "\n".join(functions),
            "slot_buffers": tuple([text for _, text in self.buffers]),
            "slot_numbers": tuple([text for _, text in self.numbers]),
            "prologue": None if self.prologue is None else self.prologue.caller,
            "epilogue": None if self.epilogue is None else self.epilogue.caller,
            **{function.name: function.caller for function in self.functions},
        }

    def args(self, buffers: Sequence[Arg], numbers: Sequence[Arg]) -> tuple[Arg, ...]:
        """A kernel's arguments, without what the prologue replaces and the epilogue writes."""
        replaced = [("in", 0)] if self.prologue is not None else []
        replaced += [("out", 0)] if self.epilogue is not None else []
        own = [arg for arg in buffers if arg not in replaced]
        slots = [arg for arg, _ in self.buffers]
        return (*own, *slots, *(arg for arg, _ in self.numbers), *numbers)

    def split(self) -> tuple[Slots, Slots]:
        """Those of a first launch and of a last one."""
        return FilledSlots(prologue=self.prologue), FilledSlots(epilogue=self.epilogue)


def with_functions(slots: Slots, *functions: Inline) -> Slots:
    """A request's slots with functions of a plan's own."""
    return FilledSlots(slots.prologue, slots.epilogue, functions)
