"""Cost of kernels of data on a CPU: reading a source, and comparing its indices with their buffers.

    python benchmarks/data_kernels.py [rounds]

Times are those that this process has a core, so that other programs do not count. With and without
comparisons take turns; the ratio is that of the best times.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import pyopencl as cl
from netcl_plugin_data_kernels.screening import screened
from netcl_plugin_data_kernels.vocabulary import KERNEL

import netcl_core as nc
from netcl_core.hardware import programs

ELEMENTS, ROW = 1 << 22, 1024
HEAD = f"{KERNEL} void f(__global const float *x, __global float *y, const ulong n)"
#: A kernel's body, and how many work-items it is launched with.
BODIES = {
    "scale": ("size_t i = get_global_id(0); y[i] = 2 * x[i];", ELEMENTS),
    "exp * tanh": ("size_t i = get_global_id(0); y[i] = exp(x[i]) * tanh(x[i]);", ELEMENTS),
    "row sums": (
        "size_t i = get_global_id(0) * n; float s = 0;"
        "for (size_t k = 0; k < n; ++k) s += x[i + k]; y[get_global_id(0)] = s;",
        ELEMENTS // ROW,
    ),
    "standardized rows": (
        "size_t i = get_global_id(0) * n; float s = 0, q = 0;"
        "for (size_t k = 0; k < n; ++k) s += x[i + k]; s /= n;"
        "for (size_t k = 0; k < n; ++k) q += (x[i + k] - s) * (x[i + k] - s); q = rsqrt(q / n);"
        "for (size_t k = 0; k < n; ++k) y[i + k] = (x[i + k] - s) * q;",
        ELEMENTS // ROW,
    ),
}


def best(calls: list[Callable[[], None]], rounds: int) -> list[float]:
    """The best time of each call in milliseconds; they take turns."""
    times = [float("inf")] * len(calls)
    for _ in range(rounds):
        for number, call in enumerate(calls):
            start = time.process_time()
            call()
            times[number] = min(times[number], time.process_time() - start)
    return [1000 * each for each in times]


def main(rounds: int) -> None:
    device = nc.default_device()
    if device.kind != "cpu" or not device.has_kernels:
        sys.exit("needs an OpenCL CPU device")
    flags, queue = cl.mem_flags, device.queue
    data = np.random.default_rng(0).standard_normal(ELEMENTS).astype(np.float32)
    x = cl.Buffer(device.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=data)
    y = cl.Buffer(device.context, flags.READ_WRITE, data.nbytes)
    print(f"{device.name}, {device.platform}; {ELEMENTS:,} elements, best of {rounds}")
    print(f"{'kernel':20}{'read, ms':>10}{'plain, ms':>11}{'compared, ms':>14}{'ratio':>7}")
    for name, (body, items) in BODIES.items():
        source = f"{HEAD} {{ {body} }}"

        def launch(bounds: bool, source: str = source, items: int = items) -> Callable[[], None]:
            kernel = cl.Kernel(programs.build(device, screened(source, bounds), "f"), "f")
            bytes_ = (np.uint64(data.nbytes),) * 2 if bounds else ()
            kernel.set_args(x, y, np.uint64(ROW), *bytes_)

            def call() -> None:
                cl.enqueue_nd_range_kernel(queue, kernel, (items,), None)
                queue.finish()

            call()
            return call

        (read,) = best([lambda source=source: screened(source, True)], 10 * rounds)  # type: ignore[misc]
        plain, compared = best([launch(False), launch(True)], rounds)
        print(f"{name:20}{read:10.2f}{plain:11.2f}{compared:14.2f}{compared / plain:7.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
