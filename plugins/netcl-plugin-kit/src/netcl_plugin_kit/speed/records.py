"""Records of how fast the candidates of an op's calls were measured on a device.

Each is a file of the cache folder, one for each call, so that processes that measure at once lose
nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, final

from netcl_market.finding import version_of
from netcl_market.records import read

from netcl_core import Device, config
from netcl_core.files import keep_whole
from netcl_core.inspect.data import digest

#: What a file says of itself, and the version of its form.
_FORM: Final = "netcl speed"
_VERSION: Final = 1


@final
@dataclass(frozen=True, slots=True)
class Time:
    """The best time of one candidate."""

    provider: str
    version: str
    label: str
    seconds: float


@final
@dataclass(frozen=True, slots=True)
class SpeedRecord:
    """The times of a call's candidates, from one run.

    Attributes:
        device: The OpenCL platform, the device's name and its driver's version.
        call: Which case or attributes it has, in words; may be empty.
        shapes: Those of the inputs, such as `9x301,301x70`.
        date: The day, such as `2026-11-23`.
    """

    op: str
    device: tuple[str, str, str]
    dtype: str
    call: str
    shapes: str
    date: str
    times: tuple[Time, ...]


def folder() -> Path:
    """The folder of the records (it need not exist yet)."""
    return config.cache_root() / "speed"


def device_facts(device: Device) -> tuple[str, str, str]:
    """What a record says of a device."""
    return device.platform, device.name, device.driver_version


def write(
    op: str,
    device: Device,
    dtype: str,
    call: str,
    shapes: str,
    times: Sequence[tuple[str, str, float]],
) -> None:
    """Keep what was measured today: provider, label and seconds of each; the disk may refuse."""
    if not config.get("cache"):
        return
    speeds = tuple(Time(who, version_of(who) or "", label, taken) for who, label, taken in times)
    facts = device_facts(device)
    record = SpeedRecord(op, facts, dtype, call, shapes, time.strftime("%Y-%m-%d"), speeds)
    data = {_FORM: _VERSION, **asdict(record)}
    try:
        keep_whole(_path(record), json.dumps(data, indent=1).encode())
    except OSError:
        return


def of(op: str, device: Device, dtype: str) -> list[SpeedRecord]:
    """The records of an op on a device, the latest first; what cannot be read is none.

    What another version of a plugin took is left out.
    """
    wanted = (op, device_facts(device), dtype)
    records = [_read(path) for path in folder().glob(f"{op}-*.json")]
    fitting = [
        _today(record)
        for record in records
        if record and (record.op, record.device, record.dtype) == wanted
    ]
    told = [record for record in fitting if record.times]
    return sorted(told, key=lambda each: (each.date, each.call, each.shapes), reverse=True)


def _today(record: SpeedRecord) -> SpeedRecord:
    """Without what is no longer installed."""
    kept = [each for each in record.times if each.version == (version_of(each.provider) or "")]
    return replace(record, times=tuple(kept))


def _path(record: SpeedRecord) -> Path:
    key = (record.op, *record.device, record.dtype, record.call, record.shapes)
    return folder() / f"{record.op}-{digest(*key)[:24]}.json"


def _read(path: Path) -> SpeedRecord | None:
    try:
        data = json.loads(path.read_bytes())
        record: SpeedRecord = read(SpeedRecord, data)
        sound = data[_FORM] == _VERSION and all(map(_is_sound, record.times))
        return record if sound and _path(record) == path else None
    except (OSError, ValueError, LookupError, RecursionError):
        return None


def _is_sound(one: Time) -> bool:
    return one.seconds > 0 and f"{one.provider}{one.version}{one.label}".isprintable()
