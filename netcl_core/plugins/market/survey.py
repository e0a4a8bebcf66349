"""Every installed plugin with its state, as far as it is known before anything is imported.

    found -> incompatible | disabled | loading -> active | quarantined

`loading` and `active` are states of a process that has imported the plugin; the rest is
decided here, once, for the command line and for loading alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeAlias, final

from netcl_core import config
from netcl_core.config import MARKET_PREFIX
from netcl_core.errors import NetclError, PluginError, plain, raised_at
from netcl_core.plugins.kinds import DECLARED, SHORT_ROAD
from netcl_core.plugins.market.failures import FAILURES, plugin_error, said
from netcl_core.plugins.market.file_memory import FileMemory
from netcl_core.plugins.market.finding import (
    MANIFEST,
    PLUGINS,
    PRIMITIVES,
    Distribution,
    distributions,
)
from netcl_core.plugins.market.lock import strictly_listed
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
        name: The name of its entry point. Plugins of several distributions may have the same.
        state: found, incompatible, disabled, loading, active or quarantined.
        code: The kind of its failure, a row of docs/plugin-errors.md; empty if it has none.
        provides: The names of its ops and namespaces, once it is active.
        group: The entry-point group that it was found in, empty for one given to `register`.
        manifest: What it says of itself; None if it ships no manifest.
        prefix: What its templates' names begin with, see `_give_prefixes`.
        own_prefix: Whether its template prefix came with it, and so goes with it.
        has_templates: Whether the templates of its package were added.
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
    prefix: str = ""
    own_prefix: bool = field(default=False, repr=False)
    has_templates: bool = field(default=False, repr=False)
    implementations: Any = field(default=None, repr=False)
    source: Distribution | None = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        """`data` if it is a manifest with templates, of which nothing is imported; else `code`."""
        return "data" if self.group == MANIFEST else "code"

    @property
    def id(self) -> str:
        """`<distribution>:<name>`, as settings name it, and always a prefix of its templates."""
        return f"{canonical(self.distribution)}:{self.name}"

    @property
    def key(self) -> str:
        """What tells it from every other plugin."""
        return f"{self.distribution}:{self.group}:{self.name}"

    @property
    def offers(self) -> tuple[tuple[str, str], ...]:
        """Kind and name of what it brings, as far as it says: by the short road or a manifest."""
        own = ((SHORT_ROAD, self.name),) if self.group == PRIMITIVES else ()
        return own + (self.manifest.offers if self.manifest is not None else ())

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
        self.reason = said(error)
        with suppress(BaseException):  # it may even say that it is of another class
            if not isinstance(error, NetclError) and (place := raised_at(error)):
                self.reason += f" (at {place})"
        self.traceback = plain(traceback)


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
    found: list[Plugin] = []
    taken: dict[str, Plugin] = {}
    memory = FileMemory(config.plugin_memory("metadata.json"))
    installed = distributions(memory)
    named = _named([each.name for each in installed])
    switched_off = _switches(named, None if unlocked else strictly_listed())
    for group in (PLUGINS, PRIMITIVES, MANIFEST):
        for distribution in installed:
            for own_group, name in distribution.plugins:
                if own_group == group:
                    plugin = _plugin(distribution, group, name)
                    _judge(plugin, taken, switched_off(plugin), memory)
                    found.append(plugin)
            if distribution.problem and group == PLUGINS:
                found.append(_unreadable(distribution))
    memory.save()
    for plugin in found:
        if plugin.state == "found":
            _remember(plugin, states, deadly_only, skip)
    _give_prefixes([plugin for plugin in found if plugin.state == "found"])
    return sorted(found, key=lambda plugin: (canonical(plugin.distribution), plugin.name))


def unknown_names(found: Sequence[Plugin]) -> list[str]:
    """A complaint for each name in the settings that means no installed plugin, or two."""
    named = _named([plugin.distribution for plugin in found])
    complaints = []
    for setting in ("plugins", "plugins-disable"):
        variable = config.SETTINGS[setting].variable
        for name in config.get(setting) or ():
            meant = named(name.partition(":")[0])
            if len(meant) > 1:
                given = " and ".join(sorted(meant))
                complaints.append(f"NP403: {variable} names {name!r}, which may mean {given}")
            elif not any(_is(plugin, name, named) for plugin in found):
                hint = _nearest(name, found)
                complaints.append(f"NP403: {variable} names {name!r}, which is not installed{hint}")
    return complaints


def _nearest(name: str, found: Sequence[Plugin]) -> str:
    """What may be meant by a name in the settings that is nobody's."""
    of_name = [plugin.id for plugin in found if plugin.name == name]
    known = {plugin.distribution for plugin in found}
    known |= {each.removeprefix(MARKET_PREFIX) for each in known}
    close = of_name or get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {' or '.join(close)}?" if close else ""


#: What a distribution means in a setting: the canonical names of those installed.
_Named: TypeAlias = Callable[[str], frozenset[str]]


def _named(installed: Iterable[str]) -> _Named:
    """Which installed distributions a name means: its own, or without the market's prefix.

    Where both are installed it means neither for sure: nobody may come in under another's name.
    """
    there = frozenset(map(canonical, installed))

    def named(name: str) -> frozenset[str]:
        own = canonical(name)
        return there & ({own} if own.startswith(MARKET_PREFIX) else {own, MARKET_PREFIX + own})

    return named


def meant(name: str, installed: Iterable[str]) -> frozenset[str]:
    """Which of some distributions a name means where a setting or a command is given it."""
    return _named(installed)(name)


def _plugin(distribution: Distribution, group: str, name: str) -> Plugin:
    return Plugin(
        name, distribution.name, distribution.version, group=group, source=distribution
    )  # fmt: skip


def _unreadable(distribution: Distribution) -> Plugin:
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


def _read_manifest(plugin: Plugin, distribution: Distribution, memory: FileMemory) -> None:
    value = distribution.points.get((MANIFEST, plugin.name))
    if value is not None:
        path = distribution.listed.get(value, "")
        if not os.path.isfile(path):  # noqa: PTH113 - a Path takes ten times as long
            path = str(locate(distribution, value) or "")
        if not path:
            raise plugin_error("NP110", f"its manifest {value!r} was not found")
        plugin.manifest = memory.recall(path, [path], lambda: table_in(Path(path)), parse)


def _check(plugin: Plugin, distribution: Distribution, taken: dict[str, Plugin]) -> None:
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


def _give_prefixes(plugins: Sequence[Plugin]) -> None:
    """Say what the names of each plugin's templates begin with: its name, where that is its own.

    Of several plugins of one name it belongs to the one whose distribution is called after it;
    without one, to none of them. `<distribution>:<name>` is every plugin's own.
    """
    claims: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        claims.setdefault(plugin.name, []).append(plugin)
    for name, claimants in claims.items():
        owner = canonical(MARKET_PREFIX + name)
        for plugin in claimants:
            own = len(claimants) == 1 or canonical(plugin.distribution) == owner
            plugin.prefix = name if own else plugin.id


def shared_names(plugins: Sequence[Plugin]) -> dict[str, tuple[str, ...]]:
    """The names that are the prefix of nobody, since several plugins have them: of which."""
    owned = {plugin.prefix for plugin in plugins}
    names = {plugin.name for plugin in plugins if plugin.prefix == plugin.id} - owned
    return {
        name: tuple(each.id for each in plugins if each.name == name and each.prefix == each.id)
        for name in sorted(names)
    }


def _switches(named: _Named, listed: frozenset[str] | None) -> Callable[[Plugin], str]:
    """A function that says which setting leaves a plugin out; empty if none does."""
    autoload, disabled = config.get("plugins-autoload"), config.get("plugins-disable")
    allowed, trust = config.get("plugins"), config.get("trust")

    def switched_off(plugin: Plugin) -> str:
        if not autoload:
            return "NETCL_PLUGINS_AUTOLOAD (plugins-autoload) is off"
        if any(_is(plugin, name, named) for name in disabled):
            return "NETCL_PLUGINS_DISABLE (plugins-disable) names it"
        if listed is not None and canonical(plugin.distribution) not in listed:
            return "NP506: NETCL_LOCK_STRICT (lock-strict) is set, and the lock does not know it"
        if allowed is None:
            return _not_trusted(plugin, trust)
        trusted = trust == "data" and _without_code(plugin)
        return "" if trusted else _not_allowed(plugin, allowed, named)

    return switched_off


def _without_code(plugin: Plugin) -> bool:
    """Whether a plugin is data, or the reader of such that the core's own catalogue names.

    Another distribution that offers to read them is a stranger's code.
    """
    from netcl_core.plugins.catalogue import providers  # only `trust = "data"` needs it

    reader = providers("namespace").get(DECLARED)
    return plugin.kind == "data" or canonical(plugin.distribution) == reader


def _not_trusted(plugin: Plugin, trust: str) -> str:
    """Why a plugin that no setting names is not loaded; empty if it is."""
    if trust == "all" or (trust == "data" and _without_code(plugin)):
        return ""
    what = "it brings code" if trust == "data" else "NETCL_PLUGINS (plugins) does not name it"
    return (
        f'NETCL_TRUST (trust) is "{trust}", and {what}; to load it, name {plugin.distribution} '
        "in NETCL_PLUGINS (plugins)"
    )


def _not_allowed(plugin: Plugin, allowed: Sequence[str], named: _Named) -> str:
    names = [name for name in allowed if _is(plugin, name, named)]
    if not names:
        return "NETCL_PLUGINS (plugins) does not name it"
    if all(len(named(name.partition(":")[0])) > 1 for name in names):
        return f"NETCL_PLUGINS (plugins) names {names[0]!r}, which may mean another"
    return ""


def _is(plugin: Plugin, name: str, named: _Named) -> bool:
    """Whether a name in a setting means a plugin: `<distribution>` or `<distribution>:<name>`."""
    distribution, _, own = name.partition(":")
    return own in {"", plugin.name} and canonical(plugin.distribution) in named(distribution)


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
