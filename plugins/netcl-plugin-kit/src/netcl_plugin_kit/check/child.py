"""What runs in the child process of a check: everything that touches the plugin.

Each thing that is found or begun is written into a file at once, one JSON list per line, so
that the parent knows all of it however the child ends.
"""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TextIO, final

from netcl_core import Device, get_device
from netcl_core.errors import NetclError
from netcl_core.plugins.protocol import Plugin, load_installed, registry
from netcl_plugin_kit.check import declared, full, static
from netcl_plugin_kit.check.findings import STATIC
from netcl_plugin_kit.check.registration import unpromise
from netcl_plugin_kit.check.subject import find
from netcl_plugin_kit.check.unchanged import unchanged
from netcl_plugin_kit.testing.collection import Table, table_of
from netcl_plugin_kit.testing.devices import usable_devices
from netcl_plugin_kit.testing.records import DeviceFacts, Outcome
from netcl_plugin_kit.testing.renderings import kernel_sources
from netcl_plugin_kit.testing.running import run_level
from netcl_plugin_kit.testing.vocabulary import CHECKS

#: The kinds of lines: what is loaded, what is checked, what was found, what ended it.
LOADING: Final = "loading"
CHECKING: Final = "checking"
FOUND: Final = "found"
ERROR: Final = "error"
DONE: Final = "done"
#: What the kit checks and the static level has not checked already.
LEFT: Final = tuple(name for name in CHECKS if name not in static.LOADED)


@final
class Reporter:
    """Writes lines for the parent."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def tell(self, kind: str, *data: Any) -> None:
        """Write one line."""
        print(json.dumps([kind, *data]), file=self._file, flush=True)

    def progress(self, what: str, done: int, total: int) -> None:
        """Tell what is checked next."""
        self.tell(CHECKING, what, done, total)

    def found(self, **parts: Iterable[Any]) -> None:
        """Tell parts of the record: outcomes, kernels, notes, ..."""
        for name, rows in parts.items():
            for row in rows:
                self.tell(FOUND, name, row if isinstance(row, str) else asdict(row))


def main(given: Mapping[str, Any]) -> None:
    """Check one distribution; `given` is what `apart.CheckJob` writes."""
    with Path(given["lines"]).open("a", encoding="utf-8") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reporter = Reporter(file)
        try:
            _check(given, reporter)
        except NetclError as error:
            reporter.tell(ERROR, type(error).__name__, str(error))
        except Exception:  # a fault of the check itself: the parent shows where
            reporter.tell(ERROR, "", traceback.format_exc())
        else:
            reporter.tell(DONE)


def _check(given: Mapping[str, Any], reporter: Reporter) -> None:
    only: Sequence[str] = given["only"]
    subject = find(given["name"], given["packed"], given["project"])
    reporter.progress("files and metadata", 0, 1)
    reporter.found(notes=[*declared.notes(subject), *unchanged(subject)])
    for outcome in static.read_level(subject, only):
        reporter.found(outcomes=[outcome])
    # Its own memory of failures: the check tries what others leave alone, and changes nothing.
    memory = Path(given["lines"]).with_name("states.json")
    load = partial(_load, partial(_begin, reporter), memory, given["name"])
    registry.demand.ask_again(load)
    loaded = static.load_level(subject)
    registry.add_packages({__name__.partition(".")[0]})  # the kit is no user's code here either
    failed = any(plugin.state == "failed" for plugin in loaded)
    if failed or not only or "load" in only:
        reporter.found(outcomes=loaded)
    if failed or not loaded:
        reason = "the plugin does not load" if failed else "it has no plugin"
        left_out = [name for name in static.LOADED if not only or name in only]
        reporter.found(outcomes=[Outcome(name, "skipped", reason=reason) for name in left_out])
        return
    reporter.progress("the conformance cases", 0, 1)
    table = table_of(subject.name)
    for outcome in static.static_level(subject, table.cases, only, reporter.progress):
        reporter.found(outcomes=[outcome])
    reporter.found(parts=[name for name in STATIC if not only or name in only])
    if given["level"] != "static":
        _run(given, table, reporter)


def _load(
    begin: Callable[[Plugin], None],
    memory: Path,
    name: str,
    kinds: tuple[str, ...] | None,
    wanted: str,
) -> None:
    """Load what is checked with what it requires, and say of the others why they are missing.

    All of it, whatever is wanted first.
    """
    if kinds != ():
        return
    load_installed(begin, memory)
    for package, state in registry.inactive.items():
        if state.startswith("disabled"):  # by the settings of this child, which nobody has seen
            registry.inactive[package] = f"left out, since {name} does not declare it"


def _run(given: Mapping[str, Any], table: Table, reporter: Reporter) -> None:
    """The levels that need devices; what the static level has checked is not checked again."""
    checks, further = (
        [name for name in names if not given["only"] or name in given["only"]]
        for names in (LEFT, full.NAMES if given["level"] == "full" else ())
    )
    if not checks and not further and not given["against"]:
        return
    reporter.progress("the devices", 0, 1)
    devices = [get_device(spec) for spec in given["devices"]] or usable_devices()
    reporter.found(devices=[_facts_of(device) for device in devices])
    if checks:
        run_level(
            table,
            devices,
            reporter.progress,
            only=checks,
            found=lambda outcomes: reporter.found(steps=outcomes),  # the parent merges them
        )
        reporter.found(parts=checks)
    if not given["only"]:
        reporter.progress("kernel sources", 0, 1)
        reporter.found(kernels=kernel_sources(table, devices))
    if given["against"]:
        samples = import_module("netcl_plugin_kit.check.torch_samples")  # imports PyTorch
        for outcome in samples.compared(table, devices, reporter.progress):
            reporter.found(outcomes=[outcome])
        reporter.found(parts=["torch"])
    for name in further:
        if name in full.TIMED and not given["timed"]:
            reporter.found(left=[name])
            continue
        report = full.full_level(table, devices, reporter.progress, [name])
        reporter.found(outcomes=report.outcomes, mutants=report.mutants, roofline=report.roofline)
        reporter.found(parts=[name] if report.whole else [])


def _begin(reporter: Reporter, plugin: Plugin) -> None:
    reporter.tell(LOADING, plugin.name, plugin.distribution)
    unpromise(plugin)


def _facts_of(device: Device) -> DeviceFacts:
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
