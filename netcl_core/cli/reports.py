"""Shows devices and the doctor's report as tables or JSON."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from netcl_core.cli import doctor
from netcl_core.cli.tables import print_json, print_table
from netcl_core.errors import PluginWarning
from netcl_core.hardware import device_table
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import Rejected
from netcl_core.plugins import manager as plugins
from netcl_core.plugins.finder import finder


def show_devices(as_json: bool) -> None:
    """Print every usable device, the default one marked, and the rejected ones."""
    found = device_table.all_devices()
    refused = device_table.rejected()
    problem = device_table.opencl_problem()
    default = device_table.default_device().id
    if as_json:
        print_json(
            {
                "default": default,
                "default_rule": device_table.default_rule(),
                "devices": [doctor.device_data(one) for one in found],
                "rejected": [asdict(one) for one in refused],
                "opencl_problem": problem,
            }
        )
        return
    _print_devices(found, default)
    print(f"\n* the default: {device_table.default_rule()}")
    _print_rejected(refused)
    if problem:
        print(f"\nNo OpenCL: {problem}")


def show_doctor(as_json: bool) -> int:
    """Print the doctor's report; returns the exit code: 0 ok, 1 findings, 3 no OpenCL device."""
    report = doctor.collect(checks=_plugin_checks())
    if as_json:
        print_json(doctor.as_data(report))
    else:
        _print_report(report)
    if not report.opencl_usable:
        return 3
    return 1 if report.findings else 0


def _plugin_checks() -> list[doctor.Check]:
    """What the plugins report; the reasons of broken ones are shown there, not as warnings too."""
    finder().probe()  # what does not survive being loaded must not be loaded here
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        return [doctor.Check(*one) for one in plugins.doctor_checks()]


def _print_report(report: doctor.Report) -> None:
    _print_facts(report)
    rows = [(r.name, r.source, _yes(r.accepted), r.library, r.reason) for r in report.runtimes]
    _print_table("runtimes", ("name", "source", "use", "library", "why"), rows)
    print()
    _print_devices(report.devices, report.default)
    _print_rejected(report.rejected)
    checks = [(one.name, _yes(one.ok), one.detail) for one in report.checks]
    _print_table("checks", ("name", "ok", "detail"), checks)
    _print_table("findings", ("",), [(f"- {finding}",) for finding in report.findings])
    if report.opencl_usable and not report.findings:
        print("\nNo problems found.")


def _print_facts(report: doctor.Report) -> None:
    cache = report.cache
    size = f"{cache.files} files, {cache.size_bytes / 2**20:.1f} MiB"
    facts = {
        "python": report.python,
        "system": report.system,
        "netcl": report.netcl,
        "pyopencl": report.pyopencl,
        "no OpenCL": report.opencl_problem,
        "runtimes by": f"{report.vendors_status}: {report.vendors_reason}",
        "vendors": report.vendors_folder or "",
        "default": f"{report.default or 'none'}: {report.default_rule}",
        "cache": f"{cache.folder} ({size if cache.exists else 'not there yet'})",
        "tuning": _records(report.tuning),
        **report.variables,
    }
    print_table(("", ""), [item for item in facts.items() if item[1]], ("",))


def _records(tuning: doctor.TuningReport) -> str:
    """How many records of tuning there are, and where; empty where there are none."""
    if not tuning.records:
        return ""
    return f"{tuning.records} records for {', '.join(tuning.devices)} in {tuning.folder}"


def _print_devices(found: Sequence[Device], default: str | None) -> None:
    header = ("", "device", "kind", "fp16", "fp64", "units", "name", "platform")
    rows = [
        (
            "*" if one.id == default else "",
            one.id,
            "simulator" if one.simulator else one.kind,
            _yes(one.supports_fp16),
            _yes(one.supports_fp64),
            str(one.compute_units),
            one.name,
            one.platform,
        )
        for one in found
    ]
    print_table(header, rows, header)


def _print_rejected(refused: Iterable[Rejected]) -> None:
    rows = [(one.name, one.platform, one.reason) for one in refused]
    _print_table("rejected devices", ("name", "platform", "why"), rows)


def _print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table below its title, if it has rows; any column folds on a narrow terminal."""
    if rows:
        print(f"\n{title}")
        print_table(header, rows, header)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
