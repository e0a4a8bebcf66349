"""What a market and tools build on: plugins, their failures, the registry, and its rules.

    from netcl_core.plugins.protocol import Finder, Plugin, registry

Versioned as the hooks are (`netcl_core.API_VERSION`). The names are fetched on first use:
`netcl plugins list` imports neither NumPy nor a plugin.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from netcl_core.plugins.complaints import tell as tell
    from netcl_core.plugins.failures import FAILURES as FAILURES
    from netcl_core.plugins.failures import INCOMPATIBLE as INCOMPATIBLE
    from netcl_core.plugins.failures import PAGE as PAGE
    from netcl_core.plugins.failures import QUARANTINED as QUARANTINED
    from netcl_core.plugins.failures import FailureKind as FailureKind
    from netcl_core.plugins.failures import kinds_of as kinds_of
    from netcl_core.plugins.failures import plugin_error as plugin_error
    from netcl_core.plugins.finder import Finder as Finder
    from netcl_core.plugins.finder import finder as finder
    from netcl_core.plugins.lock_file import LOCK_FILE as LOCK_FILE
    from netcl_core.plugins.lock_file import lock_file as lock_file
    from netcl_core.plugins.lock_file import nearest_lock_file as nearest_lock_file
    from netcl_core.plugins.plugin import CORE_PREFIX as CORE_PREFIX
    from netcl_core.plugins.plugin import MANIFEST as MANIFEST
    from netcl_core.plugins.plugin import PLUGINS as PLUGINS
    from netcl_core.plugins.plugin import PRIMITIVES as PRIMITIVES
    from netcl_core.plugins.plugin import Plugin as Plugin
    from netcl_core.plugins.registry import registry as registry
    from netcl_core.plugins.resolution import canonical as canonical
    from netcl_core.plugins.resolution import lock_is_strict as lock_is_strict
    from netcl_core.plugins.selection import give_prefixes as give_prefixes
    from netcl_core.plugins.selection import is_meant as is_meant
    from netcl_core.plugins.selection import meant as meant
    from netcl_core.plugins.selection import named_among as named_among
    from netcl_core.plugins.selection import switches as switches

#: module -> its names
_NAMES: Final = {
    "complaints": "tell",
    "failures": "FAILURES FailureKind INCOMPATIBLE PAGE QUARANTINED kinds_of plugin_error",
    "finder": "Finder finder",
    "plugin": "CORE_PREFIX MANIFEST PLUGINS PRIMITIVES Plugin",
    "registry": "registry",
    "lock_file": "LOCK_FILE lock_file nearest_lock_file",
    "resolution": "canonical lock_is_strict",
    "selection": "give_prefixes is_meant meant named_among switches",
}
_MODULE_OF: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"netcl_core.plugins.{_MODULE_OF[name]}"), name)
