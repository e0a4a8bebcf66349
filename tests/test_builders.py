"""Builder processes: programs built beside the host, with the same results come what may."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import netcl_core as nc
from netcl_core.hardware import builders
from netcl_core.runtime.waiting import Waiting

pytest.importorskip("netcl_plugin_elementwise")

#: A step of kernels that nobody has built, one of them wrong, as on a machine of three processors;
#: the first builder is killed at its second program. Prints the results, whether commands waited,
#: and how many programs this process and the builders built.
_STEP = """
import os
if "BESIDE" in os.environ:
    os.environ.pop("PYTEST_CURRENT_TEST")
import netcl_core as nc, netcl_core.autograd as ag
from netcl_core.errors import BuildError
from netcl_core.hardware import builders, programs
from netcl_core.hardware.programs import shared_kernel
from netcl_core.runtime.opencl_stream import Launch
from netcl_core.runtime.stream import stream_of
builders._processors = lambda: 3
here, real = [], programs.from_source
programs.from_source = lambda *args: here.append(args) or real(*args)
built, build = [], builders._built_by
def counted(process, job):
    if len(built) == 1:
        process.kill()
    built.append(process)
    build(process, job)
builders._built_by = counted
device = nc.default_device()
stream = stream_of(device)
x = nc.tensor([-1.0, 0.5, 2.0], requires_grad=True)
y = x * 1
for name in ("gelu", "sigmoid", "tanh", "exp", "silu", "softplus"):
    y = getattr(ag, name)(y)
kernel = shared_kernel(device, "kernel void wrong(global float *x) { no }", "wrong")
try:
    stream.launch(Launch(kernel, (1,)), [y.value.memory])
    z = y * 3
    late = stream._waiting.late
    z.numpy()
except BuildError as error:
    assert "wrong: the OpenCL program did not build" in str(error)
    z = y * 3
else:
    raise AssertionError
z.sum().backward()
print(x.grad.numpy().tobytes().hex(), z.detach().numpy().tobytes().hex())
print("late" if "late" in globals() and late else "at once", len(here), len(built))
if built:
    builders.builders_of(device)._end()
assert all(process.poll() is not None for process in built)
"""


def test_a_step_built_by_others_is_the_same_step(
    python: Callable[..., str], tmp_path: Path
) -> None:
    if nc.default_device().platform not in builders._PLATFORMS:
        pytest.skip("nobody builds for this device but the process itself")
    cold = python(_STEP, NETCL_CACHE_DIR=str(tmp_path), BESIDE="1").splitlines()
    alone = python(_STEP).splitlines()
    assert cold[0] == alone[0]
    when, _, built = cold[1].rsplit(" ", 2)
    assert when == "late" and int(built) > 2
    assert alone[1].startswith("at once") and alone[1].endswith(" 0")
    assert not list(tmp_path.rglob("*.tmp"))


def test_commands_that_wait_hold_no_more_than_a_share_of_the_memory() -> None:
    """They run, oldest first, as soon as more has been taken since they began to wait."""
    memory: Any = SimpleNamespace(pool=SimpleNamespace(active_bytes=500))
    device: Any = SimpleNamespace(cl_device=SimpleNamespace(global_mem_size=3200))
    kernel: Any = SimpleNamespace(ahead=lambda who: True, build=lambda who: None)
    waiting, ran = Waiting(device, memory), []

    def command(number: int) -> None:
        memory.pool.active_bytes -= 40
        ran.append(number)

    for number in range(8):
        memory.pool.active_bytes += 40
        assert waiting.takes(partial(command, number), kernel)
        assert memory.pool.active_bytes <= 500 + 40 + 3200 // 32 + 40
    assert ran == [0, 1, 2, 3, 4], "the others wait"
