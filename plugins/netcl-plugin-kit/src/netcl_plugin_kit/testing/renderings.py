"""The kernels of a plugin's ops, as they are rendered for a device, for readers of a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from netcl_core import Device, Tensor, use_device
from netcl_core.autograd import jit_compile
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.records import KernelSource

_LANGUAGES: Final = {"numpy": "python", "opencl": "opencl"}


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
        if case.main_dtype == "float64" and not device.supports_fp64:
            continue
        if not device.has_kernels and case.primitive is None:
            continue  # a structured op's reference is its source there
        try:
            rendered = _of_case(case, device)
        except Exception:  # it cannot be traced as a whole, or the checks say what is wrong
            continue
        if rendered:
            return rendered
    return []


def _of_case(case: Case, device: Device) -> list[KernelSource]:
    """What the case's call launches, and the backward kernel of an elementwise op."""
    dtype, language = case.main_dtype, _LANGUAGES[device.backend]
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
    return [
        KernelSource(case.op, str(device), dtype, direction, language, text)
        for direction, text in directions
        if text
    ]
