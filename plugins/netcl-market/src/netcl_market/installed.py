"""What is installed, as a lock file sees it: versions, and every file of a distribution."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder, all_suffixes
from pathlib import Path
from typing import Final, final

from netcl_core import __version__, config
from netcl_core.plugins.protocol import canonical
from netcl_market import scanning
from netcl_market.finding import InstalledDistribution, find
from netcl_market.requirements import CORE

#: Rows of RECORD that tell of this machine and not of the distribution: what the installer writes
#: about itself, byte code, and scripts, whose first line names an interpreter.
_OF_THIS_MACHINE: Final = re.compile(
    r"(\.\.|/|[A-Za-z]:)|(.*[/\\])?__pycache__[/\\][^/\\]*\.pyc$|"
    r"[^/\\]+\.dist-info[/\\](RECORD|INSTALLER|REQUESTED|direct_url\.json|uv_\w+\.json)$"
)
_CORE_PACKAGE: Final = "netcl_core"


@final
@dataclass(frozen=True, slots=True)
class Places:
    """Where a distribution's files are: each with the name that it has in a lock, and its path.

    Attributes:
        folders: Its packages, of which every file counts, listed or not.
        files: What it lists besides.
    """

    folders: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...]

    def all(self) -> Iterator[tuple[str, str]]:
        """Every file that is there or should be."""
        yield from self.files
        for name, folder in self.folders:
            yield from _inside(name, folder)

    @property
    def shadowed(self) -> str:
        """What would be imported instead of a package or a module; empty if nothing would."""
        modules = ((module_of(name), path) for name, path in self.files)
        for name, path in (*self.folders, *modules):
            copies = _found(name) if name else [path]
            if os.path.realpath(path) not in map(os.path.realpath, copies):
                return f"{name} would be imported from {''.join(copies[:1])}"
        return ""


def module_of(file: str) -> str:
    """The module that is in a file of a distribution; empty if it is none."""
    *folders, last = file.split("/")
    stem, _, suffix = last.partition(".")
    parts = folders if stem == "__init__" else [*folders, stem]
    fine = f".{suffix}" in all_suffixes() and all(map(str.isidentifier, parts))
    return ".".join(parts) if fine else ""


def _found(module: str) -> list[str]:
    """Where a module would be imported from, without importing what it is in."""
    path, spec, name = None, None, ""
    for part in module.split("."):
        name = f"{name}.{part}".lstrip(".")
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return []
        path = spec.submodule_search_locations
    assert spec is not None  # a module has a name
    return [*(path or ()), *([spec.origin] if spec.origin else ())]


def _inside(top: str, start: str) -> Iterator[tuple[str, str]]:
    """The files of a folder and those below it, but for byte code; links are followed once."""
    waiting: list[tuple[str, str, tuple[str, ...]]] = [(top, start, ())]
    while waiting:  # folders may be nested deeper than functions can be
        name, folder, within = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            own = f"{name}/{entry.name}"
            if _is_folder(entry):
                real = os.path.realpath(entry.path) if entry.is_symlink() else ""
                here = f"{os.path.realpath(folder)}/" if real else ""
                if real and (real in within or here.startswith(f"{real}/")):
                    yield own, entry.path  # it leads to where it lies itself
                else:
                    waiting.append((own, entry.path, (*within, real) if real else within))
            elif not (entry.name.endswith(".pyc") and name.endswith("/__pycache__")):
                yield own, entry.path


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


@final
@dataclass(frozen=True, slots=True)
class Installed:
    """One installed distribution: the core, or one that brings plugins."""

    name: str
    version: str
    source: InstalledDistribution | None

    @property
    def record(self) -> str | None:
        """The text of RECORD; None without one, and for a link to sources: it has none of them."""
        if self.source is None or self.editable:
            return None
        return self.source.metadata("RECORD")

    @property
    def editable(self) -> bool:
        """Whether it is a link to its sources."""
        text = self.source.metadata("direct_url.json") if self.source is not None else None
        return is_editable(text or "")

    def places(self) -> Places:
        """Where its files are: by RECORD, else where its packages would be imported from."""
        rows = recorded(self.record or "")
        if not rows:
            return self._imported()
        assert self.source is not None  # it has a RECORD
        of = self.source.handle.locate_file
        tops = sorted({name.partition("/")[0] for name in rows})
        own = [top for top in tops if f"{top}/__init__.py" in rows or top in self._data]
        # What its metadata were read from, too: a copy of them may name another module.
        named = {*rows, *scanning.own_files(self.source.handle)}
        files = [name for name in sorted(named) if name.partition("/")[0] not in own]
        return Places(*(tuple((name, str(of(name))) for name in names) for names in (own, files)))

    @property
    def _data(self) -> set[str]:
        """The top folders of manifests where there is no code, so that none need be a package."""
        points = self.source.points.values() if self.source and self.source.is_data else ()
        return {value.partition(":")[0].partition(".")[0].strip() for value in points}

    def _imported(self) -> Places:
        """Where its entry points' packages are; the core's own is named as it is."""
        points = self.source.points.values() if self.source is not None else ()
        named = {value.partition(":")[0].partition(".")[0].strip() for value in points}
        folders, files = [], []
        for package in sorted(named or {self.name.replace("-", "_")}):
            spec = importlib.util.find_spec(package)
            places = spec.submodule_search_locations if spec is not None else None
            folders += [(package, place) for place in places or ()]
            if places is None and spec is not None and spec.origin is not None:
                files.append((package, spec.origin))
        if canonical(self.name) == CORE and not config.templates().is_relative_to(_core_folder()):
            folders.append((f"{_CORE_PACKAGE}/templates", str(config.templates())))
        return Places(tuple(folders), tuple(files))


def _core_folder() -> Path:
    return Path(config.__file__).parent


def is_editable(direct_url: str) -> bool:
    """Whether a `direct_url.json` (PEP 610) says that a distribution is a link to its sources."""
    try:
        return json.loads(direct_url)["dir_info"]["editable"] is True
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def core() -> Installed:
    """The core; without metadata of its own it is a checkout on the path."""
    return Installed(CORE, __version__, find(CORE))


def by_name(distributions: Iterable[InstalledDistribution]) -> dict[str, Installed]:
    """The installed distributions by their canonical names, sorted."""
    by_name = {canonical(distribution.name): distribution for distribution in distributions}
    return {name: Installed(name, by_name[name].version, by_name[name]) for name in sorted(by_name)}


def of_this_machine(name: str) -> bool:
    """Whether a file of a distribution tells of the machine, so that no lock has it."""
    return _OF_THIS_MACHINE.match(name) is not None


def recorded(text: str) -> dict[str, str]:
    """The files that a RECORD lists with its digest of each, but for those of this machine."""
    try:
        rows = [row for row in csv.reader(text.splitlines()) if row]
    except csv.Error:
        return {}
    kept = (row for row in rows if not of_this_machine(row[0]))
    return {row[0].replace("\\", "/"): (*row[1:], "")[0] for row in kept}
