"""One launch of a convolution's kernel: its numbers, buffers and slots, for every template."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from netcl_core import DTYPES, Kernel
from netcl_core.autograd import NO_SLOTS, Request, Slots
from netcl_plugin_conv.conv_geometry import Axis, Problem

_BYTES: Final = {"float": 4, "double": 8}
_PROBLEM: Final = ("batch", "groups", "channels", "outputs", "weight_output", "weight_channel")
_AXIS: Final = (
    "count", "step", "taps", "first", "tap_step", "kernel", "kernel_first", "kernel_step",
    "source", "before", "out_first", "out_step",
)  # fmt: skip
#: Elements that an item of the copy of a source writes at least: what a launch of it is worth.
_COPIED: Final = 4096
#: Numbers of a vector that kernels are given them in: each argument of a launch takes time.
_LANES: Final = {"int": 16, "long": 8}
#: Where a buffer comes from, and its declaration in the kernel.
Buffer = tuple[str, int, str]


class Launcher:
    """The launches of one problem from one template; `sizes` are those of the source that it reads.

    `width` is the vector that the template stores at once, `index` the type of its numbers.
    """

    def __init__(
        self,
        request: Request,
        problem: Problem,
        template: str,
        sizes: Sequence[int],
        width: int,
        index: str = "long",
    ) -> None:
        self.index = index
        self.request, self.problem, self.template, self.width = request, problem, template, width
        dtype = DTYPES[request.output.dtype]
        self.storage, self.compute = dtype.storage, dtype.compute
        self.numbers = {
            **{name: getattr(problem, name) for name in _PROBLEM},
            **{f"size{i}": size for i, size in enumerate(sizes)},
        }

    def kernel(
        self,
        phase: str,
        buffers: Sequence[Buffer],
        items: int,
        axes: Sequence[Axis],
        flags: Mapping[str, Any],
        extra: Mapping[str, int] | None = None,
        slots: Slots = NO_SLOTS,
        local: int | None = None,
    ) -> Kernel:
        """The launch of a phase for the walk with these axes."""
        numbers = {
            **self.numbers,
            **{f"out{i}_size": axis.out for i, axis in enumerate(axes)},
            **{f"{name}{i}": getattr(axis, name) for i, axis in enumerate(axes) for name in _AXIS},
            **(extra or {}),
        }
        declared = [buffer for buffer in buffers if buffer[0] != "out" or slots.epilogue is None]
        context = {
            "phase": phase, "storage": self.storage, "compute": self.compute, "index": self.index,
            "buffers": tuple(text for _, _, text in declared), **self._declared(list(numbers)),
            "bias": False, **flags, **slots.context(self.width),
        }  # fmt: skip
        args = slots.args(
            [(kind, index) for kind, index, _ in buffers],
            self._vectors(list(numbers.values())),
        )
        where = None if local is None else (local,)
        return Kernel(self.template, f"conv_{phase}", args, (max(1, items),), where, context)

    def _vectors(self, numbers: list[int]) -> list[tuple[str, tuple[int, ...]]]:
        """Arguments of so many numbers each, the last one with zeros behind them."""
        lanes = _LANES[self.index]
        padded = [*numbers, *[0] * (-len(numbers) % lanes)]
        return [(f"{self.index}{lanes}", tuple(padded[i : i + lanes]))
                for i in range(0, len(padded), lanes)]  # fmt: skip

    def _declared(self, names: list[str]) -> dict[str, str]:
        """The parameters that hold the numbers, and what gives these their names."""
        lanes = _LANES[self.index]
        count = -(-len(names) // lanes)
        parts = [f"{name} = numbers{i // lanes}.s{i % lanes:x}" for i, name in enumerate(names)]
        return {
            "numbers": ", ".join(f"const {self.index}{lanes} numbers{i}" for i in range(count)),
            "unpacked": f"const {self.index} {', '.join(parts)};",
        }

    # -- buffers -------------------------------------------------------------------------

    def scratch(self, index: int, name: str, kind: str = "", written: bool = False) -> Buffer:
        """A scratch buffer, of the compute type unless said otherwise."""
        const = "" if written else "const "
        return "scratch", index, f"__global {const}{kind or self.compute} *{name}"

    def operands(self, *indices: int) -> list[Buffer]:
        """Inputs in their storage type."""
        return [("in", index, f"__global const {self.storage} *in{index}") for index in indices]

    def result(self) -> Buffer:
        """The output."""
        return "out", 0, f"__global {self.storage} *out0"


class Padded:
    """The source with zeros around it in the compute type: scratch buffer 0, or input 0 itself."""

    def __init__(self, request: Request, problem: Problem) -> None:
        dtype = DTYPES[request.output.dtype]
        self.request, self.problem, self.axes = request, problem, problem.walks[0]
        self.compute, self.size = dtype.compute, _BYTES[dtype.compute]
        fits = all(axis.before == 0 and axis.padded <= axis.source for axis in self.axes)
        self.in_place = fits and dtype.storage == dtype.compute
        self.sizes = [axis.source if self.in_place else axis.padded for axis in self.axes]
        self.planes = problem.batch * problem.groups * problem.channels

    @property
    def bytes(self) -> int:
        """The size of scratch buffer 0."""
        return 0 if self.in_place else self.planes * math.prod(self.sizes) * self.size

    @property
    def buffer(self) -> Buffer:
        """What a kernel reads."""
        place = ("in", 0) if self.in_place else ("scratch", 0)
        return (*place, f"__global const {self.compute} *source")

    def launches(self) -> list[Kernel]:
        """The copy, where one is needed."""
        if self.in_place or not self.planes:
            return []
        width = 64 // self.size
        launcher = Launcher(self.request, self.problem, "conv/conv_pad.cl.j2", self.sizes, width)
        buffers = [*launcher.operands(0), launcher.scratch(0, "padded", written=True)]
        layers, share = self.planes * self.sizes[0], -(-_COPIED // math.prod(self.sizes[1:]))
        numbers = {"layers": layers, "share": share}
        items = -(-layers // share)
        return [launcher.kernel("pad", buffers, items, self.axes, {"width": width}, numbers)]
