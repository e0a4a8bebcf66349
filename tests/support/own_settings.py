"""Tests with settings of their own: not the user's, but with the kernels that were built before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_CLEARED = ("OCL_ICD_", "OPENCL_VENDOR_PATH", "NETCL_")
#: Built kernels outlive a run, and all workers and their child processes share them.
_KERNELS = (
    Path(
        os.environ.get("NETCL_CACHE_DIR")
        or Path(__file__).resolve().parents[2] / "build/test-cache"
    )
    .absolute()
    .joinpath("programs")
)


def isolate(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Clear the caller's settings, and let `folder` hold a cache; its kernels alone are shared."""
    for name in list(os.environ):
        if name.startswith(_CLEARED):
            monkeypatch.delenv(name)
    cache = folder / "cache"
    if not cache.exists():
        cache.mkdir()
        _KERNELS.mkdir(parents=True, exist_ok=True)
        (cache / "programs").symlink_to(_KERNELS)
    monkeypatch.setenv("NETCL_CACHE_DIR", str(cache))
