"""What `netcl plugins lock` does: gathers the facts, then writes them or compares them.

Exit codes: 0 written, or it fits; 1 it differs; 3 there is no lock file that can be read, or
what is there is none and would be overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from netcl_market import lock as locks
from netcl_market import lock_check
from netcl_market.installed import Installed, by_name, core
from netcl_market.lock import DevicePart, Lock, Pin
from netcl_market.lock_verification import digest_now
from netcl_market.owners import Owners, read_owners
from netcl_market.signing import SUFFIX, WHEEL, verify
from netcl_market.states import States
from netcl_market.survey import survey
from netcl_plugin_kit.bars import progress_bar
from netcl_plugin_kit.writing import write_text

import netcl_core as nc
from netcl_core.cli import print_json
from netcl_core.errors import RecordError
from netcl_plugin_tools.lock.devices import part_of
from netcl_plugin_tools.lock.text import text_of


def run(
    check: bool,
    out: str | None,
    devices: Sequence[str],
    as_json: bool,
    strict: bool | None = None,
    owners: Path | None = None,
    signatures: Path | None = None,
) -> int:
    """Write the lock file or, with `check`, compare it; returns the exit code.

    `strict`: what the file says of that; None: as before. `owners` and `signatures`: see
    `with_keys`.
    """
    path = lock_check.place(out)
    if check:
        return lock_check.check(path, devices, as_json)
    before, problem = lock_check.lock_in(path)
    if before is None and path.exists():
        problem = f"{problem} To replace it, delete {path} first."
        return lock_check.no_lock(path, problem, as_json)
    with nc.plugins.unlocked():
        now = gather([nc.get_device(device) for device in devices] or _devices())
    if strict is None:
        strict = before is not None and before.strict
    pins = with_keys(now.plugins, before.plugins if before else {}, owners, signatures)
    return _write(path, before, replace(now, strict=strict, plugins=pins), as_json)


def gather(devices: Sequence[nc.Device]) -> Lock:
    """What a lock of the present installation says, for some devices."""
    parts: dict[str, DevicePart] = {}
    with progress_bar() as told:
        for device in devices:
            parts[locks.device_key(device)] = part_of(device, told)
    return Lock(pin(core()), {name: pin(one) for name, one in plugins().items()}, parts)


def _devices() -> list[nc.Device]:
    return [device for device in nc.devices() if not device.simulator]


def _write(path: Path, before: Lock | None, now: Lock, as_json: bool) -> int:
    """Write the file, with what it said of devices that are not here if that still holds."""
    kept: dict[str, DevicePart] = {}
    others = (
        {}
        if before is None
        else {key: part for key, part in before.devices.items() if key not in now.devices}
    )
    if before is not None and (before.core, _unsigned(before)) == (now.core, _unsigned(now)):
        kept = others
    dropped = sorted(others.keys() - kept.keys())
    text = text_of(replace(now, devices={**kept, **now.devices}))
    changed = not path.is_file() or path.read_bytes() != text.encode()
    write_text("plugins lock", path, text)
    if as_json:
        data = {"lock": str(path), "changed": changed, "plugins": sorted(now.plugins)}
        print_json({**data, "devices": sorted({**kept, **now.devices}), "dropped": dropped})
        return 0
    print(f"{path}: {'written' if changed else 'unchanged'}, {len(now.plugins)} plugins, ", end="")
    print(f"{len(now.devices)} devices")
    for device in dropped:
        print(f"note: {device}: dropped, since what was locked there is no longer installed")
    return 0


def _unsigned(lock: Lock) -> dict[str, Pin]:
    return {name: replace(plugin, key="") for name, plugin in lock.plugins.items()}


# -- what is installed: versions, and digests of all files, each read now ------------------


def plugins() -> dict[str, Installed]:
    """Every installed distribution with a plugin, by its canonical name; imports none."""
    installed = survey(States(), unlocked=True)
    return by_name(plugin.source for plugin in installed if plugin.source is not None)


def pin(one: Installed) -> Pin:
    """What a lock says of a distribution."""
    data = one.source is not None and one.source.is_data
    return Pin(one.version, digest_now(one), one.editable, data)


def with_keys(
    pins: Mapping[str, Pin], before: Mapping[str, Pin], owners: Path | None, signatures: Path | None
) -> dict[str, Pin]:
    """The pins, each with the key by which the wheel of its files was signed.

    Without an owners file a key stays with the files that it was found for.
    """
    if owners is None:
        kept = {name: pin for name, pin in before.items() if pin.key}
        return {
            name: replace(pin, key=kept[name].key)
            if name in kept and kept[name].files == pin.files
            else pin
            for name, pin in pins.items()
        }
    known = _signed(read_owners(owners), signatures or owners.parent)
    return {name: replace(pin, key=known.get((name, pin.files), "")) for name, pin in pins.items()}


def _signed(owners: Owners, folder: Path) -> dict[tuple[str, str], str]:
    """(distribution, digest of its files) -> key, of all envelopes of wheels in a folder."""
    keys = {}
    for path in sorted(folder.rglob(f"*.whl{SUFFIX}")):
        data = path.read_bytes()
        for name in owners.owners:
            try:
                statement, key = verify(data, owners.keys_of(name))
            except RecordError:  # of another owner's, or nobody's
                continue
            said = statement.content
            if statement.kind == WHEEL and said.get("name") == name:
                keys[name, str(said.get("files"))] = key
    return keys
