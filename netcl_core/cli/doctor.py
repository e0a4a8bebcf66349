"""Collects what a person needs to know when OpenCL does not behave, as plain data.

`collect` runs every probe and returns a Report; `as_data` turns it into lists
and dicts for JSON. Showing it is the command line's task.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from netcl_core.config import cache_root
from netcl_core.errors import NetclError, SlowWarning
from netcl_core.hardware import device_table, icd, runtimes, trial
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import Rejected
from netcl_core.ops import tuning_records

_MAPPED = Path("/proc/self/maps")
_FACTS = (
    "id", "backend", "kind", "name", "platform", "vendor", "driver_version", "simulator",
    "supports_fp16", "supports_fp64", "compute_units", "max_work_group_size", "local_mem_bytes",
    "vector_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class Check:
    """The result of one extra check, such as a plugin's."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class RuntimeReport:
    """One OpenCL runtime; `loaded` is None where that cannot be told."""

    name: str
    source: str
    library: str
    icd: str | None
    accepted: bool
    loaded: bool | None
    reason: str


@dataclass(frozen=True)
class CacheReport:
    """The cache folder and what lies in it, in bytes."""

    folder: str
    exists: bool
    files: int
    size_bytes: int


@dataclass(frozen=True)
class TuningReport:
    """The user's records of tuning: how many, for which devices, and why files were ignored."""

    folder: str
    records: int
    devices: list[str]
    ignored: list[str]


@dataclass(frozen=True)
class Report:
    """Everything `netcl doctor` shows; `findings` are the things to look at."""

    python: str
    system: str
    netcl: str
    pyopencl: str
    opencl_problem: str
    vendors_status: str
    vendors_folder: str | None
    vendors_reason: str
    runtimes: list[RuntimeReport]
    devices: list[Device]
    rejected: list[Rejected]
    default: str | None
    default_rule: str
    cache: CacheReport
    tuning: TuningReport
    variables: dict[str, str]
    checks: list[Check] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def opencl_usable(self) -> bool:
        """Whether there is an OpenCL device that passed its probe."""
        return any(device.has_kernels for device in self.devices)


def _version_of(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def collect(checks: Iterable[Check] = ()) -> Report:
    """Probe everything and report it; broken drivers and settings become findings.

    `checks` are results to add, such as those of plugins. Takes seconds.
    """
    usable = device_table.all_devices()
    refused = device_table.rejected()
    found = [_runtime(one) for one in icd.install().found or runtimes.discover()]
    default, rule = _default()
    shown = list(checks)
    installation = icd.install()
    tuning = _tuning()
    return Report(
        python=f"{platform.python_version()} ({sys.executable})",
        system=f"{platform.system()} {platform.machine()}",
        netcl=_version_of("netcl-core"),
        pyopencl=_version_of("pyopencl"),
        opencl_problem=device_table.opencl_problem(),
        vendors_status=installation.status,
        vendors_folder=str(installation.vendors) if installation.vendors else None,
        vendors_reason=installation.reason,
        runtimes=found,
        devices=usable,
        rejected=refused,
        default=default,
        default_rule=rule,
        cache=_cache(cache_root()),
        tuning=tuning,
        variables={k: v for k, v in sorted(os.environ.items()) if k.startswith("NETCL_")},
        checks=shown,
        findings=_findings(found, refused, default, rule, shown, tuning),
    )


def as_data(report: Report) -> dict[str, Any]:
    """The report as dicts, lists, texts and numbers, ready for JSON."""
    return {**asdict(report), "devices": [device_data(device) for device in report.devices]}


def device_data(device: Device) -> dict[str, Any]:
    """What there is to say of a device, probed; memory in bytes."""
    return {
        **{name: getattr(device, name) for name in _FACTS},
        "probe": device.probe.reason,
        "opencl_c": "" if device.cl_device is None else "{}.{}".format(*device.opencl_c),
        "extensions": list(device.extensions),
    }


def _runtime(one: runtimes.Runtime) -> RuntimeReport:
    loaded = _loaded(one.library) if one.accepted else None
    reason = one.reason
    if loaded is False:
        reason += f"; not loaded: {_why_not_loaded(one.library)}"
    path = str(one.icd) if one.icd else None
    return RuntimeReport(one.name, one.source, one.library, path, one.accepted, loaded, reason)


def _loaded(library: str) -> bool | None:
    """Whether this process has the library mapped; None where nobody can tell."""
    path = Path(library) if "/" in library else runtimes.locate(library)
    try:
        mapped = _MAPPED.read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux, or /proc is hidden
        return None
    return str(path.resolve()) in mapped if path else library in mapped


def _why_not_loaded(library: str) -> str:
    if problem := runtimes.load_error(library):
        return problem
    if _chosen_by_user():
        return f"{icd.install().reason}, which leaves it out"
    return "the loader did not take it, or had started before netcl could list it"


def _chosen_by_user() -> bool:
    """Whether the user decided what the loader sees, so that a missing runtime is no fault."""
    return icd.install().status in {"user", "off"}


def _default() -> tuple[str | None, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlowWarning)  # the report says it at length
            return device_table.default_device().id, device_table.default_rule()
    except NetclError as error:
        return None, str(error)


def _cache(folder: Path) -> CacheReport:
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return CacheReport(str(folder), folder.is_dir(), len(files), sum(map(_size, files)))


def _tuning() -> TuningReport:
    records, ignored = tuning_records.all_own()
    devices = sorted({each.place.device for each in records})
    return TuningReport(str(tuning_records.folder()), len(records), devices, ignored)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # another process has just removed it
        return 0


def _findings(
    runtimes: list[RuntimeReport],
    refused: list[Rejected],
    default: str | None,
    rule: str,
    checks: list[Check],
    tuning: TuningReport,
) -> list[str]:
    """What to look at. A rejected .icd is one only if the user chose its folder.

    A good install can bring one along.
    """
    found = [
        f"runtime {one.name}: {one.reason}"
        for one in runtimes
        if one.loaded is False and not _chosen_by_user()
    ]
    usable = {one.library for one in runtimes if one.accepted}
    found += [
        f"runtime {one.name} in {one.icd}: {one.reason}"
        for one in runtimes
        if not one.accepted
        and (
            one.reason.startswith(trial.ENDED)
            or (one.source == "user" and one.icd and one.library not in usable)
        )
    ]
    found += [f"device {one.name} of {one.platform}: {one.reason}" for one in refused]
    found += [f"check {one.name}: {one.detail}" for one in checks if not one.ok]
    found += [f"record of tuning ignored: {reason}" for reason in tuning.ignored]
    return found if default else [*found, rule]
