"""Device memory: what is in use, the peak, and what happens when there is no more."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.dtypes import DTYPES
from netcl_core.errors import DeviceError
from netcl_core.hardware.device import opencl_module
from netcl_core.runtime.memory import memory_of, memory_of_graph
from netcl_core.runtime.opencl_stream import OpenCLStream

MIB = 2**20
FLOAT = DTYPES["float32"]
DEVICES = [each for each in nc.devices() if each.backend == "opencl"]
pytestmark = pytest.mark.skipif(not DEVICES, reason="no OpenCL device")


@pytest.fixture(params=DEVICES, ids=str)
def device(request: pytest.FixtureRequest) -> Any:
    gc.collect()
    with nc.use_device(request.param):
        yield request.param


def test_what_is_in_use_and_the_peak(device: nc.Device) -> None:
    before = device.memory_stats()["allocated"]
    device.reset_peak_memory_stats()
    first = nc.Tensor.zeros((MIB,))
    second = nc.Tensor.zeros((2 * MIB,))
    held = device.memory_stats()
    assert held["allocated"] - before == held["peak"] - before == 12 * MIB
    assert held["reserved"] >= held["allocated"]
    del first
    after = device.memory_stats()
    assert after["allocated"] - before == 8 * MIB and after["peak"] == held["peak"]
    device.reset_peak_memory_stats()
    assert device.memory_stats()["peak"] == after["allocated"]
    del second
    assert device.memory_stats()["allocated"] == before


def test_the_peak_of_a_pass_counts_what_it_frees(device: nc.Device) -> None:
    x = nc.Tensor.full((MIB,), 0.5, requires_grad=True)
    with ag.no_grad():
        device.reset_peak_memory_stats()
        base = device.memory_stats()["allocated"]
        ag.exp(ag.exp(ag.exp(x)))
        assert device.memory_stats()["peak"] - base == 8 * MIB
        assert device.memory_stats()["allocated"] == base


def test_a_program_lets_go_of_what_no_later_step_needs(device: nc.Device) -> None:
    x = nc.Tensor.full((MIB,), 0.5)

    @ag.jit_compile
    def sums(x: nc.Tensor) -> nc.Tensor:
        for _ in range(4):
            x = ag.cumsum(x, 0)
        return x

    with ag.no_grad():
        sums(x)
        device.reset_peak_memory_stats()
        base = device.memory_stats()["allocated"]
        found = sums(x)
        assert device.memory_stats()["peak"] - base <= 8 * MIB + 64 * 1024  # and its partial sums
        assert device.memory_stats()["allocated"] - base == found.size * 4


def test_the_numpy_path_says_what_measures_it() -> None:
    for call in ("memory_stats", "reset_peak_memory_stats"):
        with pytest.raises(DeviceError, match="tracemalloc"):
            getattr(nc.get_device("numpy"), call)()


class Exhausted:
    """A pool without room, for so many requests."""

    def __init__(self, device: nc.Device, refusals: int) -> None:
        self.inner = memory_of(device).pool
        self.refusals = refusals
        self.given_back = 0
        self.active_bytes, self.managed_bytes = 3 * MIB, 4 * MIB

    def allocate(self, nbytes: int) -> Any:
        if self.refusals:
            self.refusals -= 1
            code = opencl_module().status_code.MEM_OBJECT_ALLOCATION_FAILURE
            raise opencl_module().MemoryError("create_buffer", code, "no room")
        return self.inner.allocate(nbytes)

    def free_held(self) -> None:
        self.given_back += 1


def without_room(device: nc.Device, refusals: int) -> Any:
    """A stream whose pool refuses some requests, and that pool."""
    stream, pool = OpenCLStream(device), Exhausted(device, refusals)
    stream._memory = memory_of_graph(device)
    stream._memory.pool, stream._take = pool, pool.allocate
    return stream, pool


def test_once_more_after_the_free_buffers_are_given_back(device: nc.Device) -> None:
    stream, pool = without_room(device, 1)
    assert stream.allocate(25, FLOAT).size >= 100
    assert pool.given_back == 1


def test_garbage_is_collected_before_there_is_no_memory(device: nc.Device) -> None:
    stream, _ = without_room(device, 1)
    cycle: list[Any] = [nc.Tensor.zeros((MIB,))]
    cycle.append(cycle)
    used = device.memory_stats()["allocated"]
    gc.disable()
    try:
        del cycle
        stream.allocate(25, FLOAT)
    finally:
        gc.enable()
    assert used - device.memory_stats()["allocated"] == 4 * MIB


def test_then_an_error_has_the_sizes(device: nc.Device) -> None:
    stream, pool = without_room(device, 2)
    kept = nc.Tensor.zeros((MIB,))
    gc.collect()
    used = device.memory_stats()["allocated"] / MIB  # the other pool's too
    assert used >= pool.managed_bytes / MIB + kept.size * 4 / MIB
    with pytest.raises(DeviceError, match=f"100 MiB could not be allocated, with {used:.6g} MiB"):
        stream.allocate(25 * MIB, FLOAT)
    assert pool.given_back == 1
    assert stream.allocate(25, FLOAT).size >= 100  # and nothing is broken


def test_a_tensor_that_no_device_has_room_for(device: nc.Device) -> None:
    with pytest.raises(DeviceError, match=r"262144 MiB could not be allocated.*in use"):
        nc.Tensor.zeros((2**36,))
    np.testing.assert_array_equal(ag.add(nc.tensor([1.0]), 1).numpy(), [2.0])


def test_a_command_is_tried_once_more_too(device: nc.Device) -> None:
    """Some drivers make a buffer only when a command uses it."""
    stream, calls = OpenCLStream(device), []
    refused = opencl_module().MemoryError("copy", -4, "no room")

    def command(queue: Any, refusals: int) -> str:
        calls.append(queue)
        if len(calls) <= refusals:
            raise refused
        return "event"

    assert stream._command(command, 4, 1) == "event" and len(calls) == 2
    calls.clear()
    with pytest.raises(DeviceError, match="4 bytes could not be allocated"):
        stream._command(command, 4, 2)
