"""What is chosen and rendered on a device, for a lock file: as if there were none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import netcl_core as nc
from netcl_core.errors import (
    AmbiguousOpError,
    ArgumentError,
    AttributeValueError,
    DeviceError,
    DtypeError,
    MissingOpError,
    ShapeError,
)
from netcl_core.market.lock import ANY_DTYPE, DevicePart

Progress: TypeAlias = Callable[[str, int, int], None]
#: What an op raises where there is nothing to render: no gradient, not this dtype, not this device.
_NOTHING = (ArgumentError, AttributeValueError, DeviceError, DtypeError, ShapeError)


def ops() -> list[str]:
    """Every op that an installed plugin brings, sorted; loads the plugins."""
    names = {name for plugin in nc.plugins.list() for name in plugin.provides}
    return sorted(name for name in names if _is_op(name))


def _is_op(name: str) -> bool:
    try:
        nc.plugins.why(name, device="cpu")
    except MissingOpError:  # a namespace, say
        return False
    return True


def part_of(device: nc.Device, progress: Progress) -> DevicePart:
    """The choices and sources of all ops on a device; to be called without a lock in force."""
    names, choices, sources = ops(), {}, {}
    for done, op in enumerate(names):
        progress(f"{device}: {op}", done, len(names))
        choices[op] = dict(_choices(op, device))
        sources[op] = dict(_sources(op, device))
    progress(str(device), len(names), len(names))
    return DevicePart(
        {op: rows for op, rows in choices.items() if rows},
        {op: rows for op, rows in sources.items() if rows},
    )


# -- choices ---------------------------------------------------------------------------


def _choices(op: str, device: nc.Device) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Who serves an op that several could: the provider and, by dtype, the implementations."""
    said = [(dtype, nc.plugins.why(op, device=device, dtype=dtype)) for dtype in nc.DTYPES]
    providers = [each for each in said[0][1].candidates if not each.implementation]
    if len(providers) > 1:
        yield from ((ANY_DTYPE, (each.provider,)) for each in providers if each.chosen)
    for dtype, one in said:
        candidates = [each for each in one.candidates if each.implementation]
        order = tuple(f"{each.provider}:{each.label}" for each in _in_order(candidates))
        if len(candidates) > 1 and order:
            yield dtype, order


def _in_order(candidates: Sequence[Any]) -> Iterator[Any]:
    """The winner, then who would serve after it where shapes do not suit it, up to a tie."""
    rest = [each for each in candidates if each.reason.startswith("not used")]
    for winner in candidates:
        if winner.chosen:
            yield winner
            for each in sorted(rest, key=lambda one: -one.priority):
                if [one.priority for one in rest].count(each.priority) > 1:
                    return
                yield each


# -- sources ---------------------------------------------------------------------------


def _sources(op: str, device: nc.Device) -> Iterator[tuple[str, str]]:
    for dtype in nc.DTYPES:
        for backward in (False, True):
            digest = _digest(op, device, dtype, backward)
            if digest:
                yield f"{dtype} {'backward' if backward else 'forward'}", digest


def _digest(op: str, device: nc.Device, dtype: str, backward: bool) -> str:
    """The sha256 of `source` in `netcl kernels show --json`; empty if nothing is rendered."""
    try:
        found = nc.plugins.sources(op, device=device, dtype=dtype, backward=backward)
    except (*_NOTHING, AmbiguousOpError):
        return ""
    text = "\n\n".join(each.text for each in found.sources)
    return hashlib.sha256(text.encode()).hexdigest() if text else ""
