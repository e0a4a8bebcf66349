"""Plugins: what is installed, what it brings, and who serves a name that several offer.

Owns the registry and its kinds, loading, the lock, the catalogue of who provides what, and in
`market` what can be known of installed plugins without importing any. Imports `tensors` and what
lies below it.

The names of `nc.plugins` are fetched on first use: `netcl plugins list` imports neither NumPy nor
a plugin.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from netcl_core.errors import PluginWarning
    from netcl_core.plugins.commands import plugin_commands
    from netcl_core.plugins.finder import unlocked
    from netcl_core.plugins.loading import load_installed
    from netcl_core.plugins.manager import (
        absent,
        add_templates,
        doctor_checks,
        list,
        namespace,
    )
    from netcl_core.plugins.manual_registration import register, unregister
    from netcl_core.plugins.plugin import Plugin

    Explanation: Any
    why: Any

#: name -> the module that has it; of an op's, `ops` does
_NAMES: Final = {
    "Explanation": "netcl_core.ops.why",
    "Plugin": "netcl_core.plugins.plugin",
    "PluginWarning": "netcl_core.errors",
    "absent": "netcl_core.plugins.manager",
    "add_templates": "netcl_core.plugins.manager",
    "doctor_checks": "netcl_core.plugins.manager",
    "list": "netcl_core.plugins.manager",
    "load_installed": "netcl_core.plugins.loading",
    "namespace": "netcl_core.plugins.manager",
    "plugin_commands": "netcl_core.plugins.commands",
    "register": "netcl_core.plugins.manual_registration",
    "unlocked": "netcl_core.plugins.finder",
    "unregister": "netcl_core.plugins.manual_registration",
    "why": "netcl_core.ops.why",
}

__all__ = [
    "Explanation",
    "Plugin",
    "PluginWarning",
    "absent",
    "add_templates",
    "doctor_checks",
    "list",
    "load_installed",
    "namespace",
    "plugin_commands",
    "register",
    "unlocked",
    "unregister",
    "why",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_NAMES[name]), name)


def __dir__() -> Any:
    return sorted(__all__)
