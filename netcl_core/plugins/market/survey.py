"""Every installed plugin with its state, as far as it is known before anything is imported.

    found -> incompatible | disabled | loading -> active | quarantined

`loading` and `active` are states of a process that has imported the plugin; the rest is
decided here, once, for the command line and for loading alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, final

from netcl_core import config
from netcl_core.errors import NetclError, PluginError, raised_at
from netcl_core.plugins.market.failures import FAILURES, plugin_error
from netcl_core.plugins.market.file_memory import FileMemory
from netcl_core.plugins.market.finding import (
    MANIFEST,
    PLUGINS,
    PRIMITIVES,
    Distribution,
    distributions,
)
from netcl_core.plugins.market.manifests import Manifest, locate, parse, table_in
from netcl_core.plugins.market.requirements import check_api, check_distribution
from netcl_core.plugins.market.states import DEADLY, States
from netcl_core.plugins.resolution import canonical

CORE_PREFIX: Final = "core"


@final
@dataclass(slots=True)
class Plugin:
    """One plugin and its state, with the reason for it.

    Attributes:
        name: The name of its entry point, which is its template prefix.
        state: found, incompatible, disabled, loading, active or quarantined.
        code: The kind of its failure, a row of docs/plugin-errors.md; empty if it has none.
        provides: The names of its ops and namespaces, once it is active.
        group: The entry-point group that it was found in, empty for one given to `register`.
        manifest: What it says of itself; None if it ships no manifest.
        own_prefix: Whether its template prefix came with it, and so goes with it.
    """

    name: str
    distribution: str
    version: str
    state: str = "found"
    reason: str = ""
    traceback: str = ""
    provides: tuple[str, ...] = ()
    group: str = ""
    code: str = ""
    manifest: Manifest | None = None
    own_prefix: bool = field(default=False, repr=False)
    implementations: Any = field(default=None, repr=False)
    source: Distribution | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        """What tells it from every other plugin."""
        return f"{self.distribution}:{self.group}:{self.name}"

    @property
    def remedy(self) -> str:
        """What to do about its state; empty if nothing has to be done."""
        return FAILURES[self.code].remedy if self.code else ""

    @property
    def failed(self) -> bool:
        """Whether it does not work and nobody wanted that."""
        return self.state in {"incompatible", "quarantined"}

    def fail(self, error: BaseException, code: str, traceback: str = "") -> None:
        """Note why it does not work."""
        self.code, self.state = code, FAILURES[code].state
        own = isinstance(error, PluginError)
        self.reason = str(error) if own else f"{type(error).__name__}: {error}"
        if not own and not isinstance(error, NetclError) and (place := raised_at(error)):
            self.reason += f" (at {place})"
        self.traceback = traceback


def survey(states: States, *, deadly_only: bool = False, skip: Sequence[str] = ()) -> list[Plugin]:
    """All installed plugins, sorted by distribution and name, with what is known of them.

    Args:
        states: The remembered failures; `save` them afterwards.
        deadly_only: Leave out those that only raised an exception, to try them again.
        skip: Keys of plugins that are known to end the interpreter.
    """
    found: list[Plugin] = []
    taken: dict[str, Plugin] = {}
    installed = distributions()
    memory = FileMemory(config.plugin_memory("manifests.json"))
    for group in (PLUGINS, PRIMITIVES):
        for distribution in installed:
            for own_group, name in sorted(distribution.points):
                if own_group == group:
                    plugin = _plugin(distribution, group, name)
                    _judge(plugin, taken, memory)
                    found.append(plugin)
            if distribution.problem and group == PLUGINS:
                found.append(_unreadable(distribution))
    memory.save()
    for plugin in found:
        if plugin.state == "found":
            _remember(plugin, states, deadly_only, skip)
    return sorted(found, key=lambda plugin: (canonical(plugin.distribution), plugin.name))


def unknown_names(found: Sequence[Plugin]) -> list[str]:
    """A complaint for each name in the settings that is no installed plugin's."""
    known = {name for plugin in found for name in (plugin.name, plugin.distribution)}
    complaints = []
    for setting in ("plugins", "plugins-disable"):
        for name in config.get(setting) or ():
            if not any(_is(plugin, name) for plugin in found):
                close = get_close_matches(name, sorted(known), n=1)
                hint = f"; did you mean {close[0]}?" if close else ""
                variable = config.SETTINGS[setting].variable
                complaints.append(f"NP403: {variable} names {name!r}, which is not installed{hint}")
    return complaints


def _plugin(distribution: Distribution, group: str, name: str) -> Plugin:
    return Plugin(
        name, distribution.name, distribution.version, group=group, source=distribution
    )  # fmt: skip


def _unreadable(distribution: Distribution) -> Plugin:
    plugin = _plugin(distribution, "", distribution.name)
    plugin.fail(plugin_error("NP112", distribution.problem), "NP112")
    return plugin


def _judge(plugin: Plugin, taken: dict[str, Plugin], memory: FileMemory) -> None:
    """Everything that can be said of one plugin from its files and the settings."""
    distribution = plugin.source
    assert distribution is not None  # it was made from one
    _attempt(plugin, lambda: _read_manifest(plugin, distribution, memory))
    reason = _switched_off(plugin)
    if reason:
        plugin.state, plugin.reason, plugin.code = "disabled", reason, ""
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


def _read_manifest(plugin: Plugin, distribution: Distribution, memory: FileMemory) -> None:
    value = distribution.points.get((MANIFEST, plugin.name))
    if value is not None:
        path = locate(distribution, value)
        if path is None:
            raise plugin_error("NP110", f"its manifest {value!r} was not found")
        plugin.manifest = memory.recall(path, partial(table_in, path), parse)


def _check(plugin: Plugin, distribution: Distribution, taken: dict[str, Plugin]) -> None:
    if plugin.manifest is not None:
        check_api(plugin.manifest.api)
    check_distribution(distribution)
    _check_name(plugin, taken)


def _check_name(plugin: Plugin, taken: dict[str, Plugin]) -> None:
    if plugin.name == CORE_PREFIX:
        raise plugin_error("NP114", f"{CORE_PREFIX!r} is the prefix of the core's own templates")
    other = taken.setdefault(plugin.name, plugin)
    if other is not plugin:
        raise plugin_error(
            "NP113",
            f"the plugin name {plugin.name!r} is taken by {other.distribution} ({other.group})",
        )


def _switched_off(plugin: Plugin) -> str:
    if not config.get("plugins-autoload"):
        return "NETCL_PLUGINS_AUTOLOAD (plugins-autoload) is off"
    if any(_is(plugin, name) for name in config.get("plugins-disable")):
        return "NETCL_PLUGINS_DISABLE (plugins-disable) names it"
    allowed = config.get("plugins")
    if allowed is not None and not any(_is(plugin, name) for name in allowed):
        return "NETCL_PLUGINS (plugins) does not name it"
    return ""


def _is(plugin: Plugin, name: str) -> bool:
    """Whether a name in a setting means a plugin: its own, or its distribution's."""
    return name == plugin.name or canonical(name) == canonical(plugin.distribution)


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
