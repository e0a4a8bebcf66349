"""What goes wrong around a program is said, and changes nothing else."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from distributions import install_plugin, write_wheel
from environments import ROOT

import netcl_core as nc
from netcl_core.errors import PluginError

#: They start processes.
pytestmark = pytest.mark.turns(2)

RELU = """
import warnings
import netcl_core as nc, netcl_core.autograd as ag
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    values = [ag.relu(nc.tensor([-1.0, 2.0]) * n).to_host().tolist() for n in (1, 2)]
print(values, [f"{type(x.message).__name__}: {x.message}" for x in caught])
"""
RIGHT = "[[0.0, 2.0], [0.0, 4.0]]"


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([variables.pop("site", ""), str(ROOT)]).strip(os.pathsep)
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(len(nc.devices()) < 2, reason="no OpenCL device")
def test_a_cache_folder_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "cache", Path("/proc/nowhere")):
        done = run("-c", RELU, NETCL_CACHE_DIR=str(place), NETCL_DEVICE="opencl")
        assert done.stdout.startswith(RIGHT), done.stderr
        assert done.stdout.count("SlowWarning") == 1 and str(place) in done.stdout
    done = run("-c", RELU, NETCL_CACHE_DIR=str(place), NETCL_CACHE="0", NETCL_DEVICE="opencl")
    assert done.stdout == f"{RIGHT} []\n"


def test_the_fall_to_numpy_is_said_unless_it_was_chosen(tmp_path: Path) -> None:
    alone = {"OCL_ICD_VENDORS": str(tmp_path), "NETCL_ICD_DISCOVERY": "0"}
    done = run("-c", RELU, **alone)
    assert done.stdout.startswith(RIGHT) and done.stdout.count("SlowWarning") == 1, done.stderr
    assert "no OpenCL device can be used" in done.stdout
    assert run("-c", RELU, **alone, NETCL_DEVICE="numpy").stdout == f"{RIGHT} []\n"


def test_what_a_plugin_writes_to_stdout_is_not_in_the_json(tmp_path: Path) -> None:
    code = "import os\nos.write(1, b'hello from a plugin')\n"
    code += "class Plugin: pass\nplugin = Plugin()\n"
    install_plugin(tmp_path, "c_loud", code)
    words = ["-m", "netcl_core.cli.start", "plugins", "why", "relu", "--json"]
    done = run(*words, site=str(tmp_path))
    assert json.loads(done.stdout) and "hello from a plugin" in done.stderr


@pytest.mark.parametrize("schema", [-1, 0])
def test_a_manifest_of_an_impossible_schema_is_refused(schema: int) -> None:
    manifests = pytest.importorskip("netcl_market.manifests")
    with pytest.raises(PluginError, match="schemas begin with 1"):
        manifests.parse({"schema": schema})


def test_a_killed_build_of_a_catalogue_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    """Nor does it harm the catalogue that is there."""
    wheels, out = tmp_path / "wheels", tmp_path / "here" / "site"
    wheels.mkdir()
    write_wheel(wheels, "netcl-plugin-gate", {"gate/x.py": ""}, {})
    build = ["catalogue", "build", "--wheels", str(wheels), "--out", str(out)]
    build += ["--other", "netcl-plugin-gate"]
    assert run("-m", "netcl_core.cli.start", *build).returncode == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    code = "import os\nimport netcl_plugin_tools.catalogue.build as b\n"
    code += "b.snapshot = lambda market: os.kill(os.getpid(), 9)\n"
    code += f"import sys; sys.argv[1:] = {build}\nfrom netcl_core.cli.start import main; main()"
    assert run("-c", code).returncode == -signal.SIGKILL
    assert len(list(out.parent.iterdir())) == 2
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert run("-m", "netcl_core.cli.start", *build).returncode == 0
    assert list(out.parent.iterdir()) == [out]


def test_a_saved_file_keeps_its_mode_and_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(handle) or real(handle))
    path = tmp_path / "model.safetensors"
    nc.save({"x": nc.tensor([1.0], device="numpy")}, path)
    path.chmod(0o600)
    synced.clear()
    nc.save({"x": nc.tensor([2.0], device="numpy")}, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(synced) == 2  # the file, and the folder that has its name
