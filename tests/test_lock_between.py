"""What changes between the first op and the first use of a plugin is not executed."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from place import RICH, SHORT, STRICT, TEMPLATE, Place
from ways import CODE_FILE, MODULE, TEMPLATE_FILE

#: They start processes.
pytestmark = pytest.mark.turns(2)

PROGRAM = """
import os, sys
import netcl_core as nc
import netcl_core.autograd as ag
with nc.use_device("numpy"):
    ag.relu(1.0)
    print("first", flush=True)
    exec(sys.stdin.readline())
    print([ag.t_op(1.0).item(), ag.s_op(1.0).item(), nc.c_space.factor])
"""
EVIL = TEMPLATE.replace("5", "-100")
#: Code: what is refused; "": it is as before. A way gives a line that the program runs.
WAYS: dict[str, tuple[str, Callable[[Place], str]]] = {}


def _way(code: str, name: str) -> Callable[[Callable[[Place], str]], None]:
    def enter(way: Callable[[Place], str]) -> None:
        WAYS[name] = (code, way)

    return enter


def _shadow(place: Place) -> Path:
    folder = place.home / "shadow"
    (folder / "c_rich_package").mkdir(parents=True)
    (folder / "c_rich_package" / "__init__.py").write_text(RICH.format(-100))
    (folder / MODULE).write_text(SHORT.format(-100))
    return folder


for _name, _file, _old, _new in [
    ("a module", CODE_FILE, "factor = 7", "factor = 8"),
    ("a single module", MODULE, "* 11", "* 12"),
    ("a template", TEMPLATE_FILE, "x * 5", "x * 6"),
]:

    def _edited(place: Place, file: str = _file, old: str = _old, new: str = _new) -> str:
        place.edit(file, old, new)
        return ""

    _way("not the file that was compared", f"an edit of {_name}")(_edited)

_way("", "a folder in front")(lambda place: f"sys.path.insert(0, {str(_shadow(place))!r})")
_way("", "another working directory")(lambda place: f"os.chdir({str(_shadow(place))!r})")
_way("", "a path without the plugins")(lambda place: f"sys.path.remove({str(place.folder)!r})")


@_way("", "byte code that fits the source")
def _(place: Place) -> str:
    source = place.folder / CODE_FILE
    time, text = source.stat().st_mtime_ns, source.read_text()
    source.write_text(text.replace("= 7", "= 8"))
    os.utime(source, ns=(time, time))
    py_compile.compile(str(source))
    source.write_text(text)
    os.utime(source, ns=(time, time))
    return ""


@_way("No such file", "byte code for the source")
def _(place: Place) -> str:
    source = place.edit(CODE_FILE, "factor = 7", "factor = 8")
    py_compile.compile(str(source), str(source.with_suffix(".pyc")))
    source.unlink()
    return ""


@_way("", "a library before a module")
def _(place: Place) -> str:
    (place.folder / "c_short.abi3.so").write_bytes(b"")
    return ""


@_way("not the file that was compared", "a template that was not there")
def _(place: Place) -> str:
    (place.folder / TEMPLATE_FILE).with_name("u.cl.j2").write_text(EVIL)
    return "ag.AutogradPrimitive.from_template('c_rich/u.cl.j2')"


@_way("the lock knows no module", "a module that was not there")
def _(place: Place) -> str:
    (place.folder / CODE_FILE).with_name("more.py").write_text("print('more')")
    return "import c_rich_package.more"


@_way("not the file that was compared", "a link instead of a package")
def _(place: Place) -> str:
    shadow = _shadow(place)
    shutil.rmtree(place.folder / "c_rich_package")
    (place.folder / "c_rich_package").symlink_to(shadow / "c_rich_package")
    return ""


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("locked"))
    place.fill()
    place.lock_it()
    return place


@pytest.fixture
def place(locked: Place, tmp_path: Path) -> Iterator[Place]:
    return locked.copy(tmp_path)


def started(program: str, place: Place) -> tuple[subprocess.Popen[str], str]:
    """A program that waits for a line under a strict lock, and the first line that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=place.environment(**STRICT),
        cwd=place.work,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline()


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", WAYS)
def test_what_is_executed_is_what_was_hashed(name: str, place: Place) -> None:
    code, way = WAYS[name]
    process, first = started(PROGRAM, place)
    line = way(place) if first else ""
    out, said = process.communicate(f"{line}\n")
    assert first == "first\n", said
    assert "-100" not in out and "8" not in out
    assert (code in said) if code else (out == "[5.0, 11.0, 7]\n"), said


IMPORTED = """
import sys
import c_rich_package
import netcl_core as nc
import netcl_core.autograd as ag
print("imported", flush=True)
sys.stdin.readline()
with nc.use_device("numpy"):
    print(ag.t_op(1.0).item(), c_rich_package.factor)
"""


@pytest.mark.parametrize("way", ["nothing", "put back", "byte code"])
def test_a_module_that_was_imported_before_ran_what_was_locked(way: str, place: Place) -> None:
    """It was not read from the bytes that were compared: what the program imports is Python's."""
    source = place.folder / CODE_FILE
    text, times = source.read_text(), (source.stat().st_atime_ns, source.stat().st_mtime_ns)
    source.unlink()  # it is linked
    source.write_text(text if way == "nothing" else text.replace("= 7", "= 8"))
    os.utime(source, ns=times)
    py_compile.compile(str(source))
    if way == "byte code":
        source.write_text(text)
        os.utime(source, ns=times)
    process, first = started(IMPORTED, place)
    if way == "put back":
        source.write_text(text)
        os.utime(source, ns=times)
    out, said = process.communicate("\n")
    assert first == "imported\n", said
    if way == "nothing":
        assert out == "5.0 7\n", said
    else:
        assert not out and "NP505: c_rich_package: it is imported already, and its file or" in said
