"""Imports plugins, each in its own `try`, and enters what they bring.

What a plugin registers appears all at once or not at all; a plugin that fails is
quarantined with its reason, and all others go on.
"""

from __future__ import annotations

import importlib.util
import inspect
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from netcl_core import config
from netcl_core.errors import PluginError, message
from netcl_core.plugins import complaints, hooks, locking
from netcl_core.plugins.kinds import KINDS, SHORT_ROAD, registrar
from netcl_core.plugins.market.failures import code_of, plugin_error
from netcl_core.plugins.market.finding import PRIMITIVES
from netcl_core.plugins.market.states import States
from netcl_core.plugins.market.survey import CORE_PREFIX, Plugin, survey, unknown_names
from netcl_core.plugins.registry import Transaction, registry
from netcl_core.runtime.rendering import add_prefix, drop_prefix, has_prefix

#: Every plugin of this process: a working or quarantined one by its name, others by their key.
known: Final[dict[str, Plugin]] = {}
#: The hooks that are given a registrar, each once, in the order of the table of kinds.
_REGISTRATION: Final = tuple(dict.fromkeys(kind.hook for kind in KINDS.values() if kind.registrar))


# -- what is installed -----------------------------------------------------------------


def load_installed(
    begin: Callable[[Plugin], None] = lambda plugin: None, path: Path | None = None
) -> None:
    """Load every installed plugin that is not loaded yet, sorted by distribution name.

    Before anything is imported, what is installed is held against the lock file.

    Args:
        begin: Told before each plugin which one it is.
        path: The file of remembered failures, if it is not that of the cache folder.

    Raises PluginError with NETCL_PLUGINS_STRICT if a plugin cannot be loaded or, also with
    NETCL_LOCK_STRICT, if the lock file does not fit.
    """
    with registry.lock:
        states = States(path)
        try:
            found = survey(states, deadly_only=True)
            locking.hold([each.source for each in found if each.source is not None])
            for plugin in found:
                if not _is_known(plugin):
                    begin(plugin)
                    _take_up(plugin, states)
        finally:
            states.save()
        told = [*unknown_names(found), *complaints.unused()]
        if config.get("plugins-strict"):
            complaints.insist(known.values(), told)
        complaints.tell(told)


def rehearse(begin: Callable[[Plugin], None], skip: Sequence[str]) -> None:
    """Load everything as `load_installed` does, telling before each plugin which one it is.

    For a child process that may end at any of them; nothing is remembered on disk.
    """
    with registry.lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for plugin in survey(States(Path()), deadly_only=True, skip=skip):
            if plugin.state == "found":
                begin(plugin)
                _load(plugin)


def _is_known(plugin: Plugin) -> bool:
    """Whether an earlier look, which was interrupted, came this far."""
    held = known.get(plugin.name)
    return plugin.key in known or (held is not None and held.key == plugin.key)


def _take_up(plugin: Plugin, states: States) -> None:
    if plugin.state == "found" and plugin.name in known:  # given to `register` before
        other = known[plugin.name]
        text = f"the plugin name {plugin.name!r} is taken by {other.distribution} (register)"
        plugin.fail(plugin_error("NP113", text), "NP113")
    if plugin.state != "found":
        known[plugin.key] = plugin
        complaints.report(plugin)
        return
    known[plugin.name] = plugin
    try:
        _load(plugin)
    except BaseException:  # not the plugin's fault: it is tried again
        del known[plugin.name]
        raise
    assert plugin.source is not None  # it was found installed
    if plugin.failed:
        states.put(
            plugin.source, plugin.group, plugin.name, plugin.code, plugin.reason, plugin.traceback
        )
    else:
        states.clear(plugin.source, plugin.group, plugin.name)
    complaints.report(plugin)


def _load(plugin: Plugin) -> None:
    """Import and register one plugin; whatever it raises becomes its state."""
    assert plugin.source is not None  # it was found installed
    module = plugin.source.points[plugin.group, plugin.name].partition(":")[0].strip()
    package = module.partition(".")[0]
    importing = True
    plugin.state, plugin.own_prefix = "loading", True
    try:
        _add_templates(plugin.name, package)
        try:
            loaded = plugin.source.load(plugin.group, plugin.name)
        except AttributeError as error:
            raise _missing_attribute(error) from error
        importing = False
        if plugin.group == PRIMITIVES:
            _enter_primitive(plugin, loaded)
        else:
            _enter_hooks(plugin, loaded)
        registry.add_package(package)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # a plugin may raise anything, SystemExit included
        error.add_note(f"while loading the plugin {plugin.name!r} of {plugin.distribution}")
        text = "".join(traceback.format_exception(error))
        plugin.fail(error, code_of(error, importing, module), text)


def _missing_attribute(error: AttributeError) -> AttributeError:
    """The error with its code, if it comes from the look-up of the object and not from a module."""
    innermost = traceback.extract_tb(error.__traceback__)[-1].filename
    if "importlib_metadata" in innermost:
        error.code = "NP205"  # type: ignore[attr-defined]
    return error


# -- entering one plugin ---------------------------------------------------------------


def _add_templates(prefix: str, package: str) -> None:
    """Make the `templates` folder of a package known, without importing the package."""
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(place) / "templates"
        if folder.is_dir():
            add_prefix(prefix, folder)


def _enter_primitive(plugin: Plugin, record: Any) -> None:
    transaction = registry.transaction(plugin.distribution, owner=plugin.key)
    registrar(KINDS[SHORT_ROAD].hook, transaction, plugin.name).add(record)
    transaction.commit()
    _activate(plugin, transaction)


def _enter_hooks(plugin: Plugin, loaded: Any) -> None:
    """Call the plugin's registration hooks and enter what they add, all or nothing."""
    transaction = registry.transaction(plugin.distribution, owner=plugin.key)
    found = hooks.take_up(plugin.distribution, plugin.name, loaded)
    try:
        if "netcl_template_loader" in found:
            add_prefix(plugin.name, found["netcl_template_loader"]())
        for name in _REGISTRATION:
            if name in found:
                found[name](registry=registrar(name, transaction, plugin.name))
        transaction.commit()
    except BaseException:
        hooks.drop(loaded)
        raise
    plugin.implementations = loaded
    _activate(plugin, transaction)


def _activate(plugin: Plugin, transaction: Transaction) -> None:
    manifest = plugin.manifest
    if manifest is not None and not manifest.requires.anything:
        registry.limits[plugin.key] = manifest.requires.unmet
    plugin.provides = tuple(row.record.name for row in transaction.rows)
    plugin.state, plugin.reason, plugin.traceback, plugin.code = "active", "", "", ""


# -- plugins of this process -----------------------------------------------------------


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
        if chosen in known:
            raise PluginError(
                message("register", f"{chosen!r} is registered already", "a new name")
            )
        if chosen == CORE_PREFIX:
            text = message("register", f"{chosen!r} is the prefix of the core's own templates",
                           "another name")  # fmt: skip
            raise plugin_error("NP114", text)
        entry = Plugin(chosen, chosen, "0", "loading", own_prefix=not has_prefix(chosen))
        package = _package_of(plugin)
        try:
            if package is not None and entry.own_prefix:
                _add_templates(chosen, package)
            _enter_hooks(entry, plugin)
        except BaseException as error:
            error.add_note(f"while registering the plugin {chosen!r}")
            if entry.own_prefix:
                drop_prefix(chosen)
            raise
        known[chosen] = entry
        complaints.tell(complaints.unused())
    return entry


def _package_of(plugin: Any) -> str | None:
    holder = plugin if isinstance(plugin, ModuleType) else inspect.getmodule(type(plugin))
    module = getattr(holder, "__name__", None)
    return None if module in (None, "__main__") else str(module).partition(".")[0]


def unregister(name: str) -> None:
    """Take a plugin and all it provides out of this process; raises PluginError if unknown."""
    with registry.lock:
        plugin = known.pop(name, None)
        if plugin is None:
            names = ", ".join(sorted(known)) or "none"
            raise PluginError(message("unregister", f"{name!r} is unknown", f"one of {names}"))
        if plugin.implementations is not None:
            hooks.drop(plugin.implementations)
        if plugin.own_prefix:
            drop_prefix(plugin.name)
        registry.remove_provider(plugin.distribution, plugin.key)


def implementing(hook: str) -> Iterable[tuple[Plugin, hooks.PluginHook]]:
    """The active plugins that implement a hook, sorted by name, each with its own."""
    registry.load()
    for plugin in sorted(known.values(), key=lambda each: each.name):
        if plugin.implementations is not None:
            found = hooks.hook_of(plugin.implementations, hook)
            if found is not None:
                yield plugin, found
