"""The text of a lock file: JSON, sorted, one fact per line, the same for the same facts."""

from __future__ import annotations

import json
from typing import Any

from netcl_market.lock import SCHEMA, DevicePart, Lock, Pin


def text_of(lock: Lock) -> str:
    """The content of the lock file, which the core's `market.lock.parse` reads back exactly."""
    table = {
        "schema": SCHEMA,
        "written_by": "netcl plugins lock",
        "core": _pin(lock.core),
        "plugins": {name: _pin(pin) for name, pin in sorted(lock.plugins.items())},
        "devices": {name: _part(part) for name, part in sorted(lock.devices.items())},
    }
    return json.dumps(table, indent=1) + "\n"


def _pin(pin: Pin) -> dict[str, Any]:
    """What is not as usual stands there."""
    made: dict[str, Any] = {"version": pin.version}
    if pin.files:
        made["files"] = pin.files
    if pin.editable:
        made["editable"] = True
    if pin.data:
        made["data"] = True
    return made


def _part(part: DevicePart) -> dict[str, Any]:
    return {
        "choices": {
            op: {dtype: list(order) for dtype, order in sorted(rows.items())}
            for op, rows in sorted(part.choices.items())
        },
        "sources": {op: dict(sorted(rows.items())) for op, rows in sorted(part.sources.items())},
    }
