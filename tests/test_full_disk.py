"""A disk that takes no more: nothing is half-written, nothing left behind, and the file is named.

The disk is a limit on the size of files: what is written up to it is there, as on a full disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from distributions import write_wheel
from environments import ROOT

#: They start processes.
pytestmark = pytest.mark.turns(2)

FULL = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))\n"
CLI = "import sys\nsys.argv[1:] = {}\nfrom netcl_core.cli.start import main; main()"


def on_a_full_disk(code: str, folder: Path, **variables: str) -> Any:
    """Run a program there, in a folder; its cache lies there, too."""
    cache = {"NETCL_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", FULL + code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **cache, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def files_in(folder: Path) -> dict[str, bytes]:
    """All files below a folder, but for those of the OpenCL loader, which are small enough."""
    paths = [path for path in folder.rglob("*") if path.is_file() and "icd" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_cache_that_is_full_costs_only_time(tmp_path: Path) -> None:
    """Programs, templates, memories of plugins, and a record of tuning, which holds here."""
    code = """
import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_tools.tune import records as tuning_records
from netcl_plugin_tools.tune.records import write
from netcl_core.ops.tuning import Place
place = Place(*["x"] * len(Place.__dataclass_fields__))
write(place, {"tile": 8}, 2.0)
print(ag.relu(nc.tensor([-1.0, 2.0])).to_host().tolist(), tuning_records.own(place)[0][0].settings)
"""
    done = on_a_full_disk(code, tmp_path, NETCL_PLUGINS="elementwise")
    assert (done.stdout, done.returncode) == ("[0.0, 2.0] {'tile': 8}\n", 0), done.stderr
    assert "Traceback" not in done.stderr
    assert files_in(tmp_path) == {}


LOCK = json.dumps({"schema": 3, "core": {"version": "0"}, "plugins": {}, "devices": {}})
SAVING = "import netcl_core as nc\nnc.nn.save({'w': nc.zeros((64,))}, 'model.safetensors')"
DRAWN = "import netcl_core.autograd as ag\ndef f(x): return ag.relu(x)"


@pytest.mark.parametrize(
    ("status", "file", "before", "code"),
    [
        (1, "model.safetensors", "weights", SAVING),
        (3, "netcl.lock", LOCK, "plugins lock --device numpy"),
        (2, "drawn.svg", "<svg/>", "graph drawn.py:f --shapes 4 --device numpy --svg drawn.svg"),
        (3, "site", "", "catalogue build --wheels wheels --out site"),
        (3, "netcl-plugin-aa", "", "plugins new aa --kind primitive"),
    ],
)
def test_what_was_there_before_is_there(
    status: int, file: str, before: str, code: str, tmp_path: Path
) -> None:
    if before:
        (tmp_path / file).write_text(before)
    (tmp_path / "drawn.py").write_text(DRAWN)
    points = {"netcl_core.primitives": {"a_op": "a:a_op"}}
    write_wheel(tmp_path / "wheels", "netcl-plugin-a", {"a.py": "a_op = 1"}, points)
    there = files_in(tmp_path)
    done = on_a_full_disk(code if "\n" in code else CLI.format(code.split()), tmp_path)
    assert done.returncode == status, done.stderr
    assert file in done.stderr and "File too large" in done.stderr
    assert there == files_in(tmp_path)
    assert before or not (tmp_path / file).exists()
