"""How lines are sorted: long ones by digits where a device has work-groups, others by merging."""

from __future__ import annotations

from typing import Final

from netcl_core import Device, Kernels
from netcl_core.autograd import Request
from netcl_plugin_tensor.merge_sort import plan_merges
from netcl_plugin_tensor.radix_sort import is_radix_sorted, plan_radix

#: So few lines of so many elements are sorted sooner than walked by an item each, but on CPUs.
_FEW_LINES: Final = 1 << 10
_LONG_LINE: Final = 1 << 12


def is_sorted_sooner(device: Device, lines: int, size: int) -> bool:
    """Whether to sort whole lines, to find their best, takes less than an item for each line."""
    return device.kind != "cpu" and lines <= _FEW_LINES and size >= _LONG_LINE


def plan_sort(request: Request, places: int | None = None) -> Kernels:
    """The launches of `sort`: of input 0 the values in order, and where they stood.

    `places` says that the elements are from -1 to below it.
    """
    bits = None if places is None else max(1, places.bit_length())
    if is_radix_sorted(request, bits):
        return plan_radix(request, bits)
    return plan_merges(request)
