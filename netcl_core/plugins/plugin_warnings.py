"""What is said of plugins that do not work, or that bring what nothing can use."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from netcl_core.errors import NetclDeprecationWarning, PluginWarning, message
from netcl_core.plugins.failures import described, plugin_error
from netcl_core.plugins.kinds import REGISTERED
from netcl_core.plugins.plugin import Plugin
from netcl_core.plugins.registry import registry
from netcl_core.plugins.resolution import canonical

_told: Final[set[str]] = set()


def report(plugin: Plugin) -> None:
    """Warn of a plugin that does not work, and of one that somebody has replaced."""
    if plugin.state != "active":
        registry.inactive[canonical(plugin.distribution)] = f"{plugin.state} ({plugin.reason})"
        for offer in plugin.offers:
            registry.withheld.setdefault(offer, canonical(plugin.distribution))
    if plugin.failed:
        complain(plugin, f"{plugin.state} ({described(plugin.code, plugin.reason)})")
    elif plugin.manifest is not None and plugin.manifest.superseded_by:
        text = f"{plugin.distribution} is superseded by {plugin.manifest.superseded_by}"
        warnings.warn(text, NetclDeprecationWarning, stacklevel=2)


def complain(plugin: Plugin, state: str) -> None:
    """Warn that something of a plugin does not work."""
    text = message(
        f"plugin {plugin.name!r} of {plugin.distribution} {plugin.version}",
        state,
        "",
        f"Repair, upgrade or uninstall {plugin.distribution}; everything else works",
    )
    warnings.warn(text, PluginWarning, stacklevel=2)


def insist(plugins: Iterable[Plugin], complaints: Sequence[str]) -> None:
    """Raise PluginError NP404 if a plugin has failed or there is something else to complain of."""
    failed = [
        f"{plugin.name} of {plugin.distribution}: {plugin.code}: {plugin.reason}"
        for plugin in plugins
        if plugin.failed
    ]
    if failed or complaints:
        raise plugin_error(
            "NP404",
            message(
                "NETCL_PLUGINS_STRICT",
                "; ".join([*failed, *complaints]),
                "every plugin to load",
                "Repair or disable them (NETCL_PLUGINS_DISABLE), or unset the variable",
            ),
        )


def unused() -> Iterator[str]:
    """A complaint for each implementation of what is a primitive, by whoever brings that."""
    for row in (row for kind in REGISTERED for row in registry.rows(kind)):
        reason = registry.unused(row)
        if reason and registry.op_rows(row.record.name):  # nobody's may be installed later
            yield f"NP405: an {row.kind} of {row.id} is never used: {reason}"


def tell(complaints: Iterable[str]) -> None:
    """Warn of each, once in a process."""
    for text in complaints:
        if text not in _told:  # once, also for those who turn warnings into errors
            _told.add(text)
            warnings.warn(text, PluginWarning, stacklevel=3)
