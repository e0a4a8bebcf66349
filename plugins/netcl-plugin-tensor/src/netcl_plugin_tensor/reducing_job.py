"""What a reduction computes, and over which dimensions: the same for every kind of device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, final

from netcl_core import DTYPES, Kernel, Spec
from netcl_core.autograd import NO_SLOTS, Geometry, Slots
from netcl_core.inspect.data import dense


@final
@dataclass(frozen=True, slots=True)
class Combine:
    """How two values `a` and `b` become one.

    >>> ag.Combine("sum", "a + b", dict.fromkeys(("float", "double", "int", "long"), "0")).name
    'sum'

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
class ReducedSpace:
    """Dimensions merged into kept and lost ones, each with its stride.

    `outputs` is the number of results, `reduced` that of the elements of one result. Neighbours
    in memory are in the last lost dimension (`inner_lost`), or in the last kept one.
    """

    kept: tuple[tuple[int, int], ...]
    lost: tuple[tuple[int, int], ...]
    inner_lost: bool
    outputs: int
    reduced: int


@lru_cache(maxsize=256)  # a plan asks several times
def merge(places: Geometry, axes: tuple[int, ...]) -> ReducedSpace | None:
    """The space of a reduction; sizes 1 drop out, neighbours join; None: no kernel reads it."""
    dims: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
    for axis, (size, step) in enumerate(zip(places.shape, places.strides, strict=True)):
        if size != 1:
            dims[axis in axes].append((size, step))
    kept = _joined(dims[0])
    lost = _joined(sorted(dims[1], key=lambda pair: -pair[1]))  # in whatever order of the shape
    steps = [pair[-1][1] if pair else 1 for pair in (kept, lost)]
    inner_lost = bool(lost and steps[1] == 1) or not kept
    if steps[inner_lost] != 1 or min(places.strides, default=1) < 0:
        return None
    outputs, reduced = (math.prod([size for size, _ in pair]) for pair in (kept, lost))
    return ReducedSpace(tuple(kept), tuple(lost), inner_lost, outputs, reduced)


def _joined(dims: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for size, step in dims:
        if joined and joined[-1][1] == step * size:
            joined[-1] = (joined[-1][0] * size, step)
        else:
            joined.append((size, step))
    return joined


@final
@dataclass(frozen=True, slots=True)
class Reduction:
    """One pass over a tensor: what combines, from and to which dtype, times `scale`.

    `layout` is where the elements of the source lie; None: in C order.
    """

    how: Combine
    source: Spec
    axes: tuple[int, ...]
    out_dtype: str
    acc: str
    scale: float = 1.0
    slots: Slots = NO_SLOTS
    layout: Geometry | None = None
    pairs: int = 1

    @property
    def places(self) -> Geometry:
        """Where the elements of the source lie."""
        return self.layout or dense(self.source.shape)

    @property
    def space(self) -> ReducedSpace:
        """The merged dimensions."""
        space = merge(self.places, self.axes)
        assert space is not None  # else it has a copy of the source
        return space

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
            "pairs": self.pairs,
            **self.slots.context(width, aligned),
        }
        values: list[tuple[str, Any]] = [("ulong", n) for n in (*numbers, self.places.offset)]
        if self.scale != 1.0:
            values.append(("double" if self.acc == "double" else "float", self.scale))
        buffers = [(kind, i) for kind in ("in", "out") for i in range(self.pairs)]
        args = self.slots.args(buffers, values)
        more = (self.pairs,) if self.pairs > 1 else ()
        size = None if local is None else (local, *(1 for _ in more))
        entry = f"reduce_{self.how.name}"
        return Kernel(template, entry, args, (max(1, items), *more), size, {**shared, **context})
