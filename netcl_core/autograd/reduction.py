"""Plans of reductions: any dimensions, in one pass or two, from one template.

Plugins use `reduction_kernels` for their own reductions; the engine uses it to
sum gradients down to the shape of a broadcast input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from netcl_core.device import Device
from netcl_core.dtypes import DTYPES
from netcl_core.runtime.kernels import Arg, Kernel, Kernels, Spec

TEMPLATE: Final = "core/kernels/reduce.cl.j2"
#: Vectors that one item adds up at most, and how many of them in a row: sums of such
#: blocks are added in turn, so that the rounding error stays near that of a tree.
_VECTORS: Final = 512
_BLOCK: Final = 16


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
class _Space:
    """A shape's dimensions merged into kept and lost ones, each with its stride."""

    kept: tuple[tuple[int, int], ...]
    lost: tuple[tuple[int, int], ...]
    inner_lost: bool

    @property
    def outputs(self) -> int:
        return math.prod(size for size, _ in self.kept)

    @property
    def reduced(self) -> int:
        return math.prod(size for size, _ in self.lost)


def _merge(shape: Sequence[int], axes: Sequence[int]) -> _Space:
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
    return _Space(tuple(kept), tuple(dropped), not merged or merged[-1][1])


def reduction_kernels(
    how: Combine,
    device: Device,
    source: Spec,
    axes: Sequence[int],
    out_dtype: str,
    scale: float = 1.0,
) -> Kernels:
    """The launches that reduce input 0 over `axes` into output 0.

    Args:
        how: What combines two values.
        source: The input; it has at least one element.
        axes: Non-negative axes.
        scale: A factor on the result (the mean is a scaled sum).
    """
    space = _merge(source.shape, axes)
    width = 4 if device.kind == "gpu" else 16
    acc = DTYPES[out_dtype].compute if how.widen else DTYPES[source.dtype].compute
    slices = _slices(space, width)
    if slices == 1:
        return Kernels((_pass(how, source, out_dtype, space, acc, width, 1, scale),))
    partial = {"float": "float32", "double": "float64", "int": "int32", "long": "int64"}[acc]
    outputs = space.outputs
    second = _merge((slices, outputs), (0,))
    first_pass = _pass(how, source, partial, space, acc, width, slices, 1.0)
    finish = _pass(how, Spec((slices, outputs), partial), out_dtype, second, acc, width, 1, scale)
    launches = (_between(first_pass, ("in", 0), ("scratch", 0)),
                _between(finish, ("scratch", 0), ("out", 0)))  # fmt: skip
    return Kernels(launches, (slices * outputs * DTYPES[partial].itemsize,))


def _between(kernel: Kernel, source: Arg, target: Arg) -> Kernel:
    args = (source, target, *kernel.args[2:])
    return Kernel(kernel.template, kernel.entry, args, kernel.global_size, None, kernel.context)


def _slices(space: _Space, width: int) -> int:
    """How many items share the reduction of one output."""
    per_output = space.reduced * (1 if space.inner_lost else width)
    wanted = -(-per_output // (_VECTORS * width))
    return max(1, min(wanted, _indices(space)))


def _indices(space: _Space) -> int:
    """The length of the index space that slices cut: the outer lost dimensions, or the run."""
    if space.inner_lost and len(space.lost) > 1:
        return space.reduced // space.lost[-1][0]
    return space.reduced


def _pass(
    how: Combine, source: Spec, out_dtype: str, space: _Space, acc: str, width: int, slices: int,
    scale: float,
) -> Kernel:  # fmt: skip
    inner_lost = space.inner_lost
    kept = space.kept
    lost = space.lost[:-1] if inner_lost else space.lost
    total = _indices(space)
    per_slice = -(-total // slices)
    numbers = [space.outputs, total, slices, per_slice]
    numbers += [number for pair in kept for number in pair]
    numbers += [number for pair in lost for number in pair]
    if inner_lost:
        numbers.append(space.lost[-1][0] if space.lost else 1)
        items = space.outputs * slices
    else:
        items = space.outputs // kept[-1][0] * -(-kept[-1][0] // width) * slices
    context: dict[str, Any] = {
        "storage": DTYPES[source.dtype].storage,
        "out_storage": DTYPES[out_dtype].storage,
        "acc": acc,
        "width": width,
        "block": _BLOCK,
        "kept": len(kept),
        "lost": len(lost),
        "inner": "reduced" if inner_lost else "kept",
        "identity": how.identity[acc],
        "expression": how.expression,
        "scaled": scale != 1.0,
    }
    args: list[Arg] = [("in", 0), ("out", 0), *(("ulong", n) for n in numbers)]
    if scale != 1.0:
        args.append(("double" if acc == "double" else "float", scale))
    return Kernel(TEMPLATE, f"reduce_{how.name}", tuple(args), (max(1, items),), None, context)
