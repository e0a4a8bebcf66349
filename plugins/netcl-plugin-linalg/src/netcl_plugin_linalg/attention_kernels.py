"""What the kernels of attention have in common: their arguments, and what they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from netcl_plugin_fusion.inline import inlined, with_functions
from netcl_plugin_tensor.dropout import threshold

from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import AutogradPrimitive, Request
from netcl_plugin_linalg.attention_layouts import (
    GRAD,
    OUT,
    heads_beside,
    heads_of,
    side_by_side,
)
from netcl_plugin_linalg.attention_shapes import AttentionShape, attention_shape, groups_nest

#: Features of a head that the kernels hold at most.
_WIDEST: Final = 256
#: A platform whose compiler fails on tails of vectors of half, and the length of these vectors.
_CRASHES: Final = "Portable Computing Language"
_HALVES: Final = 16


def reject(request: Request) -> str | None:
    """Heads that are too wide, or none; groups of heads that do not nest."""
    query, key, value = request.inputs[:3]
    widest = max(query.shape[-1], value.shape[-1])
    if widest > _WIDEST:
        return f"heads of {widest}, more than {_WIDEST}"
    if not query.shape[-1]:
        return "heads of size 0"
    odd = query.shape[-1] % _HALVES or value.shape[-1] % _HALVES
    if query.dtype == "float16" and odd and request.device.platform.startswith(_CRASHES):
        return f"{_CRASHES} 3.1 crashes while it builds the gradients for float16 heads like these"
    if request.attrs["enable_gqa"] and not groups_nest(key, value, query):
        return f"{key.shape[-3]} heads of key and {value.shape[-3]} of value do not nest"
    return None


@dataclass(frozen=True, slots=True)
class AttentionJob:
    """An attention, forward or backward, that kernels are planned for."""

    request: Request
    shape: AttentionShape
    mask: Spec | None

    @property
    def inputs(self) -> list[tuple[str, Any]]:
        """All inputs in order."""
        return [("in", i) for i in range(len(self.request.inputs))]

    def kernel(
        self,
        template: str,
        entry: str,
        buffers: Sequence[tuple[str, Any]],
        own: Sequence[tuple[str, Any]],
        items: int,
        local: tuple[int, ...] | None,
        width: int,
        context: dict[str, Any],
    ) -> Kernel:
        """A launch; `own` are the numbers that only this kernel takes."""
        request, shape, attrs = self.request, self.shape, self.request.attrs
        query = request.inputs[0]
        dtype = DTYPES[query.dtype]
        drops = threshold(attrs["dropout_p"])
        numbers: list[tuple[str, Any]] = [
            ("ulong", shape.queries), ("ulong", shape.keys), (dtype.compute, attrs["scale"]),
            ("ulong", (drops or 1) - 1),
            (dtype.compute, 1 / (1 - attrs["dropout_p"]) if attrs["dropout_p"] < 1 else 0.0),
            *(("ulong", step) for step in self._mask_steps()), *own, *self._rows(),
            *(("ulong", n) for stride in shape.strides for n in stride),
        ]  # fmt: skip
        rising = inlined("rising", request.device, (Spec((1,), dtype.wide),),
                         [(_exponential(), ())], {}, value=0)  # fmt: skip
        slots = with_functions(request.slots, rising)
        mask = self.mask
        whole = {
            "storage": dtype.storage,
            "acc": dtype.compute,
            "width": width,
            "size": shape.size,
            "value_size": shape.value_size,
            "batch_dims": len(shape.strides),
            "masked": mask is not None,
            "mask_storage": "" if mask is None else DTYPES[mask.dtype].storage,
            "bool_mask": mask is not None and mask.dtype == "bool",
            "mask_rows": bool(self._mask_steps()) and self._mask_steps()[0] > 0,
            "dropped": drops > 0,
            "causal": attrs["is_causal"],
            "pitched": self.pitched,
            **slots.context(width),
            **context,
        }
        return Kernel(template, entry, slots.args(buffers, numbers), (items,), local, whole)

    @property
    def pitched(self) -> bool:
        """Whether rows of some operand do not follow each other."""
        return any(self.request.layouts)

    @property
    def heads(self) -> int:
        """How many heads stand side by side in the results."""
        return heads_beside(self.request.layout(0), self.shape.lead)

    def laid_out(self, kernels: Kernels) -> Kernels:
        """The plan, with the places of its results."""
        if self.heads == 1:
            return kernels
        layouts = [
            side_by_side(output.shape, self.heads) if len(output.shape) > len(self.shape.lead) + 1
            else None for output in self.request.outputs
        ]  # fmt: skip
        return replace(kernels, layouts=tuple(layouts))

    def _rows(self) -> list[tuple[str, int]]:
        """Pitch and start of the operands' rows; heads in results and in what is read with them."""
        if not self.pitched:
            return []
        request, (size, value_size) = self.request, (self.shape.size, self.shape.value_size)
        of_rows = [request.layout(i) for i in range(3)]
        pitches = [
            own if row is None else row.strides[-2]
            for row, own in zip(of_rows, (size, size, value_size), strict=True)
        ]
        starts = [0 if row is None else row.offset for row in of_rows]
        return [("ulong", n) for n in (*pitches, *starts, self.heads, *self._read_heads())]

    def _read_heads(self) -> list[int]:
        """How many heads stand side by side in the result and its gradient, as they are read."""
        if len(self.request.outputs) == 3:
            return [heads_of(self.request.layout(i)) or 1 for i in (OUT, GRAD)]
        return [1, 1]

    @property
    def paired_rows(self) -> list[tuple[str, int]]:
        """What finds the rows of the result and of its gradient, apart from how many there are."""
        numbers = (self.shape.queries, *self._read_heads()) if self.pitched else ()
        return [("ulong", n) for n in numbers]

    def _mask_steps(self) -> tuple[int, ...]:
        """The elements from one row, and one column, of the mask to the next."""
        if self.mask is None:
            return ()
        rows, columns = (1, 1, *self.mask.shape)[-2:]
        return (columns if rows > 1 else 0), (1 if columns > 1 else 0)


def job_of(request: Request) -> AttentionJob:
    """What is asked for, forward or backward: both begin with the same five operands."""
    query, key, value = request.inputs[:3]
    mask = request.inputs[3] if request.given[3] else None
    grouped, layouts = request.attrs["enable_gqa"], request.layouts or (None,) * 3
    return AttentionJob(request, attention_shape(query, key, value, mask, grouped, layouts), mask)


@cache
def _exponential() -> AutogradPrimitive:
    """exp, as it is spelt on each device."""
    return AutogradPrimitive("rising", lambda x, _: f"exp({x[0]})", None, arity=1)
