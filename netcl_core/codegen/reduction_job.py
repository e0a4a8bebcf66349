"""What a reduction computes, and over which dimensions: the same for every kind of device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, final

from netcl_core.codegen.inline import NO_SLOTS, Slots
from netcl_core.dtypes import DTYPES
from netcl_core.runtime.kernels import Arg, Kernel, Spec


@final
@dataclass(frozen=True, slots=True)
class Combine:
    """How two values `a` and `b` become one.

    `expression` is OpenCL C that holds for scalars and vectors; `identity` gives the
    neutral element per compute type (`float`, `double`, `int`, `long`). With `widen`
    the work is done in the output's type instead of the input's.
    """

    name: str
    expression: str
    identity: Mapping[str, str]
    widen: bool = False


SUM: Final = Combine("sum", "a + b", dict.fromkeys(("float", "double", "int", "long"), "0"), True)


@final
@dataclass(frozen=True, slots=True)
class Space:
    """A shape's dimensions merged into kept and lost ones, each with its stride.

    `outputs` is the number of results, `reduced` that of the elements of one result.
    """

    kept: tuple[tuple[int, int], ...]
    lost: tuple[tuple[int, int], ...]
    inner_lost: bool
    outputs: int
    reduced: int


@lru_cache(maxsize=256)  # a plan asks several times
def merge(shape: tuple[int, ...], axes: tuple[int, ...]) -> Space:
    """The space of a reduction of a contiguous tensor; sizes 1 drop out, neighbours join."""
    merged: list[tuple[int, bool]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        lost = axis in axes
        if merged and merged[-1][1] == lost:
            merged[-1] = (merged[-1][0] * size, lost)
        else:
            merged.append((size, lost))
    stride = math.prod(shape)
    kept: list[tuple[int, int]] = []
    dropped: list[tuple[int, int]] = []
    for size, lost in merged:
        stride //= size
        (dropped if lost else kept).append((size, stride))
    outputs, reduced = (math.prod([size for size, _ in each]) for each in (kept, dropped))
    return Space(tuple(kept), tuple(dropped), not merged or merged[-1][1], outputs, reduced)


@final
@dataclass(frozen=True, slots=True)
class Job:
    """One pass over a tensor: what combines, from and to which dtype, times `scale`."""

    how: Combine
    source: Spec
    axes: tuple[int, ...]
    out_dtype: str
    acc: str
    scale: float = 1.0
    slots: Slots = NO_SLOTS

    @property
    def space(self) -> Space:
        """The merged dimensions."""
        return merge(self.source.shape, self.axes)

    def kernel(
        self,
        template: str,
        numbers: Sequence[int],
        context: Mapping[str, Any],
        items: int,
        local: int | None = None,
    ) -> Kernel:
        """The launch of a form's template, with what every form's template gets."""
        width, aligned = context["width"], context["aligned"]
        shared = {
            "storage": DTYPES[self.source.dtype].storage,
            "out_storage": DTYPES[self.out_dtype].storage,
            "acc": self.acc,
            "identity": self.how.identity[self.acc],
            "expression": self.how.expression,
            "scaled": self.scale != 1.0,
            **self.slots.context(width, aligned),
        }
        values: list[Arg] = [("ulong", n) for n in numbers]
        if self.scale != 1.0:
            values.append(("double" if self.acc == "double" else "float", self.scale))
        args = self.slots.args((("in", 0), ("out", 0)), values)
        size = None if local is None else (local,)
        entry = f"reduce_{self.how.name}"
        return Kernel(template, entry, args, (max(1, items),), size, {**shared, **context})
