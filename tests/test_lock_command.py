"""`netcl plugins lock`: what it writes, what it says of a lock that differs, its exit codes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from netcl_market import lock as locks
from netcl_market.lock import DevicePart
from netcl_plugin_tools.lock.sources import sources
from netcl_plugin_tools.lock.text import text_of

import netcl_core as nc
from netcl_core import config
from netcl_core.cli import main

#: They start processes.
pytestmark = pytest.mark.turns(2)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Result:
    return CliRunner().invoke(main.netcl, ["plugins", "lock", "--device", "numpy", *words])


def edit(path: Path, *keys: str, value: Any) -> None:
    """Change one value of the file."""
    table = holder = json.loads(path.read_text())
    for key in keys[:-1]:
        holder = holder[key]
    holder[keys[-1]] = value
    path.write_text(json.dumps(table))


def test_it_writes_the_same_twice(tmp_path: Path) -> None:
    first = run()
    path = tmp_path / "netcl.lock"
    assert first.exit_code == 0, first.output
    assert first.stdout.startswith(f"{path}: written, ")
    before = path.read_bytes()
    assert run().stdout.startswith(f"{path}: unchanged, ") and path.read_bytes() == before
    assert before.count(b"\n") <= 60
    lock = locks.read(path)
    assert (
        list(lock.devices) == ["NumPy"]
        and "netcl-plugin-elementwise" in lock.devices["NumPy"].sources
    )
    assert "netcl-plugin-elementwise" in lock.plugins and lock.core.version
    choices = lock.devices["NumPy"].choices  # of every name, contested or not
    for name, provider in (
        ("relu", "elementwise"),
        ("namespace nn", "nn"),
        ("command plugins lock", "tools"),
        ("amp_policy fp16", "amp"),
        ("pattern adamw", "optim"),
    ):
        assert choices[name] == {"*": (f"netcl-plugin-{provider}",)}
    check = run("--check")
    assert check.exit_code == 0 and check.stdout.splitlines() == [f"{path} fits"]


def test_a_digest_is_that_of_the_sources_that_are_shown() -> None:
    run()
    rows = []
    for direction in ("forward", "backward"):
        words = ["kernels", "show", "relu", "--device", "numpy", "--json"]
        words += ["--backward"] if direction == "backward" else []
        shown = json.loads(CliRunner().invoke(main.netcl, words).stdout)["source"]
        rows.append((f"float32 {direction}", hashlib.sha256(shown.encode()).hexdigest()))
    assert [*sources("relu", nc.get_device("numpy"), None)] == rows


def test_each_difference_is_a_line_with_code_and_remedy() -> None:
    """Those of files first, without which nothing is rendered."""
    run()
    path = Path("netcl.lock")
    kept = path.read_text()
    edit(path, "core", "version", value="0.0.1")
    edit(path, "plugins", "gone", value={"version": "1.0"})
    edit(path, "devices", "NumPy", "sources", "netcl-plugin-elementwise", value="0")
    said = run("--check")
    lines = said.stdout.splitlines()
    assert said.exit_code == 1 and lines[-1].endswith("netcl.lock: 2 differences")
    assert [line.split(": ")[:2] for line in lines[:-2]] == [
        ["NP504", "netcl-core"],
        ["NP503", "gone"],
    ]
    assert "was not compared" in lines[-2]
    data = json.loads(run("--check", "--json").stdout)
    assert not data["fits"] and [row["code"] for row in data["differences"]][-1] == "NP503"
    path.write_text(kept)
    edit(path, "devices", "NumPy", "sources", "netcl-plugin-elementwise", value="0")
    edit(path, "devices", "NumPy", "choices", value={"gone": {"relu": {"*": ["gone"]}}})
    said = run("--check")
    lines = said.stdout.splitlines()
    assert [line.split(": ")[:2] for line in lines[:-1]] == [
        ["NP507", "relu"],
        ["NP508", "netcl-plugin-elementwise"],
    ]
    assert "`netcl kernels show OP` prints it" in lines[1]


def test_devices_that_are_not_here_stay_while_nothing_else_changes() -> None:
    run()
    path = Path("netcl.lock")
    there = {"choices": {}, "sources": {"netcl-plugin-elementwise": "1"}}
    edit(path, "devices", "P | far", value=there)
    check = run("--check")
    assert check.exit_code == 0 and "note: P | far: locked, but not here" in check.stdout
    data = json.loads(run("--json").stdout)
    assert data["devices"] == ["NumPy", "P | far"] and data["dropped"] == []
    edit(path, "core", "version", value="0.0.1")
    said = run()
    assert "note: P | far: dropped" in said.stdout
    assert list(locks.read(path).devices) == ["NumPy"]


def test_a_device_that_is_not_locked_is_a_note() -> None:
    run()
    path = Path("netcl.lock")
    lock = locks.read(path)
    path.write_text(text_of(locks.Lock(lock.core, lock.plugins, {"P | far": DevicePart({}, {})})))
    check = run("--check")
    assert check.exit_code == 0 and "note: NumPy: here, but not locked" in check.stdout


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--out`, else the one that holds, also where the setting switches it off."""
    assert run("--out", "other.lock").exit_code == 0
    assert run("--check", "--out", "other.lock").exit_code == 0
    assert not Path("netcl.lock").exists()
    before = {"version": "0.0.1"}
    old = {"schema": 3, "core": before, "plugins": {}, "devices": {}}
    (tmp_path / "netcl.lock").write_text(json.dumps(old))
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    monkeypatch.setenv("NETCL_LOCK", "0")
    assert run().exit_code == 0 and not (inner / "netcl.lock").exists()
    assert locks.read(tmp_path / "netcl.lock").plugins
    monkeypatch.setenv("NETCL_LOCK", "named.lock")
    assert config.get("lock") == "named.lock"
    assert run().exit_code == 0 and (inner / "named.lock").is_file()


@pytest.mark.parametrize("content", [None, "junk"])
def test_no_lock_is_an_exit_code_of_its_own(content: str | None) -> None:
    if content is not None:
        Path("netcl.lock").write_text(content)
    said = run("--check")
    assert said.exit_code == 3 and not said.stdout and said.stderr.startswith("netcl: ")
    data = json.loads(run("--check", "--json").stdout)
    assert not data["fits"] and data["problem"]


@pytest.mark.parametrize("content", ["<<<<<<< ours", '{"schema": 99}', "[]"])
def test_what_is_no_lock_is_not_overwritten(content: str) -> None:
    """Half-merged, of a newer netcl, or a file of something else that --out names."""
    path = Path("other.json")
    path.write_text(content)
    said = run("--out", str(path))
    assert said.exit_code == 3 and "NP50" in said.stderr and "delete other.json" in said.stderr
    assert path.read_text() == content
    path.unlink()
    assert run("--out", str(path)).exit_code == 0


def test_it_is_written_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    path = Path("netcl.lock")
    edit(path, "core", "version", value="0.0.1")
    before = path.read_bytes()

    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupted)
        assert run().exit_code != 0
    assert path.read_bytes() == before and [each.name for each in Path().iterdir()] == [path.name]
    assert run().exit_code == 0 and b"\r" not in path.read_bytes()


def test_it_asks_itself_to_be_held_strictly() -> None:
    assert run("--strict").exit_code == 0 and '"strict": true' in Path("netcl.lock").read_text()
    assert run().stdout.split(": ")[1].startswith("unchanged")
    assert run("--no-strict").exit_code == 0 and "strict" not in Path("netcl.lock").read_text()


def test_wrong_usage() -> None:
    assert run("--chekc").exit_code == 2
    assert run("--device", "opencl:77").exit_code == 3
    assert run("--out", "no/such/folder/netcl.lock").exit_code == 3
