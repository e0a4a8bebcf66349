"""Every command runs in the folder of a project."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import netcl_core as nc

sys.path.insert(0, str(Path(__file__).parent))  # what the tests share lies beside them

from project_settings import PROJECT


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a project, in whose folder commands run."""
    nc.plugins.list()  # what is switched off below stays loaded for other tests
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pyproject.toml"
    path.write_text(PROJECT)
    return path
