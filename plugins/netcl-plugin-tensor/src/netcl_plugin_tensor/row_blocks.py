"""Blocks of rows on CPUs: how many rows one item of work passes, one after the other."""

from __future__ import annotations

from typing import Final

from netcl_core import Device

#: The elements of a vector.
CPU_WIDTH: Final = 16
#: So many elements are work enough for one item.
_RUN: Final = 16384
#: So many rows are added up in a row at most: longer sums lose digits, what follows has a tree.
_SUMMED: Final = 64
#: So many items there are for each core at least, if there are rows enough.
_PER_CORE: Final = 8


def rows_of_an_item(device: Device, rows: int, size: int, *, summed: bool = False) -> int:
    """How many of some rows of a size make up a block; `summed` if each leaves sums behind."""
    by_cores = rows // (device.compute_units * _PER_CORE)
    return max(1, min(_SUMMED if summed else _RUN // max(1, size), by_cores))
