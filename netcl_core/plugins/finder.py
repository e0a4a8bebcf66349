"""Who finds plugins: netcl-market where it is installed, else their entry points alone."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from netcl_core import config
from netcl_core.errors import PluginError, message
from netcl_core.market import market_module
from netcl_core.plugins import plugin_warnings
from netcl_core.plugins.failures import UNREAD, plugin_error, said
from netcl_core.plugins.lock_file import LOCK_FILE, lock_file, lock_is_strict
from netcl_core.plugins.plugin import MANIFEST, PLUGINS, PRIMITIVES, Plugin
from netcl_core.plugins.resolution import canonical
from netcl_core.plugins.selection import give_prefixes, named_among, switches

_UNVERIFIED: Final = (
    "NP511: {} is not verified. Install what does: pip install netcl-market. "
    "Or unset `lock-strict` and `plugins-strict`."
)
_DATA: Final = "it is data, which is read with netcl-market: pip install netcl-market"


class Finder:
    """Finds plugins by their entry points, and obeys the settings that leave some out.

    It reads no manifests, so that every plugin is imported before anything is looked up. It
    remembers no failures, and verifies no lock: where a strict one asks for that, it raises
    PluginError NP511. A market overrides all of this.
    """

    def survey(self, memory: Path | None = None, skip: Sequence[str] = ()) -> list[Plugin]:
        """What is installed, sorted by distribution and name.

        Args:
            memory: The file of remembered failures, if it is not the cache folder's.
            skip: Keys of plugins that are known to end the interpreter.

        Raises PluginError if a lock file asks for what is not so.
        """
        installed = list(_distributions())
        named = named_among([distribution.name for distribution in installed])
        switched_off = switches(named, None)
        plugins = [plugin for distribution in installed for plugin in _plugins_of(distribution)]
        for plugin in plugins:
            plugin.reason = switched_off(plugin)
            if plugin.reason:
                plugin.state = "disabled"
            elif plugin.kind == "data":
                plugin.fail(plugin_error(UNREAD, _DATA), UNREAD)
        usable = [plugin for plugin in plugins if plugin.state == "found"]
        give_prefixes(usable)
        if usable:
            self._refuse_locks()
        return sorted(plugins, key=lambda each: (canonical(each.distribution), each.name))

    def require_lock(self, path: Path, sha256: str | None, late: bool) -> None:
        """Insist on a lock file; see `nc.require_lock`. `late`: plugins were looked up before."""
        raise plugin_error("NP511", _UNVERIFIED.format(path))

    def _refuse_locks(self) -> None:
        path = lock_file()
        if path is None and not config.get("lock-strict") and config.get("trust") != "signed":
            return
        text = _UNVERIFIED.format(path or LOCK_FILE)
        if lock_is_strict():
            raise plugin_error("NP511", text)
        plugin_warnings.tell([text])

    def notes(self, plugins: Sequence[Plugin]) -> list[str]:
        """What is to be complained of beside the states of plugins."""
        return []

    def insist(self, plugins: Collection[Plugin]) -> None:
        """Raise PluginError if a strict lock has chosen somebody who is missing."""

    def remember(self, plugin: Plugin) -> None:
        """Note what became of a plugin that was tried."""

    def save(self) -> None:
        """Write what is to be remembered."""

    def unlocked(self, strangers: bool) -> AbstractContextManager[None]:
        """A block in which no lock counts; see `netcl_core.plugins.unlocked`."""
        return nullcontext()

    def manifest_of(self, plugin: Plugin) -> Path | None:
        """The file of an installed plugin's manifest; None where it is not found."""
        return None

    def read(self, path: Path) -> bytes:
        """The content of a template."""
        return path.read_bytes()

    def folders(self, plugin: Plugin, package: str) -> list[str]:
        """Where a package lies, without importing it; of several folders the first."""
        spec = importlib.util.find_spec(package)
        places = spec.submodule_search_locations if spec is not None else None
        return [*(places or ())][:1]


@functools.cache
def finder() -> Finder:
    """The market's where it is installed.

    Raises PluginError if that cannot be imported: a lock that it may have to hold is not ignored.
    """
    try:
        module = market_module("market")
    except Exception as error:
        given = f"it is installed, and importing it raised {said(error)}"
        raise PluginError(message("netcl-market", given, "", "Reinstall or remove it")) from error
    chosen: Finder = Finder() if module is None else module.Market()
    return chosen


def unlocked(*, strangers: bool = True) -> AbstractContextManager[None]:
    """A block in which the lock file counts nothing, in the whole process.

    >>> with nc.plugins.unlocked():
    ...     states = {plugin.state for plugin in nc.plugins.list()}
    >>> "active" in states or "found" in states
    True

    For what writes and checks the lock: plugins that are loaded inside are not held
    against it, and its choices do not decide. Without `strangers`, what a strict lock does not
    know is not loaded all the same.
    """
    return finder().unlocked(strangers)


# -- entry points ------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _Distribution:
    """A `PluginSource` as importlib.metadata has it."""

    name: str
    version: str
    requires: tuple[str, ...] = ()
    location: str = ""
    points: dict[tuple[str, str], str] = field(default_factory=dict)


def _distributions() -> Iterator[_Distribution]:
    """Every installed distribution with entry points of ours; of several copies the first."""
    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        points = {(point.group, point.name): point.value for point in distribution.entry_points
                  if point.group in (PLUGINS, PRIMITIVES, MANIFEST)}  # fmt: skip
        if points and canonical(distribution.name) not in seen:
            seen.add(canonical(distribution.name))
            yield _Distribution(
                distribution.name,
                distribution.version,
                tuple(distribution.requires or ()),
                "",
                points,
            )


def _plugins_of(source: _Distribution) -> Iterator[Plugin]:
    """Its plugins; a manifest is one where there is no code."""
    code = [key for key in source.points if key[0] != MANIFEST]
    for group, name in sorted(code or source.points):
        yield Plugin(name, source.name, source.version, group=group, source=source)
