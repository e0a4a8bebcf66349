"""Drivers that abort or hang end no program and no doctor; a forked child is told what it lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from netcl_market import driver_trial

import netcl_core as nc

#: They start processes.
pytestmark = pytest.mark.turns(3)

HOSTILE = {
    "aborts as it is loaded": "__attribute__((constructor)) void f(void) { abort(); }",
    "ends as it is loaded": "__attribute__((constructor)) void f(void) { _exit(7); }",
    "sleeps as it is asked": "void *clGetExtensionFunctionAddress() { for (;;) sleep(9); }",
    "crashes as it is asked": "void *clGetExtensionFunctionAddress() { return *(void **)8; }",
}  # fmt: skip
ASK = "import netcl_core as nc; print([each.id for each in nc.devices()])"


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder of .icd files: this machine's runtimes, and one that is hostile."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "hostile.c", tmp_path / "libhostile.so"
    source.write_text(f"#include <stdlib.h>\n#include <unistd.h>\n{HOSTILE[request.param]}\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    (vendors / "a.icd").write_text(str(library))
    return vendors


def test_a_hostile_driver_ends_nothing(hostile: Path) -> None:
    variables = {**os.environ, "OCL_ICD_VENDORS": str(hostile)}
    variables["NETCL_CACHE_DIR"] = str(hostile / "cache")
    code = f"from netcl_market import driver_trial; driver_trial.SECONDS = 3.0\n{ASK}"
    for _ in range(2):  # the second time by what was noted
        done = _run(["-c", code], variables)
        assert done.returncode == 0 and "'numpy'" in done.stdout, done.stderr
    done = _run(["-m", "netcl_core.cli.start", "doctor", "--json"], variables)
    (row,) = [each for each in json.loads(done.stdout)["runtimes"] if "hostile" in each["library"]]
    assert not row["accepted"] and row["reason"].startswith(driver_trial.ENDED)
    assert done.returncode == 1 and "libhostile" in done.stdout


def test_what_was_noted_is_believed_only_of_the_same_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path / "cache"))
    library = tmp_path / "libx.so"
    library.write_bytes(b"")
    said = ["", driver_trial.ENDED]
    monkeypatch.setattr(driver_trial, "_end", lambda libraries: said[0])
    assert driver_trial.deadly([str(library)]) == {}
    monkeypatch.setattr(driver_trial, "_end", lambda libraries: said[1])
    assert driver_trial.deadly([str(library)]) == {}
    library.write_bytes(b"changed")
    assert driver_trial.deadly([str(library)]) == {str(library): driver_trial.ENDED}
    for note in (tmp_path / "cache" / "icd").glob("tried-*"):
        note.write_text('{"x": 1}')  # which is no note, and no verdict
    assert driver_trial.deadly([str(library)]) == {str(library): driver_trial.ENDED}


def _run(words: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


FORKED = """
import os, threading
import numpy as np
import netcl_core as nc, netcl_core.autograd as ag
device = nc.get_device("opencl")
x = nc.tensor(np.ones((9, 9), "float32"), device=device)
(ag.relu(x) * 2).numpy()
child = os.fork()
if not child:
    def value(where):
        with nc.use_device(where):
            return (ag.relu(nc.tensor([2.0])) * 2).item()
    said = [value("numpy")]
    for act in (lambda: value(device), lambda: x.numpy()):
        try:
            said.append(act())
        except nc.errors.DeviceError as error:
            said.append("spawn" in str(error))
    os._exit(0 if said == [4.0, True, True] else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.skipif(len(nc.devices()) < 2, reason="no OpenCL device")
def test_a_forked_child_of_a_process_with_opencl_is_told() -> None:
    """NumPy's path goes on; the device raises instead of hanging, and so do its tensors."""
    done = _run(["-W", "ignore", "-c", FORKED], dict(os.environ))
    assert done.returncode == 0, done.stderr


LOOKING = """
import os, signal, threading, time
import netcl_core as nc
from netcl_core.hardware import device_table
looking = threading.Event()
def look():
    with device_table._choice.lock, device_table._table.lock:
        looking.set()
        time.sleep(0.3)
threading.Thread(target=look).start()
looking.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    try:
        nc.default_device()
    except nc.errors.DeviceError as error:
        os._exit(0 if "spawn" in str(error) and nc.get_device("numpy") else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_of_a_process_that_was_looking_for_devices_is_told() -> None:
    """The thread that looked is not in the child, whose first op would wait for it."""
    done = _run(["-c", LOOKING], {**os.environ, "NETCL_DEVICE": ""})
    assert done.returncode == 0, done.stderr


LOADING = """
import logging, os, signal, sys, threading, time
import netcl_core as nc, netcl_core.autograd as ag
from netcl_core.hardware import forks
from netcl_core.plugins.registry import registry
forks._PATIENCE = float(sys.argv[2])
loading = threading.Event()
def load():
    with registry.lock:
        loading.set()
        time.sleep(float(sys.argv[1]))
        logging.getLogger("a plugin's")
threading.Thread(target=load).start()
loading.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    try:
        with nc.use_device("numpy"):
            os._exit(int(ag.relu(nc.tensor([3.0])).item()))
    except nc.errors.DeviceError as error:
        os._exit(4 if "loading plugins" in str(error) and "spawn" in str(error) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize(("seconds", "status"), [(["0.1", "9"], 3), (["2", "0.1"], 4)])
def test_a_child_of_a_process_that_was_loading_plugins(seconds: list[str], status: int) -> None:
    """The fork waits for the thread that loads; where that takes long, the child is told."""
    done = _run(["-c", LOADING, *seconds], dict(os.environ))
    assert done.stdout == f"{status}\n", done.stderr
