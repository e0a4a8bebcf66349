"""What a new index and a new shape cost beside known ones.

    python benchmarks/shapes.py [device]

Microseconds of the calling thread per call, the best of several rounds: the first time
through some indices or batch sizes, and the second time through the same.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable

import netcl_core as nc
import netcl_core.autograd as ag

ROUNDS, CALLS = 14, 60


def measure(call: Callable[[int], object], device: nc.Device) -> tuple[float, float]:
    """A new one and a known one."""
    call(0)
    best = [float("inf"), float("inf")]
    for first in range(1, ROUNDS * CALLS, CALLS):
        for which in range(2):
            best[which] = min(best[which], _time(call, range(first, first + CALLS)))
            if device.queue is not None:
                device.queue.finish()
    return best[0], best[1]


def _time(call: Callable[[int], object], numbers: Iterable[int]) -> float:
    start = time.thread_time()
    for number in numbers:
        call(number)
    return (time.thread_time() - start) / CALLS * 1e6


def main() -> None:
    """Measure and print."""
    if len(sys.argv) > 1:
        nc.use_device(sys.argv[1])
    device = nc.default_device()
    x = nc.Tensor.zeros((1000, 8))
    batches = [nc.Tensor.zeros((size, 4)) for size in range(1, ROUNDS * CALLS + 2)]
    rows: dict[str, Callable[[int], object]] = {
        "x[i]": lambda i: x[i],
        "x[i:]": lambda i: x[i:],
        "transpose": lambda i: ag.transpose(batches[i]),
        "relu": lambda i: ag.relu(batches[i]),
        "add": lambda i: ag.add(batches[i], batches[i]),
        "sum over rows": lambda i: ag.sum(batches[i], 1),
        "softmax": lambda i: ag.softmax(batches[i], 1),
    }
    for name, call in rows.items():
        new, known = measure(call, device)
        print(f"{name:14} known {known:6.1f} us   new {new:6.1f} us   {new / known:5.2f}x")


if __name__ == "__main__":
    main()
