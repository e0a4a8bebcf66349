"""Finds the entry points of installed plugins, whatever a broken distribution beside them holds.

Each distribution is read on its own, and its metadata only if it has an entry point
of ours: with hundreds of distributions this is what keeps `netcl plugins list` fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from netcl_core.plugins.market import scanning
from netcl_core.plugins.resolution import canonical

PLUGINS: Final = "netcl_core.plugins"
PRIMITIVES: Final = "netcl_core.primitives"
MANIFEST: Final = "netcl_core.manifest"
GROUPS: Final = (PLUGINS, PRIMITIVES, MANIFEST)
_OURS: Final = "netcl_core."
_REFERENCE: Final = re.compile(r"[\w.]+(:[\w.]+)?( *\[.*\])?$")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """An installed distribution that has entry points of ours.

    Attributes:
        points: (group, name) -> value.
        problem: Why its metadata cannot be used; empty if they can.
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
    handle: Any

    def fingerprint(self) -> str:
        """What changes with every installation of other files: the digest of its RECORD."""
        import hashlib  # brings OpenSSL, which a place without failures does without

        text = scanning.read(self.handle, "RECORD") or ""
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def metadata(self, name: str) -> str | None:
        """A file of its metadata; None if it is missing or is no text."""
        return scanning.read(self.handle, name)

    def file(self, path: str) -> Path | None:
        """A file by its path in RECORD, the list of the distribution's files; None if not there."""
        listed = f"\n{scanning.read(self.handle, 'RECORD') or ''}"
        if not any(f"\n{start}{path}{end}," in listed for start, end in (("", ""), ('"', '"'))):
            return None
        found = Path(str(self.handle.locate_file(path)))
        return found if found.is_file() else None

    def load(self, group: str, name: str) -> Any:
        """Import what an entry point names."""
        import importlib_metadata

        return importlib_metadata.EntryPoint(name, self.points[group, name], group).load()


def distributions() -> list[Distribution]:
    """Every distribution with an entry point of ours, sorted by name.

    Of several copies the first on the path counts, as for the import system.
    """
    found: dict[str, Distribution] = {}
    scan = scanning.fresh()
    for handle in scan.handles:
        if not scanning.mentions(handle, "entry_points.txt", _OURS):
            continue
        text = scanning.read(handle, "entry_points.txt")
        if text is None:
            continue
        made = _distribution(handle, text)
        if (made.points or made.problem) and _is_first(made, scan):
            found.setdefault(canonical(made.name), made)
    return [found[name] for name in sorted(found)]


def find(name: str) -> Distribution | None:
    """An installed distribution by name, whatever its entry points; None if it is not there."""
    handle = scanning.latest().find(name)
    return None if handle is None else _distribution(handle, "")


def _distribution(handle: Any, entry_points: str) -> Distribution:
    headers = scanning.headers(handle)
    location = scanning.location(handle)
    stem = re.split(r"[\\/]", location.rstrip("\\/"))[-1].partition("-")[0]
    problem, points = "", {}
    try:
        points = dict(_points(entry_points))
    except ValueError as error:
        problem = str(error)
    names, versions = headers.get("Name", []), headers.get("Version", [])
    if not names or not versions:
        problem = "its METADATA has no name or no version"
    licenses = headers.get("License-Expression") or headers.get("License") or [""]
    return Distribution(
        name=(names or [stem.replace("_", "-")])[0],
        version=(versions or ["0"])[0],
        location=location,
        points=points,
        requires=tuple(headers.get("Requires-Dist", ())),
        requires_python=headers.get("Requires-Python", [""])[0],
        summary=headers.get("Summary", [""])[0],
        license=licenses[0],
        problem=problem,
        handle=handle,
    )


def _is_first(made: Distribution, scan: scanning.Scan) -> bool:
    """Whether no other copy of the distribution, without entry points of ours, hides this one."""
    first = scan.find(made.name)  # a copy without a usable name is nobody's copy
    return first is None or scanning.location(first) == made.location


def _points(text: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Our entry points of an entry_points.txt; raises ValueError for one that is malformed."""
    group = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif line and not line.startswith(("#", ";")) and group in GROUPS:
            name, equals, value = (part.strip() for part in line.partition("="))
            fine = re.fullmatch(r"[\w.:/ -]+", value) if group == MANIFEST else None
            if not name or not equals or not (fine or _REFERENCE.match(value)):
                raise ValueError(f"line {number} of its entry_points.txt: {line!r}")
            yield (group, name), value


def version_of(name: str) -> str | None:
    """The version of an installed distribution; None if it is not there."""
    handle = scanning.latest().find(name)
    versions = None if handle is None else scanning.headers(handle).get("Version")
    return versions[0] if versions else None
