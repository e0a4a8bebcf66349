"""Ways to change a plugin that a strict lock holds, each with what has to come of it.

A way changes a `Place` and may give environment variables. The code says with what the program
is refused; without one all that the program gets is as before.
"""

from __future__ import annotations

import json
import os
import py_compile
import shutil
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from distributions import install, install_plugin
from place import MANIFEST, RICH, SHORT, TEMPLATE, Place

Variables: TypeAlias = Mapping[str, str] | None
Way: TypeAlias = Callable[[Place], Variables]
#: What each way is called -> the code of the refusal ("": nothing changes), and the way.
WAYS: Final[dict[str, tuple[str, Way]]] = {}

CODE_FILE, MODULE = "c_rich_package/__init__.py", "c_short.py"
TEMPLATE_FILE = "c_rich_package/templates/t.cl.j2"
MANIFEST_FILE = "c_rich_package/netcl_plugin.toml"
INFO = "netcl_plugin_c_rich-1.0.dist-info"


def way(code: str, name: str) -> Callable[[Way], Way]:
    """Enter a function as a way."""

    def enter(function: Way) -> Way:
        assert name not in WAYS
        WAYS[name] = (code, function)
        return function

    return enter


def _edits(code: str, name: str, file: str, old: str, new: str) -> None:
    def edit(place: Place) -> None:
        place.edit(file, old, new)

    way(code, name)(edit)


# -- files of a plugin -----------------------------------------------------------------

_edits("NP505", "a line more in a module", CODE_FILE, "factor = 7", "factor = 7\nfactor = 8")
_edits("NP505", "a byte of a template", TEMPLATE_FILE, "x * 5", "x * 6")
_edits("NP505", "a byte of a single module", MODULE, "* 11", "* 12")
_edits("NP505", "the manifest", MANIFEST_FILE, "rich", "poor")
_edits("NP505", "an entry point", f"{INFO}/entry_points.txt", ":plugin", ":Plugin")
_edits("NP505", "one entry point more", f"{INFO}/entry_points.txt", "[netcl_core.manifest]",
       "x = c_first_package:plugin\n\n[netcl_core.manifest]")  # fmt: skip
_edits("NP505", "the summary in METADATA", f"{INFO}/METADATA", "\n\n", "\nSummary: new\n\n")
_edits("NP504", "a higher version", f"{INFO}/METADATA", "Version: 1.0", "Version: 1.1")
_edits("NP504", "a lower version", f"{INFO}/METADATA", "Version: 1.0", "Version: 0.9")
_edits("NP503", "another name in METADATA", f"{INFO}/METADATA", "c_rich", "c_other")
_edits("NP505", "a row less in RECORD", f"{INFO}/RECORD", CODE_FILE, "gone.py")
_edits("NP505", "a file of the core", "netcl_core/version.py", "(1, 2)", "(1, 3)")
_edits(
    "NP505", "a template of the core", "netcl_core/templates/kernels/elementwise.cl.j2", "{", "{ "
)
_edits("NP505", "the module of another plugin", "c_base_package/__init__.py", ": 0", ": 1")


@way("NP505", "an edit that keeps size and time of change")
def _(place: Place) -> None:
    before = (place.folder / CODE_FILE).stat()
    edited = place.edit(CODE_FILE, "factor = 7", "factor = 8")
    os.utime(edited, ns=(before.st_atime_ns, before.st_mtime_ns))


@way("NP505", "an edit with a RECORD that fits it")
def _(place: Place) -> None:
    place.edit(CODE_FILE, "factor = 7", "factor = 8")
    folder = install_plugin(
        place.home / "x", "c_rich", RICH.format(8), {"t.cl.j2": TEMPLATE}, MANIFEST
    )
    shutil.copy(folder / "RECORD", place.folder / INFO)


@way("NP505", "a module deleted")
def _(place: Place) -> None:
    (place.folder / CODE_FILE).unlink()


@way("NP505", "a template deleted")
def _(place: Place) -> None:
    (place.folder / TEMPLATE_FILE).unlink()


@way("NP505", "a module added")
def _(place: Place) -> None:
    (place.folder / "c_rich_package" / "click.py").write_text("Command = print")


@way("NP505", "a template added")
def _(place: Place) -> None:
    (place.folder / "c_rich_package" / "templates" / "u.cl.j2").write_text(TEMPLATE)


@way("NP505", "a library that goes before a module")
def _(place: Place) -> None:
    (place.folder / "c_rich_package" / "__init__.abi3.so").write_bytes(b"")


@way("NP505", "byte code without a source")
def _(place: Place) -> None:
    source = place.edit(CODE_FILE, "factor = 7", "factor = 8")
    py_compile.compile(str(source), str(source.with_suffix(".pyc")))
    source.unlink()


@way("", "byte code of an older source")
def _(place: Place) -> None:
    """Python sees by its header that it is not of this source."""
    source = place.folder / CODE_FILE
    other = source.with_name("other.py")
    other.write_text(RICH.format(8) + "# longer\n")
    py_compile.compile(str(other), py_compile.importlib.util.cache_from_source(str(source)))
    other.unlink()


@way("NP505", "a package beside a single module")
def _(place: Place) -> None:
    package = place.folder / "c_short" / "__init__.py"
    package.parent.mkdir()
    package.write_text(SHORT.format(12))


@way("NP505", "a library beside a single module")
def _(place: Place) -> None:
    (place.folder / "c_short.abi3.so").write_bytes(b"")


@way("NP505", "a link to another module")
def _(place: Place) -> None:
    other = place.home / "other.py"
    other.write_text(RICH.format(8))
    (place.folder / CODE_FILE).unlink()
    (place.folder / CODE_FILE).symlink_to(other)


@way("", "a link to the same content")
def _(place: Place) -> None:
    moved = (place.folder / CODE_FILE).rename(place.home / "moved.py")
    (place.folder / CODE_FILE).symlink_to(moved)


@way("NP505", "a link to another package")
def _(place: Place) -> None:
    moved = (place.folder / "c_rich_package").rename(place.home / "moved")
    (moved / "__init__.py").write_text(RICH.format(8))
    (place.folder / "c_rich_package").symlink_to(moved)


def _linked_templates(code: str, name: str, text: str) -> None:
    @way(code, name)
    def link(place: Place) -> None:
        folder = (place.folder / TEMPLATE_FILE).parent
        moved = folder.rename(place.home / "moved")
        (moved / "t.cl.j2").write_text(text)
        folder.symlink_to(moved)


_linked_templates("", "a link to the same folder of templates", TEMPLATE)
_linked_templates("NP505", "a link to another folder of templates", TEMPLATE + "\n")


@way("NP505", "a module in a folder for byte code")
def _(place: Place) -> None:
    folder = place.folder / "c_rich_package" / "__pycache__"
    folder.mkdir(exist_ok=True)
    (folder / "more.py").write_text(RICH.format(8))


@way("NP505", "a link to a folder of modules")
def _(place: Place) -> None:
    (place.home / "more").mkdir()
    (place.home / "more" / "__init__.py").write_text(RICH.format(8))
    (place.folder / "c_rich_package" / "more").symlink_to(place.home / "more")


@way("", "byte code that fits the source by its header")
def _(place: Place) -> None:
    source = place.folder / CODE_FILE
    text, time = source.read_text(), source.stat().st_mtime_ns
    source.write_text(text.replace("= 7", "= 8"))
    os.utime(source, ns=(time, time))
    py_compile.compile(str(source))
    source.write_text(text)
    os.utime(source, ns=(time, time))


@way("NP505", "a pipe for a module")
def _(place: Place) -> None:
    (place.folder / CODE_FILE).unlink()
    os.mkfifo(place.folder / CODE_FILE)


@way("NP505", "a folder for a template")
def _(place: Place) -> None:
    (place.folder / TEMPLATE_FILE).unlink()
    (place.folder / TEMPLATE_FILE).mkdir()


@way("", "other permissions")
def _(place: Place) -> None:
    (place.folder / CODE_FILE).chmod(0o444)


@way("NP505", "a record of tuning that comes with it")
def _(place: Place) -> None:
    (place.folder / "c_rich_package" / "tuning.json").write_text("{}")


# -- what the installer writes ---------------------------------------------------------


@way("NP503", "it is removed")
def _(place: Place) -> None:
    shutil.rmtree(place.folder / INFO)
    shutil.rmtree(place.folder / "c_rich_package")


@way("NP503", "its metadata under another name")
def _(place: Place) -> None:
    (place.folder / INFO).rename(place.folder / "away")


@way("NP505", "RECORD deleted")
def _(place: Place) -> None:
    (place.folder / INFO / "RECORD").unlink()


@way("NP504", "METADATA deleted")
def _(place: Place) -> None:
    (place.folder / INFO / "METADATA").unlink()


@way("NP505", "it says that it is editable")
def _(place: Place) -> None:
    text = json.dumps({"url": "file:///src", "dir_info": {"editable": True}})
    (place.folder / INFO / "direct_url.json").write_text(text)


@way("NP505", "another distribution under its name in another spelling")
def _(place: Place) -> None:
    folder = install(place.folder, "NETCL.Plugin.C-Rich", {"aa.py": SHORT.format(8)},
                   {"netcl_core.primitives": {"t_op": "aa:s_op"}})  # fmt: skip
    assert folder.name < INFO
