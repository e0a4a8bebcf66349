"""`netcl doctor`: what a person needs to know when OpenCL or a plugin does not behave."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import netcl_core as nc
from netcl_core.cli import device_data, print_devices, print_json, print_parts
from netcl_core.config import cache_root
from netcl_core.errors import NetclError, PluginWarning, SlowWarning
from netcl_core.inspect.runtimes import (
    Runtime,
    default_rule,
    discover,
    install,
    load_error,
    locate,
    opencl_problem,
    rejected,
)
from netcl_market.doctor_checks import doctor_checks
from netcl_market.driver_trial import ENDED
from netcl_market.probe import probe
from netcl_market.tables import print_table, waiting

_MAPPED: Final = Path("/proc/self/maps")


def collect(checks: Iterable[tuple[str, bool, str]] = ()) -> dict[str, Any]:
    """Probe everything and report it; broken drivers and settings become findings.

    `checks` are results to add, such as those of plugins: name, whether all is well, text. Takes
    seconds. Of a runtime, `loaded` is None where that cannot be told.
    """
    usable = nc.devices()
    installation = install()
    default, rule = _default()
    folder = cache_root()
    sizes = [_size(path) for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    report = {
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.machine()}",
        "netcl": _version_of("netcl-core"),
        "pyopencl": _version_of("pyopencl"),
        "opencl_usable": any(device.has_kernels for device in usable),
        "opencl_problem": opencl_problem(),
        "vendors_status": installation.status,
        "vendors_folder": str(installation.vendors) if installation.vendors else None,
        "vendors_reason": installation.reason,
        "runtimes": [_runtime(one) for one in installation.runtimes or discover()],
        "devices": [device_data(device) for device in usable],
        "rejected": [asdict(one) for one in rejected()],
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


def _runtime(one: Runtime) -> dict[str, Any]:
    loaded = _loaded(one.library) if one.accepted else None
    reason = one.reason
    if loaded is False:
        reason += f"; not loaded: {_why_not_loaded(one.library)}"
    path = str(one.icd) if one.icd else None
    return {**asdict(one), "icd": path, "loaded": loaded, "reason": reason}


def _loaded(library: str) -> bool | None:
    """Whether this process has the library mapped; None where nobody can tell."""
    path = Path(library) if "/" in library else locate(library)
    try:
        mapped = _MAPPED.read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux, or /proc is hidden
        return None
    return str(path.resolve()) in mapped if path else library in mapped


def _why_not_loaded(library: str) -> str:
    if problem := load_error(library):
        return problem
    if _chosen_by_user():
        return f"{install().reason}, which leaves it out"
    return "the loader did not take it, or had started before netcl could list it"


def _chosen_by_user() -> bool:
    """Whether the user decided what the loader sees, so that a missing runtime is no fault."""
    return install().status in {"user", "off"}


def _default() -> tuple[str | None, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlowWarning)  # the report says it at length
            return nc.default_device().id, default_rule()
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
        if not one["accepted"] and (one["reason"].startswith(ENDED) or missed):
            yield f"runtime {one['name']} in {one['icd']}: {one['reason']}"
    for one in report["rejected"]:
        yield f"device {one['name']} of {one['platform']}: {one['reason']}"
    for one in report["checks"]:
        if not one["ok"]:
            yield f"check {one['name']}: {one['detail']}"
    if not report["default"]:
        yield report["default_rule"]


def show_doctor(as_json: bool) -> int:
    """Print the doctor's report; returns the exit code: 0 ok, 1 findings, 3 no OpenCL device."""
    with waiting("trying runtimes, devices and plugins ..."):
        probe()  # what does not survive being loaded must not be loaded here
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)  # the report has their reasons
            checks = doctor_checks()
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
    print_parts("runtimes", ("name", "source", "accepted", "library", "reason"), report["runtimes"])
    print()
    print_devices(report["devices"], report["default"])
    print_parts("rejected devices", ("name", "platform", "reason"), report["rejected"])
    print_parts("checks", ("name", "ok", "detail"), report["checks"])
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
