"""Reads wheels as zip files: metadata, manifests, documents. Nothing is imported or unpacked.

A wheel is untrusted. Whatever is wrong with one is an error that names the file, and the
caller goes on with the others.
"""

from __future__ import annotations

import base64
import hashlib
import lzma
import tomllib
import zipfile
import zlib
from collections.abc import Iterator
from configparser import Error as EntryPointsError
from configparser import RawConfigParser
from csv import Error as CsvError
from csv import reader
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, final

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from netcl_core.errors import PluginError, message
from netcl_core.plugins.market.finding import MANIFEST, PLUGINS, PRIMITIVES
from netcl_core.plugins.market.manifests import FILE, Manifest, Provided, parse
from netcl_plugin_workbench.catalogue.metadata import Metadata, read_metadata

#: Of one document inside a wheel, and of all its files together, in bytes.
DOCUMENT_LIMIT: Final = 4 << 20
TOTAL_LIMIT: Final = 1 << 30
_CHUNK: Final = 1 << 20
_BROKEN_ZIP: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,  # a compression that zipfile does not know
    RuntimeError,  # an encrypted file
    UnicodeDecodeError,  # of a name
    OSError,
)


@final
@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel; `manifests` is empty for a distribution that is no plugin.

    Attributes:
        name: Canonical (`netcl-plugin-x`).
        raw_metadata: The file METADATA, which the index serves beside the wheel.
        documents: `changelog` and licences by the name of their file, where the wheel has them.
    """

    path: Path
    sha256: str
    size: int
    name: str
    version: Version
    pure: bool
    raw_metadata: bytes
    metadata: Metadata
    manifests: tuple[Manifest, ...]
    changelog: str
    licences: tuple[tuple[str, str], ...]

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.path.name


def read_wheel(path: Path) -> Wheel:
    """Read a wheel; raises PluginError that says what is wrong with it."""
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise _refusal(str(error), "a name like netcl_plugin_x-1.0-py3-none-any.whl") from error
    try:
        with zipfile.ZipFile(path) as archive:
            return _Reader(archive, str(name), version).wheel(
                path, all(t.abi == "none" for t in tags)
            )
    except PluginError:  # a RuntimeError, too
        raise
    except _BROKEN_ZIP as error:
        raise _refusal(f"it cannot be unzipped ({error})", "a whole zip file", _BUILD) from error


_BUILD: Final = "Build it again"


def _refusal(given: str, expected: str = "", remedy: str = "") -> PluginError:
    return PluginError(message("the wheel", given, expected, remedy))


def _alone(plugin: str, metadata: Metadata) -> Manifest:
    """What the entry point of a single primitive says by itself: it needs no manifest."""
    op = Provided(plugin, "primitive", elementwise=True)
    return Manifest(
        plugin, (1, 0), summary=metadata.summary, license=metadata.licence, provides=(op,)
    )


class _Reader:
    """One open archive; every step raises PluginError for what it finds wrong."""

    def __init__(self, archive: zipfile.ZipFile, name: str, version: Version) -> None:
        self.archive = archive
        self.name = name
        self.version = version
        self.names = _safe_names(archive)
        self.info = self._info()

    def wheel(self, path: Path, pure: bool) -> Wheel:
        raw = self._bytes(f"{self.info}/METADATA")
        metadata = read_metadata(raw)
        given = (canonicalize_name(metadata.name), metadata.version)
        if given != (self.name, str(self.version)):
            wanted = f"{self.name} {self.version}, as its file is named"
            raise _refusal(f"its METADATA is of {' '.join(given)}", wanted)
        manifests = self._manifests(metadata)
        if manifests:
            self._verify()
        return Wheel(
            path=path,
            sha256=_digest_of(path),
            size=path.stat().st_size,
            name=self.name,
            version=self.version,
            pure=pure,
            raw_metadata=raw,
            metadata=metadata,
            manifests=manifests,
            changelog=self._changelog(),
            licences=tuple(self._licences()),
        )

    def _info(self) -> str:
        """The folder `.dist-info`; it has to be the one that the file's name announces."""
        tops = {name.split("/")[0] for name in self.names if "/" in name}
        found = sorted(top for top in tops if top.endswith(".dist-info"))
        if len(found) != 1:
            raise _refusal(f"it has {len(found)} folders .dist-info", "one", _BUILD)
        stem = found[0].removesuffix(".dist-info").partition("-")[0]
        if canonicalize_name(stem) != self.name:
            raise _refusal(f"its metadata lie in {found[0]}", f"those of {self.name}", _BUILD)
        for name in ("METADATA", "WHEEL", "RECORD"):
            if f"{found[0]}/{name}" not in self.names:
                raise _refusal(f"it has no {found[0]}/{name}", "one", _BUILD)
        return found[0]

    def _manifests(self, metadata: Metadata) -> tuple[Manifest, ...]:
        points = self._entry_points()
        places = points.get(MANIFEST, {})
        for plugin in sorted(points.get(PLUGINS, {})):
            if plugin not in places:
                raise _refusal(
                    f"its plugin {plugin!r} has no manifest",
                    f"an entry point {plugin!r} in the group {MANIFEST}",
                    f"Add {FILE} to its package: docs/plugins.md says what stands in it",
                )
        return tuple(
            self._manifest(plugin, places[plugin]) if plugin in places else _alone(plugin, metadata)
            for plugin in sorted({*points.get(PLUGINS, {}), *points.get(PRIMITIVES, {})})
        )

    def _manifest(self, plugin: str, value: str) -> Manifest:
        package, _, inner = (part.strip() for part in value.partition(":"))
        place = "/".join([*package.split("."), *PurePosixPath(inner or FILE).parts])
        if place not in self.names:
            raise _refusal(f"it has no {place}", f"the manifest of its plugin {plugin!r}")
        try:
            return parse(tomllib.loads(self._text(place)))
        except ValueError as error:  # of TOML
            raise _refusal(f"its manifest {place}: {error}", "TOML") from error
        except PluginError as error:  # of a value; it speaks of "its manifest"
            raise _refusal(str(error)) from error

    def _entry_points(self) -> dict[str, dict[str, str]]:
        place = f"{self.info}/entry_points.txt"
        if place not in self.names:
            return {}
        parser = RawConfigParser(delimiters=("=",), default_section="")
        parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
        try:
            parser.read_string(self._text(place))
        except EntryPointsError as error:
            raise _refusal(f"its entry_points.txt: {error}", "sections of NAME = VALUE") from error
        return {group: dict(parser.items(group)) for group in parser.sections()}

    def _changelog(self) -> str:
        """A CHANGELOG or CHANGES among the metadata or in the package; the metadata's first."""
        found = [
            name
            for name in self.names
            if PurePosixPath(name).stem.lower() in {"changelog", "changes"}
            and PurePosixPath(name).suffix.lower() in {"", ".md", ".txt", ".rst"}
        ]
        found.sort(key=lambda name: (not name.startswith(f"{self.info}/"), name.count("/"), name))
        return self._text(found[0]) if found else ""

    def _licences(self) -> Iterator[tuple[str, str]]:
        for name in self.names:
            start = f"{self.info}/licenses/"
            if name.startswith(start) and not name.endswith("/"):
                yield name.removeprefix(start), self._text(name)

    def _verify(self) -> None:
        """Every file is the one that RECORD lists: nothing was added, taken out or changed."""
        listed = dict(self._recorded())
        own = f"{self.info}/RECORD"
        files = {name for name in self.names if not name.endswith("/")}
        strangers = sorted((files ^ listed.keys()) - {own, f"{own}.jws", f"{own}.p7s"})
        if strangers:
            raise _refusal(f"{strangers[0]} stands either in it or in its RECORD", "both", _BUILD)
        total = sum(info.file_size for info in self.archive.infolist())
        if total > TOTAL_LIMIT:
            raise _refusal(f"unpacked it has {total >> 20} MiB", f"at most {TOTAL_LIMIT >> 20}")
        for name in sorted(files - {own}):
            if name in listed and self._digest(name) != listed[name]:
                raise _refusal(f"{name} is not the file of its RECORD", "its sha256", _BUILD)

    def _recorded(self) -> Iterator[tuple[str, str]]:
        try:
            for row in reader(self._text(f"{self.info}/RECORD").splitlines()):
                if row:
                    yield row[0], row[1] if len(row) > 1 else ""
        except CsvError as error:
            raise _refusal(f"its RECORD: {error}", "lines PATH,sha256=...,SIZE", _BUILD) from error

    def _digest(self, name: str) -> str:
        """As in RECORD: urlsafe base64 without the signs that fill it up."""
        sha = hashlib.sha256()
        with self.archive.open(name) as file:
            while piece := file.read(_CHUNK):
                sha.update(piece)
        return f"sha256={base64.urlsafe_b64encode(sha.digest()).rstrip(b'=').decode()}"

    def _bytes(self, name: str) -> bytes:
        size = self.archive.getinfo(name).file_size
        if size > DOCUMENT_LIMIT:
            raise _refusal(f"{name} has {size} bytes", f"at most {DOCUMENT_LIMIT}")
        return self.archive.read(name)

    def _text(self, name: str) -> str:
        try:
            return self._bytes(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise _refusal(f"{name}: {error}", "UTF-8") from error


def _safe_names(archive: zipfile.ZipFile) -> tuple[str, ...]:
    """The names of all files; raises PluginError for one that would leave the folder."""
    seen: set[str] = set()
    for name in archive.namelist():
        parts = name.rstrip("/").split("/")
        if "\\" in name or ":" in parts[0] or {"", ".", ".."} & set(parts):
            raise _refusal(f"it holds a file named {name!r}", "paths below its own folder")
        if name in seen:
            raise _refusal(f"it holds {name!r} twice", "each file once", _BUILD)
        seen.add(name)
    return tuple(sorted(seen))


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
