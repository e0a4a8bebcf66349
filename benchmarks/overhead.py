"""What an op and a compiled call cost beside a raw OpenCL launch with preset arguments.

    python benchmarks/overhead.py [device]

All in one run, for 1,024 float32. Microseconds per call, the best of several interleaved
rounds, asynchronous but for the last line: the time until a forward and a backward of
`sigmoid(gelu(relu(x)) + 0.5)` are done.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.region import PrimitiveStep, Region, Signature
from netcl_core.hardware import programs as cache
from netcl_core.hardware.device import opencl_module
from netcl_core.plugins.registry import registry

CALLS, ROUNDS = 1000, 25


def measure(rows: dict[str, Callable[[], object]], finish: Callable[[], None]) -> dict[str, float]:
    """Microseconds per call, the best of several rounds in turn, the queue drained between."""
    best = dict.fromkeys(rows, float("inf"))
    for _ in range(ROUNDS):
        for name, call in rows.items():
            for _ in range(CALLS // 20):
                call()
            finish()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / CALLS * 1e6)
            finish()
    return best


def raw_launch(device: nc.Device, x: nc.Tensor, y: nc.Tensor) -> Callable[[], object]:
    """The same addition as a bare enqueue: kernel, arguments and geometry prepared."""
    cl = opencl_module()
    plan = _plan(x, y)
    launch = plan.forward.launch
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
    region = Region(2, 0, (PrimitiveStep(record, (("in", 0), ("in", 1))),), (("step", 0),))
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
    grad = nc.Tensor.from_host(data)
    finish = device.queue.finish

    @ag.jit_compile
    def chain(x: nc.Tensor) -> nc.Tensor:
        return ag.sigmoid(ag.gelu(ag.relu(x)) + 0.5)  # type: ignore[no-any-return]

    def unrecorded() -> None:
        with ag.no_grad():
            ag.add(x, y)

    def both() -> None:
        x.grad = None
        chain(x).backward(grad)
        finish()

    best = measure(
        {
            "raw launch": raw_launch(device, x, y),
            "ag.add, recorded": lambda: ag.add(x, y),
            "x + y": lambda: x + y,
            "ag.add, no_grad": unrecorded,
            "compiled call, recorded": lambda: chain(x),
            "compiled forward + backward": both,
        },
        finish,
    )
    for name, time_us in best.items():
        print(f"{name:28} {time_us:7.2f} us   {time_us / best['raw launch']:5.2f}x")


if __name__ == "__main__":
    main()
