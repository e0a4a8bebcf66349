"""Subject: the distribution that is checked, as its files and metadata show it; imports nothing."""

from __future__ import annotations

import email
import email.message
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final, final

import importlib_metadata
from netcl_market.finding import GROUPS, InstalledDistribution, distributions
from netcl_market.installed import is_editable
from netcl_market.manifests import locate
from netcl_market.requirements import CORE
from packaging.requirements import InvalidRequirement, Requirement

from netcl_core.errors import PluginError
from netcl_core.plugins.protocol import MANIFEST, canonical
from netcl_plugin_kit.packages.record import recorded

#: The extras that name what a plugin's tests and cases need.
_FOR_TESTS: Final = ("test", "tests", "dev")
_SECTION: Final = re.compile(r"\s*\[([^\]]+)\]\s*$")


@final
@dataclass(frozen=True)
class Subject:
    """An installed distribution, or one that was unpacked from a wheel.

    Attributes:
        distribution: What the market sees of it; None if it has no entry point of ours.
        packed: The names of the wheel's members; None for what is installed.
        project: The folder that the wheel was built from; empty if there is none.
    """

    handle: Any
    distribution: InstalledDistribution | None
    packed: tuple[str, ...] | None = None
    project: str = ""

    @property
    def name(self) -> str:
        """The distribution's name."""
        return self.metadata.get("Name") or (self.distribution.name if self.distribution else "")

    @cached_property
    def metadata(self) -> email.message.Message:
        """METADATA as a message; empty if it cannot be read."""
        return email.message_from_string(self._text("METADATA"))

    @cached_property
    def recorded(self) -> Mapping[str, str]:
        """Path -> digest (`sha256=...`, or nothing) of what RECORD lists; empty if it is none."""
        try:
            return recorded(self._text("RECORD"))
        except ValueError:  # what the wheel holds is then not listed, which is found
            return {}

    @cached_property
    def files(self) -> tuple[str, ...]:
        """What is in the wheel, or what RECORD lists of an installation."""
        return tuple(self.recorded) if self.packed is None else self.packed

    @cached_property
    def editable(self) -> bool:
        """Whether the installation only points to a project."""
        return is_editable(self._text("direct_url.json"))

    @cached_property
    def points(self) -> Sequence[tuple[str, str, str]]:
        """Every entry point as (group, name, value); malformed lines are left out."""
        return tuple(self._points())

    @property
    def plugins(self) -> list[tuple[str, str]]:
        """(group, name) of its plugins: objects with hooks, single primitives, or data."""
        return self.distribution.plugins if self.distribution else []

    @property
    def packages(self) -> set[str]:
        """The top-level modules that its entry points name."""
        return {value.partition(":")[0].strip().partition(".")[0] for _, _, value in self.points}

    def manifest(self, plugin: str) -> Path | None:
        """A plugin's manifest file; None if it has none or it is not there."""
        distribution = self.distribution
        value = distribution.points.get((MANIFEST, plugin)) if distribution else None
        if distribution is None or value is None:
            return None
        return locate(distribution, value)

    def _points(self) -> Iterator[tuple[str, str, str]]:
        group = ""
        for line in self._text("entry_points.txt").splitlines():
            section = _SECTION.match(line)
            name, equals, value = (part.strip() for part in line.partition("="))
            if section:
                group = section[1].strip()
            elif group and name and equals and value and not name.startswith(("#", ";")):
                yield group, name, value

    def _text(self, name: str) -> str:
        try:
            return self.handle.read_text(name) or ""
        except (OSError, UnicodeDecodeError):
            return ""


def find(name: str, packed: Sequence[str] | None = None, project: str = "") -> Subject:
    """The first distribution of a name on `sys.path`.

    Raises PluginError if there is none.
    """
    ours = next(
        (
            distribution
            for distribution in distributions()
            if canonical(distribution.name) == canonical(name)
        ),
        None,
    )
    try:
        handle = ours.handle if ours else importlib_metadata.distribution(name)
    except importlib_metadata.PackageNotFoundError as error:
        raise PluginError(f"{name}: it is not installed") from error
    return Subject(handle, ours, None if packed is None else tuple(packed), project)


def needed(name: str, path: Sequence[str]) -> list[str]:
    """A distribution and the plugins that it requires, for its tests too, if they are on a path.

    What is named here is all that a plugin may count on.
    """
    seen: set[str] = set()
    plugins = []
    waiting: list[tuple[str, Sequence[str]]] = [(name, _FOR_TESTS)]
    while waiting:
        wanted, extras = waiting.pop()
        handle = next(iter(importlib_metadata.distributions(name=wanted, path=list(path))), None)
        if handle is None or canonical(wanted) in {*seen, CORE}:
            continue
        seen.add(canonical(wanted))
        points = handle.read_text("entry_points.txt") or ""
        plugins += [wanted] if any(group in points for group in GROUPS) else []
        for text in handle.requires or ():
            waiting += [(requirement, ("",)) for requirement in _required(text, extras)]
    return plugins


def _required(text: str, extras: Sequence[str]) -> list[str]:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return []  # loading reports it
    marker = requirement.marker
    fits = marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
    return [requirement.name] if fits else []


def module_of(name: str) -> str:
    """The import name that a distribution's name suggests."""
    return canonical(name).replace("-", "_")


def parts_of(path: str) -> tuple[str, ...]:
    """A member's path in parts, whatever separators it has."""
    return PurePosixPath(path.replace("\\", "/")).parts
