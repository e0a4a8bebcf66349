"""What `netcl plugins lock` does: gathers the facts, then writes them or compares them.

Exit codes: 0 written, or it fits; 1 it differs; 3 there is no lock file that can be read, or
what is there is none and would be overwritten.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from netcl_market import lock as locks
from netcl_market.installed import core
from netcl_market.lock import DevicePart, Lock
from netcl_plugin_kit.writing import write_text
from rich.console import Console
from rich.progress import Progress as Bar

import netcl_core as nc
from netcl_core.errors import PluginError
from netcl_core.plugins.protocol import LOCK_FILE, lock_file, nearest_lock_file
from netcl_plugin_tools.lock import comparing
from netcl_plugin_tools.lock.devices import part_of
from netcl_plugin_tools.lock.pins import pin, plugins
from netcl_plugin_tools.lock.text import text_of


def run(check: bool, out: str | None, devices: Sequence[str], as_json: bool) -> int:
    """Write the lock file or, with `check`, compare it; returns the exit code."""
    path = _place(out)
    before, problem = _read(path)
    if before is None and (check or path.exists()):
        remedy = "" if check else f" To replace it, delete {path} first."
        return _no_lock(path, problem + remedy, as_json)
    with nc.plugins.unlocked():
        now = gather([nc.get_device(each) for each in devices] or _devices())
    if check:
        assert before is not None  # else it returned above
        return _check(path, before, now, as_json)
    return _write(path, before, now, as_json)


def gather(devices: Sequence[nc.Device]) -> Lock:
    """What a lock of the present installation says, for some devices."""
    parts: dict[str, DevicePart] = {}
    with Bar(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=len(devices))
        for number, device in enumerate(devices):

            def progress(what: str, done: int, total: int, number: int = number) -> None:
                part = done / total if total else 1
                bar.update(task, description=what, completed=number + part)

            parts[locks.device_key(device)] = part_of(device, progress)
    return Lock(pin(core()), {name: pin(one) for name, one in plugins().items()}, parts)


def _devices() -> list[nc.Device]:
    return [device for device in nc.devices() if not device.simulator]


def _place(out: str | None) -> Path:
    """The file to write or check: what is asked for, what holds here, or a new one."""
    if out is not None:
        return Path(out)
    return lock_file() or nearest_lock_file() or Path.cwd() / LOCK_FILE


def _read(path: Path) -> tuple[Lock | None, str]:
    """The lock that is there, or why there is none."""
    if not path.exists():
        return None, f"there is no {path}. `netcl plugins lock` writes it."
    try:
        return locks.read(path), ""
    except PluginError as error:
        return None, f"{path}: {error.code}: {error}"


def _no_lock(path: Path, problem: str, as_json: bool) -> int:
    if as_json:
        _print_json({"lock": str(path), "fits": False, "problem": problem})
    print(f"netcl: {problem}", file=sys.stderr)
    return 3


def _check(path: Path, locked: Lock, now: Lock, as_json: bool) -> int:
    found, notes = comparing.differences(locked, now), comparing.notes(locked, now)
    if as_json:
        rows = [{**asdict(each), "remedy": each.remedy} for each in found]
        data = {"lock": str(path), "fits": not found, "differences": rows, "notes": notes}
        _print_json(data)
    else:
        for each in found:
            print(each)
        for note in notes:
            print(f"note: {note}")
        print(f"{path}: {len(found)} differences" if found else f"{path} fits")
    return 1 if found else 0


def _write(path: Path, before: Lock | None, now: Lock, as_json: bool) -> int:
    """Write the file, with what it said of devices that are not here if that still holds."""
    kept: dict[str, DevicePart] = {}
    others = (
        {}
        if before is None
        else {key: part for key, part in before.devices.items() if key not in now.devices}
    )
    if before is not None and (before.core, before.plugins) == (now.core, now.plugins):
        kept = others
    dropped = sorted(others.keys() - kept.keys())
    text = text_of(Lock(now.core, now.plugins, {**kept, **now.devices}))
    changed = not path.is_file() or path.read_bytes() != text.encode()
    write_text("plugins lock", path, text)
    if as_json:
        data = {"lock": str(path), "changed": changed, "plugins": sorted(now.plugins)}
        _print_json({**data, "devices": sorted({**kept, **now.devices}), "dropped": dropped})
        return 0
    sources = len({op for part in now.devices.values() for op in part.sources})
    print(f"{path}: {'written' if changed else 'unchanged'}, {len(now.plugins)} plugins, ", end="")
    print(f"{len(now.devices)} devices with the sources of {sources} ops")
    for device in dropped:
        print(f"note: {device}: dropped, since what was locked there is no longer installed")
    return 0


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))
