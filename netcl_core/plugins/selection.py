"""Which of the installed plugins the settings leave out, and whose a shared name is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from netcl_core import config
from netcl_core.config import MARKET_PREFIX
from netcl_core.plugins.kinds import DECLARED
from netcl_core.plugins.plugin import Plugin
from netcl_core.plugins.resolution import canonical

#: What a distribution means in a setting: the canonical names of those installed.
Named: TypeAlias = Callable[[str], frozenset[str]]


def named_among(installed: Iterable[str]) -> Named:
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
    return named_among(installed)(name)


def switches(named: Named, listed: frozenset[str] | None) -> Callable[[Plugin], str]:
    """A function that says which setting leaves a plugin out; empty if none does."""
    autoload, disabled = config.get("plugins-autoload"), config.get("plugins-disable")
    allowed, trust = config.get("plugins"), config.get("trust")

    def switched_off(plugin: Plugin) -> str:
        if not autoload:
            return "NETCL_PLUGINS_AUTOLOAD (plugins-autoload) is off"
        if any(is_meant(plugin, name, named) for name in disabled):
            return "NETCL_PLUGINS_DISABLE (plugins-disable) names it"
        if listed is not None and canonical(plugin.distribution) not in listed:
            return _not_locked(trust)
        if allowed is None:
            return _not_trusted(plugin, trust)
        trusted = trust == "data" and _without_code(plugin)
        return "" if trusted else _not_allowed(plugin, allowed, named)

    return switched_off


def _not_locked(trust: str) -> str:
    if trust == "signed":
        return 'NETCL_TRUST (trust) is "signed", and the lock names no key of it'
    return "NP506: NETCL_LOCK_STRICT (lock-strict) is set, and the lock does not know it"


def _without_code(plugin: Plugin) -> bool:
    """Whether a plugin is data, or the reader of such that the core's own catalogue names.

    Another distribution that offers to read them is a stranger's code.
    """
    from netcl_core.plugins.catalogue import providers  # only `trust = "data"` needs it

    reader = providers("namespace").get(DECLARED)
    return plugin.kind == "data" or canonical(plugin.distribution) == reader


def _not_trusted(plugin: Plugin, trust: str) -> str:
    """Why a plugin that no setting names is not loaded; empty if it is."""
    if trust in ("all", "signed") or (trust == "data" and _without_code(plugin)):
        return ""
    what = "it brings code" if trust == "data" else "NETCL_PLUGINS (plugins) does not name it"
    return (
        f'NETCL_TRUST (trust) is "{trust}", and {what}; to load it, name {plugin.distribution} '
        "in NETCL_PLUGINS (plugins)"
    )


def _not_allowed(plugin: Plugin, allowed: Sequence[str], named: Named) -> str:
    names = [name for name in allowed if is_meant(plugin, name, named)]
    if not names:
        return "NETCL_PLUGINS (plugins) does not name it"
    if all(len(named(name.partition(":")[0])) > 1 for name in names):
        return f"NETCL_PLUGINS (plugins) names {names[0]!r}, which may mean another"
    return ""


def is_meant(plugin: Plugin, name: str, named: Named) -> bool:
    """Whether a name in a setting means a plugin: `<distribution>` or `<distribution>:<name>`."""
    distribution, _, own = name.partition(":")
    return own in {"", plugin.name} and canonical(plugin.distribution) in named(distribution)


def give_prefixes(plugins: Sequence[Plugin]) -> None:
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
        name: tuple(
            claimant.id
            for claimant in plugins
            if claimant.name == name and claimant.prefix == claimant.id
        )
        for name in sorted(names)
    }
