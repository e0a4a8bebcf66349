"""The kernels of a plugin's ops, as they are rendered for a device, for readers of a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from netcl_core.device.device import Device
from netcl_core.device.device_table import use_device
from netcl_core.jit.jit import jit_compile
from netcl_core.ops.sources import PYTHON, sources_of
from netcl_core.runtime.kernels import Spec
from netcl_core.tensors.tensor import Tensor
from netcl_core.testing.cases import Case
from netcl_core.testing.collection import Table
from netcl_core.testing.records import KernelSource

_SHAPE: Final = (1024,)


def kernel_sources(table: Table, devices: Sequence[Device]) -> list[KernelSource]:
    """The sources of each op's first case that has some, in its main dtype.

    A structured op has those that its call launches; its gradients are computed with other ops.
    """
    return [
        source
        for device in devices
        for op in table.ops
        for source in _of_op(table.cases_of(op), device)
    ]


def _of_op(cases: Sequence[Case], device: Device) -> list[KernelSource]:
    for case in cases:
        dtype = case.main_dtype
        if dtype == "float64" and not device.supports_fp64:
            continue
        make = _structured if case.primitive is None else _elementwise
        try:
            found = list(make(case, device, dtype))
        except Exception:  # it cannot be traced as a whole, or the checks say what is wrong
            continue
        if found:
            return found
    return []


def _elementwise(case: Case, device: Device, dtype: str) -> Iterator[KernelSource]:
    """The forward and, if there is a gradient, the backward kernel."""
    directions: Sequence[Literal["forward", "backward"]] = ("forward", "backward")
    with case.chosen():
        for direction in directions if case.differentiable else directions[:1]:
            specs = [Spec(_SHAPE, dtype) for _ in case.inputs]
            backward = direction == "backward"
            found = sources_of(case.op, device, dtype, specs, case.attrs, backward=backward)
            for each in found.sources:
                language = "python" if each.language == PYTHON else "opencl"
                yield KernelSource(case.op, str(device), dtype, direction, language, each.text)


def _structured(case: Case, device: Device, dtype: str) -> Iterator[KernelSource]:
    """What the case's call launches; nothing on the NumPy path."""
    if device.backend == "numpy":
        return
    arrays = case.main_sample(dtype)

    def call(*tensors: Tensor) -> object:
        return case.run(*tensors)

    with use_device(device), case.chosen():
        tensors = [Tensor.from_host(array, device) for array in arrays]
        lowered = jit_compile(call).lower(*tensors)
    directions: Sequence[tuple[Literal["forward", "backward"], str]] = (
        ("forward", lowered.forward_source),
        ("backward", lowered.backward_source if any(case.needs(arrays)) else ""),
    )
    for direction, text in directions:
        if text:
            yield KernelSource(case.op, str(device), dtype, direction, "opencl", text)
