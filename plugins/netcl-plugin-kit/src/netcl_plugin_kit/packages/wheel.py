"""Wheel: all that matrix and catalogue need to know of a wheel: metadata, manifests, documents.

A wheel is untrusted. Whatever is wrong with one is an error, and the caller goes on with
the others.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from configparser import Error as EntryPointsError
from configparser import RawConfigParser
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, final

from netcl_market.finding import FILE
from netcl_market.manifests import Manifest, parse
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from netcl_core.errors import PluginError
from netcl_core.plugins.protocol import MANIFEST, PLUGINS, PRIMITIVES
from netcl_plugin_kit.packages.metadata import Metadata, is_extra, read_metadata
from netcl_plugin_kit.packages.record import UNLISTED, recorded
from netcl_plugin_kit.packages.wheel_archive import (
    BUILD,
    WheelArchive,
    digest_of,
    opened,
    refusal,
)

#: Signatures of a RECORD.
_SIGNED: Final = frozenset({".jws", ".p7s"})
#: The files that a distribution of data may hold: nothing that Python runs.
_DATA: Final = frozenset({".toml", ".j2", ".cl", ".json", ".md", ".rst", ".txt", ".typed", ""})
_NAMED: Final = "a name like netcl_plugin_x-1.0-py3-none-any.whl"


@final
@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel file.

    Attributes:
        name: Canonical (`netcl-plugin-x`).
        build: Its build tag, which tells builds of one version apart; often empty.
        tags: The Pythons and systems that it is for.
        raw_metadata: The file METADATA, which an index serves beside the wheel.
        plugins: The names of its plugins; a distribution without one is no plugin.
        is_data: Whether none of them has an entry point for code.
        manifests: Those of its plugins that have one, or need none.
        documents: `changelog` and licences by the name of their file, where the wheel has them.
    """

    path: Path
    sha256: str
    size: int
    name: str
    version: Version
    build: str
    tags: frozenset[Tag]
    raw_metadata: bytes
    metadata: Metadata
    plugins: tuple[str, ...]
    is_data: bool
    manifests: tuple[Manifest, ...]
    changelog: str
    licences: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.name} {self.label}"

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def pure(self) -> bool:
        """Whether it has no compiled part."""
        return all(tag.abi == "none" for tag in self.tags)

    @property
    def label(self) -> str:
        """The version, and the build where the file name has one."""
        return f"{self.version}-{self.build}" if self.build else str(self.version)

    @property
    def requires(self) -> tuple[Requirement, ...]:
        """What its lines Requires-Dist say, those of extras too."""
        return self.metadata.requirements

    @property
    def needed(self) -> list[Requirement]:
        """What it requires without any extra of its own."""
        return [each for each in self.requires if not is_extra(each)]

    @property
    def requires_python(self) -> SpecifierSet:
        """The Pythons that it takes."""
        return SpecifierSet(self.metadata.requires_python)

    @property
    def manifest(self) -> Manifest | None:
        """The first plugin's manifest, if there is one."""
        return self.manifests[0] if self.manifests else None


def read_wheel(path: Path) -> Wheel:
    """Read a wheel; raises PluginError that says what is wrong with it."""
    try:
        name, version, build, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise refusal(str(error), _NAMED) from error
    with opened(path) as archive:
        contents = _Contents(archive, str(name), version)
        points = contents.points()
        coded = {*points.get(PLUGINS, {}), *points.get(PRIMITIVES, {})}
        plugins = sorted(coded or points.get(MANIFEST, {}))
        manifests = tuple(contents.manifests(plugins, points))
        if plugins:
            contents.verify()
        if plugins and not coded:
            contents.insist_on_data(points)
        return Wheel(
            path=path,
            sha256=digest_of(path),
            size=path.stat().st_size,
            name=str(name),
            version=version,
            build="".join(map(str, build)),
            tags=tags,
            raw_metadata=contents.raw_metadata,
            metadata=contents.metadata,
            plugins=tuple(plugins),
            is_data=bool(plugins) and not coded,
            manifests=manifests,
            changelog=contents.changelog(),
            licences=tuple(contents.licences()),
        )


def insist_on_manifests(wheel: Wheel) -> None:
    """Raise PluginError for a plugin without a manifest, where what it brings has to be known.

    Also for one that requires something by its address, which is in no index.
    """
    for requirement in wheel.requires:
        if requirement.url:
            raise refusal(
                f"it requires {requirement.name} by the address {requirement.url}", "a name"
            )
    known = {manifest.name for manifest in wheel.manifests}
    for plugin in wheel.plugins:
        if plugin not in known:
            raise refusal(
                f"its plugin {plugin!r} has no manifest",
                f"an entry point {plugin!r} in the group {MANIFEST}",
                f"Add {FILE} to its package: docs/publishing.md says what stands in it",
            )


@final
class _Contents:
    """What stands in an open wheel; every step raises PluginError for what it finds wrong."""

    def __init__(self, archive: WheelArchive, name: str, version: Version) -> None:
        archive.insist_on_names()
        self.archive = archive
        self.names = sorted(archive.names)
        self.info = archive.info()
        stem = self.info.removesuffix(".dist-info").partition("-")[0]
        if canonicalize_name(stem) != name:
            raise refusal(f"its metadata lie in {self.info}", f"those of {name}", BUILD)
        for part in ("WHEEL", "RECORD"):
            if f"{self.info}/{part}" not in self.names:
                raise refusal(f"it has no {self.info}/{part}", "one", BUILD)
        self.raw_metadata = archive.data(f"{self.info}/METADATA")
        self.metadata = read_metadata(self.raw_metadata)
        given = (canonicalize_name(self.metadata.name), self.metadata.version)
        if given != (name, str(version)):
            wanted = f"{name} {version}, as its file is named"
            raise refusal(f"its METADATA is of {' '.join(given)}", wanted)

    def points(self) -> Mapping[str, Mapping[str, str]]:
        """Group -> name -> value of its entry points."""
        place = f"{self.info}/entry_points.txt"
        if place not in self.names:
            return {}
        parser = RawConfigParser(delimiters=("=",), default_section="")
        parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
        try:
            parser.read_string(self.archive.text(place))
        except EntryPointsError as error:
            raise refusal(f"its entry_points.txt: {error}", "sections of NAME = VALUE") from error
        return {group: dict(parser.items(group)) for group in parser.sections()}

    def manifests(
        self, plugins: Sequence[str], points: Mapping[str, Mapping[str, str]]
    ) -> Iterator[Manifest]:
        """Of each plugin that names one, and of each single primitive: it needs none."""
        places, hooks = points.get(MANIFEST, {}), points.get(PLUGINS, {})
        for plugin in plugins:
            if plugin in places:
                yield self._manifest(plugin, places[plugin])
            elif plugin not in hooks:
                yield self._alone(plugin)

    def _alone(self, plugin: str) -> Manifest:
        """What the entry point of a single primitive says by itself."""
        op = {"name": plugin, "kind": "primitive", "elementwise": True}
        summary, licence = self.metadata.summary, self.metadata.licence
        return Manifest(plugin, (1, 0), summary=summary, license=licence, rows=(op,))

    def _manifest(self, plugin: str, value: str) -> Manifest:
        package, _, inner = (part.strip() for part in value.partition(":"))
        place = "/".join([*package.split("."), *PurePosixPath(inner or FILE).parts])
        if place not in self.names:
            raise refusal(f"it has no {place}", f"the manifest of its plugin {plugin!r}")
        try:
            return parse(tomllib.loads(self.archive.text(place)))
        except (ValueError, RecursionError) as error:  # of TOML
            raise refusal(f"its manifest {place}: {error}", "TOML") from error
        except PluginError as error:  # of a value; it speaks of "its manifest"
            raise refusal(str(error)) from error

    def insist_on_data(self, points: Mapping[str, Mapping[str, str]]) -> None:
        """A distribution of data holds none but data, in the packages of its manifests."""
        others = sorted(points.keys() - {MANIFEST})
        if others:
            raise refusal(f"it is data, and has entry points {others[0]!r}", "manifests alone")
        tops = {value.partition(":")[0].partition(".")[0] for value in points[MANIFEST].values()}
        for name in self.archive.files:
            path = PurePosixPath(name)
            if path.parts[0] == self.info and path.suffix in _SIGNED:
                continue
            if path.parts[0] not in {*tops, self.info} or len(path.parts) == 1:
                where = f"files in {', '.join(sorted(tops))}"
                raise refusal(f"it is data, and holds {name}", where)
            if path.suffix.lower() not in _DATA:
                raise refusal(f"it is data, and holds {name}", "manifests, templates and texts")

    def changelog(self) -> str:
        """A CHANGELOG or CHANGES among the metadata or in the package; the metadata's first."""
        names = [
            name
            for name in self.names
            if PurePosixPath(name).stem.lower() in {"changelog", "changes"}
            and PurePosixPath(name).suffix.lower() in {"", ".md", ".txt", ".rst"}
        ]
        names.sort(key=lambda name: (not name.startswith(f"{self.info}/"), name.count("/"), name))
        return self.archive.text(names[0]) if names else ""

    def licences(self) -> Iterator[tuple[str, str]]:
        """Name and text of each licence."""
        start = f"{self.info}/licenses/"
        for name in self.names:
            if name.startswith(start) and not name.endswith("/"):
                yield name.removeprefix(start), self.archive.text(name)

    def verify(self) -> None:
        """Every file is the one that RECORD lists: nothing was added, taken out or changed."""
        own = f"{self.info}/RECORD"
        try:
            listed = recorded(self.archive.text(own))
        except ValueError as error:
            raise refusal(f"its RECORD: {error}", "lines PATH,sha256=...,SIZE", BUILD) from error
        files = set(self.archive.files)
        strangers = sorted((files ^ listed.keys()) - {f"{self.info}/{name}" for name in UNLISTED})
        if strangers:
            raise refusal(f"{strangers[0]} stands either in it or in its RECORD", "both", BUILD)
        for name in sorted(files - {own}):
            if name in listed and self.archive.digest(name) != listed[name]:
                raise refusal(f"{name} is not the file of its RECORD", "its sha256", BUILD)
