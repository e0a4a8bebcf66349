"""A lock file against what is installed: what is told apart, and what is remembered of it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from distributions import install_plugin
from hypothesis import given, settings
from hypothesis import strategies as st
from netcl_plugin_workbench.lock.comparing import differences
from netcl_plugin_workbench.lock.pins import digest_of_files, pin
from netcl_plugin_workbench.lock.text import text_of

from netcl_core import config
from netcl_core.plugins.market.finding import Distribution, distributions
from netcl_core.plugins.market.installed import Installed, by_name, core, digest_of_record
from netcl_core.plugins.market.lock import DevicePart, Lock, Pin
from netcl_core.plugins.market.lock_verification import compare, verify

TEXT = st.text(max_size=8)
SAMPLE = Lock(Pin("0.1.1", "c0"), {"netcl-plugin-a": Pin("1.0", "a0")})
fixed = settings(derandomize=True, deadline=None)


# -- what is installed -----------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    for name in ("l_one", "l_two"):
        install_plugin(folder, name, "raise AssertionError('imported')", manifest="schema = 1\n")
    monkeypatch.syspath_prepend(str(folder))
    return folder


def plugins_of(site: Path) -> list[Distribution]:
    return [each for each in distributions() if each.location.startswith(str(site))]


def lock_of(site: Path) -> Lock:
    installed = by_name(plugins_of(site))
    return Lock(pin(core()), {name: pin(one) for name, one in installed.items()})


def codes(lock: Lock, site: Path) -> list[tuple[str, str]]:
    return [(each.code, each.who) for each in compare(lock, core(), by_name(plugins_of(site)))]


def metadata(site: Path, name: str) -> Path:
    return site / f"netcl_plugin_{name}-1.0.dist-info"


def test_what_is_installed_fits_its_own_lock(site: Path) -> None:
    assert codes(lock_of(site), site) == []


def test_kinds_of_misfits_are_told_apart(site: Path) -> None:
    lock = lock_of(site)
    two = metadata(site, "l_two")
    (two / "RECORD").write_text((two / "RECORD").read_text() + "l_two_package/more.py,sha256=1,\n")
    assert codes(lock, site) == [("NP505", "netcl-plugin-l-two")]
    text = (two / "METADATA").read_text()
    (two / "METADATA").write_text(text.replace("Version: 1.0", "Version: 1.1"))
    assert codes(lock, site) == [("NP504", "netcl-plugin-l-two")]
    (two / "entry_points.txt").unlink()
    assert codes(lock, site) == [("NP503", "netcl-plugin-l-two")]
    (metadata(site, "l_one") / "METADATA").write_text("Name: x\nVersion: 1.0\n")
    assert codes(lock, site)[-1] == ("NP506", "x")
    assert codes(replace(lock, core=Pin("0.0.1")), site)[0] == ("NP504", "netcl-core")


def test_rows_of_this_machine_do_not_count() -> None:
    """The same wheel gives the same digest wherever and in whichever order it is installed."""
    rows = ["a/__init__.py,sha256=1,10", "a-1.dist-info/METADATA,sha256=2,20"]
    local = [
        "../../../bin/a,sha256=3,30",
        "a/__pycache__/__init__.cpython-311.pyc,,",
        "a-1.dist-info/RECORD,,",
        "a-1.dist-info/INSTALLER,sha256=4,4",
        "a-1.dist-info/REQUESTED,sha256=5,0",
        "a-1.dist-info/direct_url.json,sha256=6,60",
        "a-1.dist-info/uv_cache.json,sha256=6,60",
    ]
    digest = digest_of_record("\n".join(rows))
    assert digest_of_record("\r\n".join([*local, *reversed(rows)])) == digest
    for row in ("a/new.py,sha256=7,1", "b-1.dist-info/top_level.txt,sha256=8,1", "..a,sha256=9,1"):
        changed = digest_of_record("\n".join([*rows, row]))
        assert (changed == digest) is row.startswith("..")
    assert digest_of_record(rows[0].replace("=1", "=2") + "\n" + rows[1]) != digest


@fixed
@given(TEXT, TEXT)
def test_any_two_records_are_hashed(one: str, other: str) -> None:
    assert len(digest_of_record(one)) == len(digest_of_record(other)) == 64
    assert digest_of_record("a," + one) != digest_of_record("b," + one)


def make_editable(site: Path, name: str) -> None:
    url = {"url": "file:///src", "dir_info": {"editable": True}}
    (metadata(site, name) / "direct_url.json").write_text(json.dumps(url))


def test_editable_installations_are_verified_by_version(site: Path) -> None:
    locked_as_files = lock_of(site)
    make_editable(site, "l_one")
    lock = lock_of(site)
    held = lock.plugins["netcl-plugin-l-one"]
    assert held.editable and held.files and not held.record
    code = site / "l_one_package" / "__init__.py"
    code.write_text("changed = True")
    assert codes(lock, site) == []  # at load
    (found,) = differences(lock, lock_of(site))  # by --check
    assert found.code == "NP505"
    one = by_name(plugins_of(site))["netcl-plugin-l-one"]
    before = digest_of_files(one)
    (code.parent / "__pycache__").mkdir()
    (code.parent / "__pycache__" / "x.pyc").write_bytes(b"1")
    assert digest_of_files(one) == before
    (code.parent / "more.py").touch()
    assert digest_of_files(one) != before
    (metadata(site, "l_one") / "RECORD").write_text("other,,\n")
    (found,) = compare(locked_as_files, core(), by_name(plugins_of(site)))
    assert found.code == "NP505" and "editable" in found.text
    how = [each for each in differences(locked_as_files, lock_of(site)) if "l-one" in each.who]
    assert ["editable" in each.text for each in how] == [True]


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"dir_info": 1}', '{"dir_info": {}}'])
def test_a_direct_url_that_says_nothing_of_it(site: Path, text: str) -> None:
    (metadata(site, "l_one") / "direct_url.json").write_text(text)
    assert not by_name(plugins_of(site))["netcl-plugin-l-one"].editable


def test_without_a_record_the_version_counts(site: Path) -> None:
    (metadata(site, "l_one") / "RECORD").unlink()
    lock = lock_of(site)
    assert lock.plugins["netcl-plugin-l-one"] == Pin("1.0")
    assert codes(lock, site) == []


# -- what is remembered ----------------------------------------------------------------


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the distributions whose RECORD is read and hashed."""
    names: list[str] = []
    real = Installed.record_digest

    def counted(one: Installed) -> str:
        names.append(one.name)
        return real(one)

    monkeypatch.setattr(Installed, "record_digest", counted)
    return names


def test_a_record_is_hashed_once(site: Path, tmp_path: Path, hashed: list[str]) -> None:
    path = tmp_path / "netcl.lock"
    lock = lock_of(site)
    parts = {"D": DevicePart({"f": {"*": ("a",)}}, {"f": {"float32 forward": "1"}})}
    path.write_text(text_of(replace(lock, devices=parts)))
    hashed.clear()
    assert verify(path, plugins_of(site))[1] == []
    assert {"netcl-plugin-l-one", "netcl-plugin-l-two"} <= set(hashed)
    hashed.clear()
    again, found = verify(path, plugins_of(site))
    assert found == [] and hashed == []
    assert again.order("f", None) == ("a",)
    record = metadata(site, "l_two") / "RECORD"
    os.utime(record, ns=(1, 1))  # the same content, touched
    assert verify(path, plugins_of(site))[1] == [] and hashed == ["netcl-plugin-l-two"]
    hashed.clear()
    text = record.read_text()
    record.write_text(text.replace("sha256=", "sha256=0", 1))
    assert [each.code for each in verify(path, plugins_of(site))[1]] == ["NP505"]
    assert [each.code for each in verify(path, plugins_of(site))[1]] == ["NP505"]
    assert hashed == ["netcl-plugin-l-two"]


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"schema": 9}', '{"schema": 1, "files": {"x": 1}}', "stamps", "digests"],
)
def test_a_broken_memory_costs_its_speed_only(
    site: Path, tmp_path: Path, hashed: list[str], content: str
) -> None:
    path, memory = tmp_path / "netcl.lock", config.plugin_memory("records.json")
    path.write_text(text_of(lock_of(site)))
    verify(path, plugins_of(site))
    rows = json.loads(memory.read_text())["files"]
    rows = {
        key: ["1", *row[1:]] if content == "stamps" else [*row[:3], 7] for key, row in rows.items()
    }
    memory.write_text(
        json.dumps({"schema": 1, "files": rows}) if content in {"stamps", "digests"} else content
    )
    hashed.clear()
    assert verify(path, plugins_of(site))[1] == [] and hashed
