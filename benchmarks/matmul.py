"""float32 matrix products: each implementation of `matmul` beside PyTorch and NumPy, in one run.

    python benchmarks/matmul.py [device]

Prints the best of several runs in GFLOP/s.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.ops.implementations import Implementation
from netcl_core.ops.operator_function import operator_function
from netcl_core.ops.operators import Operator
from netcl_core.plugins.registry import registry

SHAPES = ((64, 64, 64), (256, 256, 256), (128, 784, 512), (512, 512, 512), (1024, 1024, 1024))
RUNS = 30


def fastest(call: Callable[[], Any], finish: Callable[[], Any]) -> float:
    """The shortest time of a call in seconds, finished."""
    call()
    times = []
    for _ in range(RUNS):
        finish()
        start = time.perf_counter()
        call()
        finish()
        times.append(time.perf_counter() - start)
    return min(times)


def alternatives(operator: Operator, device: nc.Device) -> Iterator[tuple[str, Any]]:
    """The operator with each of its implementations alone."""
    for each in operator.implementations:
        if each.requires.device_kinds and device.kind not in each.requires.device_kinds:
            continue
        alone = Implementation(each.operator, each.label, each.plan, each.requires)
        fields = {**vars(operator), "implementations": (alone,)}
        yield each.label, operator_function(Operator(**fields))


def main() -> None:
    """Measure and print."""
    if len(sys.argv) > 1:
        nc.use_device(sys.argv[1])
    device = nc.default_device()
    torch = __import__("torch") if importlib.util.find_spec("torch") is not None else None
    random = np.random.default_rng(0)
    row = registry.find_op("matmul")
    print(f"{device!r}, GFLOP/s")
    for rows, inner, columns in SHAPES:
        a = random.standard_normal((rows, inner)).astype(np.float32)
        b = random.standard_normal((inner, columns)).astype(np.float32)
        x, y = nc.tensor(a), nc.tensor(b)
        work = 2e-9 * rows * inner * columns
        speeds = {"NumPy": work / fastest(lambda a=a, b=b: a @ b, lambda: None)}
        if torch is not None:
            p, q = torch.from_numpy(a), torch.from_numpy(b)
            speeds["PyTorch"] = work / fastest(lambda p=p, q=q: p @ q, lambda: None)
        with ag.no_grad():
            for label, function in alternatives(row.record, device):
                finish = device.queue.finish
                speeds[label] = work / fastest(lambda f=function, x=x, y=y: f(x, y), finish)
        shape = f"{rows} x {inner} x {columns}"
        print(f"{shape:20}", *(f"{name} {speed:6.0f}" for name, speed in speeds.items()), sep="  ")


if __name__ == "__main__":
    main()
