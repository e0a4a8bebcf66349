"""Imports plugins when something may need them, each in its own `try`, and enters what they bring.

Who that is their manifests say, and the names of the short road; a plugin that does not say what
it brings is imported before anything is looked up. What a plugin registers appears all at once or
not at all; one that fails is quarantined with its reason, and all others go on.
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from netcl_core import config
from netcl_core.plugins import hooks, importing, plugin_warnings
from netcl_core.plugins.catalogue import how_to_get
from netcl_core.plugins.failures import UNREAD, code_of, plugin_error, said
from netcl_core.plugins.finder import Finder, finder
from netcl_core.plugins.importing import import_object, traced, watched
from netcl_core.plugins.kinds import DECLARED, KINDS, SHORT_ROAD, registrar
from netcl_core.plugins.plugin import PRIMITIVES, Plugin
from netcl_core.plugins.registry import Transaction, registry
from netcl_core.plugins.resolution import canonical
from netcl_core.plugins.selection import shared_names
from netcl_core.runtime.recording import uncaptured
from netcl_core.runtime.rendering import add_prefix, promise_prefixes, share_prefixes

#: Every plugin of this process by its key, whatever became of it.
known: Final[dict[str, Plugin]] = {}
#: The hooks that are given a registrar, each once, in the order of the table of kinds.
_REGISTRATION: Final = tuple(dict.fromkeys(kind.hook for kind in KINDS.values() if kind.registrar))


# -- what is installed -----------------------------------------------------------------


def adopt(plugin: Plugin) -> None:
    """Count a plugin that was not found but given among those of this process."""
    known[plugin.key] = plugin


def load_needed(kinds: tuple[str, ...] | None, name: str) -> None:
    """Load whoever may meet a need of the registry's, see `Registry.load`."""
    if kinds is None:
        _load_all([*known.values()])
    elif kinds:
        _load_all(_offering(kinds, name))
    else:
        told = _look()
        everything = config.get("plugins-strict")
        _load_all([plugin for plugin in known.values() if everything or not plugin.offers], told)


def load_installed(
    begin: Callable[[Plugin], None] = lambda plugin: None, path: Path | None = None
) -> None:
    """Load every installed plugin that is not loaded yet, each after those that it depends on.

    >>> nc.plugins.load_installed()
    >>> "found" in {plugin.state for plugin in nc.plugins.list()}
    False

    Before anything is imported, what is installed is held against the lock file.

    Args:
        begin: Told before each plugin which one it is.
        path: The file of remembered failures, if it is not the cache folder's.

    Raises PluginError with NETCL_PLUGINS_STRICT if a plugin cannot be loaded or, also with
    NETCL_LOCK_STRICT, if the lock file does not fit.
    """
    with registry.lock:
        told = _look(path)
        _load_all([*known.values()], told, begin)


def _look(memory: Path | None = None) -> list[str]:
    """Find what is installed and what it promises; returns what is to be complained of."""
    installed = finder().survey(memory)
    new = [
        plugin
        for plugin in installed
        if plugin.key not in known or known[plugin.key].state == "found"
    ]
    for plugin in new:
        known[plugin.key] = plugin
        if plugin.state != "found":
            plugin_warnings.report(plugin)
    _promise([plugin for plugin in new if plugin.state == "found"])
    return finder().notes(installed)


def _promise(plugins: Sequence[Plugin]) -> None:
    """Let what plugins offer, and their templates, be found before they are loaded."""
    promised = registry.demand.promised
    taken = {plugin.prefix for plugin in known.values() if plugin.state != "found"}
    for plugin in plugins:
        if plugin.prefix in taken:
            plugin.prefix = plugin.id  # one that was given to `register` has it
        for offer in plugin.offers:
            promised.setdefault(offer, set()).add(plugin.key)
    promise_prefixes(
        {
            prefix: partial(_find_templates, plugin)
            for plugin in plugins
            for prefix in {plugin.prefix, plugin.id}
        }
    )
    share_prefixes(shared_names(plugins))
    registry.add_packages({_package_named(plugin) for plugin in plugins})


def _find_templates(plugin: Plugin) -> None:
    """Add a plugin's templates; where its package has none, only its hook tells where they are."""
    with registry.lock:
        if not _add_own_templates(plugin):
            _load_all([plugin])


def _offering(kinds: Sequence[str], name: str) -> list[Plugin]:
    """The plugins that are not loaded yet and offer something of some kinds and that name."""
    promised = registry.demand.promised
    offers = [offer for offer in promised if offer[0] in kinds] if not name else [
        (kind, name) for kind in kinds]  # fmt: skip
    keys = sorted({key for offer in offers for key in promised.get(offer, ())})
    return [known[key] for key in keys]


def _load_all(
    plugins: Sequence[Plugin],
    told: Sequence[str] = (),
    begin: Callable[[Plugin], None] = lambda plugin: None,
) -> None:
    """Load those of some plugins that are not, each after those of them that it depends on."""
    if any(plugin.state == "loading" for plugin in plugins):
        registry.demand.peeked = True
    new = in_order([plugin for plugin in plugins if plugin.state == "found"])
    if new:
        _take_up_each(new, begin)
    finder().insist([*known.values()])
    told = [*told, *(plugin_warnings.unused() if new else ())]
    if config.get("plugins-strict"):
        plugin_warnings.insist(known.values(), told)
    plugin_warnings.tell(told)


def _take_up_each(plugins: Sequence[Plugin], begin: Callable[[Plugin], None]) -> None:
    try:
        # Who asks may be in the middle of a trace or a capture, of which plugins are no part.
        with uncaptured(), registry.demand.apart():
            for plugin in plugins:
                if known.get(plugin.key) is plugin and plugin.state == "found":  # still
                    begin(plugin)
                    _take_up(plugin)
    finally:
        finder().save()


def rehearse(begin: Callable[[Plugin], None], skip: Sequence[str]) -> None:
    """Load everything as `load_installed` does, telling before each plugin which one it is.

    For a child process that may end at any of them; nothing is remembered on disk.
    """
    with registry.lock, warnings.catch_warnings(), finder().unlocked(strangers=False):
        warnings.simplefilter("ignore")
        registry.demand.ask_again(None)  # nobody is loaded but by what follows
        installed = finder().survey(Path(), skip)
        for plugin in installed:
            if plugin.state == "found":
                _add_own_templates(plugin)
        for plugin in in_order(installed):
            if plugin.state == "found":
                begin(plugin)
                _load(plugin)


def _take_up(plugin: Plugin) -> None:
    try:
        _load(plugin)
    except BaseException:  # not the plugin's fault: it is tried again
        plugin.state = "found"
        raise
    withdraw(plugin)
    finder().remember(plugin)
    plugin_warnings.report(plugin)


def withdraw(plugin: Plugin) -> None:
    """Forget what a plugin has promised: it is there now, or never will be."""
    promised = registry.demand.promised
    for offer in plugin.offers:
        promised.get(offer, set()).discard(plugin.key)
        if not promised.get(offer):
            promised.pop(offer, None)


def _load(plugin: Plugin) -> None:
    """Import and register one plugin; whatever it raises becomes its state."""
    module = _module_of(plugin)
    importing = True
    plugin.state, plugin.own_prefix = "loading", True
    _add_own_templates(plugin)
    with watched() as interrupted:
        try:
            try:
                loaded = _declared(plugin) or import_object(_value_of(plugin))
            except AttributeError as error:
                raise _missing_attribute(error) from error
            importing = False
            if plugin.group == PRIMITIVES:
                _enter_primitive(plugin, loaded)
            else:
                enter_hooks(plugin, loaded)
        except BaseException as error:  # a plugin may raise anything, SystemExit included
            if interrupted():
                raise
            text = traced(error, f"while loading the plugin {plugin.name!r} of "
                                 f"{plugin.distribution}")  # fmt: skip
            plugin.fail(error, code_of(error, importing, module), text)


def _declared(plugin: Plugin) -> Any:
    """The hooks of a plugin that is data; None for one with code, which is imported.

    Raises PluginError NP106 where no active plugin reads data.
    """
    if plugin.kind == "code":
        return None
    manifest = finder().manifest_of(plugin)
    assert manifest is not None  # the survey has read it
    assert plugin.manifest is not None
    try:
        reader = registry.space(DECLARED)
    except Exception as error:  # the reader is a plugin, too
        given = f"what reads plugins that are data failed: {said(error)}"
        raise plugin_error(UNREAD, given) from error
    if reader is None:
        remedy = how_to_get(DECLARED, "namespace")
        raise plugin_error(UNREAD, f"it is data, and no active plugin reads it. {remedy}")
    hooks_of_data = reader.DeclaredPlugin
    return hooks_of_data(plugin.manifest.rows, manifest.parent / "templates", plugin.prefix)


def _missing_attribute(error: AttributeError) -> AttributeError:
    """The error with its code, if it comes from the look-up of the object and not from a module."""
    innermost = traceback.extract_tb(error.__traceback__)[-1].filename
    if innermost == importing.__file__:
        error.code = "NP205"  # type: ignore[attr-defined]
    return error


# -- entering one plugin ---------------------------------------------------------------


def _value_of(plugin: Plugin) -> str:
    """What the entry point of an installed plugin names."""
    value: str = plugin.source.points[plugin.group, plugin.name]
    return value


def _module_of(plugin: Plugin) -> str:
    """The module that an entry point names."""
    return _value_of(plugin).partition(":")[0].strip()


def _package_named(plugin: Plugin) -> str:
    """The package of the module that an entry point names."""
    return _module_of(plugin).partition(".")[0]


def _add_own_templates(plugin: Plugin) -> bool:
    """Add the templates of a plugin's package, once; False without any."""
    if not plugin.has_templates:
        with suppress(Exception):  # its import will fail, and be its state
            plugin.has_templates = add_templates(plugin, _package_named(plugin))
    return plugin.has_templates


def add_templates(plugin: Plugin, package: str) -> bool:
    """Make the `templates` folder of a package known, without importing it; False without one."""
    places = Finder() if plugin.source is None else finder()
    there = [Path(place) / "templates" for place in places.folders(plugin, package)]
    folders = [folder for folder in there if folder.is_dir()]
    for folder in folders:
        _add_folder(plugin, folder)
    return bool(folders)


def _add_folder(plugin: Plugin, folder: str | Path) -> None:
    for prefix in {plugin.prefix, plugin.id}:
        add_prefix(prefix, folder, plugin.distribution, finder().read)


def _enter_primitive(plugin: Plugin, record: Any) -> None:
    transaction = _transaction(plugin)
    registrar(KINDS[SHORT_ROAD].hook, transaction, plugin.prefix).add(record)
    _hold_to_promise(plugin, transaction)
    transaction.commit()
    _activate(plugin, transaction)


def enter_hooks(plugin: Plugin, loaded: Any) -> None:
    """Call the plugin's registration hooks and enter what they add, all or nothing."""
    transaction = _transaction(plugin)
    plugin_hooks = hooks.take_up(plugin.distribution, plugin.key, loaded)
    try:
        if "netcl_template_loader" in plugin_hooks:
            _add_folder(plugin, plugin_hooks["netcl_template_loader"]())
        for name in _REGISTRATION:
            if name in plugin_hooks:
                plugin_hooks[name](registry=registrar(name, transaction, plugin.prefix))
        _hold_to_promise(plugin, transaction, plugin_hooks)
        transaction.commit()
    except BaseException:
        hooks.drop(loaded)
        raise
    plugin.implementations = loaded
    _activate(plugin, transaction)


def _transaction(plugin: Plugin) -> Transaction:
    promised = bool(plugin.offers)
    return registry.transaction(plugin.distribution, owner=plugin.key, promised=promised)


def _hold_to_promise(
    plugin: Plugin, transaction: Transaction, own_hooks: Collection[str] = ()
) -> None:
    """Raise PluginError NP319 if a plugin registers something that its manifest does not list.

    Plugins are loaded by what their manifests list. A user would find the unlisted record only
    if something else had loaded the plugin before.
    """
    brought = {(row.kind, row.record.name) for row in transaction.rows if not row.part_of}
    beside = sorted(brought.difference(plugin.offers)) if plugin.offers else []
    texts = [f"the {kind} {name!r}" for kind, name in beside]
    kinds = {kind for kind, _ in plugin.offers} or KINDS.keys()
    texts += [f"a {row.name}" for row in KINDS.values()
              if not row.records and row.hook in own_hooks and row.name not in kinds]  # fmt: skip
    if texts:
        says = "its manifest" if plugin.manifest is not None else "its entry point"
        raise plugin_error("NP319", f"it brings {', '.join(texts)}, of which {says} says nothing")


def _activate(plugin: Plugin, transaction: Transaction) -> None:
    manifest = plugin.manifest
    if manifest is not None and not manifest.requires.anything:
        registry.limits[plugin.key] = manifest.requires.unmet
    plugin.provides = tuple(row.record.name for row in transaction.rows)
    plugin.state, plugin.reason, plugin.traceback, plugin.code = "active", "", "", ""


def implementing(
    hook: str, kinds: tuple[str, ...] | None = None
) -> Iterable[tuple[Plugin, hooks.PluginHook]]:
    """The active plugins that implement a hook, sorted by name, each with its own.

    `kinds`: Only those that bring something of these kinds have it.
    """
    registry.load(kinds)
    for plugin in sorted(known.values(), key=lambda active: (active.name, active.distribution)):
        if plugin.implementations is not None:
            plugin_hook = hooks.hook_of(plugin.implementations, hook)
            if plugin_hook is not None:
                yield plugin, plugin_hook


# -- the order: each plugin after those that its distribution depends on -------------------

_NEEDED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?!.*;.*\bextra\b)")


def in_order(plugins: Sequence[Plugin]) -> list[Plugin]:
    """The same plugins by `Requires-Dist`; those that nothing orders stay as they are.

    Of distributions that depend on each other, the first comes last.
    """
    of: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        of.setdefault(canonical(plugin.distribution), []).append(plugin)
    ordered: list[Plugin] = []
    seen: set[str] = set()
    for name in of:
        path = [(name, _needed(of[name]))] if name not in seen else []
        while path:  # no recursion: a chain of dependencies may be of any length
            current, needed = path[-1]
            seen.add(current)
            following = next((other for other in needed if other in of and other not in seen), None)
            if following is None:
                path.pop()
                ordered += of[current]
            else:
                path.append((following, _needed(of[following])))
    return ordered


def _needed(plugins: Sequence[Plugin]) -> Iterator[str]:
    """The canonical names of what a distribution depends on, without those of its extras."""
    for text in plugins[0].source.requires if plugins[0].source is not None else ():
        match = _NEEDED.match(text)
        if match is not None:
            yield canonical(match[1])
