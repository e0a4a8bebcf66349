"""Wheel: what a matrix needs to know of a wheel, read from its file and never imported."""

from __future__ import annotations

import configparser
import email
import hashlib
import lzma
import tomllib
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from netcl_core.errors import PluginError, message
from netcl_core.plugins.market.manifests import Manifest, parse

CORE: Final = "netcl-core"
_GROUPS: Final = ("netcl_core.plugins", "netcl_core.primitives")
_MANIFEST: Final = "netcl_core.manifest"
#: What a file that is no wheel, or a strange one, makes of reading it.
_BROKEN: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError,
    RuntimeError,  # encrypted, an unknown compression, a manifest that is too deep
    KeyError, ValueError, configparser.Error, PluginError,
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel file.

    Attributes:
        build: Its build tag, which tells builds of one version apart; often empty.
        tags: The Pythons and systems that it is for.
        requires: What its lines Requires-Dist say.
    """

    path: Path
    name: str
    version: str
    build: str
    tags: frozenset[Tag]
    sha256: str
    requires: tuple[Requirement, ...]
    requires_python: SpecifierSet
    is_plugin: bool
    manifest: Manifest | None

    def __str__(self) -> str:
        return f"{self.name} {self.label}"

    @property
    def label(self) -> str:
        """The version, and the build where the file name has one."""
        return f"{self.version}-{self.build}" if self.build else self.version


def read(path: Path) -> Wheel:
    """What a wheel's file says; raises PluginError if it is no wheel."""
    try:
        name, version, build, tags = parse_wheel_filename(path.name)
        with zipfile.ZipFile(path) as archive:
            info = _info(archive)
            headers = email.message_from_bytes(archive.read(f"{info}/METADATA"))
            points = _points(archive, info)
            return Wheel(
                path=path,
                name=canonicalize_name(name),
                version=str(version),
                build="".join(map(str, build)),
                tags=tags,
                sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
                requires=tuple(map(_requirement, headers.get_all("Requires-Dist", ()))),
                requires_python=SpecifierSet(str(headers.get("Requires-Python", ""))),
                is_plugin=any(points.has_section(group) for group in _GROUPS),
                manifest=_manifest(archive, points),
            )
    except _BROKEN as error:
        remedy = "Build it again, or take it out of the folder"
        given = " ".join(str(error).split())
        raise PluginError(message(f"wheel {path.name}", given, "a wheel", remedy)) from error


def shelf(folder: Path) -> list[Wheel]:
    """Every wheel of a folder, sorted by name, version and build."""
    return sorted((read(path) for path in folder.glob("*.whl")), key=_order)


def _order(wheel: Wheel) -> tuple[str, Version, str]:
    return wheel.name, Version(wheel.version), wheel.build


def _info(archive: zipfile.ZipFile) -> str:
    """The folder of the wheel's metadata."""
    for name in archive.namelist():
        if name.endswith(".dist-info/METADATA") and name.count("/") == 1:
            return name.partition("/")[0]
    raise KeyError("it has no METADATA")


def _requirement(line: object) -> Requirement:
    found = Requirement(str(line))  # what is no ASCII comes as a Header
    if found.marker is not None:
        found.marker.evaluate({"extra": ""})  # what cannot be compared is noticed only so
    return found


def _points(archive: zipfile.ZipFile, info: str) -> configparser.ConfigParser:
    points = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    points.optionxform = str  # type: ignore[assignment]  # names keep their case
    if f"{info}/entry_points.txt" in archive.namelist():
        points.read_string(archive.read(f"{info}/entry_points.txt").decode())
    return points


def _manifest(archive: zipfile.ZipFile, points: configparser.ConfigParser) -> Manifest | None:
    """The manifest that an entry point `package:path` names; None where it is missing."""
    for path in _manifest_paths(points):
        if path in archive.namelist():
            return parse(tomllib.loads(archive.read(path).decode()))
    return None


def _manifest_paths(points: configparser.ConfigParser) -> Iterator[str]:
    if points.has_section(_MANIFEST):
        for value in points[_MANIFEST].values():
            package, _, inner = value.partition(":")
            yield f"{package.strip().replace('.', '/')}/{inner.strip()}"
