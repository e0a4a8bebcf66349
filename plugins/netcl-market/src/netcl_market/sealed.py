"""Under a strict lock: what is executed is what was hashed.

Files are compared with the lock when the first op is looked up, and modules are imported later,
whenever something needs them. So they are read here, once: the bytes that have the digest of then
are compiled, whatever lies in front of them on the path, and no byte code beside them counts.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, final

from netcl_core.plugins.protocol import NamespaceFinder
from netcl_market.failures import plugin_error
from netcl_market.installed import Places, module_of

#: Which file of a module Python takes.
_SUFFIXES: Final = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES)

_OWN: Final = __name__.partition(".")[0]
#: Bytes before the code in a file of byte code.
_HEADER: Final = 16


#: Seconds by which the beginning of a process and times of files are rounded.
_TICKS: Final = 0.02


@cache
def _began() -> float:
    """When this process began, in seconds since the epoch; where nobody tells, at no time."""
    try:
        stat = Path("/proc/self/stat").read_text(encoding="utf-8")
        since_boot = int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot + _TICKS
    except (OSError, AttributeError):
        return float("inf")


@final
class Sealed(MetaPathFinder):
    """Finds the modules of locked distributions where they were hashed, and reads their files."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}
        self._folders: dict[str, str] = {}
        self._modules: dict[str, str] = {}
        #: Packages without an `__init__`: folders of modules.
        self._parents: set[str] = set()

    def add(self, places: Places, digests: Iterable[tuple[str, str, str]]) -> None:
        """Hold the files of a distribution: the name of each, its path and its digest."""
        self._folders |= {path: name.replace("/", ".") for name, path in places.folders}
        for name, path, digest in digests:
            self._digests[path] = digest
            module, suffix = module_of(name), f".{name.rpartition('/')[2].partition('.')[2]}"
            there = self._modules.get(module, "")
            if module and suffix in _SUFFIXES and not there.endswith(EXTENSION_SUFFIXES[-1]):
                self._modules[module] = path
                parts = module.split(".")
                self._parents.update(".".join(parts[:k]) for k in range(1, len(parts)))

    def strangers(self) -> list[tuple[str, str]]:
        """Modules of theirs that are imported already, and not as locked: the name, and why not.

        Not the core's and the market's, which are what asks.
        """
        strangers = []
        for name, file in self._modules.items():
            module = sys.modules.get(name)
            if module is None or name.partition(".")[0] == "netcl_core":
                continue
            origin = str(getattr(module, "__file__", None))
            if origin != file and os.path.realpath(origin) != os.path.realpath(file):
                strangers.append((name, f"from {origin}"))
            elif name.partition(".")[0] != _OWN and not self._ran(module, file):
                strangers.append((name, "and its file or its byte code has changed since"))
        return strangers

    def _ran(self, module: ModuleType, file: str) -> bool:
        """Whether a module that was imported ran the content that its file has now.

        The file has not changed since this process began, and its byte code is that of the source.
        """
        if os.stat(file).st_ctime > _began():  # noqa: PTH116 - a Path takes ten times as long
            return False
        cached = Path(getattr(module, "__cached__", None) or "")
        if not file.endswith(tuple(SOURCE_SUFFIXES)) or not cached.is_file():
            return True
        with suppress(EOFError, ValueError, TypeError):  # it is no byte code, and was not run
            ran = marshal.loads(cached.read_bytes()[_HEADER:])
            return bool(ran == compile(self.read(Path(file)), file, "exec", dont_inherit=True))
        return True

    def read(self, path: Path) -> bytes:
        """The content of a file; raises PluginError NP512 if it is not what was locked."""
        import hashlib  # brings OpenSSL, which a load from receipts does without

        data, name = path.read_bytes(), str(path)
        locked = self._digests.get(name)
        if locked is None and not any(name.startswith(f"{folder}/") for folder in self._folders):
            return data
        if hashlib.sha256(data).hexdigest() != locked:
            given = f"{path} is not the file that was compared with the lock"
            raise plugin_error("NP512", given)
        return data

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of a name from its locked file; raises ModuleNotFoundError for another."""
        file = self._modules.get(name)
        if file is not None and file.endswith(tuple(EXTENSION_SUFFIXES)):
            self.read(Path(file))
            return spec_from_file_location(name, file)
        if file is not None:
            return spec_from_file_location(name, file, loader=_Loader(name, file, self))
        if name in self._parents:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = []  # its modules are found here
            return spec if "." in name or name in self._folders.values() else None
        if name.partition(".")[0] in self._folders.values():
            return _namespace(name)
        return None


def _namespace(name: str) -> ModuleSpec:
    """A namespace that a locked plugin brings, as `netcl_core.nn`, which is no file of the core."""
    for finder in [each for each in sys.meta_path if isinstance(each, NamespaceFinder)]:
        spec = finder.find_spec(name, None)
        if spec is not None:
            return spec
    raise ModuleNotFoundError(f"the lock knows no module {name!r}", name=name)


@final
class _Loader(SourceFileLoader):
    """Executes the bytes of a file that have the locked digest."""

    def __init__(self, name: str, path: str, sealed: Sealed) -> None:
        super().__init__(name, path)
        self._sealed = sealed

    def get_code(self, fullname: str) -> CodeType:
        code: Any = self.source_to_code(self._sealed.read(Path(self.path)), self.path)
        return code  # type: ignore[no-any-return]  # code, as compile() makes it

    def get_data(self, path: str) -> bytes:
        return self._sealed.read(Path(path))


_sealed: Final[list[Sealed]] = []


def seal(sealing: Sealed) -> None:
    """Let what was hashed be what is imported from now on."""
    unseal()
    _sealed.append(sealing)
    sys.meta_path.insert(0, sealing)


def unseal() -> None:
    """Let Python import what it finds."""
    for finder in _sealed:
        sys.meta_path.remove(finder)
    _sealed.clear()


def read(path: Path) -> bytes:
    """The content of a file, which is the locked one if a strict lock knows it."""
    return _sealed[0].read(path) if _sealed else path.read_bytes()
