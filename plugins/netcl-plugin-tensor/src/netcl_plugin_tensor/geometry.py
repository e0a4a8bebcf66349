"""How many work-items share the elements of a tensor, and in which groups."""

from __future__ import annotations

from typing import Final

from netcl_core import Device

#: Items of a group on anything but a CPU, or the most that the device has.
GROUP: Final = 128


def chunk(device: Device, on_cpu: int, elsewhere: int = 1) -> int:
    """Elements of a work-item: many in a row on a CPU; else neighbours take neighbours."""
    return on_cpu if device.kind == "cpu" else elsewhere


def groups(device: Device, items: int) -> tuple[tuple[int], tuple[int] | None]:
    """The global and the local size of at least so many items; those beyond must do nothing.

    A driver that may choose finds no good group for a number of items without small divisors.
    """
    if device.kind == "cpu":
        return (items,), None
    size = min(GROUP, device.max_work_group_size)
    return (-(-items // size) * size,), (size,)
