"""What a market and tools build on: plugins, their failures, the registry, and its rules.

    from netcl_core.plugins.protocol import Finder, Plugin, registry

Versioned as the hooks are (`netcl_core.API_VERSION`). The names are fetched on first use:
`netcl plugins list` imports neither NumPy nor a plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from netcl_core.plugins.namespace_import import fetched

if TYPE_CHECKING:
    from netcl_core.hookspecs import SINCE as SINCE
    from netcl_core.plugins.catalogue import catalogue as catalogue
    from netcl_core.plugins.catalogue import how_to_get as how_to_get
    from netcl_core.plugins.catalogue import providers as providers
    from netcl_core.plugins.commands import command_providers as command_providers
    from netcl_core.plugins.commands import decision_on as decision_on
    from netcl_core.plugins.commands import plugin_commands as plugin_commands
    from netcl_core.plugins.failures import INCOMPATIBLE as INCOMPATIBLE
    from netcl_core.plugins.failures import PAGE as PAGE
    from netcl_core.plugins.failures import QUARANTINED as QUARANTINED
    from netcl_core.plugins.failures import REMEDIES as REMEDIES
    from netcl_core.plugins.failures import STATES as STATES
    from netcl_core.plugins.failures import UNREAD as UNREAD
    from netcl_core.plugins.failures import plugin_error as plugin_error
    from netcl_core.plugins.finder import Finder as Finder
    from netcl_core.plugins.finder import finder as finder
    from netcl_core.plugins.hooks import ask as ask
    from netcl_core.plugins.kinds import KINDS as KINDS
    from netcl_core.plugins.kinds import OP_KINDS as OP_KINDS
    from netcl_core.plugins.kinds import REGISTERED as REGISTERED
    from netcl_core.plugins.kinds import SHORT_ROAD as SHORT_ROAD
    from netcl_core.plugins.kinds import RecordKind as RecordKind
    from netcl_core.plugins.loading import implementing as implementing
    from netcl_core.plugins.loading import known as known
    from netcl_core.plugins.loading import load_installed as load_installed
    from netcl_core.plugins.loading import rehearse as rehearse
    from netcl_core.plugins.loading import withdraw as withdraw
    from netcl_core.plugins.lock_file import LOCK_FILE as LOCK_FILE
    from netcl_core.plugins.lock_file import content_of as content_of
    from netcl_core.plugins.lock_file import lock_file as lock_file
    from netcl_core.plugins.lock_file import lock_is_strict as lock_is_strict
    from netcl_core.plugins.lock_file import nearest_lock_file as nearest_lock_file
    from netcl_core.plugins.lock_file import required_locks as required_locks
    from netcl_core.plugins.lock_file import switched_off as switched_off
    from netcl_core.plugins.namespace_import import NamespaceFinder as NamespaceFinder
    from netcl_core.plugins.plugin import CORE_PREFIX as CORE_PREFIX
    from netcl_core.plugins.plugin import MANIFEST as MANIFEST
    from netcl_core.plugins.plugin import PLUGINS as PLUGINS
    from netcl_core.plugins.plugin import PRIMITIVES as PRIMITIVES
    from netcl_core.plugins.plugin import Plugin as Plugin
    from netcl_core.plugins.plugin_warnings import tell as tell
    from netcl_core.plugins.registry import USER as USER
    from netcl_core.plugins.registry import USER_PRIORITY as USER_PRIORITY
    from netcl_core.plugins.registry import Row as Row
    from netcl_core.plugins.registry import registry as registry
    from netcl_core.plugins.registry import reserved as reserved
    from netcl_core.plugins.registry import winner_of as winner_of
    from netcl_core.plugins.resolution import Choice as Choice
    from netcl_core.plugins.resolution import Decision as Decision
    from netcl_core.plugins.resolution import Offer as Offer
    from netcl_core.plugins.resolution import canonical as canonical
    from netcl_core.plugins.resolution import decide as decide
    from netcl_core.plugins.selection import give_prefixes as give_prefixes
    from netcl_core.plugins.selection import is_meant as is_meant
    from netcl_core.plugins.selection import meant as meant
    from netcl_core.plugins.selection import named_among as named_among
    from netcl_core.plugins.selection import switches as switches

#: module -> its names
_NAMES: Final = {
    "hookspecs": "SINCE",
    "plugins.catalogue": "catalogue how_to_get providers",
    "plugins.commands": "command_providers decision_on plugin_commands",
    "plugins.plugin_warnings": "tell",
    "plugins.failures": "INCOMPATIBLE PAGE QUARANTINED REMEDIES STATES UNREAD plugin_error",
    "plugins.finder": "Finder finder",
    "plugins.hooks": "ask",
    "plugins.kinds": "KINDS OP_KINDS REGISTERED SHORT_ROAD RecordKind",
    "plugins.loading": "implementing known load_installed rehearse withdraw",
    "plugins.lock_file": (
        "LOCK_FILE content_of lock_file lock_is_strict nearest_lock_file required_locks "
        "switched_off"
    ),
    "plugins.namespace_import": "NamespaceFinder",
    "plugins.plugin": "CORE_PREFIX MANIFEST PLUGINS PRIMITIVES Plugin",
    "plugins.registry": "USER USER_PRIORITY Row registry reserved winner_of",
    "plugins.resolution": "Choice Decision Offer canonical decide",
    "plugins.selection": "give_prefixes is_meant meant named_among switches",
}
_MODULE_OF: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_MODULE_OF]
__getattr__ = fetched(__name__, _MODULE_OF)
