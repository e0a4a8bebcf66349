"""What all tests of the workbench share: settings of their own."""

from __future__ import annotations

import os

import pytest

_CLEARED = ("OCL_ICD_", "OPENCL_VENDOR_PATH", "NETCL_")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the user's cache or sees the user's settings."""
    for name in list(os.environ):
        if name.startswith(_CLEARED):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
