"""Plan: which cells a matrix has, and what decides whether a cell has to run again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from click import UsageError
from netcl_market.requirements import CORE
from netcl_plugin_kit.packages.wheel import Wheel, read_wheel
from packaging.utils import canonicalize_name

from netcl_core.config import MARKET_PREFIX
from netcl_core.errors import PluginError, message
from netcl_plugin_tools.matrix.fitting import Choice, best, choose, versions_of
from netcl_plugin_tools.matrix.pythons import Interpreter
from netcl_plugin_tools.matrix.records import Cell, CellRecord
from netcl_plugin_tools.matrix.runtimes import Presence
from netcl_plugin_tools.matrix.supplies import digest


@final
@dataclass(frozen=True, slots=True)
class MatrixTask:
    """A cell and what it is made of."""

    cell: Cell
    core: Wheel
    plugin: Wheel
    python: Interpreter
    presence: Presence
    choice: Choice

    @property
    def wheels(self) -> tuple[Wheel, ...]:
        """The core, the plugin, and the plugins that it needs."""
        return (self.core, self.plugin, *self.choice.plugins)

    @property
    def named(self) -> tuple[Wheel, ...]:
        """Those of them that are installed by name: nothing requires what brings the check."""
        checker = self.choice.checker
        own = (self.core, self.plugin)
        return own if checker is None or checker in own else (*own, checker)

    def content(self, third_party: str) -> dict[str, str]:
        """What decides a cell's outcome, as digests and names; equal content, equal outcome."""
        facts = self.presence.facts
        unusable = self.presence.missing or self.presence.problem
        return {
            "core": self.core.sha256,
            "plugin": self.plugin.sha256,
            "needs": digest(*(wheel.sha256 for wheel in self.choice.plugins)),
            "third_party": third_party,
            "python": self.python.version,
            "runtime": unusable.partition("\n")[0] or " / ".join(facts.values()),
            "level": self.cell.level,
        }


@final
@dataclass(frozen=True, slots=True)
class Shelves:
    """The wheels of a matrix: the builds of the core, and the folder of plugins.

    Attributes:
        checked: Those of the plugins that have cells; the others are there if needed.
    """

    cores: tuple[Wheel, ...]
    plugins: tuple[Wheel, ...]
    folder: Path
    checked: tuple[Wheel, ...] = ()


def shelves(cores: Path, plugins: Path, only: Sequence[str] = ()) -> Shelves:
    """Read both folders; `only` takes names of distributions and of plugins.

    Raises PluginError if a folder has no wheel of its kind, UsageError for a name without one.
    """
    shelves = Shelves(
        tuple(wheel for wheel in shelf(cores) if wheel.name == CORE),
        tuple(wheel for wheel in shelf(plugins) if wheel.plugins),
        plugins,
    )
    for folder, wheels, what in (
        (cores, shelves.cores, CORE),
        (plugins, shelves.plugins, "a plugin"),
    ):
        if not wheels:
            given = "there is none"
            raise PluginError(message(f"the wheels in {folder}", given, f"a wheel of {what}"))
    names = {wheel.name for wheel in shelves.plugins}
    # By its manifest's name, or, without a manifest, by the usual name of its distribution.
    own = {name.removeprefix(MARKET_PREFIX): name for name in names}
    own |= {manifest.name: wheel.name for wheel in shelves.plugins for manifest in wheel.manifests}
    wanted = {own.get(name, canonicalize_name(name)) for name in only} or names
    if missing := sorted(wanted - names):
        given, known = f"no wheel in {plugins} is of {missing[0]}", ", ".join(sorted(names))
        raise UsageError(message("--only", given, f"one of {known}"))
    return replace(
        shelves, checked=tuple(plugin for plugin in shelves.plugins if plugin.name in wanted)
    )


def shelf(folder: Path) -> list[Wheel]:
    """Every wheel of a folder, sorted by name, version and build; PluginError names a bad one."""
    wheels = map(_read, folder.glob("*.whl"))
    return sorted(wheels, key=lambda each: (each.name, each.version, each.build))


def _read(path: Path) -> Wheel:
    try:
        return read_wheel(path)
    except PluginError as error:
        remedy = "Build it again, or take it out of the folder"
        raise PluginError(message(f"wheel {path.name}", str(error), "", remedy)) from error


def tasks(
    wheels: Shelves,
    pythons: Sequence[Interpreter],
    presences: Iterable[Presence],
    level: str,
) -> list[MatrixTask]:
    """Every cell; those of one environment stand together, so that it is made once and early."""
    runtimes = list(presences)
    planned = []
    for python in pythons:
        plugins = _one_each(wheels.plugins, python)
        for core in _one_each(wheels.cores, python):
            for plugin in (wheel for wheel in plugins if wheel in wheels.checked):
                for extra, dependency in versions_of(plugin) or (("", ""),):
                    choice = _choice(core, plugin, python, plugins, extra)
                    for presence in runtimes:
                        cell = Cell(plugin.name, str(plugin.version), str(core.version), core.build,
                                    python.minor, presence.runtime.name, level,
                                    dependency)  # fmt: skip
                        planned.append(MatrixTask(cell, core, plugin, python, presence, choice))
    return planned


def part(planned: Sequence[MatrixTask], number: int, count: int) -> list[MatrixTask]:
    """The part of this number, from 1, of so many; cells of one environment are in one part."""
    tasks_of: dict[tuple[str, ...], list[MatrixTask]] = {}
    for task in planned:
        cell = task.cell
        place = (cell.plugin, cell.version, cell.line, task.python.version)
        tasks_of.setdefault(place, []).append(task)
    return [
        task
        for tasks_of_place in list(tasks_of.values())[number - 1 :: count]
        for task in tasks_of_place
    ]


def _one_each(wheels: Sequence[Wheel], python: Interpreter) -> list[Wheel]:
    """One wheel for each place of the board: a version may have several, for several Pythons."""
    builds: dict[tuple[str, str, str], list[Wheel]] = {}
    for wheel in wheels:
        build = wheel.build if wheel.name == CORE else ""
        builds.setdefault((wheel.name, str(wheel.version), build), []).append(wheel)
    return [best(each, python.minor) for each in builds.values()]


def _choice(
    core: Wheel, plugin: Wheel, python: Interpreter, plugins: Sequence[Wheel], extra: str
) -> Choice:
    if python.problem:
        return Choice("")
    return choose(core, plugin, python.version, plugins, extra)


def settled(content: Mapping[str, str], record: CellRecord | None, rerun: Sequence[str]) -> bool:
    """Whether a cell has a record of the same content that need not be made again."""
    if record is None or dict(record.content) != dict(content):
        return False
    return "all" not in rerun and record.state not in rerun
