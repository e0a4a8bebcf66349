"""Shows devices and the doctor's report as tables or JSON."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from netcl_core.cli import doctor
from netcl_core.device import device_table
from netcl_core.errors import PluginWarning
from netcl_core.plugins import manager as plugins
from netcl_core.plugins.market import trial

_GAP = 2  # columns between two cells
_SHORTEST = 8  # what a shortened cell keeps at least
_PIPE_WIDTH = 4000  # wide enough that a pipe gets one line per row, whatever is in it


def show_devices(as_json: bool) -> None:
    """Print every usable device, the default one marked, and the rejected ones."""
    found = doctor.device_reports()
    refused = [doctor.RejectedReport(*one) for one in device_table.rejected()]
    problem = device_table.opencl_problem()
    default = device_table.default_device().id
    if as_json:
        _print_json(
            {
                "default": default,
                "default_rule": device_table.default_rule(),
                "devices": [vars(one) for one in found],
                "rejected": [vars(one) for one in refused],
                "opencl_problem": problem,
            }
        )
        return
    console = _console()
    _print_devices(console, found, default)
    console.print(f"\n* the default: {device_table.default_rule()}")
    _print_rejected(console, refused)
    if problem:
        console.print(f"\nNo OpenCL: {problem}")


def show_doctor(as_json: bool) -> int:
    """Print the doctor's report; returns the exit code: 0 ok, 1 findings, 3 no OpenCL device."""
    report = doctor.collect(checks=_plugin_checks())
    if as_json:
        _print_json(doctor.as_data(report))
    else:
        _print_report(_console(), report)
    if not report.opencl_usable:
        return 3
    return 1 if report.findings else 0


def _plugin_checks() -> list[doctor.Check]:
    """What the plugins report; the reasons of broken ones are shown there, not as warnings too."""
    trial.probe()  # what does not survive being loaded must not be loaded here
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        return [doctor.Check(*one) for one in plugins.doctor_checks()]


def _print_report(console: Console, report: doctor.Report) -> None:
    _print_facts(console, report)
    rows = [(r.name, r.source, _yes(r.accepted), r.library, r.reason) for r in report.runtimes]
    _print_table(console, "runtimes", ("name", "source", "use", "library", "why"), rows)
    console.print()
    _print_devices(console, report.devices, report.default)
    _print_rejected(console, report.rejected)
    checks = [(one.name, _yes(one.ok), one.detail) for one in report.checks]
    _print_table(console, "checks", ("name", "ok", "detail"), checks)
    if report.findings:
        console.print("\nfindings")
        for finding in report.findings:
            console.print(f"- {finding}")
    elif report.opencl_usable:
        console.print("\nNothing to complain about.")


def _print_facts(console: Console, report: doctor.Report) -> None:
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
        **report.variables,
    }
    _print_table(console, "", ("", ""), [item for item in facts.items() if item[1]])


def _print_devices(
    console: Console, found: Sequence[doctor.DeviceReport], default: str | None
) -> None:
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
    _print_table(console, "", header, rows, cut=("name", "platform"))


def _print_rejected(console: Console, refused: Iterable[doctor.RejectedReport]) -> None:
    rows = [(one.name, one.platform, one.reason) for one in refused]
    _print_table(console, "rejected devices", ("name", "platform", "why"), rows)


def _print_table(
    console: Console,
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    cut: Sequence[str] = (),
) -> None:
    """A table without lines; on a narrow terminal those in `cut` are shortened, else cells fold."""
    if not rows:
        return
    if title:
        console.print(f"\n{title}")
    table = Table(box=None, pad_edge=False, show_header=any(header), header_style="bold")
    widths = {name: max(len(row[n]) for row in (header, *rows)) for n, name in enumerate(header)}
    fixed = sum(width + _GAP for name, width in widths.items() if name not in cut)
    share = max(_SHORTEST, (console.width - fixed) // len(cut) - _GAP) if cut else 0
    for name in header:
        if name in cut:
            table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=share)
        else:
            table.add_column(name, no_wrap=bool(cut), overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _console() -> Console:
    """The terminal's width on a terminal; in a pipe as wide as the rows, never wrapped."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(width=width, markup=False, highlight=False)


def _print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))
