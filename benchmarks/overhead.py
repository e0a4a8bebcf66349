"""What an eager op costs beside a raw OpenCL launch with preset arguments, in one run.

    python benchmarks/overhead.py [device]

Prints the best of several rounds in microseconds per call, asynchronous, for 1,024 float32.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd.lowering import Plan
from netcl_core.autograd.region import Region, Signature, Step
from netcl_core.device import opencl_module
from netcl_core.registry import registry
from netcl_core.runtime import cache

CALLS, ROUNDS = 2000, 15


def per_call(call: Callable[[], object], finish: Callable[[], None]) -> float:
    """Microseconds per call, the best of several rounds; the queue is drained in between."""
    for _ in range(CALLS // 10):
        call()
    finish()
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter() - start) / CALLS * 1e6)
        finish()
    return min(rounds)


def raw_launch(device: nc.Device, x: nc.Tensor, y: nc.Tensor) -> Callable[[], object]:
    """The same addition as a bare enqueue: kernel, arguments and geometry prepared."""
    cl = opencl_module()
    plan = _plan(x, y)
    launch = plan.forward._launch
    program = cache.build(device, launch.source, "raw")
    kernel = cl.Kernel(program, launch.entry)
    out = nc.Tensor.empty(x.shape, device=device)
    buffers = (x.buffer, y.buffer, out.buffer)
    for index, buffer in enumerate(buffers):
        kernel.set_arg(index, buffer)
    for index, constant in enumerate(launch.constants, start=len(buffers)):
        kernel._set_arg_buf(index, constant)
    enqueue, queue = cl.enqueue_nd_range_kernel, device.queue
    size, local = launch.global_size, launch.local_size
    return lambda: (enqueue(queue, kernel, size, local), buffers)


def _plan(x: nc.Tensor, y: nc.Tensor) -> Plan:
    record = registry.find_op("add").record
    region = Region(2, 0, (Step(record, (("in", 0), ("in", 1))),), (("step", 0),))
    tensors = ((x.shape, x.dtype), (y.shape, y.dtype))
    return Plan(region, x.device, Signature(tensors, ()))


def main() -> None:
    """Measure and print."""
    if len(sys.argv) > 1:
        nc.use_device(sys.argv[1])
    device = nc.default_device()
    data = np.random.default_rng(0).standard_normal(1024).astype("float32")
    x = nc.Tensor.from_host(data, requires_grad=True)
    y = nc.Tensor.from_host(data)
    finish = device.queue.finish
    raw = raw_launch(device, x, y)
    rows = {"raw launch": raw, "ag.add, recorded": lambda: ag.add(x, y), "x + y": lambda: x + y}
    best = {name: per_call(call, finish) for name, call in rows.items()}
    with ag.no_grad():
        best["ag.add, no_grad"] = per_call(lambda: ag.add(x, y), finish)
    for name, time_us in best.items():
        print(f"{name:20} {time_us:7.2f} us   {time_us / best['raw launch']:5.2f}x")


if __name__ == "__main__":
    main()
