"""Shows devices and the doctor's report as tables or JSON."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from netcl_core.cli import doctor
from netcl_core.cli.tables import print_json, print_table, waiting
from netcl_core.errors import PluginWarning
from netcl_core.hardware import device_table
from netcl_core.plugins import manager as plugins
from netcl_core.plugins.finder import finder


def show_devices(as_json: bool) -> None:
    """Print every usable device, the default one marked, and the rejected ones."""
    data: dict[str, Any] = {
        "default": device_table.default_device().id,
        "default_rule": device_table.default_rule(),
        "devices": [doctor.device_data(one) for one in device_table.all_devices()],
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
        report = doctor.collect(checks=checks)
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
