"""Every installed plugin with its state, as far as it is known before anything is imported.

    found -> incompatible | disabled | loading -> active | quarantined

`loading` and `active` are states of a process that has imported the plugin; the rest is
decided here, once, for the command line and for loading alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path

from netcl_core import config
from netcl_core.config import MARKET_PREFIX
from netcl_core.errors import PluginError
from netcl_core.plugins.protocol import (
    CORE_PREFIX,
    MANIFEST,
    PLUGINS,
    PRIMITIVES,
    Plugin,
    canonical,
    give_prefixes,
    is_meant,
    named_among,
    switches,
)
from netcl_market.failures import FAILURES, plugin_error
from netcl_market.file_memory import FileMemory
from netcl_market.finding import InstalledDistribution, distributions
from netcl_market.lock import strictly_listed
from netcl_market.manifests import locate, parse, table_in
from netcl_market.requirements import check_api, check_distribution
from netcl_market.states import DEADLY, States


def survey(
    states: States,
    *,
    deadly_only: bool = False,
    skip: Sequence[str] = (),
    unlocked: bool = False,
) -> list[Plugin]:
    """All installed plugins, sorted by distribution and name, with what is known of them.

    Args:
        states: The remembered failures; `save` them afterwards.
        deadly_only: Leave out those that only raised an exception, to try them again.
        skip: Keys of plugins that are known to end the interpreter.
        unlocked: Whether a strict lock file counts nothing.
    """
    plugins: list[Plugin] = []
    taken: dict[str, Plugin] = {}
    memory = FileMemory(config.plugin_memory("metadata.json"))
    installed = distributions(memory)
    named = named_among([each.name for each in installed])
    switched_off = switches(named, None if unlocked else strictly_listed())
    for group in (PLUGINS, PRIMITIVES, MANIFEST):
        for distribution in installed:
            for own_group, name in distribution.plugins:
                if own_group == group:
                    plugin = _plugin(distribution, group, name)
                    _judge(plugin, taken, switched_off(plugin), memory)
                    plugins.append(plugin)
            if distribution.problem and group == PLUGINS:
                plugins.append(_unreadable(distribution))
    memory.save()
    for plugin in plugins:
        if plugin.state == "found":
            _remember(plugin, states, deadly_only, skip)
    give_prefixes([plugin for plugin in plugins if plugin.state == "found"])
    return sorted(plugins, key=lambda plugin: (canonical(plugin.distribution), plugin.name))


def unknown_names(plugins: Sequence[Plugin]) -> list[str]:
    """A complaint for each name in the settings that means no installed plugin, or two."""
    named = named_among([plugin.distribution for plugin in plugins])
    complaints = []
    for setting in ("plugins", "plugins-disable"):
        variable = config.SETTINGS[setting].variable
        for name in config.get(setting) or ():
            meant = named(name.partition(":")[0])
            if len(meant) > 1:
                given = " and ".join(sorted(meant))
                complaints.append(f"NP403: {variable} names {name!r}, which may mean {given}")
            elif not any(is_meant(plugin, name, named) for plugin in plugins):
                hint = _nearest(name, plugins)
                complaints.append(f"NP403: {variable} names {name!r}, which is not installed{hint}")
    return complaints


def _nearest(name: str, plugins: Sequence[Plugin]) -> str:
    """What may be meant by a name in the settings that is nobody's."""
    of_name = [plugin.id for plugin in plugins if plugin.name == name]
    known = {plugin.distribution for plugin in plugins}
    known |= {distribution.removeprefix(MARKET_PREFIX) for distribution in known}
    close = of_name or get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _plugin(distribution: InstalledDistribution, group: str, name: str) -> Plugin:
    return Plugin(
        name, distribution.name, distribution.version, group=group, source=distribution
    )  # fmt: skip


def _unreadable(distribution: InstalledDistribution) -> Plugin:
    plugin = _plugin(distribution, "", distribution.name)
    plugin.fail(plugin_error("NP112", distribution.problem), "NP112")
    return plugin


def _judge(plugin: Plugin, taken: dict[str, Plugin], switched_off: str, memory: FileMemory) -> None:
    """Everything that can be said of one plugin from its files and the settings."""
    distribution = plugin.source
    assert distribution is not None  # it was made from one
    _attempt(plugin, lambda: _read_manifest(plugin, distribution, memory))
    if switched_off:
        plugin.state, plugin.reason, plugin.code = "disabled", switched_off, ""
        return
    if plugin.failed:
        return
    _attempt(plugin, lambda: _check(plugin, distribution, taken))


def _attempt(plugin: Plugin, step: Callable[[], None]) -> None:
    """Take a step of judging a plugin; whatever it raises becomes the plugin's state."""
    try:
        step()
    except Exception as error:  # its files may hold anything, and the other plugins go on
        plugin.fail(error, error.code if isinstance(error, PluginError) else "NP112")


def _read_manifest(plugin: Plugin, distribution: InstalledDistribution, memory: FileMemory) -> None:
    value = distribution.points.get((MANIFEST, plugin.name))
    if value is not None:
        path = distribution.listed.get(value, "")
        if not os.path.isfile(path):  # noqa: PTH113 - a Path takes ten times as long
            path = str(locate(distribution, value) or "")
        if not path:
            raise plugin_error("NP110", f"its manifest {value!r} was not found")
        plugin.manifest = memory.recall(path, [path], lambda: table_in(Path(path)), parse)


def _check(plugin: Plugin, distribution: InstalledDistribution, taken: dict[str, Plugin]) -> None:
    if plugin.manifest is not None:
        check_api(plugin.manifest.api)
    check_distribution(distribution)
    _check_name(plugin, taken)


def _check_name(plugin: Plugin, taken: dict[str, Plugin]) -> None:
    if plugin.name == CORE_PREFIX:
        raise plugin_error("NP114", f"{CORE_PREFIX!r} is the prefix of the core's own templates")
    other = taken.setdefault(plugin.id, plugin)
    if other is not plugin:
        given = f"{plugin.distribution} has two plugins {plugin.name!r}, the other in {other.group}"
        raise plugin_error("NP113", given)


def _remember(plugin: Plugin, states: States, deadly_only: bool, skip: Sequence[str]) -> None:
    assert plugin.source is not None  # it was found installed
    if plugin.key in skip:
        plugin.fail(plugin_error("NP208", "it ended the interpreter"), "NP208")
        return
    memory = states.get(plugin.source, plugin.group, plugin.name)
    if memory is None or memory.code not in FAILURES:
        return
    if memory.code in DEADLY or not deadly_only:
        plugin.state, plugin.code = FAILURES[memory.code].state, memory.code
        plugin.reason, plugin.traceback = memory.reason, memory.traceback
