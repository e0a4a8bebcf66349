"""The program cache: on disk across processes, bounded, and harmless when it breaks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import cache
from netcl_core.cache import Memo
from netcl_core.config import core_source
from netcl_core.errors import BuildError
from netcl_core.files import keep_whole
from netcl_core.hardware import programs
from netcl_core.hardware.device import opencl_module

#: They start processes.
pytestmark = pytest.mark.turns(2)

pytest.importorskip("netcl_plugin_elementwise")

_TRAIN = """
import warnings
warnings.simplefilter("ignore")
import netcl_core as nc, netcl_core.autograd as ag
from netcl_core.hardware import programs
built = []
real = programs.from_source
programs.from_source = lambda *args: built.append(args) or real(*args)
x = nc.Tensor.ones(100, requires_grad=True)
y = ag.gelu(x)
y.backward(nc.Tensor.ones(100))
print(len(built), round(y.to_host()[0].item(), 5), nc.default_device().backend)
"""


@pytest.fixture
def opencl() -> nc.Device:
    device = next((d for d in nc.devices() if d.backend == "opencl" and not d.simulator), None)
    if device is None:
        pytest.skip("there is no OpenCL device here")
    return device


def test_a_second_process_builds_nothing(
    opencl: nc.Device, python: Callable[..., str], tmp_path: Path
) -> None:
    first, second = (python(_TRAIN, NETCL_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first == "3 0.84119 opencl"  # the device's probe, forward and backward
    assert second == "0 0.84119 opencl"
    assert python(_TRAIN, NETCL_CACHE_DIR=str(tmp_path), NETCL_CACHE="0") == first


def test_a_cpu_that_plays_a_gpu_keeps_no_compiler(
    opencl: nc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each program that Intel's runtime compiled holds 3 to 9 MB until it comes from its binary."""
    if not opencl.cl_device.type & opencl_module().device_type.CPU:
        pytest.skip("its memory is not the host's")
    monkeypatch.setattr(opencl, "kind", "gpu")
    monkeypatch.setenv("NETCL_CACHE", "0")
    loaded: list[Any] = []
    real = programs.from_binary
    monkeypatch.setattr(
        programs, "from_binary", lambda *given: loaded.append(given) or real(*given)
    )
    programs.build(opencl, "kernel void unlike(global float *x) { *x = 7; }", "a test")
    assert len(loaded) == 1


def _cut(entries: list[Path]) -> None:
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-1])


def _flip(entries: list[Path]) -> None:
    """One bit in the middle, where a driver would not look."""
    for entry in entries:
        content = bytearray(entry.read_bytes())
        content[len(content) // 2] ^= 4
        entry.write_bytes(content)


def _swap(entries: list[Path]) -> None:
    contents = [entry.read_bytes() for entry in entries]
    for entry, content in zip(entries, contents[1:] + contents[:1], strict=True):
        entry.write_bytes(content)


def _replace(entries: list[Path]) -> None:
    for entry in entries:
        entry.write_bytes(b"no program")


@pytest.mark.sample(1)
@pytest.mark.parametrize("harm", [_cut, _flip, _swap, _replace])
def test_a_damaged_entry_is_made_anew(
    opencl: nc.Device,
    python: Callable[..., str],
    tmp_path: Path,
    harm: Callable[[list[Path]], None],
) -> None:
    """Programs and templates alike, and the process after that finds them whole."""
    python(_TRAIN, NETCL_CACHE_DIR=str(tmp_path))
    harm(sorted(tmp_path.rglob("*.bin")))
    assert python(_TRAIN, NETCL_CACHE_DIR=str(tmp_path)) == "3 0.84119 opencl"
    assert python(_TRAIN, NETCL_CACHE_DIR=str(tmp_path)) == "0 0.84119 opencl"


def test_a_driver_that_does_not_take_its_binary_any_more(
    opencl: nc.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An entry that is whole, and yet no program of this driver."""
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path))
    source = "kernel void refused(global float *x) { *x = 8; }"
    monkeypatch.setattr(programs, "_lean", lambda cl, context, program, binary: program)
    cl = opencl_module()
    programs.load(cl, opencl.context, source)
    (entry,) = tmp_path.rglob("*.bin")
    cache.write(entry.stem, b"no program")
    (kernel,) = programs.load(cl, opencl.context, source).all_kernels()
    assert kernel.function_name == "refused"


_TEMPLATES = """
import jinja2
compiled = []
real = jinja2.Environment.compile
jinja2.Environment.compile = lambda *a, **k: compiled.append(a[2]) or real(*a, **k)
import netcl_core.autograd as ag, netcl_core as nc
x = nc.Tensor.ones(3)
assert ag.gelu(x).to_host()[0] > 0
print(len(compiled) > 0)
"""


def test_a_second_process_compiles_no_template(
    opencl: nc.Device, python: Callable[..., str], tmp_path: Path
) -> None:
    first, second = (python(_TEMPLATES, NETCL_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert (first, second) == ("True", "False")
    off = {"NETCL_CACHE_DIR": str(tmp_path), "NETCL_CACHE": "0"}
    assert python(_TEMPLATES, **off) == "True"


def test_the_least_used_entries_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_CACHE_SIZE_MB", "1")
    for age, name in enumerate(["new", "old", "older"]):
        entry = tmp_path / f"{name}.bin"
        entry.write_bytes(bytes(600_000))
        os.utime(entry, (1e9 - age, 1e9 - age))
    cache.prune(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["new.bin"]


def test_a_folder_that_cannot_be_written_costs_only_time(
    opencl: nc.Device, python: Callable[..., str], tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    assert python(_TRAIN, NETCL_CACHE_DIR=str(blocked)) == "3 0.84119 opencl"


def test_programs_in_memory_are_bounded_and_shared(
    opencl: nc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_programs", Memo(3))
    source = core_source("kernels/probe.cl.j2").replace("NETCL_PROBE_TYPE", "float")
    built = [programs.build(opencl, f"{source}\n// {i}", "test") for i in range(5)]
    assert len(programs._programs) == 3
    assert programs.build(opencl, f"{source}\n// 4", "test") is built[4]


def test_a_build_error_shows_the_numbered_source_and_the_log(opencl: nc.Device) -> None:
    source = core_source("kernels/probe.cl.j2").replace("NETCL_PROBE_TYPE", "nonsense")
    with pytest.raises(BuildError, match=r"mine: the OpenCL program did not build") as caught:
        programs.build(opencl, source, "mine")
    text = str(caught.value)
    assert "   1  /* The probe" in text
    assert "nonsense" in text.split("kernel void")[-1]


def test_a_new_batch_size_and_a_new_scalar_build_nothing(opencl: nc.Device) -> None:
    with nc.use_device(opencl):
        ag.leaky_relu(nc.Tensor.ones((3, 1000)), 0.1)
        before = len(programs._programs)
        for size in range(1, 50):
            ag.leaky_relu(nc.Tensor.ones((size, 1000)), 0.1 * size)
        assert len(programs._programs) == before


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path))

    def full(self: Path, target: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    cache.write("entry", b"12345678")
    assert cache.read("entry") is None
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_an_ended_process_was_writing_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETCL_CACHE_SIZE_MB", "1")
    old, new = tmp_path / "old.tmp", tmp_path / "new.tmp"
    for path in (old, new):
        path.write_bytes(bytes(600_000))
    os.utime(old, (1e9, 1e9))
    cache.prune(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new.tmp"]


def test_what_a_killed_process_was_writing_is_swept(tmp_path: Path) -> None:
    """By the first write of the next process, of whatever kind; what is being written stays."""
    killed, living = tmp_path / "a.bin.1-2.tmp", tmp_path / "b.bin.3-4.tmp"
    for path in (killed, living):
        path.write_bytes(b"half")
    os.utime(killed, (0, 0))
    keep_whole(tmp_path / "c.bin", b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {living.name, "c.bin"}


def test_a_write_seldom_looks_at_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And yet the folder stays near its bound."""
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NETCL_CACHE_SIZE_MB", "1")
    pruned: list[Path] = []
    prune = cache.prune
    monkeypatch.setattr(cache, "prune", lambda place: pruned.append(place) or prune(place))
    for i in range(100):
        cache.write(f"{i}", bytes(5000))
    assert len(pruned) < 8
    for i in range(100, 400):
        cache.write(f"{i}", bytes(5000))
    assert len(pruned) < 300 // 4  # full as it is
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.bin")) < 1.2 * 2**20


def test_a_compiler_that_talks_is_no_warning(
    opencl: nc.Device, python: Callable[..., str], tmp_path: Path
) -> None:
    """Under `-W error` too, and no filter of the process is changed."""
    told = """
import warnings
warnings.simplefilter("error")
import netcl_core as nc, netcl_core.autograd as ag
print(ag.gelu(nc.Tensor.ones(3)).to_host()[0] > 0, "CompilerWarning" in str(warnings.filters))
"""
    assert python(told, NETCL_CACHE_DIR=str(tmp_path)) == "True False"


def test_a_home_that_cannot_be_written_to_costs_nothing_but_the_cache(
    opencl: nc.Device, python: Callable[..., str], tmp_path: Path
) -> None:
    home = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere", "NETCL_CACHE_DIR": ""}
    assert python(_TRAIN, **home) == "3 0.84119 opencl"
    kept_as_it_was = (
        "import os, netcl_core as nc; nc.devices(); print('PYOPENCL_NO_CACHE' in os.environ)"
    )
    assert python(kept_as_it_was, **home) == "False"


def test_a_working_directory_that_was_deleted(python: Callable[..., str], tmp_path: Path) -> None:
    code = f"""
import os, pathlib
gone = pathlib.Path({str(tmp_path)!r}, "gone")
gone.mkdir()
os.chdir(gone)
gone.rmdir()
import netcl_core as nc
print(nc.full((2,), 3.0).sum().item())
"""
    assert python(code) == "6.0"
