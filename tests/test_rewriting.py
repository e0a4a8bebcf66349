"""Programs changed after they were compiled, and requirements that are tried by compiling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import hookimpl
from netcl_core.errors import BuildError
from netcl_core.hardware import programs
from netcl_core.hardware.device import stand_in
from netcl_core.hardware.programs import Recipe
from netcl_core.runtime import rendering

OPENCL = [device for device in nc.devices() if device.backend == "opencl" and not device.simulator]
FIRST, OTHER = 123456789, 987654321
TEXT = """kernel void number(__global const int *in0, __global int *out0, const ulong size)
{
    out0[get_global_id(0)] = in0[get_global_id(0)] + 123456789;
}
"""
VERSION = TEXT.replace("number", "version").replace(str(FIRST), "__OPENCL_C_VERSION__")


@pytest.fixture(params=OPENCL, ids=str)
def device(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[nc.Device]:
    """A device with an empty cache and a folder of templates."""
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "number.cl.j2").write_text(TEXT, encoding="utf-8")
    (tmp_path / "version.cl.j2").write_text(VERSION, encoding="utf-8")
    (tmp_path / "refused.cl.j2").write_text("kernel void f() { wgmma(; }", encoding="utf-8")
    rendering.add_prefix("rewritten", tmp_path)
    programs.clear()
    with nc.use_device(request.param) as found:
        yield found
    programs.clear()
    rendering.drop_prefix("rewritten")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that a driver's compiler gets."""
    found: list[str] = []
    real = programs.from_source

    def noted(cl: Any, context: Any, source: str, options: str) -> Any:
        found.append(source)
        return real(cl, context, source, options)

    monkeypatch.setattr(programs, "from_source", noted)
    return found


def other_source(device: nc.Device, binary: bytes) -> str:
    """The kernel with another number, to be compiled."""
    assert binary
    return TEXT.replace(str(FIRST), str(OTHER))


def other_binary(device: nc.Device, binary: bytes) -> bytes:
    """The machine code with another number."""
    assert FIRST.to_bytes(4, "little") in binary
    return binary.replace(FIRST.to_bytes(4, "little"), OTHER.to_bytes(4, "little"))


def number(device: nc.Device, rewrite: nc.Rewrite | None) -> int:
    """What the kernel adds."""
    args = (("in", 0), ("out", 0), ("ulong", 3))
    kernel = nc.Kernel("rewritten/number.cl.j2", "number", args, (3,), rewrite=rewrite)
    x, y = nc.tensor(np.zeros(3, "int32")), nc.Tensor.zeros(3, "int32")
    specs = (nc.Spec((3,), "int32"),)
    nc.Bound(device, nc.Kernels((kernel,)), specs, specs)((x.buffer,), (y.buffer,))
    return int(y.to_host()[2])


def test_a_step_gives_another_source(device: nc.Device, compiled: list[str]) -> None:
    """And a kernel without the step stays as it is."""
    step = nc.Rewrite("another number", "1", other_source)
    assert number(device, step) == OTHER
    assert number(device, None) == FIRST
    assert number(device, step) == OTHER
    assert len(compiled) == 3  # source and other source, then the source alone


def test_a_step_gives_another_binary(device: nc.Device) -> None:
    if "intel" not in device.platform.lower():
        pytest.skip("only Intel's binaries are plain machine code")
    assert number(device, nc.Rewrite("another number", "1", other_binary)) == OTHER


def test_a_kernel_says_which_opencl_c_it_is_written_in(device: nc.Device) -> None:
    """The same source in two versions is two programs."""
    args = (("in", 0), ("out", 0), ("ulong", 1))
    x, y = nc.Tensor.zeros(1, "int32"), nc.Tensor.zeros(1, "int32")
    specs = (nc.Spec((1,), "int32"),)
    for standard, version in (("CL1.2", 120), ("CL3.0", 300), ("CL1.2", 120)):
        probe = ag.Requirements(compiles="rewritten/version.cl.j2", standard=standard)
        assert probe.unmet_everywhere(device) is None
        kernel = nc.Kernel("rewritten/version.cl.j2", "version", args, (1,), standard=standard)
        nc.Bound(device, nc.Kernels((kernel,)), specs, specs)((x.buffer,), (y.buffer,))
        assert y.item() == version
    wrong = ag.Requirements(compiles="rewritten/version.cl.j2", standard="CL7.0")
    assert "CL7.0" in str(wrong.unmet_everywhere(device))


def test_what_it_made_is_kept_until_its_version_changes(device: nc.Device) -> None:
    asked = []

    def step(version: str) -> nc.Rewrite:
        def run(device: nc.Device, binary: bytes) -> str:
            asked.append(version)
            return other_source(device, binary)

        return nc.Rewrite("another number", version, run)

    for version in ("1", "1", "2", "1"):  # each time as a new process finds it
        programs.clear()
        assert programs.build(device, TEXT, "a test", Recipe(rewrite=step(version)))
    assert asked == ["1", "2"]


def broken(device: nc.Device, binary: bytes) -> bytes:
    """Raises."""
    raise ValueError("no line to unmark")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (broken, r"'unmark' \(version 1\) failed on <Device .*ValueError: no line to unmark"),
        (lambda device, binary: 3, r"failed on .*it gave a int.*a binary \(bytes\)"),
        (lambda device, binary: "mistake", r"what the rewriting step 'unmark' .* did not build"),
        (lambda device, binary: b"mistake", r"what the rewriting step 'unmark' .* did not build"),
    ],
)  # fmt: skip
def test_a_step_that_fails_is_named(device: nc.Device, function: Any, text: str) -> None:
    with pytest.raises(BuildError, match=f"(?s)^a test: .*{text}"):
        programs.build(device, TEXT, "a test", Recipe(rewrite=nc.Rewrite("unmark", "1", function)))


def test_the_text_that_did_not_build_is_shown(device: nc.Device) -> None:
    step = nc.Rewrite("unmark", "1", lambda device, binary: "kernel\nmistake")
    with pytest.raises(BuildError, match="\n   2  mistake\n"):
        programs.build(device, TEXT, "a test", Recipe(rewrite=step))


# -- requirements --------------------------------------------------------------------------


def test_a_template_that_compiles(device: nc.Device) -> None:
    assert ag.Requirements(compiles="rewritten/number.cl.j2").unmet_everywhere(device) is None


def test_one_that_does_not(device: nc.Device, compiled: list[str]) -> None:
    """It is tried once, in this process and in the next."""
    needs = ag.Requirements(compiles="rewritten/refused.cl.j2")
    texts = set()
    for _ in range(2):
        texts |= {needs.unmet_everywhere(device) for _ in range(2)}
        programs.clear()
    (text,) = texts
    assert text is not None
    assert text.startswith(f"{device} does not compile rewritten/refused.cl.j2 as CL1.2: ")
    assert "error" in text.lower() and "\n" not in text
    assert len(compiled) == 1


def test_one_whose_rewriting_fails(device: nc.Device) -> None:
    step = nc.Rewrite("unmark", "1", broken)
    needs = ag.Requirements(compiles="rewritten/number.cl.j2", rewrite=step)
    assert "no line to unmark" in str(needs.unmet_everywhere(device))


def test_what_is_known_without_a_compiler(device: nc.Device, compiled: list[str]) -> None:
    needs = ag.Requirements(device_kinds=("gpu",), compiles="rewritten/refused.cl.j2")
    assert needs.unmet_everywhere(device) == f"it needs a gpu, {device} is a cpu"
    anywhere = ag.Requirements(compiles="rewritten/refused.cl.j2")
    assert anywhere.unmet_everywhere(nc.get_device("numpy")) == "it needs OpenCL, numpy is NumPy"
    assert anywhere.unmet_everywhere(stand_in("gpu")) is None
    assert compiled == []


class Plugin:
    """An implementation of matmul that no device here takes."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        needs = ag.Requirements(compiles="rewritten/refused.cl.j2")
        registry.add(ag.Implementation("matmul", "of another vendor", lambda request: None, needs,
                                       priority=9))  # fmt: skip


def test_why_shows_what_the_compiler_says(device: nc.Device) -> None:
    pytest.importorskip("netcl_plugin_linalg")
    nc.plugins.register(Plugin(), "vendor")
    try:
        found = nc.plugins.why("matmul").candidates
        (reason,) = [each.reason for each in found if each.label == "of another vendor"]
        assert reason.startswith(
            f"dropped: {device} does not compile rewritten/refused.cl.j2 as CL1.2: "
        )
        assert float(ag.matmul(nc.tensor([[2.0]]), nc.tensor([[3.0]])).item()) == 6
    finally:
        nc.plugins.unregister("vendor")
