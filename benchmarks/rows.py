"""Reductions, the softmax family and layer_norm beside a device copy and PyTorch, in one run.

    python benchmarks/rows.py [device] [--size LOG2]

LOG2 is that of the number of float32 elements (26 on a GPU, else 22). Prints the best of
several runs, which take turns, in milliseconds,
the ratio to a copy of the same tensor, and the ratio of our time
to PyTorch's (on CUDA if the device is a GPU and CUDA is there, else skipped).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.hardware.device import opencl_module

ROW, RUNS, CALLS = 1024, 12, 8
Calls = dict[str, Callable[[], Any]]


def sums_of(x: Any, add: Callable[..., Any]) -> Calls:
    """Sums of a square matrix over all, the last and the first axis."""
    return {
        "sum, all": lambda: add(x),
        "sum, last axis": lambda: add(x, 1),
        "sum, first axis": lambda: add(x, 0),
    }


def forward_and_backward(
    name: str, forward: Callable[[], Any], backward: Callable[[Any], Any], off: Any
) -> Calls:
    """An op alone, without recording, and with its gradient."""

    def alone() -> None:
        with off():
            forward()

    return {name: alone, f"{name} f+b": lambda: backward(forward())}


def ours(device: nc.Device, data: Any) -> Calls:
    """netcl's calls, and a copy by the driver."""
    square, rows = (nc.tensor(data.reshape(shape)) for shape in shapes(data.size))
    grad = nc.Tensor.from_host(data.reshape(-1, ROW))
    x = nc.tensor(data.reshape(-1, ROW), requires_grad=True)
    w, b = (nc.tensor(data[:ROW], requires_grad=True) for _ in range(2))

    def backward(y: Any) -> None:
        ag.grad(y, [x], grad, retain_graph=True)

    def backward_affine(y: Any) -> None:
        ag.grad(y, [x, w, b], grad, retain_graph=True)

    calls: Calls = {}
    if device.queue is not None:
        target, source = nc.Tensor.empty(rows.shape), grad.buffer
        enqueue = opencl_module().enqueue_copy
        calls["copy"] = lambda: enqueue(device.queue, target.buffer, source, byte_count=data.nbytes)
    calls |= sums_of(square.value, ag.sum)
    calls |= forward_and_backward("softmax", lambda: ag.softmax(x), backward, ag.no_grad)
    calls |= forward_and_backward("log_softmax", lambda: ag.log_softmax(x), backward, ag.no_grad)
    norm = lambda: ag.layer_norm(x, ROW, w, b)  # noqa: E731 - one line like the others
    return calls | forward_and_backward("layer_norm", norm, backward_affine, ag.no_grad)


def theirs(place: str, data: Any) -> Calls:
    """The same in PyTorch's eager mode."""
    torch = importlib.import_module("torch")
    functional = torch.nn.functional
    square, rows = (torch.from_numpy(data.reshape(shape)).to(place) for shape in shapes(data.size))
    x, target = rows.clone().requires_grad_(), torch.empty_like(rows)
    w, b = (torch.from_numpy(data[:ROW].copy()).to(place).requires_grad_() for _ in range(2))

    def backward(y: Any) -> None:
        torch.autograd.grad(y, [x], rows)

    def backward_affine(y: Any) -> None:
        torch.autograd.grad(y, [x, w, b], rows)

    norm = lambda: functional.layer_norm(x, (ROW,), w, b)  # noqa: E731 - as above
    off = torch.no_grad
    return {
        "copy": lambda: target.copy_(rows),
        **sums_of(square, torch.sum),
        **forward_and_backward("softmax", lambda: x.softmax(-1), backward, off),
        **forward_and_backward("log_softmax", lambda: x.log_softmax(-1), backward, off),
        **forward_and_backward("layer_norm", norm, backward_affine, off),
    }


def shapes(size: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """A matrix as square as can be, and rows."""
    side = 1 << (int(math.log2(size)) // 2)
    return (size // side, side), (size // ROW, ROW)


def measured(calls: dict[str, Callable[[], Any]], finish: dict[str, Callable[[], Any]]) -> Any:
    """Milliseconds per call of each side, the best of several runs of several calls, in turn."""
    best = dict.fromkeys(calls, math.inf)
    for run in range(RUNS):
        for side, call in calls.items():
            start = time.perf_counter()
            for _ in range(CALLS if run else 1):  # the first run builds the kernels
                call()
            finish[side]()
            if run:
                best[side] = min(best[side], (time.perf_counter() - start) / CALLS * 1e3)
    return best


def peer(gpu: bool, data: Any) -> tuple[Calls, Callable[[], Any]]:
    """PyTorch's calls; none if it is missing, or has no CUDA where we have a GPU."""
    if importlib.util.find_spec("torch") is None:
        return {}, int
    torch = importlib.import_module("torch")
    if gpu and not torch.cuda.is_available():
        return {}, int
    return theirs("cuda" if gpu else "cpu", data), torch.cuda.synchronize if gpu else int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", nargs="?", default="")
    parser.add_argument("--size", type=int, default=0)
    given = parser.parse_args()
    if given.device:
        nc.use_device(given.device)
    device = nc.default_device()
    gpu = device.kind == "gpu"
    exponent = max(10, given.size or (26 if gpu else 22))
    data = np.random.default_rng(0).standard_normal(1 << exponent, dtype=np.float32)
    mine, (other, wait) = ours(device, data), peer(gpu, data)
    finish = {"ours": device.queue.finish if device.queue is not None else int, "PyTorch": wait}
    square, rows = shapes(data.size)
    print(f"{device!r}, sums of {square}, rows {rows}, float32, ms (ratio to a copy)")
    copy = math.nan
    for name, call in mine.items():
        sides = {"ours": call} | ({"PyTorch": other[name]} if name in other else {})
        times = measured(sides, finish)
        copy = times["ours"] if name == "copy" else copy
        line = f"{name:16} {times['ours']:9.4f} ({times['ours'] / copy:5.2f})"
        if name in other:
            ratio = times["ours"] / times["PyTorch"]
            line += f"   PyTorch {times['PyTorch']:9.4f}   ours / PyTorch {ratio:5.2f}"
        print(line)


if __name__ == "__main__":
    main()
