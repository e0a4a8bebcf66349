"""The scenarios of `job.py`, under mpiexec."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: They start processes.
pytestmark = pytest.mark.turns(2)

JOB = Path(__file__).with_name("job.py")
PLACES = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
MPIEXEC = shutil.which("mpiexec", path=PLACES)
COMPUTING = ("equal", "normed", "collectives", "gradients", "sharded")

needs_mpi = pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install mpich")


def run(scenarios: str, folder: Path, processes: int = 2) -> tuple[int, str, float]:
    """The exit code, what was said, and seconds of scenarios on the NumPy path."""
    command = [str(MPIEXEC), "-n", str(processes), sys.executable, str(JOB), scenarios, str(folder)]
    begun = time.monotonic()
    done = subprocess.run(
        command,
        env={**os.environ, "NETCL_DEVICE": "numpy"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, time.monotonic() - begun


def succeed(scenarios: tuple[str, ...], folder: Path, processes: int) -> None:
    code, said, _ = run(",".join(scenarios), folder, processes)
    assert code == 0, said
    assert said.count(": ok") == processes * len(scenarios)


@needs_mpi
def test_two_processes_train_as_one_and_one_goes_on(tmp_path: Path) -> None:
    succeed(COMPUTING, tmp_path, 2)
    succeed(("resumed",), tmp_path, 1)


@needs_mpi
@pytest.mark.nightly
@pytest.mark.parametrize("processes", [1, 4])
def test_other_numbers_of_processes(tmp_path: Path, processes: int) -> None:
    succeed(COMPUTING, tmp_path, processes)
    succeed(("resumed",), tmp_path, 2)


@needs_mpi
@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        pytest.param("killed", r"rank 1 .* at job.py:\d+ in killed\) was killed", id="killed"),
        pytest.param(
            "killed_first", "rank 0 .* was killed", id="rank 0", marks=pytest.mark.nightly
        ),
        pytest.param("hanging", r"barrier has waited .* for rank 1 .* in hanging", id="hanging"),
        pytest.param(
            "raising", "rank 1 .* ended with ValueError: no", id="error", marks=pytest.mark.nightly
        ),
    ],
)
def test_a_process_that_fails_ends_all_and_is_named(
    tmp_path: Path, scenario: str, said: str
) -> None:
    code, text, seconds = run(scenario, tmp_path)
    lines = [line for line in text.splitlines() if line.startswith("netcl: ")]
    assert code != 0 and seconds < 30, text
    assert len(lines) == 1 and re.search(said, lines[0]), text


def test_without_an_mpi_a_sentence_says_what_to_install() -> None:
    code = "from netcl_core import distributed; distributed.init()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MPI4PY_LIBMPI": "/nowhere/libmpi.so", "LD_LIBRARY_PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "DistributedError: distributed: no MPI library can be loaded (" in done.stderr
    assert "pip install mpich" in done.stderr
