"""Elementwise ops, a sum and a softmax beside a device copy and PyTorch, in one run.

    python benchmarks/bandwidth.py [device] [log2 of the number of floats]

Prints the best of several runs in milliseconds, and the ratio to a copy of the same tensor.
PyTorch runs on CUDA if the device is a GPU, else on the CPU; it is skipped where missing.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.device.device import opencl_module

RUNS, CALLS = 9, 10


def best(call: Callable[[], Any], finish: Callable[[], Any]) -> float:
    """Milliseconds per call, the best of several runs of several calls."""
    for _ in range(3):
        call()
    finish()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        finish()
        times.append((time.perf_counter() - start) / CALLS * 1e3)
    return min(times)


def ours(device: nc.Device, data: Any) -> dict[str, float]:
    """Times of netcl, and of a copy by the driver."""
    x, y = nc.tensor(data), nc.tensor(data)
    rows = ag.reshape(x, (-1, 1024)).value
    target = nc.Tensor.empty(x.shape)
    finish = device.queue.finish if device.queue is not None else lambda: None
    calls: dict[str, Callable[[], Any]] = {
        "relu": lambda: ag.relu(x),
        "gelu": lambda: ag.gelu(x),
        "add": lambda: ag.add(x, y),
        "sum": lambda: ag.sum(x),
        "softmax of 1,024": lambda: ag.softmax(rows),
    }
    if device.queue is not None:
        enqueue = opencl_module().enqueue_copy
        calls = {
            "copy": lambda: enqueue(device.queue, target.buffer, x.buffer, byte_count=data.nbytes),
            **calls,
        }
    with ag.no_grad():
        return {name: best(call, finish) for name, call in calls.items()}


def theirs(gpu: bool, data: Any) -> dict[str, float]:
    """Times of PyTorch in eager mode."""
    torch = importlib.import_module("torch")
    x = torch.from_numpy(data).to("cuda" if gpu else "cpu")
    y, target = x.clone(), torch.empty_like(x)
    rows = x.reshape(-1, 1024)
    functional = torch.nn.functional
    calls = {
        "copy": lambda: target.copy_(x),
        "relu": lambda: torch.relu(x),
        "gelu": lambda: functional.gelu(x, approximate="tanh"),
        "add": lambda: x + y,
        "sum": lambda: x.sum(),
        "softmax of 1,024": lambda: rows.softmax(-1),
    }
    finish = torch.cuda.synchronize if gpu else (lambda: None)
    return {name: best(call, finish) for name, call in calls.items()}


def main() -> None:
    """Measure and print."""
    if len(sys.argv) > 1:
        nc.use_device(sys.argv[1])
    device = nc.default_device()
    gpu = device.kind == "gpu"
    exponent = int(sys.argv[2]) if len(sys.argv) > 2 else (26 if gpu else 22)
    data = np.random.default_rng(0).standard_normal(1 << exponent).astype(np.float32)
    mine = ours(device, data)
    other = theirs(gpu, data) if importlib.util.find_spec("torch") is not None else {}
    copy = mine.get("copy") or other.get("copy") or float("nan")
    print(f"{device!r}, 2^{exponent} float32, ms (ratio to a copy)")
    for name, time_ms in mine.items():
        line = f"{name:18} {time_ms:9.4f} ({time_ms / copy:5.2f})"
        if name in other:
            line += f"   PyTorch {other[name]:9.4f}   ours / PyTorch {time_ms / other[name]:5.2f}"
        print(line)


if __name__ == "__main__":
    main()
