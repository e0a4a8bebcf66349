"""Plugins that a program gives to this process itself: objects and modules with hooks."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

from netcl_core.errors import PluginError, message
from netcl_core.plugins import hooks, loading, plugin_warnings
from netcl_core.plugins.failures import plugin_error
from netcl_core.plugins.plugin import CORE_PREFIX, Plugin
from netcl_core.plugins.registry import registry
from netcl_core.runtime.rendering import drop_prefix, has_prefix


def register(plugin: Any, name: str | None = None) -> Plugin:
    """Load a plugin object or module of this process; raises what its hooks raise.

    >>> class Plugin:
    ...     @nc.hookimpl
    ...     def netcl_doctor(self):
    ...         return [("mine", True, "all is well")]
    >>> nc.plugins.register(Plugin(), "mine").state
    'active'
    >>> nc.plugins.unregister("mine")

    `name` is its template prefix and the name under which `unregister` knows it.
    """
    chosen = name or getattr(plugin, "__name__", None) or type(plugin).__name__
    with registry.lock:
        if any(chosen in (other.name, other.distribution) for other in loading.known.values()):
            raise PluginError(
                message("register", f"{chosen!r} is registered already", "a new name")
            )
        if chosen == CORE_PREFIX:
            text = message("register", f"{chosen!r} is the prefix of the core's own templates",
                           "another name")  # fmt: skip
            raise plugin_error("NP114", text)
        entry = Plugin(chosen, chosen, "0", "loading", prefix=chosen)
        entry.own_prefix = not has_prefix(chosen)
        package = _package_of(plugin)
        try:
            if package is not None and entry.own_prefix:
                loading.add_templates(entry, package)
            loading.enter_hooks(entry, plugin)
        except BaseException as error:
            BaseException.add_note(error, f"while registering the plugin {chosen!r}")
            _drop_templates(entry)
            raise
        loading.adopt(entry)
        plugin_warnings.tell(plugin_warnings.unused())
    return entry


def _package_of(plugin: Any) -> str | None:
    holder = plugin if isinstance(plugin, ModuleType) else inspect.getmodule(type(plugin))
    module = getattr(holder, "__name__", None)
    return None if module in (None, "__main__") else str(module).partition(".")[0]


def unregister(name: str) -> None:
    """Take a plugin and all it provides out of this process; raises PluginError if unknown.

    >>> class Plugin:
    ...     @nc.hookimpl
    ...     def netcl_doctor(self):
    ...         return []
    >>> _ = nc.plugins.register(Plugin(), "passing")
    >>> nc.plugins.unregister("passing")
    >>> "passing" in {plugin.name for plugin in nc.plugins.list()}
    False

    `name` is the plugin's; where several have it, `<distribution>:<name>`.
    """
    with registry.lock:
        matching = [other for other in loading.known.values() if name in (other.name, other.id)]
        if len(matching) != 1:
            others = matching or loading.known.values()
            names = ", ".join(sorted(other.id for other in others)) or "none"
            given = f"{name!r} is {'ambiguous' if matching else 'unknown'}"
            raise PluginError(message("unregister", given, f"one of {names}"))
        plugin = loading.known.pop(matching[0].key)
        if plugin.state == "found":
            loading.withdraw(plugin)
        if plugin.implementations is not None:
            hooks.drop(plugin.implementations)
        _drop_templates(plugin)
        registry.remove_provider(plugin.distribution, plugin.key)


def _drop_templates(plugin: Plugin) -> None:
    """Forget the prefixes of a plugin's templates, as far as they came with it."""
    for prefix in {plugin.prefix, plugin.id}:
        if plugin.own_prefix or prefix != plugin.prefix:
            drop_prefix(prefix)
