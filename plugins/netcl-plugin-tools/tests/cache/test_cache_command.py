"""`netcl cache`: what it counts, and that it empties beside processes that work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import netcl_core as nc
from netcl_core import cache
from netcl_core.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of two programs, a record, what a killed process left, and a stranger's."""
    nc.plugins.list()  # which keeps compiled templates
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NETCL_CACHE_SIZE_MB", "3")
    for name, size in (
        ("programs/a.bin", 1 << 20),
        ("programs/b.bin", 1 << 19),
        ("programs/c.bin.1-2.tmp", 7),
        ("tuning/a.json", 10),
        ("others/x", 5),
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * size)
    os.utime(tmp_path / "programs/c.bin.1-2.tmp", (0, 0))
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(main.netcl, ["cache", *words])


def data(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def left(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name not in {"plugins", "icd"}
    }


def test_it_counts(folder: Path) -> None:
    found = data()
    assert found["folder"] == str(folder) and found["kept"]
    parts = {each["kind"]: each for each in found["parts"]}
    assert parts["programs"]["entries"] == 3 and parts["programs"]["bound_bytes"] == 3 << 20
    assert parts["programs"]["size_bytes"] == (1 << 20) + (1 << 19) + 7
    assert parts["others"]["entries"] == 1 and parts["others"]["what"] == ""
    lines = run().stdout.splitlines()
    assert lines[0] == str(folder)
    assert lines[2].split()[:4] == ["programs", "3", "1.5", "3.0"]


@pytest.mark.parametrize(
    ("words", "stays"),
    [
        ((), {"tuning/a.json", "others/x"}),
        (("programs",), {"tuning/a.json", "others/x"}),
        (("tuning",), {"programs/a.bin", "programs/b.bin", "programs/c.bin.1-2.tmp", "others/x"}),
        (("all",), {"others/x"}),
    ],
)
def test_it_empties_what_is_named(folder: Path, words: tuple[str, ...], stays: set[str]) -> None:
    removed = data("--empty", *words)["removed"]
    assert left(folder) == stays
    assert sum(removed.values()) == 5 - len(stays)
    assert run("--empty", "plugins").exit_code == 2 and left(folder) == stays


def test_what_is_being_written_stays(folder: Path) -> None:
    (folder / "programs" / "new.bin.1-2.tmp").write_bytes(b"half")
    run("--empty")
    assert left(folder) == {"programs/new.bin.1-2.tmp", "tuning/a.json", "others/x"}


def test_a_setting_that_keeps_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_CACHE", "0")
    assert "the setting cache is off" in run().stdout and not data()["kept"]


USER = """
from netcl_core import cache
names = [cache.digest(str(number)) for number in range(20)]
for turn in range(30):
    for name in names:
        found = cache.read(name)
        assert found in (None, name.encode() * 50), found
        cache.write(name, name.encode() * 50)
print("fine")
"""


def test_processes_that_use_it_see_whole_entries_or_none(folder: Path) -> None:
    words = [sys.executable, "-W", "error", "-c", USER]
    users = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    turns = 0
    while any(user.poll() is None for user in users):
        assert run("--empty").exit_code == 0
        turns += 1
    assert [user.communicate()[0] for user in users] == ["fine\n"] * 2 and turns > 1
    name = cache.digest("0")
    cache.write(name, b"again")
    assert cache.read(name) == b"again"
