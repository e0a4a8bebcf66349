"""The text of a lock file: JSON, sorted, a line for each distribution, the same for equal facts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from netcl_market.lock import ANY_DTYPE, SCHEMA, DevicePart, Lock, Pin


def text_of(lock: Lock) -> str:
    """The content of the lock file, which `netcl_market.lock.parse` reads back exactly."""
    common = _common(lock.devices.values())
    plugins = {name: _pin(pin) for name, pin in sorted(lock.plugins.items())}
    for name, provider in sorted(common.items()):
        if provider in plugins:
            plugins[provider].setdefault("serves", []).append(name)
    common = {name: who for name, who in common.items() if who in plugins}
    table = {
        "schema": SCHEMA,
        "written_by": "netcl plugins lock",
        **({"strict": True} if lock.strict else {}),
        "core": _pin(lock.core),
        "plugins": plugins,
        "devices": {key: _part(part, common) for key, part in sorted(lock.devices.items())},
    }
    return _lines(table, ("plugins", "devices", "choices")) + "\n"


def _lines(table: Mapping[str, Any], opened: Iterable[str], indent: str = " ") -> str:
    """JSON with a line for each value, but for tables of these names and those of devices."""
    rows = []
    for key, value in table.items():
        device = "sources" in value if isinstance(value, dict) else False
        if value and (key in opened or device) and isinstance(value, dict):
            text = _lines(value, opened, f"{indent} ")
        else:
            text = json.dumps(value)
        rows.append(f"{indent}{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(rows) + f"\n{indent[1:]}}}"


def _common(parts: Iterable[DevicePart]) -> dict[str, str]:
    """The names that one distribution serves on every device."""
    providers_of: dict[str, set[str]] = {}
    for part in parts:
        for name, rows in part.choices.items():
            providers_of.setdefault(name, set()).update(rows.get(ANY_DTYPE, ()))
    return {name: who.pop() for name, who in providers_of.items() if len(who) == 1}


def _pin(pin: Pin) -> dict[str, Any]:
    """What is not as usual stands there."""
    return {name: value for name, value in asdict(pin).items() if value or name == "version"}


def _part(part: DevicePart, common: Mapping[str, str]) -> dict[str, Any]:
    """What a device has besides: by the provider that goes first, for each name."""
    choices: dict[str, dict[str, dict[str, list[str]]]] = {}
    for name, rows in sorted(part.choices.items()):
        own = {
            dtype: list(order)
            for dtype, order in sorted(rows.items())
            if not (dtype == ANY_DTYPE and order == (common.get(name),))
        }
        if own:
            first = next(iter(own.values()))
            who = (first or [""])[0].partition(":")[0]
            choices.setdefault(who, {})[name] = own
    lacking = [name for name in sorted(common) if ANY_DTYPE not in part.choices.get(name, ())]
    return {
        **({"lacks": lacking} if lacking else {}),
        "choices": dict(sorted(choices.items())),
        "sources": dict(sorted(part.sources.items())),
    }
