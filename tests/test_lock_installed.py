"""A lock file against what is installed: what is told apart, and what is remembered of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from distributions import install_plugin
from netcl_market import file_digests
from netcl_market.finding import InstalledDistribution, distributions
from netcl_market.installed import Installed, Places, by_name, core
from netcl_market.lock import DevicePart, Lock, Pin
from netcl_market.lock_verification import compare, digest_now, verify
from netcl_market.scanning import Folder
from netcl_plugin_tools.lock.run import pin
from netcl_plugin_tools.lock.text import text_of

from netcl_core import config

SAMPLE = Lock(Pin("0.1.1", "c0"), {"netcl-plugin-a": Pin("1.0", "a0")}, {})


# -- what is installed -----------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    for name in ("l_one", "l_two"):
        install_plugin(folder, name, "raise AssertionError('imported')", manifest="schema = 1\n")
    monkeypatch.syspath_prepend(str(folder))
    return folder


def plugins_of(site: Path) -> list[InstalledDistribution]:
    return [each for each in distributions() if each.location.startswith(str(site))]


def lock_of(site: Path) -> Lock:
    installed = by_name(plugins_of(site))
    return Lock(pin(core()), {name: pin(one) for name, one in installed.items()}, {})


def codes(lock: Lock, site: Path) -> list[tuple[str, str]]:
    return [(each.code, each.who) for each in compare(lock, core(), by_name(plugins_of(site)))]


def one_of(site: Path, name: str) -> Installed:
    return by_name(plugins_of(site))[f"netcl-plugin-{name}".replace("_", "-")]


def metadata(site: Path, name: str) -> Path:
    return site / f"netcl_plugin_{name}-1.0.dist-info"


def test_what_is_installed_fits_its_own_lock(site: Path) -> None:
    assert codes(lock_of(site), site) == []


def test_kinds_of_misfits_are_told_apart(site: Path) -> None:
    lock = lock_of(site)
    two = metadata(site, "l_two")
    (site / "l_two_package" / "more.py").touch()
    assert codes(lock, site) == [("NP505", "netcl-plugin-l-two")]
    text = (two / "METADATA").read_text()
    (two / "METADATA").write_text(text.replace("Version: 1.0", "Version: 1.1"))
    assert codes(lock, site) == [("NP504", "netcl-plugin-l-two")]
    (two / "entry_points.txt").unlink()
    assert codes(lock, site) == [("NP503", "netcl-plugin-l-two")]
    (metadata(site, "l_one") / "METADATA").write_text("Name: x\nVersion: 1.0\n")
    assert codes(lock, site)[-1] == ("NP506", "x")
    assert codes(replace(lock, core=Pin("0.0.1")), site)[0] == ("NP504", "netcl-core")


def test_what_is_of_this_machine_does_not_count(site: Path, tmp_path: Path) -> None:
    """The same wheel gives the same digest wherever it is installed; any other file counts."""
    before = one_of(site, "l_two")
    record = metadata(site, "l_two") / "RECORD"
    local = ["../../../bin/a,sha256=3,30", "l_two_package/__pycache__/x.cpython-311.pyc,,"]
    local += ["netcl_plugin_l_two-1.0.dist-info/REQUESTED,sha256=5,0"]
    record.write_text("\n".join([*local, *reversed(record.read_text().splitlines())]))
    (site / "l_two_package" / "__pycache__").mkdir()
    (site / "l_two_package" / "__pycache__" / "x.pyc").write_bytes(b"1")
    assert digest_now(before) == lock_of(site).plugins["netcl-plugin-l-two"].files
    shutil.copytree(site, tmp_path / "elsewhere")
    elsewhere = replace(
        before.source, handle=Folder(str(tmp_path / "elsewhere" / record.parent.name))
    )
    assert digest_now(replace(before, source=elsewhere)) == digest_now(before)
    for change in (
        lambda: (site / "l_two_package" / "new.py").touch(),
        lambda: (site / "l_two_package" / "new.py").rename(site / "l_two_package" / "other.py"),
        lambda: (site / "l_two_package" / "netcl_plugin.toml").unlink(),
        lambda: (metadata(site, "l_two") / "METADATA").write_text("Name: netcl-plugin-l_two\n"),
    ):
        earlier = digest_now(one_of(site, "l_two"))
        change()
        assert digest_now(one_of(site, "l_two")) != earlier


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("l_two_package/__init__.py", "l_two_package/__init__.py"),
        ("l_two_package/templates/plus.cl.j2", "l_two_package/templates/plus.cl.j2"),
        ("l_two_package/__init__.cpython-311-x86_64-linux-gnu.so", "l_two_package/__init__.cpyth"),
    ],
)
def test_a_changed_file_is_found_whatever_record_says(site: Path, file: str, named: str) -> None:
    """A line added to a module, a byte of a template, a library that goes before a module."""
    (site / "l_two_package" / "templates").mkdir()
    template = site / "l_two_package" / "templates" / "plus.cl.j2"
    template.write_text("x")
    lock = lock_of(site)
    with (site / file).open("a") as opened:
        opened.write("y")
    (found,) = compare(lock, core(), by_name(plugins_of(site)))
    assert (found.code, found.who) == ("NP505", "netcl-plugin-l-two") and named in found.text


def test_a_package_that_another_folder_hides_is_found(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = lock_of(site)
    (tmp_path / "first" / "l_two_package").mkdir(parents=True)
    (tmp_path / "first" / "l_two_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "first"))
    assert codes(lock, site) == []
    (found,) = compare(lock, core(), by_name(plugins_of(site)), strict=True)
    assert f"l_two_package would be imported from {tmp_path / 'first'}" in found.text


def make_editable(site: Path, name: str) -> None:
    url = {"url": "file:///src", "dir_info": {"editable": True}}
    (metadata(site, name) / "direct_url.json").write_text(json.dumps(url))


def test_editable_installations_are_verified_by_version(site: Path) -> None:
    locked_as_files = lock_of(site)
    make_editable(site, "l_one")
    lock = lock_of(site)
    held = lock.plugins["netcl-plugin-l-one"]
    assert held.editable and held.files
    code = site / "l_one_package" / "__init__.py"
    code.write_text("changed = True")
    assert codes(lock, site) == []  # at load
    (found,) = compare(lock, core(), by_name(plugins_of(site)), strict=True)  # as --check does
    assert found.code == "NP505"
    one = by_name(plugins_of(site))["netcl-plugin-l-one"]
    before = digest_now(one)
    (code.parent / "__pycache__").mkdir()
    (code.parent / "__pycache__" / "x.pyc").write_bytes(b"1")
    assert digest_now(one) == before
    (code.parent / "more.py").touch()
    assert digest_now(one) != before
    (metadata(site, "l_one") / "RECORD").write_text("other,,\n")
    (found,) = compare(locked_as_files, core(), by_name(plugins_of(site)))
    assert found.code == "NP505" and "editable" in found.text


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"dir_info": 1}', '{"dir_info": {}}'])
def test_a_direct_url_that_says_nothing_of_it(site: Path, text: str) -> None:
    (metadata(site, "l_one") / "direct_url.json").write_text(text)
    assert not by_name(plugins_of(site))["netcl-plugin-l-one"].editable


def test_without_a_record_the_packages_count(site: Path) -> None:
    (metadata(site, "l_one") / "RECORD").unlink()
    lock = lock_of(site)
    assert codes(lock, site) == []
    (site / "l_one_package" / "more.py").touch()
    assert codes(lock, site) == [("NP505", "netcl-plugin-l-one")]


# -- what is remembered ----------------------------------------------------------------


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read and hashed."""
    names: list[str] = []
    real = file_digests.digest

    def counted(path: str) -> str:
        names.append(Path(path).name)
        return real(path)

    monkeypatch.setattr(file_digests, "digest", counted)
    monkeypatch.setattr(file_digests, "_SETTLED_NS", 0)
    return names


def test_a_file_is_hashed_once(site: Path, tmp_path: Path, read: list[str]) -> None:
    path = tmp_path / "netcl.lock"
    parts = {"D": DevicePart({"f": {"*": ("a",)}}, {"netcl-plugin-l-two": "1"})}
    path.write_text(text_of(replace(lock_of(site), devices=parts)))
    read.clear()
    assert verify(path, plugins_of(site))[1] == [] and "__init__.py" in read
    read.clear()
    again, found, _ = verify(path, plugins_of(site))
    assert found == [] and read == []
    assert again.order("f", None) == ("a",)
    module = site / "l_two_package" / "__init__.py"
    os.utime(module, ns=(1, 1))  # the same content, touched
    assert verify(path, plugins_of(site))[1] == [] and read == ["__init__.py"]
    read.clear()
    before, data = module.stat(), module.read_bytes()
    module.write_bytes(data[:-1] + b"x")  # of the same size, with the old times
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    for _ in range(2):
        assert [each.code for each in verify(path, plugins_of(site))[1]] == ["NP505"]
    module.write_bytes(data)
    assert verify(path, plugins_of(site))[1] == []


def test_what_has_just_changed_gets_no_receipt(
    site: Path, tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another change may fall into the same tick of the clock."""
    monkeypatch.setattr(file_digests, "_SETTLED_NS", 3600 * 10**9)
    path = tmp_path / "netcl.lock"
    path.write_text(text_of(lock_of(site)))
    for _ in range(2):
        read.clear()
        assert verify(path, plugins_of(site))[1] == [] and read.count("__init__.py") == 2


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"schema": 9}', '{"schema": 2, "distributions": {"x": 1}}', "stamps"],
)
def test_a_broken_memory_costs_its_speed_only(
    site: Path, tmp_path: Path, read: list[str], content: str
) -> None:
    path, memory = tmp_path / "netcl.lock", config.plugin_memory("files.json")
    path.write_text(text_of(lock_of(site)))
    verify(path, plugins_of(site))
    rows = json.loads(memory.read_text())["distributions"]
    rows = {key: [7, files] for key, (_, files) in rows.items()}
    damaged = json.dumps({"schema": 2, "distributions": rows})
    memory.write_text(damaged if content == "stamps" else content)
    read.clear()
    assert verify(path, plugins_of(site))[1] == [] and read


def test_folders_may_be_nested_deeper_than_functions(site: Path, tmp_path: Path) -> None:
    """A path of that length has to be made and removed step by step."""
    top = os.open(tmp_path, os.O_RDONLY)
    here = top
    try:
        for _ in range(1500):
            os.mkdir("d", dir_fd=here)
            above, here = here, os.open("d", os.O_RDONLY, dir_fd=here)
            if above != top:
                os.close(above)
        os.close(os.open("file", os.O_CREAT, dir_fd=here))
        (found,) = Places((("deep", str(tmp_path / "d")),), ()).all()
        assert found[0] == "deep" + "/d" * 1499 + "/file"
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)
