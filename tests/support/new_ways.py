"""More ways round a strict lock: start files, hooks of the import system, twins, odd bytes."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from distributions import install, install_plugin
from other_ways import EVIL
from place import MANIFEST, RICH, SHORT, Place
from ways import CODE_FILE, INFO, MANIFEST_FILE, MODULE, TEMPLATE_FILE, WAYS, Variables, way

__all__ = ["WAYS"]

#: A finder before all others, which gives a plugin's package another source.
FINDER: Final = """
import importlib.abc, importlib.util, sys
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name == "c_rich_package":
            return importlib.util.spec_from_loader(name, self, is_package=True)
    def create_module(self, spec): return None
    def exec_module(self, module): exec({0!r}, module.__dict__)
sys.meta_path.insert(0, Finder())
"""
HOOK: Final = """
import sys, importlib.machinery as m
class Loader(m.SourceFileLoader):
    def get_data(self, path):
        return super().get_data(path).replace(b"factor = 7", b"factor = 8")
native = m.ExtensionFileLoader, m.EXTENSION_SUFFIXES
sys.path_hooks.insert(0, m.FileFinder.path_hook((Loader, [".py"]), native))
sys.path_importer_cache.clear()
"""
MODULE_OF_RICH: Final = "import sys, types\nmade = types.ModuleType('c_rich_package')\n" + (
    "exec({0!r}, made.__dict__)\nsys.modules['c_rich_package'] = made\n"
)


def _starts(code: str, name: str, text: str) -> None:
    """A file that Python runs before the program."""

    @way(code, name)
    def write(place: Place) -> Variables:
        front = place.home / "front"
        front.mkdir()
        (front / "sitecustomize.py").write_text(text)
        return {"in_front": str(front)}


_starts("", "a finder before all others", FINDER.format(RICH.format(8)))
_starts("", "a hook of the import path", HOOK)
_starts("NP505", "a module that is there already", MODULE_OF_RICH.format(RICH.format(8)))


def _adds(code: str, name: str, file: str, text: str | bytes = "") -> None:
    @way(code, name)
    def write(place: Place) -> None:
        path = place.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


_adds("NP505", "a template of another case", "c_rich_package/templates/T.cl.j2", EVIL)
_adds("NP505", "a core's template in a plugin",
      "c_rich_package/templates/core/kernels/elementwise.cl.j2", EVIL)  # fmt: skip
_adds("NP505", "a plugin's template in the core", "netcl_core/templates/t.cl.j2", EVIL)
_adds("NP505", "a namespace in the core", "netcl_core/c_space.py", "factor = 8")
_adds("NP505", "a stub beside a module", "c_rich_package/__init__.pyi", "factor: int")
_adds("NP505", "a hidden file", "c_rich_package/.config", "factor = 8")
_adds("", "a module beside a package", "c_rich_package.py", RICH.format(8))
_adds("", "a library beside a package", "c_rich_package.abi3.so", b"")
_adds("", "a path file", "aa.pth", "import c_rich_package; c_rich_package.factor = 8")
_adds("", "metadata of another kind", "netcl_plugin_c_rich.egg-info/PKG-INFO",
      "Metadata-Version: 2.1\nName: netcl-plugin-c-rich\nVersion: 1.0\n")  # fmt: skip


def _bytes(name: str, file: str, old: bytes, new: bytes) -> None:
    @way("NP505", name)
    def edit(place: Place) -> None:
        path = place.folder / file
        data = path.read_bytes()
        assert old in data
        path.unlink()
        path.write_bytes(data.replace(old, new))


_bytes("ends of lines", CODE_FILE, b"\n", b"\r\n")
_bytes("a mark of the byte order", CODE_FILE, b"import click", b"\xef\xbb\xbfimport click")
_bytes("a space at the end of a template", TEMPLATE_FILE, b"x * 5{%", b"x * 5 {%")
_bytes("another coding", MODULE, b"from netcl_core", b"# coding: latin-1\nfrom netcl_core")


@way("NP505", "a package that is a link to a copy")
def _(place: Place) -> None:
    package = place.folder / "c_rich_package"
    other = place.home / "copy"
    package.rename(other)
    (other / "__init__.py").write_text(RICH.format(8))
    package.symlink_to(other)


@way("NP505", "a template that is a link")
def _(place: Place) -> None:
    (place.home / "t").write_text(EVIL)
    (place.folder / TEMPLATE_FILE).unlink()
    (place.folder / TEMPLATE_FILE).symlink_to(place.home / "t")


@way("", "metadata of a higher version beside its own")
def _(place: Place) -> None:
    other = place.folder / INFO.replace("1.0", "2.0")
    shutil.copytree(place.folder / INFO, other)
    text = (other / "METADATA").read_text().replace("Version: 1.0", "Version: 2.0")
    (other / "METADATA").write_text(text)


@way("NP505", "another version of the core")
def _(place: Place) -> None:
    (info,) = place.folder.glob("netcl_core-*.dist-info")
    text = (info / "METADATA").read_text()
    (info / "METADATA").unlink()
    (info / "METADATA").write_text(text.replace("\nVersion: 0", "\nVersion: 9", 1))


@way("", "a new plugin with the namespace and the command of another")
def _(place: Place) -> None:
    install_plugin(place.folder, "aaa", RICH.format(-100), {"t.cl.j2": EVIL}, MANIFEST)
    place.names.append("aaa")


@way("NP505", "rows of RECORD that lead elsewhere")
def _(place: Place) -> None:
    """The file itself is listed by a longer way, and by RECORD belongs to nobody."""
    place.edit(f"{INFO}/RECORD", f"{CODE_FILE},", f"c_rich_package/../{CODE_FILE},")
    place.edit(CODE_FILE, "factor = 7", "factor = 8")


@way("NP501", "a lock in a folder below that says nothing")
def _(place: Place) -> None:
    place.work = place.work / "below"
    place.work.mkdir()
    (place.work / "netcl.lock").write_text("{}")


def _sets(code: str, name: str, **variables: str) -> None:
    way(code, name)(lambda place: variables)


_sets("NP510", "only what is listed", NETCL_TRUST="listed", NETCL_PLUGINS="c_base")
_sets("MissingOpError", "only what is signed", NETCL_TRUST="signed")
_sets("", "advisories that cannot be read", NETCL_ADVISORIES="/proc/nowhere")
_sets("", "a program for interactive sessions", PYTHONSTARTUP="/proc/self/environ")
_sets("", "no assertions", PYTHONOPTIMIZE="2")


@way("NP505", "a file in the name of another")
def _(place: Place) -> None:
    """The digest of all files has a line for each; one name holds a line, and a file is gone."""
    gone = place.folder / MANIFEST_FILE
    line = f"{MANIFEST_FILE}\t{hashlib.sha256(gone.read_bytes()).hexdigest()}\n"
    named = place.folder / line / TEMPLATE_FILE
    named.parent.parent.parent.mkdir(parents=True)
    shutil.move(place.folder / Path(TEMPLATE_FILE).parent, named.parent)
    gone.unlink()
    record = place.folder / INFO / "RECORD"
    rows = record.read_text().splitlines(keepends=True)
    record.write_text("".join(r for r in rows if MANIFEST_FILE not in r and TEMPLATE_FILE not in r))


@way("", "byte code elsewhere")
def _(place: Place) -> Variables:
    """Under the folder of byte code lies that of another source, with a fitting header."""
    import py_compile

    prefix = place.home / "byte code"
    source = place.folder / CODE_FILE
    other = place.home / "other.py"
    other.write_text(RICH.format(8))
    facts = source.stat()
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    where = prefix / str(source.parent).lstrip("/") / "__init__.cpython-311.pyc"
    where.parent.mkdir(parents=True)
    py_compile.compile(str(other), str(where))
    return {"PYTHONPYCACHEPREFIX": str(prefix)}


@way("", "an edit that was taken back")
def _(place: Place) -> None:
    place.edit(CODE_FILE, "factor = 7", "factor = 8")
    place.edit(CODE_FILE, "factor = 8", "factor = 7")


@way("", "another distribution of a user's own")
def _(place: Place) -> Variables:
    base = place.home / "base"
    site = base / "lib" / "python3.11" / "site-packages"
    install(site, "netcl-plugin-aa", {"aa.py": SHORT.format(-100)},
            {"netcl_core.primitives": {"t_op": "aa:s_op"}})  # fmt: skip
    (site / "usercustomize.py").write_text("raise SystemExit('started')")
    return {"PYTHONUSERBASE": str(base), "PYTHONNOUSERSITE": ""}


# -- files that do not end, or are none ------------------------------------------------------


def _puts(code: str, name: str, make: Callable[[Path], object]) -> None:
    """Something that lies in a plugin's package."""
    way(code, name)(lambda place: make(place.folder / "c_rich_package") and None)


_puts("NP505", "a pipe beside a module", lambda at: os.mkfifo(at / "pipe.py"))
_puts("NP505", "a device without an end", lambda at: (at / "zero.cl.j2").symlink_to("/dev/zero"))
_puts("NP505", "a service's socket", lambda at: os.mknod(at / "s", stat.S_IFSOCK | 0o600))
_puts("NP505", "a folder that holds itself", lambda at: (at / "again").symlink_to(at))
_puts("NP505", "a link that leads nowhere", lambda at: (at / "gone.py").symlink_to("/nowhere/x"))
_puts("NP505", "a link that leads to itself", lambda at: (at / "turn.py").symlink_to("turn.py"))
_puts(
    "NP505",
    "a name in no alphabet",
    lambda at: Path(os.fsdecode(b"%b/\xff.py" % bytes(at))).touch(),
)
_adds("NP505", "a library in front of a package's own module", "c_rich_package/__init__.abi3.so")
_sets("", "another encoding", PYTHONUTF8="0", LC_ALL="C", PYTHONIOENCODING="ascii")


@way("", "the same folder by another spelling")
def _(place: Place) -> Variables:
    return {"in_front": f"{place.folder}/../{place.folder.name}"}


@way("NP505", "rows of RECORD for files of the system")
def _(place: Place) -> None:
    with (place.folder / INFO / "RECORD").open("a") as record:
        record.write("/etc/passwd,,\n../../../../../../../etc/passwd,,\n")
    place.edit(CODE_FILE, "factor = 7", "factor = 8")


# -- twins of what is locked, and settings that say there is no lock ---------------------------

_adds("NP505", "a package beside a module of its name", "c_short/__init__.py", SHORT.format(12))
_adds("NP505", "a library beside a module of its name", "c_short.abi3.so")
_adds("NP505", "an installation that says that it is a link", f"{INFO}/direct_url.json",
      '{"url": "file:///nowhere", "dir_info": {"editable": true}}')  # fmt: skip


@way("NP505", "an edit, and settings that say that there is no lock")
def _(place: Place) -> None:
    (place.work / "pyproject.toml").write_text("[tool.netcl]\nlock = false\n")
    place.edit(CODE_FILE, "factor = 7", "factor = 8")


def _twin(code: str, name: str, info: str) -> None:
    """Metadata of the same name and version, whose entry point leads to another module."""

    @way(code, name)
    def copy(place: Place) -> None:
        other = place.folder / info
        shutil.copytree(place.folder / INFO, other)
        (other / "entry_points.txt").unlink()
        points = "[netcl_core.plugins]\nc_rich = twin:plugin\n"
        (other / "entry_points.txt").write_text(points)
        (place.folder / "twin.py").write_text(RICH.format(8))


_twin("NP505", "metadata of another spelling", "Netcl.Plugin.C_Rich-1.0.dist-info")
_twin("", "metadata in a folder that comes first", "AAA-1.0.dist-info")


@way("NP505", "an egg in front")
def _(place: Place) -> Variables:
    egg = place.home / "netcl_plugin_c_rich-1.0.egg"
    (egg / "EGG-INFO").mkdir(parents=True)
    facts = "Metadata-Version: 2.1\nName: netcl-plugin-c-rich\nVersion: 1.0\n"
    (egg / "EGG-INFO" / "PKG-INFO").write_text(facts)
    (egg / "EGG-INFO" / "entry_points.txt").write_text(
        "[netcl_core.plugins]\nc_rich = twin:plugin\n"
    )
    (egg / "twin.py").write_text(RICH.format(8))
    return {"in_front": str(egg)}


@way("NP505", "no RECORD")
def _(place: Place) -> None:
    (place.folder / INFO / "RECORD").unlink()


@way("NP501", "a lock of deep tables")
def _(place: Place) -> None:
    place.lock.write_text("[" * 200_000)


@way("NP501", "a lock with a number without an end")
def _(place: Place) -> None:
    place.lock.write_text('{"schema": ' + "9" * 10_000 + "}")
