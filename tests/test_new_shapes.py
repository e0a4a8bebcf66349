"""One lowering for all shapes: a new index or shape renders nothing and makes no kernel."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.hardware import programs
from netcl_core.hardware.programs import SharedKernel, shared_kernel
from netcl_core.runtime import rendering
from netcl_core.runtime.kernels import Bound, Kernel, Kernels

OPENCL = [device for device in nc.devices() if device.backend == "opencl" and not device.simulator]


@pytest.fixture(params=OPENCL[:1], ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    with nc.use_device(request.param) as chosen:
        yield chosen


CALLS: dict[str, Callable[[Any, int], Any]] = {
    "index": lambda x, i: x[i],
    "slice": lambda x, i: x[i:],
    "add": lambda x, i: ag.add(x[i:], 1.0),
    "broadcast": lambda x, i: ag.mul(x[i:], x[0]),
    "sum": lambda x, i: ag.sum(x[i:], 1),
    "softmax": lambda x, i: ag.softmax(x[i:], 1),
    "transpose": lambda x, i: ag.transpose(x[i:]),
    "cat": lambda x, i: ag.cat([x[i:], x], 0),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_new_one_makes_nothing_but_a_plan(
    name: str, device: nc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = nc.tensor(np.ones((64, 8), np.float32), requires_grad=True)
    for i in (1, 2):
        CALLS[name](x, i)
    made: list[str] = []
    template = rendering.get_template
    monkeypatch.setattr(rendering, "get_template", lambda name: made.append(name) or template(name))
    build = programs.build
    monkeypatch.setattr(programs, "build", lambda *args: made.append("kernel") or build(*args))
    for i in range(3, 40):
        CALLS[name](x, i)
    assert not made


def test_4000_indices_hold_less_than_2_mb(device: nc.Device) -> None:
    x = nc.tensor(np.zeros((5000, 8), np.float32))
    for i in range(20):
        x[i]
    gc.collect()
    tracemalloc.start()
    try:
        for i in range(500, 4500):
            x[i]
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 2e6
    finally:
        tracemalloc.stop()


def test_3000_batch_sizes_hold_less_than_4_mb(device: nc.Device) -> None:
    tracemalloc.start()
    try:
        for size in range(1, 3001):
            x = nc.Tensor.empty((size, 2))
            ag.add(x, x)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 4e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["index", "add"])
def test_a_new_one_takes_few_steps(name: str, device: nc.Device) -> None:
    """155 and 126 calls of functions; thousands where each was rendered and built anew."""
    x = nc.tensor(np.zeros((4000, 8), np.float32))
    rows = [nc.Tensor.empty((n, 4)) for n in (1, 2, 7)]
    call = {"index": lambda i: x[i], "add": lambda i: ag.add(rows[i], rows[i])}[name]
    call(0)
    call(1)
    events: list[str] = []
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        call(2)
    finally:
        sys.setprofile(None)
    assert sum(event in {"call", "c_call"} for event in events) < 200


def test_equal_numbers_of_other_types_are_other_sources() -> None:
    """1, 1.0 and True are equal in Python and print differently."""
    texts = {
        rendering.render(
            "core/kernels/inline.cl.j2", function="f", result="float", parameters=[value],
            split=False, length="n", lines=[], returned="0",
        )
        for value in (1, 1.0, True, "1", 0.0, -0.0)
    }  # fmt: skip
    assert len(texts) == 5  # the text "1" prints as the number does


def test_a_template_that_changes_is_rendered_anew(device: nc.Device, tmp_path: Any) -> None:
    """As when a plugin is loaded again under its prefix."""
    x, y = nc.tensor([3.0]), nc.tensor([0.0])

    def run() -> float:
        kernel = Kernel("passing/scale.cl.j2", "scale", (("in", 0), ("out", 0)), (1,))
        Bound(device, Kernels((kernel,)), (), ())([x.buffer], [y.buffer])
        return float(y.to_host()[0])

    text = "kernel void scale(global const float *a, global float *b) { b[0] = a[0] * F; }"
    try:
        for factor in ("2.0f", "5.0f"):
            (tmp_path / "scale.cl.j2").write_text(text.replace("F", factor), encoding="utf-8")
            rendering.add_prefix("passing", tmp_path)
            assert run() == 3 * float(factor[:-1])
    finally:
        rendering.drop_prefix("passing")


def test_launches_of_one_kernel_keep_their_own_numbers(device: nc.Device) -> None:
    """They share a kernel object; each sets its constants again after another's turn."""
    x = nc.tensor(np.arange(40, dtype=np.float32).reshape(5, 8))
    for _ in range(2):
        for i in (0, 3, 3, 1, 0):
            assert x[i].to_host().tolist() == list(range(8 * i, 8 * i + 8))
    assert isinstance(shared_kernel(device, "a", "b"), SharedKernel)
    assert shared_kernel(device, "a", "b") is shared_kernel(device, "a", "b")
