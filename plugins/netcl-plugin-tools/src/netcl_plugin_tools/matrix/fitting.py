"""Whether the versions in a cell exclude each other, as far as the wheels alone can say.

uv decides in the end. What is plain from the metadata is decided here: it takes no
environment, and the reason names the two that do not fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

from netcl_market.requirements import CORE
from netcl_plugin_kit.packages.wheel import Wheel
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name

#: The command that a cell runs. Cores up to 0.1.3 have it, for later ones a plugin brings it.
COMMAND: Final = "plugins check"
#: The extra, of such a core and of such a plugin, with what the command needs.
CHECK: Final = "check"
#: The extras of a plugin that are an axis of its matrix.
_VERSIONS: Final = re.compile(r"""extra == ["'](matrix-[\w.-]+)["']""")
_DEPTH: Final = 20  # requirements of requirements; a circle ends here


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """What a plugin needs beside a core.

    Attributes:
        problem: Why the versions exclude each other; empty if nothing speaks against it.
        plugins: The plugins of the same folder that it depends on, newest fitting versions.
        others: The requirements that other sources have to meet, sorted.
        checker: The newest fitting plugin that brings `netcl plugins check`, for a core that
            does not have it; with what it needs it is part of `plugins` and `others`.
    """

    problem: str
    plugins: tuple[Wheel, ...] = ()
    others: tuple[str, ...] = ()
    checker: Wheel | None = None


@lru_cache
def _tags(minor: str) -> dict[Tag, int]:
    """What CPython takes on this system, such as `3.12`, each with its place: the best first."""
    version = [int(part) for part in minor.split(".")]
    interpreter = f"cp{version[0]}{version[1]}"
    ours = (*cpython_tags(version), *compatible_tags(version, interpreter))
    return {tag: place for place, tag in enumerate(ours)}


def best(wheels: Sequence[Wheel], minor: str) -> Wheel:
    """Of one version's wheels the one that uv takes under a Python; any if none fits.

    Among equals it is the last, which is the newest build.
    """
    known = _tags(minor)
    return min(
        reversed(wheels), key=lambda each: min(known.get(tag, len(known)) for tag in each.tags)
    )


def versions_of(plugin: Wheel) -> list[tuple[str, str]]:
    """The extras that say with which versions of others a plugin is checked, oldest name first.

    Each with what it pins: `matrix-torch-2-12` and `torch 2.12.1`.
    """
    pins: dict[str, list[str]] = {}
    for requirement in plugin.requires:
        for extra in _VERSIONS.findall(str(requirement.marker or "")):
            name, version = canonicalize_name(requirement.name), str(requirement.specifier)
            pins.setdefault(extra, []).append(f"{name} {version.lstrip('=')}")
    return [(extra, ", ".join(sorted(wanted))) for extra, wanted in sorted(pins.items())]


def choose(
    core: Wheel, plugin: Wheel, python: str, folder: Sequence[Wheel], extra: str = ""
) -> Choice:
    """What a plugin needs beside a core under a Python such as `3.11.7`, with an extra of its."""
    walk = _RequirementWalk(core, python, folder)
    problem = walk.visit(core, {CHECK}) or walk.visit(plugin, {extra} if extra else set())
    checker = None if problem else walk.checker()
    plugins = (wheel for wheel in walk.plugins.values() if wheel not in (core, plugin))
    return Choice(problem, tuple(plugins), tuple(sorted(walk.others)), checker)


class _RequirementWalk:
    """Follows the requirements from wheel to wheel."""

    def __init__(self, core: Wheel, python: str, folder: Sequence[Wheel]) -> None:
        self.core, self.python, self.folder = core, python, folder
        self.plugins: dict[str, Wheel] = {}
        self.others: set[str] = set()

    def visit(self, wheel: Wheel, extras: set[str], depth: int = 0) -> str:
        """Why a wheel cannot be there; notes what it needs."""
        if wheel.tags.isdisjoint(_tags(_minor(self.python))):
            return f"{wheel.path.name} is not for Python {_minor(self.python)} on this system"
        if not wheel.requires_python.contains(self.python, prereleases=True):
            return f"{wheel} needs Python {wheel.requires_python}; this is {self.python}"
        self.plugins[wheel.name] = wheel
        for requirement in self._requirements(wheel, extras):
            problem = self._meet(wheel, requirement, depth)
            if problem:
                return problem
        return ""

    def checker(self) -> Wheel | None:
        """The newest wheel that brings the check and fits to what is there; notes its needs."""
        brings = (each for each in self.folder if _brings_the_check(each))
        for wheel in _newest_first(brings):
            if self.plugins.get(wheel.name, wheel) is wheel and not self._try(wheel, {CHECK}, 0):
                return wheel
        return None

    def _requirements(self, wheel: Wheel, extras: set[str]) -> Iterator[Requirement]:
        place = {"python_full_version": self.python, "python_version": _minor(self.python)}
        for requirement in wheel.requires:
            marker = requirement.marker
            wanted = ({**place, "extra": extra} for extra in ("", *extras))
            if marker is None or any(marker.evaluate(environment) for environment in wanted):
                yield requirement

    def _meet(self, wheel: Wheel, requirement: Requirement, depth: int) -> str:
        name = canonicalize_name(requirement.name)
        if requirement.url:
            return f"{wheel} needs {name} from {requirement.url}; only wheels by name are taken"
        there = [self.core] if name == CORE else self._called(name)
        if not there:
            plain = Requirement(str(requirement))
            plain.marker = None  # it was evaluated
            self.others.add(str(plain))
            return ""
        fitting = [each for each in there if requirement.specifier.contains(each.version, True)]
        if not fitting:
            given = ", ".join(each.label for each in there)
            return f"{wheel} needs {name}{requirement.specifier}; there is {given}"
        if depth > _DEPTH or (name in self.plugins and not requirement.extras):
            return ""
        tried = [self._try(each, set(requirement.extras), depth + 1) for each in fitting]
        return "" if "" in tried else tried[0]

    def _try(self, wheel: Wheel, extras: set[str], depth: int) -> str:
        """As `visit`, and nothing stays noted of a wheel that does not fit."""
        if self.plugins.get(wheel.name, wheel) is not wheel:
            return ""  # a newer one fitted
        before = dict(self.plugins), set(self.others)
        problem = self.visit(wheel, extras, depth)
        if problem:
            self.plugins, self.others = before
        return problem

    def _called(self, name: str) -> list[Wheel]:
        """The wheels of the folder that have a name, newest first."""
        return _newest_first(wheel for wheel in self.folder if wheel.name == name)


def _brings_the_check(wheel: Wheel) -> bool:
    rows = (row for manifest in wheel.manifests for row in manifest.provides)
    return any(row.kind == "command" and row.name == COMMAND for row in rows)


def _newest_first(wheels: Iterable[Wheel]) -> list[Wheel]:
    return sorted(wheels, key=lambda each: each.version, reverse=True)


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])
