"""Edits the file whose settings hold here; what stands around a value stays as it is."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, MutableMapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, TypeAlias

import tomlkit
from netcl_plugin_kit.writing import write_text
from tomlkit.exceptions import TOMLKitError

from netcl_core import config
from netcl_core.errors import ArgumentError, message
from netcl_core.plugins.protocol import registry

_PROJECT: Final = "pyproject.toml"
Table: TypeAlias = MutableMapping[str, Any]


def change(who: str, edit: Callable[[Table], None]) -> tuple[Path, bool]:
    """Let `edit` change the settings of the file that holds here.

    Where no file has any, the nearest pyproject.toml gets a table, else netcl.toml is made.

    Returns the file, and whether it is another now. Raises ArgumentError in the name of `who`
    if it cannot be edited.
    """
    path = place()
    before = path.read_bytes().decode() if path.is_file() else ""
    after = _edited(who, path, before, edit)
    if after == before:
        return path, False
    mode = path.stat().st_mode if path.exists() else None
    write_text(who, path, after)
    if mode is not None:  # it is another file now
        path.chmod(mode)
    config.settings_file.cache_clear()
    registry.renew()
    return path, True


def place() -> Path:
    """The file that holds for the working directory, or that would; it need not exist."""
    here = config.working_folder()
    path, _ = config.settings_file(str(here))
    if path.is_file():
        return path
    projects = (folder / _PROJECT for folder in (here, *here.parents))
    return next((project for project in projects if project.is_file()), path)


def table() -> Table:
    """A copy of the settings of that file."""
    return deepcopy(config.settings_file(str(config.working_folder()))[1])


def overruled(*settings: str) -> list[str]:
    """A line for each variable that is set, which goes before the file."""
    names = [config.SETTINGS[setting].variable for setting in settings]
    given = [name for name in names if name in os.environ]
    return [f"note: {name} is set, and goes before the file" for name in given]


def _edited(who: str, path: Path, text: str, edit: Callable[[Table], None]) -> str:
    """The text after an edit; both readers of TOML agree on it, or nothing is changed."""
    inside = path.name == _PROJECT
    wanted: Table = tomllib.loads(text)
    before = deepcopy(wanted)
    own = _settings(wanted, inside)
    was = deepcopy(own)
    edit(own)
    if own == was:
        return text
    if inside and "netcl" not in before.get("tool", {}):
        text += "\n" * (2 if text and not text.endswith("\n") else 1) + "[tool.netcl]\n"
    try:
        document = tomlkit.parse(text)
        edit(_settings(document, inside))
        edited = tomlkit.dumps(document)
        if "\r\n" in text:
            edited = edited.replace("\r\n", "\n").replace("\n", "\r\n")
        fine = tomllib.loads(edited) == wanted
    except (TOMLKitError, ValueError, TypeError, LookupError):  # TOML that only one of them takes
        fine = False
    if not fine:
        given = f"{path} is written in a way that cannot be edited in place"
        raise ArgumentError(message(who, given, f"[tool.netcl] with {dict(own)!r:.200}"))
    return edited


def _settings(document: Table, inside: bool) -> Table:
    settings = document.setdefault("tool", {}).setdefault("netcl", {}) if inside else document
    assert isinstance(settings, MutableMapping)  # of another kind the settings would not hold
    return settings
