"""Lets the lock file choose for one name as the settings do now; all else in it stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from netcl_market import lock as locks
from netcl_market.lock import Lock
from netcl_plugin_kit.writing import write_text

import netcl_core as nc
from netcl_core.plugins.protocol import lock_file
from netcl_plugin_tools.lock.devices import choosing
from netcl_plugin_tools.lock.text import text_of


def renewer(who: str) -> Callable[[str], list[str]]:
    """What renews the lock that holds here, read now: a line for what it did, or none.

    Raises PluginError if there is one that cannot be read.
    """
    path = lock_file()
    if path is None or not path.is_file():
        return lambda name: []
    lock = locks.read(path)
    return lambda name: [_renew(who, path, lock, name)]


def _renew(who: str, path: Path, lock: Lock, name: str) -> str:
    here = {locks.device_key(device): device for device in nc.devices()}
    with nc.plugins.unlocked():
        parts = {
            key: choosing(name, here[key], part) if key in here else part
            for key, part in lock.devices.items()
        }
    text = text_of(replace(lock, devices=parts))
    if path.read_bytes() == text.encode():
        return f"{path}: unchanged"
    write_text(who, path, text)
    absent = sorted(lock.devices.keys() - here.keys())
    left = f"; as before for {', '.join(absent)}, which is not here" if absent else ""
    return f"{path}: chooses so too{left}. `netcl plugins lock --check` compares the rest"
