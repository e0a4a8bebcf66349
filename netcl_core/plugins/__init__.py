"""Plugins: what is installed, what it brings, and who serves a name that several offer.

Owns the registry and its kinds, loading, the lock, the catalogue of who provides what, and in
`market` what can be known of installed plugins without importing any. Imports `tensors` and what
lies below it.

The names of `nc.plugins` are fetched on first use: `netcl plugins list` imports neither NumPy nor
a plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from netcl_core.plugins.namespace_import import fetched

if TYPE_CHECKING:
    from netcl_core.errors import PluginWarning as PluginWarning
    from netcl_core.plugins.commands import plugin_commands as plugin_commands
    from netcl_core.plugins.finder import unlocked as unlocked
    from netcl_core.plugins.loading import load_installed as load_installed
    from netcl_core.plugins.manager import absent as absent
    from netcl_core.plugins.manager import add_templates as add_templates
    from netcl_core.plugins.manager import list as list
    from netcl_core.plugins.manager import namespace as namespace
    from netcl_core.plugins.manual_registration import register as register
    from netcl_core.plugins.manual_registration import unregister as unregister
    from netcl_core.plugins.plugin import Plugin as Plugin

    Explanation: Any
    why: Any

#: module, or namespace that a plugin brings -> its names
_MODULES: Final = {
    "decisions": "Explanation why",
    "errors": "PluginWarning",
    "plugins.commands": "plugin_commands",
    "plugins.finder": "unlocked",
    "plugins.loading": "load_installed",
    "plugins.manager": "absent add_templates list namespace",
    "plugins.manual_registration": "register unregister",
    "plugins.plugin": "Plugin",
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [*_MODULE_OF]
__getattr__ = fetched(__name__, _MODULE_OF)


def __dir__() -> Any:
    return sorted(__all__)
