"""Plugins: find them, load each in its own `try`, fill the registry. Only this module knows pluggy.

A plugin is an entry point: `netcl_core.plugins` names an object or module with
`@hookimpl` methods, `netcl_core.primitives` a single primitive. What a plugin
registers appears all at once or not at all; a plugin that fails is quarantined
with its reason, and all others go on.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, Final, final

import importlib_metadata
import pluggy

from netcl_core import config, hookspecs
from netcl_core.autograd import frames
from netcl_core.errors import MissingNamespaceError, PluginError, message
from netcl_core.explain import Explanation, explain
from netcl_core.providers import how_to_get
from netcl_core.registrars import NamespaceRegistrar, OperatorRegistrar, PrimitiveRegistrar
from netcl_core.registry import Transaction, registry
from netcl_core.rendering import add_prefix, has_prefix

PLUGINS: Final = "netcl_core.plugins"
PRIMITIVES: Final = "netcl_core.primitives"
CORE_PREFIX: Final = "core"


class PluginWarning(UserWarning):
    """A plugin could not be loaded; everything else works."""


@final
@dataclass(slots=True)
class Plugin:
    """One plugin and its state: `active` or `quarantined` with a reason.

    `provides` are the names of its ops and namespaces; `group` is the entry-point
    group that it was found in, empty for one given to `register`.
    """

    name: str
    distribution: str
    version: str
    state: str = "loading"
    reason: str = ""
    traceback: str = ""
    provides: tuple[str, ...] = ()
    group: str = ""
    implementations: Any = field(default=None, repr=False)


_known: Final[dict[str, Plugin]] = {}
_manager: Final = pluggy.PluginManager(hookspecs.PROJECT)
_manager.add_hookspecs(hookspecs)


# -- loading -------------------------------------------------------------------------


def load_installed() -> None:
    """Load every installed plugin that is not loaded yet, sorted by distribution name."""
    if not config.get("plugins-autoload"):
        return
    with registry.lock:
        for group in (PLUGINS, PRIMITIVES):
            for point in _entry_points(group):
                _load_entry_point(group, point)


def _entry_points(group: str) -> Sequence[Any]:
    points = importlib_metadata.entry_points(group=group)
    return sorted(points, key=lambda point: (_distribution(point)[0], point.name))


def _distribution(point: Any) -> tuple[str, str]:
    dist = point.dist
    return (dist.name, dist.version) if dist is not None else ("unknown", "0")


def _load_entry_point(group: str, point: Any) -> None:
    distribution, version = _distribution(point)
    plugin = Plugin(point.name, distribution, version, group=group)
    key = point.name
    other = _known.get(key)
    if other is not None and (other.distribution, other.group) != (distribution, group):
        key = f"{distribution}:{group}:{point.name}"
    if key in _known:  # an earlier look, which was interrupted, came this far
        return
    _known[key] = plugin
    try:
        if key != point.name:
            raise PluginError(
                message(
                    distribution,
                    f"the plugin name {point.name!r} is taken by {_place(other)}",
                    "a name of its own for each plugin",
                    "Rename the entry point of one of the two",
                )
            )
        package = point.module.partition(".")[0]
        _add_templates(point.name, package)
        loaded = point.load()
        if group == PRIMITIVES:
            _enter_primitive(plugin, loaded)
        else:
            _enter_hooks(plugin, loaded)
        frames.add_own(package)
    except (KeyboardInterrupt, MemoryError):
        del _known[key]  # not the plugin's fault: it is tried again
        raise
    except BaseException as error:  # a plugin may raise anything, SystemExit included
        _quarantine(plugin, error)


def _place(plugin: Plugin | None) -> str:
    return "" if plugin is None else f"{plugin.distribution} ({plugin.group or 'register'})"


def _add_templates(prefix: str, package: str) -> None:
    """Make the `templates` folder of a package known, without importing the package.

    Raises PluginError for the prefix of the core's own templates.
    """
    if prefix == CORE_PREFIX:
        raise PluginError(
            message(
                f"plugin {prefix!r}",
                "this is the prefix of the core's own templates",
                "another name",
                "Rename the plugin's entry point",
            )
        )
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(place) / "templates"
        if folder.is_dir():
            add_prefix(prefix, folder)


def _quarantine(plugin: Plugin, error: BaseException) -> None:
    plugin.state = "quarantined"
    registry.quarantined[plugin.distribution] = f"{type(error).__name__}: {error}"
    plugin.reason = f"{type(error).__name__}: {error}"
    plugin.traceback = "".join(traceback.format_exception(error))
    _warn(plugin, f"quarantined ({plugin.reason})")


def _warn(plugin: Plugin, state: str) -> None:
    text = message(
        f"plugin {plugin.name!r} of {plugin.distribution} {plugin.version}",
        state,
        "",
        f"Repair, upgrade or uninstall {plugin.distribution}; everything else works",
    )
    warnings.warn(text, PluginWarning, stacklevel=2)


def _enter_primitive(plugin: Plugin, record: Any) -> None:
    transaction = registry.transaction(plugin.distribution)
    PrimitiveRegistrar(transaction, plugin.name).add(record)
    transaction.commit()
    _activate(plugin, transaction)


def _enter_hooks(plugin: Plugin, loaded: Any) -> None:
    """Call the plugin's registration hooks and enter what they add, all or nothing."""
    transaction = registry.transaction(plugin.distribution)
    try:
        _manager.register(loaded, plugin.name)
        hooks = _hooks(plugin, loaded)
        if "netcl_template_loader" in hooks:
            add_prefix(plugin.name, hooks["netcl_template_loader"]())
        registrars: dict[str, Any] = {
            "netcl_register_primitives": PrimitiveRegistrar(transaction, plugin.name),
            "netcl_register_operators": OperatorRegistrar(transaction),
            "netcl_register_namespaces": NamespaceRegistrar(transaction),
        }
        for name, registrar in registrars.items():
            if name in hooks:
                hooks[name](registrar)
        transaction.commit()
    except BaseException:
        if _manager.get_plugin(plugin.name) is loaded:  # pluggy keeps what it half registered
            _manager.unregister(loaded)
        raise
    plugin.implementations = loaded
    _activate(plugin, transaction)


def _activate(plugin: Plugin, transaction: Transaction) -> None:
    plugin.provides = tuple(row.record.name for row in transaction)
    plugin.state, plugin.reason, plugin.traceback = "active", "", ""


def _hooks(plugin: Plugin, loaded: Any) -> dict[str, Callable[..., Any]]:
    """The plugin's own hook functions by name; raises PluginError for a misspelt or foreign one."""
    found: dict[str, Callable[..., Any]] = {}
    known = [name for name in vars(hookspecs) if name.startswith("netcl_")]
    for caller in _manager.get_hookcallers(loaded) or []:
        for implementation in caller.get_hookimpls():
            if implementation.plugin is loaded:
                found[caller.name] = implementation.function
    wrong = sorted(name for name in found if name not in known)
    wrong += [name for name in _unmarked(loaded) if name not in found and name.startswith("netcl_")]
    if wrong:
        close = get_close_matches(wrong[0], known, n=1)
        hint = f"Did you mean {close[0]}?" if close and close[0] != wrong[0] else ""
        raise PluginError(
            message(
                plugin.distribution,
                f"{wrong[0]!r} is no hook of netcl, or is not marked",
                "functions that are named after a hook and marked with netcl_core.hookimpl",
                hint or "Put @hookimpl above it: from netcl_core import hookimpl",
            )
        )
    if not found:
        raise PluginError(
            message(
                plugin.distribution,
                f"the plugin {loaded!r} has no hooks",
                "at least one method marked with @hookimpl",
                "Import the marker with: from netcl_core import hookimpl",
            )
        )
    return found


def _unmarked(loaded: Any) -> Sequence[str]:
    return [name for name, value in inspect.getmembers(loaded) if inspect.isroutine(value)]


# -- the public face -----------------------------------------------------------------


def register(plugin: Any, name: str | None = None) -> Plugin:
    """Load a plugin object or module of this process; raises what its hooks raise.

    `name` is its template prefix and the name under which `unregister` knows it.
    """
    chosen = name or getattr(plugin, "__name__", None) or type(plugin).__name__
    with registry.lock:
        if chosen in _known:
            raise PluginError(
                message("register", f"{chosen!r} is registered already", "a new name")
            )
        entry = Plugin(chosen, chosen, "0")
        package = _package_of(plugin)
        if package is not None and not has_prefix(chosen):
            _add_templates(chosen, package)
        try:
            _enter_hooks(entry, plugin)
        except Exception as error:
            error.add_note(f"while registering the plugin {chosen!r}")
            raise
        _known[chosen] = entry
    return entry


def _package_of(plugin: Any) -> str | None:
    holder = plugin if isinstance(plugin, ModuleType) else inspect.getmodule(type(plugin))
    module = getattr(holder, "__name__", None)
    return None if module in (None, "__main__") else str(module).partition(".")[0]


def unregister(name: str) -> None:
    """Take a plugin and all it provides out of this process; raises PluginError if unknown."""
    with registry.lock:
        plugin = _known.pop(name, None)
        if plugin is None:
            known = ", ".join(sorted(_known)) or "none"
            raise PluginError(message("unregister", f"{name!r} is unknown", f"one of {known}"))
        if plugin.implementations is not None:
            _manager.unregister(plugin.implementations)
        registry.remove_provider(plugin.distribution)


def list() -> Sequence[Plugin]:
    """All plugins with their states, loading them if that has not happened."""
    registry.load()
    return sorted(_known.values(), key=lambda plugin: (plugin.distribution, plugin.name))


def add_templates(prefix: str, folder: str | Path) -> None:
    """Make `<prefix>/<file>` mean a template in `folder`, for primitives outside plugins."""
    add_prefix(prefix, folder)


def namespace(name: str) -> ModuleType:
    """The module of a namespace such as `nn`.

    Raises MissingNamespaceError that names the package to install, AttributeError
    for a name that nobody knows.
    """
    row = registry.find("namespace", name)
    if row is not None:
        return importlib.import_module(row.record.module)
    remedy = how_to_get("namespaces", name)
    if remedy is None:
        raise AttributeError(f"module 'netcl_core' has no attribute {name!r}")
    given = "no installed plugin provides this namespace"
    raise MissingNamespaceError(message(f"netcl_core.{name}", given, "", remedy))


def why(op: str, *, device: Any = None, dtype: str = "float32") -> Explanation:
    """Which provider and implementation of an op is used on a device, and why (print it).

    Raises MissingOpError for an unknown op.
    """
    return explain(op, device, dtype)


def plugin_commands() -> dict[str, Any]:
    """The click commands that plugins add to `netcl`; a failing hook adds none, with a warning."""
    commands: dict[str, Any] = {}
    for plugin, function in _implementing("netcl_cli_commands"):
        added: dict[str, Any] = {}
        try:
            function(lambda command, into=added: into.__setitem__(command.name, command))
            if taken := sorted(added.keys() & commands.keys()):
                raise PluginError(message(plugin.name, f"the command {taken[0]!r} is taken"))
        except Exception as error:  # a plugin may raise anything; the other commands stay
            _warn(plugin, f"has no commands ({type(error).__name__}: {error})")
            continue
        commands |= added
    return commands


def doctor_checks() -> Iterable[tuple[str, bool, str]]:
    """What plugins report to `netcl doctor`, and one line per plugin that does not work."""
    for plugin in list():
        if plugin.state == "quarantined":
            yield f"plugin {plugin.name} of {plugin.distribution}", False, plugin.reason
    for plugin, function in _implementing("netcl_doctor"):
        try:
            found = [
                (f"{plugin.name}: {name}", bool(ok), str(text)) for name, ok, text in function()
            ]
        except Exception as error:  # a plugin may raise anything; it becomes a finding
            found = [(f"plugin {plugin.name}", False, f"{type(error).__name__}: {error}")]
        yield from found


def _implementing(hook: str) -> Iterable[tuple[Plugin, Callable[..., Any]]]:
    registry.load()
    for plugin in sorted(_known.values(), key=lambda each: each.name):
        for implementation in getattr(_manager.hook, hook).get_hookimpls():
            if plugin.implementations is implementation.plugin:
                yield plugin, implementation.function
