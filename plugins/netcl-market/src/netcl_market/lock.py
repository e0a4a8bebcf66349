"""The lock file `netcl.lock`: what it says, and reading it; `netcl plugins lock` writes it.

A lock holds what was installed (versions, digests of all installed files), which candidate
served each op and each other name on each device, and the digests of the rendered sources. It
is JSON with one fact per line, so that a change is readable in a diff and reading costs little.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from netcl_core import config
from netcl_core.errors import PluginError, message
from netcl_core.plugins.protocol import LOCK_FILE, canonical, lock_file, lock_is_strict
from netcl_market import records
from netcl_market.failures import plugin_error

SCHEMA: Final = 2
#: The key of a name's choice between providers, beside those of implementations by dtype.
ANY_DTYPE: Final = "*"
#: The key of a choice between implementations that is the same in every dtype.
EVERY_DTYPE: Final = "every dtype"


@final
@dataclass(frozen=True, slots=True)
class _Head:
    schema: int


@final
@dataclass(frozen=True, slots=True)
class Pin:
    """What was installed of one distribution.

    Attributes:
        files: The digest of all its files.
        editable: It is installed as a link to its sources.
        data: It brings manifests and templates, of which nothing is imported.
    """

    version: str
    files: str = ""
    editable: bool = False
    data: bool = False


@final
@dataclass(frozen=True, slots=True)
class DevicePart:
    """What was chosen and rendered on one device.

    Attributes:
        choices: op, or `<kind> <name>` of what is none -> dtype, or `*` for the provider ->
            candidates, the first choice first: `<distribution>` or
            `<distribution>:<implementation>`.
        sources: op -> `<dtype> <direction>` -> the sha256 of its source.
    """

    choices: Mapping[str, Mapping[str, tuple[str, ...]]]
    sources: Mapping[str, Mapping[str, str]]


@final
@dataclass(frozen=True, slots=True)
class Lock:
    """The content of a lock file."""

    core: Pin
    plugins: Mapping[str, Pin]
    devices: Mapping[str, DevicePart]

    def knows(self, op: str) -> bool:
        """Whether it holds a choice between providers of an op."""
        return any(ANY_DTYPE in part.choices.get(op, ()) for part in self.devices.values())

    def order(self, op: str, device: Any, dtype: str = "") -> tuple[str, ...]:
        """The candidates for an op in the order of the lock; empty if it does not say.

        `device` None: what all devices of the lock agree on. `dtype` empty: the providers.
        """
        parts = self.devices
        if device is not None:
            part = parts.get(device_key(device))
            parts = {} if part is None else {"": part}
        rows = [part.choices.get(op, {}) for part in parts.values()]
        said = {row.get(dtype or ANY_DTYPE, ()) for row in rows}
        said |= {row.get(EVERY_DTYPE, ()) for row in rows if dtype}
        said.discard(())
        return said.pop() if len(said) == 1 else ()

    def providers(self) -> dict[str, list[str]]:
        """The distributions that it has chosen, each with the names that it serves."""
        found: dict[str, list[str]] = {}
        for part in self.devices.values():
            for name, rows in part.choices.items():
                for each in rows.get(ANY_DTYPE, ())[:1]:
                    found.setdefault(canonical(each), []).append(name)
        return found


def device_key(device: Any) -> str:
    """The name of a device in a lock: its platform and its name, which no order changes."""
    return "NumPy" if not device.has_kernels else f"{device.platform} | {device.name}"


def strictly_listed() -> frozenset[str] | None:
    """The distributions that alone may be loaded: those of the lock, where it is strict.

    None where nothing restricts them; a file that is no lock is an error later, at the load.
    """
    path = lock_file() if config.get("plugins-autoload") and lock_is_strict() else None
    try:
        return (
            None if path is None else frozenset(map(canonical, read(path, sources=False).plugins))
        )
    except PluginError:
        return None


# -- finding and reading -----------------------------------------------------------------


def read(path: Path, *, sources: bool = True) -> Lock:
    """The lock in a file; a load does without the `sources`, most of it.

    Raises PluginError: NP501 if it cannot be read or is no lock, NP502 for a newer schema.
    """
    try:
        return parse(path.read_bytes(), sources=sources)
    except OSError as error:
        raise _unreadable(f"{path}: {error.strerror or type(error).__name__}") from error


def parse(data: bytes, *, sources: bool = True) -> Lock:
    """The lock in the bytes of a file; see `read`."""
    try:
        table = json.loads(data)
    except (ValueError, RecursionError) as error:  # JSON and UTF-8 errors are ValueErrors
        raise _unreadable(f"it is no JSON ({error})") from error
    try:
        schema = records.read(_Head, table).schema
        if schema != SCHEMA:
            remedy = "Upgrade netcl-core" if schema > SCHEMA else "Delete it and write it again"
            text = message(LOCK_FILE, f"schema {schema}", f"schema {SCHEMA}", remedy)
            raise plugin_error("NP502", text)
        if not sources:
            devices = records.read(Mapping[str, Mapping[str, Any]], table.get("devices"), "devices")
            table["devices"] = {name: {**part, "sources": {}} for name, part in devices.items()}
        lock: Lock = records.read(Lock, table)
    except ValueError as error:
        raise _unreadable(str(error)) from error
    return lock


def _unreadable(what: str) -> PluginError:
    """The error for a file that is no lock."""
    expected = "what `netcl plugins lock` wrote"
    return plugin_error("NP501", message(LOCK_FILE, what, expected, "Delete it and write it again"))
