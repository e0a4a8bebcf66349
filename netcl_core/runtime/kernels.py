"""What an implementation says it will launch, and the bound form that runs it.

A `Kernel` is one launch of a template: entry point, template variables,
arguments and geometry. `Kernels` is a sequence of launches with the scratch
memory between them. `Bound` renders the templates and runs them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from netcl_core.device import Device
from netcl_core.dtypes import DTYPES
from netcl_core.errors import ArgumentError, message
from netcl_core.rendering import render
from netcl_core.runtime.launch import Launch, pack
from netcl_core.runtime.memory import allocate

#: ("in" | "out" | "scratch", index), or ("ulong" | "long" | "int" | "float" | "double", number)
Arg: TypeAlias = tuple[str, Any]
_BUFFERS = ("in", "out", "scratch")


@final
@dataclass(frozen=True, slots=True)
class Spec:
    """The shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


@final
@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch: buffers come before numbers in `args`, as in the kernel's parameters.

    `global_size` counts work-items and is a multiple of `local_size`.
    """

    template: str
    entry: str
    args: tuple[Arg, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None = None
    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The rendered OpenCL C."""
        return render(self.template, entry=self.entry, **self.context)


@final
@dataclass(frozen=True, slots=True)
class Kernels:
    """Launches in order, and the scratch buffers that they share (sizes in bytes)."""

    launches: tuple[Kernel, ...]
    scratch: tuple[int, ...] = ()


@final
class Bound:
    """Kernels for tensors of given shapes on a device: call with input and output buffers.

    A tensor without elements is never given to a kernel; an implementation plans no
    launch that would need one.
    """

    def __init__(
        self, device: Device, kernels: Kernels, inputs: Sequence[Spec], outputs: Sequence[Spec]
    ) -> None:
        self.device = device
        self.kernels = kernels
        self.outputs = tuple(outputs)
        self._launches: list[tuple[Launch, tuple[Arg, ...]]] = []
        for kernel in kernels.launches:
            buffers = tuple(arg for arg in kernel.args if arg[0] in _BUFFERS)
            numbers = kernel.args[len(buffers) :]
            if any(kind in _BUFFERS for kind, _ in numbers):
                raise ArgumentError(
                    message(kernel.entry, "a buffer follows a number in args", "buffers first")
                )
            packed = [pack(value, kind, kernel.entry) for kind, value in numbers]
            launch = Launch(
                device, kernel.source, kernel.entry, kernel.global_size, kernel.local_size, packed
            )
            self._launches.append((launch, buffers))

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Enqueue all launches."""
        scratch = [allocate(self.device, max(1, nbytes)) for nbytes in self.kernels.scratch]
        places = {"in": inputs, "out": outputs, "scratch": scratch}
        for launch, buffers in self._launches:
            launch([places[kind][index] for kind, index in buffers])


def storage(spec: Spec) -> str:
    """The OpenCL C type of a tensor's elements in memory."""
    return DTYPES[spec.dtype].storage


def compute(spec: Spec) -> str:
    """The OpenCL C type in which a tensor's elements are computed."""
    return DTYPES[spec.dtype].compute
