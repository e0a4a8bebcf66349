"""The market as the core's loader asks it: what is installed, judged, remembered and locked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import final

from netcl_core.plugins.protocol import UNREAD, Finder, Plugin
from netcl_market import locking, sealed
from netcl_market.manifests import locate
from netcl_market.required_lock import require
from netcl_market.states import States
from netcl_market.survey import survey, unknown_names


@final
class Market(Finder):
    """Finds plugins by their metadata and manifests, and holds them against the lock file."""

    def __init__(self) -> None:
        self._states: States | None = None

    def survey(self, memory: Path | None = None, skip: Sequence[str] = ()) -> list[Plugin]:
        """What is installed; what raised an exception before is to be tried again."""
        self._states = States(memory)
        try:
            plugins = survey(
                self._states, deadly_only=True, skip=skip, unlocked=locking.admits_strangers()
            )
            locking.hold([plugin.source for plugin in plugins])
        finally:
            self.save()
        return plugins

    def require_lock(self, path: Path, sha256: str | None, late: bool) -> None:
        """Insist on a lock file that is there and, if a digest is given, has it."""
        require(path, sha256, late)

    def notes(self, plugins: Sequence[Plugin]) -> list[str]:
        """A complaint for each name in the settings that means no installed plugin, or two."""
        return unknown_names(plugins)

    def insist(self, plugins: Collection[Plugin]) -> None:
        """Raise PluginError NP509 if a strict lock has chosen somebody who is missing."""
        locking.insist(plugins)

    def remember(self, plugin: Plugin) -> None:
        """Note on disk whether a plugin that was tried works.

        A missing reader is not remembered: it is another distribution, which may come at any time.
        """
        states = self._states = self._states or States()
        if plugin.failed and plugin.code != UNREAD:
            states.put(
                plugin.source,
                plugin.group,
                plugin.name,
                plugin.code,
                plugin.reason,
                plugin.traceback,
            )
        else:
            states.clear(plugin.source, plugin.group, plugin.name)

    def save(self) -> None:
        """Write what has changed."""
        if self._states is not None:
            self._states.save()

    def unlocked(self, strangers: bool) -> AbstractContextManager[None]:
        """A block in which no lock counts; see `netcl_core.plugins.unlocked`."""
        return locking.unlocked(strangers=strangers)

    def manifest_of(self, plugin: Plugin) -> Path | None:
        """The file of an installed plugin's manifest; None where it is not found."""
        return locate(plugin.source, plugin.source.points[plugin.group, plugin.name])

    def read(self, path: Path) -> bytes:
        """The content of a template; raises PluginError NP512 if a strict lock has another."""
        return sealed.read(path)

    def folders(self, plugin: Plugin, package: str) -> list[str]:
        """Where a package of an installed plugin lies: where its RECORD puts it."""
        return plugin.source.folders(package) or super().folders(plugin, package)
