"""What all tests share, the plugins' too: settings of their own, and memory that is given back."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_CLEARED = ("OCL_ICD_", "OPENCL_VENDOR_PATH", "NETCL_")
#: Built kernels outlive a run, and all workers and their child processes share them.
_CACHE = Path(os.environ.get("NETCL_CACHE_DIR") or Path(__file__).with_name("build") / "test-cache")

#: Bytes that a device's pool may keep from one test to the next.
_HELD = 16 << 20


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the user's cache or sees the user's settings; kernels are shared."""
    for name in list(os.environ):
        if name.startswith(_CLEARED):
            monkeypatch.delenv(name)
    cache, kernels = tmp_path_factory.getbasetemp() / "cache", _CACHE.absolute() / "programs"
    if not cache.exists():
        kernels.mkdir(parents=True, exist_ok=True)
        cache.mkdir()
        (cache / "programs").symlink_to(kernels)
    monkeypatch.setenv("NETCL_CACHE_DIR", str(cache))


@pytest.fixture(autouse=True)
def pools_given_back() -> Iterator[None]:
    """A worker runs all tests: what large arrays took, it does not hold to the end."""
    yield
    if memory := sys.modules.get("netcl_core.runtime.memory"):
        for pool in list(memory._pools.values()):
            if pool.managed_bytes - pool.active_bytes > _HELD:
                pool.free_held()


@pytest.fixture(autouse=True, scope="module")
def heap_given_back() -> Iterator[None]:
    """Threads, of which some tests start many, leave heaps that the C library would keep."""
    yield
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)
