"""`netcl catalogue build`: what it writes, refuses and prints; a folder is replaced as a whole."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import samples
from netcl_plugin_tools.catalogue import folder


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """One sound plugin."""
    text = samples.manifest("gate", ["gate"])
    return samples.wheel(tmp_path / "wheels", "netcl-plugin-gate", text=text, plugin="gate").parent


def everything(top: Path) -> dict[str, bytes]:
    files = (path for path in sorted(top.rglob("*")) if path.is_file())
    return {path.relative_to(top).as_posix(): path.read_bytes() for path in files}


def test_a_build(wheels: Path, tmp_path: Path) -> None:
    result = samples.build(wheels, tmp_path / "a" / "out", "--title", "Our <market>")
    assert result.exit_code == 0, result.output
    assert "1 plugin, 1 op, 0 records of checks, 0 of cells" in result.stdout
    out = tmp_path / "a" / "out"
    assert "<title>Our &lt;market&gt;</title>" in (out / "index.html").read_text(encoding="utf-8")
    assert {path.name for path in out.iterdir()} == folder._OWN
    assert [path.name for path in out.parent.iterdir()] == ["out"]  # nothing is left beside it


def test_json(wheels: Path, tmp_path: Path) -> None:
    result = samples.build(wheels, tmp_path / "out", "--json")
    assert json.loads(result.stdout) == {
        "out": str(tmp_path / "out"),
        "plugins": {"netcl-plugin-gate": ["1.0"]},
        "others": [],
        "ops": 1,
        "records": {"checks": 0, "cells": 0},
        "refused": [],
        "unused": [],
    }


def test_what_was_refused_is_printed(inputs: Path, tmp_path: Path) -> None:
    result = samples.build(inputs / "wheels", tmp_path / "out")
    assert result.exit_code == 1
    lines = [line for line in result.stdout.splitlines() if line.startswith("refused: ")]
    assert len(lines) == len(list((inputs / "wheels").rglob("bad*.whl")))
    assert any("bad_without_manifest" in line and "Add netcl_plugin.toml" in line for line in lines)


def test_an_earlier_catalogue_is_replaced_as_a_whole(wheels: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert samples.build(wheels, out).exit_code == 0
    gone = samples.wheel(wheels, "sample-helper")
    assert samples.build(wheels, out).exit_code == 0
    assert (out / "wheels" / gone.name).exists()
    gone.unlink()
    assert samples.build(wheels, out).exit_code == 0
    assert not (out / "wheels" / gone.name).exists()


def test_an_empty_folder_is_filled(wheels: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert samples.build(wheels, tmp_path / "out").exit_code == 0


@pytest.mark.parametrize("file", ["notes.txt", "index.html", "wheels/mine.whl"])
def test_what_is_no_catalogue_is_not_replaced(wheels: Path, tmp_path: Path, file: str) -> None:
    mine = tmp_path / "out" / file
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    result = samples.build(wheels, tmp_path / "out")
    assert result.exit_code == 2 and "a new folder, or a catalogue" in result.stderr
    assert mine.read_text() == "precious"


def test_a_catalogue_with_something_else_in_it_is_not_replaced(
    wheels: Path, tmp_path: Path
) -> None:
    samples.build(wheels, tmp_path / "out")
    (tmp_path / "out" / "CNAME").write_text("market.example.org")
    result = samples.build(wheels, tmp_path / "out")
    assert result.exit_code == 2 and "holds CNAME" in result.stderr


def test_wheels_and_catalogue_must_lie_apart(wheels: Path, tmp_path: Path) -> None:
    for out in (wheels, wheels / "out", tmp_path):
        result = samples.build(wheels, out)
        assert result.exit_code == 2 and "lie in each other" in result.stderr


def test_no_wheel_is_wrong_usage(tmp_path: Path) -> None:
    result = samples.build(tmp_path, tmp_path.parent / "nothing")
    assert result.exit_code == 2 and "holds no wheel" in result.stderr
    assert samples.build(tmp_path / "missing", tmp_path / "out").exit_code == 2


def test_a_build_that_breaks_off_leaves_the_earlier_catalogue(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    samples.build(wheels, out)
    before = everything(out)
    samples.wheel(wheels, "sample-helper")

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    result = samples.build(wheels, out)
    assert result.exit_code == 3 and "no space left" in result.stderr
    assert everything(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "wheels"]


@pytest.fixture
def earlier(wheels: Path, tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    """A catalogue that is there already, and its files."""
    out = tmp_path / "out"
    samples.build(wheels, out)
    return out, everything(out)


def test_a_swap_that_fails_is_undone(
    wheels: Path, earlier: tuple[Path, dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, before = earlier
    replace = Path.replace

    def fail(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError("the device is busy")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    result = samples.build(wheels, out)
    assert result.exit_code == 3 and "Choose another --out" in result.stderr
    assert everything(out) == before


def test_an_interrupted_swap_is_undone(
    wheels: Path, earlier: tuple[Path, dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that comes when the earlier catalogue has just been put aside."""
    out, before = earlier
    replace = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        done = replace(self, target)
        if target.name == "old":
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupted)
        assert samples.build(wheels, out).exit_code != 0
    assert everything(out) == before


def test_everybody_may_read_it(wheels: Path, tmp_path: Path) -> None:
    """A web server runs as somebody else; temporary folders are their owner's alone."""
    made = Path(tempfile.mkdtemp(dir=tmp_path))
    assert not stat.S_IMODE(made.stat().st_mode) & 0o077
    old = os.umask(0o022)
    try:
        samples.build(wheels, tmp_path / "out")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o755


def test_help_loads_none_of_what_a_build_needs() -> None:
    code = """
import sys
from click.testing import CliRunner
from netcl_core.cli.main import netcl
result = CliRunner().invoke(netcl, ["catalogue", "build", "--help"])
assert result.exit_code == 0 and "--wheels" in result.output, result.output
heavy = {"pygments", "markdown_it", "netcl_plugin_tools.catalogue.build"}
print(*sorted(heavy & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
