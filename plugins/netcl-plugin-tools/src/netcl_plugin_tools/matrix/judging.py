"""What the end of a check means for its cell: pass, fail, setup_error or unsupported.

A cell is green only if its own check ran on the device that the cell is about, something
passed, and nothing failed. Whatever else happened is said as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, final

from netcl_market.manifests import Manifest
from netcl_plugin_kit.testing.records import CheckRecord, Outcome, from_json
from packaging.utils import canonicalize_name

from netcl_core.errors import RecordError
from netcl_plugin_tools.matrix.processes import Ended
from netcl_plugin_tools.matrix.records import Cell, State
from netcl_plugin_tools.matrix.runtimes import Presence

_NO_COMMAND: Final = "No such command"
_USAGE, _ENVIRONMENT = 2, 3
#: A check and a plugin that were not heard of any more: a loaded machine does that, too.
_TIME_OUTS: Final = ("NC602", "NP209")


@final
@dataclass(frozen=True, slots=True)
class CellVerdict:
    """A cell's state with its reason, the last lines of what went wrong, and the check's record."""

    state: State
    reason: str = ""
    log: str = ""
    check: CheckRecord | None = None


def of_device(manifest: Manifest | None, presence: Presence) -> CellVerdict | None:
    """Whether the runtime's device is less than the plugin's manifest asks for."""
    if manifest is None or "backend" not in presence.device:
        return None
    device = _Device(**presence.device)
    reason = manifest.requires.unmet(device)
    return CellVerdict("unsupported", reason) if reason else None


class _Device(SimpleNamespace):
    """A device of `netcl devices --json`, with the attributes of a Device."""

    def __init__(self, **facts: Any) -> None:
        version = tuple(int(part) for part in facts.get("opencl_c", "").split(".") if part)
        kernels = facts["backend"] != "numpy"  # a core does not say it there
        super().__init__(**{**facts, "opencl_c": version, "has_kernels": kernels})

    def __str__(self) -> str:
        return f"{self.name} ({self.platform})"


def of_check(cell: Cell, ended: Ended, presence: Presence) -> CellVerdict | None:
    """What a check's end means; None if only the devices of the environment can tell."""
    if ended.code is None or ended.code < 0:
        return CellVerdict("setup_error", f"the check {ended.how}", ended.tail)
    if ended.code == _USAGE and _NO_COMMAND in ended.stderr:
        given = f"core {cell.core} has no `netcl plugins check`"
        reason = f"{given}, and no wheel among the plugins brings it for that core"
        return CellVerdict("unsupported", reason, ended.tail)
    if ended.code == _ENVIRONMENT:
        return None
    try:
        record = from_json(json.loads(ended.stdout))
    except (RecordError, ValueError) as error:
        return CellVerdict(
            "setup_error", f"the check {ended.how} without a record: {error}", ended.tail
        )
    stranger = _stranger(cell, record, presence)
    if stranger:
        return CellVerdict("setup_error", stranger, ended.tail, record)
    return _of_outcomes(cell, ended, record)


def _of_outcomes(cell: Cell, ended: Ended, record: CheckRecord) -> CellVerdict:
    failed = [outcome for outcome in record.outcomes if outcome.state == "failed"]
    if failed:
        slow = all(outcome.reason.startswith(_TIME_OUTS) for outcome in failed)
        return CellVerdict("setup_error" if slow else "fail", said(failed[0]), check=record)
    if ended.code != 0 or record.state != "pass":
        text = f"the check {ended.how} and says {record.state!r}, but none of its checks failed"
        return CellVerdict("setup_error", text, ended.tail, record)
    passed = [outcome for outcome in record.outcomes if outcome.state == "passed"]
    if cell.level == "static":
        passed_here, where = passed, ""
    else:
        passed_here, where = [outcome for outcome in passed if outcome.device], " on its device"
    if passed_here:
        return CellVerdict("pass", check=record)
    skipped = next((said(one) for one in record.outcomes if one.state == "skipped"), "")
    reason = f"nothing was checked{where}: {len(record.outcomes)} outcomes, {len(passed)} passed"
    return CellVerdict("unsupported", f"{reason}; {skipped}" if skipped else reason, check=record)


def _stranger(cell: Cell, record: CheckRecord, presence: Presence) -> str:
    """Why a record is not of this cell; empty if it is."""
    wanted = (canonicalize_name(cell.plugin), cell.version, cell.core)
    given = (canonicalize_name(record.plugin), record.version, record.core)
    if given != wanted:
        return f"the record is of {' '.join(given)}, not of {' '.join(wanted)}"
    platform = presence.device.get("platform", "")
    for device in record.devices if cell.level != "static" and not presence.runtime.tool else ():
        if device.platform != platform:
            return f"the check ran on {device.name} of {device.platform}, not on {platform}"
    return ""


def of_devices(ended: Ended, report: Mapping[str, Any], presence: Presence) -> CellVerdict:
    """What a check means that ended with 3, given the devices that its environment sees."""
    names = ("platform", "name")
    refused = [
        device
        for device in report.get("rejected", ())
        if all(device[name] == presence.device.get(name) for name in names)
    ]
    if refused:
        name, reason = refused[0]["name"], refused[0]["reason"]
        return CellVerdict("fail", f"the device {name} cannot be used: {reason}", ended.tail)
    return CellVerdict("setup_error", f"the check {ended.how}", ended.tail)


def said(outcome: Outcome) -> str:
    """An outcome in one line, such as `swiglu gradient float32: 0.3 instead of 0.5`."""
    words = (outcome.op, outcome.check, outcome.dtype)
    text = " ".join(word for word in words if word)
    reason = outcome.reason.strip().partition("\n")[0]
    return f"{text}: {reason}" if reason else text
