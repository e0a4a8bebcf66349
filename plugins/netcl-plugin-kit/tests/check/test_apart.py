"""The process that a check runs in: it crashes, hangs, does not start, or is killed."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faulty import END, PLUGIN, REGISTER, Faulty
from netcl_plugin_kit.check import apart
from netcl_plugin_kit.check import checking as check

from netcl_core import files
from netcl_core.files import Scratch

LEAVING = """
import os
from netcl_core import Spec
from netcl_core.autograd import Operator
from netcl_plugin_kit.testing import Case, normal


class Leaving(Plugin):
    @hookimpl
    def netcl_register_operators(self, registry):
        infer = lambda x: Spec(x.shape, x.dtype)
        registry.add(Operator("zz_leaving", lambda x: ((x,), {}), infer, lambda x: os._exit(7)))

    @hookimpl
    def netcl_conformance_cases(self, op):
        return [Case(op, (normal(),), shapes=[[(3,)]])] if op == "zz_leaving" else None


plugin = Leaving()
"""


@pytest.fixture
def limits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bubblewrap, so that a child can leave a mark outside of its own folder."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))


def test_a_crash_keeps_what_was_found_before(tmp_path: Path) -> None:
    """An op's outcomes are told step by step, and one outcome is made of those of one key."""
    wheel = Faulty("", "", "", {PLUGIN: REGISTER + LEAVING}).wheel(tmp_path)
    record = check.check(str(wheel), "run", ["numpy"], ["cases", "values", "gradient"])
    (failed,) = (each for each in record.outcomes if each.state == "failed")
    assert failed.reason.startswith("NC601: while checking ") and "zz_leaving" in failed.reason
    kept = {(each.check, each.op) for each in record.outcomes if each.state == "passed"}
    assert {("cases", "sound"), ("cases", "zz_leaving"), ("gradient", "sound")} <= kept
    assert len({(each.check, each.op, each.dtype) for each in record.outcomes}) == len(
        record.outcomes
    )


def test_a_child_that_is_done_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits_alone: None
) -> None:
    """A thread of the plugin's may keep it; and what it started ends with it."""
    monkeypatch.setattr(apart, "_PARTING", 0.1)
    started = tmp_path / "started"
    thread = f"""
import subprocess, sys, threading, time
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(started)!r}, "w").write(str(other.pid))
threading.Thread(target=time.sleep, args=(600,)).start()
"""
    wheel = Faulty("", "", "", {PLUGIN: REGISTER + END + thread}).wheel(tmp_path)
    begun = time.monotonic()
    record = check.check(str(wheel), "static", only=["load"])
    assert record.state == "pass" and time.monotonic() - begun < 60
    status = Path("/proc", started.read_text(), "status")
    assert not status.exists() or "State:\tZ" in status.read_text()


def test_what_is_killed_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits_alone: None
) -> None:
    """Neither the child, which may be in an endless loop, nor, after the next check, a folder."""
    started = tmp_path / "started"
    loop = f"""
import os
with open({str(started)!r}, "w") as file:
    file.write(str(os.getpid()))
while True:
    pass
"""
    wheel = Faulty("", "", "", {PLUGIN: REGISTER + END + loop}).wheel(tmp_path)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    command = [sys.executable, "-m", "netcl_core.cli.main", "plugins", "check", str(wheel)]
    parent = subprocess.Popen([*command, "--level", "static"])
    until(lambda: started.exists() and bool(started.read_text()))
    parent.kill()
    parent.wait()
    child = Path("/proc", started.read_text(), "status")
    until(lambda: not child.exists() or "State:\tZ" in child.read_text())
    assert [*(tmp_path / "scratch").glob("netcl-check-*")]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    with Scratch("check") as folder:
        assert [*(tmp_path / "scratch").glob("netcl-*")] == [Path(folder)]


def test_what_a_child_may_use_is_bounded(tmp_path: Path, limits_alone: None) -> None:
    big = tmp_path / "big"
    code = f"import os\nwith open({str(big)!r}, 'wb') as file:\n    file.truncate(1 << 32)\n"
    wheel = Faulty("", "", "", {PLUGIN: REGISTER + END + code}).wheel(tmp_path)
    record = check.check(str(wheel), "static", only=["load"])
    assert record.state == "fail" and "File too large" in record.outcomes[0].reason
    assert not big.exists() or big.stat().st_size == 0
    assert record.held == "limits"


def test_a_folder_that_is_being_made_is_not_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process sweeps between the making of the lock's file and the locking."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    flock = fcntl.flock

    def swept_before(file: Any, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        files.sweep_folders(tmp_path)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", swept_before)
    with Scratch("check") as folder:
        files.sweep_folders(tmp_path)
        assert Path(folder).is_dir()
    assert not Path(folder).exists()


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_child_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "_CHILD", "raise SystemExit('no room to start')")
    record = check.check(str(Faulty("", "", "").wheel(tmp_path)), "static")
    (failed,) = record.outcomes
    assert failed.reason.endswith("while checking its own start: it ended the interpreter "
                                  "(exit code 1): no room to start")  # fmt: skip
