"""CheckRecord: what a check of one plugin found, as immutable data that matrix and catalogue read.

A record is a JSON object of `schema` 1. Whoever reads one of a newer schema must refuse it;
unknown keys of the same schema are ignored, so that a field can be added.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from types import GenericAlias
from typing import Any, Final, Literal, TypeAlias, final, get_args, get_origin, get_type_hints

from netcl_core.device.device import Device
from netcl_core.errors import RecordError, message

SCHEMA: Final = 1
Level: TypeAlias = Literal["static", "run", "full"]
LEVELS: Final[tuple[Level, ...]] = ("static", "run", "full")
#: `xfailed` failed as its author said it would; `skipped` did not run, for a reason.
OutcomeState: TypeAlias = Literal["passed", "failed", "skipped", "xfailed"]


@final
@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device that took part."""

    id: str
    name: str
    platform: str
    driver: str
    kind: str
    fp16: bool
    fp64: bool


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """One check of one op on one device in one dtype; what does not apply is empty.

    Attributes:
        check: What was checked, such as `values`, `gradient`, `manifest`, `sanitizer`.
        reason: Why it failed or did not run; empty when it passed.
        remedy: What the author can do about it.
    """

    check: str
    state: OutcomeState
    op: str = ""
    device: str = ""
    dtype: str = ""
    reason: str = ""
    remedy: str = ""
    seconds: float = 0.0


@final
@dataclass(frozen=True, slots=True)
class KernelSource:
    """The source of an op as it was rendered for a device: `language` is `opencl` or `python`."""

    op: str
    device: str
    dtype: str
    direction: Literal["forward", "backward"]
    language: str
    source: str


@final
@dataclass(frozen=True, slots=True)
class Mutants:
    """How many seeded faults of an op there were, how many were noticed, and the others' texts."""

    op: str
    total: int
    caught: int
    missed: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Roofline:
    """An op's speed beside a copy of as many bytes in the same run: 1.0 is the copy's bandwidth."""

    op: str
    device: str
    dtype: str
    elements: int
    fraction: float


@final
@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One check of one plugin at one level; `state` is `pass` if nothing failed.

    Attributes:
        date: UTC, ISO 8601 with seconds.
        wheel_sha256: Of the wheel that was checked; empty for an installed plugin or a folder.
        notes: What is worth knowing and no failure.
    """

    plugin: str
    version: str
    level: Level
    state: Literal["pass", "fail"]
    core: str
    python: str
    system: str
    date: str
    seconds: float
    devices: tuple[DeviceFacts, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    kernels: tuple[KernelSource, ...] = ()
    mutants: tuple[Mutants, ...] = ()
    roofline: tuple[Roofline, ...] = ()
    wheel_sha256: str = ""
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA
    kind: str = field(default="check")

    def as_json(self) -> dict[str, Any]:
        """The record as JSON data."""
        return asdict(self)


def facts_of(device: Device) -> DeviceFacts:
    """What a record says of a device."""
    return DeviceFacts(
        device.id,
        device.name,
        device.platform,
        device.driver_version,
        device.kind,
        device.supports_fp16,
        device.supports_fp64,
    )


def system() -> str:
    """The operating system and the processor family, such as `linux-x86_64`."""
    return f"{platform.system().lower()}-{platform.machine()}"


def now() -> str:
    """The time of a record: UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


_PARTS: Final[Mapping[str, Any]] = {
    "devices": DeviceFacts,
    "outcomes": Outcome,
    "kernels": KernelSource,
    "mutants": Mutants,
    "roofline": Roofline,
}


def from_json(data: Mapping[str, Any]) -> CheckRecord:
    """A record from JSON data.

    Raises RecordError if the data are no record of a check, or of a newer schema.
    """
    if not isinstance(data, Mapping) or data.get("kind") != "check":
        given = data.get("kind") if isinstance(data, Mapping) else type(data).__name__
        raise RecordError(message("record", f"kind {given!r}", "a record of kind 'check'"))
    if data.get("schema") != SCHEMA:
        remedy = "Upgrade netcl-core" if isinstance(data.get("schema"), int) else ""
        raise RecordError(message("record", f"schema {data.get('schema')}", str(SCHEMA), remedy))
    try:
        known = _known(CheckRecord, data)
        for name, part in _PARTS.items():
            known[name] = tuple(_made(part, row) for row in known.get(name, ()))
        known["notes"] = tuple(known.get("notes", ()))
        made: CheckRecord = _sound(CheckRecord(**known))
        datetime.fromisoformat(made.date)
        return made
    except (TypeError, AttributeError, ValueError) as error:
        raise RecordError(message("record", str(error), "the fields of a record")) from error


def _made(part: Any, row: Mapping[str, Any]) -> Any:
    known = _known(part, row)
    return _sound(part(**{k: tuple(v) if isinstance(v, list) else v for k, v in known.items()}))


def _sound(made: Any) -> Any:
    """A part of a record whose values are of the types that its class says; else a TypeError."""
    kind: Any = type(made)
    for name, wanted in _types(kind).items():
        value = getattr(made, name)
        if not _is_a(value, wanted):
            raise TypeError(f"{kind.__name__}.{name} is {value!r:.80}")
    return made


@lru_cache
def _types(part: Any) -> dict[str, Any]:
    return get_type_hints(part)


def _is_a(value: Any, wanted: Any) -> bool:
    if get_origin(wanted) is Literal:
        return value in get_args(wanted)
    if isinstance(wanted, GenericAlias):  # tuple[something, ...]
        part = get_args(wanted)[0]
        return isinstance(value, tuple) and all(_is_a(each, part) for each in value)
    if wanted is float:
        return type(value) in (int, float) and isfinite(value)
    return type(value) is wanted


def _known(part: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(part)}
    return {key: value for key, value in data.items() if key in names}
