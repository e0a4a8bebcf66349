"""A region for given dtypes on a device: what its plans for all shapes have in common.

Sources, and the kernels that are built from them, depend on dtypes and on how the inputs
stand in the iteration space; sizes are arguments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeAlias, final

from netcl_core.codegen.dialect import dialect_of
from netcl_core.codegen.generation import (
    Generated,
    Needs,
    Style,
    backward_source,
    forward_source,
)
from netcl_core.codegen.layout import Shape
from netcl_core.codegen.region import Region, Signature, Types, differentiable, infer
from netcl_core.device.device import Device
from netcl_core.dtypes import DTYPES
from netcl_core.runtime.launch import SharedKernel, shared_kernel

#: What a source depends on besides dtypes: style, outer dimensions, and how each input stands.
LayoutKey: TypeAlias = tuple[int, tuple[str, ...]]
_Typing: TypeAlias = tuple[tuple[tuple[str, bool], ...], tuple[int, ...]]


@final
class Form:
    """A generated kernel (or NumPy function) with what a stage needs to call it.

    `places` says which of (inputs, gradients) its buffers are, None: all inputs in their
    order; `scalars` are the places of its scalars with their types.
    """

    __slots__ = ("generated", "kernel", "places", "reads", "scalars", "who")

    def __init__(self, region: Region, device: Device, types: Types, generated: Generated) -> None:
        self.generated = generated
        self.who = region.name
        self.reads = tuple(index for kind, index in generated.reads if kind == "in")
        places = tuple((int(kind != "in"), index) for kind, index in generated.reads)
        in_order = places == tuple((0, i) for i in range(region.inputs))
        self.places = None if in_order else places
        self.scalars = tuple((index, types.scalars[index]) for index in generated.scalars)
        self.kernel: SharedKernel | None = None
        if generated.width and generated.writes:
            self.kernel = shared_kernel(device, generated.text, generated.entry)


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
        found = self._forward.get((style, key))
        if found is None:
            source = forward_source(self.region, self.types, style, key, self._dialect)
            found = self._forward[style, key] = self._form(source)
        return found

    def backward(self, needs: Needs, given: Needs, style: Style, key: LayoutKey) -> Form:
        """The backward kernel for the inputs that need a gradient, from those given."""
        what = (needs, given, style, key)
        found = self._backward.get(what)
        if found is None:
            source = backward_source(
                self.region, self.types, needs, given, style, key, self._dialect
            )
            found = self._backward[what] = self._form(source)
        return found

    def flows(self, needs: Needs) -> tuple[bool, ...]:
        """Of each output, whether its gradient reaches an input that needs one."""
        known = self._flows.get(needs)
        if known is None:
            found = differentiable(self.region, self.types, needs)
            known = self._flows[needs] = tuple(ref in found for ref in self.region.outputs)
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
