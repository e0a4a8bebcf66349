"""Work-groups of GPUs: how many items they have, and how many of these share one piece of work."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, final

from netcl_core import Device
from netcl_core.inspect.data import Dtype

#: Items of a work-group where the device allows so many.
_ITEMS: Final = 256
#: Work-groups per compute unit that keep a memory-bound kernel busy to its end: several run at
#: a time, and the last ones to start are a small part of all.
_GROUPS_PER_UNIT: Final = 32
#: The bytes of one load, which suit the memory of GPUs best.
_LOAD_BYTES: Final = 16
#: The loads of an item per row that are under way at the same time, as long as a team can grow.
_LOADS: Final = 4
#: The elements of a row that one item keeps in registers at most.
_HELD: Final = 16
#: Short rows share work-groups of so many items.
_LEAST_ITEMS: Final = 64


def power_of_two(least: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(0, least - 1).bit_length()


def group_items(device: Device, local_bytes: int) -> int:
    """The items of a work-group, a power of two, if each needs so many bytes of local memory.

    >>> items = ag.group_items(nc.default_device(), 4)
    >>> items & (items - 1)
    0

    Args:
        device: The device.
        local_bytes: The bytes of local memory for each item.
    """
    most = min(_ITEMS, device.max_work_group_size, max(1, device.local_mem_bytes // local_bytes))
    return 1 << (most.bit_length() - 1)


def busy_groups(device: Device) -> int:
    """How many work-groups use the whole device."""
    return device.compute_units * _GROUPS_PER_UNIT


def load_width(itemsize: int) -> int:
    """The elements of one load: 16 bytes, at most 8 elements (they are widened in registers).

    >>> ag.load_width(2), ag.load_width(4), ag.load_width(8)
    (8, 4, 2)

    Args:
        itemsize: The bytes of an element in memory.
    """
    return max(1, min(8, _LOAD_BYTES // itemsize))


@final
@dataclass(frozen=True, slots=True)
class RowTeams:
    """How work-items share rows of contiguous elements.

    >>> teams = ag.RowTeams(width=4, team=8, group=32, held=2)
    >>> teams.number(5), teams.items(5)
    (8, 64)

    Each of `team` items loads vectors of `width` elements and keeps `held` of them in
    registers; with `held` 0 the row is too long, and each pass over it reads it again.
    A work-group of `group` items has one team or several.
    """

    width: int
    team: int
    group: int
    held: int

    @property
    def context(self) -> dict[str, Any]:
        """What `core/kernels/rows.cl.j2` needs."""
        return {**asdict(self), "aligned": True}

    def items(self, rows: int) -> int:
        """The global size with a team for each of so many rows."""
        return self.number(rows) * self.team

    def number(self, rows: int) -> int:
        """How many teams there are then, with those that find no row in the last work-group."""
        per_group = self.group // self.team
        return -(-rows // per_group) * per_group


def row_teams(device: Device, size: int, dtype: Dtype) -> RowTeams:
    """Teams for rows of `size` elements that start anywhere in a contiguous tensor of a dtype.

    >>> ag.row_teams(nc.get_device("numpy"), 1000, nc.DTYPES["float32"]).width
    4
    """
    width = load_width(dtype.itemsize)
    while size % width:
        width //= 2
    loads = size // width
    most = group_items(device, max(4, dtype.itemsize))
    team = min(most, power_of_two(-(-loads // min(_LOADS, _HELD // width))))
    held = -(-loads // team)
    group = max(team, min(most, _LEAST_ITEMS))
    return RowTeams(width, team, group, held if held * width <= _HELD else 0)
