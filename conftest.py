"""What all tests share, the plugins' too: settings of their own, and memory that is given back."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

#: Which tests run when, and in how many processes.
pytest_plugins = ["daily", "parallel"]

_CLEARED = ("OCL_ICD_", "OPENCL_VENDOR_PATH", "NETCL_")
#: Built kernels outlive a run and the checkout; all workers and their child processes share them.
#: Their names say of which source, driver and device they are.
_CACHE = Path(os.environ.get("NETCL_TEST_CACHE") or platformdirs.user_cache_dir("netcl-tests"))
#: The tests have more kernels than a user, and would build again what the bound made them forget.
_CACHE_SIZE_MB = "4096"

#: Bytes that a device's pool may keep from one test to the next.
_HELD = 16 << 20


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is there before a file's first test stays: no search for garbage looks at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the user's cache or sees the user's settings; kernels are shared."""
    for name in list(os.environ):
        if name.startswith(_CLEARED):
            monkeypatch.delenv(name)
    cache = tmp_path_factory.getbasetemp() / "cache"
    if not cache.exists():
        cache.mkdir()
        for name in ("programs", "checks", "icd"):
            (_CACHE.absolute() / name).mkdir(parents=True, exist_ok=True)
            (cache / name).symlink_to(_CACHE.absolute() / name)
    monkeypatch.setenv("NETCL_CACHE_DIR", str(cache))
    monkeypatch.setenv("NETCL_CACHE_SIZE_MB", _CACHE_SIZE_MB)


@pytest.fixture(autouse=True)
def pools_given_back() -> Iterator[None]:
    """A worker runs all tests: what large arrays took, it does not hold to the end."""
    yield
    if memory := sys.modules.get("netcl_core.runtime.memory"):
        memory.free_held(_HELD)


#: Bytes of memory above which a worker forgets the kernels of the tests so far; CPU runtimes take
#: some 0.4 MB for each.
_LARGE = 1 << 30


@pytest.fixture(autouse=True)
def kernels_given_back() -> Iterator[None]:
    """The same for kernels: plans keep theirs, and the next call makes them again."""
    global _swept
    yield
    if _resident() > max(_LARGE, 1.1 * _swept):
        if programs := sys.modules.get("netcl_core.hardware.programs"):
            gc.unfreeze()  # some kernels are older than the file
            for each in gc.get_objects():
                if type(each) is programs.SharedKernel:
                    each.of_thread.clear()
            programs.clear()
        gc.collect()
        _trim()
        _swept = _resident()


#: The memory after the last time.
_swept = 0


@pytest.fixture(autouse=True, scope="module")
def heap_given_back() -> Iterator[None]:
    """Threads, of which some tests start many, leave heaps that the C library would keep."""
    yield
    _trim()


def _trim() -> None:
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)


def _resident() -> int:
    """The process's memory in bytes; 0 where nobody can tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
