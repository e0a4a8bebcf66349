"""Devices and what a person needs to know when OpenCL does not behave: tables, or data for JSON."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from netcl_core.cli.tables import print_json, print_table, waiting
from netcl_core.config import cache_root
from netcl_core.errors import NetclError, PluginWarning, SlowWarning
from netcl_core.hardware import device_table, icd, runtimes, trial
from netcl_core.hardware.device import Device
from netcl_core.plugins import manager as plugins
from netcl_core.plugins.finder import finder

_MAPPED: Final = Path("/proc/self/maps")
_FACTS: Final = (
    "id", "backend", "kind", "name", "platform", "vendor", "driver_version", "simulator",
    "supports_fp16", "supports_fp64", "compute_units", "max_work_group_size", "local_mem_bytes",
    "vector_bytes",
)  # fmt: skip


def collect(checks: Iterable[tuple[str, bool, str]] = ()) -> dict[str, Any]:
    """Probe everything and report it; broken drivers and settings become findings.

    `checks` are results to add, such as those of plugins: name, whether all is well, text. Takes
    seconds. Of a runtime, `loaded` is None where that cannot be told.
    """
    usable = device_table.all_devices()
    installation = icd.install()
    default, rule = _default()
    folder = cache_root()
    sizes = [_size(path) for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    report = {
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.machine()}",
        "netcl": _version_of("netcl-core"),
        "pyopencl": _version_of("pyopencl"),
        "opencl_usable": any(device.has_kernels for device in usable),
        "opencl_problem": device_table.opencl_problem(),
        "vendors_status": installation.status,
        "vendors_folder": str(installation.vendors) if installation.vendors else None,
        "vendors_reason": installation.reason,
        "runtimes": [_runtime(one) for one in installation.runtimes or runtimes.discover()],
        "devices": [device_data(device) for device in usable],
        "rejected": [asdict(one) for one in device_table.rejected()],
        "default": default,
        "default_rule": rule,
        "cache": {
            "folder": str(folder),
            "exists": folder.is_dir(),
            "files": len(sizes),
            "size_bytes": sum(sizes),
        },
        "variables": {k: v for k, v in sorted(os.environ.items()) if k.startswith("NETCL_")},
        "checks": [{"name": name, "ok": ok, "detail": text} for name, ok, text in checks],
    }
    return {**report, "findings": list(_findings(report))}


def _version_of(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def device_data(device: Device) -> dict[str, Any]:
    """What there is to say of a device, probed; memory in bytes."""
    return {
        **{name: getattr(device, name) for name in _FACTS},
        "probe": device.probe.reason,
        "opencl_c": "" if device.cl_device is None else "{}.{}".format(*device.opencl_c),
        "extensions": list(device.extensions),
    }


def _runtime(one: runtimes.Runtime) -> dict[str, Any]:
    loaded = _loaded(one.library) if one.accepted else None
    reason = one.reason
    if loaded is False:
        reason += f"; not loaded: {_why_not_loaded(one.library)}"
    path = str(one.icd) if one.icd else None
    return {**asdict(one), "icd": path, "loaded": loaded, "reason": reason}


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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # another process has just removed it
        return 0


def _findings(report: dict[str, Any]) -> Iterator[str]:
    """What to look at. A rejected .icd is one only if the user chose its folder.

    A good install can bring one along.
    """
    usable = {one["library"] for one in report["runtimes"] if one["accepted"]}
    for one in report["runtimes"]:
        if one["loaded"] is False and not _chosen_by_user():
            yield f"runtime {one['name']}: {one['reason']}"
    for one in report["runtimes"]:
        missed = one["source"] == "user" and one["icd"] and one["library"] not in usable
        if not one["accepted"] and (one["reason"].startswith(trial.ENDED) or missed):
            yield f"runtime {one['name']} in {one['icd']}: {one['reason']}"
    for one in report["rejected"]:
        yield f"device {one['name']} of {one['platform']}: {one['reason']}"
    for one in report["checks"]:
        if not one["ok"]:
            yield f"check {one['name']}: {one['detail']}"
    if not report["default"]:
        yield report["default_rule"]


# -- shown, as tables or JSON --------------------------------------------------------------


def show_devices(as_json: bool) -> None:
    """Print every usable device, the default one marked, and the rejected ones."""
    data: dict[str, Any] = {
        "default": device_table.default_device().id,
        "default_rule": device_table.default_rule(),
        "devices": [device_data(one) for one in device_table.all_devices()],
        "rejected": [asdict(one) for one in device_table.rejected()],
        "opencl_problem": device_table.opencl_problem(),
    }
    if as_json:
        print_json(data)
        return
    _print_devices(data["devices"], data["default"])
    print(f"\n* the default: {data['default_rule']}")
    _print_parts("rejected devices", ("name", "platform", "reason"), data["rejected"])
    if data["opencl_problem"]:
        print(f"\nNo OpenCL: {data['opencl_problem']}")


def show_doctor(as_json: bool) -> int:
    """Print the doctor's report; returns the exit code: 0 ok, 1 findings, 3 no OpenCL device."""
    with waiting("trying runtimes, devices and plugins ..."):
        finder().probe()  # what does not survive being loaded must not be loaded here
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)  # the report has their reasons
            checks = plugins.doctor_checks()
        report = collect(checks=checks)
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    if not report["opencl_usable"]:
        return 3
    return 1 if report["findings"] else 0


def _print_report(report: dict[str, Any]) -> None:
    _print_facts(report)
    _print_parts(
        "runtimes", ("name", "source", "accepted", "library", "reason"), report["runtimes"]
    )
    print()
    _print_devices(report["devices"], report["default"])
    _print_parts("rejected devices", ("name", "platform", "reason"), report["rejected"])
    _print_parts("checks", ("name", "ok", "detail"), report["checks"])
    if report["findings"]:
        print("\nfindings")
        print_table(("",), [(f"- {finding}",) for finding in report["findings"]], ("",))
    elif report["opencl_usable"]:
        print("\nNo problems found.")


def _print_facts(report: dict[str, Any]) -> None:
    cache = report["cache"]
    size = f"{cache['files']} files, {cache['size_bytes'] / 2**20:.1f} MiB"
    facts = {
        **{name: report[name] for name in ("python", "system", "netcl", "pyopencl")},
        "no OpenCL": report["opencl_problem"],
        "runtimes by": f"{report['vendors_status']}: {report['vendors_reason']}",
        "vendors": report["vendors_folder"] or "",
        "default": f"{report['default'] or 'none'}: {report['default_rule']}",
        "cache": f"{cache['folder']} ({size if cache['exists'] else 'not there yet'})",
        **report["variables"],
    }
    print_table(("", ""), [item for item in facts.items() if item[1]], ("",))


def _print_devices(devices: Iterable[dict[str, Any]], default: str | None) -> None:
    header = ("", "device", "kind", "fp16", "fp64", "units", "name", "platform")
    rows = [
        (
            "*" if one["id"] == default else "",
            one["id"],
            "simulator" if one["simulator"] else one["kind"],
            _text(one["supports_fp16"]),
            _text(one["supports_fp64"]),
            str(one["compute_units"]),
            one["name"],
            one["platform"],
        )
        for one in devices
    ]
    print_table(header, rows, header)


def _print_parts(title: str, header: Sequence[str], parts: Sequence[dict[str, Any]]) -> None:
    """A table of parts of the report below its title, if there are any; any column may fold."""
    if parts:
        print(f"\n{title}")
        print_table(header, [[_text(one[name]) for name in header] for one in parts], header)


def _text(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
