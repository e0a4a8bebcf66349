"""Finds the entry points of installed plugins, whatever a broken distribution beside them holds.

Each distribution is read on its own, and its metadata only if it has an entry point
of ours; what they say is remembered while they stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final, final

from netcl_core.errors import plain
from netcl_core.plugins.protocol import MANIFEST, PLUGINS, PRIMITIVES, canonical
from netcl_market import scanning
from netcl_market.file_memory import FileMemory

FILE: Final = "netcl_plugin.toml"
GROUPS: Final = (PLUGINS, PRIMITIVES, MANIFEST)
_OURS: Final = "netcl_core."
#: The files of the metadata that say what we know of a distribution.
_READ: Final = ("entry_points.txt", "METADATA", "PKG-INFO", "RECORD")
_BAD_PARTS: Final = ("..", ".", "")
_REFERENCE: Final = re.compile(r"[\w.]+(:[\w.]+)?( *\[.*\])?$")


@final
@dataclass(frozen=True, slots=True, eq=False)
class InstalledDistribution:
    """An installed distribution that has entry points of ours.

    Attributes:
        points: (group, name) -> value.
        problem: Why its metadata cannot be used; empty if they can.
        listed: Where the manifests lie that its RECORD lists, by what their entry points say.
        tops: The folders that its RECORD lists files in, of those that hold others.
    """

    name: str
    version: str
    location: str
    points: dict[tuple[str, str], str]
    requires: tuple[str, ...]
    requires_python: str
    summary: str
    license: str
    problem: str
    listed: dict[str, str]
    tops: tuple[str, ...]
    handle: Any

    @property
    def is_data(self) -> bool:
        """Whether it has manifests and no entry point for code."""
        return bool(self.points) and all(group == MANIFEST for group, _ in self.points)

    @property
    def plugins(self) -> list[tuple[str, str]]:
        """(group, name) of each plugin; without any code each manifest is one."""
        return sorted(key for key in self.points if self.is_data or key[0] != MANIFEST)

    def fingerprint(self) -> str:
        """What changes with every installation of other files: the digest of its RECORD."""
        import hashlib  # brings OpenSSL, which a place without failures does without

        text = scanning.read(self.handle, "RECORD") or ""
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def folders(self, package: str) -> list[str]:
        """Where a package lies by RECORD; nowhere if that does not list it."""
        top, _, below = package.partition(".")
        return [str(self.handle.locate_file(top))] if top in self.tops and not below else []

    def metadata(self, name: str) -> str | None:
        """A file of its metadata; None if it is missing or is no text."""
        return scanning.read(self.handle, name)


def distributions(memory: FileMemory | None = None) -> list[InstalledDistribution]:
    """Every distribution with an entry point of ours, sorted by name.

    Of several copies the first on the path counts, as for the import system. What a memory holds
    of one is not read again.
    """
    by_name: dict[str, InstalledDistribution] = {}
    scan = scanning.fresh()
    for handle in scan.handles:
        distribution = _recalled(handle, memory)
        if (
            distribution is not None
            and (distribution.points or distribution.problem)
            and _is_first(distribution, scan)
        ):
            by_name.setdefault(canonical(distribution.name), distribution)
    return [by_name[name] for name in sorted(by_name)]


def find(name: str) -> InstalledDistribution | None:
    """An installed distribution by name, whatever its entry points; None if it is not there."""
    handle = scanning.latest().find(name)
    return None if handle is None else _distribution(handle, _facts(handle, ""))


def _recalled(handle: Any, memory: FileMemory | None) -> InstalledDistribution | None:
    """A distribution, from its metadata or from memory; None if it has nothing of ours."""
    make, read = partial(_our_facts, handle), partial(_distribution, handle)
    if memory is None or not isinstance(handle, scanning.Folder):
        return read(make())
    files = [handle.place(name) for name in _READ]
    return memory.recall(scanning.location(handle), files, make, read)


def _our_facts(handle: Any) -> dict[str, Any]:
    """What the metadata say, as JSON can hold it; nothing of a distribution that is not ours."""
    text = scanning.read(handle, "entry_points.txt") or ""
    return _facts(handle, text) if _OURS in text else {}


def _facts(handle: Any, entry_points: str) -> dict[str, Any]:
    headers = scanning.headers(handle)
    stem = re.split(r"[\\/]", scanning.location(handle).rstrip("\\/"))[-1].partition("-")[0]
    problem = ""
    points: list[tuple[str, str, str]] = []
    try:
        points = list(_points(entry_points))
    except ValueError as error:
        problem = str(error)
    names, versions = headers.get("Name", []), headers.get("Version", [])
    if not names or not versions:
        problem = "its METADATA has no name or no version"
    licenses = headers.get("License-Expression") or headers.get("License") or [""]
    return {
        "name": plain((names or [stem.replace("_", "-")])[0]),
        "version": plain((versions or ["0"])[0]),
        "points": [[*point] for point in points],
        "requires": list(headers.get("Requires-Dist", ())),
        "requires_python": headers.get("Requires-Python", [""])[0],
        "summary": plain(headers.get("Summary", [""])[0]),
        "license": plain(licenses[0]),
        "problem": problem,
        "listed": _listed(handle, [value for group, _, value in points if group == MANIFEST]),
        "tops": _tops(handle) if points else [],
    }


def _tops(handle: Any) -> list[str]:
    """The folders in which files lie that the list of the distribution's files has."""
    rows = (scanning.read(handle, "RECORD") or "").splitlines()
    tops = {row.lstrip('"').partition("/")[0] for row in rows if "/" in row}
    return sorted(top for top in tops if top.isidentifier())


def _listed(handle: Any, values: Sequence[str]) -> dict[str, str]:
    """Where the manifests lie that the list of the distribution's files has."""
    record = f"\n{scanning.read(handle, 'RECORD') or ''}" if values else ""
    return {
        value: str(handle.locate_file(path))
        for value, path in ((value, manifest_path(value)) for value in values)
        if path and any(f"\n{quote}{path}{quote}," in record for quote in ("", '"'))
    }


def manifest_path(value: str) -> str:
    """The path in RECORD that an entry point `package:path/to/file` means; empty: none can be."""
    package, _, inner = (part.strip() for part in value.partition(":"))
    parts = [*package.split("."), *PurePosixPath(inner or FILE).parts]
    return "" if any(part in _BAD_PARTS or "/" in part for part in parts) else "/".join(parts)


def _distribution(handle: Any, facts: dict[str, Any]) -> InstalledDistribution | None:
    """The distribution of which these are the facts; None of one without any."""
    if not facts:
        return None
    return InstalledDistribution(
        **{
            **facts,
            "points": {(group, name): value for group, name, value in facts["points"]},
            "requires": tuple(facts["requires"]),
            "tops": tuple(facts["tops"]),
        },
        location=scanning.location(handle),
        handle=handle,
    )


def _is_first(distribution: InstalledDistribution, scan: scanning.Scan) -> bool:
    """Whether no other copy of the distribution, without entry points of ours, hides this one."""
    first = scan.find(distribution.name)  # a copy without a usable name is nobody's copy
    return first is None or scanning.location(first) == distribution.location


def _points(text: str) -> Iterator[tuple[str, str, str]]:
    """Our entry points of an entry_points.txt; raises ValueError for one that is malformed."""
    group = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif line and not line.startswith(("#", ";")) and group in GROUPS:
            name, equals, value = (part.strip() for part in line.partition("="))
            fine = re.fullmatch(r"[\w.:/ -]+", value) if group == MANIFEST else None
            written = name and name.isprintable() and equals
            if not written or not (fine or _REFERENCE.match(value)):
                raise ValueError(f"line {number} of its entry_points.txt: {line!r}")
            yield group, name, value


def version_of(name: str) -> str | None:
    """The version of an installed distribution; None if it is not there."""
    return scanning.latest().version(name)
