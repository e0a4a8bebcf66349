"""CheckRecord: what a check of one plugin found, as immutable data.

As JSON it is an object of `schema` 1. Whoever reads one of a newer schema must refuse it;
unknown keys of the same schema are ignored, so that a field can be added.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, final

from netcl_market import records

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
    """An op's speed beside a copy of as many bytes in the same run: 1.0 is the copy's bandwidth.

    Attributes:
        elements: Of all inputs and the result; a figure of fewer than a million says little.
        fraction: The copy's time as a part of the op's.
        reference: The time of its NumPy path as a part of the op's; 0: not measured.
        shapes: Those of the inputs, which `seed` has drawn and no author chose.
        items: The most work-items that a kernel of it was launched with; 0: not known.
    """

    op: str
    device: str
    dtype: str
    elements: int
    fraction: float
    reference: float = 0.0
    shapes: str = ""
    seed: int = 0
    items: int = 0


@final
@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One check of one plugin at one level; `state` is `pass` if nothing failed.

    >>> import sys, netcl_plugin_kit.testing as kit
    >>> record = kit.CheckRecord("netcl-plugin-mine", "1.0", "run", "pass", nc.__version__,
    ...     sys.version.split()[0], "Linux x86_64", "2026-11-28T00:00:00+00:00", 2.5)
    >>> record.plugin, record.state, record.parts
    ('netcl-plugin-mine', 'pass', ())

    Attributes:
        date: UTC, ISO 8601 with seconds.
        parts: The names of the checks that were made to their end, whatever came out.
        wheel_sha256: Of the wheel that was checked; empty for an installed plugin or a folder.
        notes: What is worth knowing and no failure.
        source: Of what the wheel was built again, and by what; empty: nobody did.
        held: What bounded the process that ran it: `bubblewrap`, `limits`; empty: not known.
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
    parts: tuple[str, ...] = ()
    held: str = ""
    source: str = ""
    schema: int = SCHEMA
    kind: str = field(default="check")

    def as_json(self) -> dict[str, Any]:
        """The record as JSON data."""
        return asdict(self)


def from_json(data: Any) -> CheckRecord:
    """A record from JSON data.

    Raises RecordError if the data are no record of a check, or of a newer schema.
    """
    if not isinstance(data, dict) or data.get("kind") != "check":
        given = data.get("kind") if isinstance(data, dict) else type(data).__name__
        raise RecordError(message("record", f"kind {given!r}", "a record of kind 'check'"))
    if data.get("schema") != SCHEMA:
        remedy = "Upgrade netcl-core" if isinstance(data.get("schema"), int) else ""
        raise RecordError(message("record", f"schema {data.get('schema')}", str(SCHEMA), remedy))
    try:
        record: CheckRecord = records.read(CheckRecord, data)
        datetime.fromisoformat(record.date)
    except ValueError as error:
        raise RecordError(message("record", str(error), "the fields of a record")) from error
    return record
