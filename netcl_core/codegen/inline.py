"""Inline regions: elementwise neighbours rendered into the kernel of a structured op.

A template that offers a slot calls a function where it reads an element of its input
(prologue) or has computed one of its output (epilogue). The function is printed here
from the neighbour's region; it brings kernel arguments of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias, final

from netcl_core.codegen.emit import OpenCLPrinter, Source, dialect_of
from netcl_core.codegen.generation import load_text, number, store_text
from netcl_core.codegen.layout import Layout, Shape, collapse
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.region import KernelProgram, Types, forward_program
from netcl_core.dtypes import DTYPES
from netcl_core.runtime.kernels import Arg
from netcl_core.runtime.rendering import render

_TEMPLATE: Final = "core/kernels/inline.cl.j2"
_HELPERS: Final = "core/kernels/helpers.cl.j2"
#: A kernel argument with its declaration.
Parameter: TypeAlias = tuple[Arg, str]


class Caller(NamedTuple):
    """How a template calls the function of an inline region; `names` are its own arguments."""

    name: str
    names: tuple[str, ...]

    def call(self, width: int, index: str, value: str = "") -> str:
        """The C text of a call at an index: of one element, or of a vector of them."""
        given = [f"(size_t)({index})", *([value] if value else []), *self.names]
        return f"{self.name}{width}({', '.join(given)})"


@final
@dataclass(frozen=True, eq=False)
class Inline:
    """A plan's region as a C function that a template calls.

    As a prologue it gives the value at an index; as an epilogue (`value` is the
    region's input that the op computes) it takes a value and stores the results.
    `inputs` are the places of the region's inputs among the kernel's, `outputs` those
    of its results, `keep` that of the op's own value if it is stored as well.
    """

    name: str
    plan: Plan
    inputs: tuple[int, ...]
    first_scalar: int = 0
    value: int | None = None
    outputs: tuple[int, ...] = ()
    keep: int | None = None

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
        found: list[Parameter] = []
        for i in self._read():
            storage = DTYPES[self.types.inputs[i]].storage
            declared = f"__global const {storage} *{self.name}_in{i}"
            found.append((("in", self.inputs[i]), declared))
        if self.value is not None:
            for i, place in enumerate(self.outputs):
                storage = DTYPES[self.types.outputs[i]].storage
                found.append((("out", place), f"__global {storage} *{self.name}_out{i}"))
            if self.keep is not None:
                storage = DTYPES[self.types.inputs[self.value]].storage
                found.append((("out", self.keep), f"__global {storage} *{self.name}_kept"))
        return found

    @property
    def scalars(self) -> list[Parameter]:
        """The numbers of each call that the function needs."""
        return [
            (("scalar", self.first_scalar + i), f"const {self.types.scalars[i]} {self.name}_s{i}")
            for i in map(number, self._program.scalars)
        ]

    @property
    def numbers(self) -> list[Parameter]:
        """The constants that the function needs: the length of a line."""
        if not self.layout.dims:
            return []
        return [(("ulong", self.layout.length), f"const ulong {self.name}_length")]

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

    def definition(self, width: int, aligned: bool, helpers: set[str]) -> str:
        """The C function for one element (width 1) or a vector of them.

        The helpers of the dialect that it calls are added to `helpers`.
        """
        program, layout = self._program, self.layout
        sources = {slot: self._source(number(slot), width, aligned) for slot in program.loads}
        renamed = {slot: f"{self.name}_{slot}" for slot in program.scalars}
        roots = [value for _, _, value in program.stores]
        dialect = dialect_of(self.plan.device)
        printer = OpenCLPrinter(program.block, roots, width, sources, dialect, renamed)
        helpers |= printer.helpers
        results = [printer.result(value) for value in roots]
        suffix = str(width) if width > 1 else ""
        compute = DTYPES[self.types.outputs[0]].compute
        value = ""
        stores = []
        if self.value is not None:
            own = DTYPES[self.types.inputs[self.value]]
            value = f"const {own.compute}{suffix} x"
            if self.keep is not None:
                kept = f"{self.name}_kept"
                stores.append(store_text(own, kept, "index", "x", width, aligned))
            for i, text in enumerate(results):
                dtype, target = DTYPES[self.types.outputs[i]], f"{self.name}_out{i}"
                stores.append(store_text(dtype, target, "index", text, width, aligned))
        return render(
            _TEMPLATE,
            function=f"{self.name}{width}",
            result="void" if stores else f"{compute}{suffix}",
            parameters=["const size_t index", *([value] if value else []),
                        *(text for _, text in self._parameters())],
            split=bool(layout.dims),
            length=f"{self.name}_length",
            lines=[*printer.lines, *stores],
            returned="" if stores else results[0],
        )  # fmt: skip

    def _source(self, i: int, width: int, aligned: bool) -> Source:
        if i == self.value:
            return Source("x", "x")
        kind = self.layout.kinds[i]
        dtype, pointer = DTYPES[self.types.inputs[i]], f"{self.name}_in{i}"
        index = {"full": "index", "one": "0", "rows": "column", "splat": "row"}[kind]
        scalar = load_text(dtype, pointer, index, 1)
        if kind in {"one", "splat"}:
            return Source(scalar, None)
        whole = aligned and kind == "full"
        return Source(scalar, load_text(dtype, pointer, index, width, whole))


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
class Slots:
    """What an implementation renders into its kernel: a prologue and an epilogue, or neither."""

    prologue: Inline | None = None
    epilogue: Inline | None = None

    def _inlines(self) -> Iterable[Inline]:
        return [each for each in (self.prologue, self.epilogue) if each is not None]

    @property
    def scalars(self) -> tuple[str, ...]:
        """The compute types of the numbers of each call, whether a kernel reads them or not."""
        return tuple([each for inline in self._inlines() for each in inline.types.scalars])

    @property
    def buffers(self) -> list[Parameter]:
        """The buffers of both, with their declarations."""
        return [each for inline in self._inlines() for each in inline.buffers]

    @property
    def numbers(self) -> list[Parameter]:
        """The scalars of each call and the constants of both, with their declarations."""
        inlines = list(self._inlines())
        scalars = [each for inline in inlines for each in inline.scalars]
        return scalars + [each for inline in inlines for each in inline.numbers]

    def context(self, width: int, aligned: bool = False) -> dict[str, Any]:
        """What a template needs.

        `slot_functions` stand above the kernel, `slot_buffers` and `slot_numbers` in its
        parameter list after its own buffers; `prologue` and `epilogue` (None: the kernel
        reads in0 and writes out0 itself) have `call(width, index, value)`.
        """
        if self.prologue is self.epilogue is None:  # the usual case, without a detour
            return dict(_NO_CONTEXT)
        widths = (1, width) if width > 1 else (1,)
        helpers: set[str] = set()
        functions = [
            each.definition(w, aligned, helpers) for each in self._inlines() for w in widths
        ]
        called = render(_HELPERS, helpers=sorted(helpers), widths=widths) if helpers else ""
        return {
            "slot_functions": "\n".join([called, *functions]),
            "slot_buffers": tuple([text for _, text in self.buffers]),
            "slot_numbers": tuple([text for _, text in self.numbers]),
            "prologue": None if self.prologue is None else self.prologue.caller,
            "epilogue": None if self.epilogue is None else self.epilogue.caller,
        }

    def args(self, buffers: Sequence[Arg], numbers: Sequence[Arg]) -> tuple[Arg, ...]:
        """A kernel's arguments: its own buffers, those of the slots, the slots' and its numbers.

        Of its own buffers the input that the prologue replaces and the output that the
        epilogue writes are left out.
        """
        if self.prologue is self.epilogue is None:
            return (*buffers, *numbers)
        replaced = [("in", 0)] if self.prologue is not None else []
        replaced += [("out", 0)] if self.epilogue is not None else []
        own = [arg for arg in buffers if arg not in replaced]
        slots = [arg for arg, _ in self.buffers]
        return (*own, *slots, *(arg for arg, _ in self.numbers), *numbers)


NO_SLOTS: Final = Slots()
_NO_CONTEXT: Final[Mapping[str, Any]] = {
    "slot_functions": "", "slot_buffers": (), "slot_numbers": (), "prologue": None, "epilogue": None
}  # fmt: skip
