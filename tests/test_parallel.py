"""The runner of the tests: each runs once, and nothing that goes wrong in a process is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).with_name("support")
FILES = {
    "test_passes": "def test_one(): pass\ndef test_two(): pass\n",
    "test_skips": "import pytest\ndef test_it(): pytest.skip('for a reason')\n",
    "test_fails": "def test_it(): assert 1 == 2, 'as it should'\n",
    "test_dies": "import os\ndef test_a(): pass\ndef test_it(): os.abort()\ndef test_lost(): ...",
    "test_cannot_be_imported": "import nothing_of_this_name\n",
    "test_after": "def test_it(): pass\n",
}


def run(place: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "parallel", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--disable-plugin-autoload", *arguments],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def test_what_goes_wrong_in_a_process_is_shown(place: Path) -> None:
    code, output = run(place, "--jobs", "2", "-ra")
    assert code == 1, output
    assert "as it should" in output and "No module named 'nothing_of_this_name'" in output
    assert "test_dies.py::test_it" in output and "The process of this test ended: SIGABRT" in output
    assert "2 failed, 4 passed, 1 skipped, 1 error" in output, output
    assert "for a reason" in output


def test_shards_make_a_whole(place: Path) -> None:
    found = []
    for part in ("1/2", "2/2"):
        _, output = run(place, "--jobs", "1", "--shard", part, "-v", "-k", "passes or after")
        found += [line.split()[0] for line in output.splitlines() if " PASSED" in line]
    assert sorted(found) == [
        "test_after.py::test_it", "test_passes.py::test_one", "test_passes.py::test_two"
    ]  # fmt: skip
    assert run(place, "--jobs", "1", "--shard", "3/2")[0] == 4
