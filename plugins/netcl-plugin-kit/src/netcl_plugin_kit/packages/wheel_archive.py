"""WheelArchive: a wheel as a zip file that nobody trusts: safe names, and limits on all sizes."""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final
from unicodedata import normalize

from netcl_core.errors import PluginError, message
from netcl_plugin_kit.packages.record import record_digest

#: Of one document inside a wheel, and of all its files together, in bytes.
DOCUMENT_LIMIT: Final = 4 << 20
TOTAL_LIMIT: Final = 1 << 30
BUILD: Final = "Build it again"
_CHUNK: Final = 1 << 20
_INFO: Final = ".dist-info"
#: What installers write about themselves.
_OF_INSTALLERS: Final = re.compile(r"[^/]+\.dist-info/(direct_url\.json|INSTALLER|REQUESTED)")
#: The head of a file up to its name; what may follow its data; the end of the whole.
_LENGTHS: Final = "<26xHH"
_DESCRIPTOR: Final = 24
_LAST, _SIGNATURE = 22, b"PK\5\6"
#: What pip moves from `<name>.data/` to the top level.
_LIBRARY: Final = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/(.+)$")
_BROKEN_ZIP: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,  # a compression that zipfile does not know
    RuntimeError,  # an encrypted file
    UnicodeDecodeError,  # of a name
    OSError,
    struct.error,
)


def refusal(
    given: str, expected: str = "", remedy: str = "", who: str = "the wheel"
) -> PluginError:
    """The error that says what is wrong with a wheel, in one line."""
    return PluginError(message(who, " ".join(given.split()), expected, remedy))


def is_safe(name: str) -> bool:
    """Whether a file's name in a wheel is a plain path below the wheel's own folder."""
    parts = name.rstrip("/").split("/")
    cut = any(part[-1:] in (".", " ") for part in parts)  # Windows leaves these ends out
    return not ("\\" in name or ":" in parts[0] or "" in parts or cut)


@contextmanager
def opened(path: Path) -> Iterator[WheelArchive]:
    """An open wheel; what is wrong with the zip file, inside the block too, is a PluginError."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield WheelArchive(archive)
    except PluginError:  # a RuntimeError, too
        raise
    except _BROKEN_ZIP as error:
        raise refusal(f"it cannot be unzipped ({error})", "a whole zip file", BUILD) from error


@final
class WheelArchive:
    """The files of an open wheel, as `opened` gives it; refuses one that unpacks to too much."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.names: tuple[str, ...] = tuple(archive.namelist())
        total = sum(info.file_size for info in archive.infolist())
        if total > TOTAL_LIMIT:
            raise refusal(f"unpacked it has {total >> 20} MiB", f"at most {TOTAL_LIMIT >> 20} MiB")

    @property
    def files(self) -> tuple[str, ...]:
        """The names that are no folders', in the archive's order; one may be there twice."""
        return tuple(name for name in self.names if not name.endswith("/"))

    def insist_on_names(self) -> None:
        """Raise PluginError for a name that leaves the wheel's folder, or is there twice.

        Also for what not every reader of zip files would take for the same files.
        """
        self._insist_on_one_reading()
        for name, count in Counter(self.names).items():
            if not is_safe(name):
                raise refusal(f"it holds a file named {name!r}", "paths below its own folder")
            if count > 1:
                raise refusal(f"it holds {name!r} twice", "each file once", BUILD)
            if _OF_INSTALLERS.fullmatch(name):
                raise refusal(f"it holds {name}", "none: installers write that", BUILD)
        folded: dict[str, str] = {}
        for name in self.names:
            other = folded.setdefault(normalize("NFC", name).casefold(), name)
            if other != name:
                raise refusal(f"it holds {other!r} and {name!r}", "names that differ", BUILD)

    def _insist_on_one_reading(self) -> None:
        """Some read the files of a zip file from its start, others by the directory at its end."""
        file, end = self._archive.fp, 0
        assert file is not None  # it is open
        for info in sorted(self._archive.infolist(), key=lambda each: each.header_offset):
            if stat.S_ISLNK(info.external_attr >> 16):
                raise refusal(f"its {info.filename!r} is a link", "files", BUILD)
            if not 0 <= info.header_offset - end <= (_DESCRIPTOR if end else 0):
                raise refusal("it has bytes that are of no file", "one file after the other", BUILD)
            file.seek(info.header_offset)
            lengths = struct.unpack(_LENGTHS, file.read(struct.calcsize(_LENGTHS)))
            end = file.tell() + sum(lengths) + info.compress_size
        file.seek(-_LAST, os.SEEK_END)
        if not 0 <= self._archive.start_dir - end <= _DESCRIPTOR or file.read(4) != _SIGNATURE:
            raise refusal("it has bytes that are of no file", "a directory at its end", BUILD)

    def info(self) -> str:
        """The folder of its metadata; raises PluginError unless there is one, with METADATA."""
        tops = {name.split("/")[0] for name in self.names if "/" in name}
        folders = sorted(top for top in tops if top.endswith(_INFO))
        if len(folders) != 1:
            raise refusal(f"it has {len(folders)} folders {_INFO}", "one", BUILD)
        if f"{folders[0]}/METADATA" not in self.names:
            raise refusal(f"it has no {folders[0]}/METADATA", "one", BUILD)
        return folders[0]

    def data(self, name: str) -> bytes:
        """A document's bytes; raises PluginError for one that is too long."""
        size = self._archive.getinfo(name).file_size
        if size > DOCUMENT_LIMIT:
            raise refusal(f"{name} has {size} bytes", f"at most {DOCUMENT_LIMIT}")
        return self._archive.read(name)

    def text(self, name: str) -> str:
        """A document's text; raises PluginError for one that is too long, or not in UTF-8."""
        try:
            return self.data(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise refusal(f"{name}: {error}", "UTF-8") from error

    def digest(self, name: str) -> str:
        """A file's digest, as RECORD has it."""
        with self._archive.open(name) as file:
            return record_digest(file)

    def unpack(self, into: Path) -> None:
        """Write the files where pip would; one whose name is not safe is left out."""
        for name in filter(is_safe, self.files):
            moved = _LIBRARY.match(name)
            path = into / (moved[1] if moved else name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._archive.open(name) as source, path.open("wb") as target:
                shutil.copyfileobj(source, target, _CHUNK)


def digest_of(path: Path) -> str:
    """The sha256 of a whole file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
