"""The children of a matrix, and the Pythons that they run under."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click import UsageError
from netcl_plugin_tools.matrix import pythons
from netcl_plugin_tools.matrix.processes import Processes, StoppedError, clean_variables
from netcl_plugin_tools.matrix.uv import Uv, find_uv

Write = Callable[..., Path]

# -- processes -----------------------------------------------------------------------


def test_a_command_that_takes_too_long_ends_with_its_children(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time; print('begun', flush=True);"
        "subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    )
    begun = time.monotonic()
    ended = Processes().run([sys.executable, "-c", code], tmp_path, clean_variables(), 2)
    assert time.monotonic() - begun < 30  # the grandchild holds the pipe as long as it lives
    assert ended.code is None
    assert ended.how == "ran out of time"
    assert ended.tail == "begun"


def test_a_crash_is_named(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    ended = Processes().run([sys.executable, "-c", code], tmp_path, clean_variables())
    assert (ended.code, ended.how) == (-signal.SIGSEGV, "was ended by SIGSEGV")


def test_stop_ends_what_runs_and_starts_nothing(tmp_path: Path) -> None:
    processes = Processes()
    ends: list[BaseException] = []

    def sleep() -> None:
        try:
            processes.run(["sleep", "60"], tmp_path, clean_variables())
        except StoppedError as error:
            ends.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    while not processes._running and thread.is_alive():
        time.sleep(0.01)
    processes.stop()
    thread.join(30)
    assert len(ends) == 1
    with pytest.raises(StoppedError):
        processes.run([sys.executable, "-V"], tmp_path, clean_variables())


def test_a_cell_gets_nothing_of_the_callers_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NETCL_PLUGINS", "PYTHONPATH", "OCL_ICD_FILENAMES", "VIRTUAL_ENV", "PIP_PRE"):
        monkeypatch.setenv(name, "x")
    assert {"NETCL_PLUGINS", "PYTHONPATH", "OCL_ICD_FILENAMES", "VIRTUAL_ENV"}.isdisjoint(
        clean_variables()
    )
    assert "PIP_PRE" in clean_variables()
    assert clean_variables()["PATH"] == os.environ["PATH"]


# -- Pythons -------------------------------------------------------------------------


@pytest.fixture
def uv(tmp_path: Path) -> Uv:
    return Uv(find_uv(), tmp_path / "cache" / "uv", Processes())


def test_the_running_python_is_found_by_version_and_by_path(uv: Uv) -> None:
    found = pythons.find(pythons.running(), uv)
    assert found.problem == ""
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert pythons.find(sys.executable, uv).minor == pythons.running()


def test_a_relative_path_is_found_from_everywhere(
    tmp_path: Path, uv: Uv, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert pythons.find("bin/python", uv).path == str(tmp_path / "bin" / "python")


def test_a_python_that_is_not_there_says_so(uv: Uv) -> None:
    found = pythons.find("3.99", uv)
    assert (found.minor, found.version) == ("3.99", "")
    assert "Python 3.99 was not found" in found.problem


@pytest.mark.parametrize("wanted", ["/nowhere/python3", "newest", "3"])
def test_a_word_that_is_no_python(uv: Uv, wanted: str) -> None:
    with pytest.raises(UsageError, match="does not start; expected a version such as"):
        pythons.find(wanted, uv)


def test_two_pythons_of_one_version(uv: Uv) -> None:
    minor = pythons.running()
    assert [each.minor for each in pythons.find_all([minor, minor, "3.99"], uv)] == [minor, "3.99"]
    with pytest.raises(UsageError, match=f"both Python {minor}"):
        pythons.find_all([minor, sys.executable], uv)
