"""What is chosen and rendered on a device, for a lock file: as if there were none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from netcl_market.lock import ANY_DTYPE, EVERY_DTYPE, DevicePart
from netcl_plugin_kit.testing.forcing import untuned
from netcl_plugin_kit.why.decisions import why

import netcl_core as nc
from netcl_core.plugins.protocol import KINDS, Offer, command_providers, decide, registry
from netcl_plugin_tools.lock.sources import cases, digest, sources

Progress: TypeAlias = Callable[[str, int, int], None]
_Rows = TypeVar("_Rows")


def ops() -> list[str]:
    """Every op that an installed plugin brings, sorted; loads the plugins."""
    names = {name for plugin in nc.plugins.list() for name in plugin.provides}
    return sorted(names.intersection(registry.op_names()))


def _others(device: nc.Device) -> Iterator[tuple[str, str]]:
    """Who serves patterns, policies, namespaces and commands, by what a lock calls these."""
    kinds = [kind for kind in KINDS.values() if not (kind.is_op or kind.serves)]
    for kind in kinds:
        for name in {row.record.name for row in registry.rows(kind.name)} if kind.records else ():
            limit = partial(_limit, device)
            decision = decide(
                name, [row.offer for row in registry.rows(kind.name, name)], (), limit
            )
            if decision.winner is not None:
                yield kind.lock_key(name), decision.winner.provider
    for name, provider in command_providers():
        yield KINDS["command"].lock_key(name), provider


def _limit(device: nc.Device, offer: Offer) -> str | None:
    return registry.limit(offer.owner, device)


def part_of(device: nc.Device, progress: Progress) -> DevicePart:
    """The choices and sources of all ops on a device; to be called without a lock in force.

    Records of tuning do not count: they are of one machine.
    """
    names = ops()
    choices: dict[str, dict[str, tuple[str, ...]]] = {}
    for key, provider in _others(device):
        choices[key] = {ANY_DTYPE: (provider,)}
    with untuned():
        for done, op in enumerate(names):
            progress(f"{device}: {op}", done, len(names))
            choices[op] = dict(_choices(op, device))
        rendered = _rendered(choices, names, device)
    progress(str(device), len(names), len(names))
    return DevicePart(_said(choices), rendered)


def choosing(name: str, device: nc.Device, part: DevicePart) -> DevicePart:
    """A part of a lock with what is chosen for one name now, and rendered if it is an op."""
    keys = {kind.lock_key(name) for kind in KINDS.values()}
    choices = {key: dict(rows) for key, rows in part.choices.items() if key not in keys}
    choices |= {key: {ANY_DTYPE: (who,)} for key, who in _others(device) if key in keys}
    known = registry.op_names()
    if name not in known:
        return DevicePart(choices, part.sources)
    before = part.choices.get(name, {}).get(ANY_DTYPE, ())
    with untuned():
        choices[name] = dict(_choices(name, device))
        changed = {*before, *choices[name].get(ANY_DTYPE, ())}
        own = [
            op
            for op, rows in sorted(choices.items())
            if op in known and changed.intersection(rows.get(ANY_DTYPE, ()))
        ]
        rendered = _rendered(choices, own, device)
    kept = {who: digest for who, digest in part.sources.items() if who not in changed}
    return DevicePart(_said(choices), {**kept, **rendered})


def _rendered(
    choices: Mapping[str, Mapping[str, tuple[str, ...]]], names: Sequence[str], device: nc.Device
) -> dict[str, str]:
    """The digest of what is rendered for the ops that each distribution serves."""
    given, texts = cases(), dict[str, list[str]]()
    for op in names:
        for who in choices[op].get(ANY_DTYPE, ()):
            rows = [f"{op} {words} {text}" for words, text in sources(op, device, given.get(op))]
            texts.setdefault(who, []).extend(rows)
    return {who: digest("\n".join(rows)) for who, rows in texts.items() if rows}


def _said(rows: Mapping[str, _Rows]) -> dict[str, _Rows]:
    return {op: row for op, row in rows.items() if row}


# -- choices ---------------------------------------------------------------------------


def _choices(op: str, device: nc.Device) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Who serves an op: the provider and, by dtype, the implementations."""
    said = {dtype: why(op, device=device, dtype=dtype) for dtype in nc.DTYPES}
    records = [
        candidate for candidate in said["float32"].candidates if not candidate.implementation
    ]
    yield from ((ANY_DTYPE, (record.provider,)) for record in records if record.chosen)
    if not device.has_kernels:  # where the operator's own function computes it
        return
    orders = {dtype: _order(one.candidates) for dtype, one in said.items()}
    if len(different := {*orders.values()} - {()}) == 1:
        yield EVERY_DTYPE, different.pop()
    else:
        yield from ((dtype, order) for dtype, order in orders.items() if order)


def _order(candidates: Sequence[Any]) -> tuple[str, ...]:
    own = [candidate for candidate in candidates if candidate.implementation]
    return tuple(f"{offer.provider}:{offer.label}" for offer in _in_order(own))


def _in_order(candidates: Sequence[Any]) -> Iterator[Any]:
    """The winner, then who would serve after it where shapes do not suit it, up to a tie."""
    rest = [candidate for candidate in candidates if candidate.unused]
    for winner in candidates:
        if winner.chosen:
            yield winner
            for offer in sorted(rest, key=lambda one: -one.priority):
                if [one.priority for one in rest].count(offer.priority) > 1:
                    return
                yield offer
