"""What these tests share: a catalogue that most of them look at."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helpers beside the tests

import samples


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`wheels/` with good and bad wheels, `records/` with good and bad records."""
    folder = tmp_path_factory.mktemp("inputs")
    samples.good_wheels(folder / "wheels")
    samples.bad_wheels(folder / "wheels")
    samples.records(folder / "records")
    return folder


@pytest.fixture(scope="session")
def site(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalogue of these."""
    out = tmp_path_factory.mktemp("site") / "out"
    result = samples.build(inputs / "wheels", out, "--records", str(inputs / "records"))
    assert result.exit_code == 1, result.output
    return out
