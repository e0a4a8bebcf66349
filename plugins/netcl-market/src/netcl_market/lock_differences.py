"""How what is chosen and rendered differs from a lock: each difference with its code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netcl_market.lock import ANY_DTYPE, DevicePart, Lock
from netcl_market.lock_verification import Difference


def differences(locked: Lock, now: Lock) -> list[Difference]:
    """What differs in choices and sources; of devices only those that both know."""
    changes: list[Difference] = []
    for name in sorted(locked.devices.keys() & now.devices.keys()):
        changes += _of_choices(name, locked.devices[name], now.devices[name])
        changes += _of_sources(name, locked.devices[name], now.devices[name])
    return changes


def notes(locked: Lock, now: Lock) -> list[str]:
    """What was not compared."""
    missing = (
        f"{device}: locked, but not here" for device in sorted(locked.devices - now.devices.keys())
    )
    added = (
        f"{device}: here, but not locked" for device in sorted(now.devices.keys() - locked.devices)
    )
    return [*missing, *added]


def _of_choices(device: str, locked: DevicePart, now: DevicePart) -> Iterator[Difference]:
    for op in sorted({*locked.choices, *now.choices}):
        before, after = locked.choices.get(op, {}), now.choices.get(op, {})
        for dtype in sorted({*before, *after}):
            if before.get(dtype) != after.get(dtype):
                where = device if dtype == ANY_DTYPE else f"{device} in {dtype}"
                text = (
                    f"on {where} locked is {_said(before, dtype)}, now it is {_said(after, dtype)}"
                )
                yield Difference("NP507", op, text)


def _said(rows: Mapping[str, tuple[str, ...]], dtype: str) -> str:
    return " before ".join(rows.get(dtype, ())) or "nobody"


def _of_sources(device: str, locked: DevicePart, now: DevicePart) -> Iterator[Difference]:
    """One for each distribution: a changed template changes what its ops render."""
    for who in sorted({*locked.sources, *now.sources}):
        if locked.sources.get(who) != now.sources.get(who):
            yield Difference("NP508", who, f"on {device} the sources of the ops that it serves")
