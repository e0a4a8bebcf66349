"""What is chosen and rendered on a device, for a lock file: as if there were none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import netcl_core as nc
from netcl_core.plugins.market.lock import ANY_DTYPE, DevicePart
from netcl_core.plugins.registry import registry
from netcl_plugin_workbench.lock.sources import cases, sources

Progress: TypeAlias = Callable[[str, int, int], None]


def ops() -> list[str]:
    """Every op that an installed plugin brings, sorted; loads the plugins."""
    names = {name for plugin in nc.plugins.list() for name in plugin.provides}
    return sorted(names.intersection(registry.op_names()))


def part_of(device: nc.Device, progress: Progress) -> DevicePart:
    """The choices and sources of all ops on a device; to be called without a lock in force."""
    names, given, choices, rendered = ops(), cases(), {}, {}
    for done, op in enumerate(names):
        progress(f"{device}: {op}", done, len(names))
        choices[op] = dict(_choices(op, device))
        rendered[op] = dict(sources(op, device, given.get(op, ())))
    progress(str(device), len(names), len(names))
    return DevicePart(
        {op: rows for op, rows in choices.items() if rows},
        {op: rows for op, rows in rendered.items() if rows},
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
    rest = [each for each in candidates if each.unused]
    for winner in candidates:
        if winner.chosen:
            yield winner
            for each in sorted(rest, key=lambda one: -one.priority):
                if [one.priority for one in rest].count(each.priority) > 1:
                    return
                yield each
