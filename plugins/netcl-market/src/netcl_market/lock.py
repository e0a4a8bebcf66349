"""The lock file `netcl.lock`: what it says, and reading it; `netcl plugins lock` writes it.

A lock holds what was installed (versions, digests of all installed files), which candidate
served each op and each other name on each device, and digests of rendered sources. It is JSON
with a line for each distribution, and for each on each device, so that it can be reviewed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, final

from netcl_core import config
from netcl_core.errors import PluginError, message
from netcl_core.plugins.protocol import (
    LOCK_FILE,
    canonical,
    lock_file,
    lock_is_strict,
)
from netcl_market.failures import plugin_error
from netcl_market.required_lock import read_lock

SCHEMA: Final = 3
#: The key of a name's choice between providers, beside those of implementations by dtype.
ANY_DTYPE: Final = "*"
#: The key of a choice between implementations that is the same in every dtype.
EVERY_DTYPE: Final = "every dtype"
_Value = TypeVar("_Value")


@final
@dataclass(frozen=True, slots=True)
class Pin:
    """What was installed of one distribution.

    Attributes:
        files: The digest of all its files.
        editable: It is installed as a link to its sources.
        data: It brings manifests and templates, of which nothing is imported.
        key: The public key by which the wheel of these files was signed; empty if nobody knows.
    """

    version: str
    files: str = ""
    editable: bool = False
    data: bool = False
    key: str = ""


@final
@dataclass(frozen=True, slots=True)
class DevicePart:
    """What was chosen and rendered on one device.

    Attributes:
        choices: op, or `<kind> <name>` of what is none -> dtype, or `*` for the provider ->
            candidates, the first choice first: `<distribution>` or
            `<distribution>:<implementation>`.
        sources: distribution -> the sha256 of what is rendered for the ops that it serves.
    """

    choices: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True)
class Lock:
    """The content of a lock file; `strict`: nothing may differ from it, whatever settings say."""

    core: Pin
    plugins: Mapping[str, Pin] = field(default_factory=dict)
    devices: Mapping[str, DevicePart] = field(default_factory=dict)
    strict: bool = False

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
        providers: dict[str, list[str]] = {}
        for part in self.devices.values():
            for name, rows in part.choices.items():
                for provider in rows.get(ANY_DTYPE, ())[:1]:
                    providers.setdefault(canonical(provider), []).append(name)
        return providers


def device_key(device: Any) -> str:
    """The name of a device in a lock: its platform and its name, which no order changes."""
    return "NumPy" if not device.has_kernels else f"{device.platform} | {device.name}"


def strictly_listed() -> frozenset[str] | None:
    """The distributions that alone may be loaded: those of the lock, where it is strict.

    None where nothing restricts them; a file that is no lock is an error later, at the load.
    """
    path = lock_file() if config.get("plugins-autoload") and lock_is_strict() else None
    try:
        pins = {} if path is None else read(path, sources=False).plugins
    except PluginError:
        return None
    return None if path is None else frozenset(map(canonical, counted(pins)))


def counted(pins: Mapping[str, Pin]) -> Mapping[str, Pin]:
    """The pins that count: where `trust` is `signed`, those that have a key."""
    if config.get("trust") != "signed":
        return pins
    return {name: pin for name, pin in pins.items() if pin.key}


# -- finding and reading -----------------------------------------------------------------


def read(path: Path, *, sources: bool = True) -> Lock:
    """The lock in a file; a load does without the `sources`, most of it.

    Raises PluginError: NP501 if it cannot be read or is no lock, NP502 for a newer schema.
    """
    try:
        return parse(read_lock(path), sources=sources)
    except OSError as error:
        raise _unreadable(f"{path}: {error.strerror or type(error).__name__}") from error


def parse(data: bytes, *, sources: bool = True) -> Lock:
    """The lock in the bytes of a file; see `read`."""
    try:
        table = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:  # JSON and UTF-8 errors are ValueErrors
        raise _unreadable(f"it is no JSON ({error})") from error
    schema = _take(table, "", "schema", int)
    if schema != SCHEMA:
        remedy = "Upgrade netcl-core" if schema > SCHEMA else "Delete it and write it again"
        text = message(LOCK_FILE, f"schema {schema}", f"schema {SCHEMA}", remedy)
        raise plugin_error("NP502", text)
    plugins = _take(table, "", "plugins", dict)
    pins = _each(plugins, "plugins", _pin)
    served = {
        name: {ANY_DTYPE: (who,)}
        for who, row in plugins.items()
        for name in _names(row.get("serves", []), f"plugins.{who}.serves")
    }
    return Lock(
        _pin(_take(table, "", "core", dict), "core"),
        pins,
        _each(_take(table, "", "devices", dict), "devices", partial(_part, served, sources)),
        _take(table, "", "strict", bool, False),
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table; a key that stands there twice, as after a merge, is an error."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError(
            f"{Counter(key for key, _ in pairs).most_common(1)[0][0]!r} is there twice"
        )
    return table


def _unreadable(what: str) -> PluginError:
    """The error for a file that is no lock."""
    expected = "what `netcl plugins lock` wrote"
    return plugin_error("NP501", message(LOCK_FILE, what, expected, "Delete it and write it again"))


def _part(
    served: Mapping[str, Mapping[str, tuple[str, ...]]], sources: bool, table: Any, where: str
) -> DevicePart:
    """What holds on a device: who serves what on all of them, and what stands there."""
    choices = {name: dict(rows) for name, rows in served.items()}
    for name in _names(_take(table, where, "lacks", list, []), f"{where}.lacks"):
        choices.pop(name, None)
    of_all = _each(_take(table, where, "choices", dict, {}), f"{where}.choices", _of_provider)
    for rows in of_all.values():
        for name, orders in rows.items():
            choices.setdefault(name, {}).update(orders)
    digests = _take(table, where, "sources", dict, {}) if sources else {}
    return DevicePart(choices, _each(digests, f"{where}.sources", _text))


def _of_provider(table: Any, where: str) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    return _each(table, where, lambda row, at: _each(row, at, _names))


def _pin(table: Any, where: str) -> Pin:
    return Pin(
        _take(table, where, "version", str),
        _take(table, where, "files", str, ""),
        _take(table, where, "editable", bool, False),
        _take(table, where, "data", bool, False),
        _take(table, where, "key", str, ""),
    )


def _each(table: Any, where: str, read: Callable[[Any, str], _Value]) -> Mapping[str, _Value]:
    if type(table) is not dict:
        raise _wrong(where, table, "a table")
    return {key: read(value, f"{where}.{key}") for key, value in table.items()}


def _names(value: Any, where: str) -> tuple[str, ...]:
    if type(value) is not list or not all(type(item) is str for item in value):
        raise _wrong(where, value, "a list of texts")
    return tuple(value)


def _text(value: Any, where: str) -> str:
    if type(value) is not str:
        raise _wrong(where, value, "a text")
    return value


def _take(table: Any, where: str, key: str, kind: type, default: Any = None) -> Any:
    """A value of the right type; `default` if there is none, unless that is None."""
    if type(table) is not dict:
        raise _wrong(where or "the file", table, "a table")
    value = table.get(key, default)
    if type(value) is not kind:
        raise _wrong(f"{where}.{key}".lstrip("."), value, f"of type {kind.__name__}")
    return value


def _wrong(where: str, value: Any, expected: str) -> PluginError:
    shown = repr(value) if len(repr(value)) < 60 else f"a {type(value).__name__}"
    return _unreadable(f"{where} is {shown}, which should be {expected}")
