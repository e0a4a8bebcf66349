"""How a lock file differs from what would be written now: each difference with its code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netcl_market.lock import ANY_DTYPE, DevicePart, Lock, Pin
from netcl_market.lock_verification import Difference


def differences(locked: Lock, now: Lock) -> list[Difference]:
    """Every difference, sorted by what it is about; of devices only those that both know."""
    found = list(_of_pin("netcl-core", locked.core, now.core))
    for name in sorted({*locked.plugins, *now.plugins}):
        found += _of_plugin(name, locked.plugins.get(name), now.plugins.get(name))
    for name in sorted(locked.devices.keys() & now.devices.keys()):
        found += _of_choices(name, locked.devices[name], now.devices[name])
        found += _of_sources(name, locked.devices[name], now.devices[name])
    return found


def notes(locked: Lock, now: Lock) -> list[str]:
    """What was not compared."""
    missing = (
        f"{each}: locked, but not here" for each in sorted(locked.devices - now.devices.keys())
    )
    added = (
        f"{each}: here, but not locked" for each in sorted(now.devices.keys() - locked.devices)
    )
    return [*missing, *added]


def _of_plugin(name: str, locked: Pin | None, now: Pin | None) -> Iterator[Difference]:
    if locked is None:
        assert now is not None  # one of the two has it
        text = f"{now.version} is installed, and the lock file does not know it"
        yield Difference("NP506", name, text)
    elif now is None:
        yield Difference("NP503", name, f"locked is {locked.version}, and it is not installed")
    else:
        yield from _of_pin(name, locked, now)


def _of_pin(name: str, locked: Pin, now: Pin) -> Iterator[Difference]:
    if locked.version != now.version:
        text = f"{now.version} is installed, locked is {locked.version}"
        yield Difference("NP504", name, text)
    elif locked.editable != now.editable:
        how = {True: "editable", False: "not editable"}
        text = f"the installation is {how[now.editable]}, the locked one is {how[locked.editable]}"
        yield Difference("NP505", name, text)
    elif locked != now:
        text = f"the files of {now.version} are others than those that were locked"
        yield Difference("NP505", name, text)


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
    """One for each op: a changed template changes it in every dtype."""
    for op in sorted({*locked.sources, *now.sources}):
        before, after = locked.sources.get(op, {}), now.sources.get(op, {})
        changed = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
        if changed:
            yield Difference("NP508", op, f"on {device} the source of {', '.join(changed)}")
