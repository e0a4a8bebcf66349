"""Plugins, for their users: a list of them, and what they add to the face and the command line.

How they are found and judged is in `market`, how they are loaded in `loading`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from netcl_core import config
from netcl_core.errors import MissingNamespaceError, PluginError, message
from netcl_core.plugins import complaints, loading, locking
from netcl_core.plugins.catalogue import how_to_get
from netcl_core.plugins.kinds import KINDS
from netcl_core.plugins.market.survey import Plugin
from netcl_core.plugins.registry import registry
from netcl_core.runtime.rendering import add_prefix


def list() -> Sequence[Plugin]:
    """All plugins with their states, loading them if that has not happened.

    >>> {each.state for each in nc.plugins.list()}
    {'active'}
    """
    registry.load()
    return sorted(loading.known.values(), key=lambda plugin: (plugin.distribution, plugin.name))


def add_templates(prefix: str, folder: str | Path) -> None:
    """Make `<prefix>/<file>` mean a template in `folder`, for primitives outside plugins."""
    add_prefix(prefix, folder)


def namespace(name: str) -> ModuleType:
    """The module of a namespace such as `nn`.

    >>> nc.plugins.namespace("nn") is nc.nn
    True

    Raises MissingNamespaceError that names the package to install, AttributeError
    for a name that nobody knows.
    """
    row = registry.find("namespace", name)
    if row is not None:
        return importlib.import_module(row.record.module)
    remedy = how_to_get(name, "namespace")
    if remedy is None:
        raise AttributeError(f"module 'netcl_core' has no attribute {name!r}")
    given = "no installed plugin provides this namespace"
    raise MissingNamespaceError(message(f"netcl_core.{name}", given, "", remedy))


def plugin_commands(of: Sequence[Plugin] | None = None) -> dict[str, Any]:
    """The click commands that plugins add to `netcl`; a failing hook adds none, with a warning.

    A command of a group stands below both names, such as `"plugins lock"`. `of`: only those
    of some plugins.
    """
    commands: dict[str, Any] = {}
    for plugin, hook in loading.implementing(KINDS["command"].hook):
        if of is not None and plugin not in of:
            continue
        added: dict[str, Any] = {}
        try:
            hook(add_command=functools.partial(_add_command, added))
            if taken := sorted(added.keys() & commands.keys()):
                raise PluginError(message(plugin.name, f"the command {taken[0]!r} is taken"))
        except Exception as error:  # a plugin may raise anything; the other commands stay
            complaints.complain(plugin, f"has no commands ({type(error).__name__}: {error})")
            continue
        commands |= added
    return commands


def _add_command(into: dict[str, Any], command: Any, *, group: str = "") -> None:
    into[f"{group} {command.name}".strip()] = command


def doctor_checks() -> Sequence[tuple[str, bool, str]]:
    """What plugins report to `netcl doctor`, one line per plugin that does not work, the lock.

    Also where a strict lock file does not fit: that is a finding, and loads the plugins all
    the same.
    """
    with locking.unlocked():
        return [*_failures(), *_lock_check(), *_reports()]


def _failures() -> Iterable[tuple[str, bool, str]]:
    for plugin in list():
        if plugin.failed:
            text = f"{plugin.code}: {plugin.reason.rstrip('.')}. {plugin.remedy}"
            yield f"plugin {plugin.name} of {plugin.distribution}", False, text


def _lock_check() -> Iterable[tuple[str, bool, str]]:
    installed = [plugin.source for plugin in list() if plugin.source is not None]
    found = locking.verdict(installed) if config.get("plugins-autoload") else None
    if found is not None:
        yield "lock file", found.fits, "\n".join(found.differences) or f"{found.path} fits"


def _reports() -> Iterable[tuple[str, bool, str]]:
    """What the hook `netcl_doctor` returns; an exception becomes a finding."""
    for plugin, hook in loading.implementing("netcl_doctor"):
        try:
            found = [(f"{plugin.name}: {name}", bool(ok), str(text)) for name, ok, text in hook()]
        except Exception as error:  # a plugin may raise anything
            found = [(f"plugin {plugin.name}", False, f"{type(error).__name__}: {error}")]
        yield from found
